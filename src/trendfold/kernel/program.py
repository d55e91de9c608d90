"""What kernels read: a machine as arrays. Plain, picklable records, the same for every query.

A CSR pair is `x`, `x_start`: the items of k are x[x_start[k] : x_start[k + 1]].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Indices = NDArray[np.uint32]


class Guards(NamedTuple):
    """The classes of every guard that splits mass, numbered through; the last of a guard is `broken`.

    class_start  int32[G+1]   classes of a guard
    class_mask   uint64[C]    N's positions reached, as bits of the guard; bit 63 is `broken`
    reach        uint64[A,C]  what an event of a symbol reaches when it reads a class
    place_start  int32[G+1]   places guarded by a guard
    place        int32[]      the state (place, class 0); classes follow it
    moves        bool[A]      whether a symbol moves any mass
    """

    class_start: Ints
    class_mask: NDArray[np.uint64]
    reach: NDArray[np.uint64]
    place_start: Ints
    place: Ints
    moves: NDArray[np.bool_]


class SparseRows(NamedTuple):
    """The update of every symbol as rows of a sparse matrix over *entries* (state, number).

        new[dst] = keep · old[dst] + Σ old[op] + Σ old[vop] · value[vcol]

    row_start  int32[A+1]  rows of a symbol, no two with the same dst
    dst, keep              per row
    op, op_start           entries added as they are
    vop, vcol, vop_start   entries added times a value of the event
    spend      uint32[A,S]  per symbol: states its event uses up (*next*)
    drain      uint32[A,D]  the same without states that the event writes anew anyway
    fade       uint32[A,F]  per symbol: states whose mass lasts for one moment only (*contiguous*)

    Extremes (MIN, and MAX as MIN of the negated) have entries of their own:
        new[xdst] = min(old[xdst], old[xsrc]..., value[xcol] where xgate holds mass)
    xdst uint32[A,Y]; xsrc, xgate, xcol uint32[A,Y,Z]; no two rows of a symbol with the same xdst
    xadds bool[A,Y]  where true, new[xdst] = min(old[xdst], old[xsrc] + value[xcol]...), and column 0 adds 0

    The number that grows as time passes has no terms for that: see `fold.pass_time`.

    Where a symbol has fewer than others, it is padded with the void state or entry, which is always empty.
    """

    row_start: Ints
    dst: Indices
    keep: NDArray[np.float64]
    op_start: Ints
    op: Indices
    vop_start: Ints
    vop: Indices
    vcol: Indices
    spend: Indices
    drain: Indices
    fade: Indices
    xdst: Indices
    xsrc: Indices
    xgate: Indices
    xcol: Indices
    xadds: NDArray[np.bool_]


class Grid(NamedTuple):
    """The rows of SparseRows in a rectangular table for the hottest loop: R rows of K terms for every symbol.

    Where durations are added up, terms let time pass for the states that they read: their columns, behind
    those of the event, are how long ago that was done at each open state.

        new[dst] = Σ times · old[src] · value[col]

    `keep` is a term like the others, terms that read the same entry are merged, column 0 of the values is 1,
    and missing terms read the void entry, which is 0. Loops of constant length are never mispredicted, which
    is worth more than the multiplications by zero. Indices are unsigned: a signed one costs a test for
    wraparound.

    dst  uint32[A,R]  src, col  uint32[A,R,K]  times  float64[A,R,K]; R is 0 where a grid would be too large
    plain  how many rows of every symbol, which are the first, read no column but 0
    touch  uint32[A,T]  per symbol the open states where it adds up durations, by number from 1; 0 is none
    """

    dst: Indices
    src: Indices
    col: Indices
    times: NDArray[np.float64]
    plain: int
    touch: Indices


class BindingSteps(NamedTuple):
    """The update of every symbol as steps, for machines that keep some bindings one by one.

    step_start  int32[A+1]   steps of a symbol
    src, src_start           states a step gathers from
    dst, dst_start           states it leaves its mass at
    kept, kept_start         lists it leaves a binding in
    scan, scan_start         lists it gathers from; per scan:
    scan_guard               guard judged by time, or -1
    scan_fixed               whether the list holds ⊥, which is never spent nor forgotten
    pred, pred_start         per scan: the adjacency predicates that must hold
    closing, closing_start   per step: conditions on its bindings at ⊤ and the last moment of the window
    weight      int32[K,W]   per step and number: value column, ONE, or NOTHING
    xweight     int32[K,X]   per step and extreme: value column or NOTHING; added extremes add it
    is_start    bool[S]      states at ⊥; never spent
    fades       bool[S]      states whose mass lasts for one moment only
    """

    step_start: Ints
    src_start: Ints
    src: Ints
    dst_start: Ints
    dst: Ints
    kept_start: Ints
    kept: Ints
    scan_start: Ints
    scan: Ints
    scan_guard: Ints
    scan_fixed: NDArray[np.bool_]
    pred_start: Ints
    pred: Ints
    closing_start: Ints
    closing: Ints
    weight: Ints
    xweight: Ints
    is_start: NDArray[np.bool_]
    fades: NDArray[np.bool_]


ONE, NOTHING = -1, -2
"""Weights that are no column: an event adds its count, or nothing."""


class Negated(NamedTuple):
    """The guards that are judged by time: N's own edges, lowered.

    npos_start   int32[G+1]  N's positions of a guard (numbered through all guards)
    is_first     bool[R]     whether a position begins N
    is_last      bool[R]     whether it ends N
    take, take_start         per symbol: the N positions its events can take
    from_, from_start        per N position: the N positions it may follow
    pred, pred_start         per such edge: adjacency predicates
    """

    npos_start: Ints
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    take_start: Ints
    take: Ints
    from_start: Ints
    from_: Ints
    pred_start: Ints
    pred: Ints


class Pairs(NamedTuple):
    """Conditions on two events as programs over columns (see kernel.pairs).

    compare      int32[P]      a COMPARE opcode where the condition is left <op> right, else 0
    left, right  int32[P]      its columns
    code, code_start           otherwise: (opcode, argument) pairs
    floats       float64[C,n]  columns, NaN is null
    ints         int64[C,n]    columns of integers beside their validity
    valid        bool[C,n]
    constants    float64[], int_constants int64[]
    depth        stack slots needed
    moment       int32[n]      where a condition reads events between two others: their moments
    negated, negated_start     ... and the rows of the events of each NOT it reads
    """

    compare: Ints
    left: Ints
    right: Ints
    code_start: Ints
    code: Ints
    floats: NDArray[np.float64]
    ints: NDArray[np.int64]
    valid: NDArray[np.bool_]
    constants: NDArray[np.float64]
    int_constants: NDArray[np.int64]
    depth: int
    moment: Ints
    negated: Ints
    negated_start: Ints


class Nested(NamedTuple):
    """Access to bindings by two values: trees below one another (see kernel.nested).

    is_nested  bool[A]     per access: whether it is asked so; half of its spans are by the first value
    home       int32[n]    per row: its segment
    begin      int64[S]    per segment: where its counts begin
    many       int32[A,S]  bindings of an access in a segment
    zeros      int32[T,.]  per tree and leaf: how many leaves before it are in a left half
    """

    is_nested: NDArray[np.bool_]
    home: Ints
    begin: NDArray[np.int64]
    many: Ints
    zeros: Ints


class Grown(NamedTuple):
    """Access to bindings in a tree that grows, without ranks (see kernel.growing).

    is_grown   bool[A]        per access
    is_apart   bool[A]        whether each binding is an entry, or equal values share one
    access     int32[T]       per tree: its access
    value      float64[A,n]   per row that is asked: its value; NaN if it never fits
    cut        float64[A,n,2P], is_behind  bool[A,n,2P]  per row that asks: what lies between is asked for
    """

    is_grown: NDArray[np.bool_]
    is_apart: NDArray[np.bool_]
    access: Ints
    value: NDArray[np.float64]
    cut: NDArray[np.float64]
    is_behind: NDArray[np.bool_]


class BindingIndex(NamedTuple):
    """Access to bindings by their values: sum trees over ranks (see kernel.tree).

    An *access* is one way of asking the bindings of a list; it has a tree, or several that are nested.

    way         int32[C]       per scan: its access, or -1 where the bindings are asked one by one
    here        int32[A]       per access: its list
    span        int32[A,n,2P]  per row that asks: P pairs of leaves; what lies strictly between is asked for
    tree_start  int32[A+1]     trees of an access
    leaf        int32[T,n]     per row that is asked: its leaf, or 0 if it never fits
    start       uint64[T · L]  where each level of a tree begins among the nodes
    levels      uint64[T]
    of, of_start               per list: the trees its bindings are in
    nodes, leaves              nodes of all trees, and leaves of the largest
    nested, grown              further records of nested trees, and of trees that grow
    bit_start, bit_levels, words   the same for sets of leaves (see kernel.bits): under *next*, else no levels
    """

    way: Ints
    here: Ints
    span: Ints
    tree_start: Ints
    leaf: Ints
    start: NDArray[np.uint64]
    levels: NDArray[np.uint64]
    of_start: Ints
    of: Ints
    nodes: int
    leaves: int
    nested: Nested
    grown: Grown
    bit_start: NDArray[np.uint64]
    bit_levels: NDArray[np.uint64]
    words: int


LAST_MOMENT = -2
"""In place of a guard at ⊤."""


class BindingLists(NamedTuple):
    """The places kept binding by binding.

    start, end  the lists of ⊥ and of ⊤, or -1
    end_guard   the guard judged by time at ⊤, or -1; LAST_MOMENT if ⊤ is what the last moment has ended
    is_stored   bool[lists]   whether bindings are held longer than a moment
    value       int32[lists]  the comparison whose first value is kept beside a binding, or -1
    is_short    whether moments of one event may take the fast path (see kernel.ordered)
    """

    start: int
    end: int
    end_guard: int
    is_stored: NDArray[np.bool_]
    value: Ints
    is_short: bool


class KeptBindings(NamedTuple):
    """The bindings of all lists, in the order they were made; uninitialised at first.

    row, moment  int32[lists, c]
    spent        int32[lists, c]       the moment at which it was continued (*next*)
    mantissa, exponent  [lists, c, W]; extreme  [lists, c, X]
    value        float64[lists, c]     see BindingLists
    """

    row: Ints
    moment: Ints
    spent: Ints
    mantissa: NDArray[np.float64]
    exponent: Ints
    extreme: NDArray[np.float64]
    value: NDArray[np.float64]


class Paths(NamedTuple):
    """An automaton for walking: trends are built one by one (see kernel.construct).

    take, take_start   per symbol: the positions its events can take
    edge  int32[P,P]   number of the edge from a position to another, or -1
    guard int32[E]     per edge: guard judged by time, or -1
    pred, pred_start   per edge: adjacency predicates
    is_first, is_last  bool[P]
    ends  int32[2]     guards judged by time at ⊥ and at ⊤, or -1
    opening, opening_start   per position: conditions on the first row of the window and a first binding
    closing, closing_start   per position: conditions on a last binding and the last row of the window
    cross_left, cross_right  bool[C,P]  per cross predicate: the positions of its two sides
    cross int32[C]     the condition's number among the pairs
    weight, xweight    int32[P,W], int32[P,X]  as in BindingSteps, per position
    xends  int32[X,2]  per added extreme what the first and the last binding add besides: columns, or NOTHING
    elapsed            the number that is the time from the first binding to the last, or 0
    added              how many extremes, which are the first, are sums along a trend
    """

    take_start: Ints
    take: Ints
    edge: Ints
    guard: Ints
    pred_start: Ints
    pred: Ints
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    ends: Ints
    opening_start: Ints
    opening: Ints
    closing_start: Ints
    closing: Ints
    cross_left: NDArray[np.bool_]
    cross_right: NDArray[np.bool_]
    cross: Ints
    weight: Ints
    xweight: Ints
    xends: Ints
    elapsed: int
    added: int


class Events(NamedTuple):
    """The rows of one query, sorted by segment (partition and group) and time.

    symbol    int32[n]      what the row can take
    moment    int32[n]      numbered through; equal for rows that are not before each other
    values    float64[n,V]  column 0 is 1, then what SUM and its kin add, 0 for null; V is 0 without any
    extremes  float64[n,X]  column 0 is +inf, then what MIN compares, +inf for null, negated for MAX
    is_small  whether values are small enough for arithmetic on mantissas (see kernel.fold)
    clock     float64[n]    times in microseconds, if durations are added up; otherwise empty
    """

    symbol: Ints
    moment: Ints
    values: NDArray[np.float64]
    extremes: NDArray[np.float64]
    is_small: bool
    clock: NDArray[np.float64]


class Frame(NamedTuple):
    """The shape of a machine's state: vectors of `width` numbers and `extremes` extremes.

    start    the state ⊥, class 0, whose count is 1 when a window begins; -1 if ⊥ is kept as a binding
    whole    the states at ⊤ that no NOT has broken
    added    how many extremes, which are the first, are sums along a trend: 0 at ⊥, and they add
    elapsed  the number that grows as time passes, or 0
    passed   the column of values that has the time since the row before, in microseconds
    open     the states whose trends have begun and not ended: there it grows
    """

    states: int
    width: int
    extremes: int
    start: int
    whole: Ints
    added: int
    elapsed: int
    passed: int
    open: Ints


class Folded(NamedTuple):
    """Per window item the aggregates of its whole trends: wide numbers, and extremes."""

    mantissa: NDArray[np.float64]
    exponent: Ints
    extreme: NDArray[np.float64]


class Links(NamedTuple):
    """The symbols whose event alone is a moment of one step at most, and moves no class (see kernel.sliding).

    is_alone            bool[A]   whether the symbol is one of them; the rest is empty where it is not
    src, src_start      states the step gathers from
    dst, dst_start      states it leaves its mass at
    spent, spent_start  states it empties in between
    weight, xweight     int32[A,W], int32[A,X]  as in BindingSteps
    """

    is_alone: NDArray[np.bool_]
    src_start: Ints
    src: Ints
    dst_start: Ints
    dst: Ints
    spent_start: Ints
    spent: Ints
    weight: Ints
    xweight: Ints


class WindowStretches(NamedTuple):
    """Rows cut into stretches at the edges of windows; neither end of a window ever decreases.

    low, high    int64[S]    the rows [low, high) of each stretch
    rank         int64[S+1]  how many stretches before it have a matrix; it has one if the next ranks higher
    first, last  int64[n]    window k is the stretches [first[k], last[k])
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    rank: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


class Stacks(NamedTuple):
    """The two stacks of sliding windows, kept from one call to the next (see kernel.sliding).

    at       int64[3]  the stretch in the middle, the one that the back has reached, the back's place
    front    Folded [most alive, slots · numbers]   ⊥ times the stretches from one up to the middle
    growing  Folded [2, states, slots · numbers]    the product that makes a new front
    back     Folded [2, states, slots · numbers]    the product from the middle on
    total    Folded [slots · numbers]               what an event carries; a slot per state in the middle
    """

    at: NDArray[np.int64]
    front: Folded
    growing: Folded
    back: Folded
    total: Folded
