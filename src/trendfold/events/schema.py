"""The kinds of column values that queries distinguish."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """The kinds of values that queries distinguish; each kind has its own comparisons."""

    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    DURATION = "duration"
    """A difference of times: only conditions have such values, no column."""
    NULL = "null"
    """An all-null column; compatible with every other kind."""
    OTHER = "other"
    """Lists, structs and the like: passed through, never compared."""

    @property
    def is_number(self) -> bool:
        """Whether values can be summed."""
        return self in (Kind.INTEGER, Kind.FLOAT)


Schema: TypeAlias = Mapping[str, Kind]
"""Column names and their kinds."""
