"""Plans and rows -> aggregates per window: read, measure, choose, fold. The same for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import number_moments
from trendfold.plan import Group, QueryPlan
from trendfold.plan.carried import distinct_sets
from trendfold.plan.cost import DEFAULT_COSTS, Costs, may_be_worth_sharing
from trendfold.plan.fold_steps import FoldStep
from trendfold.plan.logical import LANES, SHARED_TREES
from trendfold.plan.papers import paper
from trendfold.plan.physical import (
    Apart,
    Combined,
    GroupFold,
    Lanes,
    QueryFold,
    SharedPlan,
    SharedTrees,
    Slots,
    choose,
    groups_as_slots,
    has_guards,
    has_windows_per_event,
    may_be_lane,
)
from trendfold.plan.statistics import GroupStatistics, OperandStatistics, QueryStatistics
from trendfold.plan.workload import Unit, windows_at_once
from trendfold.runtime.common_rows import CommonRows, find_common_rows, table_of_common
from trendfold.runtime.empty_rows import cut_with_takers
from trendfold.runtime.exact_values import Exact
from trendfold.runtime.folds import fold_operand, measure
from trendfold.runtime.folds.by_slots import GroupSlots, fold_slots, read_slots
from trendfold.runtime.folds.in_machine_lanes import (
    HELD,
    LaneMaterial,
    LaneTrends,
    ReadyMachineLanes,
    in_all_operands,
    lane_material,
)
from trendfold.runtime.folds.in_shared_trees import ReadyTrees, make_trees
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.folds.shared_panes import ReadySharedPanes, lower_panes, measure_panes
from trendfold.runtime.group_rows import (
    GroupRows,
    frequencies,
    has_single_moments,
    read_group,
    window_share,
)
from trendfold.runtime.lane_rows import LaneRows, burst_length, one_query, read_lane_rows
from trendfold.runtime.limits import Limits
from trendfold.runtime.promising import cut_promising
from trendfold.runtime.query_rows import Rows, group_count, read_rows
from trendfold.runtime.request import EVERYTHING, Request
from trendfold.runtime.spans import cut_spans
from trendfold.runtime.tables import Totals, multiply_operands, total
from trendfold.runtime.values import read_events
from trendfold.runtime.windows import HeldWindows, Items
from trendfold.runtime.workspace import Workspace, shared_partitionings


@dataclass(frozen=True)
class FoldedQuery:
    """The aggregates of one query: per operand, those of every window item that may hold a trend.

    windows      all windows that hold a row
    cut          the items; with `common` those of several queries, and `at` which ones are this query's
    with_takers  the items that have a row even without a trend: those of INCLUDE EMPTY
    """

    plan: QueryPlan
    rows: Rows
    cut: Items
    windows: HeldWindows
    events: tuple[Events, ...]
    batch: EventBatch
    folded: tuple[Folded, ...]
    common: CommonRows | None = None
    at: NDArray[np.int32] | None = None
    with_takers: Items | None = None

    @cached_property
    def items(self) -> Items:
        """The window items of this query."""
        return self.cut if self.at is None else self.cut.at(self.at)

    @property
    def has_exponents(self) -> bool:
        """Whether any number may be past the range of doubles; those of several operands are multiplied."""
        return len(self.folded) > 1 or bool(self.folded[0].exponent.any())

    def table(self, limits: Limits) -> pa.Table | None:
        """The result table, if it can be made of columns that other queries have too."""
        query = self.plan.query
        if self.common is None or self.at is None or query.having is not None:
            return None
        if query.includes_empty or distinct_sets(query):
            return None
        limits.check_rows(self.plan.query.name, len(self.at))
        return table_of_common(self.plan, self.common, self.at, multiply_operands(self.folded))

    def totals(self) -> Totals:
        """Add up the aggregates of every window and group."""
        return total(self.plan, self.rows, self.items, self.folded, self.batch, self.with_takers)

    def exact(self, totals: Totals, limits: Limits) -> Exact:
        """The exact numbers of the result's rows, computed on request."""
        given = self.plan, self.rows, self.items, self.events, self.batch, limits
        return Exact(*given, self.folded, totals.of_item, totals.operands)


def fold_unit(
    unit: Unit, workspace: Workspace, request: Request
) -> Iterator[tuple[FoldedQuery, FoldStep | None]]:
    """Fold every query of a unit; the step of a group comes with its first query."""
    apart = None
    if unit.group is not None:
        started = perf_counter()
        ready = prepare_group(unit.group, workspace, request)
        if not isinstance(ready.way, Apart):
            yield from _fold_group(unit, ready, started, request)
            return
        apart = ready.way
        workspace.shared |= shared_partitionings(unit.plans)
    for plan in unit.plans:
        started = perf_counter()
        alone = prepare(plan, workspace, request)
        folded, size = alone.fold_with_size()
        step = alone.step(perf_counter() - started, apart)
        yield alone.folded(folded), replace(step, bytes=size, counts=alone.counts)


def choose_unit(unit: Unit, workspace: Workspace, request: Request) -> Iterator[FoldStep]:
    """Read and measure the rows of a unit and choose its way, without folding it: its steps took no time."""
    apart = None
    if unit.group is not None:
        ready = prepare_group(unit.group, workspace, request)
        if not isinstance(ready.way, Apart):
            yield FoldStep(
                tuple(plan.query.name for plan in unit.plans), ready.way, ready.statistics.rows, 0.0
            )
            return
        apart = ready.way
    for plan in unit.plans:
        yield prepare(plan, workspace, request).step(0.0, apart)


# ---------------------------------------------------------------- one query


@dataclass(frozen=True)
class ReadyQuery:
    """A query whose rows are selected, sorted and cut into windows, and whose way is chosen.

    items     the window items that may hold a trend; windows: all windows that hold a row
    takers    the window items that have a row in any case, with INCLUDE EMPTY
    operands  its operands with their rows
    material  per operand, intermediate results of measuring that the runner of the chosen way reuses
    slots     the slots of group values, if `way` is Slots
    """

    plan: QueryPlan
    rows: Rows
    items: Items
    windows: NDArray[np.int64]
    moment: NDArray[np.int32]
    operands: tuple[OperandRows, ...]
    material: tuple[Any, ...]
    way: QueryFold
    statistics: QueryStatistics
    slots: GroupSlots | None = None
    lanes: ReadyMachineLanes | None = None
    takers: Items | None = None

    def fold(self) -> tuple[Folded, ...]:
        """Fold every window item, per operand."""
        return self.fold_with_size()[0]

    def fold_with_size(self) -> tuple[tuple[Folded, ...], int]:
        """The same, with the bytes of state held."""
        match self.way:
            case Slots(in_bursts=in_bursts):
                assert self.slots is not None
                [own] = self.operands
                given = self.plan, own.events, self.rows, self.slots
                folded, size = fold_slots(*given, in_bursts, own.limits)
                return (folded,), size
            case Lanes():
                assert self.lanes is not None
                return self.lanes.fold(), self.lanes.bytes
        ways = self.way.operands if isinstance(self.way, Combined) else (self.way,)
        parts = [fold_operand(*each) for each in zip(self.operands, ways, self.material, strict=True)]
        return tuple(folded for folded, _ in parts), sum(size for _, size in parts)

    @property
    def counts(self) -> dict[str, int]:
        """The counters of the fold."""
        return self.lanes.counts if self.lanes is not None else {}

    def step(self, seconds: float, apart: Apart | None = None) -> FoldStep:
        """The step of this fold; `apart` adds the reason that it is not folded with other queries."""
        why = self.way.why if apart is None else f"{self.way.why}; not folded with other queries: {apart.why}"
        return FoldStep((self.plan.query.name,), replace(self.way, why=why), len(self.rows.row), seconds)

    def folded(self, folded: tuple[Folded, ...]) -> FoldedQuery:
        """The query with its aggregates."""
        events = tuple(operand.events for operand in self.operands)
        return FoldedQuery(
            self.plan,
            self.rows,
            self.items,
            HeldWindows(self.windows),
            events,
            self.operands[0].batch,
            folded,
            with_takers=self.takers,
        )


def prepare(
    plan: QueryPlan, workspace: Workspace, request: Request = EVERYTHING, costs: Costs = DEFAULT_COSTS
) -> ReadyQuery:
    """Select and sort a query's rows, cut them into windows, measure them, and choose how to fold them."""
    limits, batch = request.limits, workspace.batch
    in_slots = groups_as_slots(plan, request.arithmetic)
    rows = read_rows(plan, workspace, splits=not in_slots, limits=limits)
    require_few_groups(plan, rows, limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, batch.order_of(rows.row), moment)
    events = [read_events(operand, i, rows, moment, batch) for i, operand in enumerate(plan.operands)]
    if plan.query.bound is None:
        items, windows = cut_promising(plan, rows, request)
    else:
        items, windows = cut_spans(plan, rows, events[0], batch, request)
    takers = cut_with_takers(plan, rows, request)
    slots = None
    if in_slots:
        slots, rows = read_slots(plan, workspace, rows, items)
        require_few_groups(plan, rows, limits)
        items = slots.per_slot(plan.query.name, limits)
    operands = tuple(OperandRows(plan, i, own, rows, items, batch, limits) for i, own in enumerate(events))
    measured = [(OperandStatistics(), None)] if in_slots else [measure(each) for each in operands]
    is_exact, lane = request.is_exact, None
    if may_be_lane(plan, is_exact) and has_guards(plan):
        lane = _lane(plan, rows, moment, items, batch)
    known = QueryStatistics(
        rows=len(rows.row),
        burst=burst_length(rows),
        operands=tuple(statistics for statistics, _ in measured),
        windows=len(items.low),
        groups_are_slots=in_slots,
        is_exact=is_exact,
        obstacle="" if lane is None else lane.obstacle,
    )
    way = choose(plan, known, costs)
    lanes = None
    if isinstance(way, Lanes):
        lanes = (lane or _lane(plan, rows, moment, items, batch)).lower(way.in_bursts)
    material = tuple(each for _, each in measured)
    return ReadyQuery(
        plan, rows, items, windows, moment, operands, material, way, known, slots, lanes, takers
    )


def _lane(
    plan: QueryPlan, rows: Rows, moment: NDArray[np.int32], items: Items, batch: EventBatch
) -> LaneMaterial:
    """One query as a lane."""
    return lane_material(Group("auto", LANES, (plan,)), one_query(plan, rows, moment, items, batch))


def require_few_groups(plan: QueryPlan, rows: Rows, limits: Limits) -> None:
    """Raise if a query has too many groups, before memory is allocated per group."""
    limits.check_groups(plan.query.name, group_count(rows))


# ---------------------------------------------------------------- queries together


@dataclass(frozen=True)
class ReadyGroup:
    """A group of queries whose rows are read and whose way is chosen; without rows, they are folded apart."""

    group: Group
    way: GroupFold
    statistics: GroupStatistics
    limits: Limits
    together: GroupRows | None = None
    lanes: ReadyMachineLanes | ReadySharedPanes | None = None
    trees: ReadyTrees | None = None

    def fold_trends(self, orders: Sequence[NDArray[Any]]) -> tuple[LaneTrends, ...]:
        """In lanes: per operand of each member the items that have a trend, see ReadyMachineLanes."""
        assert self.together is not None
        lanes = self._lanes_that_fit()
        found = lanes.fold_trends(orders)
        self.together.counts.update(lanes.counts)
        return found

    def _lanes_that_fit(self) -> ReadyMachineLanes | ReadySharedPanes:
        assert self.lanes is not None
        self.limits.check_state(self.group.members[0].query.name, self.lanes.bytes, HELD)
        return self.lanes

    def fold(self) -> tuple[tuple[Folded, ...], int]:
        """Per member the aggregates of its windows, and the bytes of state held."""
        assert self.together is not None
        match self.way:
            case Lanes():
                lanes = self._lanes_that_fit()
                return lanes.fold(), lanes.bytes
            case SharedTrees():
                assert self.trees is not None
                return self.trees.fold(self.way)
            case SharedPlan(method, details, _):
                group = replace(self.group, method=method, details=details)
                return paper(method, "run").FOLDS[method](group, self.together, self.limits), 0
        raise AssertionError(f"{self.way} cannot fold a group")


def prepare_group(group: Group, workspace: Workspace, request: Request = EVERYTHING) -> ReadyGroup:
    """Read the rows of queries that may be folded together, measure them, and choose how."""
    if group.method == LANES:
        return _prepare_lanes(group, workspace, request)
    if group.method == SHARED_TREES:
        return _prepare_trees(group, workspace, request)
    together, known = read_group(group, workspace, request)
    if together is not None:
        rates = frequencies(group, together), window_share(together)
        known = replace(known, frequencies=rates[0], window_share=rates[1])
    if request.running is not None:
        known = replace(known, running=request.running.get(group.name, {}))
    way = choose(group, known, DEFAULT_COSTS)
    return ReadyGroup(group, way, known, request.limits, together)


def _prepare_lanes(group: Group, workspace: Workspace, request: Request) -> ReadyGroup:
    """The same for queries that may be lanes of one machine."""
    together, known = read_lane_rows(group, workspace, request)
    if together is None:
        return ReadyGroup(group, choose(group, known, DEFAULT_COSTS), known, request.limits)
    if has_windows_per_event(group.members) and has_single_moments(together):
        rates = together.frequencies(group), window_share(together)
        rated = replace(known, frequencies=rates[0], window_share=rates[1])
        way = choose(group, rated, DEFAULT_COSTS)
        if isinstance(way, SharedPlan):
            return ReadyGroup(group, way, rated, request.limits, together.with_sets())
    material = lane_material(group, together)
    is_plain = together.slots is None and not has_windows_per_event(group.members)
    panes = measure_panes(together.windows) if is_plain else None
    known = replace(known, obstacle=material.obstacle, panes=panes)
    is_large = may_be_worth_sharing(known.rows, _lanes_of(group), DEFAULT_COSTS)
    if is_large and is_plain and not known.obstacle:
        known = _with_rates(group, together, material, known)
    way = choose(group, known, DEFAULT_COSTS)
    if isinstance(way, SharedPlan):
        together = together.with_sets()
    lanes = _lowered(material, way) if isinstance(way, Lanes) else None
    return ReadyGroup(group, way, known, request.limits, together, lanes)


def _lowered(material: LaneMaterial, way: Lanes) -> ReadyMachineLanes | ReadySharedPanes:
    if way.shares_panes:
        return lower_panes(material, way.in_bursts)
    return material.in_bursts if way.in_bursts else material.lower(in_bursts=False)


def _prepare_trees(group: Group, workspace: Workspace, request: Request) -> ReadyGroup:
    """The same where queries compare neighbours alike."""
    together, known = read_lane_rows(group, workspace, request)
    trees = None
    if together is not None:
        trees = make_trees(group, together, request.limits)
        known = replace(known, trees=trees.statistics, own_share=trees.own_share)
    way = choose(group, known, DEFAULT_COSTS)
    return ReadyGroup(group, way, known, request.limits, together, trees=trees)


def _with_rates(
    group: Group, together: LaneRows, material: LaneMaterial, known: GroupStatistics
) -> GroupStatistics:
    """Add the work of lanes and the frequencies of types: a shared plan may be chosen."""
    if any(len(plan.operands) > 1 for plan in group.members):
        return known
    rates = together.frequencies(group), window_share(together)
    work = material.in_bursts.work()
    return replace(known, work=work, frequencies=rates[0], window_share=rates[1])


def _lanes_of(group: Group) -> int:
    return sum(map(windows_at_once, group.members))


def _fold_group(
    unit: Unit, ready: ReadyGroup, started: float, request: Request
) -> Iterator[tuple[FoldedQuery, FoldStep | None]]:
    together, is_exact = ready.together, request.is_exact
    assert together is not None
    parts, size = _parts_of(ready, together, request)
    names, held = tuple(plan.query.name for plan in unit.plans), together.windows_held()
    step: FoldStep | None = FoldStep(
        names, ready.way, len(together.moment), perf_counter() - started, size, counts=dict(together.counts)
    )
    for plan in unit.plans:
        part = parts[plan.number]
        rows = together.rows_of(plan, ready.group.members[0])
        require_few_groups(plan, rows, ready.limits)
        events: tuple[Events, ...] = ()
        if isinstance(together, LaneRows) and (is_exact or plan.query.having is not None):
            rows, events = together.own_rows(plan, rows)
        windows, batch, takers = held[plan.number], together.batch, together.with_takers(plan)
        yield (
            FoldedQuery(
                plan, rows, part.cut, windows, events, batch, part.folded, part.common, part.at, takers
            ),
            step,
        )
        step = None


@dataclass(frozen=True)
class _MemberPart:
    """The aggregates of one member; see FoldedQuery."""

    cut: Items
    folded: tuple[Folded, ...]
    common: CommonRows | None = None
    at: NDArray[np.int32] | None = None


def _parts_of(ready: ReadyGroup, together: GroupRows, request: Request) -> tuple[list[_MemberPart], int]:
    """Fold a group: the aggregates of each member where it has a trend, and the bytes of state held."""
    if isinstance(together, LaneRows) and ready.lanes is not None:
        return _lane_parts(ready, together, request), ready.lanes.bytes
    folded, size = ready.fold()
    return [_MemberPart(*each) for each in together.with_trends([(one,) for one in folded])], size


def _lane_parts(ready: ReadyGroup, together: LaneRows, request: Request) -> list[_MemberPart]:
    members, common = ready.group.members, []
    for which, items in enumerate(together.windows):
        first = members[together.window_of.index(which)]
        rows = together.rows_of(first, members[0])
        common.append(find_common_rows(first, rows, items, together.batch, request.origin))
    trends = ready.fold_trends([np.zeros(0, np.int32) if each is None else each.order for each in common])
    found = []
    for (low, high), which in zip(pairwise(together.operands), together.window_of, strict=True):
        at, folded = in_all_operands(trends[low:high])
        here = common[which]
        items = together.windows[which] if here is None else here.items
        found.append(_MemberPart(items, folded, here, at))
    return found
