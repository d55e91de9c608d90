"""Which columns of the input mean what, and how times are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trendfold.errors import InputError
from trendfold.events.times import read_format

TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds per tick of a numeric time column."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which columns hold type, time, order and id, and how to read them."""

    type_column: str = "type"
    time_column: str = "ts"
    order_column: str | None = None
    id_column: str | None = None
    time_unit: str = "s"
    on_reject: str = "keep"
    time_format: str | None = None
    """The format of times, as for Python's strptime; None means ISO 8601 or numbers."""
    type_conditions: tuple[Any, ...] = ()
    """Conditions that name the type of each row, of query.row_types; without any the type column does."""

    @property
    def named(self) -> dict[str, str]:
        """The columns every workload reads, by option."""
        options = ("type_column", "time_column", "order_column", "id_column")
        return {option: name for option in options if (name := getattr(self, option)) is not None}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns every workload reads."""
        return tuple(self.named.values())

    @property
    def ticks(self) -> int:
        """Microseconds per unit of a numeric time column."""
        return TICKS[self.time_unit]

    def __post_init__(self) -> None:
        if self.time_unit not in TICKS:
            raise InputError(f"unknown time_unit {self.time_unit!r}; choose one of {', '.join(TICKS)}")
        if self.on_reject not in ("keep", "fail"):
            raise InputError(f"unknown on_reject {self.on_reject!r}; choose 'keep' or 'fail'")
        if self.time_format is not None:
            read_format(self.time_format)  # raises if it is invalid
