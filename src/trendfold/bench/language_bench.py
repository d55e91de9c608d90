"""What a clause costs: the same events with and without it, whole runs from a table in memory to results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench.harness import Case, Promise
from trendfold.bench.ways import run

EVENTS, GROUPS, EACH = 4_000_000, 1_000, 12
"""Events, one per millisecond; groups; and events per group and window."""
WINDOW = f"GROUP BY g WITHIN {EACH * GROUPS} ms SLIDE {EACH * GROUPS} ms"
GAP_MS = 2 * GROUPS
SPAN_MS = 1_000

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def cases(seed: int, scale: float) -> list[Case]:
    """A set of types beside one type, a bound on gaps beside none, durations and lengths beside a count.

    And trends of bounded span beside windows of the same length.
    """
    events = max(4 * EACH * GROUPS, int(EVENTS * scale))
    rng = np.random.default_rng(seed)
    code, group = rng.integers(0, 3, events, np.int32), rng.integers(0, GROUPS, events)
    one, mixed = _table(np.zeros(events, np.int32), group), _table(code % 2, group)
    loop, sequence = Expected(np.zeros(events, np.int32), group), Expected(code, group)
    types, gaps, sums = "A+", "A+, any gap", "SEQ(A, B+, C), COUNT(*)"
    windows, spans = "SEQ(A, B+), 1,000 events in a window", Spans(code)
    return [
        _case(types, one, "COUNT(*)", "A+", loop.sets),
        _case("ANY(A, B) x+", mixed, "COUNT(*)", "ANY(A, B) x+", loop.sets, Promise(0.8, types)),
        _case(gaps, one, "COUNT(*)", "A+", loop.sets),
        _case(
            "A+, a bound on gaps",
            one,
            "COUNT(*)",
            f"A+ WHERE TIME(NEXT(A)) - TIME(A) <= {GAP_MS} ms",
            loop.bounded,
            Promise(0.5, gaps),
        ),
        _case(sums, _table(code, group), "COUNT(*)", "SEQ(A, B+, C)", sequence.counted),
        _case(
            "SEQ(A, B+, C), durations and lengths",
            _table(code, group),
            "COUNT(*), AVG(DURATION), AVG(LENGTH)",
            "SEQ(A, B+, C)",
            sequence.averaged,
            Promise(0.6, sums),
        ),
        _case(
            windows,
            _table(code, group),
            "COUNT(*)",
            "SEQ(A, B+)",
            spans.in_windows,
            window=f"WITHIN {SPAN_MS} ms SLIDE {SPAN_MS} ms",
        ),
        _case(
            "SEQ(A, B+), 1,000 events in a span",
            _table(code, group),
            "COUNT(*)",
            "SEQ(A, B+)",
            spans.every,
            Promise(0.3, windows),
            window=f"WITHIN {SPAN_MS} ms EVERY {SPAN_MS} ms",
        ),
    ]


def _table(code: NDArray[np.int32], group: Ints) -> pa.Table:
    types = pa.DictionaryArray.from_arrays(pa.array(code), pa.array(list("ABC")))
    return pa.table({"type": types, "ts": np.arange(len(code)), "g": group})


def _case(
    name: str,
    table: pa.Table,
    returned: str,
    pattern: str,
    expected: Callable[[], Floats],
    *promises: Promise,
    window: str = WINDOW,
) -> Case:
    asked = parse(f"RETURN {returned} PATTERN {pattern} {window}").queries
    floor = promises[0].of if promises else None
    return Case(
        name, run(table, asked, "auto"), len(table), floor, promises, answer=_values, expected=expected
    )


def _values(result: object) -> Floats:
    """The aggregates of the only query, row by row."""
    table = result["q1"]  # type: ignore[index]
    first = 2 + ("g" in table.column_names)
    return np.stack([np.asarray(table.column(i)) for i in range(first, table.num_columns)], axis=1)


class Spans:
    """SEQ(A, B+) by period, in integers: what waits for a B is the sum of 2^(Bs since) over the As."""

    def __init__(self, code: NDArray[np.int32]) -> None:
        self.code = code.tolist()

    def in_windows(self) -> Floats:
        """The trends of each window."""
        return self._periods(keeps=False)

    def every(self) -> Floats:
        """The trends shorter than a window, by their ends."""
        return self._periods(keeps=True)

    def _periods(self, *, keeps: bool) -> Floats:
        found, waiting, seen, before = [], 0, 0, list[int]()
        for time, code in enumerate(self.code):
            if time % SPAN_MS == 0:
                found.append(0.0)
                waiting = waiting if keeps else 0
            if keeps and time >= SPAN_MS and self.code[time - SPAN_MS] == 0:
                waiting -= 1 << (seen - before[time - SPAN_MS])
            before.append(seen)
            if code == 0:
                waiting += 1
            elif code == 1:
                found[-1] += float(waiting)
                waiting, seen = 2 * waiting, seen + 1
        return np.array(found)[:, np.newaxis]


class Expected:
    """The answers by recurrences written for these patterns, by window, then group."""

    def __init__(self, code: NDArray[np.int32], group: Ints) -> None:
        window = np.arange(len(code)) // (EACH * GROUPS) * GROUPS + group
        self.order = np.argsort(window, kind="stable")
        self.code, self.edges = code[self.order], np.append(0, np.cumsum(np.bincount(window)))

    def _groups(self) -> Iterator[tuple[list[int], list[int]]]:
        """The codes and times of every window and group."""
        for low, high in zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True):
            if high > low:
                yield self.code[low:high].tolist(), self.order[low:high].tolist()

    def sets(self) -> Floats:
        """Of n events of A+ there are 2^n - 1 trends."""
        many = np.diff(self.edges)
        return np.asarray(2.0 ** many[many > 0] - 1)[:, np.newaxis]

    def bounded(self) -> Floats:
        """A+ where no two neighbours are further apart than the bound."""
        found = []
        for _, times in self._groups():
            ending: list[float] = []
            for i, time in enumerate(times):
                near = (c for c, then in zip(ending, times[:i], strict=True) if time - then <= GAP_MS)
                ending.append(1.0 + sum(near))
            found.append([sum(ending)])
        return np.array(found)

    def counted(self) -> Floats:
        """The counts alone."""
        return self.averaged()[:, :1]

    def averaged(self) -> Floats:
        """SEQ(A, B+, C): counts, seconds and lengths of trends, the latter on average."""
        found = []
        for codes, times in self._groups():
            count = begun = open_ = 0.0  # whole trends, after A, after B
            sums = [0.0, 0.0]  # of the times and lengths of whole trends,
            of_begun, of_open = [0.0, 0.0], [0.0, 0.0]  # of the starts and lengths of the others
            for code, time in zip(codes, times, strict=True):
                if code == 0:
                    begun, of_begun = begun + 1, [of_begun[0] + time, of_begun[1] + 1]
                elif code == 1:
                    starts = 2 * of_open[0] + of_begun[0]
                    lengths = 2 * of_open[1] + of_begun[1] + begun + open_
                    open_, of_open = 2 * open_ + begun, [starts, lengths]
                else:
                    count += open_
                    sums = [sums[0] + open_ * time - of_open[0], sums[1] + of_open[1] + open_]
            if count:
                found.append([count, sums[0] / count / 1_000, sums[1] / count])
        return np.array(found)
