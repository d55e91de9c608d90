"""Fold sequences: the rows of a group -> counters and snapshots, or stacks -> aggregates per member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.program import Events, Folded
from trendfold.papers.aseq import kernel as kernels
from trendfold.papers.aseq.lower import lower_prefixes
from trendfold.papers.aseq.marks import Marked, PrefixProgram, Stops
from trendfold.papers.aseq.prefixes import ExpiryFamily
from trendfold.papers.aseq.stack_kernel import build_sequences
from trendfold.papers.aseq.stacks import lower_stacks, no_sequences
from trendfold.plan import Group
from trendfold.plan.carried import Carried, union
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.limits import Limits
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import Items

_PLAIN_BITS = 900
"""Numbers below two to this power are plain doubles: their sums and means stay finite."""


def fold_lines(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """Fold every member's window items: one pass over the rows per family of windows."""
    return _fold_families(group, together, limits, _count_prefixes)


def fold_sequences(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """The same by building sequences (E-Cube)."""
    return _fold_families(group, together, limits, _count_sequences)


@dataclass(frozen=True)
class FamilyRows:
    """What the queries of one family read: events, and windows ordered by their ends."""

    family: ExpiryFamily
    carried: Sequence[Carried]
    columns: Carried
    together: GroupRows
    events: Events
    items: Sequence[Items]
    names: str

    def stops(self, links: int) -> Stops:
        """The windows, with joints numbered from `links` on."""
        own = [self.carried[reading.member] for reading in self.family.readings]
        return stops_of(
            self.items,
            [each.width for each in own],
            [len(each.extremes) for each in own],
            links,
            len(self.events.symbol),
        )


def _fold_families(
    group: Group,
    together: GroupRows,
    limits: Limits,
    count: Callable[[FamilyRows, Limits, Folded], None],
) -> tuple[Folded, ...]:
    carried = [member.operands[0].carried for member in group.members]
    columns = union(carried)
    events = together.events(columns)
    found: dict[int, Folded] = {}
    for family in group.details.families:
        members = [reading.member for reading in family.readings]
        items = [together.items[member] for member in members]
        names = ", ".join(group.members[member].query.name for member in members)
        shapes = [(len(own.low), carried[m]) for m, own in zip(members, items, strict=True)]
        flat = no_trends(
            1, sum(n * own.width for n, own in shapes), sum(n * len(own.extremes) for n, own in shapes)
        )
        out = Folded(flat.mantissa[0], flat.exponent[0], flat.extreme[0])
        count(FamilyRows(family, carried, columns, together, events, items, names), limits, out)
        found |= dict(zip(members, _apart(out, shapes), strict=True))
    return tuple(found[member] for member in range(len(group.members)))


def _apart(out: Folded, shapes: Sequence[tuple[int, Carried]]) -> Iterator[Folded]:
    """The results of each query: a row per item."""
    at, low_at = 0, 0
    for n, own in shapes:
        numbers, lows = slice(at, at + n * own.width), slice(low_at, low_at + n * len(own.extremes))
        yield Folded(
            out.mantissa[numbers].reshape(n, own.width),
            out.exponent[numbers].reshape(n, own.width),
            out.extreme[lows].reshape(n, len(own.extremes)),
        )
        at, low_at = numbers.stop, lows.stop


def _count_prefixes(rows: FamilyRows, limits: Limits, out: Folded) -> None:
    events, segment = rows.events, rows.together.rows.segment
    program = lower_prefixes(rows.family, rows.carried, rows.columns, rows.together.alphabet)
    stops = rows.stops(program.links)
    marks = kernels.most_marks(events.symbol, events.moment, segment, stops, program)
    longest = max(len(reading.positions) for reading in rows.family.readings)
    wide = is_wide(longest, events, rows.items)
    limits.check_state(rows.names, state_bytes(program, marks, wide=wide), "prefix counters and snapshots")
    state = no_marks(program, marks, wide=wide)
    kernels.fold_prefixes(events, segment, stops, program, state, out)


_ROOM = 1 << 10
"""Sequences for which there is room at first."""


def _count_sequences(rows: FamilyRows, limits: Limits, out: Folded) -> None:
    program = lower_stacks(rows.family, rows.carried, rows.columns, rows.together.alphabet)
    built = build_sequences(
        rows.events,
        rows.together.rows.segment,
        rows.stops(0),
        program,
        no_sequences(program, _ROOM),
        limits.trends,
        out,
    )
    limits.check_trends(rows.names, built)


def stops_of(
    items: Sequence[Items], widths: Sequence[int], extremes: Sequence[int], links: int, rows: int
) -> Stops:
    """The window items of all readings, ordered by their ends."""
    low = np.concatenate([own.low for own in items])
    high = np.concatenate([own.high for own in items])
    sizes = [len(own.low) for own in items]
    order = np.argsort(high, kind="stable")
    some = low < high
    order = order[some[order]]
    edge = np.full(rows, -1, np.int64)
    floor = np.full(rows + 1, rows, np.int64)
    edge[low[some]] = low[some]
    np.minimum.at(floor, high[some] - 1, low[some])
    return Stops(
        low[order],
        high[order],
        (links + np.repeat(np.arange(len(items)), sizes))[order].astype(np.int32),
        _places(sizes, widths)[order],
        _places(sizes, extremes)[order],
        np.maximum.accumulate(edge),
        np.minimum.accumulate(floor[::-1])[::-1],
    )


def _places(sizes: Sequence[int], widths: Sequence[int]) -> NDArray[np.int64]:
    """The offset of each item's numbers, with all items of a reading contiguous."""
    each = np.repeat(np.array(widths, np.int64), sizes)
    return np.cumsum(each) - each


def is_wide(longest: int, events: Events, items: Sequence[Items]) -> bool:
    """Whether a number may exceed the range of doubles.

    A window of n rows has at most n^longest trends, and each adds at most `longest` times the largest value.
    """
    most = max((int((own.high - own.low).max(initial=0)) for own in items), default=0)
    largest = max(events.values.max(initial=1.0), -events.values.min(initial=-1.0))
    return longest * log2(most + 1) + log2(longest) + log2(largest) > _PLAIN_BITS


def state_bytes(program: PrefixProgram, marks: NDArray[np.int64], *, wide: bool) -> int:
    """The size of the state made by `no_marks`, in bytes."""
    number = 12 if wide else 8
    columns = _columns(marks)
    counters = columns * (number * int(program.entry_start[-1]) + 8 * int(program.low_start[-1]))
    tags, slots = _tables(program, marks)
    outs = (
        np.diff(program.out_start)[: program.links] * number
        + np.diff(program.low_out_start)[: program.links] * 8
    )
    return counters + int((tags * slots * outs).sum())


def no_marks(program: PrefixProgram, marks: NDArray[np.int64], *, wide: bool) -> Marked:
    """Empty state with room for `marks` active marks per tree."""
    columns, trees, links = _columns(marks), len(marks), program.links
    entries, lows = int(program.entry_start[-1]), int(program.low_start[-1])
    tags, slots = _tables(program, marks)
    outs, low_outs = np.diff(program.out_start)[:links], np.diff(program.low_out_start)[:links]
    snap_at = _offsets(np.repeat(tags * slots, outs))
    low_at = _offsets(np.repeat(tags * slots, low_outs))
    most_slots = int(slots.max(initial=0))
    none = np.full(trees, -1, np.int64)
    return Marked(
        mantissa=np.zeros((entries, columns)),
        exponent=np.zeros((entries, columns if wide else 0), np.int32),
        least=np.full((lows, columns), np.inf),
        begin=np.zeros((trees, columns), np.int64),
        barred=np.zeros((trees, columns), np.int64),
        head=np.zeros(trees, np.int64),
        tail=np.zeros(trees, np.int64),
        base=np.zeros(trees, np.int64),
        born=none.copy(),
        taken=none.copy(),
        closed=none.copy(),
        ends=np.zeros((links, most_slots), np.int64),
        snap_at=snap_at[:-1],
        snap=np.zeros(int(snap_at[-1])),
        snap_exponent=np.zeros(int(snap_at[-1]) if wide else 0, np.int32),
        low_at=low_at[:-1],
        low_snap=np.full(int(low_at[-1]), np.inf),
        tags=tags,
        slots=slots,
        is_wide=wide,
    )


def _columns(marks: NDArray[np.int64]) -> int:
    """Twice the number of active marks: they are compacted to the front when the columns are full."""
    return 2 * int(marks.max(initial=0)) + 1


def _tables(program: PrefixProgram, marks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each link, the rows of a snapshot (one per START event), and how many snapshots are stored."""
    room = 8 << np.ceil(np.log2(np.maximum(marks, 8) / 8)).astype(np.int64)
    into = np.empty(program.links, np.int64)
    into[program.join] = np.repeat(np.arange(len(marks)), np.diff(program.join_start))
    return room[program.origin[: program.links]], room[into]


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


FOLDS = {"aseq": fold_lines, "ecube": fold_sequences}
