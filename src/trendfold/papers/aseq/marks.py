"""Arrays for prefix counters: the trees of lines, marks, snapshots, and where windows end.

A tree's counters form a matrix: a row per *entry* (a prefix and one of its aggregates), and a column per
*mark* (START events that expire together). Entries are numbered across all trees.
A CSR pair is `x`, `x_start`, as in `kernel.program`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.program import Ints

RESET, ADD, VALUE, RESET_LEAST, LEAST, OWN = range(6)
"""Kinds of operations; an event of a NOT resets (Lemma 6), the others add from the previous prefix.

ADD    entry[dst] += entry[src]
VALUE  entry[dst] += entry[src] · value[col]
LEAST  least[dst] = min(least[dst], least[src])
OWN    least[dst] = min(least[dst], extreme[col]), where entry[src] is not 0
"""

KIND, TREE, DEPTH, DST, SRC, COL = range(6)
"""The columns of an operation."""


class PrefixProgram(NamedTuple):
    """The trees of one family, and the links between their pieces.

    op, op_start        per symbol: its operations [., 6], deepest first, and resets first within a depth:
                        in this order, each reads the state before the event
    start, start_start  per symbol: trees for which its events are START events
    is_slow    bool[A]  whether its events do more than ADD, VALUE, begin trees and snapshots of first pieces
    bar, bar_start      per symbol: trees that its events close for later START events (NOT at the start)
    root, root_start    per tree: (entry, value column or -1 for one) of a START event
    low_root, low_root_start   the same for entries of extremes
    entry_start, low_start  int32[T+1]   the entries of a tree, and those of extremes
    is_joined  bool[T]  whether events that begin the tree take snapshots
    join, join_start    per tree: the links into it

    A *joint* is a link or, after all links, a reading. What it gives, per active START event of a whole line:
    before  int32[J]    the link whose snapshots it continues, or -1
    tree    int32[J]    the tree whose counts it multiplies them with, or takes as they are
    origin  int32[J]    the tree of the line's START events
    gate    int32[J]    the count among that tree's entries
    out_start  int32[J+1]  its numbers, COUNT first; those of links are numbers of snapshots
    term, term_start    per number: (number of a snapshot or -1, entry) products that add up to it
    low_out, low_out_start   per joint its extremes: (extreme of a snapshot or -1, entry of an extreme or -1)
    """

    op_start: Ints
    op: Ints
    start_start: Ints
    start: Ints
    is_slow: NDArray[np.bool_]
    bar_start: Ints
    bar: Ints
    root_start: Ints
    root: Ints
    low_root_start: Ints
    low_root: Ints
    is_joined: NDArray[np.bool_]
    join_start: Ints
    join: Ints
    entry_start: Ints
    low_start: Ints
    before: Ints
    tree: Ints
    origin: Ints
    gate: Ints
    out_start: Ints
    term_start: Ints
    term: Ints
    low_out_start: Ints
    low_out: Ints
    links: int
    deepest: int


class Marked(NamedTuple):
    """The state of the fold: counters by entry and mark, and snapshots.

    mantissa, exponent   float64, int32 [E, C]   exponents only if numbers may exceed doubles
    least      float64[X, C]
    begin      int64[T, C]   the row of the first START event of each mark
    barred     int64[T, C]   the last row of a NOT at the start before it, or -1
    head, tail, base  int64[T]   active marks are [head, tail); mark k is number base + k of its segment
    born, taken  int64[T]    the moment in which the last mark was made, and the last snapshot taken
    closed     int64[T]      the last row of a NOT at the start so far, or -1

    Snapshots of link l lie in slots, mark number modulo `slots[l]`, with a row for each tag: the number of
    a mark of the line's first tree, modulo `tags[l]`. A row holds the sum over its tag and all later ones,
    so that the part that has not expired is one number.
    ends       int64[L, S]       per slot: the number of the mark after its last tag
    snap_at, low_at  int64[.]    per number, and extreme, of a link: where its table begins (see _cell)
    tags, slots      int64[L]    powers of two
    """

    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int32]
    least: NDArray[np.float64]
    begin: NDArray[np.int64]
    barred: NDArray[np.int64]
    head: NDArray[np.int64]
    tail: NDArray[np.int64]
    base: NDArray[np.int64]
    born: NDArray[np.int64]
    taken: NDArray[np.int64]
    closed: NDArray[np.int64]
    ends: NDArray[np.int64]
    snap_at: NDArray[np.int64]
    snap: NDArray[np.float64]
    snap_exponent: NDArray[np.int32]
    low_at: NDArray[np.int64]
    low_snap: NDArray[np.float64]
    tags: NDArray[np.int64]
    slots: NDArray[np.int64]
    is_wide: bool


class Stops(NamedTuple):
    """Window items of all readings ordered by their ends, and what marks need to know about them.

    low, high  int64[I]   the rows of an item
    joint      int32[I]   the reading's joint
    at, low_at  int64[I]  where its numbers and extremes go in the output
    edge       int64[n]   per row: the last row at or before it where an item begins, or -1
    floor      int64[n]   per row: the first row of all items that end after it
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    joint: NDArray[np.int32]
    at: NDArray[np.int64]
    low_at: NDArray[np.int64]
    edge: NDArray[np.int64]
    floor: NDArray[np.int64]
