"""How a user wants the joins of RETURN MATCHES to be planned; never which matches are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trendfold.errors import InputError, nearest
from trendfold.plan.stream_statistics import (
    NamedStatistics,
    StreamStatistics,
    is_size,
    read_rates,
    read_statistics,
)

SEARCHES = ("annealing", "tabu")
NEIGHBOURHOODS = {"edge": 2, "vertex": 3}
"""How many patterns one step of a search replans together: N_edge, and N_vertex^3 (MCEP, section 4)."""
_KEYS = ("search", "neighbourhood", "seconds", "statistics")


@dataclass(frozen=True, slots=True)
class JoinPlanning:
    """A search for join plans: its method, its neighbourhood, its time, and statistics that are known.

    seconds  None for about as long as joining the rows takes
    rates    per type its events per second, wherever it stands; those of other types are measured
    known    statistics of an earlier run; one run has the same for all plans, which need not compare it
    """

    search: str = "annealing"
    neighbourhood: str = "edge"
    seconds: float | None = None
    rates: tuple[tuple[str, float], ...] = ()
    known: NamedStatistics = field(default=NamedStatistics(), compare=False)

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
    own = given.get("statistics")
    planning = JoinPlanning(search, near, None if seconds is None else float(seconds))
    if isinstance(own, Mapping) and any(isinstance(each, Mapping) for each in own.values()):
        return with_statistics(planning, read_statistics(own))
    rates = {} if own is None else read_rates(own, "planning's statistics")
    return replace(planning, rates=tuple(rates.items()))


def with_statistics(
    planning: JoinPlanning | None, statistics: StreamStatistics | None
) -> JoinPlanning | None:
    """The planning with the statistics of an earlier run, unless it has some itself.

    Rates of a whole stream are those of types without partitions and conditions.
    """
    if statistics is None or (planning is not None and (planning.rates or planning.known)):
        return planning
    joins = statistics.joins
    known = replace(joins, rates={**statistics.rates, **joins.rates})
    return replace(planning or JoinPlanning(), known=known) if known else planning


def _require_one_of(key: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"planning's {key} must be {' or '.join(map(repr, known))}, not {value!r}")
