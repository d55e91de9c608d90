"""The cost tables of this machine: measurements of a fraction of a second (see runtime.measuring)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trendfold.errors import TrendfoldError
from trendfold.plan import QueryPlan
from trendfold.plan.costs import Costs
from trendfold.plan.workload import can_be_lanes, windows_at_once, with_groups
from trendfold.runtime.rows import Rows
from trendfold.runtime.staging import make_folder, write_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def with_costs(plans: Sequence[QueryPlan], costs: Costs) -> tuple[QueryPlan, ...]:
    """The plans, with the cost table in the groups that choose by it."""
    return with_groups(
        plans, lambda group: replace(group, details=costs) if group.method == "lanes" else group
    )


@cache
def known_costs() -> Costs:
    """What an earlier run has measured, or what one machine had."""
    return kept(Costs) or Costs()


WORTH_MEASURING = 200_000
"""Rows from which on a choice by costs matters more than the time that measuring them takes."""


def costs_for(rows: int) -> Costs:
    """The costs to choose by: measured ones where the rows are many enough to pay for measuring."""
    return costs_here() if rows >= WORTH_MEASURING else known_costs()


def costs_here() -> Costs:
    """What this machine needs, measured unless an earlier run has done so."""
    if (known := kept(Costs)) is not None:
        return known
    from trendfold.runtime.measuring import measure  # which runs queries, and they ask for costs

    costs = keep(measure())
    known_costs.cache_clear()
    return costs


Table = TypeVar("Table", bound="DataclassInstance")
"""A cost table: a frozen dataclass of numbers."""


def kept(table: type[Table]) -> Table | None:
    """A cost table that an earlier run has measured, if there is one."""
    place = _place(table)
    try:
        return table(**json.loads(place.read_text(encoding="utf-8"))) if place is not None else None
    except (OSError, ValueError, TypeError):
        return None


def keep(costs: Table) -> Table:
    """Write a cost table down for later runs; where that is not possible they measure again."""
    place = _place(type(costs))
    if place is not None:
        with suppress(OSError, TrendfoldError):  # measured again the next time
            make_folder(place.parent)
            write_files({place: lambda file: file.write(json.dumps(asdict(costs)).encode())})
    return costs


def _place(table: type[DataclassInstance]) -> Path | None:
    """A file per machine, version of the kernels, and what is measured; None for a user without a home."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if home.startswith("~"):
        return None
    named = (
        platform.machine(),
        platform.processor(),
        platform.node(),
        _version("trendfold"),
        _version("numba"),
        *(field.name for field in fields(table)),
    )
    key = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    return Path(home) / "trendfold" / f"costs-{key}.json"


def pays_as_lanes(plan: QueryPlan, rows: Rows) -> bool:
    """Whether a query that is alone is better off as lanes: its rows come in bursts, and it only counts."""
    if not plan.shares_windows or not can_be_lanes(plan) or plan.qualified_keys:
        return False
    carried = plan.operands[0].carried
    if carried.width > 1 or carried.extremes:
        return False
    symbol = rows.symbols[0][:_LOOKED_AT]
    burst = len(symbol) / (1 + np.count_nonzero(symbol[1:] != symbol[:-1]))
    return known_costs().pays_alone(burst, windows_at_once(plan) // 8 + 1)


_LOOKED_AT = 1 << 16
"""Rows from which the size of bursts is told."""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
