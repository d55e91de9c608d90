"""How often events of each type come, as a run or a sample found it: for plans made before rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from trendfold.errors import InputError, nearest

_KEYS = ("rates", "joins")


@dataclass(frozen=True, slots=True)
class NamedStatistics:
    """The statistics of joins by names that outlive a run: what a run measured, or what a user knows.

    rates          events per second of a partition, by type, or by type and conditions on the event
    shares         the same as a share of the partition's events, for windows that count events
    selectivities  the share of pairs in one window for which the conditions of a pattern of two hold
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rates or self.shares or self.selectivities)

    def to_value(self) -> dict[str, dict[str, float]]:
        """As a JSON value."""
        return {name: dict(getattr(self, name)) for name in OF_JOINS}

    def plus(self, other: NamedStatistics, weight: float) -> NamedStatistics:
        """With those of other rows; where both know a number, `weight` is the share of the others."""
        return NamedStatistics(
            *(_mixed(getattr(self, name), getattr(other, name), weight) for name in OF_JOINS)
        )


OF_JOINS = ("rates", "shares", "selectivities")


def _mixed(ours: Mapping[str, float], theirs: Mapping[str, float], weight: float) -> dict[str, float]:
    both = {name: ours[name] + weight * (theirs[name] - ours[name]) for name in ours if name in theirs}
    return {**ours, **theirs, **both}


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Statistics of a stream: `rates` are events per second by type, `joins` those of RETURN MATCHES."""

    rates: Mapping[str, float] = field(default_factory=dict)
    joins: NamedStatistics = field(default_factory=NamedStatistics)

    def to_value(self) -> dict[str, Any]:
        """As a JSON value, as `read_statistics` takes it."""
        return {"rates": dict(self.rates), **({"joins": self.joins.to_value()} if self.joins else {})}


def statistics_of(counts: Mapping[str, int], span_us: int) -> StreamStatistics:
    """Statistics of events that were counted by type over a span of time; one moment counts as a second."""
    seconds = span_us / 1e6 or 1.0
    return StreamStatistics({name: count / seconds for name, count in sorted(counts.items()) if count})


def read_statistics(given: Mapping[str, Any] | None) -> StreamStatistics | None:
    """The `statistics` that a user passed; raises an InputError that says what is wrong with them."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InputError(
            f"statistics must be like result.statistics of an earlier run, {{'rates': {{'Login': 12.5}}}}, "
            f"not {type(given).__name__}"
        )
    for key in given:
        if key not in _KEYS:
            hint = nearest(str(key), _KEYS) or "known are 'rates', events per second by type, and 'joins'"
            raise InputError(f"statistics has no {key!r}; {hint}")
    return StreamStatistics(
        read_rates(given.get("rates", {}), "statistics' rates"), _read_joins(given.get("joins", {}))
    )


def _read_joins(given: Any) -> NamedStatistics:
    """What `NamedStatistics.to_value` gave, or a part of it."""
    if not isinstance(given, Mapping):
        raise InputError("statistics' joins must be like result.statistics['joins'] of an earlier run")
    for key in given:
        if key not in OF_JOINS:
            hint = nearest(str(key), OF_JOINS) or f"known are {', '.join(OF_JOINS)}"
            raise InputError(f"statistics' joins have no {key!r}; {hint}")
    found = NamedStatistics(*(read_rates(given.get(n, {}), f"statistics' {n} of joins") for n in OF_JOINS))
    if any(share > 1 for share in (*found.shares.values(), *found.selectivities.values())):
        raise InputError("statistics' shares and selectivities of joins must be numbers from 0 to 1")
    return found


def read_rates(given: Any, what: str) -> dict[str, float]:
    """Events per second by type; `what` names them in an error."""
    if not isinstance(given, Mapping) or not all(is_size(rate) for rate in given.values()):
        raise InputError(f"{what} must be events per second by type, as in {{'Login': 12.5}}")
    return {str(name): float(rate) for name, rate in given.items()}


def is_size(value: Any) -> bool:
    """Whether a value is a finite number from 0 on."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isfinite(value) and value >= 0
