"""Accesses and rows -> an index: all values are ranked once, so that bindings are found without a scan.

Ranks are computed per segment; the windows of a segment share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.events.columns import Column
from trendfold.kernel import bits as kernel_bits
from trendfold.kernel import ranks as kernels
from trendfold.kernel import tree
from trendfold.kernel.lower import ValueAccesses
from trendfold.kernel.nested import level_count
from trendfold.kernel.program import BindingIndex, Ints
from trendfold.plan.neighbour import Access, Comparison, Structure
from trendfold.query.nodes import Attribute, Expression
from trendfold.runtime.conditions import ranks, side_column
from trendfold.runtime.expressions import is_true
from trendfold.runtime.folds.growing_trees import cut_values, no_grown
from trendfold.runtime.folds.nested_trees import nest, no_nested
from trendfold.runtime.sorting import order_of

Lookup = Callable[[str], Column]
Truths = NDArray[np.bool_]
Sides = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Doubles that compare like the values of bindings and of the events that look them up; NaN is null."""


def build_index(
    asked: ValueAccesses,
    symbol: NDArray[np.int32],
    segment: NDArray[np.int64],
    lookup: Lookup,
    is_next: bool,
    lists: dict[int, int],
) -> BindingIndex:
    """Build the trees of all accesses, and per row its position in each tree.

    Under *next* bindings are removed one by one, so each has its own leaf, and trees have no inner nodes.
    """
    accesses, rows = asked.accesses, len(symbol)
    pairs = max((_pairs(access) for access in accesses), default=1)
    firsts = [asked.is_first[number][symbol] for number in range(len(accesses))]
    deep = [_levels(access, first, segment) for access, first in zip(accesses, firsts, strict=True)]
    tree_start = _ints(np.cumsum([0, *deep]))
    span = empty((len(accesses), rows, 2 * pairs), np.int32)
    leaf = empty((sum(deep), rows), np.int32)
    nested = no_nested(accesses, segment, len(leaf), rows)
    grown = no_grown(accesses, tree_start, rows, pairs)
    sizes, bits = [], []
    for number, (access, first) in enumerate(zip(accesses, firsts, strict=True)):
        second = asked.is_second[number][symbol]
        trees = slice(tree_start[number], tree_start[number + 1])
        is_table, is_nested = access.structure is Structure.TABLE, access.structure is Structure.NESTED
        apart = (is_next or access.guard is not None or is_nested) and not is_table
        entries, orders = _entries(access, segment, lookup, first, second, apart)
        if is_nested:
            count = nest(
                entries.fill, access, orders, segment, nested, number, trees, leaf[trees], span[number]
            )
        elif access.is_online:
            grown.is_apart[number], leaf[trees], count = apart, 0, 0
            cut_values(access, orders[0], entries.first, entries.second, grown, number)
        else:
            count = entries.fill(access, orders, leaf[trees.start], span[number])
        sizes += [tree.level_sizes(count, is_next or is_table)] * deep[number]
        bits += [kernel_bits.level_sizes(count) if is_next else []] * deep[number]
    of = [[i for i, access in enumerate(accesses) if lists[access.place] == k] for k in range(len(lists))]
    of = [[t for i in one for t in range(tree_start[i], tree_start[i + 1])] for one in of]
    start, nodes = _starts(sizes, tree.MOST_LEVELS)
    bit_start, words = _starts(bits, kernel_bits.MOST_LEVELS)
    return BindingIndex(
        way=asked.way,
        here=_ints([lists[access.place] for access in accesses]),
        span=span,
        tree_start=tree_start,
        leaf=leaf,
        start=start,
        levels=np.array([len(levels) for levels in sizes], np.uint64),
        of_start=_ints(np.cumsum([0, *map(len, of)])),
        of=_ints([one for trees in of for one in trees]),
        nodes=nodes,
        leaves=max((levels[0] for levels in sizes), default=0),
        nested=nested,
        grown=grown,
        bit_start=bit_start,
        bit_levels=np.array([len(levels) for levels in bits], np.uint64),
        words=words,
    )


def with_tree(index: BindingIndex, place: int, leaf: Ints) -> BindingIndex:
    """The same index with one more tree, which no event asks: the bindings of a list by `leaf`."""
    trees, size = len(index.levels), tree.level_sizes(int(leaf.max(initial=0)), is_flat=True)[0]
    start = np.zeros(tree.MOST_LEVELS, np.uint64)
    start[0] = index.nodes
    lists = [index.of[low:high].tolist() for low, high in pairwise(index.of_start)]
    lists[place].append(trees)
    return index._replace(
        leaf=np.concatenate([index.leaf, leaf[None]]),
        start=np.concatenate([index.start, start]),
        levels=np.append(index.levels, np.uint64(1)),
        of_start=_ints(np.cumsum([0, *map(len, lists)])),
        of=_ints([one for trees in lists for one in trees]),
        nodes=index.nodes + size,
        leaves=max(index.leaves, size),
        grown=index.grown._replace(access=np.append(index.grown.access, np.int32(0))),
        bit_start=np.concatenate([index.bit_start, np.zeros(kernel_bits.MOST_LEVELS, np.uint64)]),
        bit_levels=np.append(index.bit_levels, np.uint64(0)),
    )


def _pairs(access: Access) -> int:
    """How many ranges of leaves an event may look up: two, around the value, for `!=`.

    With two compared values, as many for each of them.
    """
    each = 1 + any(c.op == "!=" for c in access.ordered)
    return 2 * each if access.structure is Structure.NESTED else each


def _levels(access: Access, first: Truths, segment: NDArray[np.int64]) -> int:
    """The number of trees of an access: one, or the levels of nested trees."""
    if access.structure is not Structure.NESTED:
        return 1
    asked = np.concatenate([[0], np.cumsum(first)])[segment]
    return level_count(int(np.diff(asked).max(initial=0)))


def _starts(sizes: Sequence[Sequence[int]], most: int) -> tuple[NDArray[np.uint64], int]:
    """The offset of each level of each tree, laid out consecutively, and the total size."""
    start = np.zeros((len(sizes), most), np.uint64)
    at = 0
    for i, levels in enumerate(sizes):
        for level, size in enumerate(levels):
            start[i, level] = at
            at += size
    return start.reshape(-1), at


def _ints(values: Any) -> Ints:
    return np.array(list(values), np.int32)


def _entries(
    access: Access,
    segment: NDArray[np.int64],
    lookup: Lookup,
    first: Truths,
    second: Truths,
    is_apart: bool,
) -> tuple[Entries, list[Sides]]:
    """The rows of bindings and of lookups of an access, and the values by which they are compared."""
    rows = len(first)
    first = first & _holds(access.first_if, lookup, rows)
    second = second & _holds(access.second_if, lookup, rows)
    keys = [_sides(c, lookup, rows) for c in access.equal]
    orders = [_sides(c, lookup, rows) for c in access.ordered]
    for a, b in (*keys, *orders):
        known = ~np.isnan(a)
        first, second = first & known, second & (known if b is a else ~np.isnan(b))
    return Entries(segment, keys, first, second, is_apart), orders


def _holds(conditions: Sequence[Expression], lookup: Lookup, rows: int) -> Truths:
    found = np.ones((), np.bool_)
    for condition in conditions:
        found = found & is_true(side_column(condition, lookup, rows))
    return np.asarray(found)


def _sides(compared: Comparison, lookup: Lookup, rows: int) -> Sides:
    """Both sides of a comparison; the same array twice if an attribute is compared with itself."""
    match compared.first, compared.second:
        case Attribute(name=a), Attribute(name=b) if a == b:
            column = side_column(compared.first, lookup, rows)
            return ranks(column, column)
    return ranks(side_column(compared.first, lookup, rows), side_column(compared.second, lookup, rows))


@dataclass
class Entries:
    """The rows of bindings and the rows of events that look them up, in groups of one segment and key."""

    segment: NDArray[np.int64]
    keys: Sequence[Sides]
    first: Truths
    second: Truths
    is_apart: bool

    @cached_property
    def is_own(self) -> bool:
        """Whether all rows are both bindings and lookups, in one group."""
        return not self._has_groups and bool(self.first.all()) and bool(self.second.all())

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """Rows of bindings, and rows of lookups: indices, or a slice of all rows."""
        if self.is_own:
            return slice(None), slice(None)
        return np.flatnonzero(self.first), np.flatnonzero(self.second)

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per entry, bindings before lookups: its group. Per group: its segment."""
        asked, asking = self.rows
        segments = len(self.segment) - 1
        owner = np.repeat(np.arange(segments), np.diff(self.segment))
        code = np.concatenate([owner[asked], owner[asking]])
        segment = np.arange(segments)
        for a, b in self.keys:
            distinct, key = np.unique(np.concatenate([a[asked], b[asking]]), return_inverse=True)
            known, code = np.unique(code * len(distinct) + key.reshape(-1), return_inverse=True)
            segment, code = segment[known // max(1, len(distinct))], code.reshape(-1)
        return code, segment

    def fill(self, access: Access, orders: Sequence[Sides], leaf: Ints, span: Ints) -> int:
        """Fill in the leaves of bindings and the spans of lookups.

        All comparisons are with one value of the earlier event. Returns the most leaves of a segment.
        """
        if self.is_own and len(orders) == 1 and orders[0][0] is orders[0][1] and len(span.T) == 2:
            (value, _), op = orders[0], access.ordered[0].op
            sides = op in ("<", "<="), op in ("<=", ">=")
            return int(kernels.place_own(*order_of(value), self.is_apart, *sides, leaf, span))
        leaf[:] = 0
        span[:] = tree.EMPTY
        asked, asking = self.rows
        local, ends = None, []
        if not orders:
            zero = np.zeros(0)
            orders = [(zero, zero)]
        for a, b in orders:
            count, numbers, below, upto = self._number(a, b)
            local = numbers if local is None else local
            ends.append((below, upto))
        assert local is not None
        base, size = self._base(count)
        group = self._group_of(0), self._group_of(1)
        leaf[asked] = local[asked] + (base[group[0]] + 1).astype(np.int32)
        has_keys = bool(self.keys)
        low = base[group[1]].astype(np.int32)
        top = low + count[group[1]] + np.int32(1)
        if access.structure is Structure.TABLE:
            span[asking, 0] = np.where(top > low + 1, low, tree.EMPTY)
            span[asking, 1] = low + 2
            return size
        stretches = [(low, top)]
        for compared, (below, upto) in zip(access.ordered, ends, strict=False):
            under, over = low + below[asking] + np.int32(1), low + upto[asking]
            stretches = _cut(stretches, compared.op, under, over)
        for p, (start, stop) in enumerate(stretches):
            open_stop = np.where(stop == top, tree.OPEN, stop) if not has_keys else stop
            span[asking, 2 * p] = np.where(stop > start + 1, start, tree.EMPTY)
            span[asking, 2 * p + 1] = open_stop
        return size

    def _group_of(self, side: int) -> Any:
        """The groups of bindings (side 0), or of lookups (side 1)."""
        if not self._has_groups:
            return 0
        return np.split(self.groups[0], [len(self.rows[0])])[side]

    @property
    def _has_groups(self) -> bool:
        return bool(self.keys) or len(self.segment) > 2

    def _base(self, count: Ints) -> tuple[NDArray[np.int64], int]:
        """Per group the number of leaves before it in its segment; and the most leaves of a segment."""
        if not self.keys:
            return np.zeros(len(count), np.int64), int(count.max(initial=0))
        total = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
        segment = self.groups[1]
        begin = np.searchsorted(segment, segment)
        end = np.searchsorted(segment, segment, side="right")
        return total[:-1] - total[begin], int((total[end] - total[begin]).max(initial=0))

    def _number(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[Ints, Ints, Ints, Ints]:
        """Leaves per group; per row its leaf, and the numbers of leaves below and not above its value."""
        rows = len(self.first)
        count = np.zeros(len(self.groups[1]) if self._has_groups else 1, np.int32)
        leaf, below, upto = (empty(rows, np.int32) for _ in range(3))
        asked, asking = np.flatnonzero(self.first), np.flatnonzero(self.second)
        row = np.concatenate([asked, asking])
        side = np.repeat(np.array([kernels.FIRST, kernels.SECOND], np.int8), [len(asked), len(asking)])
        group = self.groups[0] if self._has_groups else np.zeros(0, np.int64)
        if len(a):
            order, is_new = order_of(np.concatenate([a[asked], b[asking]]))
        else:
            order, is_new = np.arange(len(row)), np.zeros(len(row), np.bool_)
        kernels.number_leaves(order, is_new, row, side, group, self.is_apart, count, leaf, below, upto)
        return count, leaf, below, upto


Stretch = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Exclusive bounds."""


def _cut(
    stretches: list[Stretch], op: str, under: NDArray[np.int64], over: NDArray[np.int64]
) -> list[Stretch]:
    """Narrow ranges of leaves by a comparison: leaves below `under`, or above `over`.

    under  the first leaf not below the value looked up
    over   the last leaf not above it
    """
    match op:
        case "<":
            return [(start, np.minimum(stop, under)) for start, stop in stretches]
        case "<=":
            return [(start, np.minimum(stop, over + 1)) for start, stop in stretches]
        case ">":
            return [(np.maximum(start, over), stop) for start, stop in stretches]
        case ">=":
            return [(np.maximum(start, under - 1), stop) for start, stop in stretches]
    return [*_cut(stretches, "<", under, over), *_cut(stretches, ">", under, over)]
