"""Program + rows -> aggregates per window item: the bridge from machines to kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, Symbol
from trendfold.events.batch import EventBatch
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel import construct, fold, stretch
from trendfold.kernel.guards import latest_starts
from trendfold.kernel.lower import (
    extreme_columns,
    lower_frame,
    lower_guards,
    lower_negated,
    lower_paths,
    lower_rows,
    no_grid,
    value_columns,
)
from trendfold.kernel.program import Events, Folded, Frame, Pairs
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Measure
from trendfold.query.nodes import Semantics
from trendfold.runtime.bindings import SEMANTICS, asked_one_by_one, fold_bindings, pairs_of
from trendfold.runtime.conditions import is_exact
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import Rows
from trendfold.runtime.windows import Items

_LARGEST_VALUE = 2.0**200
"""Past it a value times a count that is far smaller than a sum may still show in it; see kernel.wide."""


def read_events(
    plan: OperandPlan, number: int, rows: Rows, moment: NDArray[np.int32], batch: EventBatch
) -> Events:
    """What the kernels read of the rows for one operand, the `number`-th."""
    values = [_values(batch.column(a).take(rows.row), m) for m, a in value_columns(plan.carried)]
    extremes = [_extremes(batch.column(a), rows.row, is_max) for a, is_max in extreme_columns(plan.carried)]
    beside = _beside(1.0, values, len(moment))
    is_small = not values or bool(max(beside.max(initial=0.0), -beside.min(initial=0.0)) <= _LARGEST_VALUE)
    return Events(rows.symbols[number], moment, beside, _beside(np.inf, extremes, len(moment)), is_small)


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
        program, grid = lower_rows(machine, alphabet, carried)
        if not events.is_small:
            grid = no_grid(grid)
        shared = _shared_stretches(operand, items, frame)
        if shared is None:
            fold.fold_windows(events, items.low, items.high, program, grid, guards, frame, out)
            return out
        matrix = fold_matrices(operand, events, alphabet, shared.bounds)
        return multiply_matrices(operand, matrix, shared.low, shared.high)
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
        out,
    )
    return out


@dataclass(frozen=True)
class _Shared:
    """Windows that overlap, as products of stretches: window k is the stretches [low[k], high[k])."""

    bounds: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


_LARGEST_MATRICES = 1 << 28
"""Bytes of matrices held at once; past it windows are folded one by one."""


def _shared_stretches(plan: OperandPlan, items: Items, frame: Frame) -> _Shared | None:
    """Stretches between the edges of all windows, where folding each once is cheaper than each window.

    Costs are counted in terms: an event costs one per state it is folded from, a product one per pair of
    states and number.
    """
    machine = plan.machine
    if np.all(items.high[:-1] <= items.low[1:]):  # windows that share no row
        return None
    bounds = np.unique(np.concatenate([items.low, items.high]))
    if len(bounds) < 2:
        return None
    states = _starts(machine)
    low, high = np.searchsorted(bounds, items.low), np.searchsorted(bounds, items.high)
    matrix = len(states) * frame.states * (frame.width + frame.extremes)
    alone = int((items.high - items.low).sum())
    together = int(bounds[-1] - bounds[0]) * len(states) + int((high - low).sum()) * matrix * 2
    if not _pays(alone, together, len(bounds) * matrix * 12):
        return None
    return _Shared(bounds, low, high)


def _pays(alone: int, together: int, size: int) -> bool:
    """Whether stretches are cheaper than windows one by one, and their matrices fit."""
    return together < alone and size <= _LARGEST_MATRICES


def fold_matrices(
    plan: OperandPlan, events: Events, alphabet: tuple[Symbol, ...], bounds: NDArray[np.int64]
) -> Folded:
    """The rows [bounds[k], bounds[k+1]) as matrix k: what mass 1 at each start becomes."""
    machine = plan.machine
    frame, guards = lower_frame(machine, plan.carried), lower_guards(machine, alphabet)
    program, grid = lower_rows(machine, alphabet, plan.carried)
    starts = np.array(_starts(machine), np.int32)
    is_contiguous = machine.semantics is Semantics.CONTIGUOUS
    fades = np.array(
        [is_contiguous and machine.states[s].place not in (START, END) for s in starts], np.bool_
    )
    matrix = _no_matrix(len(bounds) - 1, len(starts), frame)
    stretch.fold_stretches(
        events,
        bounds,
        program,
        grid if events.is_small else no_grid(grid),
        guards,
        frame,
        starts,
        fades,
        matrix,
    )
    return matrix


def multiply_matrices(
    plan: OperandPlan, matrix: Folded, low: NDArray[np.int64], high: NDArray[np.int64]
) -> Folded:
    """The whole trends of windows: window k is the product of the matrices [low[k], high[k])."""
    frame = lower_frame(plan.machine, plan.carried)
    out = no_trends(len(low), frame.width, frame.extremes)
    stretch.multiply_windows(low, high, frame, np.array(_starts(plan.machine), np.int32), matrix, out)
    return out


def matrix_shape(plan: OperandPlan) -> tuple[int, int, int, int]:
    """Starts, states, numbers and extremes of a stretch's matrix."""
    frame = lower_frame(plan.machine, plan.carried)
    return len(_starts(plan.machine)), frame.states, frame.width, frame.extremes


def _starts(machine: Machine) -> list[int]:
    """The states that mass may come into a stretch from; ⊤ only collects, unless a NOT guards it."""
    passing = machine.guard_at(END) is None
    return [i for i, s in enumerate(machine.states) if not (passing and s.place == END)]


def _no_matrix(stretches: int, starts: int, frame: Frame) -> Folded:
    shape = (stretches, starts, frame.states)
    return Folded(
        np.zeros((*shape, frame.width)),
        np.zeros((*shape, frame.width), np.int32),
        np.full((*shape, frame.extremes), np.inf),
    )


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
