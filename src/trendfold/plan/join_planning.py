"""How a user wants the joins of RETURN MATCHES to be planned; never which matches are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trendfold.errors import InputError, nearest
from trendfold.plan.stream_statistics import StreamStatistics, is_size, read_rates

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
    if seconds is not None and not is_size(seconds):
        raise InputError(f"planning's seconds must be a number from 0 on, not {seconds!r}")
    rates = given.get("statistics")
    known = () if rates is None else tuple(read_rates(rates, "planning's statistics").items())
    return JoinPlanning(search, near, None if seconds is None else float(seconds), known)


def with_rates(planning: JoinPlanning | None, statistics: StreamStatistics | None) -> JoinPlanning | None:
    """The planning, with the rates of an earlier run where it names none itself."""
    if statistics is None or not statistics.rates or (planning is not None and planning.rates):
        return planning
    return replace(planning or JoinPlanning(), rates=tuple(statistics.rates.items()))


def _require_one_of(key: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"planning's {key} must be {' or '.join(map(repr, known))}, not {value!r}")
