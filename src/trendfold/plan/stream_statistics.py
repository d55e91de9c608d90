"""How often events of each type come, as a run or a sample found it: for plans made before rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from trendfold.errors import InputError, nearest

_KEYS = ("rates",)


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Statistics of a stream: `rates` are events per second by type."""

    rates: Mapping[str, float] = field(default_factory=dict)

    def to_value(self) -> dict[str, Any]:
        """As a JSON value, as `read_statistics` takes it."""
        return {"rates": dict(self.rates)}


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
            hint = nearest(str(key), _KEYS) or "known is 'rates', events per second by type"
            raise InputError(f"statistics has no {key!r}; {hint}")
    return StreamStatistics(read_rates(given.get("rates", {}), "statistics' rates"))


def read_rates(given: Any, what: str) -> dict[str, float]:
    """Events per second by type; `what` names them in an error."""
    if not isinstance(given, Mapping) or not all(is_size(rate) for rate in given.values()):
        raise InputError(f"{what} must be events per second by type, as in {{'Login': 12.5}}")
    return {str(name): float(rate) for name, rate in given.items()}


def is_size(value: Any) -> bool:
    """Whether a value is a finite number from 0 on."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and isfinite(value) and value >= 0
