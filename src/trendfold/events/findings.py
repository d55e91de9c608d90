"""Observations made while reading events: rejects by kind, truncated times, implausible numeric times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from trendfold.events.options import Options
from trendfold.events.times import suggested_formats

NULL_TYPE, NULL_TIME, NULL_ORDER = "null type", "null time", "null order"
UNPARSABLE, OUT_OF_RANGE = "unparsable time", "time out of range"

FAR_YEAR = 2200
_FAR = int(np.datetime64(f"{FAR_YEAR}-01-01", "us").astype(np.int64))
_SHOWN = 80
"""The most characters of an example that are shown."""


@dataclass(frozen=True)
class Findings:
    """Findings about some of the events; those of several parts can be added.

    rejects   how many, by kind
    examples  a value, by kind
    cut       times finer than a microsecond
    numbers   times given as numbers
    dates     by format, how many of these look like a date written as a number
    far       how many of these lie after FAR_YEAR
    odd       an example of `dates` or `far`, and the time it is read as
    """

    rejects: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    numbers: int = 0
    dates: Mapping[str, int] = field(default_factory=dict)
    far: int = 0
    odd: tuple[str, str] = ("", "")

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            dict(Counter(self.rejects) + Counter(other.rejects)),
            {**other.examples, **self.examples},
            self.cut + other.cut,
            self.numbers + other.numbers,
            dict(Counter(self.dates) + Counter(other.dates)),
            self.far + other.far,
            self.odd if self.odd[0] else other.odd,
        )

    def to_json(self) -> bytes:
        """Serialize, to send from a task."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(text: bytes) -> Findings:
        """Deserialize."""
        value = json.loads(text)
        return Findings(**value | {"odd": tuple(value["odd"])})

    def warnings(self, events: int, options: Options) -> tuple[str, ...]:
        """Warnings for the user; the first says if most of the `events` rows are rejected."""
        found = [self._mostly_rejected(events, options), self._cut(), self._odd_numbers(options)]
        return tuple(told for told in found if told)

    def _mostly_rejected(self, events: int, options: Options) -> str:
        rejects = sum(self.rejects.values())
        if 2 * rejects <= events:
            return ""
        kind = max(self.rejects, key=lambda name: self.rejects[name])
        why = because(kind, self.examples.get(kind, ""), options)
        most = "" if len(self.rejects) == 1 else "most of them "
        return f"{rejects:,} of {events:,} rows are rejected, {most}because {why}"

    def _cut(self) -> str:
        if not self.cut:
            return ""
        told = "1 time is finer than a microsecond and was" if self.cut == 1 else ""
        told = told or f"{self.cut:,} times are finer than a microsecond and were"
        return f"{told} truncated to microseconds"

    def _odd_numbers(self, options: Options) -> str:
        number, time = self.odd
        column = options.time_column
        for written, count in self.dates.items():
            if count == self.numbers:
                return (
                    f"the numbers in {column!r} look like dates: {number} is read as {time} in "
                    f"time_unit={options.time_unit!r}; pass time_format={written!r} if they are"
                )
        if not self.far:
            return ""
        told = f"{self.far:,} times in {column!r} lie" if self.far > 1 else f"1 time in {column!r} lies"
        hint = _unit_hint(number)
        return f"{told} after the year {FAR_YEAR}: {number} is read as {time}{hint and f'; {hint}'}"


def because(kind: str, example: str, options: Options) -> str:
    """Why rows are rejected, and how to fix it."""
    column = options.time_column
    if kind == NULL_TYPE and options.type_conditions:
        return "no condition of type_expr holds; a last type with the condition TRUE keeps such rows"
    shown = repr(example if len(example) <= _SHOWN else f"{example[:_SHOWN]}...")
    for null, name, option in (
        (NULL_TYPE, options.type_column, "type_column"),
        (NULL_TIME, column, "time_column"),
        (NULL_ORDER, options.order_column, "order_column"),
    ):
        if kind == null:
            return f"{name!r} is null; is another column the {option}?"
    if kind == UNPARSABLE:
        fails = "is not an ISO 8601 time" if options.time_format is None else ""
        fails = fails or f"time_format={options.time_format!r} does not read"
        return f"{column!r} holds {shown}, which {fails}; {_format_hint(example)}"
    if kind == OUT_OF_RANGE:
        told = f"{column!r} holds {example}, which is out of range in time_unit={options.time_unit!r}"
        return f"{told}; {_unit_hint(example) or 'check the column'}"
    told = f"{kind}, such as {shown}" if example else kind
    return f"{told}; {_format_hint(example)}" if kind.startswith(f"column {column!r} holds") else told


def _format_hint(example: str) -> str:
    formats = suggested_formats(example)
    if not formats:
        return "pass time_format, written as for Python's strptime, or name another time_column"
    return "pass " + " or ".join(f"time_format={written!r}" for written in formats)


def _unit_hint(number: str) -> str:
    """A hint for the unit in which a number would be a plausible date."""
    seconds = abs(float(number or 0))
    for unit, ticks in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        if _is_near(seconds / ticks):
            return f"pass time_unit={unit!r} if that is its unit"
    if _is_near(seconds / 10**9):
        return "if it counts nanoseconds, divide it by 1,000 and pass time_unit='us'"
    return ""


def _is_near(seconds: float) -> bool:
    """Whether a time lies between the 1980s and FAR_YEAR."""
    return 10 * 365 * 86_400 <= seconds < _FAR / 10**6


# ---------------------------------------------------------------- implausible numbers

_DATE_DIGITS = {"%Y%m%d": 0, "%Y%m%d%H%M": 4, "%Y%m%d%H%M%S": 6}
"""Formats of dates written as one number, and the digits after the day."""


def odd_numbers(values: NDArray[np.integer] | NDArray[np.floating], micros: NDArray[np.int64]) -> Findings:
    """Check numeric times: `values` as given, `micros` as interpreted."""
    if not len(values):
        return Findings()
    low, latest = values.min(), micros.max()
    dates = {
        written: len(values)
        for written, digits in _DATE_DIGITS.items()
        if low >= 19_000_101 * 10**digits and _are_dates(values, digits)
    }
    far = int((micros >= _FAR).sum()) if latest >= _FAR else 0
    odd = ("", "")
    if far or dates:
        number = values[micros.argmax()]
        time = str(np.datetime64(int(latest), "us").astype("datetime64[s]"))
        odd = (str(int(number) if number == int(number) else number), time)
    return Findings(numbers=len(values), dates=dates, far=far, odd=odd)


def _are_dates(values: NDArray[np.integer] | NDArray[np.floating], digits: int) -> bool:
    """Whether every number is a date before FAR_YEAR, followed by `digits` digits of a time of day."""
    if values.max() >= FAR_YEAR * 10_000 * 10**digits:
        return False
    whole = values.astype(np.int64)
    day, clock = np.divmod(whole, 10**digits)
    fits = (whole == values) & (day % 100 >= 1) & (day % 100 <= 31)
    fits &= (day // 100 % 100 >= 1) & (day // 100 % 100 <= 12)
    for at, most in zip(range(digits - 2, -1, -2), (24, 60, 60), strict=False):
        fits &= clock // 10**at % 100 < most
    return bool(fits.all())


def sum_of(findings: Iterable[Findings]) -> Findings:
    """The sum of the findings of all parts."""
    return sum(findings, Findings())
