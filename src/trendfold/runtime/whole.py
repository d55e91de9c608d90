"""From partial matches to whole ones: what is walked beside what was joined, and NOT at the ends (spec 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.clauses import Clause
from trendfold.detect.family import Family, walk_machine
from trendfold.detect.join import SPAN, Table
from trendfold.detect.multitree import Planned
from trendfold.detect.space import Reaches, Space
from trendfold.detect.walk import IS_DONE, TRIED, Bound, Walked, append, no_pace, walk
from trendfold.kernel.lower import SEMANTICS, lower_paths
from trendfold.kernel.program import Events, Pairs, Paths
from trendfold.plan import QueryPlan
from trendfold.plan.carried import Carried
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows

PORTION = 1 << 16
"""Trends that are walked at a time, at most."""
_FEW = 64
"""... and at first, where LIMIT asks for fewer."""
_BINDING_BYTES = 32
"""An event of a match until it is in a table, about."""


@dataclass(frozen=True)
class Bindings:
    """Matches as bindings: those of match k are row[start[k] : start[k + 1]], at the positions beside.

    start     int64[n+1]
    row       int32[]     into the family's rows
    position  int32[]     into the family's positions
    """

    start: NDArray[np.int64]
    row: NDArray[np.int32]
    position: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start) - 1

    def least(self) -> NDArray[np.int32]:
        """The first row of every match."""
        return np.minimum.reduceat(self.row, self.start[:-1]) if len(self) else self.row

    def most(self) -> NDArray[np.int32]:
        """The last row of every match."""
        return np.maximum.reduceat(self.row, self.start[:-1]) if len(self) else self.row

    def keep(self, kept: NDArray[np.bool_]) -> Bindings:
        """Some of the matches."""
        if kept.all():
            return self
        sizes = np.diff(self.start)
        inside = np.repeat(kept, sizes)
        start = np.concatenate([[0], np.cumsum(sizes[kept])])
        return Bindings(start, self.row[inside], self.position[inside])

    def take(self, order: NDArray[Any]) -> Bindings:
        """The matches in another order."""
        sizes = np.diff(self.start)[order]
        start = np.concatenate([[0], np.cumsum(sizes)])
        at = np.repeat(self.start[order] - start[:-1], sizes) + np.arange(start[-1])
        return Bindings(start, self.row[at], self.position[at])


def concatenated(parts: Sequence[Bindings]) -> Bindings:
    """All matches of some."""
    if len(parts) == 1:
        return parts[0]
    sizes = [np.diff(part.start) for part in parts]
    nothing = np.zeros(0, np.int32)
    return Bindings(
        np.concatenate([[0], np.cumsum(np.concatenate([*sizes, np.zeros(0, np.int64)]))]),
        np.concatenate([nothing, *(part.row for part in parts)]),
        np.concatenate([nothing, *(part.position for part in parts)]),
    )


@dataclass(frozen=True)
class Prepared:
    """A family whose rows are read: only finding is left."""

    family: Family
    rows: Rows
    events: Events
    space: Space
    pairs: Pairs
    latest: NDArray[np.int32]
    reaches: Reaches
    ends: tuple[int, int] | None = None
    """Only matches whose last event is at a time in [ends[0], ends[1]) are wanted."""
    walkers: dict[tuple[Clause, int], _Walker] = field(default_factory=dict)

    def leaf(self, position: int) -> NDArray[np.int32]:
        """The rows that can take a position."""
        return self.taking(frozenset({position}))

    def taking(self, positions: frozenset[int]) -> NDArray[np.int32]:
        """The rows that can take one of some positions."""
        member = np.array([bool(symbol & positions) for symbol in self.rows.alphabets[0]], np.bool_)
        return np.flatnonzero(member[self.rows.symbols[0]]).astype(np.int32)


@dataclass
class Found:
    """The matches of one query so far."""

    plan: QueryPlan
    limits: Limits
    parts: list[Bindings] = field(default_factory=list)
    count: int = 0
    bytes: int = 0
    is_complete: bool = False
    """Whether all matches are here."""

    @property
    def is_enough(self) -> bool:
        """Whether LIMIT is reached, or all matches are here."""
        limit = self.plan.query.limit
        return self.is_complete or (limit is not None and self.count >= limit)

    @property
    def room(self) -> int:
        """How many more matches may come; one more than that is too many."""
        limit = self.plan.query.limit
        most = self.limits.matches if limit is None else min(limit, self.limits.matches)
        return max(most - self.count, 0)

    def add(self, bindings: Bindings) -> None:
        """Keep more matches, up to LIMIT."""
        limit = self.plan.query.limit
        if limit is not None and len(bindings) > limit - self.count:
            bindings = bindings.keep(np.arange(len(bindings)) < limit - self.count)
        self.parts.append(bindings)
        self.count += len(bindings)
        self.bytes += _BINDING_BYTES * len(bindings.row)
        self.limits.check_matches(self.plan.query.name, self.count)
        self.limits.check_state(self.plan.query.name, self.bytes, "its matches", "add LIMIT, shorten WITHIN")


# ---------------------------------------------------------------- one clause


@dataclass
class Task:
    """One clause of one query: from tables of its fixed part to whole matches."""

    ready: Prepared
    clause: Clause
    found: Found
    limits: Limits
    planned: Planned | None = None

    @property
    def window(self) -> int | None:
        """WITHIN, as `place` measures it."""
        window = self.found.plan.query.window
        return None if window is None else window.length

    def take(self, table: Table | None) -> None:
        """Whole matches from a table of partial ones; None: from nothing. Ends where LIMIT is reached."""
        partial = self._nothing() if table is None else self._fixed(table)
        for whole in self._walked(partial, self.clause.walked, {}):
            bindings = self._wanted(whole.bindings)
            if len(bindings):
                self.found.add(bindings)
            if self.found.is_enough:
                return

    def _wanted(self, bindings: Bindings) -> Bindings:
        """The matches that no NOT at an end breaks, and that end when they should."""
        for operand, guard in self.clause.at_start:
            bindings = bindings.keep(self._unbroken_start(bindings, operand, guard))
        for operand, guard in self.clause.at_end:
            bindings = bindings.keep(self._unbroken_end(bindings, operand, guard))
        if self.ready.ends is not None and len(bindings):
            end = self.ready.rows.time[bindings.most()]
            bindings = bindings.keep((end >= self.ready.ends[0]) & (end < self.ready.ends[1]))
        return bindings

    def _walked(self, partial: _Partial, numbers: Sequence[int], tried: dict[int, int]) -> Iterator[_Partial]:
        """Every match with every trend of more elements that fits, some at a time; no two levels as a whole.

        tried  per element the bindings that were tried so far
        """
        if not len(partial.bindings):
            return
        if not numbers:
            yield partial
            return
        for grown in self._walk(partial, numbers[0], tried):
            yield from self._walked(grown, numbers[1:], tried)

    def _nothing(self) -> _Partial:
        none = np.zeros(0, np.int32)
        return _Partial(Bindings(np.zeros(2, np.int64), none, none), {})

    def _fixed(self, table: Table) -> _Partial:
        assert self.planned is not None
        reach = self.ready.reaches.of(self.window)
        fits = table[:, 1] < reach.high[table[:, 0]]
        if not fits.all():
            table = table[fits]
        width = table.shape[1] - SPAN
        elements = [self.clause.fixed[column] for column in self.planned.columns]
        positions = [min(self.clause.elements[i].positions) for i in elements]
        bindings = Bindings(
            np.arange(len(table) + 1, dtype=np.int64) * width,
            np.ascontiguousarray(table[:, SPAN:]).reshape(-1),
            np.tile(np.array(positions, np.int32), len(table)),
        )
        if not self.clause.walked:
            return _Partial(bindings, {})
        ends = {}
        for k, (element, position) in enumerate(zip(elements, positions, strict=True)):
            row, at = np.ascontiguousarray(table[:, SPAN + k]), np.full(len(table), position, np.int32)
            ends[element] = _Ends(row, at, row, at)
        return _Partial(bindings, ends)

    def _walk(self, partial: _Partial, number: int, tried: dict[int, int]) -> Iterator[_Partial]:
        """Every match with every trend of one more element that fits, some at a time."""
        ready = self.ready
        key = self.clause, number
        if key not in ready.walkers:
            ready.walkers[key] = _walker(ready, *key)
        walker = ready.walkers[key]
        read = (
            self._bound(partial, number),
            walker.rows,
            walker.is_own,
            ready.events.symbol,
            ready.space.moment,
            ready.reaches.of(self.window).high,
            walker.paths,
            ready.pairs,
            ready.latest,
            SEMANTICS[ready.family.machine.semantics],
            self.limits.trends,
        )
        pace, portion = no_pace(tried.get(number, 0)), min(PORTION, max(_FEW, self.found.room))
        while not pace.at[IS_DONE]:
            walked, pace = walk(*read, portion, pace)
            tried[number] = int(pace.at[TRIED])
            self.limits.check_trends(self.found.plan.query.name, tried[number])
            if len(walked.source):
                yield partial.grown(number, walked)
            portion = min(PORTION, 2 * portion)

    def _bound(self, partial: _Partial, number: int) -> Bound:
        """What an element must fit in every match so far."""
        space, reach, bindings = self.ready.space, self.ready.reaches.of(self.window), partial.bindings
        count = len(bindings)
        if len(bindings.row):
            lower, upper = reach.low[bindings.most()], reach.high[bindings.least()]
        else:
            lower = np.zeros(count, np.int32)
            upper = np.full(count, len(space.moment), np.int32)
        none = np.full(count, -1, np.int32)
        before, before_at, behind, behind_at = none, none, none, none
        pinned = partial.ends[number].first if number in partial.ends else none
        for element, ends in partial.ends.items():
            if (element, number) in self.clause.before:
                lower = np.maximum(lower, space.after[ends.last])
            if (number, element) in self.clause.before:
                upper = np.minimum(upper, space.first[ends.first])
        for meeting in self.clause.neighbours:
            if meeting.right == number and meeting.left in partial.ends:
                ends = partial.ends[meeting.left]
                before, before_at = ends.last, ends.last_at
            if meeting.left == number and meeting.right in partial.ends:
                ends = partial.ends[meeting.right]
                behind, behind_at = ends.first, ends.first_at
        so_far = bindings.start, bindings.row, bindings.position
        return Bound(lower, upper, *so_far, before, before_at, behind, behind_at, pinned)

    # ------------------------------------------------------------ NOT at the ends

    def _of_operand(self, bindings: Bindings, operand: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The first and last row of one operand in every match."""
        if len({element.operand for element in self.clause.elements}) == 1:
            return bindings.least(), bindings.most()
        inside = np.zeros(len(self.ready.family.machine.automaton.positions), np.bool_)
        for element in self.clause.elements:
            if element.operand == operand:
                inside[sorted(element.positions)] = True
        mine, at = inside[bindings.position], bindings.start[:-1]
        least = np.minimum.reduceat(np.where(mine, bindings.row, np.int32(2**31 - 1)), at)
        return least, np.maximum.reduceat(np.where(mine, bindings.row, np.int32(-1)), at)

    def _unbroken_start(self, bindings: Bindings, operand: int, guard: int) -> NDArray[np.bool_]:
        """No trend of N inside (end - w, start): the one that starts latest of those before start tells."""
        if not len(bindings):
            return np.ones(0, np.bool_)
        space = self.ready.space
        start, end = self._of_operand(bindings, operand)
        before = space.first[start] - 1  # a row of the moment before, in the segment or not
        found = self.ready.latest[guard][space.moment[np.maximum(before, 0)]]
        is_there = (before >= space.begin[start]) & (found >= space.moment[space.begin[start]])
        if self.window is None:
            return np.asarray(~is_there, np.bool_)
        first_of = np.zeros(int(space.moment[-1]) + 1, np.int64)
        first_of[space.moment] = np.arange(len(space.moment))
        began = space.place[first_of[np.maximum(found, 0)]]
        return np.asarray(~(is_there & (began > space.place[end] - self.window)), np.bool_)

    def _unbroken_end(self, bindings: Bindings, operand: int, guard: int) -> NDArray[np.bool_]:
        """No trend of N inside (end, start + w): of those that ended by then, none started after end."""
        if not len(bindings):
            return np.ones(0, np.bool_)
        space = self.ready.space
        start, end = self._of_operand(bindings, operand)
        horizon = space.moment[self.ready.reaches.of(self.window).high[start] - 1]
        found: NDArray[np.bool_] = self.ready.latest[guard][horizon] <= space.moment[end]
        return found


@dataclass(frozen=True)
class _Walker:
    """What walks of one element read: the rows that can take its positions, and these as a graph."""

    rows: NDArray[np.int32]
    is_own: NDArray[np.bool_]
    paths: Paths


def _walker(ready: Prepared, clause: Clause, number: int) -> _Walker:
    machine, own = walk_machine(ready.family.machine, clause, number), clause.elements[number].positions
    is_own = np.zeros(len(machine.automaton.positions), np.bool_)
    is_own[sorted(own)] = True
    paths = lower_paths(machine, ready.rows.alphabets[0], Carried())
    mine = (paths.cross_left | paths.cross_right)[:, sorted(own)].any(axis=1)
    cross = paths.cross_left[mine], paths.cross_right[mine], paths.cross[mine]
    paths = paths._replace(cross_left=cross[0], cross_right=cross[1], cross=cross[2])
    return _Walker(ready.taking(own), is_own, paths)


@dataclass(frozen=True)
class _Ends:
    """The first and last binding of one element in every match."""

    first: NDArray[np.int32]
    first_at: NDArray[np.int32]
    last: NDArray[np.int32]
    last_at: NDArray[np.int32]

    def take(self, source: NDArray[np.int64]) -> _Ends:
        return _Ends(self.first[source], self.first_at[source], self.last[source], self.last_at[source])


@dataclass(frozen=True)
class _Partial:
    """Matches of some of a clause's elements."""

    bindings: Bindings
    ends: dict[int, _Ends]

    def grown(self, number: int, walked: Walked) -> _Partial:
        """With one more element in each."""
        old = self.bindings
        count = len(walked.source)
        total = int(np.diff(old.start)[walked.source].sum()) + len(walked.row)
        out = np.zeros(count + 1, np.int64), np.empty(total, np.int32), np.empty(total, np.int32)
        append(old.start, old.row, old.position, *walked, out)
        ends = {element: each.take(walked.source) for element, each in self.ends.items()}
        first, last = walked.start[:-1], walked.start[1:] - 1
        row, at = walked.row, walked.position
        if number in ends and len(row):  # its first event was there already, perhaps it is all
            is_grown, pinned = last >= first, ends[number]
            last = np.maximum(last, 0)
            behind = np.where(is_grown, row[last], pinned.last), np.where(is_grown, at[last], pinned.last_at)
            ends[number] = _Ends(pinned.first, pinned.first_at, *behind)
        elif number not in ends:
            ends[number] = _Ends(row[first], at[first], row[last], at[last])
        return _Partial(Bindings(*out), ends)
