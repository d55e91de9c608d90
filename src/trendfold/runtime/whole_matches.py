"""From joined partial matches to whole ones: adds walked elements, checks NOT at the ends (spec 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.breaking import with_conditions
from trendfold.detect.clauses import Beside, Clause
from trendfold.detect.join import SPAN, PartialMatches
from trendfold.detect.joint_queries import JointQueries, walk_machine
from trendfold.detect.row_ranges import Reaches, RowNumbers, RowRanges
from trendfold.detect.walk import (
    IS_DONE,
    TRIED,
    WalkBounds,
    WalkedTrends,
    append_walked,
    new_walk,
    walk_element,
)
from trendfold.kernel.breakers import any_breaks
from trendfold.kernel.lower import SEMANTICS, lower_paths
from trendfold.kernel.program import Events, Pairs, Paths
from trendfold.plan import QueryPlan
from trendfold.plan.carried import Carried
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.windows import Asked

PORTION = 1 << 16
"""The most trends that one call of a walk returns."""
_FIRST_PORTION = 64
"""... and the fewest that the first call is asked for, even if LIMIT needs fewer."""
_BINDING_BYTES = 32
"""Approximate memory of an event of a match until it is in a table."""


@dataclass(frozen=True)
class MatchBindings:
    """Matches as bindings: match k has the rows row[start[k] : start[k + 1]], and the positions beside them.

    start     int64[n+1]
    row       int32[]     into the rows of the joint queries
    position  int32[]     into the positions of the joint queries
    """

    start: NDArray[np.int64]
    row: RowNumbers
    position: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start) - 1

    def least(self) -> RowNumbers:
        """The first row of every match."""
        return np.minimum.reduceat(self.row, self.start[:-1]) if len(self) else self.row

    def most(self) -> RowNumbers:
        """The last row of every match."""
        return np.maximum.reduceat(self.row, self.start[:-1]) if len(self) else self.row

    def keep(self, kept: NDArray[np.bool_]) -> MatchBindings:
        """The matches for which `kept` is true."""
        if kept.all():
            return self
        sizes = np.diff(self.start)
        inside = np.repeat(kept, sizes)
        start = np.concatenate([[0], np.cumsum(sizes[kept])])
        return MatchBindings(start, self.row[inside], self.position[inside])

    def take(self, order: NDArray[np.integer]) -> MatchBindings:
        """The matches in another order."""
        sizes = np.diff(self.start)[order]
        start = np.concatenate([[0], np.cumsum(sizes)])
        at = np.repeat(self.start[order] - start[:-1], sizes) + np.arange(start[-1])
        return MatchBindings(start, self.row[at], self.position[at])


def concatenated(parts: Sequence[MatchBindings]) -> MatchBindings:
    """The matches of all parts."""
    if len(parts) == 1:
        return parts[0]
    sizes = [np.diff(part.start) for part in parts]
    nothing = np.zeros(0, np.int32)
    return MatchBindings(
        np.concatenate([[0], np.cumsum(np.concatenate([*sizes, np.zeros(0, np.int64)]))]),
        np.concatenate([nothing, *(part.row for part in parts)]),
        np.concatenate([nothing, *(part.position for part in parts)]),
    )


@dataclass(frozen=True, slots=True)
class MatchChoice:
    """Which matches are wanted.

    ends   those whose last event is at a time in [ends[0], ends[1])
    asked  those that are complete in (after, until] and begin in (since, begin_by]; see release.MatchRelease
    """

    ends: tuple[int, int] | None = None
    asked: Asked | None = None


ALL_MATCHES = MatchChoice()


@dataclass(frozen=True)
class DetectionInput:
    """Joint queries with their rows, as detection reads them."""

    joint: JointQueries
    rows: Rows
    events: Events
    ranges: RowRanges
    pairs: Pairs
    latest: NDArray[np.int32]
    reaches: Reaches
    chosen: MatchChoice
    number: NDArray[np.int64] | None = None
    """Per row the number of its event, where a stream keeps partial matches."""
    _walkers: dict[tuple[Clause, int], _Walker] = field(default_factory=dict)

    def rows_of(self, positions: frozenset[int]) -> RowNumbers:
        """The rows that can take one of some positions."""
        member = np.array([bool(symbol & positions) for symbol in self.rows.alphabets[0]], np.bool_)
        return np.flatnonzero(member[self.rows.symbols[0]]).astype(np.int32)

    def walker(self, clause: Clause, number: int) -> _Walker:
        """The input of walks of one element."""
        if (clause, number) not in self._walkers:
            self._walkers[clause, number] = _walker(self, clause, number)
        return self._walkers[clause, number]


@dataclass
class QueryMatches:
    """The matches of one query so far."""

    plan: QueryPlan
    limits: Limits
    parts: list[MatchBindings] = field(default_factory=list)
    count: int = 0
    bytes: int = 0
    is_complete: bool = False
    """Whether all matches have been found."""

    @property
    def is_enough(self) -> bool:
        """Whether LIMIT is reached, or all matches have been found."""
        limit = self.plan.query.limit
        return self.is_complete or (limit is not None and self.count >= limit)

    @property
    def room(self) -> int:
        """How many more matches are allowed."""
        limit = self.plan.query.limit
        most = self.limits.matches if limit is None else min(limit, self.limits.matches)
        return max(most - self.count, 0)

    def add(self, bindings: MatchBindings) -> None:
        """Add matches, up to LIMIT."""
        limit = self.plan.query.limit
        if limit is not None and len(bindings) > limit - self.count:
            bindings = bindings.keep(np.arange(len(bindings)) < limit - self.count)
        self.parts.append(bindings)
        self.count += len(bindings)
        self.bytes += _BINDING_BYTES * len(bindings.row)
        self.limits.check_matches(self.plan.query.name, self.count)
        self.limits.check_state(self.plan.query.name, self.bytes, "its matches", "add LIMIT, shorten WITHIN")


# ---------------------------------------------------------------- one clause


@dataclass(frozen=True)
class ClauseFinder:
    """Finds the whole matches of one clause of one query, and adds them to those of the query."""

    ready: DetectionInput
    clause: Clause
    found: QueryMatches
    limits: Limits

    @property
    def window(self) -> int | None:
        """The length of WITHIN."""
        window = self.found.plan.query.window
        return None if window is None else window.length

    def find_all(self) -> None:
        """Find the matches of a clause that is walked as a whole."""
        none = np.zeros(0, np.int32)
        self._complete(_Partial(MatchBindings(np.zeros(2, np.int64), none, none), {}))

    def take(self, table: PartialMatches, columns: Sequence[int]) -> None:
        """Find the whole matches that contain the partial ones of a table.

        columns  per column of the table, which of the clause's joined elements it is
        """
        self._complete(self._joined(table, columns))

    def _complete(self, partial: _Partial) -> None:
        """Walk the remaining elements, until LIMIT is reached."""
        for whole in self._walked(partial, self.clause.walked, {}):
            bindings = self._wanted(whole.bindings)
            if len(bindings):
                self.found.add(bindings)
            if self.found.is_enough:
                return

    def _wanted(self, bindings: MatchBindings) -> MatchBindings:
        """The matches that no NOT at their start or end breaks, and that are wanted."""
        for beside in self.clause.across:
            bindings = bindings.keep(self._is_unbroken_across(bindings, beside))
        for beside in self.clause.at_start:
            bindings = bindings.keep(self._is_unbroken_at_start(bindings, beside))
        for beside in self.clause.at_end:
            bindings = bindings.keep(self._is_unbroken_at_end(bindings, beside))
        ends, asked = self.ready.chosen.ends, self.ready.chosen.asked
        if ends is not None and len(bindings):
            end = self.ready.rows.time[bindings.most()]
            bindings = bindings.keep((end >= ends[0]) & (end < ends[1]))
        if asked is not None and len(bindings):
            bindings = bindings.keep(self._is_asked(bindings, asked))
        return bindings

    def _is_asked(self, bindings: MatchBindings, asked: Asked) -> NDArray[np.bool_]:
        """Whether matches became complete in a range of watermarks, and begin in the range of their query.

        With NOT at the end the last time that can break a match is the last one before start + w. With NOT at
        the start a match begins where that NOT begins to look.
        """
        time, window = self.ready.rows.time, self.window
        assert window is not None
        complete, begin = time[bindings.most()], time[bindings.least()]
        for beside in self.clause.at_end:
            waits_for = time[self._rows_of_operand(bindings, beside.operand)[0]] + (window - 1)
            complete = np.maximum(complete, waits_for)
        if self.clause.at_start:
            begin = begin - (window - 1)
        is_due = (complete > asked.after) & (complete <= asked.until)
        found: NDArray[np.bool_] = is_due & (begin > asked.since) & (begin <= asked.begin_by)
        return found

    # ------------------------------------------------------------ joined elements

    def _joined(self, table: PartialMatches, columns: Sequence[int]) -> _Partial:
        """The rows of a table that fit the query's own window; a shared join may have a longer one."""
        reach = self.ready.reaches.of(self.window)
        fits = table[:, 1] < reach.high[table[:, 0]]
        if not fits.all():
            table = table[fits]
        elements = [self.clause.fixed[column] for column in columns]
        positions = [min(self.clause.elements[i].positions) for i in elements]
        bindings = MatchBindings(
            np.arange(len(table) + 1, dtype=np.int64) * (table.shape[1] - SPAN),
            np.ascontiguousarray(table[:, SPAN:]).reshape(-1),
            np.tile(np.array(positions, np.int32), len(table)),
        )
        if not self.clause.walked:
            return _Partial(bindings, {})
        ends = {}
        for k, (element, position) in enumerate(zip(elements, positions, strict=True), SPAN):
            row, at = np.ascontiguousarray(table[:, k]), np.full(len(table), position, np.int32)
            ends[element] = _ElementEnds(row, at, row, at)
        return _Partial(bindings, ends)

    # ------------------------------------------------------------ walked elements

    def _walked(self, partial: _Partial, numbers: Sequence[int], tried: dict[int, int]) -> Iterator[_Partial]:
        """Partial matches with the trends of more elements added; a portion at a time, to bound memory.

        tried  per element the bindings that were tried so far
        """
        if not len(partial.bindings):
            return
        if not numbers:
            yield partial
            return
        for grown in self._walk(partial, numbers[0], tried):
            yield from self._walked(grown, numbers[1:], tried)

    def _walk(self, partial: _Partial, number: int, tried: dict[int, int]) -> Iterator[_Partial]:
        """Partial matches with the trends of one more element added, a portion at a time."""
        ready = self.ready
        walker = ready.walker(self.clause, number)
        read = (
            self._bounds(partial, number),
            walker.rows,
            walker.is_own,
            ready.events.symbol,
            ready.ranges.moment,
            ready.reaches.of(self.window).high,
            walker.paths,
            ready.pairs,
            ready.latest,
            SEMANTICS[ready.joint.machine.semantics],
            self.limits.trends,
        )
        state, portion = new_walk(tried.get(number, 0)), min(PORTION, max(_FIRST_PORTION, self.found.room))
        while not state.at[IS_DONE]:
            walked, state = walk_element(*read, portion, state)
            tried[number] = int(state.at[TRIED])
            self.limits.check_trends(self.found.plan.query.name, tried[number])
            if len(walked.source):
                yield partial.grown(number, walked)
            portion = min(PORTION, 2 * portion)

    def _bounds(self, partial: _Partial, number: int) -> WalkBounds:
        """What the trends of an element must fit in every partial match."""
        bindings, ends = partial.bindings, partial.ends
        none = np.full(len(bindings), -1, np.int32)
        before, before_at, behind, behind_at = none, none, none, none
        for meeting in self.clause.neighbours:
            if meeting.right == number and meeting.left in ends:
                before, before_at = ends[meeting.left].last, ends[meeting.left].last_at
            if meeting.left == number and meeting.right in ends:
                behind, behind_at = ends[meeting.right].first, ends[meeting.right].first_at
        pinned = ends[number].first if number in ends else none
        so_far = bindings.start, bindings.row, bindings.position
        lower, upper = self._row_bounds(partial, number)
        return WalkBounds(lower, upper, *so_far, before, before_at, behind, behind_at, pinned)

    def _row_bounds(self, partial: _Partial, number: int) -> tuple[RowNumbers, RowNumbers]:
        """The rows that an element can have: in one window with the others, and in order with them."""
        ranges, reach, bindings = self.ready.ranges, self.ready.reaches.of(self.window), partial.bindings
        if len(bindings.row):
            lower, upper = reach.low[bindings.most()], reach.high[bindings.least()]
        else:
            lower = np.zeros(len(bindings), np.int32)
            upper = np.full(len(bindings), len(ranges.moment), np.int32)
        for element, ends in partial.ends.items():
            if (element, number) in self.clause.before:
                lower = np.maximum(lower, ranges.after[ends.last])
            if (number, element) in self.clause.before:
                upper = np.minimum(upper, ranges.first[ends.first])
        return lower, upper

    # ------------------------------------------------------------ NOT at the ends and beside AND

    def _rows_of_operand(self, bindings: MatchBindings, operand: int) -> tuple[RowNumbers, RowNumbers]:
        """The first and last row of one operand in every match."""
        if len({element.operand for element in self.clause.elements}) == 1:
            return bindings.least(), bindings.most()
        own = (e.positions for e in self.clause.elements if e.operand == operand)
        return self._ends(bindings, frozenset[int]().union(*own))

    def _ends(self, bindings: MatchBindings, positions: frozenset[int]) -> tuple[RowNumbers, RowNumbers]:
        """The first and last row of every match at some positions."""
        inside = np.zeros(len(self.ready.joint.machine.automaton.positions), np.bool_)
        inside[sorted(positions)] = True
        mine, at = inside[bindings.position], bindings.start[:-1]
        least = np.minimum.reduceat(np.where(mine, bindings.row, np.int32(2**31 - 1)), at)
        return least, np.maximum.reduceat(np.where(mine, bindings.row, np.int32(-1)), at)

    def _is_unbroken_across(self, bindings: MatchBindings, beside: Beside) -> NDArray[np.bool_]:
        """Whether no trend of the NOT lies after all events before it, and before all events after it."""
        if not len(bindings):
            return np.ones(0, np.bool_)
        ranges, elements = self.ready.ranges, self.clause.elements
        last = np.max([self._ends(bindings, elements[i].positions)[1] for i in beside.before], axis=0)
        first = np.min([self._ends(bindings, elements[i].positions)[0] for i in beside.after], axis=0)
        latest = self.ready.latest[beside.guard][ranges.moment[first] - 1]
        meets = self._meets_conditions(bindings, beside, ranges.after[last], ranges.first[first])
        return np.asarray((latest <= ranges.moment[last]) & ~meets, np.bool_)

    def _meets_conditions(
        self, bindings: MatchBindings, beside: Beside, low: RowNumbers, high: RowNumbers
    ) -> NDArray[np.bool_]:
        """Whether an event of the NOT in the rows [low, high) meets its conditions with those next to it."""
        ready, predicates = self.ready, self.ready.joint.machine.predicates
        found = np.zeros(len(bindings), np.bool_)
        guard = ready.joint.machine.automaton.guards[beside.guard]
        conditional = sorted(with_conditions(predicates.breaking).intersection(guard.positions))
        if not conditional:
            return found
        inner = len(predicates.adjacency) + len(predicates.cross)
        neighbours = self._neighbours(bindings, beside)
        for position in conditional:
            own = [i for i, each in enumerate(predicates.breaking) if position in each.negated]
            named = np.zeros((len(own), len(ready.joint.machine.automaton.positions)), np.bool_)
            for c, i in enumerate(own):
                named[c, sorted(predicates.breaking[i].beside)] = True
            numbers = np.array(own, np.int32) + np.int32(inner)
            rows = ready.rows_of(frozenset({position}))
            any_breaks(rows, numbers, named, low, high, *neighbours, ready.pairs, found)
        return found

    def _neighbours(
        self, bindings: MatchBindings, beside: Beside
    ) -> tuple[RowNumbers, NDArray[np.int32], NDArray[np.int64]]:
        """Per match the rows and positions next to a NOT: the last of those before it, the first after it."""
        found = []
        for which, elements in ((1, beside.before), (0, beside.after)):
            for i in elements:
                positions = self.clause.elements[i].positions
                row = self._ends(bindings, positions)[which]
                found.append((row, self._position_of(bindings, positions, row)))
        rows, positions_at = (np.stack(each, axis=1).reshape(-1) for each in zip(*found, strict=True))
        return rows, positions_at, np.arange(len(bindings) + 1, dtype=np.int64) * len(found)

    def _position_of(
        self, bindings: MatchBindings, positions: frozenset[int], row: RowNumbers
    ) -> NDArray[np.int32]:
        """The position, one of some, at which every match has a row."""
        inside = np.isin(bindings.position, sorted(positions))
        is_it = inside & (bindings.row == np.repeat(row, np.diff(bindings.start)))
        return np.maximum.reduceat(np.where(is_it, bindings.position, np.int32(-1)), bindings.start[:-1])

    def _is_unbroken_at_start(self, bindings: MatchBindings, beside: Beside) -> NDArray[np.bool_]:
        """Whether no trend of the NOT is inside (end - w, start).

        It is enough to look at the trend that starts latest among those that end before `start`.
        """
        if not len(bindings):
            return np.ones(0, np.bool_)
        ranges = self.ready.ranges
        start, end = self._rows_of_operand(bindings, beside.operand)
        low, high = self.ready.reaches.of(self.window).low[end], ranges.first[start]
        meets = self._meets_conditions(bindings, beside, low, high)
        before = ranges.first[start] - 1  # a row of the moment before, perhaps of another segment
        latest = self.ready.latest[beside.guard][ranges.moment[np.maximum(before, 0)]]
        is_there = (before >= ranges.begin[start]) & (latest >= ranges.moment[ranges.begin[start]])
        if self.window is None:
            return np.asarray(~is_there & ~meets, np.bool_)
        first_of = np.zeros(int(ranges.moment[-1]) + 1, np.int64)
        first_of[ranges.moment] = np.arange(len(ranges.moment))
        began = ranges.stamp[first_of[np.maximum(latest, 0)]]
        is_broken = is_there & (began > ranges.stamp[end] - self.window)
        return np.asarray(~is_broken & ~meets, np.bool_)

    def _is_unbroken_at_end(self, bindings: MatchBindings, beside: Beside) -> NDArray[np.bool_]:
        """Whether no trend of the NOT is inside (end, start + w): none that ends by then starts after end."""
        if not len(bindings):
            return np.ones(0, np.bool_)
        ranges = self.ready.ranges
        start, end = self._rows_of_operand(bindings, beside.operand)
        high = self.ready.reaches.of(self.window).high[start]
        latest = self.ready.latest[beside.guard][ranges.moment[high - 1]]
        meets = self._meets_conditions(bindings, beside, ranges.after[end], high)
        return np.asarray((latest <= ranges.moment[end]) & ~meets, np.bool_)


@dataclass(frozen=True)
class _Walker:
    """What walks of one element read: the rows that can take its positions, those positions, its machine."""

    rows: RowNumbers
    is_own: NDArray[np.bool_]
    paths: Paths


def _walker(ready: DetectionInput, clause: Clause, number: int) -> _Walker:
    machine, own = walk_machine(ready.joint.machine, clause, number), clause.elements[number].positions
    is_own = np.zeros(len(machine.automaton.positions), np.bool_)
    is_own[sorted(own)] = True
    paths = lower_paths(machine, ready.rows.alphabets[0], Carried())
    mine = (paths.cross_left | paths.cross_right)[:, sorted(own)].any(axis=1)
    cross = paths.cross_left[mine], paths.cross_right[mine], paths.cross[mine]
    paths = paths._replace(cross_left=cross[0], cross_right=cross[1], cross=cross[2])
    return _Walker(ready.rows_of(own), is_own, paths)


@dataclass(frozen=True)
class _ElementEnds:
    """Row and position of the first and the last binding of one element, in every match."""

    first: RowNumbers
    first_at: NDArray[np.int32]
    last: RowNumbers
    last_at: NDArray[np.int32]

    def take(self, source: NDArray[np.int64]) -> _ElementEnds:
        return _ElementEnds(
            self.first[source], self.first_at[source], self.last[source], self.last_at[source]
        )


@dataclass(frozen=True)
class _Partial:
    """Matches of some of a clause's elements."""

    bindings: MatchBindings
    ends: Mapping[int, _ElementEnds]
    """Per element that is bound so far."""

    def grown(self, number: int, walked: WalkedTrends) -> _Partial:
        """The matches with the walked trends of one more element added."""
        old = self.bindings
        total = int(np.diff(old.start)[walked.source].sum()) + len(walked.row)
        out = np.zeros(len(walked.source) + 1, np.int64), np.empty(total, np.int32), np.empty(total, np.int32)
        append_walked(old.start, old.row, old.position, *walked, out)
        ends = {element: each.take(walked.source) for element, each in self.ends.items()}
        if number not in ends:
            ends[number] = _ends_of(walked)
        elif len(walked.row):
            ends[number] = _moved_end(ends[number], walked)
        return _Partial(MatchBindings(*out), ends)


def _ends_of(walked: WalkedTrends) -> _ElementEnds:
    first, last = walked.start[:-1], walked.start[1:] - 1
    return _ElementEnds(walked.row[first], walked.position[first], walked.row[last], walked.position[last])


def _moved_end(pinned: _ElementEnds, walked: WalkedTrends) -> _ElementEnds:
    """The ends of an element whose first event was joined; a walk may have added no event to it."""
    first, last = walked.start[:-1], walked.start[1:] - 1
    is_longer, last = last >= first, np.maximum(last, 0)
    return _ElementEnds(
        pinned.first,
        pinned.first_at,
        np.where(is_longer, walked.row[last], pinned.last),
        np.where(is_longer, walked.position[last], pinned.last_at),
    )
