"""The rows of a group of queries: selected, classified, sorted and cut into windows, once for all members."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.errors import LimitError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import find_kinds, have_kinds, hold_any, is_sorted, number_moments
from trendfold.plan import Group, QueryPlan
from trendfold.plan.carried import Carried
from trendfold.plan.physical import why_apart
from trendfold.plan.statistics import GroupStatistics
from trendfold.query.nodes import TypeSet
from trendfold.runtime.empty_rows import have_takers
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import (
    Rows,
    Symbols,
    Taker,
    by_alias,
    by_qualified_group,
    name_plain_groups,
    number_rows,
    own_types,
    pick,
    read_symbols,
    takers_of,
)
from trendfold.runtime.request import EVERYTHING, Request
from trendfold.runtime.sorting import numbered
from trendfold.runtime.values import at_rows, rows_with_trends, values_beside, with_constant
from trendfold.runtime.windows import HeldWindows, Items, cut
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
        if member.query.group_by == first.query.group_by:
            return self.rows
        own = zip(member.query.group_by, first.query.group_by, strict=True)
        return replace(self.rows, group_rows={key: self.rows.group_rows[other] for key, other in own})

    def with_trends(self, folded: Sequence[tuple[Folded, ...]]) -> Iterator[tuple[Items, tuple[Folded, ...]]]:
        """Per member the window items in which its first operand has a trend, and the aggregates."""
        for items, parts in zip(self.items, folded, strict=True):
            some = rows_with_trends(parts[0])
            yield items.at(some), tuple(at_rows(part, some) for part in parts)

    def with_takers(self, member: QueryPlan) -> Items | None:
        """The window items of a member that have a row in any case; None without INCLUDE EMPTY."""
        if not member.query.includes_empty:
            return None
        items, own = self.items[member.number], self.as_read_by(member)
        return items.at(np.flatnonzero(have_takers(member, own, items)))

    def as_read_by(self, member: QueryPlan) -> Rows:
        """The rows with the symbols of one member."""
        return _rows_of_member(self.rows, self.alphabet, member.number)

    @property
    def kinds(self) -> int:
        """How many kinds of rows there are: symbols of the whole group."""
        return len(self.alphabet)

    def _needed_kinds(self) -> NDArray[np.bool_]:
        """Per member and kind whether it needs such rows."""
        return np.array([[bool(taken) for taken in symbols] for symbols in self.alphabet], np.bool_).T

    def _cut(self) -> tuple[Items, ...]:
        """The windows as they are cut from the rows."""
        return self.windows

    def windows_held(self) -> list[HeldWindows]:
        """Per member the windows that hold a row it needs, as if it were folded alone."""
        held = [HeldWindows(np.zeros(0, np.int64))] * len(self.window_of)
        needed = self._needed_kinds()
        for number, items in enumerate(self._cut()):
            members = [k for k, own in enumerate(self.window_of) if own == number]
            distinct, home = numbered(items.index)
            common = np.logical_and.reduce(needed[members])
            by_all = _holding(self.rows.symbols[0], items, home, len(distinct), common)
            rest = np.flatnonzero(~by_all)  # not of all members
            some, place = np.flatnonzero(~by_all[home]), np.cumsum(~by_all) - 1
            own = items.at(some), self.kinds, place[home[some]], len(rest)
            seen = _have_kinds(_kinds_of(self.rows.symbols[0], *own), _as_bits(needed[members]))
            for k, is_held in zip(members, seen, strict=True):
                held[k] = HeldWindows(distinct, rest[~is_held])
        return held


def _holding(
    symbol: NDArray[np.int32], items: Items, home: NDArray[Any], homes: int, wanted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether any item of a home holds a row of a wanted kind."""
    held = np.zeros(homes, np.bool_)
    if wanted.any():
        hold_any(symbol, *_by_row(items, home), wanted, held)
    return held


def _by_row(items: Items, home: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """The items in the order of their first rows, with their homes."""
    if is_sorted(items.low):
        return items.low, items.high, home
    order = np.argsort(items.low, kind="stable")
    return items.low[order], items.high[order], home[order]


def kinds_held(
    symbol: NDArray[np.int32], items: Items, own: Sequence[Sequence[int]], kinds: int
) -> NDArray[np.bool_]:
    """Per list of kinds and item whether the item holds a row of any of these kinds."""
    found = _kinds_of(symbol, items, kinds, np.arange(len(items.low)), len(items.low))
    asked = np.zeros((len(own), kinds), np.bool_)
    for row, each in zip(asked, own, strict=True):
        row[list(each)] = True
    return _have_kinds(found, _as_bits(asked))


def _as_bits(asked: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Rows of flags, one per kind, as bits of whole words."""
    padded = np.zeros((len(asked), _words(asked.shape[1]) * 64), np.bool_)
    padded[:, : asked.shape[1]] = asked
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _words(kinds: int) -> int:
    return -(-kinds // 64)


def _kinds_of(
    symbol: NDArray[np.int32], items: Items, kinds: int, home: NDArray[Any], homes: int
) -> NDArray[np.uint64]:
    """The kinds of rows of all items as bits, by `home`, which says where each item belongs."""
    found = np.zeros((homes, _words(kinds)), np.uint64)
    find_kinds(symbol, *_by_row(items, home), np.full(kinds, len(symbol), np.int64), found)
    return found


def _have_kinds(found: NDArray[np.uint64], own: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Per list of kinds and place whether the place has any of these kinds."""
    seen = np.zeros((len(own), len(found)), np.bool_)
    have_kinds(found, own, seen)
    return seen


def lane_events(carried: Carried, rows: Rows, moment: NDArray[np.int32], batch: EventBatch) -> Events:
    """Rows with the values that several queries carry; if they carry numbers, column 0 of the values is 1."""
    return with_constant(values_beside(carried, rows.symbols[0], moment, rows, batch), carried)


def read_group(
    group: Group, workspace: Workspace, request: Request = EVERYTHING
) -> tuple[GroupRows | None, GroupStatistics]:
    """Read the rows and windows of all members, and measure them.

    Reading stops at the first reason to fold the members one by one.
    """
    known = GroupStatistics(
        rows=len(workspace.batch),
        group_values=group_values(group, workspace),
        is_exact=request.is_exact,
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
        windows, window_of = cut_windows(
            group, rows, lambda k: (_endings(group, alphabet, k), _rows_of_member(rows, alphabet, k)), request
        )
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


def has_single_moments(together: GroupRows) -> bool:
    """Whether few events share a moment with another."""
    rows = len(together.moment)
    return rows > 0 and int(together.moment[-1]) + 1 > _SINGLE * rows


_SINGLE = 0.9
"""The least share of moments per row for which A-Seq's updates are mostly of one event."""


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
        member.operands[0].machine.automaton.positions[p].label
        for member, taken in zip(group.members, symbols, strict=True)
        for p in taken
    }


def _takers(group: Group) -> Iterator[Taker]:
    for k, member in enumerate(group.members):
        for types, wanted, position in takers_of(member.operands[0].machine):
            yield types, wanted, k * _MEMBER + position


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
    rows = with_numbers(rows, group, workspace)
    rows = name_plain_groups(rows, workspace, first)
    for alias, keys in by_alias(first.qualified_keys):
        types, taken = _own(group, alias, workspace.batch.type_names)
        rows = by_qualified_group(rows, workspace, first, types, (taken,), keys, limits)
    return rows


def with_numbers(rows: Rows, group: Group, workspace: Workspace) -> Rows:
    """Number the rows for count windows; members number them alike, since they have the same groups."""
    counted = (number_rows(plan, workspace) for plan in group.members)
    number = next((each for each in counted if each is not None), None)
    return rows if number is None else replace(rows, number=number[rows.row])


def _own(group: Group, alias: str, names: Sequence[str]) -> tuple[TypeSet | frozenset[str], frozenset[int]]:
    """The types of an alias of the first member, by which all members group, and all their positions.

    A group of one member may have positions of such a type outside the alias.
    """
    if len(group.members) == 1:
        own, (taken,) = own_types(group.members[0], alias, names)
        return own, taken
    types = group.members[0].operands[0].machine.automaton.types_at(alias)
    return types, frozenset(position for other, _, position in _takers(group) if types.meets(other))


def cut_windows(
    group: Group, rows: Rows, own_rows: Callable[[int], tuple[Hashable, Rows]], request: Request
) -> tuple[tuple[Items, ...], tuple[int, ...]]:
    """Cut the windows of every distinct WITHIN and SLIDE; all members' windows count towards the limit.

    Also returns, per member, the index of its windows. Windows per event depend on the events that may end a
    trend: `own_rows` has the rows as one member sees them, and a key equal for members that see the same.
    """
    limits, left = request.limits, request.limits.windows
    number: dict[Hashable, int] = {}
    windows: list[Items] = []
    window_of: list[int] = []
    for k, member in enumerate(group.members):
        window = member.query.window
        by_event = window is not None and window.slide is None
        ends, own = own_rows(k) if by_event else (None, rows)
        if (window, ends) not in number:
            number[window, ends] = len(windows)
            bound = replace(limits, windows=left)
            windows.append(cut(member, own, rows.time, request.origin, bound, request.asked))
        window_of.append(number[window, ends])
        left = max(0, left - len(windows[window_of[-1]].low))
    return tuple(windows), tuple(window_of)


def _endings(group: Group, alphabet: tuple[tuple[Symbol, ...], ...], k: int) -> tuple[bool, ...]:
    """Per kind of row whether it may end a trend of a member."""
    last = group.members[k].operands[0].machine.automaton.last
    return tuple(bool(symbols[k] & last) for symbols in alphabet)


def _rows_of_member(rows: Rows, alphabet: tuple[tuple[Symbol, ...], ...], k: int) -> Rows:
    """The same rows with the symbols of one member."""
    own = {symbols[k]: i for i, symbols in reversed(list(enumerate(alphabet)))}
    code = np.array([own[symbols[k]] for symbols in alphabet], np.int32)
    return replace(rows, symbols=(code[rows.symbols[0]],), alphabets=(tuple(each[k] for each in alphabet),))
