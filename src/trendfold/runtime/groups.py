"""Queries that are folded together: rows that all of them need, and what each gets of the one fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.errors import LimitError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import mark_own_items, number_moments
from trendfold.plan import Group, QueryPlan
from trendfold.plan.carried import Carried
from trendfold.plan.papers import paper
from trendfold.query.nodes import Window, WindowUnit
from trendfold.runtime.fold import values_beside
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import (
    Rows,
    Symbols,
    Taker,
    Workspace,
    by_alias,
    by_qualified_group,
    name_plain_groups,
    occupied,
    own_types,
    partitioning,
    pick,
    place,
    read_symbols,
    takers_of,
)
from trendfold.runtime.side_by_side import Ready, fold_lanes, make_ready
from trendfold.runtime.windows import Asked, Items, cut

MOST_SYMBOLS = 1 << 12
"""Where conditions tell more kinds of rows apart than that, each query is folded alone."""

_MEMBER = 1 << 20
"""Positions of the k-th member are numbered from k times this."""


@dataclass(frozen=True)
class GroupRows:
    """The rows of all members of a group, by segment (one partition's stream of one group) and time.

    rows      `rows.symbols[0]` are symbols of the whole group; rows that no member needs are left out
    moment    int32[n]  numbered through; equal for rows that are not before each other
    alphabet  per symbol and member the positions that such a row can take; symbol 0 is none for all
    items     per member its windows, as stretches of these rows
    counts    what the fold counts, for the summary: bursts, snapshots, ...
    """

    rows: Rows
    moment: NDArray[np.int32]
    alphabet: tuple[tuple[Symbol, ...], ...]
    items: tuple[Items, ...]
    batch: EventBatch
    counts: dict[str, int] = field(default_factory=dict)

    def events(self, carried: Carried) -> Events:
        """The rows with all that members carry; where they carry numbers, column 0 of the values is 1."""
        found = values_beside(carried, self.rows.symbols[0], self.moment, self.rows.row, self.batch)
        if carried.numbers and found.values.shape[1] == 0:  # bindings are counted, nothing else is added
            return found._replace(values=np.ones((len(self.moment), 1)))
        return found


@dataclass(frozen=True)
class GroupFold:
    """The result of folding a group: per member its whole trends, item by item."""

    group: Group
    together: GroupRows
    items: tuple[Items, ...]
    folded: tuple[Folded, ...]

    def rows_of(self, plan: QueryPlan) -> Rows:
        """The rows with the groups named by the keys of one member."""
        first = self.group.members[0]
        own = zip(plan.query.group_by, first.query.group_by, strict=True)
        named = {key: self.together.rows.group_rows[other] for key, other in own}
        return replace(self.together.rows, group_rows=named)


GroupFolder = Callable[[Group, GroupRows, Limits], tuple[Folded, ...] | None]
"""Per member the whole trends of its items; None where each must be folded alone."""

FOLDS: dict[str, GroupFolder] = {
    "lanes": fold_lanes,
}
"""The core's own way; those of the papers are in the table of plan.papers."""


def folds_together(plan: QueryPlan, arithmetic: str) -> bool:
    """Whether a query is folded with its group: true values of any size are found query by query."""
    return plan.group is not None and arithmetic == "auto" and plan.query.having is None


def fold_group(
    plan: QueryPlan, workspace: Workspace, origin: int, limits: Limits, asked: Asked | None
) -> GroupFold | None:
    """The fold of a query's group, done once for all members; None where each is folded alone."""
    group = plan.group
    assert group is not None
    key = id(group), origin, asked
    if key not in workspace.groups:
        together = rows_of_group(group, workspace, origin, limits, asked)
        workspace.groups[key] = group, together and _fold(group, together, limits)
    found: GroupFold | None = workspace.groups[key][1]
    return found


def rows_of_group(
    group: Group, workspace: Workspace, origin: int, limits: Limits, asked: Asked | None = None
) -> GroupRows | None:
    """As `read_group`, once for the same members, however they are to be folded."""
    key = id(group.members), origin, asked
    if key not in workspace.group_rows:
        workspace.group_rows[key] = group.members, read_group(group, workspace, origin, limits, asked)
    found: GroupRows | None = workspace.group_rows[key][1]
    return found


def _fold(group: Group, together: GroupRows, limits: Limits) -> GroupFold | None:
    """Fold all members; a member's items that hold none of its rows are left out, as if it were alone."""
    folds = FOLDS if group.method in FOLDS else paper(group.method, "run").FOLDS
    folded = folds[group.method](group, together, limits)
    if folded is None:
        return None
    items, found = [], []
    for own, part, held in zip(together.items, folded, _held(together), strict=True):
        items.append(Items(own.segment[held], own.index[held], own.low[held], own.high[held]))
        found.append(Folded(part.mantissa[held], part.exponent[held], part.extreme[held]))
    return GroupFold(group, together, tuple(items), tuple(found))


def _held(together: GroupRows) -> list[NDArray[np.bool_]]:
    """Per member and item whether there is a row of the member's."""
    symbol, alphabet = together.rows.symbols[0], together.alphabet
    held: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_)] * len(together.items)
    for items in {id(each): each for each in together.items}.values():
        members = [k for k, each in enumerate(together.items) if each is items]
        own = [[a for a, symbols in enumerate(alphabet) if symbols[k]] for k in members]
        start = np.cumsum([0, *map(len, own)])
        order = np.argsort(items.low, kind="stable")
        found = np.zeros((len(members), len(order)), np.bool_)
        after = np.full(len(alphabet), len(symbol), np.int64)
        flat = np.array([a for each in own for a in each], np.int64)
        mark_own_items(symbol, items.low[order], items.high[order], start, flat, after, found)
        for k, row in zip(members, found, strict=True):
            held[k] = np.empty(len(order), np.bool_)
            held[k][order] = row
    return held


def alone_as_lanes(
    plan: QueryPlan, rows: Rows, moment: NDArray[np.int32], items: Items, batch: EventBatch
) -> Ready:
    """One query as a group of its own."""
    alphabet = tuple((symbol,) for symbol in rows.alphabets[0])
    group = Group("auto", "lanes", (plan,))
    return make_ready(group, GroupRows(rows, moment, alphabet, (items,), batch))


def counted(workspace: Workspace) -> dict[str, int]:
    """What the folds of all groups have counted."""
    total: dict[str, int] = {}
    for _, fold in workspace.groups.values():
        for what, count in fold.together.counts.items() if fold is not None else ():
            total[what] = total.get(what, 0) + count
    return total


def read_group(
    group: Group, workspace: Workspace, origin: int, limits: Limits, asked: Asked | None
) -> GroupRows | None:
    """The rows and windows of all members; None where there are too many windows, or kinds of rows."""
    if group.method == "lanes" and _has_many_values(group, workspace):
        return None
    symbols = read_symbols(_takers(group), workspace)
    if len(symbols.alphabet) > MOST_SYMBOLS:
        return None
    rows = _read_rows(group, symbols, workspace, limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, workspace.batch.order_of(rows.row), moment)
    alphabet = tuple(_by_member(symbol, len(group.members)) for symbol in rows.alphabets[0])
    try:
        items = _items(group, rows, alphabet, origin, limits, asked)
    except LimitError:  # a query alone has fewer windows, and is judged by those
        return None
    return GroupRows(rows, moment, alphabet, items, workspace.batch)


def _has_many_values(group: Group, workspace: Workspace) -> bool:
    """Whether GROUP BY T.g would copy the rows more often than there are queries to share the copies.

    A query alone makes lanes of its groups instead (see runtime.lanes).
    """
    keys = group.members[0].qualified_keys
    if not keys:
        return False
    return workspace.partition((), tuple(key.attribute for key in keys))[1] > len(group.members)


def _takers(group: Group) -> Iterator[Taker]:
    for k, member in enumerate(group.members):
        for type_, wanted, position in takers_of(member.operands[0].machine):
            yield type_, wanted, k * _MEMBER + position


def _by_member(symbol: Symbol, members: int) -> tuple[Symbol, ...]:
    found: list[set[int]] = [set() for _ in range(members)]
    for taken in symbol:
        found[taken // _MEMBER].add(taken % _MEMBER)
    return tuple(map(frozenset, found))


def _read_rows(group: Group, symbols: Symbols, workspace: Workspace, limits: Limits) -> Rows:
    """As rows.read_rows, for all members at once: they are sorted and grouped alike."""
    first = group.members[0]
    by = partitioning(first)
    if by in workspace.shared:
        placed = pick(workspace.placed(by), symbols, keeps_all=False)
    else:
        placed = place(workspace, symbols.symbol, *workspace.partition(*by), keeps_all=False)
    none = np.zeros(0, np.int64)
    rows = Rows(
        placed.row, placed.time, (placed.symbol,), (symbols.alphabet,), occupied(placed.segment), none, {}
    )
    rows = name_plain_groups(rows, workspace, first)
    for alias, keys in by_alias(first.qualified_keys):
        types, taken = _own(group, alias)
        rows = by_qualified_group(rows, workspace, first, types, (taken,), keys, limits)
    return rows


def _own(group: Group, alias: str) -> tuple[frozenset[str], frozenset[int]]:
    """The types of an alias of the first member, which the others group by too, and all their positions.

    A member without others may have positions of such a type that its alias does not stand for.
    """
    automaton = group.members[0].operands[0].machine.automaton
    if len(group.members) == 1:
        types, (taken,) = own_types(group.members[0], alias)
        return types, taken
    types = frozenset(automaton.positions[p].type for p in automaton.called(alias))
    return types, frozenset(position for type_, _, position in _takers(group) if type_ in types)


def _items(
    group: Group,
    rows: Rows,
    alphabet: tuple[tuple[Symbol, ...], ...],
    origin: int,
    limits: Limits,
    asked: Asked | None,
) -> tuple[Items, ...]:
    """The windows of every member; those of equal windows are cut once. All together are within the limit."""
    found: dict[Window | None, Items] = {}
    items: list[Items] = []
    left = limits.windows
    for k, member in enumerate(group.members):
        window = member.query.window
        by_event = window is not None and (window.slide is None or window.unit is WindowUnit.EVENTS)
        if by_event or window not in found:
            own = _rows_of_member(rows, alphabet, k) if by_event else rows
            found[window] = cut(member, own, rows.time, origin, replace(limits, windows=left), asked)
        items.append(found[window])
        left = max(0, left - len(found[window].low))
    return tuple(items)


def _rows_of_member(rows: Rows, alphabet: tuple[tuple[Symbol, ...], ...], k: int) -> Rows:
    """The same rows with the symbols of one member."""
    own = {symbols[k]: i for i, symbols in reversed(list(enumerate(alphabet)))}
    code = np.array([own[symbols[k]] for symbols in alphabet], np.int32)
    return replace(rows, symbols=(code[rows.symbols[0]],), alphabets=(tuple(each[k] for each in alphabet),))
