"""The cost tables of this machine: measurements of a fraction of a second (see runtime.measuring)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trendfold.errors import TrendfoldError
from trendfold.plan.cost import DEFAULT_COSTS, Costs
from trendfold.plan.papers import offer
from trendfold.plan.statistics import GroupStatistics
from trendfold.runtime.staging import make_folder, write_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def costs_for(known: GroupStatistics) -> Costs:
    """The costs to choose by: measured on this machine where a shared plan may pay, else the defaults."""
    return replace(costs_here(), sharing=offer().sharing_costs_here()) if known.work else DEFAULT_COSTS


def costs_here() -> Costs:
    """What this machine needs, measured unless an earlier run has done so."""
    if (known := kept(Costs)) is not None:
        return known
    from trendfold.runtime.measuring import measure  # which runs queries, and they ask for costs

    return keep(measure())


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


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
