"""Follows a join plan over rows, from batches of partial matches to whole matches; replans where it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

import numpy as np

from trendfold.detect.adapt import Adapting, PlanWatch, no_counts, watch_plan
from trendfold.detect.evaluate import (
    COPIES,
    PARTIAL_BYTES,
    TOO_MANY,
    JoinCounts,
    JoinInput,
    PartialMatchError,
    detect_in_batches,
    detect_in_blocks,
)
from trendfold.detect.join import SPAN, PartialMatches
from trendfold.detect.join_cost import price
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.joint_queries import ClauseJoins
from trendfold.detect.lower_joins import JoinProgram, lower_joins
from trendfold.detect.multitree import Planned
from trendfold.detect.named_statistics import StatisticNames
from trendfold.detect.one_pattern import best_order
from trendfold.detect.pattern import JoinPattern
from trendfold.detect.running_plan import RunningPlan, running_plan
from trendfold.detect.sample import covered_span, measure_joins
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.errors import LimitError
from trendfold.plan.stream_statistics import NamedStatistics
from trendfold.runtime.limits import Limits
from trendfold.runtime.whole_matches import ClauseFinder, DetectionInput, QueryMatches

WAITING = 1 << 16
"""How many matches of a root are collected before they are made whole: the overhead is per call."""
QUICK_SAMPLE = 200
"""Sampled pairs per selectivity when replanning, while rows wait."""
PLANNING_S = 6e-4
"""Assumed time to replan one pattern, before it has been measured."""


@dataclass(frozen=True)
class JoinRoute:
    """A plan ready to be followed: every pattern's nodes in one multitree, and the program of the joins."""

    workplan: Workplan
    planned: tuple[Planned, ...]
    program: JoinProgram

    @property
    def roots(self) -> list[int]:
        """The nodes whose partial matches contain all joined elements of a pattern."""
        return sorted({plan.root for plan in self.planned})

    def inboxes(self, finders: Sequence[ClauseFinder]) -> dict[int, _Inbox]:
        """Per root, the clauses that its matches go to."""
        found: dict[int, _Inbox] = {}
        for finder, plan in zip(finders, self.planned, strict=True):
            found.setdefault(plan.root, _Inbox()).receivers.append((finder, plan.columns))
        return found


def lay_out(workplan: Workplan, patterns: Sequence[JoinPattern], joined: JoinInput) -> JoinRoute:
    """Make a plan ready to be followed."""
    tree, planned = workplan.lay_out(patterns)
    return JoinRoute(workplan, tuple(planned), lower_joins(tree, joined.leaves, joined.reaches.lengths))


@dataclass
class _Inbox:
    """Matches of one root on their way to the clauses that it is the root of."""

    receivers: list[tuple[ClauseFinder, tuple[int, ...]]] = field(default_factory=list)
    """Clauses, and for each which of its joined elements every column is."""
    tables: list[PartialMatches] = field(default_factory=list)
    rows: int = 0

    def put(self, table: PartialMatches) -> None:
        """Collect matches; deliver them once they are many, or as many as a receiver may still have."""
        if len(table):
            self.tables.append(table)
            self.rows += len(table)
            if self.rows >= min(WAITING, *(finder.found.room for finder, _ in self.receivers)):
                self.deliver()

    def deliver(self) -> None:
        """Make the collected matches whole."""
        if self.tables:
            table = np.concatenate(self.tables)
            self.tables, self.rows = [], 0
            for finder, columns in self.receivers:
                for some in range(0, len(table), WAITING):
                    if not finder.found.is_enough:
                        finder.take(table[some : some + WAITING], columns)


@dataclass(frozen=True)
class DetectionRun:
    """The matches of joint queries, and the work it took."""

    matches: tuple[QueryMatches, ...]
    partial_matches: int = 0
    """Partial matches that joins made."""
    replans: int = 0
    """How often the plan was changed."""
    tried: str = ""
    """What the search for the first plan tried."""
    plans: int = 0
    """How many plans were made."""
    statistics: NamedStatistics = field(default_factory=NamedStatistics)
    """What was measured before the joins."""
    running: RunningPlan | None = None
    """The last plan, to go on with, ..."""
    open: tuple[PartialMatches, ...] | None = None
    """... and the partial matches that later events can still join, if that is known."""


@dataclass(frozen=True)
class Resumed:
    """Where a stream goes on: at row `start`, from the partial matches of rows before it, if they are known.

    until  the time up to which there are all rows
    """

    start: int
    until: int
    known: tuple[PartialMatches, ...] | None = None


@dataclass(frozen=True)
class Detection:
    """Joint queries with a plan for their joins.

    statistics  those of the rows; `made_for` those that the plan was made for, if they differ
    names       the names of statistics
    """

    ready: DetectionInput
    joins: ClauseJoins
    joined: JoinInput
    statistics: JoinStatistics
    route: JoinRoute
    names: StatisticNames
    made_for: JoinStatistics | None = None

    def by(self, planner: JoinPlanner) -> Detection:
        """The same joins with another plan."""
        workplan = planner(self.joins.patterns, self.statistics)
        return replace(self, route=lay_out(workplan, self.joins.patterns, self.joined))

    def run(
        self,
        limits: Limits,
        counts: JoinCounts | None = None,
        adapting: Adapting | None = None,
        resumed: Resumed | None = None,
    ) -> DetectionRun:
        """All matches of the queries; with `adapting`, plans adapt to the stream.

        resumed  only matches that end in its first row or later, and what later events can still join
        """
        joint = self.ready.joint
        found = tuple(QueryMatches(plan, limits) for plan in joint.plans)
        for q, split in enumerate(joint.clauses):
            for clause in split:
                if not clause.fixed and not found[q].is_enough:
                    ClauseFinder(self.ready, clause, found[q], limits).find_all()
        finders = [
            ClauseFinder(self.ready, joint.clauses[q][k], found[q], limits) for q, k in self.joins.clauses
        ]
        if not finders or not len(self.ready.rows.row):
            return DetectionRun(found)
        planning_s = PLANNING_S * len(finders)
        patterns = self.joins.patterns
        run = _DetectionPass(self, finders, patterns, limits, counts, adapting, planning_s, resumed)
        route, made_for = run.follow()
        return DetectionRun(
            found,
            run.partial_matches,
            run.replans,
            self.route.workplan.tried,
            (self.made_for is None) + run.replans,
            self.names.named(self.statistics),
            running_plan(self.joins, route.workplan.trees, made_for),
            run.open,
        )


@dataclass
class _DetectionPass:
    """One pass over the rows, for the clauses that still need matches and the pattern of each."""

    detection: Detection
    finders: Sequence[ClauseFinder]
    patterns: Sequence[JoinPattern]
    limits: Limits
    counts: JoinCounts | None
    adapting: Adapting | None
    planning_s: float
    """The time that replanning is taken to need; doubled each time that it did not help."""
    resumed: Resumed | None = None
    open: tuple[PartialMatches, ...] | None = None
    """What events after the last row can still join, if that was asked for."""
    pace: float = inf
    """Seconds per row before the plan was last changed."""
    partial_matches: int = 0
    replans: int = 0

    def follow(self) -> tuple[JoinRoute, JoinStatistics]:
        """Follow plans through all rows; returns the last one, and what it was made for."""
        at: int | None = 0 if self.resumed is None else self.resumed.start
        route = self.detection.route
        statistics = self.detection.made_for or self.detection.statistics
        while at is not None:
            watch = self._watch(route, statistics)
            at = self._follow(route, at, watch)
            if at is not None and self._is_any_answered:
                route = self._without_answered(route)
            elif at is not None and watch is not None:
                route, statistics = self._replanned(route, at, watch)
        return route, statistics

    def _follow(self, route: JoinRoute, start: int, watch: PlanWatch | None) -> int | None:
        """Follow a plan from row `start` on; returns the row at which another plan takes over, or None.

        Where there are too many partial matches, queries with LIMIT are answered block by block, depth
        first, and the others go on.
        """
        inboxes = route.inboxes(self.finders)
        try:
            stopped = self._follow_batches(route, inboxes, start, watch)
            self._deliver(inboxes)
        except PartialMatchError as error:
            self._deliver(inboxes)
            if not self._limited:
                raise self._too_many_partial_matches(self.finders) from None
            self._find_in_blocks(error.row)
            stopped = error.row
        return None if self._is_enough else stopped

    def _follow_batches(
        self, route: JoinRoute, inboxes: Mapping[int, _Inbox], start: int, watch: PlanWatch | None
    ) -> int | None:
        rows, program = len(self.detection.ready.rows.row), route.program
        most = min(self._most, TOO_MANY) if self._limited else self._most
        largest = self.adapting.looks_after if self.adapting is not None else None
        known, until = None, None
        if self.resumed is not None:
            known = self.resumed.known if start == self.resumed.start else None
            until = self.resumed.until
        joined = self.detection.joined
        for batch in detect_in_batches(joined, program, route.roots, most, start, largest, known, until):
            if until is not None and batch.high == rows:
                self.open = batch.open
            self.partial_matches += int(batch.made[program.leaves :].sum())
            if self.counts is not None:
                self.counts.add(program, batch)
            for root, table in batch.tables.items():
                inboxes[root].put(table)
            if self._is_enough or self._is_any_answered:
                return batch.high
            if watch is not None:
                watch.add(batch, self._span(batch.low, batch.high))
                if batch.high < rows and watch.calls_for_plan(self.planning_s, rows - batch.high):
                    return batch.high
        return None

    def _deliver(self, inboxes: Mapping[int, _Inbox]) -> None:
        for inbox in inboxes.values():
            inbox.deliver()

    # ------------------------------------------------------------ LIMIT

    @property
    def _is_enough(self) -> bool:
        return all(finder.found.is_enough for finder in self.finders)

    @property
    def _is_any_answered(self) -> bool:
        """Whether joins can be dropped because a query has its matches; counted joins run to the end."""
        return self.counts is None and any(finder.found.is_enough for finder in self.finders)

    def _without_answered(self, route: JoinRoute) -> JoinRoute:
        """The same plans without those of queries whose LIMIT is reached."""
        left = [k for k, finder in enumerate(self.finders) if not finder.found.is_enough]
        trees = tuple(route.workplan.trees[k] for k in left)
        self.finders, self.patterns = [self.finders[k] for k in left], [self.patterns[k] for k in left]
        workplan = Workplan(trees, route.workplan.shares)
        return lay_out(workplan, self.patterns, self.detection.joined)

    @property
    def _most(self) -> int:
        """How many partial matches may be held."""
        columns = SPAN + max((len(pattern.leaves) for pattern in self.patterns), default=0)
        return max(1, self.limits.state // max(PARTIAL_BYTES, COPIES * 4 * columns))

    @property
    def _limited(self) -> list[tuple[ClauseFinder, JoinPattern]]:
        """The clauses of queries whose LIMIT is not reached."""
        return [
            (finder, pattern)
            for finder, pattern in zip(self.finders, self.patterns, strict=True)
            if finder.found.plan.query.limit is not None and not finder.found.is_enough
        ]

    def _find_in_blocks(self, row: int) -> None:
        """Find the matches of queries with LIMIT that end in `row` or later, as many as are wanted."""
        limited = self._limited
        for finder, pattern in limited:
            try:
                self._find_clause_in_blocks(finder, pattern, row)
            except PartialMatchError:
                raise self._too_many_partial_matches([finder]) from None
        for finder, _ in limited:
            finder.found.is_complete = True

    def _find_clause_in_blocks(self, finder: ClauseFinder, pattern: JoinPattern, row: int) -> None:
        joined, before = self.detection.joined, self.partial_matches
        order = best_order(price(pattern, self.detection.statistics))
        route = lay_out(Workplan((order,)), [pattern], joined)
        for table, made in detect_in_blocks(joined, route.program, self._most):
            self.partial_matches = before + made
            if finder.found.is_enough:
                break
            finder.take(table[table[:, 1] >= row], route.planned[0].columns)

    def _too_many_partial_matches(self, finders: Sequence[ClauseFinder]) -> LimitError:
        names = ", ".join(dict.fromkeys(finder.found.plan.query.name for finder in finders))
        return self.limits.too_much_state(names, self.limits.state + 1, "partial matches")

    # ------------------------------------------------------------ adaptive plans

    def _watch(self, route: JoinRoute, statistics: JoinStatistics) -> PlanWatch | None:
        """Watch a plan that was made for some statistics."""
        if self.adapting is None:
            return None
        program = route.program
        expected = no_counts(len(program.nodes))
        expected.span = statistics.span
        rates = [statistics.rates[node.leaves[0]] for node in program.nodes[: program.leaves]]
        expected.made[: program.leaves] = np.array(rates) * statistics.span
        return watch_plan(self.adapting, program.leaves, expected)

    def _span(self, low: int, high: int) -> float:
        return covered_span(self.detection.joined, self.detection.ready.rows.segment, low, high)[0]

    def _replanned(self, route: JoinRoute, at: int, watch: PlanWatch) -> tuple[JoinRoute, JoinStatistics]:
        """The plan from row `at` on, which may be the old one, and the statistics it is made for."""
        began = perf_counter()
        adapting, joined, segment = watch.adapting, self.detection.joined, self.detection.ready.rows.segment
        recent = max(0, at - adapting.looks_after), at
        statistics = measure_joins(self.patterns, joined, segment, rows=recent, sample=QUICK_SAMPLE)
        new = adapting.replan(self.patterns, statistics, route.workplan.trees)
        is_cheaper = new.old_cost > adapting.worth * new.new_cost
        has_helped = watch.first_pace <= self.pace  # whether the last change of plan did, if there was one
        if is_cheaper:
            trees = new.trees
            if adapting.improve is not None and route.workplan.shares:
                seconds = adapting.search_share * watch.ahead_s(len(self.detection.ready.rows.row) - at)
                trees = adapting.improve(self.patterns, statistics, trees, seconds)
            route = lay_out(Workplan(trees, route.workplan.shares), self.patterns, joined)
            self.replans += 1
            self.pace = watch.pace
        took = perf_counter() - began
        self.planning_s = took if is_cheaper and has_helped else max(took, 2 * self.planning_s)
        return route, statistics
