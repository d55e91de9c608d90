"""Conditions on two events and guards judged by time, which kernels evaluate besides the machine."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END
from trendfold.automaton.predicates import Pairwise
from trendfold.events.batch import EventBatch
from trendfold.kernel import construct
from trendfold.kernel.guards import latest_starts
from trendfold.kernel.lower import lower_negated, lower_paths
from trendfold.kernel.program import LAST_MOMENT, Events, Pairs
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.query.nodes import WindowUnit
from trendfold.runtime.compared_rows import ComparedRows
from trendfold.runtime.conditions import NegatedRows, compile_pairs
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.values import no_trends


def compared_rows(
    plan: QueryPlan, number: int, rows: Rows, moment: NDArray[np.int32], batch: EventBatch
) -> ComparedRows:
    """The rows of an operand as conditions on two events read them."""
    machine, alphabet = plan.operands[number].machine, rows.alphabets[number]
    return ComparedRows(machine, rows, alphabet, rows.symbols[number], moment, batch, _reach(plan))


def _reach(plan: QueryPlan) -> int:
    """The time within which events of one window, or of trends of bounded span, lie; -1 if there is none."""
    window, bound = plan.query.window, plan.query.bound
    if bound is not None:
        return bound.length
    is_timed = window is not None and window.unit is WindowUnit.MICROSECONDS
    return window.length if window is not None and is_timed else -1


def pairs_of(compared: ComparedRows, asked: Collection[int] | None = None) -> Pairs:
    """Compile the conditions on two events over the columns of the rows; only those in `asked`, if given.

    Conditions between NOTs and neighbours come last.
    """
    predicates = compared.machine.predicates
    inner = [Pairwise(b.condition, b.negated, b.beside) for b in predicates.breaking]
    conditions = (*predicates.adjacency, *predicates.cross, *inner)
    first = len(conditions) - len(inner)
    asked = None if asked is None else {*asked, *range(first, len(conditions))}
    negated = NegatedRows(compared.moment, compared.rows_at, first) if inner else None
    return compile_pairs(conditions, compared.column, len(compared.rows.row), asked, negated)


def asked_one_by_one(plan: OperandPlan) -> frozenset[int]:
    """The adjacency predicates evaluated pair by pair: those of scans, and those inside a NOT."""
    machine = plan.machine
    indexed = {(a.place, a.predicates, a.guard) for a in plan.accesses if a.is_indexed}
    everything = frozenset(p.index for p in machine.automaton.positive)
    scans = [scan for step in machine.steps(everything) for scan in step.scans]
    found = {p for s in scans if (s.place, s.predicates, s.guard) not in indexed for p in s.predicates}
    found |= {p for step in machine.steps(everything) for p in step.closing}
    inside = [edge for guard in machine.automaton.guards for edge in guard.edges]
    return frozenset(found.union(*(machine.predicates.between(p, q) for p, q in inside)))


def latest_of(
    plan: QueryPlan, number: int, rows: Rows, events: Events, pairs: Pairs, limits: Limits
) -> NDArray[np.int32]:
    """The latest start of a trend of each NOT, moment by moment."""
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
    """The guard at ⊤, or -1; LAST_MOMENT where spans are bounded."""
    if plan.machine.is_bounded:
        return LAST_MOMENT
    guard = plan.machine.guard_at(END)
    return -1 if guard is None else guard
