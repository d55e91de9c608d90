"""How a user wants the joins of RETURN MATCHES to be planned; never which matches are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from trendfold.errors import InputError, nearest

SEARCHES = ("annealing", "tabu")
NEIGHBOURHOODS = {"edge": 2, "vertex": 3}
"""How many patterns one step of a search replans together: N_edge, and N_vertex^3 (MCEP, section 4)."""
_KEYS = ("search", "neighbourhood", "seconds", "statistics")


@dataclass(frozen=True, slots=True)
class JoinPlanning:
    """A search for join plans: its method, its neighbourhood, its time, and rates that are known.

    seconds  None for about as long as joining the rows takes
    rates    per type its events per second; those of other types are measured
    """

    search: str = "annealing"
    neighbourhood: str = "edge"
    seconds: float | None = None
    rates: tuple[tuple[str, float], ...] = ()

    @property
    def together(self) -> int:
        """How many patterns one step replans."""
        return NEIGHBOURHOODS[self.neighbourhood]


def read_planning(given: Mapping[str, Any] | None) -> JoinPlanning | None:
    """The `planning` that a user passed; raises an InputError that says what is wrong with it."""
    if given is None:
        return None
    for key in given:
        if key not in _KEYS:
            hint = nearest(key, _KEYS) or f"known are {', '.join(_KEYS)}"
            raise InputError(f"planning has no {key!r}; {hint}")
    search, near = given.get("search", SEARCHES[0]), given.get("neighbourhood", "edge")
    _require_one_of("search", search, SEARCHES)
    _require_one_of("neighbourhood", near, tuple(NEIGHBOURHOODS))
    seconds = given.get("seconds")
    if seconds is not None and not _is_size(seconds):
        raise InputError(f"planning's seconds must be a number from 0 on, not {seconds!r}")
    return JoinPlanning(
        search, near, None if seconds is None else float(seconds), _rates(given.get("statistics"))
    )


def _rates(given: Any) -> tuple[tuple[str, float], ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(_is_size(rate) for rate in given.values()):
        raise InputError("planning's statistics must be events per second by type, as in {'Login': 12.5}")
    return tuple((str(name), float(rate)) for name, rate in given.items())


def _is_size(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isfinite(value) and value >= 0


def _require_one_of(key: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"planning's {key} must be {' or '.join(map(repr, known))}, not {value!r}")
