"""What all queries of a run are asked with."""

from __future__ import annotations

from dataclasses import dataclass

from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.windows import Asked


@dataclass(frozen=True, slots=True)
class Request:
    """Where windows are counted from, the limits, the arithmetic, and which windows are asked for."""

    origin: int = 0
    limits: Limits = DEFAULTS
    arithmetic: str = "auto"
    asked: Asked | None = None
    """Only these windows; None for all."""


EVERYTHING = Request()
"""All windows, by the usual limits."""
