"""Queries of a group as lanes of one machine, whatever their semantics, NOTs and windows.

The loop is kernel.machine_lanes. Where a member is *contiguous*, the rows must hold all rows of the segments,
those of types outside the patterns too (symbol 0): see lane_rows.

An operand of AND is a lane of its own; results are multiplied in the end. HAVING judges what is folded here,
and reads digits from the same rows where doubles do not suffice.

The values of GROUP BY T.g may be slots: then a window has a slot per value, and what has not passed T is kept
once, in a block of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel.lane_masks import distinct_rows
from trendfold.kernel.lane_trends import count_by_lane, gather_by_lane
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
    SMALLEST,
    STRIDE,
    VECTORS,
    LaneCuts,
    LaneSteps,
    LaneVectors,
    MachineProgram,
    add_up_bursts,
    fold_in_lanes,
    line_up,
    merge_cuts,
    no_mass,
    no_vectors,
    state_bytes,
    trim_windows,
)
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import is_sorted
from trendfold.plan import Group
from trendfold.plan.carried import union
from trendfold.plan.statistics import Work
from trendfold.plan.workload import windows_at_once
from trendfold.runtime.lane_rows import LaneRows, LaneValues, open_windows
from trendfold.runtime.query_rows import NO_SYMBOL
from trendfold.runtime.values import at_rows
from trendfold.runtime.windows import Items

_SHORT = 64
"""Windows of so many rows on average are trimmed: in longer ones there is little to leave out."""
HELD = "the open windows of queries that are folded together"
"""What takes the memory of lanes, in messages."""
MOST_MOMENTS = 1 << 12
"""Where moments of several events settle in more ways than that, each query is folded alone."""


@dataclass(frozen=True)
class LanePart:
    """The queries of a block that have the same windows: neighbours among its lanes.

    number   the block's
    members  in the order of their lanes
    values   how many slots of the only member are lanes of it: values of GROUP BY T.g, from T on
    lane     the first one's
    items    how many windows they have
    given    how many of those begin with a vector, ...
    saved    ... and how many end as one
    """

    number: int
    block: Block
    members: tuple[int, ...]
    which: int
    lane: int
    items: int
    given: int = 0
    saved: int = 0
    values: int = 1

    @property
    def lanes(self) -> int:
        """Neighbouring lanes that open and close together."""
        return len(self.members) * self.values

    @property
    def has_results(self) -> bool:
        """Whether it has whole trends: what has not passed T of GROUP BY T.g has none."""
        return not self.block.own or self.block.before is not None

    @property
    def result(self) -> tuple[int, int]:
        """Numbers and extremes in the results of one window."""
        if not self.has_results:
            return 0, 0
        carried, lanes = self.block.shape.carried, self.lanes
        return carried.width * lanes, len(carried.extremes) * lanes

    @property
    def vector(self) -> tuple[int, int]:
        """Numbers and extremes of all states of one window."""
        carried, cells = self.block.shape.carried, self.lanes * len(self.block.shape.states)
        return carried.width * cells, len(carried.extremes) * cells


@dataclass(frozen=True)
class ReadyMachineLanes:
    """A group of queries as arrays of one machine: only the fold is left.

    cuts    by row, until rows are steps
    counts  how many bursts the fold found, and how many were more than one event
    """

    program: MachineProgram
    rows: StepRows
    cuts: LaneCuts
    parts: tuple[LanePart, ...]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The state of all lanes."""
        return int(state_bytes(self.program))

    @property
    def saved_at(self) -> list[tuple[int, int]]:
        """Where the saved vectors of each part begin, numbers and extremes, and where all end."""
        return _saved_at(self.parts)

    def over(self, items: Items) -> ReadyMachineLanes:
        """The same machine over other windows of its only kind."""
        parts = tuple(replace(part, items=len(items.low)) for part in self.parts)
        return replace(self, cuts=_cuts([items], {0: parts[0].block.windows}, parts), parts=parts)

    def work(self) -> tuple[Work, ...]:
        """The work of lanes for every kind of row."""
        symbol, kinds, start = self.rows.events.symbol, len(self.program.burst), self.program.op_start
        vectors = np.append(0, np.cumsum(self.program.place[:, VECTORS]))
        changes = np.concatenate([symbol[:1], symbol[1:][symbol[1:] != symbol[:-1]]])
        events, bursts = (np.bincount(each, minlength=kinds).tolist() for each in (symbol, changes))
        sizes = zip(np.diff(vectors[start]).tolist(), np.diff(start).tolist(), strict=True)
        return tuple(Work(*each) for each in zip(events, bursts, *zip(*sizes, strict=True), strict=False))

    def fold(self) -> tuple[Folded, ...]:
        """Per member the whole trends of its items."""
        return self.continue_from(no_vectors())[0]

    def fold_trends(self, orders: Sequence[NDArray[Any]]) -> tuple[LaneTrends, ...]:
        """Per member the items that have a trend, in the order that `orders` has for its kind of window."""
        out, _, is_wide = self._fold(no_vectors())
        found: dict[int, LaneTrends] = {}
        for part, results in self._by_part(out):
            found.update(zip(part.members, trends_by_lane(orders[part.which], results, is_wide), strict=True))
        return tuple(found[k] for k in range(len(found)))

    def continue_from(self, given: LaneVectors) -> tuple[tuple[Folded, ...], LaneVectors]:
        """The same for windows of which some are already open, and the vectors of those to be saved."""
        out, saved, is_wide = self._fold(given)
        found: dict[int, Folded] = {}
        for part, results in self._by_part(out):
            found.update(zip(part.members, turned_by_lane(results, is_wide), strict=True))
        return tuple(found[k] for k in range(len(found))), saved

    def fold_values(self) -> Folded:
        """Of one query with values of GROUP BY T.g as slots, and no extremes: [item and value, number]."""
        out, _, is_wide = self._fold(no_vectors())
        [(_, found)] = self._by_part(out)
        exponent = found.exponent if is_wide else np.zeros(found.exponent.shape, np.int32)
        m, e = _by_item(found.mantissa), _by_item(exponent)
        return Folded(m, e, np.zeros((len(m), 0)))

    def _fold(self, given: LaneVectors) -> tuple[LaneVectors, LaneVectors, bool]:
        """Results, saved vectors, and whether any result may have an exponent."""
        saved, out = no_vectors(*self.saved_at[-1]), room_for_results(*_results_at(self.parts)[-1])
        steps, step = self.rows.steps(self.program, self.cuts.step)
        cuts, mass = self.cuts._replace(step=step), no_mass(self.program)
        if len(steps.times):
            self.counts.update({"bursts": len(steps.times), "shared bursts": int((steps.times > 1).sum())})
        fold_in_lanes(steps, cuts, self.program, mass, given, saved, out)
        return out, saved, bool(mass.has_results[0])

    def _by_part(self, out: LaneVectors) -> Iterator[tuple[LanePart, LaneVectors]]:
        """The parts with results: [items, numbers, lanes]."""
        for part, (at, xat) in zip(self.parts, _results_at(self.parts), strict=False):
            if not part.has_results:
                continue
            carried = part.block.shape.carried
            shape = part.items, carried.width, part.lanes
            xshape = part.items, len(carried.extremes), part.lanes
            m, e = (each[at : at + prod(shape)].reshape(shape) for each in out[:2])
            yield part, LaneVectors(m, e, out.extreme[xat : xat + prod(xshape)].reshape(xshape))


def room_for_results(numbers: int, extremes: int) -> LaneVectors:
    """Room for results, which the fold fills."""
    sizes = (numbers, np.float64), (numbers, np.int32), (extremes, np.float64)
    return LaneVectors(*(empty(*size) for size in sizes))


def _results_at(parts: Sequence[LanePart]) -> list[tuple[int, int]]:
    """Where the results of each part begin, numbers and extremes, and where all end."""
    return _places((part.items, part.result) for part in parts)


def _given_at(parts: Sequence[LanePart]) -> list[tuple[int, int]]:
    """The same for the vectors that windows open with."""
    return _places((part.given, part.vector) for part in parts)


def _saved_at(parts: Sequence[LanePart]) -> list[tuple[int, int]]:
    """The same for the vectors that are saved."""
    return _places((part.saved, part.vector) for part in parts)


def _places(sizes: Iterable[tuple[int, tuple[int, int]]]) -> list[tuple[int, int]]:
    found = [(0, 0)]
    for count, (numbers, extremes) in sizes:
        found.append((found[-1][0] + count * numbers, found[-1][1] + count * extremes))
    return found


def _by_item(found: NDArray[Any]) -> NDArray[Any]:
    """[items, numbers, lanes] -> [items and lanes, numbers]"""
    return found.transpose(0, 2, 1).reshape(-1, found.shape[1])


_TURNED = 1 << 11
"""Items that are turned from windows to lanes at once: as many as fit into a core's cache."""


def _by_lane(found: NDArray[Any]) -> NDArray[Any]:
    """[items, numbers, lanes] -> [lanes, items, numbers]: what comes next reads lane by lane."""
    items, numbers, lanes = found.shape
    if not found.any():
        return np.zeros((lanes, items, numbers), found.dtype)
    turned = np.empty((lanes, items, numbers), found.dtype)
    for low in range(0, items, _TURNED):
        turned[:, low : low + _TURNED] = np.moveaxis(found[low : low + _TURNED], 2, 0)
    return turned


def turned_by_lane(results: LaneVectors, is_wide: bool) -> Iterator[Folded]:
    """The results of every lane of one part, which may have exponents if it `is_wide`."""
    if not is_wide:
        results = results._replace(exponent=np.zeros(results.exponent.shape, np.int32))
    return map(Folded, *map(_by_lane, results))


@dataclass(frozen=True)
class LaneTrends:
    """The items of a member that have a trend: places in the order of results, and aggregates."""

    at: NDArray[np.int32]
    folded: Folded


def trends_by_lane(order: NDArray[Any], results: LaneVectors, is_wide: bool) -> Iterator[LaneTrends]:
    """The items of every lane of one part that have a trend."""
    _, numbers, lanes = results.mantissa.shape
    count = np.zeros(lanes, np.int64)
    count_by_lane(results.mantissa, count)
    first = np.cumsum(count + 1) - count - 1  # the place after a lane's last is written, too
    size, extremes = int((count + 1).sum()), results.extreme.shape[1]
    at, m, x = empty(size, np.int32), empty((size, numbers), np.float64), empty((size, extremes), np.float64)
    e = (
        empty((size, numbers), np.int32)
        if is_wide
        else np.zeros((int(count.max(initial=0)), numbers), np.int32)
    )
    exponent = results.exponent if is_wide else results.exponent[:0]
    gather_by_lane(order, results.mantissa, exponent, results.extreme, first, at, m, e, x)
    for low, many in zip(first.tolist(), count.tolist(), strict=True):
        own = slice(low, low + many)
        yield LaneTrends(at[own], Folded(m[own], e[own if is_wide else slice(many)], x[own]))


def in_all_operands(parts: Sequence[LaneTrends]) -> tuple[NDArray[np.int32], tuple[Folded, ...]]:
    """The items in which every operand of a query has a trend, and the aggregates of each operand there."""
    if len(parts) == 1:
        return parts[0].at, (parts[0].folded,)
    at = reduce(partial(np.intersect1d, assume_unique=True), [part.at for part in parts])
    return at, tuple(at_rows(part.folded, np.searchsorted(part.at, at)) for part in parts)


MANY_MOMENTS = "events of one moment combine in too many ways"


@dataclass(frozen=True)
class StepRows:
    """The rows of queries with the values they carry, and how moments of several of them settle.

    settled   the ways in which they do, None if there are no such moments
    settling  per such moment which one
    value     int32[n]  the row's value of GROUP BY T.g, if these are slots
    """

    events: Events
    settled: NDArray[np.bool_] | None
    settling: NDArray[np.int32]
    value: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def obstacle(self) -> str:
        """Why these rows cannot be lanes; empty if they can."""
        return MANY_MOMENTS if self.settled is not None and len(self.settled) > MOST_MOMENTS else ""

    @cached_property
    def is_usual(self) -> bool:
        """See LaneSteps."""
        size = np.abs(self.events.values)
        return self.events.is_small and not bool(((size > 0.0) & (size < SMALLEST)).any())

    def steps(self, program: MachineProgram, row: NDArray[np.int64]) -> tuple[LaneSteps, NDArray[np.int64]]:
        """What is folded in which order, and the first step from each of some rows on; these are sorted."""
        if not len(self.settling) and not len(program.growth):
            none = np.zeros(0, np.int32)
            values = self.events.values, self.events.extremes, self.value, self.is_usual
            return LaneSteps(self.events.symbol, none, none, *values), row
        is_first = np.append(True, row[1:] != row[:-1]) if len(row) else np.zeros(0, np.bool_)
        edges = np.append(row[is_first], len(self.events.symbol))
        steps, step_of = _steps(self.events, self.value, program, self.settling, edges)
        return steps._replace(is_usual=self.is_usual), step_of[np.cumsum(is_first) - 1]


def step_rows(members: Sequence[LaneMember], events: Events, taken: Taken) -> StepRows:
    """The rows of some members; `taken` is what their kinds mean to each."""
    return StepRows(events, *_settled(events.symbol, events.moment, members, taken))


@dataclass(frozen=True)
class LaneMaterial:
    """A group of queries and its rows, before it is known how events are applied.

    windows  per kind of window; with `slots`, their items are those of all values
    """

    members: list[LaneMember]
    rows: StepRows
    taken: Taken
    windows: Sequence[Items]
    slots: LaneValues | None = None

    @property
    def obstacle(self) -> str:
        """Why these rows cannot be lanes; empty if they can."""
        return self.rows.obstacle

    @cached_property
    def in_bursts(self) -> ReadyMachineLanes:
        """The arrays of one machine that applies bursts at once."""
        return self.lower(in_bursts=True)

    def lower(self, in_bursts: bool, carry: Sequence[CarriedOver] = ()) -> ReadyMachineLanes:
        """The arrays of one machine; unusual values are not added up in bursts.

        carry  per kind of window, those that are already open and those to be saved
        """
        blocks, rows = blocks_of(self.members, self.taken), self.rows
        program = lower_machine_lanes(blocks, self.taken, rows.settled, in_bursts and rows.is_usual)
        parts = _parts(blocks, self.members, self.windows, carry)
        if self.slots is not None:
            return ReadyMachineLanes(program, rows, _value_cuts(self.slots, self, parts), parts)
        at_once = {member.which: member.windows for member in self.members}
        windows = self.windows if in_bursts or carry else [self._trimmed(items) for items in self.windows]
        return ReadyMachineLanes(program, rows, _cuts(windows, at_once, parts, carry), parts)

    def _trimmed(self, items: Items) -> Items:
        """Short windows, from the first event that may begin a member's trend to the last that may end one.

        Rows outside change nothing, unless a NOT or a duration is concerned; and moments must stay whole.
        """
        is_long = int((items.high - items.low).sum()) > _SHORT * len(items.low)
        if is_long or self.rows.settled is not None:
            return items
        if any(member.machine.automaton.guards or member.carried.elapsed for member in self.members):
            return items
        low, high = (empty(len(items.low), np.int64) for _ in range(2))
        begins, ends = self._edges()
        trim_windows(items.low, items.high, self.rows.events.symbol, begins, ends, low, high)
        return replace(items, low=low, high=high)

    def _edges(self) -> list[NDArray[np.bool_]]:
        """Which kinds of rows may begin, and which may end, a trend of any member."""
        automata, begin = [member.machine.automaton for member in self.members], self.taken.first.tolist()
        columns = (
            [at + p for at, own in zip(begin, ends, strict=False) for p in own]
            for ends in ([each.first for each in automata], [each.last for each in automata])
        )
        return [np.asarray(self.taken.is_taken[:, own].any(axis=1)) for own in columns]

    def lower_values(self, in_bursts: bool) -> ReadyMachineLanes:
        """One query with slots for values of GROUP BY T.g: those of a window open and close together."""
        ready = self.lower(in_bursts)
        values = np.array([block.values for block in blocks_of(self.members, self.taken)])
        block = ready.program.block.copy()
        block[:, STRIDE] *= values
        parts = tuple(replace(part, values=part.block.values) for part in ready.parts)
        return replace(ready, program=ready.program._replace(block=block), parts=parts).over(self.windows[0])


def lane_members(
    group: Group, window_of: Sequence[int], values: int = 0, at_once: Sequence[int] = ()
) -> list[LaneMember]:
    """All operands of the members of a group; `window_of` are the kinds of the members' windows.

    at_once  per kind of window how many may be open at once, where the query alone does not tell
    values   how many slots there are for values of GROUP BY T.g; 0 if these are no slots
    """
    found = []
    for plan, which in zip(group.members, window_of, strict=True):
        for operand in plan.operands:
            own = (
                operand.machine.automaton.called(plan.qualified_keys[0].alias or "") if values else NO_SYMBOL
            )
            windows = at_once[which] if at_once else windows_at_once(plan)
            found.append(LaneMember(operand.machine, operand.carried, windows, which, own, max(1, values)))
    return found


def lane_material(group: Group, together: LaneRows) -> LaneMaterial:
    """The members of a group with the values of their rows."""
    slots = together.slots
    values = 0 if slots is None else slots.values.most
    members = lane_members(group, together.window_of, values, open_windows(group, together))
    rows = step_rows(members, together.events(union(m.carried for m in members)), together.taken)
    if slots is not None:
        rows = replace(rows, value=slots.values.slot)
    return LaneMaterial(members, rows, together.taken, together.windows, slots)


# ---- Moments of several events ------------------------------------------------------------------------


def _steps(
    events: Events,
    value: NDArray[np.int32],
    program: MachineProgram,
    which: NDArray[np.int32],
    edges: NDArray[np.int64],
) -> tuple[LaneSteps, NDArray[np.int64]]:
    """What is folded in which order, and the first step after each edge.

    which  per moment of several events how it settles
    edges  the rows before which windows close or open, sorted, and the number of rows
    """
    rows, kinds = len(events.symbol), len(program.burst)
    has_ops = (np.diff(program.op_start) > 0) | (np.diff(program.x_start) > 0)
    phases = 1 + len(PHASES) if len(which) else 1
    most = rows * len(PHASES) + len(which) if len(which) else rows
    lists, row, times = (empty(most, np.int32) for _ in range(3))
    step_of = np.empty(len(edges), np.int64)
    count = line_up(
        events.symbol,
        events.moment,
        edges,
        which,
        has_ops[: kinds * phases].reshape(-1, kinds),
        program.burst,
        lists,
        row,
        times,
        step_of,
    )
    steps = LaneSteps(lists[:count], row[:count], times[:0], events.values, events.extremes, value, True)
    return (_in_bursts(steps, times[:count]) if len(program.growth) else steps), step_of


def _in_bursts(steps: LaneSteps, times: NDArray[np.int32]) -> LaneSteps:
    """Steps of several events, with their values added up."""
    columns = steps.values.shape[1]
    sums = empty((len(times), columns + (columns > 0)), np.float64)
    least = empty((len(times), steps.extremes.shape[1]), np.float64)
    if columns or least.shape[1]:
        add_up_bursts(steps.row, times, steps.values, sums, steps.extremes, least)
    value = steps.value[steps.row] if len(steps.value) else steps.value
    return steps._replace(row=steps.row[:0], times=times, values=sums, extremes=least, value=value)


def _settled(
    symbol: NDArray[np.int32], moment: NDArray[np.int32], members: Sequence[LaneMember], taken: Taken
) -> tuple[NDArray[np.bool_] | None, NDArray[np.int32]]:
    """The sets of positions that moments of several events take, where they matter, and which each takes."""
    if not len(symbol) or int(moment[-1]) + 1 == len(symbol):
        return None, np.zeros(0, np.int32)
    same = moment[1:] == moment[:-1]
    columns = settling_columns(blocks_of(members, taken), taken)
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


@dataclass(frozen=True)
class CarriedOver:
    """Windows of one kind that are open before these rows, or stay open after them.

    loaded  int64[items]  which of the given vectors a window begins with; -1 if it begins here
    saved   bool[items]   whether a window's vector is saved at its end
    """

    loaded: NDArray[np.int64]
    saved: NDArray[np.bool_]

    @property
    def given(self) -> int:
        """How many vectors there are at least."""
        return int(self.loaded.max(initial=-1)) + 1

    @property
    def places(self) -> NDArray[np.int64]:
        """The vectors that windows begin with."""
        return self.loaded[self.loaded >= 0]


def _parts(
    blocks: list[Block], members: list[LaneMember], windows: Sequence[Items], carry: Sequence[CarriedOver]
) -> tuple[LanePart, ...]:
    found = []
    for number, block in enumerate(blocks):
        lane = 0
        for which in dict.fromkeys(members[k].which for k in block.members):
            own = tuple(k for k in block.members if members[k].which == which)
            kept = (carry[which].given, int(carry[which].saved.sum())) if carry else (0, 0)
            found.append(LanePart(number, block, own, which, lane, len(windows[which].low), *kept))
            lane += len(own)
    return tuple(found)


def _value_cuts(slots: LaneValues, material: LaneMaterial, parts: Sequence[LanePart]) -> LaneCuts:
    """Where windows close and open if values of GROUP BY T.g are slots.

    Windows of what has not passed T are kinds of their own, after the others.
    """
    at_once = {member.which: member.windows for member in material.members}
    kinds, values = len(at_once), slots.values.most
    cut = []
    for which in sorted(at_once):
        items, windows = material.windows[which], at_once[which]
        slot = np.mod(items.index, windows) * values + slots.values.places(slots.windows[which])
        cut.append(_cuts_of(items, slot, which))
        shared = slots.windows[which]
        cut.append(_cuts_of(shared, np.mod(shared.index, windows), kinds + which))
    row, is_open, kind, slot, item = (np.concatenate(column) for column in zip(*cut, strict=True))
    order = np.argsort(2 * row + is_open, kind="stable")
    columns = row[order], is_open[order].astype(np.bool_), kind[order], slot[order], item[order]
    return LaneCuts(*columns, np.zeros(0, np.int64), *_part_table(parts, kinds))


def _cuts(
    windows: Sequence[Items],
    at_once: Mapping[int, int],
    parts: Sequence[LanePart],
    carry: Sequence[CarriedOver] = (),
) -> LaneCuts:
    """Where windows close and open, by row; of each kind so many are open at once."""
    if len(windows) == 1 and not carry and (merged := _merged_cuts(windows[0], at_once[0])) is not None:
        row, is_open, slot, item = merged
        none = np.zeros(0, np.int64)
        return LaneCuts(row, is_open, np.zeros(len(row), np.int64), slot, item, none, *_part_table(parts))
    slots = {
        which: _slots_of(windows[which], at_once[which], by_index=bool(carry)) for which in sorted(at_once)
    }
    cut = [_cuts_of(windows[which], slot, which) for which, slot in slots.items()]
    row, is_open, kind, slot, item = (np.concatenate(column) for column in zip(*cut, strict=True))
    vector = np.concatenate([_vectors_of(carry[which]) for which in sorted(at_once)]) if carry else None
    is_empty = np.concatenate([np.tile(each.low == each.high, 2) for each in windows])
    order = _order(row, is_open, item, is_empty)
    return LaneCuts(
        row[order],
        is_open[order].astype(np.bool_),
        kind[order],
        slot[order],
        item[order],
        np.zeros(0, np.int64) if vector is None else vector[order],
        *_part_table(parts),
    )


def _merged_cuts(items: Items, windows: int) -> tuple[NDArray[Any], ...] | None:
    """Row, whether it opens, slot and item of every cut, where windows begin and end in order."""
    many = 2 * len(items.low)
    row, slot, item = (empty(many, np.int64) for _ in range(3))
    is_open = empty(many, np.bool_)
    slot_of = np.mod(np.arange(len(items.low)), windows)
    is_done = merge_cuts(items.low, items.high, slot_of, row, is_open, slot, item)
    return (row, is_open, slot, item) if is_done else None


def _order(
    row: NDArray[np.int64], is_open: NDArray[np.int64], item: NDArray[np.int64], is_empty: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Closing comes first, then the next window takes the slot; windows without a row do both in between."""
    if not is_empty.any():
        return np.argsort(2 * row + is_open, kind="stable")
    return np.lexsort((-is_open, np.where(is_empty, item, 0), 3 * row + np.where(is_empty, 1, 2 * is_open)))


def _part_table(parts: Sequence[LanePart], kinds: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`part_start` and `part` of LaneCuts; parts without results have kinds of windows from `kinds` on."""
    out, given, saved = _results_at(parts), _given_at(parts), _saved_at(parts)
    table = []
    for i, p in enumerate(parts):
        which, at = (p.which, out[i]) if p.has_results else (kinds + p.which, (-1, -1))
        start = p.block.shape.start if p.block.before is None else -1
        table.append((which, p.number, p.lane, p.lanes, start, *at, *given[i], *saved[i]))
    found = np.array(sorted(table), np.int64)
    return np.searchsorted(found[:, 0], np.arange(found[-1, 0] + 2)).astype(np.int64), found[:, 1:].copy()


def _cuts_of(items: Items, slot_of: NDArray[np.int64], which: int) -> tuple[NDArray[np.int64], ...]:
    """Two cuts per item: windows open at once have different slots, and a later one takes a free slot."""
    count = len(items.low)
    row = np.concatenate([items.low, items.high]).astype(np.int64)
    is_open = np.repeat(np.array([1, 0], np.int64), count)
    slot = np.tile(slot_of, 2).astype(np.int64)
    return row, is_open, np.full(2 * count, which, np.int64), slot, np.tile(np.arange(count), 2)


def _slots_of(items: Items, windows: int, by_index: bool) -> NDArray[np.int64]:
    """The slot of each window, of which so many are open at once.

    Where windows begin and end in order they take turns; sliding windows may also do so by their index.
    """
    in_order = is_sorted(items.low) and is_sorted(items.high) and bool((items.low < items.high).all())
    return np.mod(items.index if by_index or not in_order else np.arange(len(items.low)), windows)


def _vectors_of(carried: CarriedOver) -> NDArray[np.int64]:
    """The vectors of both cuts of every item, in the order of `_cuts_of`."""
    number = np.where(carried.saved, np.cumsum(carried.saved) - 1, -1)
    return np.concatenate([carried.loaded, number]).astype(np.int64)
