"""The matrices of many queries, folded in one pass over the rows that they share (see kernel.bundle)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel.bundle import LANES, count_codes, fold_bundle
from trendfold.kernel.lower import BundleBlock, can_bundle, lower_bundle
from trendfold.kernel.program import Folded
from trendfold.plan import QueryPlan
from trendfold.plan.overlap import starts_of
from trendfold.plan.spread import is_linear
from trendfold.runtime.pieces import LAST, Cut, cut_rows, moments, name_pieces, pack_folded, pane_of
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.workspace import Partitioning, Workspace, occupied, partitioning

MOST_STATES = 1 << 10
"""A bound on all queries of a bundle, so that the state an event updates stays in the CPU cache."""


def bundles(
    plans: Sequence[QueryPlan], queries: Sequence[int], shared: frozenset[Partitioning]
) -> list[list[int]]:
    """Split queries into bundles that are folded together; most bundles have one query."""
    found: list[list[int]] = []
    latest: dict[object, list[int]] = {}
    states: dict[object, int] = {}
    for query in queries:
        plan = plans[query]
        key = (partitioning(plan), pane_of(plan))
        if partitioning(plan) not in shared or not _can_be_bundled(plan):
            found.append([query])
            continue
        size = len(plan.operands[0].machine.states)
        if key not in latest or states[key] + size > MOST_STATES:
            latest[key], states[key] = [], 0
            found.append(latest[key])
        latest[key].append(query)
        states[key] += size
    return found


def _can_be_bundled(plan: QueryPlan) -> bool:
    """Whether a query only counts, and an event's type alone determines the positions it can take."""
    (operand, *more) = plan.operands
    is_count = operand.carried.width == 1 and not operand.carried.extremes
    if more or not is_count or not is_linear(plan) or operand.machine.predicates.local:
        return False
    return can_bundle(operand.machine, _by_type(plan).values())


def _by_type(plan: QueryPlan) -> dict[str, Symbol]:
    """The positions that events of each type can take."""
    found: dict[str, set[int]] = {}
    for position in plan.operands[0].machine.automaton.positions:
        found.setdefault(position.type, set()).add(position.index)
    return {name: frozenset(positions) for name, positions in found.items()}


def cut_shared(plan: QueryPlan, workspace: Workspace, origin: int, gaps: NDArray[np.int64]) -> Cut:
    """Sort all rows as the queries of a bundle need them and cut them into pieces; symbols are type codes."""
    placed = workspace.placed(partitioning(plan))
    none = np.zeros(0, np.int64)
    rows = Rows(placed.row, placed.time, (placed.symbol,), (), occupied(placed.segment), none, {})
    return cut_rows(rows, pane_of(plan), origin, gaps)


def fold_together(plans: dict[int, QueryPlan], workspace: Workspace, cut: Cut) -> pa.Table:
    """Like pieces.fold_pieces for many queries at once; a query's columns are named `… <query> 0`.

    If a piece has no event of a query, the query's matrix is null.
    """
    batch, code = workspace.batch, cut.rows.symbols[0]
    seen = np.zeros((len(cut), max(1, len(batch.type_names))), np.int32)
    count_codes(code, cut.bounds, seen)
    blocks = {query: _blocks(plan, batch) for query, plan in plans.items()}
    every = [block for own in blocks.values() for block in own]
    entries = sum(len(block.machine.states) for block in every) * LANES
    mantissa, exponent = empty((len(cut), entries), np.float64), empty((len(cut), entries), np.int32)
    bundle = lower_bundle(every, LANES)
    fold_bundle(code, moments(cut.rows, batch), cut.bounds, bundle, mantissa, exponent)
    columns = name_pieces(next(iter(plans.values())), workspace, cut)
    at = 0
    for query, own in blocks.items():
        wanted = [c for c, name in enumerate(batch.type_names) if name in _by_type(plans[query])]
        matrix, at = _matrix(own, mantissa, exponent, at)
        is_there = seen[:, wanted].sum(axis=1) > 0
        columns |= pack_folded(f"{query} 0", matrix, len(cut), is_there)
    return pa.table(columns)


def apart(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Split the pieces of a bundle by query, with the column names of pieces.fold_pieces."""
    names = table.column_names
    keys = names[: names.index(LAST) + 1]
    owned = [(int(name.split()[1]), name) for name in names[len(keys) :]]
    for query, group in groupby(owned, key=lambda pair: pair[0]):
        own = {name: f"{name.split()[0]} 0" for _, name in group}
        chosen = table.select([*keys, *own]).rename_columns([*keys, *own.values()])
        yield query, chosen.filter(chosen.column("mantissa 0").is_valid())


def _blocks(plan: QueryPlan, batch: EventBatch) -> list[BundleBlock]:
    machine, by_type = plan.operands[0].machine, _by_type(plan)
    symbols = tuple(by_type.get(name, frozenset()) for name in batch.type_names)
    starts = starts_of(machine)
    return [BundleBlock(machine, symbols, starts[k : k + LANES]) for k in range(0, len(starts), LANES)]


def _matrix(
    blocks: list[BundleBlock], mantissa: NDArray[np.float64], exponent: NDArray[np.int32], at: int
) -> tuple[Folded, int]:
    """Extract the matrices of one query from the entries of all, and the offset of the next query."""
    states, pieces = len(blocks[0].machine.states), len(mantissa)
    starts = sum(len(block.starts) for block in blocks)
    # One state more: the void state that matrices of kernel.stretch have.
    shape = (pieces, starts, states + 1, 1)
    found = Folded(np.zeros(shape), np.zeros(shape, np.int32), np.zeros((*shape[:3], 0)))
    row = 0
    for block in blocks:
        lanes, end = len(block.starts), at + states * LANES
        for whole, entries in ((found.mantissa, mantissa), (found.exponent, exponent)):
            own = entries[:, at:end].reshape(pieces, states, LANES)[:, :, :lanes]
            whole[:, row : row + lanes, :states, 0] = own.transpose(0, 2, 1)
        row, at = row + lanes, end
    return found, at
