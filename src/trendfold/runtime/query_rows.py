"""Events -> the rows of one query: symbols, partitions, group streams, in time order (spec 4)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.errors import InputError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Expression, GroupKey, Semantics, TypeSet, WindowUnit
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.tell_apart import tell_apart
from trendfold.runtime.workspace import Placed, Workspace, occupied, partitioning, place

NO_SYMBOL: Symbol = frozenset()


@dataclass(frozen=True)
class Rows:
    """The rows of one query, by segment (one partition's stream of one group) and time.

    row      int[n]      into the batch
    time     int64[n]    in microseconds
    symbols  per operand int32[n], into `alphabet` of that operand
    segment  int64[s+1]  where each segment begins
    group    int64[s]    the segment's group, into `groups`
    number   int64[n]    the row's number in its plain group, for count windows
    """

    row: NDArray[Any]
    time: NDArray[np.int64]
    symbols: tuple[NDArray[np.int32], ...]
    alphabets: Sequence[tuple[Symbol, ...]]
    segment: NDArray[np.int64]
    group: NDArray[np.int64]
    group_rows: dict[GroupKey, NDArray[np.int64]]
    """Per GROUP BY key and group: a batch row that has the group's value."""
    number: NDArray[np.int64] | None = None


def group_count(rows: Rows) -> int:
    """The number of groups of the rows."""
    return int(rows.group.max(initial=-1)) + 1


def read_rows(
    plan: QueryPlan, workspace: Workspace, *, splits: bool = True, limits: Limits = DEFAULTS
) -> Rows:
    """Read the rows that a query needs, in the order in which its kernels read them.

    With `splits`, each partition is split into a stream per value of GROUP BY T.g.
    """
    plain = tuple(key.attribute for key in plan.plain_keys)
    partition, distinct = workspace.partition(plan.partition, plain)
    is_shared = len(plan.operands) == 1 and partitioning(plan) in workspace.shared
    read = [
        read_symbols(takers_of(operand.machine), workspace, by_row=not is_shared) for operand in plan.operands
    ]
    number = number_rows(plan, workspace)
    # Rows that can take no position matter only where they separate neighbours.
    keeps_all = plan.query.semantics is Semantics.CONTIGUOUS
    if not keeps_all and len(read) > 1:
        relevant = np.zeros(len(workspace.batch), np.bool_)
        for each in read:
            relevant |= each.symbol != 0
        partition = np.where(relevant, partition if len(partition) else np.int32(0), np.int32(-1))
        keeps_all = True
    if is_shared:
        placed = pick(workspace.placed(partitioning(plan)), read[0], keeps_all)
    else:
        placed = place(workspace, read[0].symbol, partition, distinct, keeps_all)
    rows = Rows(
        placed.row,
        placed.time,
        (placed.symbol, *(each.symbol[placed.row].astype(np.int32) for each in read[1:])),
        tuple(each.alphabet for each in read),
        occupied(placed.segment),
        np.zeros(0, np.int64),
        {},
        None if number is None else number[placed.row],
    )
    rows = name_plain_groups(rows, workspace, plan)
    for alias, keys in by_alias(plan.qualified_keys if splits else ()):
        own = own_types(plan, alias, workspace.batch.type_names)
        rows = by_qualified_group(rows, workspace, plan, *own, keys, limits)
    return rows


@dataclass(frozen=True)
class Symbols:
    """Per row of the batch its symbol, the set of positions it can take, as an index into the alphabet.

    Symbol 0 is the empty set.
    """

    symbol: NDArray[Any]
    alphabet: tuple[Symbol, ...]
    of_type: NDArray[np.int32] | None
    """The symbol of each type code, if the type alone determines the symbol."""


def pick(placed: Placed, symbols: Symbols, keeps_all: bool) -> Placed:
    """Select the rows of one query and set their symbols; with `keeps_all`, select all rows."""
    code, symbol_of = placed.symbol, symbols.of_type
    if symbol_of is None:  # a condition distinguishes rows of one type
        code = symbols.symbol[placed.row].astype(np.int32)
        symbol_of = np.arange(len(symbols.alphabet), dtype=np.int32)
    found = len(code) if keeps_all else kernels.count_picked(code, symbol_of)
    # One more than is found: the kernel writes every row, and overwrites those that are not selected.
    row, symbol = empty(found + 1, placed.row.dtype), empty(found + 1, np.int32)
    times, segment = empty(found + 1, np.int64), np.empty(len(placed.segment), np.int64)
    count = kernels.pick_rows(
        placed.row, placed.time, code, placed.segment, symbol_of, keeps_all, row, symbol, times, segment
    )
    return Placed(row[:count], times[:count], symbol[:count], segment)


Taker = tuple[TypeSet, tuple[Expression, ...], int]
"""A position: the types of the events that can take it, the conditions they must satisfy, and its number."""


def takers_of(machine: Machine) -> Iterator[Taker]:
    """The positions of a machine."""
    for position in machine.automaton.positions:
        yield position.types, machine.predicates.wanted_at(position.index), position.index


def read_symbols(takers: Iterable[Taker], workspace: Workspace, *, by_row: bool = True) -> Symbols:
    """Determine which positions events can take: by type alone, unless a local predicate distinguishes them.

    Without `by_row`, symbols that the type alone determines are not looked up for every row.
    """
    batch = workspace.batch
    alphabet: dict[Symbol, int] = {NO_SYMBOL: 0}
    of_type = np.zeros(len(batch.type_names) + 1, np.int32)
    conditional = []
    for codes, groups in taken_alike(takers, batch.type_names):
        if set(groups) == {()}:
            of_type[codes] = alphabet.setdefault(frozenset(groups[()]), len(alphabet))
        else:
            conditional.append((codes, groups))
    if not by_row and not conditional:
        return Symbols(np.zeros(0, np.uint8), tuple(alphabet), of_type)
    symbol = empty(len(batch), np.uint8 if len(alphabet) <= 256 and not conditional else np.int32)
    kernels.look_up(of_type, batch.type_code, symbol)
    for codes, groups in conditional:
        rows = rows_of_types(codes, batch)
        symbol[rows] = _conditional_symbols(groups, rows, workspace, alphabet)
    small = symbol.astype(np.uint8) if len(alphabet) <= 256 else symbol
    return Symbols(small, tuple(alphabet), None if conditional else of_type)


Groups = dict[tuple[Expression, ...], list[int]]
"""Positions by the conditions that events must satisfy to take them."""


def taken_alike(takers: Iterable[Taker], names: Sequence[str]) -> list[tuple[list[int], Groups]]:
    """The types that some position takes, as codes into `names`, and what takes them.

    Types that the same positions take stand together. Only sets make types alike.
    """
    by_type: dict[str, Groups] = {}
    by_set: dict[TypeSet, Groups] = {}
    for types, wanted, position in takers:
        is_one = types.names is not None and len(types.names) == 1
        groups = (
            by_type.setdefault(next(iter(types.names or ())), {}) if is_one else by_set.setdefault(types, {})
        )
        groups.setdefault(wanted, []).append(position)
    found: dict[Hashable, tuple[list[int], Groups]] = {}
    for code, name in enumerate(names):
        sets = [types for types in by_set if name in types]
        own = by_type.get(name, {})
        if sets or own:
            key = (tuple(sets), name if own else None)
            if key not in found:
                found[key] = [], _merged([own, *(by_set[types] for types in sets)])
            found[key][0].append(code)
    return list(found.values())


def _merged(parts: Sequence[Groups]) -> Groups:
    if len(parts) == 1:
        return parts[0]
    found: Groups = {}
    for part in parts:
        for wanted, positions in part.items():
            found.setdefault(wanted, []).extend(positions)
    return found


def rows_of_types(codes: Sequence[int], batch: EventBatch) -> NDArray[np.int64]:
    """The rows of some types."""
    if len(codes) == 1:
        return np.flatnonzero(batch.type_code == codes[0])
    is_wanted = np.zeros(len(batch.type_names) + 1, np.bool_)
    is_wanted[list(codes)] = True
    return np.flatnonzero(is_wanted[batch.type_code])


def _conditional_symbols(
    groups: Groups,
    rows: NDArray[np.int64],
    workspace: Workspace,
    alphabet: dict[Symbol, int],
) -> NDArray[np.int32]:
    """The symbols of the rows of types that are taken alike, by which conditions of its positions hold."""
    held, kind = tell_apart(list(dict.fromkeys(c for each in groups for c in each)), rows, workspace)
    kinds = int(kind.max(initial=-1)) + 1
    meets = [
        np.logical_and.reduce([held[c] for c in each], axis=0) if each else np.ones(kinds, np.bool_)
        for each in groups
    ]
    found = np.zeros(kinds, np.int32)
    for k in range(kinds):
        taken = frozenset(
            p for met, positions in zip(meets, groups.values(), strict=True) if met[k] for p in positions
        )
        found[k] = alphabet.setdefault(taken, len(alphabet))
    symbols: NDArray[np.int32] = found[kind]
    return symbols


def number_rows(plan: QueryPlan, workspace: Workspace) -> NDArray[np.int64] | None:
    """For count windows, number the rows of each plain group by (time, order); ties are an error (spec 7)."""
    window = plan.query.window
    if window is None or window.unit is not WindowUnit.EVENTS:
        return None
    batch = workspace.batch
    group, distinct = workspace.partition((), tuple(key.attribute for key in plan.plain_keys))
    placed = place(workspace, np.zeros(len(batch), np.uint8), group, distinct, keeps_all=True)
    row, segment = placed.row, placed.segment
    tie = kernels.first_tie(segment, placed.time, batch.order_of(row))
    if tie >= 0:
        when = batch.table.column(batch.time_column)[int(row[tie])].as_py()
        raise InputError(
            f"query {plan.query.name!r}: two events of one group share the time {when}, so windows of "
            f"events have no order; name an order_column that tells them apart"
        )
    number = empty(len(batch), np.int64)
    sizes = np.diff(segment)
    number[row] = np.arange(len(row)) - np.repeat(segment[:-1], sizes)
    return number


def name_plain_groups(rows: Rows, workspace: Workspace, plan: QueryPlan) -> Rows:
    """Set the plain group of every segment; the partitions of a group share it."""
    first = rows.row[rows.segment[:-1]]
    if not plan.plain_keys:
        return replace(rows, group=np.zeros(len(first), np.int64))
    if not plan.partition:  # one segment per group
        return replace(rows, group=np.arange(len(first)), group_rows=dict.fromkeys(plan.plain_keys, first))
    values, _ = workspace.partition((), tuple(key.attribute for key in plan.plain_keys))
    _, representative, group = np.unique(values[first], return_index=True, return_inverse=True)
    at = first[representative]
    return replace(rows, group=group.reshape(-1), group_rows=dict.fromkeys(plan.plain_keys, at))


def by_alias(keys: Sequence[GroupKey]) -> list[tuple[str, tuple[GroupKey, ...]]]:
    """Collect keys by alias: a trend has one value of all keys of an alias."""
    found: dict[str, list[GroupKey]] = {}
    for key in keys:
        found.setdefault(key.alias or "", []).append(key)
    return [(alias, tuple(group)) for alias, group in found.items()]


def by_qualified_group(
    rows: Rows,
    workspace: Workspace,
    plan: QueryPlan,
    own_types: TypeSet | frozenset[str],
    takers: tuple[frozenset[int], ...],
    keys: tuple[GroupKey, ...],
    limits: Limits,
) -> Rows:
    """Split each segment into a stream per value of the keys of an alias T.

    own_types  the types that occur only at T's positions
    takers     those positions, per operand
    """
    value, distinct = workspace.partition((), tuple(key.attribute for key in keys))
    value = value[rows.row]
    streams = _streams(rows, plan, value, distinct, can_take(rows, takers), limits)
    is_own = np.array([name in own_types for name in workspace.batch.type_names], np.bool_)
    is_own = is_own[workspace.batch.type_code[rows.row]] if len(is_own) else np.zeros(len(rows.row), np.bool_)
    shape = rows.segment, value, is_own, streams.start, streams.value
    segment = kernels.start_streams(*shape)
    limits.check_state(plan.query.name, int(segment[-1]) * _copied_bytes(rows), *_PER_GROUP)
    source, matches = empty(int(segment[-1]), np.int64), empty(int(segment[-1]), np.bool_)
    kernels.split_streams(*shape, source, matches)
    symbols, alphabets = [], []
    for symbol, alphabet, positions in zip(rows.symbols, rows.alphabets, takers, strict=True):
        without, grown = _without(alphabet, positions)
        here = symbol[source]
        symbols.append(np.where(matches, here, without[here]))
        alphabets.append(grown)
    pairs, representative, group = np.unique(
        rows.group[streams.parent] * distinct + streams.value, return_index=True, return_inverse=True
    )
    kept = {key: row[pairs // distinct] for key, row in rows.group_rows.items()}
    return Rows(
        rows.row[source],
        rows.time[source],
        tuple(symbols),
        tuple(alphabets),
        segment,
        group.reshape(-1),
        kept | dict.fromkeys(keys, streams.example[representative]),
        None if rows.number is None else rows.number[source],
    )


_PER_GROUP = "a copy of the events per group", "group by an attribute with fewer values"
"""What a stream per group holds, and how to reduce it; see Limits.check_state."""

_STREAM_BYTES = 8 * 8


def _copied_bytes(rows: Rows) -> int:
    """The size of one copy of a row, including the index of its original."""
    copied = [rows.row, rows.time, *rows.symbols, *([] if rows.number is None else [rows.number])]
    return 8 + 1 + sum(array.itemsize for array in copied)


@dataclass(frozen=True)
class _Streams:
    """The streams into which segments are copied.

    start    int64[s+1]  where the streams of each segment begin
    parent   int64[v]    the segment of each stream
    value    int64[v]    the code of its group key; in order within a segment
    example  int[v]      a batch row that has the value
    """

    start: NDArray[np.int64]
    parent: NDArray[np.int64]
    value: NDArray[np.int64]
    example: NDArray[Any]


def _streams(
    rows: Rows,
    plan: QueryPlan,
    value: NDArray[Any],
    distinct: int,
    can_take: NDArray[np.bool_],
    limits: Limits,
) -> _Streams:
    """A stream per segment and value among the rows that can take the alias's positions."""
    owner = np.repeat(np.arange(len(rows.segment) - 1), np.diff(rows.segment))
    # A per-event window may end at an event of any partition of the group (spec 7), so each partition then
    # gets a stream for every value of its group; otherwise only for the values it has.
    is_per_event = plan.query.window is not None and plan.query.window.slide is None
    scope = rows.group if is_per_event else np.arange(len(rows.segment) - 1)
    seen, at = np.unique(scope[owner[can_take]] * distinct + value[can_take], return_index=True)
    first = np.searchsorted(seen // distinct, scope)
    counts = np.searchsorted(seen // distinct, scope, side="right") - first
    start = np.concatenate([[0], np.cumsum(counts)])
    limits.check_state(plan.query.name, int(start[-1]) * _STREAM_BYTES, *_PER_GROUP)
    parent = np.repeat(np.arange(len(scope)), counts)
    which = np.arange(len(parent)) - np.repeat(start[:-1] - first, counts)
    return _Streams(start, parent, seen[which] % distinct, rows.row[can_take][at][which])


def can_take(rows: Rows, takers: Sequence[frozenset[int]]) -> NDArray[np.bool_]:
    """Which rows can take one of the positions, given per operand."""
    found = np.zeros(len(rows.row), np.bool_)
    for symbol, alphabet, positions in zip(rows.symbols, rows.alphabets, takers, strict=True):
        found |= np.array([bool(s & positions) for s in alphabet], np.bool_)[symbol]
    return found


def own_types(
    plan: QueryPlan, alias: str, names: Sequence[str]
) -> tuple[frozenset[str], tuple[frozenset[int], ...]]:
    """Those of the types that occur only at the alias's positions, and these positions per operand."""
    automata = [operand.machine.automaton for operand in plan.operands]
    takers = tuple(automaton.called(alias) for automaton in automata)
    inside, outside = TypeSet(frozenset()), TypeSet(frozenset())
    for automaton, called in zip(automata, takers, strict=True):
        for position in automaton.positions:
            if position.index in called:
                inside |= position.types
            else:
                outside |= position.types
    return frozenset(name for name in names if name in inside and name not in outside), takers


def _without(
    alphabet: tuple[Symbol, ...], positions: frozenset[int]
) -> tuple[NDArray[np.int32], tuple[Symbol, ...]]:
    """Per symbol the symbol without `positions`, and the alphabet extended by these symbols."""
    grown = {symbol: i for i, symbol in enumerate(alphabet)}
    without = [grown.setdefault(symbol - positions, len(grown)) for symbol in alphabet]
    return np.array(without, np.int32), tuple(grown)
