"""Final events of a shard -> vectors of open windows, and aggregates of ended ones.

Events before some time are *final* once no earlier event can arrive any more. They are folded once, for all
queries of a group together. Where a segment has so few events that they are smaller than its vectors, they
are kept as they are, and folded when their windows end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.errors import LimitError, TrendfoldError
from trendfold.kernel.program import Folded
from trendfold.plan.fold_steps import FoldStep
from trendfold.plan.neighbour import compared_values
from trendfold.plan.physical import Online, why_apart
from trendfold.plan.stream_choices import (
    most_raw_rows,
    most_raw_rows_per_value,
    most_values,
    must_weigh,
    pays_settling,
    pays_vectors,
)
from trendfold.query.nodes import Semantics
from trendfold.runtime.empty_rows import have_takers
from trendfold.runtime.folds.continued_lanes import Family, WindowVectors, fold_on
from trendfold.runtime.folds.in_machine_lanes import CarriedOver
from trendfold.runtime.lane_rows import LaneRows, read_by, read_lane_rows
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.release import NEVER
from trendfold.runtime.request import Request
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.group_streams import GroupStreams
from trendfold.runtime.stream.neighbours import read_neighbour_rows
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.open_bindings import OpenBindings, SegmentBindings
from trendfold.runtime.stream.open_windows import EndedWindows, OpenWindows, SegmentVectors, some_rows
from trendfold.runtime.stream.parcels import stretches
from trendfold.runtime.stream.segments import SegmentKeys, examples, keys_of, segment_codes
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, StatePart, Store
from trendfold.runtime.stream.stream_job import StreamJob
from trendfold.runtime.values import require_codes
from trendfold.runtime.windows import Asked, Items, bounds
from trendfold.runtime.workspace import Workspace

Mask = NDArray[np.bool_]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RawEvents:
    """Events that have arrived and are not stored yet."""

    low: int
    high: int
    rows: int
    payload: bytes


def is_worth_settling(
    stream: StreamJob, index: ShardIndex, exchange: int, arrived: Sequence[RawEvents], until: int
) -> bool:
    """Whether enough events are final to fold them now; without vectors, whether to weigh them."""
    if not has_vectors(stream, index, exchange) and not _has_grown(stream, index, exchange, arrived):
        return False
    states = [index.groups[g.name] for g in stream.online[exchange] if g.name in index.groups]
    vectors = sum(part.rows for state in states for part in state.open)
    bindings = sum(part.rows for state in states for part in state.kept)
    stored = [p for p in index.own(exchange) if not p.is_settled and p.low < until]
    parts: list[StatePart | RawEvents] = [*stored, *arrived]
    final = sum(_final_rows(part, until) for part in parts)
    return pays_settling(final, sum(part.rows for part in stored), vectors, bindings)


def has_vectors(stream: StreamJob, index: ShardIndex, exchange: int) -> bool:
    """Whether any segment of an exchange has vectors."""
    names = (group.name for group in stream.online[exchange])
    return any(index.groups[name].segments for name in names if name in index.groups)


def _final_rows(part: StatePart | RawEvents, until: int) -> float:
    """How many events of a part are before a time, if they are spread evenly."""
    share = (until - part.low) / (part.high - part.low + 1)
    return part.rows * min(1.0, max(0.0, share))


def settle(
    stream: StreamJob,
    store: Store,
    index: ShardIndex,
    exchange: int,
    arrived: Sequence[RawEvents],
    until: int,
) -> Iterator[Blob]:
    """Fold the events of an exchange before a time, and store the others."""
    weighs = _has_grown(stream, index, exchange, arrived)
    old = [p for p in index.own(exchange) if p.is_settled and weighs]
    taken = [p for p in index.own(exchange) if not p.is_settled and p.low < until]
    for later in (part for part in arrived if part.low >= until):
        index.add(store, exchange, later.low, later.high, later.rows, later.payload)
    payloads = [store.get(p.number) for p in (*old, *taken)]
    payloads += [part.payload for part in arrived if part.low < until]
    index.read += sum(p.rows for p in (*old, *taken))
    every = _read_events(stream, exchange, payloads)
    row_bytes = _row_bytes(payloads, len(every.batch)) if weighs else None
    groups = [Settling(stream, store, index, exchange, group) for group in stream.online[exchange]]
    if (
        row_bytes is not None
        and not has_vectors(stream, index, exchange)
        and not any(settling.has_heavy(every, row_bytes) for settling in groups)
    ):
        for part in (part for part in arrived if part.low < until):
            index.add(store, exchange, part.low, part.high, part.rows, part.payload)
        index.weighed[exchange] = index.raw_bytes(exchange)
        return
    index.remove(store, (*old, *taken))
    final = _final_events(stream, store, index, exchange, every, until)
    is_new = np.arange(len(final.batch)) >= sum(p.rows for p in old)
    kept = np.full(len(is_new), stream.needs_events(exchange))
    for settling in groups:
        try:
            started = perf_counter()
            kept |= settling.fold(final, is_new, row_bytes, until)
            settling.close(until)
            yield settling.step(len(is_new), perf_counter() - started)
        except TrendfoldError as error:
            yield tasks.failure(settling.group.queries[0], error)
    store_events(stream, store, index, exchange, final, kept, is_settled=True)
    if weighs:
        index.weighed[exchange] = index.raw_bytes(exchange)
    index.settled[exchange] = until


def _has_grown(stream: StreamJob, index: ShardIndex, exchange: int, arrived: Sequence[RawEvents]) -> bool:
    """Whether it is time to weigh raw events again."""
    now = index.raw_bytes(exchange) + sum(len(part.payload) for part in arrived)
    by_value = all(group.compares for group in stream.online[exchange])
    return must_weigh(now, index.weighed.get(exchange), by_value)


_PART_BYTES = 1_200
"""About what a part takes without any events."""


def _row_bytes(payloads: Sequence[bytes], rows: int) -> float:
    """The size of an event."""
    return max(1.0, sum(len(payload) - _PART_BYTES for payload in payloads) / max(1, rows))


def _read_events(stream: StreamJob, exchange: int, payloads: Sequence[bytes]) -> Workspace:
    if not payloads:
        return Workspace(stream.job.nothing)
    return tasks.gather(stream.job, exchange, [layout.from_bytes(payload) for payload in payloads])


def _final_events(
    stream: StreamJob, store: Store, index: ShardIndex, exchange: int, every: Workspace, until: int
) -> Workspace:
    """The events before a time; the others are stored."""
    is_final = every.batch.time < until
    if is_final.all():
        return every
    store_events(stream, store, index, exchange, every, ~is_final, is_settled=False)
    return tasks.subset(every, is_final, stream.job.exchanges[exchange].conditions)


def store_events(
    stream: StreamJob,
    store: Store,
    index: ShardIndex,
    exchange: int,
    workspace: Workspace,
    kept: Mask,
    is_settled: bool,
) -> None:
    """Store some events raw, by time range, so that they can be dropped in time."""
    if not kept.any():
        return
    time = workspace.batch.time[kept]
    table = workspace.batch.table.filter(pa.array(kept))
    which, ranges = stretches(time, stream.pane(stream.job.exchanges[exchange]), stream.job.origin)
    for number in range(ranges):
        own = which == number
        if own.any():
            part, times = table.filter(pa.array(own)), time[own]
            payload = layout.to_bytes(part)
            span = int(times.min()), int(times.max())
            index.add(store, exchange, *span, part.num_rows, payload, is_settled)


# ---------------------------------------------------------------- one group


class Settling:
    """The state of one group of queries in one shard, while it changes."""

    def __init__(
        self, stream: StreamJob, store: Store, index: ShardIndex, exchange: int, group: OnlineGroup
    ) -> None:
        self.job, self.group, self.released = stream.job, group, index.released
        self.exchange = exchange
        self.conditions = stream.job.exchanges[exchange].conditions
        self.state = index.groups.setdefault(group.name, GroupState())
        self.keys = SegmentKeys(group, self.state, index, store, stream.job)
        self.windows = OpenWindows(group, self.state, index, store, stream.job.origin)
        self.windows.forget_others()
        self.bindings = OpenBindings(group, self.state, index, store, stream.job.origin)

    def fold(self, workspace: Workspace, is_new: Mask, row_bytes: float | None, until: int) -> Mask:
        """Fold the new events of segments that have vectors; which events must be kept for the others.

        row_bytes  the size of an event; if given, segments with many events get vectors now, and all of
                   their events are here
        """
        if not len(workspace.batch):
            return np.zeros(0, np.bool_)
        code, distinct = segment_codes(self.group, workspace)
        present, example = examples(code, distinct)
        keys = keys_of(self.group, workspace.batch.table, example)
        number, is_fresh = np.full(distinct + 1, -1, np.int64), np.zeros(distinct + 1, np.bool_)
        number[present] = self.keys.find(keys)
        if row_bytes is not None:
            fresh = self._heavy(workspace, code, number, row_bytes)[present]
            if fresh.any():
                number[present[fresh]] = self.keys.add(keys.filter(pa.array(fresh)))
                is_fresh[present[fresh]] = True
        segment = number[code]
        is_folded = (segment >= 0) & (is_new | is_fresh[code])
        if is_folded.any():
            self._fold_some(workspace, segment, is_folded, until)
        return (code >= 0) & (segment < 0)

    def has_heavy(self, workspace: Workspace, row_bytes: float) -> bool:
        """Whether any segment should get vectors, where none has any."""
        if not len(workspace.batch):
            return False
        code, distinct = segment_codes(self.group, workspace)
        return bool(self._heavy(workspace, code, np.full(distinct + 1, -1), row_bytes).any())

    def _heavy(self, workspace: Workspace, code: Longs, number: Longs, row_bytes: float) -> Mask:
        """The segments without vectors that get them now: their events are larger than vectors.

        None does unless they have half of the raw events: the others would stay anyway.
        """
        distinct = len(number) - 1
        rows = np.bincount(code[code >= 0], minlength=distinct) * (number[:-1] < 0)
        most = most_raw_rows(self.group.numbers, row_bytes, self.group.overlap)
        if self.group.compares:
            found = rows > most + self._bindings(workspace, code, distinct) * self._per_binding(row_bytes)
        else:
            values = self._values(workspace, code, distinct)
            found = (rows > most * (1 + values)) & (values <= most_values(self.group.overlap))
        return found if pays_vectors(rows[found].sum(), rows.sum()) else np.zeros(distinct, np.bool_)

    def _values(self, workspace: Workspace, code: Longs, distinct: int) -> Longs:
        """How many values of GROUP BY T.g each segment has."""
        if not self.group.qualified:
            return np.zeros(distinct, np.int64)
        names = tuple(key.attribute for key in self.group.qualified)
        types = [name in self.group.qualified_types for name in workspace.batch.type_names]
        own = np.array(types)[workspace.batch.type_code] & (code >= 0)
        return self._distinct(workspace, code, names, own, distinct)

    def _distinct(
        self, workspace: Workspace, code: Longs, names: tuple[str, ...], own: Mask, distinct: int
    ) -> Longs:
        """How many values of some attributes each segment has among some events."""
        value, many = workspace.partition((), names)
        values = value[own] if len(value) else np.zeros(int(own.sum()), np.int64)
        pairs = np.unique(code[own] * many + values)
        return np.bincount(pairs // many, minlength=distinct)

    def _per_binding(self, row_bytes: float) -> float:
        """How many events a binding must stand for."""
        numbers = sum(self.bindings.family.entry) * self.group.overlap
        return most_raw_rows_per_value(numbers, row_bytes, self.group.overlap)

    def _bindings(self, workspace: Workspace, code: Longs, distinct: int) -> Longs:
        """At most how many bindings each segment keeps, if its windows hold all of these events.

        Under *contiguous* they are those of the last moment, so all but a few events go.
        """
        (operand,) = self.group.plans[0].operands
        if operand.machine.semantics is Semantics.CONTIGUOUS:
            return np.ones(distinct, np.int64)
        return self._distinct(workspace, code, compared_values(operand.machine), code >= 0, distinct)

    def close(self, until: int) -> None:
        """End the windows that end by a time, and write what has changed."""
        self.windows.close(until)
        self.windows.write()
        if self.group.compares:
            self.bindings.close(until)
            self.bindings.write()
        if not self.state.windows and len(self.keys):
            self.keys.keep(np.zeros(0, np.int64))
        self.keys.write()

    def step(self, rows: int, seconds: float) -> Blob:
        """What was done, for progress reports."""
        names = tuple(plan.query.name for plan in self.group.plans)
        step = FoldStep(
            names, Online(_WHY_BINDINGS if self.group.compares else _WHY), rows, seconds, self.state.bytes
        )
        return tasks.step_blob(self.group.queries[0], step)

    def _fold_some(self, workspace: Workspace, segment: Longs, chosen: Mask, until: int) -> None:
        some = workspace if chosen.all() else tasks.subset(workspace, chosen, self.conditions)
        self._fold(some, segment[chosen], until)

    def _fold(self, workspace: Workspace, segment: Longs, until: int) -> None:
        """Fold events into the windows that hold them; `segment` is the number of each event's segment."""
        asked = Asked(self.released, NEVER, self.group.since)
        request = Request(self.job.origin, self.job.limits, self.job.arithmetic, asked)
        if self.group.compares:
            self._fold_neighbours(workspace, segment, until, request)
            return
        streams = self._streams(workspace, segment) if self.group.qualified else None
        try:
            split = None if streams is None else streams.split
            together, known = read_lane_rows(self.group.group, workspace, request, split)
        except LimitError as error:
            self._fold_halves(workspace, segment, until, error)
            return
        if together is None:
            self._fold_halves(workspace, segment, until, self._error(why_apart(self.group.group, known)))
            return
        self._require_codes(workspace, together.rows)
        of = segment[together.rows.row[together.rows.segment[:-1]]] if streams is None else streams.number
        carried = [
            self._carried(kind, items, of, streams, until, self._takers(kind, together, items))
            for kind, items in enumerate(together.windows)
        ]
        given = [carried[family.which].held.vectors[f] for family, f in self._places()]
        found, why = fold_on(self.group.group, together, given, [each.carry for each in carried])
        if found is None:
            self._fold_halves(workspace, segment, until, self._error(why))
            return
        for kind, each in enumerate(carried):
            vectors = [
                v
                for v, family in zip(found.vectors, self.group.families, strict=True)
                if family.which == kind
            ]
            results = [found.results[k] for k in self.group.operands(kind)]
            each.hand_over(self.windows, kind, vectors, results)

    def _takers(self, kind: int, together: LaneRows, items: Items) -> Mask:
        """Per window and member with INCLUDE EMPTY whether an event can take one of its positions."""
        found = np.zeros((len(items.low), len(self.group.including_empty(kind))), np.bool_)
        for at, k in enumerate(self.group.including_empty(kind)):
            own = read_by(together.rows, together.taken, self.group.operands_of(k))
            found[:, at] = have_takers(self.group.plans[k], own, items)
        return found

    def _fold_neighbours(self, workspace: Workspace, segment: Longs, until: int, request: Request) -> None:
        """The same for a query that compares neighbours."""
        plan, every = self.group.plans[0], self.bindings.get(workspace.batch.table)
        is_here = np.isin(every.segment, segment)
        try:
            rows = read_neighbour_rows(
                plan, every.of(is_here), partial(self._before, workspace), segment, request
            )
            self._require_codes(rows.workspace, rows.rows)
            carried = self._carried(0, rows.items, rows.of, None, until, rows.takers())
            carry, held = carried.carry, carried.held
            found = rows.fold(self.bindings.family, carry.loaded, held.vectors[0], carry.saved)
        except LimitError as error:
            self._fold_halves(workspace, segment, until, error)
            return
        self.bindings.set(every.of(~is_here).and_more(rows.bindings(found)))
        carried.hand_over(self.windows, 0, [found.vectors], [found.result])

    def _before(self, workspace: Workspace, kept: SegmentBindings) -> Workspace:
        """Events with some representatives before them."""
        if not len(kept.segment):
            return workspace
        return tasks.gather(self.job, self.exchange, [kept.events, workspace.batch.table])

    def _require_codes(self, workspace: Workspace, rows: Rows) -> None:
        for name in self.group.compared:
            column = workspace.batch.column(name).take(rows.row)
            require_codes(self.group.plans[0].query.name, name, column)

    def _places(self) -> Iterator[tuple[Family, int]]:
        """The families, each with its place among those of its kind."""
        for family in self.group.families:
            yield family, self.group.of_kind(family.which).index(family)

    def _streams(self, workspace: Workspace, segment: Longs) -> GroupStreams:
        """The streams of GROUP BY T.g."""
        is_open = self.windows.held(len(self.keys))
        return GroupStreams(self.keys, workspace, segment, is_open, self.job.limits)

    def _carried(
        self, kind: int, items: Items, of: Longs, streams: GroupStreams | None, until: int, takers: Mask
    ) -> _Carried:
        """Which windows go on from stored vectors, and which are kept as vectors."""
        segment, held = of[items.segment], self.windows.get(kind)
        place = held.find(items.index, segment)
        saved = bounds(self.group.windows[kind], items.index, self.job.origin)[1] > until
        loaded = place
        if streams is not None:
            base = held.find(items.index, streams.base(segment))
            loaded = np.where(place >= 0, place, base)
            saved &= (place >= 0) | streams.begin(items)
        takers[place >= 0] |= held.takers[place[place >= 0]]
        return _Carried(CarriedOver(loaded, saved), items.index, segment, place, held, takers)

    def _error(self, why: str) -> TrendfoldError:
        return TrendfoldError(f"query {self.group.plans[0].query.name!r}: {why}")

    def _fold_halves(self, workspace: Workspace, segment: Longs, until: int, error: TrendfoldError) -> None:
        """Fold events in two steps, where they are too many or too different for one."""
        time = workspace.batch.time
        low, high = int(time.min()), int(time.max())
        if low < high:
            middle = low + (high - low + 1) // 2
            self._fold_some(workspace, segment, time < middle, min(middle, until))
            self._fold_some(workspace, segment, time >= middle, until)
        elif segment.min() < segment.max():
            middle = int(segment.min() + segment.max() + 1) // 2
            self._fold_some(workspace, segment, segment < middle, until)
            self._fold_some(workspace, segment, segment >= middle, until)
        else:
            raise error


_WHY = "no predicate compares events, so an open window is a vector of aggregates per segment"
_WHY_BINDINGS = "neighbours are compared, and an open window keeps one binding for all that compare alike"


@dataclass(frozen=True)
class _Carried:
    """The windows of one kind that hold rows: an item is a window in a segment.

    place   where its vector is among those of all open windows, -1 if it has none
    held    the open windows; `carry` counts their vectors
    takers  see SegmentVectors
    """

    carry: CarriedOver
    index: Longs
    segment: Longs
    place: Longs
    held: SegmentVectors
    takers: Mask

    def hand_over(
        self, windows: OpenWindows, kind: int, vectors: Sequence[WindowVectors], results: Sequence[Folded]
    ) -> None:
        """Hand over what rows have made of these windows."""
        saved, held = self.carry.saved, self.held
        if saved.any():
            own = self.index[saved], self.segment[saved]
            made = SegmentVectors(*own, tuple(vectors), self.takers[saved])
            held = held.with_rows(self.place[saved], made)
        if not saved.all():
            folded = tuple(some_rows(each, ~saved) for each in results)
            own = self.index[~saved], self.segment[~saved]
            windows.end(kind, EndedWindows(*own, folded, self.takers[~saved]))
            stays = np.ones(len(held), np.bool_)
            stays[self.place[~saved & (self.place >= 0)]] = False
            held = held if stays.all() else held.take(stays)
        windows.set(kind, held)
