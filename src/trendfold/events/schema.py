"""What a column holds, as far as a query can tell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """The kinds of value a query tells apart; each has its own comparisons."""

    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "boolean"
    TIME = "time"
    NULL = "null"
    """A column without a single value; it goes with every other kind."""
    OTHER = "other"
    """Lists, structs and the like: may be carried along, never compared."""

    @property
    def is_number(self) -> bool:
        """Whether values can be added up."""
        return self in (Kind.INTEGER, Kind.FLOAT)


Schema: TypeAlias = Mapping[str, Kind]
"""Column names and what they hold."""
