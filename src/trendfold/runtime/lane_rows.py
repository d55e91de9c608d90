"""The rows of queries that are folded in lanes, and what each kind of row means to each query, as masks.

As group_rows.read_group, but for four things: where a member is *contiguous* all rows are kept; what a kind
of row means to a query is a mask and not a set of positions per query; a window of a contiguous query
counts whatever rows it has, as if the query were alone; and every operand of an AND has masks of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.errors import LimitError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel import rows as kernels
from trendfold.kernel.lane_masks import distinct_rows
from trendfold.kernel.lower_machine_lanes import Taken, taken_of
from trendfold.kernel.program import Events, Folded
from trendfold.plan import Group, QueryPlan
from trendfold.plan.cost import DEFAULT_COSTS
from trendfold.plan.logical import LANES
from trendfold.plan.physical import groups_as_slots, values_are_slots, why_apart
from trendfold.plan.statistics import GroupStatistics, ValueStatistics
from trendfold.plan.workload import PER_EVENT, windows_at_once
from trendfold.query.nodes import Expression, Semantics, TypeSet
from trendfold.runtime.group_rows import GroupRows, cut_windows, group_values, window_share, with_numbers
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import (
    NO_SYMBOL,
    Groups,
    Rows,
    Symbols,
    Taker,
    by_alias,
    by_qualified_group,
    name_plain_groups,
    own_types,
    pick,
    rows_of_types,
    taken_alike,
    takers_of,
)
from trendfold.runtime.request import EVERYTHING, Request
from trendfold.runtime.tell_apart import tell_apart
from trendfold.runtime.value_slots import ValueSlots, assign_slots
from trendfold.runtime.values import NO_CLOCK
from trendfold.runtime.windows import Items, open_at_once
from trendfold.runtime.workspace import Workspace, occupied, partitioning, place


@dataclass(frozen=True)
class OperandAlphabets(Sequence[tuple[Symbol, ...]]):
    """What kinds of rows mean to some operands, as sets that are made when they are asked for."""

    taken: Taken
    operands: range

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, number: Any) -> Any:
        return self.taken.alphabet(self.operands[number])


def read_by(rows: Rows, taken: Taken, operands: range) -> Rows:
    """Rows of several queries as some operands read them."""
    alphabets = OperandAlphabets(taken, operands)
    return replace(rows, symbols=(rows.symbols[0],) * len(operands), alphabets=alphabets)


@dataclass(frozen=True)
class LaneValues:
    """The values of GROUP BY T.g as slots.

    windows  per kind of window its items, each for all values of its segment
    """

    values: ValueSlots
    windows: tuple[Items, ...]


@dataclass(frozen=True, kw_only=True)
class LaneRows(GroupRows):
    """GroupRows without an alphabet of sets: `taken` has what a kind of row means to each operand, as masks.

    operands    where the operands of each member begin
    contiguous  the members of which all rows count, whatever they can take
    slots       the values of GROUP BY T.g, if they are slots: then `windows` has an item per window and value
    """

    taken: Taken
    operands: tuple[int, ...]
    contiguous: frozenset[int] = frozenset()
    slots: LaneValues | None = None

    def _cut(self) -> tuple[Items, ...]:
        return self.windows if self.slots is None else self.slots.windows

    def _needed_kinds(self) -> NDArray[np.bool_]:
        begin = self.taken.first[np.array(self.operands[:-1], np.int64)]
        found = np.logical_or.reduceat(self.taken.is_taken, begin, axis=1).T.copy()
        found[sorted(self.contiguous)] = True
        return found

    def by_member(self, folded: Sequence[Folded]) -> list[tuple[Folded, ...]]:
        """The aggregates of all operands, member by member."""
        return [tuple(folded[low:high]) for low, high in pairwise(self.operands)]

    def own_rows(self, member: QueryPlan, rows: Rows) -> tuple[Rows, tuple[Events, ...]]:
        """The rows as one member reads them, for exact digits: what its operands make of their kinds."""
        symbol, many = rows.symbols[0], len(member.operands)
        first = self.operands[member.number]
        none = np.zeros((len(symbol), 0))
        events = Events(symbol, self.moment, none, none, True, NO_CLOCK)
        return read_by(rows, self.taken, range(first, first + many)), (events,) * many

    def as_read_by(self, member: QueryPlan) -> Rows:
        """The rows with the symbols of one member's operands."""
        return self.own_rows(member, self.rows)[0]

    def with_sets(self) -> LaneRows:
        """The same rows with sets of positions, which papers' methods read."""
        sets = [self.taken.alphabet(k) for k in range(len(self.operands) - 1)]
        return replace(self, alphabet=tuple(zip(*sets, strict=True)))

    @property
    def kinds(self) -> int:
        """How many kinds of rows there are."""
        return len(self.taken.is_taken)

    def frequencies(self, group: Group) -> dict[str, float]:
        """Events per type, or set of types, in one of the longest windows; rows of a kind have the same."""
        total = np.bincount(self.rows.symbols[0], minlength=self.kinds) * window_share(self)
        types = [
            position.label
            for plan in group.members
            for operand in plan.operands
            for position in operand.machine.automaton.positions
        ]
        found: dict[str, float] = {}
        for kind in np.flatnonzero(self.taken.is_taken.any(axis=1)).tolist():
            type_ = types[int(self.taken.is_taken[kind].argmax())]
            found[type_] = found.get(type_, 0.0) + float(total[kind])
        return found


Split = Callable[[Rows, Taken], tuple[Rows, Taken]]
"""Copies rows once per value of GROUP BY T.g."""


def read_lane_rows(
    group: Group, workspace: Workspace, request: Request = EVERYTHING, split: Split | None = None
) -> tuple[LaneRows | None, GroupStatistics]:
    """The rows and windows of all members, and what is known of them; see group_rows.read_group.

    A stream splits rows by GROUP BY T.g itself, with `split`, since it knows values that came before.
    """
    known = GroupStatistics(rows=len(workspace.batch), is_exact=request.is_exact)
    if why_apart(group, known):
        return None, known
    symbols, taken = read_taken([each.machine for plan in group.members for each in plan.operands], workspace)
    has_values = split is None and bool(group.members[0].qualified_keys)
    is_copied = has_values and group.method != LANES
    known = replace(
        known, kinds=len(taken.is_taken), group_values=group_values(group, workspace) if is_copied else 1
    )
    if why_apart(group, known):
        return None, known
    contiguous = frozenset(
        k for k, plan in enumerate(group.members) if plan.query.semantics is Semantics.CONTIGUOUS
    )
    rows = rows_of_kinds(group.members[0], symbols, workspace, bool(contiguous))
    rows, values = with_numbers(rows, group, workspace), None
    if has_values and not is_copied:
        values, named, measured = _measure_values(group, rows, taken, workspace, request)
        known = replace(known, values=measured)
        if why_apart(group, known):
            return None, known
        is_copied = not values_are_slots(group, measured, DEFAULT_COSTS)
        rows, values = (rows, None) if is_copied else (named, values)
    if split is not None:
        rows, taken = split(rows, taken)
    elif is_copied:
        rows, taken = _by_qualified_groups(group, rows, taken, workspace, request.limits)
    moment = empty(len(rows.row), np.int32)
    kernels.number_moments(rows.segment, rows.time, workspace.batch.order_of(rows.row), moment)
    try:
        windows, window_of = cut_windows(group, rows, partial(_own_rows, group, rows, taken), request)
        slots = None if values is None else LaneValues(values, windows)
        if values is not None:
            windows = _per_slot(group, values, windows, window_of, request.limits)
    except LimitError:  # a query alone has fewer windows, and is judged by those
        return None, replace(known, windows_fit=False)
    together = LaneRows(
        rows,
        moment,
        (),
        windows,
        window_of,
        workspace.batch,
        taken=taken,
        operands=tuple(accumulate((len(plan.operands) for plan in group.members), initial=0)),
        contiguous=contiguous,
        slots=slots,
    )
    cuts = sum(len(items.low) for items in together._cut())
    known = replace(known, rows=len(rows.row), burst=burst_length(rows, cuts))
    return together, replace(known, open_windows=max(open_windows(group, together), default=0))


def _own_rows(group: Group, rows: Rows, taken: Taken, k: int) -> tuple[bytes, Rows]:
    """The rows as one member sees them, and as key the kinds of rows that may end its trends."""
    member, first = group.members[k], sum(len(plan.operands) for plan in group.members[:k])
    alphabets = OperandAlphabets(taken, range(first, first + len(member.operands)))
    ends = [
        taken.of_member(first + i)[:, sorted(operand.machine.automaton.last)].any(axis=1)
        for i, operand in enumerate(member.operands)
    ]
    own = replace(rows, symbols=(rows.symbols[0],) * len(member.operands), alphabets=alphabets)
    return np.logical_or.reduce(ends).tobytes(), own


def open_windows(group: Group, together: LaneRows) -> tuple[int, ...]:
    """Per kind of window how many may be open at once; windows per event are counted."""
    found = dict(zip(together.window_of, map(windows_at_once, group.members), strict=True))
    return tuple(
        open_at_once(items) if found[which] == PER_EVENT else found[which]
        for which, items in enumerate(together.windows)
    )


def _per_slot(
    group: Group, values: ValueSlots, windows: tuple[Items, ...], window_of: tuple[int, ...], limits: Limits
) -> tuple[Items, ...]:
    """The windows of every value; those of all members count towards the limit."""
    left, found = limits.windows, {}
    for member, which in zip(group.members, window_of, strict=True):
        bound = replace(limits, windows=left)
        if which not in found:
            found[which] = values.per_slot(windows[which], member.query.name, bound)
        left -= bound.check_windows(member.query.name, len(found[which].low))
    return tuple(found[which] for which in range(len(windows)))


def one_query(
    plan: QueryPlan, rows: Rows, moment: NDArray[np.int32], items: Items, batch: EventBatch
) -> LaneRows:
    """The rows of one query as a group with one member."""
    taken = taken_of([(symbol,) for symbol in rows.alphabets[0]], [plan.operands[0].machine])
    return LaneRows(rows, moment, (), (items,), (0,), batch, taken=taken, operands=(0, 1))


_LOOKED_AT = 1 << 16
"""The number of rows sampled to measure the length of bursts."""


def burst_length(rows: Rows, windows: int = 0) -> float:
    """Rows per run of equal symbols, among the first rows. Windows, as many as given, end runs as well."""
    symbol = rows.symbols[0][:_LOOKED_AT]
    if not len(symbol):
        return 0.0
    runs = 1 + int(np.count_nonzero(symbol[1:] != symbol[:-1]))
    each = runs / len(symbol)
    return 1.0 / (each + windows / len(rows.row) * (1.0 - each))


def rows_of_kinds(first: QueryPlan, symbols: Symbols, workspace: Workspace, has_all: bool) -> Rows:
    """The rows of queries with the same partitions and groups as the first; with `has_all`, all rows."""
    by = partitioning(first)
    if by in workspace.shared:
        placed = pick(workspace.placed(by), symbols, has_all)
    else:
        placed = place(workspace, symbols.symbol, *workspace.partition(*by), has_all)
    segment, none = occupied(placed.segment), np.zeros(0, np.int64)
    rows = Rows(placed.row, placed.time, (placed.symbol,), (symbols.alphabet,), segment, none, {})
    return name_plain_groups(rows, workspace, first)


# ---- Kinds of rows ------------------------------------------------------------------------------------

_Wanted = tuple[Expression, ...]


def read_taken(machines: Sequence[Machine], workspace: Workspace) -> tuple[Symbols, Taken]:
    """The kind of every row, and which positions of all machines rows of a kind take; kind 0 takes none.

    A kind is a type, or several that all positions take alike, or where conditions on one event tell their
    rows apart, what they all say of a row.
    """
    batch = workspace.batch
    takers, first = _numbered_takers(machines)
    of_type = np.zeros(len(batch.type_names) + 1, np.int32)
    masks: list[NDArray[np.bool_]] = [np.zeros((1, first[-1]), np.bool_)]
    kinds, conditional = 1, []
    for codes, groups in taken_alike(takers, batch.type_names):
        if set(groups) == {()}:
            masks.append(_mask(groups, {(): np.ones(1, np.bool_)}, first[-1]))
            of_type[codes] = kinds
            kinds += 1
        else:
            conditional.append((codes, groups))
    symbol = empty(len(batch), np.int32)
    kernels.look_up(of_type, batch.type_code, symbol)
    for codes, groups in conditional:
        rows = rows_of_types(codes, batch)
        mask, of_kind, kind = _conditional(groups, rows, workspace, first[-1])
        masks.append(mask[1:])
        symbol[rows] = np.where(of_kind > 0, of_kind + kinds - 1, 0).astype(np.int32)[kind]
        kinds += len(mask) - 1
    taken = Taken(np.concatenate(masks), np.array(first, np.int64))
    small = symbol.astype(np.uint8) if kinds <= 256 else symbol
    return Symbols(small, (NO_SYMBOL,) * kinds, None if conditional else of_type), taken


def _numbered_takers(machines: Sequence[Machine]) -> tuple[list[Taker], list[int]]:
    """The positions of all machines, numbered one after the other, and where each machine's begin."""
    found: list[Taker] = []
    first = [0]
    for machine in machines:
        found += [(types, wanted, first[-1] + position) for types, wanted, position in takers_of(machine)]
        first.append(first[-1] + len(machine.automaton.positions))
    return found, first


def _mask(groups: Groups, meets: dict[_Wanted, NDArray[np.bool_]], positions: int) -> NDArray[np.bool_]:
    """Per kind of one type's rows the positions they take."""
    found = np.zeros((len(next(iter(meets.values()))), positions), np.bool_)
    for wanted, own in groups.items():
        found[:, own] = meets[wanted][:, None]
    return found


def _conditional(
    groups: Groups, rows: NDArray[np.int64], workspace: Workspace, positions: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[Any]]:
    """The distinct masks of one type's rows, the first takes nothing; rows of a kind have the same one."""
    held, kind = tell_apart(list(dict.fromkeys(c for each in groups for c in each)), rows, workspace)
    kinds = int(kind.max(initial=-1)) + 1
    everything = np.ones(kinds, np.bool_)
    meets = {each: np.logical_and.reduce([everything, *(held[c] for c in each)]) for each in groups}
    mask = _mask(groups, meets, positions)
    distinct, code = distinct_rows(np.concatenate([np.zeros((1, positions), np.bool_), mask]))
    return distinct, code[1:], kind


def _measure_values(
    group: Group, rows: Rows, taken: Taken, workspace: Workspace, request: Request
) -> tuple[ValueSlots, Rows, ValueStatistics]:
    """The values of GROUP BY T.g as slots, the rows with a group per slot, and statistics of the values."""
    keys, symbol = group.members[0].qualified_keys, rows.symbols[0]
    _, own = positions_of_alias(group, taken, keys[0].alias or "", workspace.batch.type_names)
    at_t = np.asarray(taken.is_taken[:, sorted(own)].any(axis=1))
    acts = np.asarray(taken.is_taken[:, positions_after(group, taken, own)].any(axis=1)) & ~at_t
    takes = at_t[symbol]
    values, named = assign_slots(keys, takes, rows, workspace)
    at_or_before = np.append(0, np.cumsum(takes))[rows.segment]
    others = np.diff(rows.segment) - np.diff(at_or_before)
    may_be_slots = len(group.members) > 1 and all(
        groups_as_slots(plan, request.arithmetic) for plan in group.members
    )
    found = ValueStatistics(
        rows=len(symbol),
        acting=int(np.count_nonzero(acts[symbol])),
        copied=int((others * np.diff(values.start)).sum() + at_or_before[-1]),
        slots=values.most if may_be_slots else 0,
    )
    return values, named, found


def positions_after(group: Group, taken: Taken, own: frozenset[int]) -> NDArray[np.int64]:
    """The positions of all members that a trend may take once it has passed one of `own`, and not these."""
    found: set[int] = set()
    for k, member in enumerate(group.members):
        first, automaton = int(taken.first[k]), member.operands[0].machine.automaton
        here = frozenset(p for p in range(len(automaton.positions)) if first + p in own)
        found |= {first + p for p in automaton.reachable(here) - here}
    return np.array(sorted(found), np.int64)


def _by_qualified_groups(
    group: Group, rows: Rows, taken: Taken, workspace: Workspace, limits: Limits
) -> tuple[Rows, Taken]:
    """A copy of the rows per value of GROUP BY T.g, with sets of positions in between."""
    first = group.members[0]
    alphabet: tuple[Symbol, ...] = tuple(frozenset(np.flatnonzero(row).tolist()) for row in taken.is_taken)
    rows = replace(rows, alphabets=(alphabet,))
    for alias, keys in by_alias(first.qualified_keys):
        types, own = positions_of_alias(group, taken, alias, workspace.batch.type_names)
        rows = by_qualified_group(rows, workspace, first, types, (own,), keys, limits)
    found = np.zeros((len(rows.alphabets[0]), taken.is_taken.shape[1]), np.bool_)
    for a, symbol in enumerate(rows.alphabets[0]):
        found[a, sorted(symbol)] = True
    return rows, Taken(found, taken.first)


def positions_of_alias(
    group: Group, taken: Taken, alias: str, names: Sequence[str]
) -> tuple[TypeSet | frozenset[str], frozenset[int]]:
    """The types of an alias of the first member, which the others group by too, and all their positions."""
    if len(group.members) == 1:
        own_only, (own,) = own_types(group.members[0], alias, names)
        return own_only, own
    types = group.members[0].operands[0].machine.automaton.types_at(alias)
    positions = (
        int(taken.first[k]) + position
        for k, member in enumerate(group.members)
        for other, _, position in takers_of(member.operands[0].machine)
        if types.meets(other)
    )
    return types, frozenset(positions)
