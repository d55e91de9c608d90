"""The settings that all queries of a run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.windows import Asked


@dataclass(frozen=True, slots=True)
class Request:
    """The origin of windows, the limits, the arithmetic, and the windows to compute."""

    origin: int = 0
    limits: Limits = DEFAULTS
    arithmetic: str = "auto"
    asked: Asked | None = None
    """Compute only these windows; None for all."""
    running: Mapping[str, Mapping[str, Any]] | None = None
    """On streams, what they store of plans that follow their rates, by the names of a group's queries."""

    @property
    def is_exact(self) -> bool:
        """Whether COUNTs and SUMs of integers are exact where doubles are not."""
        return self.arithmetic != "auto"


EVERYTHING = Request()
"""All windows, with default limits."""
