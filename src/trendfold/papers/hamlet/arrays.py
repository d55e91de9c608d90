"""What papers.hamlet.kernel reads and works in: one array of whole numbers each, and where things lie in it.

Many small tables are one array, `table` (`t` in the kernels), because every array that a compiled function is
handed costs compile time. `Layout` (`at`) says where each table begins. A record is a few numbers in a row;
`read_member` and the other functions below return it by name. `n` is the work array, with places of its own.

A is the number of symbols, M of members (queries), L of lanes, F of families (types E whose E+ several
members share), U of the most units of a family. A *unit* is the members of a family whose local predicates on
E are the same. A *loop* is a position at which a member of a family has E+. A *lane* is a member in one of
its windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined


class Layout(NamedTuple):
    """The offset of every table, and the number of its records.

    An event of symbol a does to every lane of member k, for rows r and xrows y of the step (a, k):

        new[dst] = old[dst] + Σ old[op] + Σ old[vop's entry] · value[vop's column]
        new[dst] = min(old[dst], old[source]..., value[column] where the gate holds mass)

    Machines, each table with the index of its records:
        step       a · M + k   StepRecord
        row        r           RowRecord; entries are numbered within a lane
        op, vop                an entry; VopRecord
        xrow, xterm            XRowRecord, XTermRecord
        concerned  a           low, high in `who`: the members that the symbol has steps for
        member     k           MemberRecord
        guard      g           GuardRecord
        mask, reach, place     c; a · classes + c; p; as kernel.program.Guards
        whole                  states at ⊤ that count
        lane       l           where its numbers and its extremes begin; one more than there are lanes
        window     i           rows low, high; neither ever decreases within a member
    Families:
        of         a           the family whose E its events are, or -1
        concern    f · A + a   ConcernRecord
        takes      (f · A + a) · U + u   whether a unit can take it
        family     f           FamilyRecord
        sharer     f · M + k   SharerRecord
        loop       j           LoopRecord
        column, xcolumn        columns that numbers and extremes of its sharers are fed from at E
        fed        j · W + w   place among these columns, or -1; xfed the same
    Work:
        first, upto  k         open windows: from the first up to, not including
        wide       l           whether some number of a lane has an exponent
        many, seen, meaning    a   of a burst: events of an uneven symbol; those symbols; NONE, ALL or SOME
        open       f · U + u   windows that the members of a unit are in
        chosen, alone  u       whether it shares the burst; snapshots that are needed for it alone
        before     f           whether the burst before was shared; -1 if there was none
        sharing    q           SharingRecord, for every lane and loop that share the graphlet
        tally                  counters of what happened
    """

    symbols: int
    members: int
    lanes: int
    sharings: int
    families: int
    units: int
    width: int
    extremes: int
    classes: int
    columns: int
    xcolumns: int
    rows: int
    xrows: int
    step: int
    row: int
    op: int
    vop: int
    xrow: int
    xterm: int
    concerned: int
    who: int
    member: int
    guard: int
    mask: int
    reach: int
    place: int
    whole: int
    lane: int
    window: int
    of: int
    concern: int
    takes: int
    family: int
    sharer: int
    loop: int
    state: int
    column: int
    xcolumn: int
    fed: int
    xfed: int
    first: int
    upto: int
    wide: int
    many: int
    seen: int
    meaning: int
    open: int
    chosen: int
    alone: int
    before: int
    sharing: int
    tally: int
    work: int


class LaneNumbers(NamedTuple):
    """The numbers of all lanes, and their extremes: mantissas, exponents, least values."""

    m: NDArray[np.float64]
    e: NDArray[np.int32]
    x: NDArray[np.float64]


class Graphlet(NamedTuple):
    """Values of snapshots per lane, and running coefficients.

    value_m, value_e  [sharings, W, S]    value_x  [sharings, X, S]
    c       [1 + columns, S]       row 0 are counts, then σ per column
    mu      [xcolumns, S]
    given   [columns + xcolumns]   the sums and least values of a moment's events, column by column
    """

    value_m: NDArray[np.float64]
    value_e: NDArray[np.int32]
    value_x: NDArray[np.float64]
    c: NDArray[np.float64]
    mu: NDArray[np.float64]
    given: NDArray[np.float64]


NOTHING, BURST, ENDS = 0, 1, 2
"""What an event is to the members that share a type: nothing, an event of the burst, or its end."""


class StepRecord(NamedTuple):
    """What an event of a symbol does to a lane of a member: rows, rows of extremes, and whether mass
    moves between classes.
    """

    row_low: int
    row_high: int
    xrow_low: int
    xrow_high: int
    moves: int


class RowRecord(NamedTuple):
    """The entry that a row writes, and the terms `op` and `vop` that it adds."""

    dst: int
    op_low: int
    op_high: int
    vop_low: int
    vop_high: int


class VopRecord(NamedTuple):
    """An entry that is added times a column of the event."""

    entry: int
    column: int


class XRowRecord(NamedTuple):
    """The extreme that a row writes, and its terms."""

    dst: int
    low: int
    high: int


class XTermRecord(NamedTuple):
    """The extreme that is compared; if the entry `gate` holds mass, so is a column (0: none)."""

    source: int
    gate: int
    column: int


class MemberRecord(NamedTuple):
    """A query: numbers and extremes of a state, its state ⊥, and its guards, whole states, lanes and
    windows.
    """

    width: int
    extremes: int
    start: int
    guard_low: int
    guard_high: int
    whole_low: int
    whole_high: int
    lane_low: int
    lane_high: int
    window_low: int
    window_high: int


class GuardRecord(NamedTuple):
    """A NOT: its classes and its places."""

    class_low: int
    class_high: int
    place_low: int
    place_high: int


class ConcernRecord(NamedTuple):
    """What a symbol is to a family: NOTHING, BURST or ENDS; whether only some units can take it; the
    unit without which all or none could, or -1.
    """

    means: int
    is_uneven: int
    sole: int


class FamilyRecord(NamedTuple):
    """Units, the most event types of a query, and the columns that events of E feed."""

    units: int
    types: int
    column_low: int
    column_high: int
    xcolumn_low: int
    xcolumn_high: int


class SharerRecord(NamedTuple):
    """A member in a family: its unit or -1, whether rows inside a burst do anything to it, and its loops."""

    unit: int
    is_touched: int
    loop_low: int
    loop_high: int


class LoopRecord(NamedTuple):
    """A position with E+: the sources and targets, in `state`, of an event of E there."""

    source_low: int
    source_high: int
    target_low: int
    target_high: int


class LaneRecord(NamedTuple):
    """Where the numbers and the extremes of a lane begin, and where those of the next do."""

    base: int
    xbase: int
    end: int
    xend: int


class SharingRecord(NamedTuple):
    """A lane that shares the graphlet, its member, a loop, and whether any of its values has an exponent."""

    lane: int
    member: int
    loop: int
    is_far: int


_RECORDS = (
    StepRecord,
    RowRecord,
    VopRecord,
    XRowRecord,
    XTermRecord,
    MemberRecord,
    GuardRecord,
    ConcernRecord,
    FamilyRecord,
    SharerRecord,
    LoopRecord,
    SharingRecord,
)
STEP, ROW, VOP, XROW, XTERM, MEMBER, GUARD, CONCERN, FAMILY, SHARER, LOOP, SHARING = (
    len(record._fields) for record in _RECORDS
)
"""Numbers of a record."""


@inlined
def read_step(t, at, a, k):
    """Step of symbol a for member k."""
    o = at.step + STEP * (a * at.members + k)
    return StepRecord(t[o], t[o + 1], t[o + 2], t[o + 3], t[o + 4])


@inlined
def read_row(t, at, r):
    """Row r."""
    o = at.row + ROW * r
    return RowRecord(t[o], t[o + 1], t[o + 2], t[o + 3], t[o + 4])


@inlined
def read_vop(t, at, o):
    """Term o."""
    v = at.vop + VOP * o
    return VopRecord(t[v], t[v + 1])


@inlined
def read_xrow(t, at, r):
    """Row r of extremes."""
    o = at.xrow + XROW * r
    return XRowRecord(t[o], t[o + 1], t[o + 2])


@inlined
def read_xterm(t, at, o):
    """Term o of extremes."""
    v = at.xterm + XTERM * o
    return XTermRecord(t[v], t[v + 1], t[v + 2])


@inlined
def read_member(t, at, k):
    """Member k."""
    o = at.member + MEMBER * k
    return MemberRecord(
        t[o],
        t[o + 1],
        t[o + 2],
        t[o + 3],
        t[o + 4],
        t[o + 5],
        t[o + 6],
        t[o + 7],
        t[o + 8],
        t[o + 9],
        t[o + 10],
    )


@inlined
def read_guard(t, at, g):
    """Guard g."""
    o = at.guard + GUARD * g
    return GuardRecord(t[o], t[o + 1], t[o + 2], t[o + 3])


@inlined
def read_concern(t, at, f, a):
    """What symbol a is to family f."""
    o = at.concern + CONCERN * (f * at.symbols + a)
    return ConcernRecord(t[o], t[o + 1], t[o + 2])


@inlined
def read_family(t, at, f):
    """Family f."""
    o = at.family + FAMILY * f
    return FamilyRecord(t[o], t[o + 1], t[o + 2], t[o + 3], t[o + 4], t[o + 5])


@inlined
def read_sharer(t, at, f, k):
    """Member k in family f."""
    o = at.sharer + SHARER * (f * at.members + k)
    return SharerRecord(t[o], t[o + 1], t[o + 2], t[o + 3])


@inlined
def read_loop(t, at, j):
    """Loop j."""
    o = at.loop + LOOP * j
    return LoopRecord(t[o], t[o + 1], t[o + 2], t[o + 3])


@inlined
def read_lane(t, at, lane):
    """Where the numbers of a lane lie."""
    o = at.lane + 2 * lane
    return LaneRecord(t[o], t[o + 1], t[o + 2], t[o + 3])


@inlined
def read_sharing(n, at, q):
    """The q-th lane that shares the graphlet."""
    o = at.sharing + SHARING * q
    return SharingRecord(n[o], n[o + 1], n[o + 2], n[o + 3])


@inlined
def mark_far(n, at, q, is_far):
    """Note whether a value of the q-th lane that shares the graphlet has an exponent."""
    n[at.sharing + SHARING * q + 3] |= is_far
