"""Queries of a group as lanes of one machine, whatever their semantics, NOTs and windows.

The loop is kernel.machine_lanes. Where a member is *contiguous*, the rows must hold all rows of the segments,
those of types outside the patterns too (symbol 0): see lane_rows.

Later steps, and where they come in: HAVING judges what is folded here; operands of AND are members whose
results are multiplied in the end; a burst of equal events is a list of operations with coefficients 2^e and
2^e - 1; GROUP BY T.g makes slots of the groups, instead of copies of the rows; many overlapping windows
share panes, whose slots are start states; windows per event need products of such panes (kernel.sliding).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lane_masks import distinct_rows
from trendfold.kernel.lower_machine_lanes import (
    PHASES,
    Block,
    LaneMember,
    Taken,
    blocks_of,
    lower_machine_lanes,
    settling_columns,
)
from trendfold.kernel.machine_lanes import (
    LaneCuts,
    LaneResults,
    LaneSteps,
    MachineProgram,
    fold_in_lanes,
    line_up,
    no_mass,
    state_bytes,
)
from trendfold.kernel.program import Events, Folded
from trendfold.plan import Group
from trendfold.plan.carried import union
from trendfold.plan.workload import windows_at_once
from trendfold.runtime.lane_rows import LaneRows
from trendfold.runtime.windows import Items

MOST_MOMENTS = 1 << 12
"""Where moments of several events settle in more ways than that, each query is folded alone."""
_SMALLEST = 2.0**-200
"""A value below it, times a large count, would need an exponent below zero."""


@dataclass(frozen=True)
class ReadyMachineLanes:
    """A group of queries as arrays of one machine: only the fold is left.

    parts  per block and kind of window: the members, in order of lanes, and how many items each has
    """

    program: MachineProgram
    steps: LaneSteps
    cuts: LaneCuts
    blocks: list[Block]
    parts: list[tuple[Block, list[int], int]]

    @property
    def bytes(self) -> int:
        """The state of all lanes."""
        return int(state_bytes(self.program))

    def fold(self) -> tuple[Folded, ...]:
        """Per member the whole trends of its items."""
        out = self._no_results()
        fold_in_lanes(self.steps, self.cuts, self.program, no_mass(self.program), out)
        found: dict[int, Folded] = {}
        for (block, members, items), (at, xat) in zip(self.parts, self._ends(), strict=True):
            shape = items, block.shape.carried.width, len(members)
            xshape = items, len(block.shape.carried.extremes), len(members)
            m, e = (each[at - np.prod(shape, dtype=int) : at].reshape(shape) for each in out[:2])
            x = out.extreme[xat - np.prod(xshape, dtype=int) : xat].reshape(xshape)
            for lane, k in enumerate(members):
                found[k] = Folded(m[:, :, lane], e[:, :, lane], x[:, :, lane])
        return tuple(found[k] for k in range(len(found)))

    def _ends(self) -> list[tuple[int, int]]:
        """Where the results of each part end."""
        at = xat = 0
        found = []
        for block, members, items in self.parts:
            at += items * block.shape.carried.width * len(members)
            xat += items * len(block.shape.carried.extremes) * len(members)
            found.append((at, xat))
        return found

    def _no_results(self) -> LaneResults:
        at, xat = self._ends()[-1]
        return LaneResults(np.zeros(at), np.zeros(at, np.int32), np.full(xat, np.inf))


UNUSUAL = "values are so large or small that their products with counts may leave the range of doubles"
MANY_MOMENTS = "events of one moment combine in too many ways"


def make_machine(group: Group, together: LaneRows) -> tuple[ReadyMachineLanes | None, str]:
    """The arrays of a group, or why there are none."""
    members = [
        LaneMember(plan.operands[0].machine, plan.operands[0].carried, windows_at_once(plan), which)
        for plan, which in zip(group.members, together.window_of, strict=True)
    ]
    events = together.events(union(member.carried for member in members))
    if not events.is_small or _has_tiny_values(events):
        return None, UNUSUAL
    taken = together.taken
    blocks = blocks_of(members, taken)
    settled, which = _settled(events.symbol, events.moment, blocks, taken)
    if settled is not None and len(settled) > MOST_MOMENTS:
        return None, MANY_MOMENTS
    program = lower_machine_lanes(blocks, taken, settled)
    steps, step_of = _steps(events, program, which, len(taken.is_taken))
    parts = _parts(blocks, members, together.items)
    cuts = _cuts(together.items, members, parts, blocks, step_of)
    return ReadyMachineLanes(program, steps, cuts, blocks, parts), ""


def _has_tiny_values(events: Events) -> bool:
    size = np.abs(events.values)
    return bool(((size > 0.0) & (size < _SMALLEST)).any())


# ---- Moments of several events ------------------------------------------------------------------------


def _steps(
    events: Events, program: MachineProgram, which: NDArray[np.int32], kinds: int
) -> tuple[LaneSteps, NDArray[np.int64]]:
    """What is folded in which order, and the first step of each row's moment."""
    rows = len(events.symbol)
    if not len(which):
        nothing = np.zeros(0, np.int32)
        return LaneSteps(events.symbol, nothing, events.values, events.extremes), np.arange(rows + 1)
    has_ops = (np.diff(program.op_start) > 0) | (np.diff(program.x_start) > 0)
    by_phase = has_ops[: kinds * (1 + len(PHASES))].reshape(-1, kinds)
    most = rows * len(PHASES) + len(which)
    lists, row, step_of = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(rows + 1, np.int64)
    count = line_up(events.symbol, events.moment, which, by_phase, lists, row, step_of)
    return LaneSteps(lists[:count], row[:count], events.values, events.extremes), step_of


def _settled(
    symbol: NDArray[np.int32], moment: NDArray[np.int32], blocks: list[Block], taken: Taken
) -> tuple[NDArray[np.bool_] | None, NDArray[np.int32]]:
    """The sets of positions that moments of several events take, where they matter, and which each takes."""
    if not len(symbol) or int(moment[-1]) + 1 == len(symbol):
        return None, np.zeros(0, np.int32)
    same = moment[1:] == moment[:-1]
    columns = settling_columns(blocks, taken)
    if not len(columns):
        moments = int((same & ~np.append(False, same[:-1])).sum())
        return np.zeros((1, taken.is_taken.shape[1]), np.bool_), np.zeros(moments, np.int32)
    is_tied = np.append(same, False) | np.append(False, same)
    own, of = symbol[is_tied], moment[is_tied].astype(np.int64)
    kinds, code = distinct_rows(taken.is_taken[:, columns])
    pairs = np.unique(of * len(kinds) + code[own])
    begin = np.flatnonzero(np.append(True, np.diff(pairs // len(kinds)) > 0))
    united, which = distinct_rows(np.logical_or.reduceat(kinds[pairs % len(kinds)], begin, axis=0))
    settled = np.zeros((len(united), taken.is_taken.shape[1]), np.bool_)
    settled[:, columns] = united
    return settled, which.astype(np.int32)


# ---- Windows ------------------------------------------------------------------------------------------


def _parts(
    blocks: list[Block], members: list[LaneMember], items: tuple[Items, ...]
) -> list[tuple[Block, list[int], int]]:
    """The members of each block with windows of one kind: neighbours among its lanes."""
    found = []
    for block in blocks:
        for which in dict.fromkeys(members[k].which for k in block.members):
            own = [k for k in block.members if members[k].which == which]
            found.append((block, own, len(items[own[0]].low)))
    return found


def _cuts(
    items: tuple[Items, ...],
    members: list[LaneMember],
    parts: list[tuple[Block, list[int], int]],
    blocks: list[Block],
    step_of: NDArray[np.int64],
) -> LaneCuts:
    """Where windows close and open. Members with the same windows are cut together."""
    first = {member.which: k for k, member in reversed(list(enumerate(members)))}
    cut = [_cuts_of(items[first[which]], members[first[which]].windows, which) for which in sorted(first)]
    row, is_open, which, slot, item = (np.concatenate(column) for column in zip(*cut, strict=True))
    order = np.argsort(2 * row + is_open, kind="stable")
    found, at, xat = [], 0, 0
    lane = dict.fromkeys(range(len(blocks)), 0)
    for block, own, count in parts:
        b = next(number for number, each in enumerate(blocks) if each is block)
        found.append((members[own[0]].which, b, lane[b], len(own), at, xat))
        lane[b] += len(own)
        at += count * block.shape.carried.width * len(own)
        xat += count * len(block.shape.carried.extremes) * len(own)
    found.sort(key=lambda part: part[0])
    kinds = np.array([part[0] for part in found], np.int64)
    return LaneCuts(
        step_of[row[order]],
        is_open[order].astype(np.bool_),
        which[order],
        slot[order],
        item[order],
        np.searchsorted(kinds, np.arange(len(first) + 1)).astype(np.int64),
        np.array([part[1:] for part in found], np.int64),
    )


def _cuts_of(items: Items, windows: int, which: int) -> tuple[NDArray[np.int64], ...]:
    """Two cuts per item: windows open at once have different slots, and a later one takes a free slot."""
    count = len(items.low)
    row = np.concatenate([items.low, items.high]).astype(np.int64)
    is_open = np.repeat(np.array([1, 0], np.int64), count)
    slot = np.tile(np.mod(items.index, windows), 2).astype(np.int64)
    return row, is_open, np.full(2 * count, which, np.int64), slot, np.tile(np.arange(count), 2)
