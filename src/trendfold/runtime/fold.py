"""Program + rows -> aggregates per window item: the bridge from machines to kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END
from trendfold.events.batch import EventBatch
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel import construct, fold
from trendfold.kernel.guards import latest_starts
from trendfold.kernel.lower import (
    SEMANTICS,
    extreme_columns,
    lower_frame,
    lower_guards,
    lower_negated,
    lower_paths,
    lower_rows,
    no_grid,
    value_columns,
)
from trendfold.kernel.program import Events, Folded, Pairs
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Carried, Measure
from trendfold.plan.windows import Sharing
from trendfold.runtime.bindings import asked_one_by_one, fold_bindings, pairs_of
from trendfold.runtime.conditions import is_exact
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import Rows
from trendfold.runtime.stretches import fold_shared, share
from trendfold.runtime.windows import Items

_LARGEST_VALUE = 2.0**200
"""Past it a value times a count that is far smaller than a sum may still show in it; see kernel.wide."""


def read_events(
    plan: OperandPlan, number: int, rows: Rows, moment: NDArray[np.int32], batch: EventBatch
) -> Events:
    """What the kernels read of the rows for one operand, the `number`-th."""
    return values_beside(plan.carried, rows.symbols[number], moment, rows.row, batch)


def values_beside(
    carried: Carried,
    symbol: NDArray[np.int32],
    moment: NDArray[np.int32],
    row: NDArray[Any],
    batch: EventBatch,
) -> Events:
    """Rows with the values that numbers add and extremes compare, side by side."""
    added = [_values(batch.column(name).take(row), measure) for measure, name in value_columns(carried)]
    compared = [_extremes(batch.column(name), row, is_max) for name, is_max in extreme_columns(carried)]
    beside = _beside(1.0, added, len(moment))
    is_small = not added or bool(max(beside.max(initial=0.0), -beside.min(initial=0.0)) <= _LARGEST_VALUE)
    return Events(symbol, moment, beside, _beside(np.inf, compared, len(moment)), is_small)


def fold_items(
    plan: QueryPlan,
    number: int,
    events: Events,
    rows: Rows,
    items: Items,
    batch: EventBatch,
    limits: Limits,
) -> Folded:
    """The whole trends of one operand (the `number`-th) in every window item."""
    operand = plan.operands[number]
    machine, carried = operand.machine, operand.carried
    alphabet = rows.alphabets[number]
    frame = lower_frame(machine, carried)
    guards = lower_guards(machine, alphabet)
    out = no_trends(len(items.low), frame.width, frame.extremes)
    if not machine.by_event:
        shared = share(operand, items) if plan.sharing(operand) is Sharing.STACKS else None
        if shared is not None:
            return fold_shared(operand, events, alphabet, shared)
        program, grid = lower_rows(machine, alphabet, carried)
        if not events.is_small:
            grid = no_grid(grid)
        fold.fold_windows(events, items.low, items.high, program, grid, guards, frame, out)
        return out
    asked = None if operand.builds_trends else asked_one_by_one(operand)
    pairs = pairs_of(machine, rows, batch, asked)
    latest = latest_of(plan, number, rows, events, pairs, limits)
    if operand.builds_trends:
        paths = lower_paths(machine, alphabet, carried)
        semantics = SEMANTICS[machine.semantics]
        built = construct.build_windows(
            events, items.low, items.high, paths, pairs, latest, semantics, limits.trends, out
        )
        limits.check_trends(plan.query.name, built)
        return out
    fold_bindings(
        operand,
        plan.query.name,
        events,
        rows,
        number,
        items,
        batch,
        pairs,
        latest,
        end_guard(operand),
        frame,
        limits,
        plan.sharing(operand) is Sharing.LANES,
        out,
    )
    return out


def no_trends(items: int, width: int, extremes: int) -> Folded:
    """Items without any trend."""
    return Folded(
        np.zeros((items, width)), np.zeros((items, width), np.int32), np.full((items, extremes), np.inf)
    )


def latest_of(
    plan: QueryPlan, number: int, rows: Rows, events: Events, pairs: Pairs, limits: Limits
) -> NDArray[np.int32]:
    """The latest start of each NOT's trends, moment by moment."""
    machine, carried = plan.operands[number].machine, plan.operands[number].carried
    moments = int(events.moment[-1]) + 1 if len(events.moment) else 0
    latest = np.full((len(machine.automaton.guards), moments), -1, np.int32)
    if not len(latest):
        return latest
    alphabet = rows.alphabets[number]
    latest_starts(lower_negated(machine, alphabet), events.symbol, events.moment, rows.segment, pairs, latest)
    nothing = no_trends(0, carried.width, len(carried.extremes))
    for g, guard in enumerate(machine.automaton.guards):
        own = set(guard.positions)
        if any(own & cross.left and own & cross.right for cross in machine.predicates.cross):
            latest[g] = -1
            paths = lower_paths(machine, alphabet, carried, g)
            built = construct.latest_built_starts(
                events, rows.segment, paths, pairs, limits.trends, nothing, latest[g]
            )
            limits.check_trends(plan.query.name, built)
    return latest


def end_guard(plan: OperandPlan) -> int:
    """The guard at ⊤, or -1."""
    guard = plan.machine.guard_at(END)
    return -1 if guard is None else guard


def _beside(first: float, columns: list[NDArray[np.float64]], rows: int) -> NDArray[np.float64]:
    """A constant and then the columns side by side, so that one event's values lie together."""
    return np.stack([np.full(rows, first), *columns], axis=1) if columns else np.zeros((rows, 0))


def _values(column: Column, measure: Measure) -> NDArray[np.float64]:
    """What SUM adds up, 0 for null; or 1 where there is a value."""
    if measure is Measure.PRESENT:
        return column.valid.astype(np.float64)
    return np.where(column.valid, column.values.astype(np.float64), 0.0)


def _extremes(column: Column, rows: NDArray[np.int64], is_max: bool) -> NDArray[np.float64]:
    """What MIN compares: the values, or their ranks where a double could not tell them apart."""
    values = column.values.astype(np.float64) if is_exact(column) else ranked(column)[1].astype(np.float64)
    return np.where(column.valid, -values if is_max else values, np.inf)[rows]


def ranked(column: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values of a column in order, and per row the place of its value among them."""
    return np.unique(column.values.astype(np.int64), return_inverse=True)


def decode_extreme(column: Column, extreme: NDArray[np.float64], is_max: bool) -> NDArray[Any]:
    """The attribute's values back from what MIN compared; 0 where there was none."""
    found = np.where(np.isfinite(extreme), -extreme if is_max else extreme, 0.0) + 0.0
    if column.kind is Kind.FLOAT:
        return found
    places = np.rint(found).astype(np.int64)
    return places if is_exact(column) or not len(column.values) else ranked(column)[0][places]
