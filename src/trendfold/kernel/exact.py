"""The machine once more, in whole numbers of any size: `arithmetic="exact"`.

What a fold does to mass is linear with integer coefficients, so it may be done modulo 2^(64 L): the
result is right as soon as L digits of 64 bits hold it and its sign, however large or negative the masses
on the way were. The wide fold, which comes first, says how many digits that are, item by item.

A number is a row of digits, lowest first, beside how many of them are in use; the rest count as zero and
may hold anything. Only a count that is truly zero uses none. A negative number uses all L.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import CONTIGUOUS, NEXT, UNSPENT
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds
from trendfold.kernel.program import Guards, SparseRows

DIGIT_BITS = 64
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_NONE = np.uint64(0)
_ONE = np.uint64(1)


# ---- Digits ---------------------------------------------------------------------------------------


@kernel
def add(to, to_used, t, of, of_used, s, length):
    """Row t of `to` += row s of `of`, modulo 2^(64 length)."""
    count, old = of_used[s], to_used[t]
    here, there = to[t], of[s]
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
        _reach(to, to_used, t, i)
        here[i] += carry
        carry = np.uint64(here[i] < carry)
        i += 1


@kernel
def _reach(to, to_used, t, i):
    """Let row t use digit i."""
    while to_used[t] <= i:
        to[t, to_used[t]] = _NONE
        to_used[t] += 1


@kernel
def add_times(to, to_used, t, of, of_used, s, magnitude, negative, length):
    """Row t += ± magnitude · row s, for a magnitude of 64 bits: in halves of digits, whose products fit."""
    if magnitude == _ONE and not negative:
        add(to, to_used, t, of, of_used, s, length)
        return
    here, there = to[t].view(np.uint32), of[s].view(np.uint32)
    for shift in range(2):
        factor = (magnitude >> _SHIFT) if shift else (magnitude & _LOW)
        count = min(2 * of_used[s], 2 * length - shift)
        if factor == _NONE or count <= 0:
            continue
        _reach(to, to_used, t, (count + shift - 1) // 2)
        carry = _NONE
        i = shift
        while i < count + shift or (carry and i < 2 * length):
            _reach(to, to_used, t, i // 2)
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
def _write(out, at, of, of_used, s, length):
    for i in range(length):
        out[at + i] = of[s, i] if i < of_used[s] else _NONE


@kernel
def _empty(used, state, width):
    for w in range(width):
        used[state * width + w] = 0


@kernel
def _move_classes(guards, symbol, start, stop, digits, used, width, length):
    """guards.move_classes on digits."""
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                here, there = guards.place[p] + c - low, guards.place[p] + target - low
                for w in range(width):
                    add(digits, used, there * width + w, digits, used, here * width + w, length)
                _empty(used, here, width)


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
def fold_vectors(events, values, lows, highs, lengths, rows, direct, guards, frame, out, out_start):
    """kernel.fold in digits: the number w of item k goes to out[out_start[k] + w · lengths[k] :].

    lengths  int64[k]  digits of each number of an item
    direct   bool[A]   see in_place
    values   (uint64[n,V] magnitudes, bool[n,V] signs), columns as in Events.values
    """
    symbol, moment = events.symbol, events.moment
    width, entries, most = frame.width, frame.states * frame.width, max(1, lengths.max())
    digits, used = np.empty((entries, most), np.uint64), np.zeros(entries, np.int64)
    fresh, fresh_used = np.empty((entries, most), np.uint64), np.zeros(entries, np.int64)
    row_start, dst, op_start, op = rows.row_start, rows.dst, rows.op_start, rows.op
    vop_start, vop, vcol = rows.vop_start, rows.vop, rows.vcol
    for k in range(lows.shape[0]):
        length = lengths[k]
        used[:] = 0
        digits[frame.start * width, 0], used[frame.start * width] = 1, 1
        before = lows[k]
        i = lows[k]
        while i < highs[k]:
            j = i + 1
            while j < highs[k] and moment[j] == moment[i]:
                j += 1
            a = symbol[i]
            if j == i + 1 and direct[a]:
                for r in range(row_start[a + 1] - 1, row_start[a] - 1, -1):
                    d = dst[r]
                    for o in range(op_start[r], op_start[r + 1]):
                        if op[o] == d:
                            add(digits, used, d, digits, used, d, length)
                    for o in range(op_start[r], op_start[r + 1]):
                        if op[o] != d:
                            add(digits, used, d, digits, used, op[o], length)
                    for o in range(vop_start[r], vop_start[r + 1]):
                        size, negative = values[0][i, vcol[o]], values[1][i, vcol[o]]
                        add_times(digits, used, d, digits, used, vop[o], size, negative, length)
            else:
                _fold_moment(
                    symbol, values, before, i, j, rows, guards, width, digits, used, fresh, fresh_used, length
                )
            before = i
            i = j
        for w in range(width):
            fresh_used[w] = 0
            for s in frame.whole:
                add(fresh, fresh_used, w, digits, used, s * width + w, length)
            _write(out, out_start[k] + w * length, fresh, fresh_used, w, length)
            fresh_used[w] = 0


@kernel
def _fold_moment(
    symbol, values, before, start, stop, rows, guards, width, digits, used, fresh, fresh_used, length
):
    """One moment: gather, spend, fade, move classes, settle. `fresh` is empty before and after."""
    moved = False
    for i in range(start, stop):
        moved |= guards.moves[symbol[i]]
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            for o in range(rows.op_start[r], rows.op_start[r + 1]):
                add(fresh, fresh_used, d, digits, used, rows.op[o], length)
            for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
                size, negative = values[0][i, rows.vcol[o]], values[1][i, rows.vcol[o]]
                add_times(fresh, fresh_used, d, digits, used, rows.vop[o], size, negative, length)
    for i in range(start, stop):
        for k in range(rows.spend.shape[1]):
            _empty(used, rows.spend[symbol[i], k], width)
    for i in range(before, start):
        for k in range(rows.fade.shape[1]):
            _empty(used, rows.fade[symbol[i], k], width)
    if moved:
        _move_classes(guards, symbol, start, stop, digits, used, width, length)
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            add(digits, used, d, fresh, fresh_used, d, length)
            fresh_used[d] = 0  # tied events may share a row


# ---- Bindings one by one ----------------------------------------------------------------------------


@kernel
def fold_bindings(
    events,
    values,
    lows,
    highs,
    lengths,
    steps,
    guards,
    frame,
    pairs,
    latest,
    semantics,
    lists,
    end_guard,
    capacity,
    out,
    out_start,
):
    """kernel.bindings in digits; arguments as there and in fold_vectors."""
    width, entries, most = frame.width, frame.states * frame.width, max(1, lengths.max())
    kept = (
        np.zeros((lists[0], capacity), np.int32),  # row
        np.zeros((lists[0], capacity), np.int32),  # moment
        np.zeros((lists[0], capacity), np.int32),  # moment at which it was continued (next)
        np.empty((lists[0] * capacity * width, most), np.uint64),
        np.zeros(lists[0] * capacity * width, np.int64),
    )
    count = np.zeros(lists[0], np.int32)
    state = np.empty((entries, most), np.uint64), np.zeros(entries, np.int64)
    fresh = np.empty((entries, most), np.uint64), np.zeros(entries, np.int64)
    total = np.empty((width, most), np.uint64), np.zeros(width, np.int64)
    for k in range(lows.shape[0]):
        low, high, length = lows[k], highs[k], lengths[k]
        state[1][:] = 0
        count[:] = 0
        if frame.start >= 0:
            state[0][frame.start * width, 0], state[1][frame.start * width] = 1, 1
        if lists[1] >= 0 and low < high:
            total[1][:] = 0
            total[0][0, 0], total[1][0] = 1, 1
            _keep(lists[1], -1, events.moment[low] - 1, kept, count, total, length)
        _fold(
            events, values, low, high, steps, guards, pairs, latest, semantics,
            state, fresh, kept, count, total, length,
        )  # fmt: skip
        total[1][:] = 0
        for s in frame.whole:
            for w in range(width):
                add(total[0], total[1], w, state[0], state[1], s * width + w, length)
        if lists[2] >= 0 and low < high:
            ended = latest[end_guard, events.moment[high - 1]] if end_guard >= 0 else -1
            for b in range(count[lists[2]]):
                if kept[1][lists[2], b] >= ended:
                    for w in range(width):
                        row = (lists[2] * capacity + b) * width + w
                        add(total[0], total[1], w, kept[3], kept[4], row, length)
        for w in range(width):
            _write(out, out_start[k] + w * length, total[0], total[1], w, length)


@kernel
def _fold(
    events, values, low, high, steps, guards, pairs, latest, semantics,
    state, fresh, kept, count, total, length,
):  # fmt: skip
    """Fold the rows [low, high), a moment at a time: gather, spend, fade, move classes, settle."""
    symbol, moment = events.symbol, events.moment
    width = total[1].shape[0]
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    before = low
    i = low
    while i < high:
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        moved = False
        for e in range(i, j):
            moved |= guards.moves[symbol[e]]
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                _gather(
                    events, e, t, steps, pairs, latest, semantics, state, kept, count, stacks, total, length
                )
                if total[1][0] == 0:
                    continue
                for w in range(1, width):
                    column = steps.weight[t, w]
                    if column >= 0:
                        size, negative = values[0][e, column], values[1][e, column]
                        add_times(total[0], total[1], w, total[0], total[1], 0, size, negative, length)
                    elif column == -1:
                        add(total[0], total[1], w, total[0], total[1], 0, length)
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    for w in range(width):
                        add(fresh[0], fresh[1], steps.dst[d] * width + w, total[0], total[1], w, length)
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    _keep(steps.kept[b], e, moment[e], kept, count, total, length)
        if semantics == NEXT:
            for e in range(i, j):
                for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                    for o in range(steps.src_start[t], steps.src_start[t + 1]):
                        if not steps.is_start[steps.src[o]]:
                            _empty(state[1], steps.src[o], width)
        elif semantics == CONTIGUOUS:
            for e in range(before, i):
                for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                    for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                        if not steps.is_end[steps.dst[d]]:
                            _empty(state[1], steps.dst[d], width)
        if moved:
            _move_classes(guards, symbol, i, j, state[0], state[1], width, length)
        for e in range(i, j):
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    for w in range(width):
                        entry = steps.dst[d] * width + w
                        add(state[0], state[1], entry, fresh[0], fresh[1], entry, length)
                    _empty(fresh[1], steps.dst[d], width)
        before = i
        i = j


@kernel
def _gather(events, e, t, steps, pairs, latest, semantics, state, kept, count, stacks, total, length):
    """Sum the mass that event `e` continues at step `t`, from before its moment."""
    width, capacity = total[1].shape[0], kept[0].shape[1]
    total[1][:] = 0
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        for w in range(width):
            add(total[0], total[1], w, state[0], state[1], steps.src[o] * width + w, length)
    now = events.moment[e]
    for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
        here, fixed, guard = steps.scan[c], steps.scan_fixed[c], steps.scan_guard[c]
        since = latest[guard, now - 1] if guard >= 0 and now > 0 else -1
        if semantics == CONTIGUOUS and not fixed:
            since = max(since, now - 1)
        for b in range(count[here] - 1, -1, -1):
            made = kept[1][here, b]
            if made >= now:
                continue
            if made < since:
                break
            if semantics == NEXT and kept[2][here, b] < now:
                continue
            fits = True
            for p in range(steps.pred_start[c], steps.pred_start[c + 1]):
                x = kept[0][here, b]
                fits = fits and holds(pairs, steps.pred[p], x, e, stacks[0], stacks[1], stacks[2])
            if not fits:
                continue
            if not fixed:
                kept[2][here, b] = now
            for w in range(width):
                add(total[0], total[1], w, kept[3], kept[4], (here * capacity + b) * width + w, length)


@kernel
def _keep(here, row, moment, kept, count, total, length):
    b = count[here]
    kept[0][here, b], kept[1][here, b], kept[2][here, b] = row, moment, UNSPENT
    for w in range(total[1].shape[0]):
        at = (here * kept[0].shape[1] + b) * total[1].shape[0] + w
        kept[4][at] = 0
        add(kept[3], kept[4], at, total[0], total[1], w, length)
    count[here] = b + 1
