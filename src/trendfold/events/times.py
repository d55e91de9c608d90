"""Parse times into UTC microseconds: ISO 8601, a custom format, or numbers in a unit.

All functions work on whole columns. Text without an offset is UTC; times finer than a microsecond are
truncated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import InputError

Array: TypeAlias = "pa.Array[Any]"

LONGEST = 2**62
"""Times beyond this many microseconds are out of range."""


@dataclass(frozen=True)
class Times:
    """Times in microseconds, row by row.

    is_time   whether the row has a time; if not, its microseconds are 0
    is_finer  whether the time was finer than a microsecond, and was truncated
    """

    micros: NDArray[np.int64]
    is_time: NDArray[np.bool_]
    is_finer: NDArray[np.bool_]

    def put(self, rows: NDArray[np.int64], times: Times) -> None:
        """Set the times of some rows."""
        self.micros[rows], self.is_time[rows] = times.micros, times.is_time
        self.is_finer[rows] = times.is_finer

    def take(self, rows: NDArray[np.int64]) -> Times:
        """The times of some rows."""
        return Times(self.micros[rows], self.is_time[rows], self.is_finer[rows])


def no_times(rows: int) -> Times:
    """Rows without a time."""
    return Times(np.zeros(rows, np.int64), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))


def flat_text(data: pa.ChunkedArray) -> Array:
    """A text column as one chunk, with surrounding blanks stripped."""
    flat = data.cast(pa.large_string()).combine_chunks()
    text = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    return pc.utf8_trim_whitespace(text)


def matches(text: Array, pattern: str) -> NDArray[np.bool_]:
    """Where a regular expression matches."""
    found: NDArray[np.bool_] = pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(
        zero_copy_only=False
    )
    return found


# ---------------------------------------------------------------- ISO 8601

_ISO = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d+)?)?)?"
    r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?$"
)
_OFFSET = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"


def read_iso(text: Array) -> Times:
    """Parse ISO 8601: `2024-02-29T12:00:00.25+01:00`, `2024-02-29 12:00` or `2024-02-29`."""
    found, fits = no_times(len(text)), matches(text, _ISO)
    long = fits & matches(text, r"\.\d{7}")
    if long.any():
        found.is_finer[:] = long & matches(text, r"\.\d{6}0*[1-9]")
        text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    zoned = fits & matches(text, _OFFSET)
    for rows, kind in ((zoned, pa.timestamp("us", "UTC")), (fits & ~zoned, pa.timestamp("us"))):
        micros, is_time = cast_each(text.filter(pa.array(rows)), kind)
        found.micros[rows] = pc.fill_null(micros.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        found.is_time[rows] = is_time
    return found


def cast_each(text: Array, kind: pa.DataType) -> tuple[Array, NDArray[np.bool_]]:
    """Cast a whole array; if a value fails, bisect to isolate it and make it null."""
    try:
        return text.cast(kind), np.ones(len(text), np.bool_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(text) == 1:
            return pa.nulls(1, kind), np.zeros(1, np.bool_)
        half = len(text) // 2
        low, high = cast_each(text[:half], kind), cast_each(text[half:], kind)
        return pa.concat_arrays([low[0], high[0]]), np.concatenate([low[1], high[1]])


# ---------------------------------------------------------------- numbers

WHOLE = r"^[+-]?\d+$"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True)
class NumericTimes:
    """Parsed numbers and the times they mean; `is_number` holds even if the time is out of range."""

    times: Times
    values: NDArray[np.float64]
    is_number: NDArray[np.bool_]


def read_numbers(text: Array, ticks: int) -> NumericTimes:
    """Parse numbers in units of `ticks` microseconds; integers are exact, others rounded."""
    found, is_number = no_times(len(text)), matches(text, NUMBER)
    values = np.zeros(len(text))
    values[is_number] = text.filter(pa.array(is_number)).cast(pa.float64()).to_numpy(zero_copy_only=False)
    exact = values * ticks
    found.is_time[:] = is_number & (np.abs(exact) < LONGEST)
    found.micros[:] = np.rint(np.where(found.is_time, exact, 0))
    whole = found.is_time & matches(text, WHOLE)
    digits = pc.replace_substring_regex(text.filter(pa.array(whole)), r"^\+", "")
    found.micros[whole] = _whole(digits) * ticks
    return NumericTimes(found, values, is_number)


# ---------------------------------------------------------------- custom formats

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"

_DIRECTIVES = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d{2})",
    "m": r"(?P<m>1[0-2]|0[1-9]|[1-9])",
    "b": rf"(?P<b>{'|'.join(_MONTHS)})",
    "B": rf"(?P<b>{_LONG_MONTHS})",
    "d": r"(?P<d>3[01]|[12]\d|0[1-9]|[1-9])",
    "j": r"(?P<j>36[0-6]|3[0-5]\d|[12]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0[1-9]|[1-9])",
    "H": r"(?P<H>2[0-3]|[01]\d|\d)",
    "I": r"(?P<I>1[0-2]|0[1-9]|[1-9])",
    "p": r"(?P<p>am|pm)",
    "M": r"(?P<M>[0-5]\d|\d)",
    "S": r"(?P<S>[0-5]\d|\d)",
    "f": r"(?P<f>\d+)",
    "z": r"(?P<z>z|[+-]\d\d(?::?[0-5]\d)?)",
    "a": "(?:mon|tue|wed|thu|fri|sat|sun)",
    "A": f"(?:{_DAYS})",
    "%": "%",
}
"""The % directives of a format, as in Python's strptime, and the text each matches."""


@cache
def read_format(written: str) -> TimeFormat:
    """Parse a format such as `%d/%m/%Y %H:%M`; an unknown directive or a missing year is an InputError."""
    pattern, names, rest = "", set[str](), written
    while rest:
        literal, percent, rest = rest.partition("%")
        pattern += re.sub(r"(\\?\s)+", r"\\s+", re.escape(literal))
        if not percent:
            break
        name, rest = rest[:1], rest[1:]
        if name not in _DIRECTIVES:
            raise _wrong(written, f"has the unknown directive '%{name}'; it takes %{' %'.join(_DIRECTIVES)}")
        if name in names:
            raise _wrong(written, f"has '%{name}' twice; leave one out")
        names |= {name} - set("%")
        pattern += _DIRECTIVES[name]
    for one, other in (("Y", "y"), ("b", "B"), ("m", "b"), ("m", "B"), ("H", "I"), ("j", "m"), ("j", "d")):
        if {one, other} <= names:
            raise _wrong(written, f"has both '%{one}' and '%{other}'; leave one out")
    if not names & {"Y", "y"}:
        raise _wrong(written, "has no year; write it as Python's strptime does, such as '%d/%m/%Y %H:%M'")
    return TimeFormat(written, f"(?i)^{pattern}$")


def _wrong(written: str, why: str) -> InputError:
    return InputError(f"time_format {written!r} {why}")


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A time format, and the regular expression for text in that format."""

    written: str
    pattern: str

    def read(self, text: Array) -> Times:
        """Parse text; values that do not match, or impossible dates such as 31 February, are no times."""
        coded = text.dictionary_encode()  # many events have equal times, and parsing is slow
        parts = pc.extract_regex(coded.dictionary, pattern=self.pattern)
        fits = parts.is_valid().to_numpy(zero_copy_only=False)
        times = no_times(len(coded.dictionary) + 1)  # the last is for null
        if fits.any():
            parts = parts.filter(pa.array(fits))
            names = {parts.type.field(i).name for i in range(parts.type.num_fields)}
            read = _assembled({name: pc.struct_field(parts, name) for name in names})
            times.put(np.flatnonzero(fits), read)
        return times.take(pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def _assembled(parts: Mapping[str, Array]) -> Times:
    """Assemble times from the parts that the directives matched."""
    rows = len(next(iter(parts.values())))

    def number(name: str, default: int) -> NDArray[np.int64]:
        return _whole(parts[name]) if name in parts else np.full(rows, default, np.int64)

    year = number("Y", 0)
    if "y" in parts:
        short = number("y", 0)
        year = short + np.where(short < 69, 2000, 1900)
    month = number("m", 1)
    if "b" in parts:
        words = pc.utf8_slice_codeunits(pc.utf8_lower(parts["b"]), 0, 3)
        month = 1 + pc.index_in(words, pa.array(_MONTHS, words.type)).to_numpy().astype(np.int64)
    first, after = _month_starts(year, month)
    day = number("d", 1)
    is_time = day <= after - first
    if "j" in parts:
        day, after = number("j", 1), _month_starts(year + 1, month)[0]
        is_time = day <= after - first
    hour = number("H", 0)
    if "I" in parts:
        hour = number("I", 12) % 12
    if "p" in parts:
        is_late = pc.equal(pc.utf8_lower(parts["p"]), "pm").to_numpy(zero_copy_only=False)
        hour = hour % 12 + 12 * is_late
    fraction, is_finer = _fraction(parts["f"]) if "f" in parts else (np.zeros(rows, np.int64), False)
    offset = _offset(parts["z"]) if "z" in parts else np.zeros(rows, np.int64)
    minutes = (first + day - 1) * 1440 + hour * 60 + number("M", 0) - offset
    micros = (minutes * 60 + number("S", 0)) * 1_000_000 + fraction
    return Times(np.where(is_time, micros, 0), is_time, is_time & is_finer)


def _whole(digits: Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = digits.cast(pa.int64()).to_numpy()
    return found


def _month_starts(year: NDArray[np.int64], month: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first day of a month and of the next month, in days since 1970."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first, after = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]")
    return first.astype(np.int64), after.astype(np.int64)


def _fraction(digits: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Fraction digits as microseconds, and where nonzero digits were truncated."""
    six = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, 6), 6, "0")
    return _whole(six), matches(digits, r"^\d{6}0*[1-9]")


def _offset(text: Array) -> NDArray[np.int64]:
    """UTC offset in minutes from `Z`, `+01`, `+0130` or `+01:30`."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(text, r"[^0-9]", ""), 4, "0")
    number = _whole(digits)
    west = pc.starts_with(text, "-").to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = np.where(west, -1, 1) * (number // 100 * 60 + number % 100)
    return found


# ---------------------------------------------------------------- formats to suggest

_DATES = [
    *("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%Y.%m.%d", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d %Y", "%b %d, %Y"),
    *("%B %d, %Y", "%a, %d %b %Y", "%Y%m%d"),
]
_CLOCKS = ["", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%H%M", "%H%M%S"]
_COMMON = [
    *(f"{date} {clock}".strip() for date, clock in product(_DATES, _CLOCKS)),
    *(f"{date} {clock} %z" for date, clock in product(_DATES, _CLOCKS) if clock),
    *(f"%Y%m%d{between}{clock}" for between, clock in product(("", "T"), ("%H%M", "%H%M%S", "%H%M%S%z"))),
    "%d/%b/%Y:%H:%M:%S %z",
    "%a %b %d %H:%M:%S %Y",
    "%Y-%m-%dT%H:%M:%S,%f",
    "%Y-%m-%d %H:%M:%S,%f",
]


def suggested_formats(example: str) -> list[str]:
    """The common formats that match a value; two if day and month are ambiguous."""
    text = pa.array([example.strip()], pa.large_string())
    found = [written for written in _COMMON if read_format(written).read(text).is_time[0]]
    return [written for written in found if sorted(written) == sorted(found[0])][:2]
