"""Events -> the rows of one query: symbols, partitions, group streams, in time order (spec 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.errors import InputError
from trendfold.events.batch import EventBatch
from trendfold.events.columns import codes
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Expression, GroupKey, Semantics, WindowUnit
from trendfold.runtime.expressions import attribute_lookup, evaluate, is_true

NO_SYMBOL: Symbol = frozenset()


@dataclass
class Workspace:
    """What the queries of one workload share: every predicate, key and order is computed once."""

    batch: EventBatch
    _conditions: dict[Expression, NDArray[np.bool_]] = field(default_factory=dict)
    _keys: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[NDArray[np.int64], int]] = field(default_factory=dict)
    _time_order: NDArray[np.int64] | None = None

    def holds(self, condition: Expression) -> NDArray[np.bool_]:
        """Where a local condition is true, over all rows."""
        if condition not in self._conditions:
            column = evaluate(condition, attribute_lookup(self.batch.column))
            self._conditions[condition] = np.broadcast_to(is_true(column), (len(self.batch),))
        return self._conditions[condition]

    def partition(self, strict: tuple[str, ...], loose: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        """Codes of the values of some attributes, and how many; -1 where a `strict` one is null."""
        if (strict, loose) not in self._keys:
            self._keys[strict, loose] = self._encode(strict, loose)
        return self._keys[strict, loose]

    def _encode(self, strict: tuple[str, ...], loose: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        combined = np.zeros(len(self.batch), np.int64)
        distinct = 1
        excluded = np.zeros(len(self.batch), np.bool_)
        for name in dict.fromkeys((*strict, *loose)):
            column = self.batch.column(name)
            code = codes(column)
            if name in strict:
                excluded |= ~column.valid
            combined, distinct = _combine(combined, distinct, code)
        combined[excluded] = -1
        return combined, distinct

    @property
    def time_order(self) -> NDArray[np.int64]:
        """All rows by (time, order)."""
        if self._time_order is None:
            self._time_order = _sort(self.batch)
        return self._time_order


def _combine(
    combined: NDArray[np.int64], distinct: int, code: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """The codes of pairs of codes, dense again; 32 bits are enough for each side."""
    high = int(code.max(initial=0)) + 1
    if distinct == 1 and high <= 4 * len(code) + 64:
        return code.copy(), high
    if distinct > 1 and distinct * high < 2**62:
        code = combined * high + code
        if distinct * high <= 4 * len(code) + 64:
            return code, distinct * high
    elif distinct > 1:
        _, dense = np.unique(code, return_inverse=True)
        return _combine(combined, distinct, dense.astype(np.int64))
    _, dense = np.unique(code, return_inverse=True)
    return dense.astype(np.int64), int(dense.max(initial=0)) + 1


def _sort(batch: EventBatch) -> NDArray[np.int64]:
    if batch.order is not None:
        return np.lexsort((batch.order, batch.time))
    if len(batch) < 2 or bool(np.all(batch.time[1:] >= batch.time[:-1])):
        return np.arange(len(batch))
    return np.argsort(batch.time, kind="stable")


@dataclass(frozen=True)
class Rows:
    """The rows of one query, by segment (one partition's stream of one group) and time.

    row      int64[n]    into the batch
    symbols  per operand int32[n], into `alphabet` of that operand
    segment  int64[s+1]  where each segment begins
    group    int64[s]    the segment's group, into `groups`
    number   int64[n]    the row's number in its plain group, for count windows
    """

    row: NDArray[np.int64]
    symbols: tuple[NDArray[np.int32], ...]
    alphabets: tuple[tuple[Symbol, ...], ...]
    segment: NDArray[np.int64]
    group: NDArray[np.int64]
    group_rows: dict[GroupKey, NDArray[np.int64]]
    """Per GROUP BY key and group: a batch row that has the group's value."""
    number: NDArray[np.int64] | None = None


def read_rows(plan: QueryPlan, workspace: Workspace) -> Rows:
    """Everything a query needs of the events, in the order its kernels read."""
    batch = workspace.batch
    plain = tuple(key.attribute for key in plan.plain_keys)
    partition, distinct = workspace.partition(plan.partition, plain)
    read = [_symbols(operand.machine, workspace) for operand in plan.operands]
    number = _number(plan, workspace, plain)
    keep = partition >= 0
    if plan.query.semantics is not Semantics.CONTIGUOUS:
        # Rows that can take no position matter only to what lies between neighbours.
        relevant = np.zeros(len(batch), np.bool_)
        for symbol, alphabet in read:
            relevant |= np.array([bool(s) for s in alphabet], np.bool_)[symbol]
        keep &= relevant
    order, segment = kernels.bucket(workspace.time_order, np.where(keep, partition, -1), distinct)
    segment = _occupied(segment)
    rows = Rows(
        order,
        tuple(symbol[order] for symbol, _ in read),
        tuple(alphabet for _, alphabet in read),
        segment,
        np.arange(len(segment) - 1),
        {},
        None if number is None else number[order],
    )
    rows = _by_plain_group(rows, workspace, plan)
    for alias, keys in _by_alias(plan.qualified_keys):
        rows = _by_qualified_group(rows, workspace, plan, alias, keys)
    return rows


def _occupied(segment: NDArray[np.int64]) -> NDArray[np.int64]:
    """Segment starts without the empty segments."""
    return np.concatenate([segment[:1], segment[1:][np.diff(segment) > 0]])


def _symbols(machine: Machine, workspace: Workspace) -> tuple[NDArray[np.int32], tuple[Symbol, ...]]:
    """Per row the set of positions it can take, as a code into the sets that occur; 0 is none."""
    batch = workspace.batch
    code_of = {name: code for code, name in enumerate(batch.type_names)}
    alphabet: dict[Symbol, int] = {NO_SYMBOL: 0}
    of_type = np.zeros(len(batch.type_names) + 1, np.int32)
    by_type: dict[str, dict[tuple[Expression, ...], set[int]]] = {}
    for position in machine.automaton.positions:
        wanted = machine.predicates.wanted_at(position.index)
        by_type.setdefault(position.type, {}).setdefault(wanted, set()).add(position.index)
    conditional = []
    for type_, groups in by_type.items():
        if type_ not in code_of:
            continue
        if set(groups) == {()}:
            of_type[code_of[type_]] = alphabet.setdefault(frozenset(groups[()]), len(alphabet))
        else:
            conditional.append((code_of[type_], groups))
    symbol = of_type[batch.type_code]
    for code, groups in conditional:
        rows = np.flatnonzero(batch.type_code == code)
        symbol[rows] = _conditional_symbols(groups, rows, workspace, alphabet)
    return symbol, tuple(alphabet)


def _conditional_symbols(
    groups: dict[tuple[Expression, ...], set[int]],
    rows: NDArray[np.int64],
    workspace: Workspace,
    alphabet: dict[Symbol, int],
) -> NDArray[np.int32]:
    """The symbols of one type's rows, from which of its positions' conditions hold."""
    held = np.ones((len(groups), len(rows)), np.bool_)
    for k, conditions in enumerate(groups):
        for condition in conditions:
            held[k] &= workspace.holds(condition)[rows]
    packed = np.packbits(held, axis=0)
    distinct, inverse = np.unique(packed, axis=1, return_inverse=True) if len(packed) > 1 else (
        np.unique(packed[0], return_inverse=True) if len(rows) else (packed, np.zeros(0, np.int64))
    )
    distinct = np.unpackbits(distinct.reshape(len(packed), -1), axis=0)
    places = list(groups.values())
    codes_ = []
    for column in range(distinct.shape[1]):
        taken = frozenset(p for k, positions in enumerate(places) if distinct[k, column] for p in positions)
        codes_.append(alphabet.setdefault(taken, len(alphabet)))
    return np.array(codes_, np.int32)[inverse.reshape(-1)] if codes_ else np.zeros(0, np.int32)


def _number(plan: QueryPlan, workspace: Workspace, plain: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Per row its number in its plain group by (time, order); ties are an error (spec 7)."""
    window = plan.query.window
    if window is None or window.unit is not WindowUnit.EVENTS:
        return None
    batch = workspace.batch
    group, distinct = workspace.partition((), plain)
    order, segment = kernels.bucket(workspace.time_order, group, distinct)
    ranks = batch.order[order] if batch.order is not None else np.zeros(len(order), np.int64)
    tie = kernels.first_tie(segment, batch.time[order], ranks)
    if tie >= 0:
        when = batch.table.column(batch.time_column)[int(order[tie])].as_py()
        raise InputError(
            f"query {plan.query.name!r}: two events of one group share the time {when}, so windows of "
            f"events have no order; name an order_column that tells them apart"
        )
    number = np.empty(len(batch), np.int64)
    sizes = np.diff(segment)
    number[order] = np.arange(len(order)) - np.repeat(segment[:-1], sizes)
    return number


def _by_plain_group(rows: Rows, workspace: Workspace, plan: QueryPlan) -> Rows:
    """Name the plain group of every segment; partitions of one group share it."""
    first = rows.row[rows.segment[:-1]]
    values, _ = workspace.partition((), tuple(key.attribute for key in plan.plain_keys))
    _, representative, group = np.unique(values[first], return_index=True, return_inverse=True)
    at = first[representative]
    return replace(rows, group=group.reshape(-1), group_rows=dict.fromkeys(plan.plain_keys, at))


def _by_alias(keys: Sequence[GroupKey]) -> list[tuple[str, tuple[GroupKey, ...]]]:
    """Keys of one alias belong together: a trend has one value of them all."""
    found: dict[str, list[GroupKey]] = {}
    for key in keys:
        found.setdefault(key.alias or "", []).append(key)
    return [(alias, tuple(group)) for alias, group in found.items()]


def _by_qualified_group(
    rows: Rows, workspace: Workspace, plan: QueryPlan, alias: str, keys: tuple[GroupKey, ...]
) -> Rows:
    """One stream per segment and value of the alias's keys."""
    value, distinct = workspace.partition((), tuple(key.attribute for key in keys))
    value = value[rows.row]
    own_types, takers = _own(plan, alias)
    is_own = np.array([name in own_types for name in workspace.batch.type_names], np.bool_)
    is_own = is_own[workspace.batch.type_code[rows.row]] if len(is_own) else np.zeros(len(rows.row), np.bool_)
    can_take = np.zeros(len(rows.row), np.bool_)
    for symbol, alphabet, positions in zip(rows.symbols, rows.alphabets, takers, strict=True):
        can_take |= np.array([bool(s & positions) for s in alphabet], np.bool_)[symbol]
    owner = np.repeat(np.arange(len(rows.segment) - 1), np.diff(rows.segment))
    # A window that moves with every event may end at an event of any partition of the group (spec 7), so
    # then each partition gets a stream for every value of its group; otherwise only for its own.
    is_per_event = plan.query.window is not None and plan.query.window.slide is None
    scope = rows.group if is_per_event else np.arange(len(rows.segment) - 1)
    seen, at = np.unique(scope[owner[can_take]] * distinct + value[can_take], return_index=True)
    first = np.searchsorted(seen // distinct, scope)
    counts = np.searchsorted(seen // distinct, scope, side="right") - first
    stream_start = np.concatenate([[0], np.cumsum(counts)])
    parent = np.repeat(np.arange(len(scope)), counts)
    stream = np.arange(len(parent)) - np.repeat(stream_start[:-1] - first, counts)
    stream_value = seen[stream] % distinct
    source, matches, segment = kernels.split_streams(rows.segment, value, is_own, stream_start, stream_value)
    example = rows.row[can_take][at][stream]
    pairs, representative, group = np.unique(
        rows.group[parent] * distinct + stream_value, return_index=True, return_inverse=True
    )
    kept = {key: row[pairs // distinct] for key, row in rows.group_rows.items()}
    symbols, alphabets = [], []
    for symbol, alphabet, positions in zip(rows.symbols, rows.alphabets, takers, strict=True):
        without, grown = _without(alphabet, positions)
        here = symbol[source]
        symbols.append(np.where(matches, here, without[here]))
        alphabets.append(grown)
    return Rows(
        rows.row[source],
        tuple(symbols),
        tuple(alphabets),
        segment,
        group.reshape(-1),
        kept | dict.fromkeys(keys, example[representative]),
        None if rows.number is None else rows.number[source],
    )


def _own(plan: QueryPlan, alias: str) -> tuple[frozenset[str], tuple[frozenset[int], ...]]:
    """The types that stand only at the alias's positions, and those positions per operand."""
    inside: set[str] = set()
    outside: set[str] = set()
    takers = []
    for operand in plan.operands:
        automaton = operand.machine.automaton
        called = automaton.called(alias)
        takers.append(called)
        for position in automaton.positions:
            (inside if position.index in called else outside).add(position.type)
    return frozenset(inside - outside), tuple(takers)


def _without(alphabet: tuple[Symbol, ...], positions: frozenset[int]) -> tuple[NDArray[np.int32], tuple[Symbol, ...]]:
    """Per symbol the symbol that takes none of `positions`, and the alphabet grown by those."""
    grown = {symbol: i for i, symbol in enumerate(alphabet)}
    without = [grown.setdefault(symbol - positions, len(grown)) for symbol in alphabet]
    return np.array(without, np.int32), tuple(grown)
