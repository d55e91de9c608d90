"""Conditions on two events, judged inside a kernel: a comparison of two columns, or a small program.

A condition arrives in parts: whatever depends on one event alone is already a column. What is left
is arithmetic, comparison and logic between columns of the first event (LEFT) and of the second (RIGHT),
written as a program for a stack. Null spreads as in SQL; logic is three-valued.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from trendfold.kernel.jit import kernel


class Op(IntEnum):
    """Opcodes. Comparisons come first: they double as the `compare` of a simple condition."""

    EQ = 1
    NE = 2
    LT = 3
    LE = 4
    GT = 5
    GE = 6
    LEFT = 10
    RIGHT = 11
    LEFT_INT = 12
    RIGHT_INT = 13
    CONST = 14
    CONST_INT = 15
    NULL = 16
    FLOAT = 17
    ADD = 20
    SUB = 21
    MUL = 22
    DIV = 23
    MOD = 24
    NEG = 25
    ABS = 26
    ADD_INT = 30
    SUB_INT = 31
    MUL_INT = 32
    MOD_INT = 33
    NEG_INT = 34
    ABS_INT = 35
    EQ_INT = 41
    NE_INT = 42
    LT_INT = 43
    LE_INT = 44
    GT_INT = 45
    GE_INT = 46
    AND = 50
    OR = 51
    NOT = 52
    IS_NULL = 53
    NONE_BETWEEN = 60
    WITH_LEFT = 61
    WITH_RIGHT = 62


# Plain integers: numba freezes module-level ints into the code, and reads enum members slowly.
_EQ, _NE, _LT, _LE, _GT, _GE = 1, 2, 3, 4, 5, 6
_INT_MIN, _INT_MAX = np.int64(-(2**63)), np.int64(2**63 - 1)
_MAGNITUDE = np.uint64(2**63)


@kernel
def _compares(op, order):
    """Whether a comparison holds, from the sign of left - right."""
    if op == _EQ:
        return order == 0
    if op == _NE:
        return order != 0
    if op == _LT:
        return order < 0
    if op == _LE:
        return order <= 0
    if op == _GT:
        return order > 0
    return order >= 0


@kernel
def holds(pairs, condition, x, y, stack_f, stack_i, stack_n):
    """Whether `condition` is true for the events x and y; null is not true."""
    op = pairs.compare[condition]
    if op != 0:
        left, right = pairs.floats[pairs.left[condition], x], pairs.floats[pairs.right[condition], y]
        if left != left or right != right:  # NaN is null
            return False
        return _compares(op, int(left > right) - int(left < right))
    if pairs.code[2 * pairs.code_start[condition]] == 60:
        return _none_between(pairs, condition, x, y, stack_f, stack_i, stack_n)
    return _run(pairs, condition, x, y, stack_f, stack_i, stack_n)


@kernel
def _none_between(pairs, condition, x, y, f, i, n):
    """Whether no event of a NOT lies between x and y that satisfies its conditions with both.

    The program names the rows of these events and the columns of the first such event after x and the last
    before y, each under its own conditions; then the conditions with x and those with y.
    """
    begin, end = pairs.code_start[condition], pairs.code_start[condition + 1]
    rows = pairs.code[2 * begin + 1]
    first = pairs.floats[pairs.code[2 * begin + 3], x]
    last = pairs.floats[pairs.code[2 * begin + 5], y]
    if first >= pairs.moment[y] or last <= pairs.moment[x]:
        return True
    low, high = pairs.negated_start[rows], pairs.negated_start[rows + 1]
    k = low + np.searchsorted(pairs.negated[low:high], x)
    while k < high and pairs.moment[pairs.negated[k]] <= last and pairs.negated[k] < y:
        breaks = pairs.moment[pairs.negated[k]] >= first
        for at in range(begin + 3, end):
            other = x if pairs.code[2 * at] == 61 else y
            breaks = breaks and plainly_holds(pairs, pairs.code[2 * at + 1], pairs.negated[k], other, f, i, n)
        if breaks:
            return False
        k += 1
    return True


@kernel
def plainly_holds(pairs, condition, x, y, stack_f, stack_i, stack_n):
    """`holds` for a condition that reads no other events than x and y."""
    op = pairs.compare[condition]
    if op != 0:
        left, right = pairs.floats[pairs.left[condition], x], pairs.floats[pairs.right[condition], y]
        if left != left or right != right:  # NaN is null
            return False
        return _compares(op, int(left > right) - int(left < right))
    return _run(pairs, condition, x, y, stack_f, stack_i, stack_n)


@kernel
def _run(pairs, condition, x, y, f, i, n):
    """Run a program. f, i, n: stacks of doubles, integers (and truth values), and null flags."""
    top = -1
    for at in range(pairs.code_start[condition], pairs.code_start[condition + 1]):
        op, arg = pairs.code[2 * at], pairs.code[2 * at + 1]
        if op < 20:
            if op < 10:
                top -= 1
                n[top] |= n[top + 1]
                i[top] = _compares(op, int(f[top] > f[top + 1]) - int(f[top] < f[top + 1]))
            elif op == 17:
                f[top] = np.float64(i[top])
            else:
                top += 1
                n[top] = 0
                if op == 10 or op == 11:
                    f[top] = pairs.floats[arg, x if op == 10 else y]
                    n[top] = f[top] != f[top]
                elif op == 12 or op == 13:
                    row = x if op == 12 else y
                    i[top] = pairs.ints[arg, row]
                    n[top] = not pairs.valid[arg, row]
                elif op == 14:
                    f[top] = pairs.constants[arg]
                elif op == 15:
                    i[top] = pairs.int_constants[arg]
                else:
                    f[top], i[top], n[top] = 0.0, 0, 1
        elif op < 30:
            top = _float_arithmetic(op, top, f, n)
        elif op < 40:
            top = _int_arithmetic(op, top, i, n)
        elif op < 50:
            top -= 1
            n[top] |= n[top + 1]
            i[top] = _compares(op - 40, int(i[top] > i[top + 1]) - int(i[top] < i[top + 1]))
        elif op == 52:
            i[top] = 1 - i[top]
        elif op == 53:
            i[top], n[top] = n[top], 0
        else:
            top -= 1
            decisive = 0 if op == 50 else 1  # FALSE settles AND, TRUE settles OR, whatever is null
            settled = (n[top] == 0 and i[top] == decisive) or (n[top + 1] == 0 and i[top + 1] == decisive)
            n[top] = 0 if settled else n[top] | n[top + 1]
            i[top] = decisive if settled else 1 - decisive
    return n[0] == 0 and i[0] == 1


@kernel
def _float_arithmetic(op, top, f, n):
    """One arithmetic step on doubles; what is not finite is null."""
    if op == 25:
        f[top] = -f[top]
        return top
    if op == 26:
        f[top] = abs(f[top])
        return top
    top -= 1
    a, b = f[top], f[top + 1]
    null = n[top] | n[top + 1]
    if op == 20:
        f[top] = a + b
    elif op == 21:
        f[top] = a - b
    elif op == 22:
        f[top] = a * b
    elif b == 0.0:
        null = 1
    elif op == 23:
        f[top] = a / b
    else:
        f[top] = np.fmod(a, b)
    n[top] = null if null else not np.isfinite(f[top])
    return top


@kernel
def _int_arithmetic(op, top, i, n):
    """One arithmetic step on 64-bit integers; overflow is null."""
    if op == 34 or op == 35:
        if i[top] == _INT_MIN:
            n[top] = 1
        elif op == 34 or i[top] < 0:
            i[top] = -i[top]
        return top
    top -= 1
    a, b = i[top], i[top + 1]
    null = n[top] | n[top + 1]
    if op == 30:
        i[top] = a + b
        null |= (b > 0 and a > _INT_MAX - b) or (b < 0 and a < _INT_MIN - b)
    elif op == 31:
        i[top] = a - b
        null |= (b < 0 and a > _INT_MAX + b) or (b > 0 and a < _INT_MIN + b)
    elif op == 32:
        most = _MAGNITUDE if (a < 0) != (b < 0) else _MAGNITUDE - np.uint64(1)
        null |= a != 0 and _magnitude(b) > most // _magnitude(a)
        i[top] = 0 if null else a * b
    elif b == 0:
        null = 1
    else:
        rest = np.int64(_magnitude(a) % _magnitude(b))
        i[top] = -rest if a < 0 else rest
    n[top] = null
    return top


@kernel
def _magnitude(a):
    """|a| without overflow, also of the least integer."""
    return np.uint64(a) if a >= 0 else np.uint64(-(a + 1)) + np.uint64(1)
