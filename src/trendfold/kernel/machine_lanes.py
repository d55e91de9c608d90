"""Any linear machine for many queries at once: a lane is a query in one of its open windows.

Queries of one shape and overlap are a *block*. Each state of the shape and each number that rides on it (its
count, sums) is a *row* with one cell per lane:

    m[row_at + slot · stride + query]

where a slot is an open window, or a state from which a stretch of events is folded. So an event is a few
operations on rows of contiguous memory, whichever queries it is for, and closing a window for all queries
copies contiguous cells:

    d <- a·d + b·v·s,    s <- c·s        for the lanes of a mask; v is 1 or a value of the event

ADD has (a, b, c) = 1, 1, 1; an event that may follow itself 2, 1, 1; one that spends its source (*next*), or
moves mass between the classes of a NOT, 1, 1, 0; forgetting (*contiguous*) 0, 0, 1; a copy 0, 1, 1. Extremes
have rows and operations of their own, with min for the sum. What semantics, NOT and ties mean is a matter of
lowering (lower_machine_lanes); the loop here knows none of them. Events come as *steps*: numbers of lists of
operations, and for their values the row of the event. A step may stand for a burst of n equal events: then
a and b depend on n (lane_bursts), and v is the sum of their values.

Numbers are wide (kernel.wide): a mantissa and an exponent per cell. `bound[row]` is no smaller than any
mantissa of the row, and changes with every operation on it; while bounds are below HEADROOM and no cell of
either row has an exponent, only mantissas are computed. A cell that holds 0 has exponent 0, or it would hide
what is added to it.

A value beyond 2^200 or below 2^-200 in size is multiplied lane by lane (`_change_lane_by_lane`). Limit: no
place keeps its bindings one by one.

Source: the recurrences of COGRA (SIGMOD 2019) over positions, as a sparse matrix per kind of event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.lane_bursts import LONGEST
from trendfold.kernel.lane_steps import (
    NOTHING,
    copy_cells,
    dropping_step,
    fill_cells,
    least_step,
    linear_step,
    spending_step,
    wide_gain_step,
    wide_step,
)
from trendfold.kernel.vectors import WIDTH as VECTOR
from trendfold.kernel.wide import RADIX, add, normalise, wide_sum, wide_times

HEADROOM = 2.0**600
"""Mantissas are brought below RADIX before they may pass this; times a value they stay below 2^800."""

SMALLEST, LARGEST = 2.0**-200, 2.0**200
"""Values of such sizes times mantissas stay in the range of doubles, whatever exponents meet."""

_WAYS = 2.0 ** np.arange(LONGEST + 1)
"""2^n."""

_SKIPPED = 7
"""An operation of so many vectors is skipped if its source is zero and its target would not change."""

TO, OF, VECTORS, MASK, APACE, TO_ROW, OF_ROW, COLUMN = map(np.uint64, range(8))
"""Columns of `MachineProgram.place`."""
KEEP, GAIN, LEFT, KEEP_BOUND, GAIN_BOUND, LEFT_BOUND, KEEP_OTHERS, LEFT_OTHERS = map(np.uint64, range(8))
"""Columns of `MachineProgram.change`."""
KEEP_TWOS, KEEP_EACH, GAIN_TWOS, GAIN_EACH = map(np.uint64, range(4))
KEEP_BOUND_TWOS, KEEP_BOUND_EACH, GAIN_BOUND_TWOS, GAIN_BOUND_EACH = map(np.uint64, range(4, 8))
"""Columns of `MachineProgram.growth`: what 2^n and n are multiplied by."""
XTO, XOF, XVECTORS, XMASK, XAPACE, XGATE, XCOLUMN, XFLAGS = range(8)
"""Columns of `MachineProgram.xplace`. XFLAGS is 1 if the target keeps its own, plus 2 if the source is
emptied, plus 4 and 8 if lanes that take no part lose their target and their source, plus 16 if the value is
added to the source."""
AT, XAT, LANES_OF, STRIDE, PLANE, HELD, WIDTH, EXTREMES, FIRST_ROW, STATES, ADDED = range(11)
"""Columns of `MachineProgram.block`."""
PART_BLOCK, PART_LANE, PART_LANES, PART_START = range(4)
PART_OUT, PART_XOUT, PART_GIVEN, PART_XGIVEN, PART_SAVED, PART_XSAVED = range(4, 10)
"""Columns of `LaneCuts.part`."""


class MachineProgram(NamedTuple):
    """Machines of several queries, lowered.

    op_start  int32[T+1]    the operations of each list of operations
    place     int32[K,8]    per operation and run of lanes: the first cells written and read, vectors of eight
                            lanes, first weight and whether weights go on (8) or repeat (0), the rows written
                            and read, and the column of the event's value (0 is 1)
    change    float64[K,8]  a, b, c; what the run does to the bounds of the two rows, nothing unless it is the
                            operation's last; and a0, c0: what becomes of the lanes that take no part
    growth    float64[K,8]  what a, b and their bounds grow by with the events of a burst; empty without
    burst     int32[kinds]  the list of a burst of each kind of row; -1 if its events are applied one by one
    x_start, xplace         the same for extremes: int32[T+1], int32[X,8]; they come before the others of a
                            list, because they read counts
    weight    float64[]     1 or 0 per lane; the first eight are 1
    shift     int32[K,2]    for an operation on the lanes of the event's value of GROUP BY T.g, how many cells
                            apart values are in the rows written and read; empty without such values
    row_at    int64[R]      where each row begins
    row_lanes int64[R]      how many cells it has
    block     int64[B,11]   where a block's cells and extremes begin, its lanes, lanes per slot, rows per
                            number, how many of those may hold mass between moments, numbers, extremes, first
                            row, how many states there are: the first rows of a number; and how many extremes,
                            which are the first, are sums along a trend
    whole_start, whole      per block the rows (of a number) that hold whole trends
    spends    whether any operation writes its source
    drops     whether any changes lanes that take no part in it
    cells, xcells           of all blocks
    """

    op_start: np.ndarray
    place: np.ndarray
    change: np.ndarray
    growth: np.ndarray
    burst: np.ndarray
    x_start: np.ndarray
    xplace: np.ndarray
    weight: np.ndarray
    shift: np.ndarray
    row_at: np.ndarray
    row_lanes: np.ndarray
    block: np.ndarray
    whole_start: np.ndarray
    whole: np.ndarray
    spends: bool
    drops: bool
    cells: int
    xcells: int


class LaneSteps(NamedTuple):
    """The input of a fold: one step per event, and one more for each moment of several events.

    list      int32[n]      the list of operations
    row       int32[n]      the event whose values they take; empty where they are the same numbers
    times     int32[n]      how many events it is; empty where that is always 1
    values    float64[.,V]  as in Events: column 0 is 1
    extremes  float64[.,X]
    value     int32[.]      the event's value of GROUP BY T.g, by number; like `values`; empty without
    is_usual  whether all values are 0, or between SMALLEST and LARGEST in size
    """

    list: np.ndarray
    row: np.ndarray
    times: np.ndarray
    values: np.ndarray
    extremes: np.ndarray
    value: np.ndarray
    is_usual: bool


class LaneCuts(NamedTuple):
    """Where windows close and open, in the order of steps; closing comes first.

    step, is_open, which, slot, item   per cut: before which step, which kind of window, its slot, its number
    vector            per cut: which of the given vectors a window opens with, or as which of the saved ones
                      it is saved when it closes; -1 for none; empty where no window has one
    part_start, part  int64[P,10], per kind of window: block, first query and number of queries; the state
                      that holds 1 in a window that opens without a vector, or -1; where results begin, those
                      of extremes, and in the same way the vectors that are given and saved

    A result is [item, number, query], -1 where none is wanted; a vector is [state, number, query]. Exponents
    of results are written once any result needs them (`LaneMass.has_results`).
    """

    step: np.ndarray
    is_open: np.ndarray
    which: np.ndarray
    slot: np.ndarray
    item: np.ndarray
    vector: np.ndarray
    part_start: np.ndarray
    part: np.ndarray


class LaneMass(NamedTuple):
    """The state of a fold: mantissas, exponents, extremes by cell; bounds by row; open windows by
    block, and in all.

    has_wide  bool[1]  whether any row may have exponents; has_results: whether results have them
    """

    m: np.ndarray
    e: np.ndarray
    x: np.ndarray
    bound: np.ndarray
    is_wide: np.ndarray
    open: np.ndarray
    has_wide: np.ndarray
    has_results: np.ndarray


class LaneVectors(NamedTuple):
    """The numbers of windows, of whole trends or of all states: flat, see LaneCuts. A zero has exponent 0."""

    mantissa: np.ndarray
    exponent: np.ndarray
    extreme: np.ndarray


def no_vectors(numbers: int = 0, extremes: int = 0) -> LaneVectors:
    """Room for vectors of so many numbers and extremes in all."""
    return LaneVectors(np.zeros(numbers), np.zeros(numbers, np.int32), np.full(extremes, np.inf))


def no_mass(program: MachineProgram) -> LaneMass:
    """The state before the first event."""
    rows = len(program.row_at)
    return LaneMass(
        m=aligned(np.zeros(program.cells)),
        e=aligned(np.zeros(program.cells, np.int32)),
        x=aligned(np.full(program.xcells, np.inf)),
        bound=np.zeros(rows),
        is_wide=np.zeros(rows, np.bool_),
        open=np.zeros(len(program.block) + 1, np.int64),
        has_wide=np.zeros(1, np.bool_),
        has_results=np.zeros(1, np.bool_),
    )


def aligned(array: np.ndarray) -> np.ndarray:
    """The same values where vectors of eight doubles, or records of as many bytes, cross no cache line."""
    room = np.empty(array.nbytes + _LINE, np.uint8)
    first = -room.ctypes.data % _LINE
    found = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


_LINE = 64


def state_bytes(program: MachineProgram) -> int:
    """Bytes of `no_mass`, without a few numbers per row."""
    return 12 * program.cells + 8 * program.xcells


@kernel
def fold_in_lanes(steps, cuts, program, mass, given, saved, out):
    """Fold all steps for all lanes; the whole trends of a window that closes go to its place in `out`.

    given, saved  the vectors that windows open with, and those of windows to be continued later

    The code per window is inlined: passing so many arrays to a function takes longer than most windows.
    Only loading and saving vectors, which takes longer, is left to functions: they compile sooner.
    """
    steps, cuts, program, mass, out = lent(steps), lent(cuts), lent(program), lent(mass), lent(out)
    given, saved = lent(given), lent(saved)
    flat = program.place, program.change, program.growth, program.shift
    records = flat[0].reshape(-1), flat[1].reshape(-1), flat[2].reshape(-1), flat[3].reshape(-1)
    values = steps.values.reshape(-1)
    end, last = steps.list.shape[0], cuts.step.shape[0]
    i = cut = 0
    while i < end or cut < last:
        cut = _cut_windows(i, cut, cuts, program, mass, given, saved, out)
        stop = cuts.step[cut] if cut < last else end
        if mass.open[-1] > 0:
            _fold_steps(i, stop, steps, values, program, records, mass)
        i = stop


@inlined
def _fold_steps(i, stop, steps, values, program, records, mass):
    """The steps [i, stop), between which no window closes or opens.

    Coefficients are computed in this loop: by an inlined function, averages take 22 % longer.
    """
    lists, op_start = steps.list, program.op_start
    place, change, growth, shift = records
    x_start, xplace, extremes, x = program.x_start, program.xplace, steps.extremes, mass.x
    m, e, bound, is_wide, weight = mass.m, mass.e, mass.bound, mass.is_wide, program.weight
    columns = steps.values.shape[1]
    has_rows, has_extremes = steps.row.shape[0] > 0, program.xplace.shape[0] > 0
    drops, spends, is_usual = program.drops, program.spends, steps.is_usual
    times, has_bursts = steps.times, steps.times.shape[0] > 0
    events, ways = 1.0, 2.0
    has_values, own = steps.value.shape[0] > 0, 0
    has_wide = mass.has_wide[0]
    for k in range(i, stop):
        t = np.uint64(lists[np.uint64(k)])
        row = steps.row[k] if has_rows else k
        if has_bursts:
            events, ways = float(times[np.uint64(k)]), _WAYS[np.uint64(times[np.uint64(k)])]
        if has_values:
            own = steps.value[row]
        if has_extremes:
            last = x_start[t + np.uint64(1)]
            _lower_extremes(x_start[t], last, extremes[row], xplace, m, x, weight)
        for o in range(8 * np.uint64(op_start[t]), 8 * np.uint64(op_start[t + np.uint64(1)]), 8):
            p = np.uint64(o)
            to, of = np.uint64(place[p + TO_ROW]), np.uint64(place[p + OF_ROW])
            d, s = place[p + TO], place[p + OF]
            if has_values:
                d += own * shift[p >> np.uint64(2)]
                s += own * shift[(p >> np.uint64(2)) + np.uint64(1)]
            keep, keep_bound = change[p + KEEP], change[p + KEEP_BOUND]
            gain, gain_bound = change[p + GAIN], change[p + GAIN_BOUND]
            if has_bursts:
                keep += growth[p + KEEP_TWOS] * ways + growth[p + KEEP_EACH] * events
                gain += growth[p + GAIN_TWOS] * ways + growth[p + GAIN_EACH] * events
                keep_bound += growth[p + KEEP_BOUND_TWOS] * ways + growth[p + KEEP_BOUND_EACH] * events
                gain_bound += growth[p + GAIN_BOUND_TWOS] * ways + growth[p + GAIN_BOUND_EACH] * events
            if columns:
                value = values[row * columns + place[p + COLUMN]]
                if not is_usual and value != 0.0 and not SMALLEST <= abs(value) <= LARGEST:
                    _change_lane_by_lane(p, d, s, value, program, mass)
                    has_wide = mass.has_wide[0]
                    continue
                gain *= value
                gain_bound *= abs(value)
            if (
                place[p + VECTORS] >= _SKIPPED  # fewer are done sooner than judged
                and bound[of] == 0.0
                and (bound[to] == 0.0 or keep * change[p + KEEP_OTHERS] == 1.0)
            ):
                continue
            top = keep_bound * bound[to] + gain_bound * bound[of]
            if has_wide and (is_wide[to] or is_wide[of]):
                _change_wide(p, d, s, keep, gain, drops or spends, place, change, m, e, weight)
                is_wide[to] = (is_wide[to] and keep_bound > 0.0) or is_wide[of]
                is_wide[of] = is_wide[of] and change[p + LEFT_BOUND] > 0.0
            else:
                _change(p, d, s, keep, gain, drops, spends, place, change, m, weight)
            bound[of] *= change[p + LEFT_BOUND]
            bound[to] = top
            if top >= HEADROOM:
                _bring_back(np.int64(to), program, mass)
                has_wide = mass.has_wide[0]


@inlined
def _change(p, to, of, keep, gain, drops, spends, place, change, m, weight):
    """Carry out an operation on mantissas, by the step that writes no more than the program needs."""
    vectors = place[p + VECTORS]
    left, mask, apace = change[p + LEFT], place[p + MASK], place[p + APACE]
    if drops:
        keep_others, left_others = change[p + KEEP_OTHERS], change[p + LEFT_OTHERS]
        dropping_step(m, to, of, vectors, keep, gain, left, keep_others, left_others, weight, mask, apace)
    elif spends:
        spending_step(m, to, of, vectors, keep, gain, left, weight, mask, apace)
    else:
        linear_step(m, to, of, vectors, keep, gain, left, weight, mask, apace)


@inlined
def _change_wide(p, to, of, keep, gain, writes_source, place, change, m, e, weight):
    """The same for a row that has exponents."""
    vectors = place[p + VECTORS]
    left, mask, apace = change[p + LEFT], place[p + MASK], place[p + APACE]
    if writes_source:
        keep_others, left_others = change[p + KEEP_OTHERS], change[p + LEFT_OTHERS]
        wide_step(m, e, to, of, vectors, keep, gain, left, keep_others, left_others, weight, mask, apace)
    else:
        wide_gain_step(m, e, to, of, vectors, keep, gain, weight, mask, apace)


@kernel
def _change_lane_by_lane(p, to, of, value, program, mass):
    """One operation with a value whose products may leave the range of doubles, lane by lane."""
    place, change, m, e = program.place.reshape(-1), program.change.reshape(-1), mass.m, mass.e
    for k in range(VECTOR * place[p + VECTORS]):
        d, s = to + k, of + k
        weight = program.weight[place[p + MASK] + (k if place[p + APACE] else k % VECTOR)]
        keep, left = change[p + KEEP_OTHERS], change[p + LEFT_OTHERS]
        gained, gained_e = 0.0, np.int32(0)
        if weight != 0.0:
            keep, left = change[p + KEEP], change[p + LEFT]
            gained, gained_e = wide_times(m[s], e[s], value)
            gained, gained_e = wide_times(gained, np.int32(gained_e), change[p + GAIN])
        kept, kept_e = normalise(keep * m[d], e[d] if keep != 0.0 else 0)
        m[d], e[d] = wide_sum(kept, kept_e, gained, gained_e)
        m[s], e[s] = left * m[s], e[s] if left != 0.0 else 0
    for row in (place[p + TO_ROW], place[p + OF_ROW]):
        _bring_back(np.int64(row), program, mass)


@kernel
def _bring_back(row, program, mass):
    """Bring the mantissas of a row below RADIX, and its bound to the largest of them."""
    m, e, at = mass.m, mass.e, program.row_at[row]
    most, raised = 0.0, False
    for cell in range(at, at + program.row_lanes[row]):
        m[cell], e[cell] = normalise(m[cell], e[cell])
        most = max(most, abs(m[cell]))
        raised |= e[cell] != 0
    mass.bound[row], mass.is_wide[row] = most, raised
    mass.has_wide[0] |= raised


@inlined
def _lower_extremes(first, last, values, place, m, x, weight):
    """The operations [first, last) on extremes; `values` are those that the event has for them."""
    for o in range(first, last):
        least_step(
            x, place[o, XTO], place[o, XOF], m, place[o, XGATE], place[o, XVECTORS],
            values[place[o, XCOLUMN]], place[o, XFLAGS], weight, place[o, XMASK], place[o, XAPACE],
        )  # fmt: skip


# ---- Windows ------------------------------------------------------------------------------------------


@inlined
def _cut_windows(i, cut, cuts, program, mass, given, saved, out):
    """Close and open the windows that do so before step i; the first cut after them."""
    blocks, whole_start, whole = program.block, program.whole_start, program.whole
    m, x, bound, is_wide, is_open = mass.m, mass.x, mass.bound, mass.is_wide, mass.open
    has_vectors = cuts.vector.shape[0] > 0
    while cut < cuts.step.shape[0] and cuts.step[np.uint64(cut)] <= i:
        at = np.uint64(cut)  # an unsigned index cannot be negative
        slot, item, which = cuts.slot[at], cuts.item[at], np.uint64(cuts.which[at])
        vector = cuts.vector[at] if has_vectors else -1
        for p in range(np.uint64(cuts.part_start[which]), np.uint64(cuts.part_start[which + np.uint64(1)])):
            b, count = np.uint64(cuts.part[p, PART_BLOCK]), cuts.part[p, PART_LANES]
            lane = slot * blocks[b, STRIDE] + cuts.part[p, PART_LANE]
            if cuts.is_open[at]:
                if vector < 0:
                    _open(b, lane, count, cuts.part[p, PART_START], blocks, m, x, bound)
                else:
                    _load(vector, lane, cuts.part[p], blocks[b], mass, given)
                is_open[b] += 1
                is_open[-1] += 1
                continue
            if vector >= 0:
                _save(vector, lane, cuts.part[p], blocks[b], mass, saved)
            has_result = cuts.part[p, PART_OUT] >= 0
            states = whole[whole_start[b] : whole_start[b + 1] if has_result else whole_start[b]]
            _close(b, lane, count, item, cuts.part[p, PART_OUT], blocks, states, mass, out)
            if blocks[b, EXTREMES]:
                _close_extremes(b, lane, count, item, cuts.part[p, PART_XOUT], blocks, states, x, out.extreme)
            is_open[b] -= 1
            is_open[-1] -= 1
            if is_open[b] == 0:
                _forget_bounds(b, blocks, bound, is_wide)
        cut += 1
    return cut


@inlined
def _open(b, lane, count, state, blocks, m, x, bound):
    """Open a window: one state holds 1, with nothing added yet."""
    if state < 0:
        return
    fill_cells(m, blocks[b, AT] + state * blocks[b, LANES_OF] + lane, count, 1.0)
    for y in range(blocks[b, ADDED]):
        row = y * blocks[b, PLANE] + state
        fill_cells(x, blocks[b, XAT] + row * blocks[b, LANES_OF] + lane, count, 0.0)
    row = blocks[b, FIRST_ROW] + state
    bound[row] = max(bound[row], 1.0)


@kernel
def _load(vector, lane, part, block, mass, given):
    """Continue a window: load the numbers of its states into its lanes, which are empty."""
    count, width, extremes = part[PART_LANES], block[WIDTH], block[EXTREMES]
    of, xof = vector * block[STATES] * width * count, vector * block[STATES] * extremes * count
    of, xof = part[PART_GIVEN] + of, part[PART_XGIVEN] + xof
    for state in range(block[STATES]):
        for w in range(width):
            row = block[FIRST_ROW] + w * block[PLANE] + state
            cell = block[AT] + (w * block[PLANE] + state) * block[LANES_OF] + lane
            most = mass.bound[row]
            for k in range(count):
                mass.m[cell + k] = given.mantissa[of + k]
                most = max(most, abs(given.mantissa[of + k]))
                if given.exponent[of + k] != 0:
                    mass.e[cell + k] = given.exponent[of + k]
                    mass.is_wide[row] = mass.has_wide[0] = True
            mass.bound[row] = most
            of += count
        for y in range(extremes):
            cell = block[XAT] + (y * block[PLANE] + state) * block[LANES_OF] + lane
            for k in range(count):
                mass.x[cell + k] = given.extreme[xof + k]
            xof += count


@kernel
def _save(vector, lane, part, block, mass, saved):
    """Save the numbers of all states of a window."""
    count, width, extremes = part[PART_LANES], block[WIDTH], block[EXTREMES]
    to, xto = vector * block[STATES] * width * count, vector * block[STATES] * extremes * count
    to, xto = part[PART_SAVED] + to, part[PART_XSAVED] + xto
    for state in range(block[STATES]):
        for w in range(width):
            row = block[FIRST_ROW] + w * block[PLANE] + state
            cell = block[AT] + (w * block[PLANE] + state) * block[LANES_OF] + lane
            if mass.bound[row] < RADIX and not mass.is_wide[row]:
                for k in range(count):
                    saved.mantissa[to + k] = mass.m[cell + k]
            else:
                for k in range(count):
                    saved.mantissa[to + k], saved.exponent[to + k] = normalise(
                        mass.m[cell + k], mass.e[cell + k]
                    )
            to += count
        for y in range(extremes):
            cell = block[XAT] + (y * block[PLANE] + state) * block[LANES_OF] + lane
            for k in range(count):
                saved.extreme[xto + k] = mass.x[cell + k]
            xto += count


@inlined
def _close(b, lane, count, item, to, blocks, states, mass, out):
    """Close a window: write its whole trends, and empty its lanes."""
    m, e, bound, is_wide = mass.m, mass.e, mass.bound, mass.is_wide
    at, lanes, plane, width = blocks[b, AT] + lane, blocks[b, LANES_OF], blocks[b, PLANE], blocks[b, WIDTH]
    for w in range(width):
        to_number = to + (item * width + w) * count
        is_small = True
        for state in states:
            row = blocks[b, FIRST_ROW] + w * plane + state
            is_small &= bound[row] < RADIX and not is_wide[row]
        if not is_small and not mass.has_results[0]:
            out.exponent[:] = 0
            mass.has_results[0] = True
        for which in range(states.shape[0]):
            cell = at + (w * plane + states[which]) * lanes
            if is_small and which == 0:
                copy_cells(out.mantissa, to_number, m, cell, count)
            elif is_small:
                for k in range(count):
                    out.mantissa[to_number + k] += m[cell + k]
            else:
                _add_wide(m, e, cell, out, to_number, count, which == 0)
        for row in range(w * plane, w * plane + blocks[b, HELD]):
            if bound[blocks[b, FIRST_ROW] + row] > 0.0:  # otherwise all its lanes are empty
                fill_cells(m, at + row * lanes, count, 0.0)
            if is_wide[blocks[b, FIRST_ROW] + row]:
                fill_cells(e, at + row * lanes, count, 0)


@kernel
def _add_wide(m, e, cell, out, to, count, is_first):
    """Add wide numbers to results, which are empty before the first."""
    for k in range(count):
        mantissa, exponent = normalise(m[cell + k], e[cell + k])
        if not is_first:
            mantissa, exponent = add(out.mantissa[to + k], out.exponent[to + k], mantissa, exponent)
        out.mantissa[to + k], out.exponent[to + k] = mantissa, exponent


@kernel
def _close_extremes(b, lane, count, item, to, blocks, states, x, out):
    """The extremes of a window that ends."""
    at, lanes, plane, extremes = (
        blocks[b, XAT] + lane,
        blocks[b, LANES_OF],
        blocks[b, PLANE],
        blocks[b, EXTREMES],
    )
    for y in range(extremes):
        to_extreme = to + (item * extremes + y) * count
        for which in range(states.shape[0]):
            cell = at + (y * plane + states[which]) * lanes
            for k in range(count):
                before = out[to_extreme + k] if which else NOTHING
                out[to_extreme + k] = min(before, x[cell + k])
        for row in range(y * plane, y * plane + blocks[b, HELD]):
            fill_cells(x, at + row * lanes, count, NOTHING)


@inlined
def _forget_bounds(b, blocks, bound, is_wide):
    """All lanes of a block are empty."""
    first = blocks[b, FIRST_ROW]
    for row in range(first, first + blocks[b, WIDTH] * blocks[b, PLANE]):
        bound[row], is_wide[row] = 0.0, False


@kernel
def trim_windows(low, high, symbol, begins, ends, to_low, to_high):
    """Windows without the rows before the first that `begins` and after the last that `ends`; at least one.

    begins, ends     bool[kinds]
    to_low, to_high  int64[n], written
    """
    one = np.uint64(1)
    for w in range(low.shape[0]):
        i, j = np.uint64(low[w]), np.uint64(high[w])
        while i < j and not begins[np.uint64(symbol[i])]:
            i += one
        while i < j and not ends[np.uint64(symbol[j - one])]:
            j -= one
        if i == j:
            i, j = np.uint64(low[w]), np.uint64(min(low[w] + 1, high[w]))
        to_low[w], to_high[w] = i, j


@kernel
def merge_cuts(low, high, slot_of, row, is_open, slot, item):
    """The cuts of windows of one kind in their order, closing first; False if windows are not in order.

    low, high            int64[n]   the rows of a window: at least one; neither may decrease
    slot_of              int64[n]   its slot
    row, is_open, slot, item  [2n], written
    """
    windows = low.shape[0]
    for k in range(windows):
        if low[k] >= high[k] or (k > 0 and (low[k] < low[k - 1] or high[k] < high[k - 1])):
            return False
    opened = closed = 0
    for cut in range(2 * windows):
        opens = opened < windows and low[opened] < high[closed]
        k = opened if opens else closed
        row[cut], is_open[cut], slot[cut], item[cut] = low[k] if opens else high[k], opens, slot_of[k], k
        opened += opens
        closed += not opens
    return True


# ---- Moments of several events, and bursts ------------------------------------------------------------


@kernel
def line_up(symbol, moment, edge, together, has_ops, burst, lists, row, times, step_of):
    """The steps of events; how many there are.

    An event alone at its moment is one step. Events of one moment take a step each per phase, where they have
    anything to do in it, and the moment ends with one step for all its events together. Equal events that are
    each alone at their moments are one step where they have a list for that; no window opens or closes
    between them.

    edge         int64[w], sorted    the rows before which windows close or open, and the number of rows
    together     int32[t]            per moment of several events, in order
    has_ops      bool[1 + phases, symbols]  whether lists are not empty; the first row is of events alone
    burst        int32[symbols]      the list of a burst, -1 if there is none
    lists, row, times  int32[], written   lists of operations, rows of events, and how many events
    step_of      int64[w], written   the first step after each edge
    """
    phases, symbols = has_ops.shape
    has_ties = together.shape[0] > 0
    at = tied = i = passed = 0
    rows = symbol.shape[0]
    while i < rows:
        while edge[passed] <= i:
            step_of[passed] = at
            passed += 1
        a, j = symbol[i], i + 1
        while has_ties and j < rows and moment[j] == moment[i]:
            j += 1
        if j == i + 1:
            if burst[a] >= 0:
                j = _last_equal(symbol, i, min(edge[passed], i + LONGEST))
                if has_ties:
                    j = _before_ties(i, j, rows, moment)
            if has_ops[0, a]:
                lists[at], row[at], times[at] = a if j == i + 1 else burst[a], i, j - i
                at += 1
        else:
            for phase in range(1, phases):
                for k in range(i, j):
                    if has_ops[phase, symbol[k]]:
                        lists[at], row[at], times[at] = phase * symbols + symbol[k], k, 1
                        at += 1
            lists[at], row[at], times[at] = phases * symbols + together[tied], i, 1
            at += 1
            tied += 1
        i = j
    step_of[passed:] = at
    return at


@inlined
def _last_equal(symbol, i, stop):
    """The end of the rows [i, stop) with the symbol of row i. An unsigned index cannot be negative."""
    a, one = symbol[i], np.uint64(1)
    end, stop = np.uint64(i) + one, np.uint64(stop)
    while end < stop and symbol[end] == a:
        end += one
    return np.int64(end)


@inlined
def _before_ties(i, j, rows, moment):
    """The end of the rows [i, j) that are alone at their moments; row i is."""
    k = i + 1
    while k < j and moment[k] != moment[k - 1] and (k + 1 == rows or moment[k + 1] != moment[k]):
        k += 1
    return k


@kernel
def add_up_bursts(row, times, values, sums, extremes, least):
    """The values of the events of each step: sums, with a column more for how many there are, and the least.

    sums, least  float64[n,V+1], float64[n,X], written
    """
    columns, xcolumns = values.shape[1], extremes.shape[1]
    for k in range(row.shape[0]):
        first, last = row[k], row[k] + times[k]
        if columns:
            sums[k, 0], sums[k, columns] = 1.0, times[k]
        for c in range(1, columns):
            whole = 0.0
            for i in range(first, last):
                whole += values[i, c]
            sums[k, c] = whole
        for c in range(xcolumns):
            low = np.inf
            for i in range(first, last):
                low = min(low, extremes[i, c])
            least[k, c] = low
