"""Cost tables that were measured on this machine, kept for later runs."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trendfold.errors import TrendfoldError
from trendfold.runtime.staging import make_folder, write_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
