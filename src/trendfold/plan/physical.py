"""The ways to fold, and the one function that chooses among them.

A way is a plain value: the parameters its runner needs beyond the logical plan, and the reason it was chosen.
`choose` is pure. Each engine calls it where the statistics are measured: in the local process, in a Spark
task, or at each release of a stream. `explain(data=...)` shows its choices; `result.plan` has those of a run.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, overload

from trendfold.errors import plural
from trendfold.plan.carried import distinct_sets
from trendfold.plan.cost import (
    DEFAULT_COSTS,
    WORTH_NS,
    Costs,
    batches_ns,
    bindings_ns,
    lanes_ns,
    long_stretch,
    panes_ns,
    products_ns,
    vectors_ns,
)
from trendfold.plan.logical import LANES, SHARED_TREES, Group, OperandPlan, QueryPlan
from trendfold.plan.overlap import Sharing, matrix_shape
from trendfold.plan.papers import NEED_RATES, counters, offer, paper
from trendfold.plan.spread import keeps_other_rows, pane_of
from trendfold.plan.statistics import (
    BatchSize,
    GroupStatistics,
    OperandStatistics,
    QueryStatistics,
    ValueStatistics,
)
from trendfold.plan.workload import PER_EVENT, why_no_lanes, windows_at_once
from trendfold.query.nodes import Semantics

# ---------------------------------------------------------------- the ways


@dataclass(frozen=True, slots=True)
class Vectors:
    """Each window separately: a vector of aggregates, one entry per state, updated event by event."""

    why: str


@dataclass(frozen=True, slots=True)
class Products:
    """Overlapping windows share the stretches between their edges (two-stack aggregation).

    long        stretches of at least this many rows become a matrix
    in_doubles  whether numbers are plain doubles, and wide only where one leaves their range
    """

    long: int
    why: str
    in_doubles: bool = False


@dataclass(frozen=True, slots=True)
class Bindings:
    """Bindings are kept one by one and found by value in tables and trees, or scanned.

    windows  how many overlapping windows share the same trees; 1 if each has its own
    """

    windows: int
    why: str


@dataclass(frozen=True, slots=True)
class Queues:
    """Bindings are kept one by one, in queues: they can be continued for some time, and expire in order."""

    why: str


@dataclass(frozen=True, slots=True)
class Trends:
    """Every trend is built, then aggregated."""

    why: str


OperandFold = Vectors | Products | Bindings | Queues | Trends


@dataclass(frozen=True, slots=True)
class Combined:
    """The operands of an outermost AND, each folded its own way; their aggregates are multiplied."""

    operands: tuple[OperandFold, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Slots:
    """`GROUP BY T.g` in one pass: from T on, each value of g has its own slot.

    in_bursts  whether a burst of equal events is applied in one step, where that is possible
    """

    why: str
    in_bursts: bool = False


@dataclass(frozen=True, slots=True)
class Lanes:
    """Many queries in one pass: a lane is a query in an open window.

    in_bursts     whether a burst of equal events is applied in one step, where that is possible
    shares_panes  whether windows are products of the stretches between their edges; otherwise an event
                  updates every open window
    """

    why: str
    in_bursts: bool = False
    shares_panes: bool = False


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """A paper's method with its own plan.

    method   a key of the paper's `run.FOLDS`
    details  the plan of that method
    running  on streams, what they store of a plan that follows their rates
    """

    method: str
    details: Any
    why: str
    running: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SharedTrees:
    """Queries that compare neighbours alike share tables and trees: a lane is a query in an open window.

    windows  how many overlapping windows share the same trees
    queries  how many queries do; all queries share the ranks of values
    """

    windows: int
    queries: int
    why: str


@dataclass(frozen=True, slots=True)
class Matrices:
    """Each task folds its stretches of rows into matrices; the matrices are multiplied in time order."""

    why: str


@dataclass(frozen=True, slots=True)
class Online:
    """A stream folds events once, as soon as they are final; an open window is a vector per segment."""

    why: str


@dataclass(frozen=True, slots=True)
class Joins:
    """RETURN MATCHES: events are joined to partial matches by one join plan for all queries."""

    why: str


@dataclass(frozen=True, slots=True)
class Walks:
    """RETURN MATCHES: each match is built event by event."""

    why: str


@dataclass(frozen=True, slots=True)
class Apart:
    """Queries that could have been folded together are folded one by one."""

    why: str


QueryFold = OperandFold | Combined | Slots | Lanes
GroupFold = Lanes | SharedPlan | SharedTrees | Apart
Fold = (
    OperandFold
    | Combined
    | Slots
    | Lanes
    | SharedPlan
    | SharedTrees
    | Matrices
    | Online
    | Joins
    | Walks
    | Apart
)

NAMES: Mapping[type[Fold], str] = {
    Vectors: "vectors",
    Products: "products of stretches",
    Bindings: "bindings by value",
    Queues: "bindings in queues",
    Trends: "trends built",
    Combined: "operands combined",
    Slots: "group values as slots",
    Lanes: "lanes",
    SharedPlan: "shared plan",
    SharedTrees: "shared trees",
    Matrices: "matrices",
    Online: "folded online",
    Joins: "joins",
    Walks: "walks",
    Apart: "one by one",
}
"""The name of each way in `explain` and `result.plan`."""


# ---------------------------------------------------------------- decided before rows are read


def groups_as_slots(plan: QueryPlan, arithmetic: str) -> bool:
    """Whether all values of GROUP BY T.g stay in one stream; otherwise each value gets its own stream.

    HAVING, `exact` and `integer` need exact integers, which are computed stream by stream. Per-event windows
    depend on the events of their own group, INCLUDE EMPTY and COUNT(DISTINCT) on those of each stream.
    """
    if len(plan.operands) != 1 or len({key.alias for key in plan.qualified_keys}) != 1:
        return False
    (operand,) = plan.operands
    query, machine = plan.query, operand.machine
    is_per_event = query.window is not None and query.window.slide is None
    return (
        arithmetic == "auto"
        and query.semantics is Semantics.ANY
        and query.having is None
        and not query.includes_empty
        and not distinct_sets(query)
        and not is_per_event
        and query.bound is None
        and not machine.by_event
        and not machine.automaton.guards
        and not operand.carried.extremes
    )


# ---------------------------------------------------------------- what Spark tasks exchange

_ROW_BYTES = 24
"""Approximate bytes of a shuffled row."""
_FEW_BYTES = 1 << 16
"""Matrices up to this size are always sent."""


def choose_exchange(rows: int, matrix_bytes: int) -> Matrices | None:
    """Exchange matrices instead of rows; None where the rows themselves are smaller."""
    if matrix_bytes > max(rows * _ROW_BYTES, _FEW_BYTES):
        return None
    return Matrices("parts of the source are in time order, and matrices are smaller than their rows")


_MOST_CELLS = 1 << 16
"""A bound on the numbers that events of one pass update, so that they stay in the CPU cache."""


def matrices_together(plans: Mapping[int, QueryPlan]) -> list[tuple[int, ...]]:
    """Split linear queries, given by their indices, into those whose matrices are folded in one pass.

    They need the same segments and panes. *Contiguous* queries are apart from others, because they need all
    rows.
    """
    found: list[list[int]] = []
    latest: dict[Hashable, tuple[list[int], int]] = {}
    for number, plan in plans.items():
        plain = tuple(key.attribute for key in plan.plain_keys)
        key = plan.partition, plain, pane_of(plan), keeps_other_rows(plan)
        shapes = (matrix_shape(operand.machine, operand.carried) for operand in plan.operands)
        cells = sum(shape.starts * shape.states * shape.entry for shape in shapes)
        together, size = latest.get(key, ([], 0))
        if not together or size + cells > _MOST_CELLS:
            together, size = [], 0
            found.append(together)
        together.append(number)
        latest[key] = together, size + cells
    return [tuple(each) for each in found]


# ---------------------------------------------------------------- the choice


@overload
def choose(unit: QueryPlan, statistics: QueryStatistics, costs: Costs) -> QueryFold: ...


@overload
def choose(unit: Group, statistics: GroupStatistics, costs: Costs) -> GroupFold: ...


def choose(
    unit: QueryPlan | Group, statistics: QueryStatistics | GroupStatistics, costs: Costs
) -> QueryFold | GroupFold:
    """Choose the way to fold one query, or a group of queries."""
    match unit, statistics:
        case Group(), GroupStatistics():
            return _choose_group(unit, statistics, costs)
        case QueryPlan(), QueryStatistics():
            return _choose_query(unit, statistics, costs)
    raise TypeError(f"cannot choose for a {type(unit).__name__} by {type(statistics).__name__}")


MOST_KINDS = 1 << 12
"""The most kinds of rows that a group of queries may distinguish."""


def why_apart(group: Group, known: GroupStatistics) -> str:
    """The reason, given the statistics so far, to fold the queries of a group one by one; empty if none."""
    if known.is_exact and group.method != LANES:
        return "exact arithmetic is computed query by query"
    if group.method == SHARED_TREES and known.group_values > len(group.members):
        return (
            f"GROUP BY has {known.group_values:,} values, and folding together copies the rows once per "
            f"value: more often than {len(group.members)} queries read them"
        )
    if why := _why_open_windows_apart(group, known, DEFAULT_COSTS):
        return why
    if known.values is not None and (why := _why_values_apart(group, known.values, DEFAULT_COSTS)):
        return why
    if known.kinds > MOST_KINDS:
        return f"their conditions distinguish {known.kinds:,} kinds of rows, more than {MOST_KINDS:,}"
    if not known.windows_fit:
        return "together their windows exceed the limit 'windows'"
    return known.obstacle


def has_windows_per_event(plans: Sequence[QueryPlan]) -> bool:
    """Whether queries have windows per event: those of a group all have, or none has."""
    return windows_at_once(plans[0]) == PER_EVENT


def _why_open_windows_apart(group: Group, known: GroupStatistics, costs: Costs) -> str:
    """The reason to fold queries with windows per event one by one; empty if lanes are cheaper."""
    if group.method != LANES or not has_windows_per_event(group.members):
        return ""
    vectors = _vectors(group.members, known.open_windows)
    if vectors * costs.vector < len(group.members) * costs.moved:
        return ""
    return f"{known.open_windows:,} windows are open at once, and each query alone can share stretches"


def values_are_slots(group: Group, known: ValueStatistics, costs: Costs) -> bool:
    """Whether values of GROUP BY T.g are slots of lanes; otherwise each has a copy of the rows."""
    return bool(known.slots) and _in_slots_ns(group, known, costs) < _copied_ns(group, known, costs)


def _in_slots_ns(group: Group, known: ValueStatistics, costs: Costs) -> float:
    """Events at T act on the slots of one value, those after T on all."""
    vectors = _vectors(group.members)
    cells = sum(len(operand.machine.states) for plan in group.members for operand in plan.operands)
    if 12 * cells * known.slots * windows_at_once(group.members[0]) > LARGEST_STACKS:
        return inf
    return known.rows * costs.apply(vectors, 1) + known.acting * known.slots * vectors * costs.vector


def _copied_ns(group: Group, known: ValueStatistics, costs: Costs) -> float:
    return known.copied * (costs.apply(_vectors(group.members), 1) + costs.copy)


def _why_values_apart(group: Group, known: ValueStatistics, costs: Costs) -> str:
    """The reason to fold queries with GROUP BY T.g one by one; empty if lanes are cheaper."""
    lanes = min(_copied_ns(group, known, costs), _in_slots_ns(group, known, costs) if known.slots else inf)
    apart = known.rows * costs.slot_event + known.acting * known.slots / 8 * costs.vector
    if lanes < apart * len(group.members):
        return ""
    how = "an event after T acts on all of them" if known.slots else "lanes need a copy of the rows for each"
    return f"GROUP BY has so many values that lanes are not cheaper: {how}"


def _choose_counters(group: Group, known: GroupStatistics, costs: Costs) -> SharedPlan | None:
    """Prefix counters for windows per event, if the rows are known to suit them and lanes cost more."""
    if group.method != LANES or not known.frequencies or not has_windows_per_event(group.members):
        return None
    if why_apart(group, replace(known, open_windows=1)):
        return None
    lanes = known.rows * costs.apply(_vectors(group.members, known.open_windows), 1)
    apart = known.rows * len(group.members) * costs.moved
    found = counters().cheaper(group.members, known, min(lanes, apart))
    if found is None:
        return None
    plan, times = found
    why = f"windows move with events; prefix counters are expected to be {times:.1f} times cheaper than lanes"
    return SharedPlan(counters().METHOD, plan, why)


def _choose_group(group: Group, known: GroupStatistics, costs: Costs) -> GroupFold:
    if (counted := _choose_counters(group, known, costs)) is not None:
        return counted
    if why := why_apart(group, known):
        return Apart(why)
    if group.method == SHARED_TREES:
        return _choose_shared_trees(group, known)
    if group.method != LANES:
        why = f"strategy {group.strategy!r} was requested"
        if known.running is not None and group.method in NEED_RATES:
            details, running, how = paper(group.method, "follow").followed(group, known)
            return SharedPlan(group.method, details, f"{why}; {how}" if how else why, running)
        if group.fitted_by:
            return SharedPlan(group.method, group.details, f"{why}; planned by {group.fitted_by}")
        return SharedPlan(group.method, paper(group.method, "plan").fitted(group, known), why)
    expected = lanes_ns(known.work, costs)
    if known.work and expected >= WORTH_NS and not known.is_exact:
        shared = offer().cheaper(group.members, known, expected)
        if shared is not None:
            return SharedPlan(offer().METHOD, shared, "its plan is expected to be cheaper than lanes")
    in_bursts = costs.pays_in_bursts(known.burst, _vectors(group.members, known.open_windows))
    applied = "bursts are applied once" if in_bursts else "events are applied one by one"
    why = f"{_many(group)} have the same partitions and groups; {applied}"
    if known.values is not None:
        slots = values_are_slots(group, known.values, costs)
        why += (
            "; values of GROUP BY are slots" if slots else "; each value of GROUP BY has a copy of the rows"
        )
    if shares_panes := _shares_panes(group.members, known, costs):
        why += "; overlapping windows share stretches"
    return Lanes(why, in_bursts, shares_panes)


def _shares_panes(plans: Sequence[QueryPlan], known: GroupStatistics, costs: Costs) -> bool:
    """Whether products of stretches are cheaper for lanes than updating every open window."""
    if known.panes is None:
        return False
    shapes = [matrix_shape(operand.machine, operand.carried) for plan in plans for operand in plan.operands]
    if known.panes.stretches * sum(shape.bytes for shape in shapes) > LARGEST_STACKS:
        return False
    entries = sum(shape.entry for shape in shapes)
    starts = sum(shape.starts * shape.entry for shape in shapes)
    cells = sum(shape.starts * (shape.states - 1) * shape.entry for shape in shapes)
    each = known.rows * costs.vector * known.open_windows * entries / 8
    shared = known.rows * costs.vector * starts / 8 + panes_ns(known.panes, cells / 8, costs)
    return shared < each


def _vectors(plans: Sequence[QueryPlan], open_windows: int = 1) -> int:
    """Vectors of eight lanes, of all numbers; of windows per event so many are open at once."""
    lanes = 0
    for plan in plans:
        windows = open_windows if windows_at_once(plan) == PER_EVENT else windows_at_once(plan)
        lanes += windows * sum(operand.carried.width for operand in plan.operands)
    return lanes // 8 + 1


def _many(group: Group) -> str:
    return plural(len(group.members), "query", "queries")


def _choose_query(plan: QueryPlan, known: QueryStatistics, costs: Costs) -> QueryFold:
    if known.groups_are_slots:
        why = f"GROUP BY {plan.qualified_keys[0].alias} splits trends only from there on"
        return Slots(why, costs.pays_in_bursts(known.burst, _vectors([plan])))
    if why := _why_lane(plan, known, costs):
        return Lanes(why, costs.pays_in_bursts(known.burst, _vectors([plan])))
    ways = tuple(
        _choose_operand(plan, operand, each)
        for operand, each in zip(plan.operands, known.operands, strict=True)
    )
    return ways[0] if len(ways) == 1 else Combined(ways, "AND folds its operands separately")


def may_be_lane(plan: QueryPlan, is_exact: bool) -> bool:
    """Whether a single query may be folded as a lane of its own."""
    is_simple = len(plan.operands) == 1 and plan.shares_windows and not plan.qualified_keys
    return is_simple and not is_exact and not why_no_lanes(plan)


def has_guards(plan: QueryPlan) -> bool:
    """Whether a NOT splits pending counts into classes."""
    return any(map(_has_guards, plan.operands))


def _has_guards(operand: OperandPlan) -> bool:
    return any(each is not None for each in operand.machine.guard_classes)


def _why_lane(plan: QueryPlan, known: QueryStatistics, costs: Costs) -> str:
    """The reason that a lane is cheaper for a single query than a loop of its own; empty if it is not."""
    if known.obstacle or not may_be_lane(plan, known.is_exact):
        return ""
    if has_guards(plan):
        return "NOT changes the class of pending counts, which a lane does in a few operations"
    carried = plan.operands[0].carried
    if carried.width > 1 or carried.extremes:
        return ""
    windows = known.windows / max(1, known.rows)
    if not costs.pays_alone(known.burst, windows_at_once(plan) // 8 + 1, windows):
        return ""
    return f"equal events come in bursts of {known.burst:.0f}, and each burst is applied once"


def _choose_operand(plan: QueryPlan, operand: OperandPlan, known: OperandStatistics) -> OperandFold:
    if operand.builds_trends:
        return Trends(_why_built(plan, operand))
    if plan.has_queues(operand):
        return Queues("neighbours are compared by time alone, so bindings expire in order")
    if operand.machine.by_event:
        return _choose_bindings(plan, operand, known)
    if known.overlap is None:
        return Vectors(_why_alone(plan, operand))
    shape = matrix_shape(operand.machine, operand.carried)
    if known.stack_bytes > LARGEST_STACKS:
        return Vectors("windows overlap, but the matrices of their stretches would take too much memory")
    each, shared = vectors_ns(known.overlap, shape), products_ns(known.overlap, shape)
    if shared >= each:
        return Vectors(
            f"windows overlap, but folding each separately is expected to be {_times(shared, each)} cheaper"
        )
    overlap = (
        "windows overlap" if plan.query.bound is None else "each moment that may end trends has a window"
    )
    why = f"{overlap}; sharing stretches is expected to be {_times(each, shared)} cheaper"
    if in_doubles := _fits_doubles(operand, known):
        why += "; numbers are doubles until one leaves their range"
    return Products(long_stretch(shape), why, in_doubles)


def _fits_doubles(operand: OperandPlan, known: OperandStatistics) -> bool:
    """Whether products may begin in doubles: counts and sums of small values, no NOT's classes, no matrices.

    No sums of durations either: in doubles no time passes.
    """
    has_matrices = known.overlap is None or known.overlap.long > 0
    is_plain = not operand.carried.extremes and not operand.carried.elapsed
    return is_plain and known.is_small and not has_matrices and not _has_guards(operand)


LARGEST_STACKS = 1 << 28
"""The most bytes that products of stretches may hold at once."""
LARGEST_BATCH = 1 << 28
"""The most bytes that a batch of windows may hold."""


def _choose_bindings(plan: QueryPlan, operand: OperandPlan, known: OperandStatistics) -> Bindings:
    """Choose windows one by one, or the cheapest batch size."""
    if plan.query.bound is not None:
        return Bindings(
            1, "a predicate compares neighbours; each moment that may end trends has its own window"
        )
    if plan.strategy == "greta":
        return Bindings(1, "strategy 'greta' keeps every binding")
    if plan.sharing(operand) is not Sharing.TREES:
        return Bindings(1, "a predicate compares neighbours")
    entry = _entry(operand)
    is_next = operand.machine.semantics is Semantics.NEXT
    each = bindings_ns(known.window_rows, entry, is_next)
    best, least = 1, each
    for batch in known.batches:
        cost = batches_ns(batch.passed, known.window_rows, batch.windows, entry, batch.bytes, is_next)
        if batch.bytes <= LARGEST_BATCH and cost < least:
            best, least = batch.windows, cost
    if best == 1:
        return Bindings(1, "a predicate compares neighbours; windows overlap too little to share trees")
    why = f"a predicate compares neighbours; sharing trees is expected to be {_times(each, least)} cheaper"
    return Bindings(best, why)


def _choose_shared_trees(group: Group, known: GroupStatistics) -> SharedTrees | Apart:
    """Choose how many queries and windows share trees, or each query by itself, whichever is cheapest."""
    (operand,) = group.members[0].operands
    entry, rows, members = _entry(operand), known.trees.window_rows, len(group.members)

    def each_ns(batch: BatchSize) -> float:
        """One pass, for as many queries as share a batch."""
        lanes = batch.windows * batch.queries
        return batches_ns(batch.passed, rows * batch.queries, lanes, entry, batch.bytes, is_next=False)

    fitting = [batch for batch in known.trees.batches if batch.bytes <= LARGEST_BATCH]
    alone = [bindings_ns(rows, entry, is_next=False)]
    alone += [each_ns(batch) for batch in fitting if batch.queries == 1]
    apart = min(alone) * known.own_share * members
    passes = {batch: each_ns(batch) * -(-members // batch.queries) for batch in fitting if batch.queries > 1}
    best = min(passes, key=lambda batch: passes[batch], default=None)
    if best is None:
        return Apart("trees of several queries at once would take too much memory")
    if passes[best] >= apart:
        return Apart("each query needs so few of the rows that trees of its own are cheaper")
    why = f"{_many(group)} compare neighbours alike; sharing trees is expected to be"
    return SharedTrees(best.windows, best.queries, f"{why} {_times(apart, passes[best])} cheaper")


def _entry(operand: OperandPlan) -> int:
    """The numbers and extremes of one vector entry."""
    return operand.carried.width + len(operand.carried.extremes)


def _why_built(plan: QueryPlan, operand: OperandPlan) -> str:
    if operand.machine.predicates.cross:
        return "a predicate compares events that need not be neighbours"
    return f"strategy {plan.strategy!r} builds every trend"


def _why_alone(plan: QueryPlan, operand: OperandPlan) -> str:
    found = plan.sharing(operand)
    if plan.query.bound is not None and found is not Sharing.NOTHING:
        return "a NOT at an end decides, moment by moment, which trends count"
    if found is None:
        return "one window over all rows" if plan.query.window is None else "windows do not overlap"
    if found is Sharing.NOTHING:
        return f"strategy {plan.strategy!r} folds every window separately"
    return "no two windows share a row"


def _times(more: float, less: float) -> str:
    return f"{more / less:.1f} times" if less > 0 else "far"
