"""Rows -> the window items that may hold a trend: most small windows lack a type that every trend needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.events.buffers import empty
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import WindowUnit
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.request import Request
from trendfold.runtime.windows import HIGHEST, LOWEST, Items, cut, distinct_windows


@dataclass(frozen=True, slots=True)
class Needs:
    """What the rows of a window need so that it can hold a trend of one operand.

    bits      uint64[A]  per symbol the positions it can take, of those that every trend takes
    positions            how many these are
    fewest               the number of events of the shortest trend
    """

    bits: NDArray[np.uint64]
    positions: int
    fewest: int

    def of(self, symbol: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.uint64], np.uint64, int]:
        """What kernels read, with the symbols of the rows."""
        return symbol, self.bits, np.uint64((1 << self.positions) - 1), self.fewest


_MOST_NEEDED = 64
"""Bits of an integer; further positions are not looked for."""


def needs_of(machine: Machine, alphabet: tuple[Symbol, ...]) -> Needs:
    """What a window needs to hold a trend of a machine."""
    needed = sorted(machine.automaton.needed)[:_MOST_NEEDED]
    bits = [sum(1 << i for i, p in enumerate(needed) if p in symbol) for symbol in alphabet]
    return Needs(np.array(bits, np.uint64), len(needed), machine.automaton.fewest)


def cut_promising(plan: QueryPlan, rows: Rows, request: Request) -> tuple[Items, NDArray[np.int64]]:
    """Cut rows into the items that may hold a trend; also returns all windows that hold a row.

    Most small windows lack a type that every trend needs, and need not be folded.
    """
    needs = [
        needs_of(operand.machine, alphabet)
        for operand, alphabet in zip(plan.operands, rows.alphabets, strict=True)
    ]
    found = _cut_apart(plan, rows, needs[0], request)
    if found is None:
        items = cut(plan, rows, rows.time, request.origin, request.limits, request.asked)
        windows = distinct_windows(items.index)
    else:
        items, windows = found
    for own, symbol in list(zip(needs, rows.symbols, strict=True))[0 if found is None else 1 :]:
        items = keep_promising(items, own, symbol)
    return items, windows


_FEW_WINDOWS = 1 << 10


def _cut_apart(
    plan: QueryPlan, rows: Rows, needs: Needs, request: Request
) -> tuple[Items, NDArray[np.int64]] | None:
    """The same for windows that do not overlap, in one pass; None for others, and for windows far apart."""
    window, name, count = plan.query.window, plan.query.name, len(rows.row)
    if window is None or window.slide is None or window.unit is WindowUnit.EVENTS or not count:
        return None
    ends = rows.time[rows.segment[:-1]].min(), rows.time[rows.segment[1:] - 1].max()
    lowest, highest = ((int(end) - request.origin) // window.slide for end in ends)
    if window.slide < window.length or highest - lowest > count + _FEW_WINDOWS:
        return None
    first, last = LOWEST, HIGHEST
    if request.asked is not None:
        first, last = request.asked.numbers(window.length, window.slide, request.origin)
    seen = np.zeros(highest - lowest + 1, np.uint8)
    most = count // needs.fewest + 1  # one more: an item is written before it is known to be kept
    kept = [empty(most, kind) for kind in (np.int32, np.int64, np.int64, np.int64)]
    sliding = rows.segment, rows.time, window.length, window.slide, request.origin, first, last
    items, promising = kernels.cut_apart(*sliding, needs.of(rows.symbols[0]), lowest, seen, *kept)
    request.limits.check_windows(name, items)
    owner, index, low, high = (part[:promising] for part in kept)
    return Items(owner, index, low, high), np.flatnonzero(seen) + lowest


_LARGE = 16
"""Windows of that many times the fewest rows hold a trend most of the time: they are not looked through."""


def keep_promising(items: Items, needs: Needs, symbol: NDArray[np.int32]) -> Items:
    """The items that may hold a trend."""
    if (items.high - items.low).sum() > _LARGE * needs.fewest * len(items.low):
        return items
    kept = np.empty(len(items.low), np.int64)
    after = np.full(needs.positions, len(symbol), np.int64)
    first = kernels.keep_items(items.low, items.high, needs.of(symbol), needs.positions, after, kept)
    return items if first == 0 else items.at(kept[first:])
