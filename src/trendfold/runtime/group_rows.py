"""The rows of a group of queries: selected, classified, sorted and cut into windows, once for all members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from trendfold.plan.physical import why_apart
from trendfold.plan.statistics import GroupStatistics
from trendfold.query.nodes import Window, WindowUnit
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import (
    Rows,
    Symbols,
    Taker,
    by_alias,
    by_qualified_group,
    name_plain_groups,
    own_types,
    pick,
    read_symbols,
    takers_of,
)
from trendfold.runtime.request import EVERYTHING, Request
from trendfold.runtime.values import values_beside
from trendfold.runtime.windows import Items, cut
from trendfold.runtime.workspace import Workspace, occupied, partitioning, place

_MEMBER = 1 << 20
"""The positions of member k are numbered from k times this."""


@dataclass(frozen=True)
class GroupRows:
    """The rows of all members of a group, by segment (one partition's stream of one group) and time.

    rows       `rows.symbols[0]` are symbols of the whole group; rows that no member needs are left out
    moment     int32[n]  numbered consecutively; equal for rows of the same moment
    alphabet   per symbol and member the positions that such a row can take; symbol 0 takes none
    windows    the windows of every distinct WITHIN and SLIDE, as stretches of these rows
    window_of  per member the index of its windows in `windows`
    counts     counters of the fold for the summary: bursts, snapshots, ...
    """

    rows: Rows
    moment: NDArray[np.int32]
    alphabet: tuple[tuple[Symbol, ...], ...]
    windows: tuple[Items, ...]
    window_of: tuple[int, ...]
    batch: EventBatch
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def items(self) -> tuple[Items, ...]:
        """The windows of each member."""
        return tuple(self.windows[number] for number in self.window_of)

    def events(self, carried: Carried) -> Events:
        """The rows with the values that members carry."""
        return lane_events(carried, self.rows, self.moment, self.batch)

    def rows_of(self, member: QueryPlan, first: QueryPlan) -> Rows:
        """The rows with groups named by the keys of one member instead of those of the first."""
        own = zip(member.query.group_by, first.query.group_by, strict=True)
        return replace(self.rows, group_rows={key: self.rows.group_rows[other] for key, other in own})

    def occupied(self, folded: tuple[Folded, ...]) -> Iterator[tuple[Items, Folded]]:
        """Per member the windows that hold a row it needs, as if folded alone, and their aggregates."""
        for own, part, held in zip(self.items, folded, self._held(), strict=True):
            items = Items(own.segment[held], own.index[held], own.low[held], own.high[held])
            yield items, Folded(part.mantissa[held], part.exponent[held], part.extreme[held])

    @property
    def kinds(self) -> int:
        """How many kinds of rows there are: symbols of the whole group."""
        return len(self.alphabet)

    def _own_kinds(self, member: int) -> Sequence[int]:
        """The kinds of rows that a member needs."""
        return [a for a, symbols in enumerate(self.alphabet) if symbols[member]]

    def _held(self) -> list[NDArray[np.bool_]]:
        """Per member and window whether it holds a row of the member's."""
        held: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_)] * len(self.window_of)
        for number, items in enumerate(self.windows):
            members = [k for k, own in enumerate(self.window_of) if own == number]
            found = kinds_held(self.rows.symbols[0], items, list(map(self._own_kinds, members)), self.kinds)
            for k, own_items in zip(members, found, strict=True):
                held[k] = own_items
        return held


def kinds_held(
    symbol: NDArray[np.int32], items: Items, own: Sequence[Sequence[int]], kinds: int
) -> list[NDArray[np.bool_]]:
    """Per list of kinds and item whether the item holds a row of any of these kinds."""
    start = np.cumsum([0, *map(len, own)])
    order = np.argsort(items.low, kind="stable")
    found = np.zeros((len(own), len(order)), np.bool_)
    after = np.full(kinds, len(symbol), np.int64)
    flat = np.array([a for each in own for a in each], np.int64)
    mark_own_items(symbol, items.low[order], items.high[order], start, flat, after, found)
    held = np.empty_like(found)
    held[:, order] = found
    return list(held)


def lane_events(carried: Carried, rows: Rows, moment: NDArray[np.int32], batch: EventBatch) -> Events:
    """Rows with the values that several queries carry; if they carry numbers, column 0 of the values is 1."""
    found = values_beside(carried, rows.symbols[0], moment, rows.row, batch)
    if carried.numbers and found.values.shape[1] == 0:  # only bindings are counted
        return found._replace(values=np.ones((len(moment), 1)))
    return found


def as_group(rows: Rows, moment: NDArray[np.int32], items: Items, batch: EventBatch) -> GroupRows:
    """The rows of one query as a group with one member."""
    alphabet = tuple((symbol,) for symbol in rows.alphabets[0])
    return GroupRows(rows, moment, alphabet, (items,), (0,), batch)


def read_group(
    group: Group, workspace: Workspace, request: Request = EVERYTHING
) -> tuple[GroupRows | None, GroupStatistics]:
    """Read the rows and windows of all members, and measure them.

    Reading stops at the first reason to fold the members one by one.
    """
    known = GroupStatistics(
        rows=len(workspace.batch),
        group_values=group_values(group, workspace),
        is_exact=request.arithmetic == "exact",
    )
    if why_apart(group, known):
        return None, known
    symbols = read_symbols(_takers(group), workspace)
    known = replace(known, kinds=len(symbols.alphabet))
    if why_apart(group, known):
        return None, known
    rows = _read_rows(group, symbols, workspace, request.limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, workspace.batch.order_of(rows.row), moment)
    alphabet = tuple(_by_member(symbol, len(group.members)) for symbol in rows.alphabets[0])
    try:
        windows, window_of = cut_windows(group, rows, alphabet, request)
    except LimitError:  # a query alone has fewer windows, and is judged by those
        return None, replace(known, windows_fit=False)
    together = GroupRows(rows, moment, alphabet, windows, window_of, workspace.batch)
    return together, replace(known, rows=len(rows.row))


def group_values(group: Group, workspace: Workspace) -> int:
    """How many values GROUP BY T.g has: the rows of a group of queries are copied once for each."""
    keys = tuple(key.attribute for key in group.members[0].qualified_keys)
    return workspace.partition((), keys)[1] if keys else 1


def window_share(together: GroupRows) -> float:
    """The average share of all rows that one of the longest windows holds."""
    means = [float(np.mean(items.high - items.low)) for items in together.windows if len(items.low)]
    return max(means, default=0.0) / max(1, len(together.moment))


def frequencies(group: Group, together: GroupRows) -> dict[str, float]:
    """Events per type in one of the longest windows."""
    total = np.bincount(together.rows.symbols[0], minlength=len(together.alphabet)) * window_share(together)
    found: dict[str, float] = {}
    for count, symbols in zip(total, together.alphabet, strict=True):
        for type_ in _types(group, symbols):
            found[type_] = found.get(type_, 0.0) + float(count)
    return found


def _types(group: Group, symbols: tuple[Symbol, ...]) -> set[str]:
    """The types of the rows of a symbol, as members name them; empty if no member can take such rows."""
    return {
        member.operands[0].machine.automaton.positions[p].type
        for member, taken in zip(group.members, symbols, strict=True)
        for p in taken
    }


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
    """Like query_rows.read_rows, for all members at once: they have the same order and groups."""
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
    """The types of an alias of the first member, by which all members group, and all their positions.

    A group of one member may have positions of such a type outside the alias.
    """
    automaton = group.members[0].operands[0].machine.automaton
    if len(group.members) == 1:
        types, (taken,) = own_types(group.members[0], alias)
        return types, taken
    types = frozenset(automaton.positions[p].type for p in automaton.called(alias))
    return types, frozenset(position for type_, _, position in _takers(group) if type_ in types)


def cut_windows(
    group: Group, rows: Rows, alphabet: tuple[tuple[Symbol, ...], ...], request: Request
) -> tuple[tuple[Items, ...], tuple[int, ...]]:
    """Cut the windows of every distinct WITHIN and SLIDE; all members' windows count towards the limit.

    Also returns, per member, the index of its windows. Per-event and count windows are never shared.
    """
    limits, left = request.limits, request.limits.windows
    number: dict[Window | None, int] = {}
    windows: list[Items] = []
    window_of: list[int] = []
    for k, member in enumerate(group.members):
        window = member.query.window
        by_event = window is not None and (window.slide is None or window.unit is WindowUnit.EVENTS)
        if by_event or window not in number:
            own = _rows_of_member(rows, alphabet, k) if by_event else rows
            number[window] = len(windows)
            bound = replace(limits, windows=left)
            windows.append(cut(member, own, rows.time, request.origin, bound, request.asked))
        window_of.append(number[window])
        left = max(0, left - len(windows[number[window]].low))
    return tuple(windows), tuple(window_of)


def _rows_of_member(rows: Rows, alphabet: tuple[tuple[Symbol, ...], ...], k: int) -> Rows:
    """The same rows with the symbols of one member."""
    own = {symbols[k]: i for i, symbols in reversed(list(enumerate(alphabet)))}
    code = np.array([own[symbols[k]] for symbols in alphabet], np.int32)
    return replace(rows, symbols=(code[rows.symbols[0]],), alphabets=(tuple(each[k] for each in alphabet),))
