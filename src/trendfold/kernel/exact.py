"""The machine once more, in whole numbers of any size: `arithmetic="exact"`.

A fold is linear in the mass, with integer coefficients, so it may be done modulo 2^(64 L): the result is
exact as soon as L digits of 64 bits hold it and its sign, however large or negative the masses on the way
were. The wide fold, which comes first, tells how many digits that are, item by item.

Only a count that is truly zero uses no digits. A negative number uses all L.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import CONTIGUOUS, NEXT, UNSPENT, ended_before
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.pairs import holds
from trendfold.kernel.program import BindingSteps, Guards, Pairs, SparseRows

DIGIT_BITS = 64
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_NONE = np.uint64(0)
_ONE = np.uint64(1)


class Digits(NamedTuple):
    """N whole numbers.

    digit  uint64[N, L]  a row of digits per number, lowest first
    used   int64[N]      how many of them are in use; the rest count as zero and may hold anything
    """

    digit: NDArray[np.uint64]
    used: NDArray[np.int64]


class ExactBindings(NamedTuple):
    """The bindings of all lists, in the order they were made.

    row, moment  int32[lists, c]
    spent        int32[lists, c]  the moment at which it was continued (*next*)
    numbers      Digits           number w of binding b in list l is row (l · c + b) · W + w
    """

    row: NDArray[np.int32]
    moment: NDArray[np.int32]
    spent: NDArray[np.int32]
    numbers: Digits


class ExactMachine(NamedTuple):
    """A machine that keeps some bindings: records of kernel.program; latest: see guards.latest_starts."""

    steps: BindingSteps
    guards: Guards
    pairs: Pairs
    latest: NDArray[np.int32]


class ExactLists(NamedTuple):
    """The lists of bindings: how many, the most bindings of one, the lists of ⊥ and ⊤, or -1.

    end_guard  the guard judged by time at ⊤, or -1
    """

    many: int
    capacity: int
    start: int
    end: int
    end_guard: int


# ---- Digits ---------------------------------------------------------------------------------------


@kernel
def add(to, t, of, s, length):
    """Number t of `to` += number s of `of`, modulo 2^(64 length)."""
    to, of = lent(to), lent(of)
    to_used = to.used
    count, old = of.used[s], to_used[t]
    here, there = to.digit[t], of.digit[s]
    common = np.uint64(min(count, old))
    carry = _NONE
    for i in range(common):
        first = here[i]
        total = first + there[i]
        over = np.uint64(total < first)
        here[i] = total + carry
        carry = over | np.uint64(here[i] < total)
    for i in range(common, np.uint64(count)):
        total = there[i] + carry
        carry = np.uint64(total < carry)
        here[i] = total
    to_used[t] = max(old, count)
    i = count
    while carry and i < length:
        _reach(to, t, i)
        here[i] += carry
        carry = np.uint64(here[i] < carry)
        i += 1


@kernel
def _reach(to, t, i):
    """Let number t use digit i."""
    while to.used[t] <= i:
        to.digit[t, to.used[t]] = _NONE
        to.used[t] += 1


@kernel
def add_times(to, t, of, s, magnitude, negative, length):
    """Number t += ± magnitude · number s, for a magnitude of 64 bits: in half digits, whose products fit."""
    if magnitude == _ONE and not negative:
        add(to, t, of, s, length)
        return
    to, of = lent(to), lent(of)
    here, there = to.digit[t].view(np.uint32), of.digit[s].view(np.uint32)
    for shift in range(2):
        factor = (magnitude >> _SHIFT) if shift else (magnitude & _LOW)
        count = min(2 * of.used[s], 2 * length - shift)
        if factor == _NONE or count <= 0:
            continue
        _reach(to, t, (count + shift - 1) // 2)
        carry = _NONE
        i = shift
        while i < count + shift or (carry and i < 2 * length):
            _reach(to, t, i // 2)
            part = carry
            if i < count + shift:
                part += np.uint64(there[i - shift]) * factor
            if negative:
                low, old = part & _LOW, np.uint64(here[i])
                here[i] = np.uint32((old - low) & _LOW)
                carry = (part >> _SHIFT) + np.uint64(old < low)
            else:
                total = (part & _LOW) + np.uint64(here[i])
                here[i] = np.uint32(total & _LOW)
                carry = (part >> _SHIFT) + (total >> _SHIFT)
            i += 1


@kernel
def _write(out, at, of, s, length):
    """Write all digits of number s, from out[at] on."""
    for i in range(length):
        out[at + i] = of.digit[s, i] if i < of.used[s] else _NONE


@inlined
def _zeros(count, most):
    """So many zeros, with room for `most` digits each."""
    return Digits(np.empty((count, most), np.uint64), np.zeros(count, np.int64))


@inlined
def _set_one(numbers, n):
    numbers.digit[n, 0], numbers.used[n] = 1, 1


@kernel
def _empty(numbers, state, width):
    """Set all numbers of a state to zero."""
    for w in range(width):
        numbers.used[state * width + w] = 0


@kernel
def _move_classes(guards, symbol, start, stop, state, width, length):
    """`guards.move_classes` on digits."""
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                here, there = guards.place[p] + c - low, guards.place[p] + target - low
                for w in range(width):
                    add(state, there * width + w, state, here * width + w, length)
                _empty(state, here, width)


# ---- One vector per place ---------------------------------------------------------------------------


def in_place(rows: SparseRows, guards: Guards) -> NDArray[np.bool_]:
    """Per symbol: whether a lone event's rows, from the last to the first, may be added where they stand.

    No row may read what one before it has written. A row that reads its own entry doubles it first.
    """
    found = ~guards.moves
    if rows.spend.shape[1] or rows.fade.shape[1]:
        found[:] = False
    for a in range(len(found)):
        written: set[int] = set()
        for r in range(rows.row_start[a + 1] - 1, rows.row_start[a] - 1, -1):
            target = int(rows.dst[r])
            reads = rows.op[rows.op_start[r] : rows.op_start[r + 1]].tolist()
            reads_times = rows.vop[rows.vop_start[r] : rows.vop_start[r + 1]].tolist()
            is_late = not written.isdisjoint([*reads, *reads_times])
            if is_late or reads.count(target) > 1 or target in reads_times:
                found[a] = False
            written.add(target)
    return found


@kernel
def fold_vectors(events, values, lows, untils, highs, lengths, rows, direct, guards, frame, out, out_start):
    """`kernel.fold` in digits: number w of item k goes to out[out_start[k] + w · lengths[k] :].

        new[dst] = old[dst] + Σ old[op] + Σ old[vop] · value[vcol]

    values       (uint64[n,V] magnitudes, bool[n,V] signs), columns as in Events.values
    lows, highs  int64[k]  rows of each item; no trend begins at row untils[k] or after it
    lengths      int64[k]  digits of each number of an item
    rows         SparseRows
    direct       bool[A]   see in_place
    """
    entries, most = frame.states * frame.width, max(1, lengths.max())
    # Lent arrays must outlive the loop, so they are made one kernel further out (see jit.lent).
    state, fresh = _zeros(entries, most), _zeros(entries, most)
    items = lows, untils, highs, lengths
    _fold_items(events, values, items, rows, direct, guards, frame, state, fresh, out, out_start)


@kernel
def _fold_items(events, values, items, rows, direct, guards, frame, state, fresh, out, out_start):
    """The loop of fold_vectors; `state` and `fresh` are room for all numbers of the machine."""
    lows, untils, highs, lengths = items
    values, rows, state, fresh = lent(values), lent(rows), lent(state), lent(fresh)
    symbol, moment, width = events.symbol, events.moment, frame.width
    for k in range(lows.shape[0]):
        length = lengths[k]
        state.used[:] = 0
        _set_one(state, frame.start * width)
        before = lows[k]
        i = lows[k]
        while i < highs[k]:
            if i == untils[k]:
                state.used[frame.start * width] = 0
            j = i + 1
            while j < highs[k] and moment[j] == moment[i]:
                j += 1
            if j == i + 1 and direct[symbol[i]]:
                _add_in_place(symbol[i], i, values, rows, state, length)
            else:
                _fold_moment(symbol, values, before, i, j, rows, guards, width, state, fresh, length)
            before = i
            i = j
        for w in range(width):
            fresh.used[w] = 0
            for s in frame.whole:
                add(fresh, w, state, s * width + w, length)
            _write(out, out_start[k] + w * length, fresh, w, length)
            fresh.used[w] = 0


@inlined
def _add_in_place(a, i, values, rows, state, length):
    """Apply the rows of symbol a, the event of row i, from the last to the first (see in_place)."""
    for r in range(rows.row_start[a + 1] - 1, rows.row_start[a] - 1, -1):
        d = rows.dst[r]
        for o in range(rows.op_start[r], rows.op_start[r + 1]):
            if rows.op[o] == d:
                add(state, d, state, d, length)
        for o in range(rows.op_start[r], rows.op_start[r + 1]):
            if rows.op[o] != d:
                add(state, d, state, rows.op[o], length)
        for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
            size, negative = values[0][i, rows.vcol[o]], values[1][i, rows.vcol[o]]
            add_times(state, d, state, rows.vop[o], size, negative, length)


@kernel
def _fold_moment(symbol, values, before, start, stop, rows, guards, width, state, fresh, length):
    """One moment: gather, spend, fade, move classes, settle. `fresh` is empty before and after."""
    moved = False
    for i in range(start, stop):
        moved |= guards.moves[symbol[i]]
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            for o in range(rows.op_start[r], rows.op_start[r + 1]):
                add(fresh, d, state, rows.op[o], length)
            for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
                size, negative = values[0][i, rows.vcol[o]], values[1][i, rows.vcol[o]]
                add_times(fresh, d, state, rows.vop[o], size, negative, length)
    for i in range(start, stop):
        for k in range(rows.spend.shape[1]):
            _empty(state, rows.spend[symbol[i], k], width)
    for i in range(before, start):
        for k in range(rows.fade.shape[1]):
            _empty(state, rows.fade[symbol[i], k], width)
    if moved:
        _move_classes(guards, symbol, start, stop, state, width, length)
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            add(state, d, fresh, d, length)
            fresh.used[d] = 0  # tied events may share a row


# ---- Bindings one by one ----------------------------------------------------------------------------


@kernel
def fold_bindings(
    events, values, lows, untils, highs, lengths, machine, semantics, frame, lists, out, out_start
):
    """`kernel.bindings` in digits; arguments as there and in fold_vectors.

    machine  ExactMachine; lists  ExactLists
    """
    many, capacity, start_list, end_list, end_guard = lists
    width, entries, most = frame.width, frame.states * frame.width, max(1, lengths.max())
    kept = ExactBindings(
        np.zeros((many, capacity), np.int32),
        np.zeros((many, capacity), np.int32),
        np.zeros((many, capacity), np.int32),
        _zeros(many * capacity * width, most),
    )
    count, broken_at = np.zeros(many, np.int32), np.empty(capacity)
    state, fresh, total = _zeros(entries, most), _zeros(entries, most), _zeros(width, most)
    for k in range(lows.shape[0]):
        low, high, length = lows[k], highs[k], lengths[k]
        state.used[:] = 0
        count[:] = 0
        if frame.start >= 0:
            _set_one(state, frame.start * width)
        if start_list >= 0 and low < high:
            total.used[:] = 0
            _set_one(total, 0)
            _keep(start_list, low, events.moment[low] - 1, kept, count, total, length)
        begins = start_list * capacity * width if start_list >= 0 else -1, frame.start * width
        ends = end_list, broken_at
        _fold(
            events, values, low, untils[k], high, machine, semantics, begins, ends, state, fresh, kept, count,
            total, length,
        )  # fmt: skip
        total.used[:] = 0
        for s in frame.whole:
            for w in range(width):
                add(total, w, state, s * width + w, length)
        if end_list >= 0 and low < high:
            ended = ended_before(end_guard, machine.latest, events.moment[high - 1])
            for b in range(count[end_list]):
                if kept.moment[end_list, b] >= ended and broken_at[b] > events.moment[high - 1]:
                    _add_binding(end_list, b, kept, total, length)
        for w in range(width):
            _write(out, out_start[k] + w * length, total, w, length)


@kernel
def _fold(
    events, values, low, until, high, machine, semantics, begins, ends, state, fresh, kept, count, total,
    length,
):  # fmt: skip
    """Fold the rows [low, high), a moment at a time: gather, spend or fade, move classes, settle.

    begins  where the count of ⊥ is among the bindings, and among the states; negative if it is not there
    ends    the list of ⊤, and per binding of it the first moment at which a NOT with conditions breaks it
    """
    events, values, machine, kept = lent(events), lent(values), lent(machine), lent(kept)
    state, fresh, total = lent(state), lent(fresh), lent(total)
    steps, guards, depth = machine.steps, machine.guards, machine.pairs.depth
    symbol, moment = events.symbol, events.moment
    width = total.used.shape[0]
    stacks = np.empty(depth), np.empty(depth, np.int64), np.empty(depth, np.int8)
    fading = steps.fades.any()
    before = low
    i = low
    while i < high:
        if i == until and begins[0] >= 0:
            kept.numbers.used[begins[0]] = 0
        if i == until and begins[1] >= 0:
            state.used[begins[1]] = 0
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        moved = False
        for e in range(i, j):
            moved |= guards.moves[symbol[e]]
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                _gather(events, e, t, machine, semantics, state, kept, count, stacks, total, length)
                if total.used[0] == 0:
                    continue
                _weigh(e, t, values, steps, total, length)
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    for w in range(width):
                        add(fresh, steps.dst[d] * width + w, total, w, length)
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    _keep(steps.kept[b], e, moment[e], kept, count, total, length)
                    if steps.kept[b] == ends[0]:
                        ends[1][count[ends[0]] - 1] = _broken_at(e, t, steps, machine.pairs)
        if semantics == NEXT:
            _spend(symbol, i, j, steps, state, width)
        if fading:
            _fade(symbol, before, i, steps, state, width)
        if moved:
            _move_classes(guards, symbol, i, j, state, width, length)
        for e in range(i, j):
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    for w in range(width):
                        entry = steps.dst[d] * width + w
                        add(state, entry, fresh, entry, length)
                    _empty(fresh, steps.dst[d], width)
        before = i
        i = j


@kernel
def _gather(events, e, t, machine, semantics, state, kept, count, stacks, total, length):
    """Sum into `total` the mass that event `e` continues at step `t`, from before its moment."""
    steps, pairs, latest = machine.steps, machine.pairs, machine.latest
    width = total.used.shape[0]
    total.used[:] = 0
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        for w in range(width):
            add(total, w, state, steps.src[o] * width + w, length)
    now = events.moment[e]
    for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
        here, fixed, guard = steps.scan[c], steps.scan_fixed[c], steps.scan_guard[c]
        since = latest[guard, now - 1] if guard >= 0 and now > 0 else -1
        if semantics == CONTIGUOUS and not fixed:
            since = max(since, now - 1)
        for b in range(count[here] - 1, -1, -1):
            made = kept.moment[here, b]
            if made >= now:
                continue
            if made < since:
                break
            if semantics == NEXT and kept.spent[here, b] < now:
                continue
            fits = True
            for p in range(steps.pred_start[c], steps.pred_start[c + 1]):
                x = kept.row[here, b]
                fits = fits and holds(pairs, steps.pred[p], x, e, stacks[0], stacks[1], stacks[2])
            if not fits:
                continue
            if not fixed:
                kept.spent[here, b] = now
            _add_binding(here, b, kept, total, length)


@inlined
def _add_binding(here, b, kept, total, length):
    """Add the numbers of binding b of a list to `total`."""
    width, capacity = total.used.shape[0], kept.row.shape[1]
    for w in range(width):
        add(total, w, kept.numbers, (here * capacity + b) * width + w, length)


@inlined
def _weigh(e, t, values, steps, total, length):
    """Add count times value to the numbers that step t feeds: (c, s) becomes (c, s + a·c)."""
    for w in range(1, total.used.shape[0]):
        column = steps.weight[t, w]
        if column >= 0:
            add_times(total, w, total, 0, values[0][e, column], values[1][e, column], length)
        elif column == -1:
            add(total, w, total, 0, length)


@inlined
def _spend(symbol, start, stop, steps, state, width):
    """Under *next*, empty the states that the moment has continued; ⊥ is not spent."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not steps.is_start[steps.src[o]]:
                    _empty(state, steps.src[o], width)


@inlined
def _fade(symbol, start, stop, steps, state, width):
    """Empty the states of the moment before whose mass lasts no longer."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                if steps.fades[steps.dst[d]]:
                    _empty(state, steps.dst[d], width)


@kernel
def _broken_at(row, t, steps, pairs):
    """The first moment at which a NOT with conditions breaks a binding at ⊤: a condition's left side."""
    first = np.inf
    for c in range(steps.closing_start[t], steps.closing_start[t + 1]):
        first = min(first, pairs.floats[pairs.left[steps.closing[c]], row])
    return first


@kernel
def _keep(here, row, moment, kept, count, total, length):
    """Append a binding with the numbers of `total` to a list."""
    b = count[here]
    kept.row[here, b], kept.moment[here, b], kept.spent[here, b] = row, moment, UNSPENT
    width = total.used.shape[0]
    for w in range(width):
        at = (here * kept.row.shape[1] + b) * width + w
        kept.numbers.used[at] = 0
        add(kept.numbers, at, total, w, length)
    count[here] = b + 1
