"""What papers.hamlet.kernel reads and works in: one array of whole numbers each, and where things lie in it.

Many small tables are one array, `table`, since every array that a compiled function is handed costs compile
time. `Layout` says where each begins; a record of c numbers is table[begin + c · k], table[begin + c · k + 1]
and so on.

A is the number of symbols, M of members (queries), L of lanes, F of families (types E whose E+ several
members share), U of the most units of a family. A *unit* is the members of a family whose local predicates on
E are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Layout(NamedTuple):
    """Where tables begin, and how many there are of what.

    An event of symbol a does to every lane of member k, for rows r and xrows y of the step (a, k):

        new[dst] = old[dst] + Σ old[op] + Σ old[vop's entry] · value[vop's column]
        new[dst] = min(old[dst], old[source]..., value[column] where the gate holds mass)

    Machines:
        step       a · M + k   row low, high, xrow low, high, whether it moves mass between classes
        row        r           dst, op low, high, vop low, high; entries are numbered within a lane
        op, vop                an entry; an entry and a column
        xrow, xterm            dst, xterm low, high; source, gate, column (0 if none)
        concerned  a           low, high in `who`: the members that the symbol has steps for
        member     k           width, extremes, start, guard low, high, whole low, high, lane low, high,
                               window low, high
        guard      g           class low, high, place low, high; as kernel.program.Guards
        mask, reach, place     c; a · classes + c; p
        whole                  states at ⊤ that count
        lane       l           where its numbers and its extremes begin; one more than there are lanes
        window     i           rows low, high; neither ever goes back within a member
    Families:
        of         a           the family whose E its events are, or -1
        concern    f · A + a   NOTHING to the sharers, an event of the BURST, or it ENDS the burst; whether
                               only some units can take it; the unit without which it would not be so, or -1
        takes      (f · A + a) · U + u   whether a unit can take it
        family     f           units, event types per query, column low, high, xcolumn low, high
        sharer     f · M + k   unit or -1, whether rows inside a burst do anything to it, source low, high,
                               target low, high in `state`: those of an event at E
        column, xcolumn        columns that numbers and extremes of its sharers are fed from at E
        fed        (f · M + k) · W + w   place among these columns, or -1; xfed the same
    Work:
        first, upto  k         windows that are open: from the first up to, not including
        wide       l           whether some number of a lane has an exponent
        many, seen, meaning    a   of a burst: events of an uneven symbol; those symbols; NONE, ALL or SOME
        open       f · U + u   windows that the members of a unit are in
        chosen, alone  u       whether it shares the burst; snapshots that are needed for it alone
        before     f           whether the burst before was shared; -1 if there was none
        sharing    q           of all that share the graphlet: lane, member, whether values have exponents
        tally                  what happened
    """

    symbols: int
    members: int
    lanes: int
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

    value_m, value_e  [L, W, S]    value_x  [L, X, S]
    c       [1 + columns, S]       row 0 are counts, then σ per column
    mu      [xcolumns, S]
    given   [columns + xcolumns]   what the events of a moment add up to, column by column
    """

    value_m: NDArray[np.float64]
    value_e: NDArray[np.int32]
    value_x: NDArray[np.float64]
    c: NDArray[np.float64]
    mu: NDArray[np.float64]
    given: NDArray[np.float64]


NOTHING, BURST, ENDS = 0, 1, 2
"""What an event is to those who share a type."""

STEP, ROW, VOP, XROW, XTERM, MEMBER, GUARD, CONCERN, FAMILY, SHARER, SHARING = (
    5,
    5,
    2,
    3,
    3,
    11,
    4,
    3,
    6,
    6,
    3,
)
"""Numbers of a record."""
