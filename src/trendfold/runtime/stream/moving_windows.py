"""Windows per event (WITHIN w alone): raw events as long as a window, and matrices of the blocks between.

When the watermark moves from a to b, the windows that end in [a, b) begin in [a - w, b - w). Of their events,
only those that come in or go out are read:

    a - w        b - w   border        a             b
      |  going out  |      |   blocks  |  coming in  |

What lies between is the same for all of these windows: per segment one matrix, the product of *blocks* of
events. Blocks begin at earlier watermarks. Two stacks of them keep the products few, as in kernel.sliding:
blocks before the *middle* hold the product from their begin up to the middle, and `back` the product from
the middle up to the last block, which grows. When the middle itself goes out, the blocks behind it are
multiplied from the last to the first, and the middle moves there.

Matrices say nothing that raw events do not. So where they cannot be used they are dropped, and all events of
the windows are read: matrices of another machine, values without a code, windows that are left in one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from trendfold.errors import TrendfoldError
from trendfold.plan.fold_steps import FoldStep
from trendfold.plan.physical import Online
from trendfold.plan.spread import compared_attributes
from trendfold.plan.stream_choices import ends_block, pays_matrices
from trendfold.runtime.empty_rows import cut_with_takers
from trendfold.runtime.folding import FoldedQuery
from trendfold.runtime.folds.by_products import fold_around
from trendfold.runtime.pieces import matrix_bytes, moments
from trendfold.runtime.query_rows import read_rows
from trendfold.runtime.release import ALWAYS, NEVER, Release
from trendfold.runtime.request import Request
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob
from trendfold.runtime.spark.exchanges import Exchange
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.segment_matrices import (
    SegmentMatrices,
    matrices_of,
    meaning_of_matrices,
    multiply_in_order,
    no_matrices,
    numbers_of_matrix,
    with_matrix_rows,
)
from trendfold.runtime.stream.shard_state import EventBlock, MovingState, ShardIndex, StatePart, Store
from trendfold.runtime.stream.stream_job import StreamJob
from trendfold.runtime.values import has_codes, read_events
from trendfold.runtime.windows import HeldWindows, cut
from trendfold.runtime.workspace import Workspace, partitioning

_WHY = "a window per event: events that come in and go out are folded, and blocks between are multiplied"


def report_moving(
    stream: StreamJob, store: Store, index: ShardIndex, exchange: int, watermark: int
) -> Iterator[Blob]:
    """The rows of an exchange's windows per event that end now."""
    asked = [MovingWindows(stream, store, index, exchange, q, watermark) for q in stream.moving[exchange]]
    own = index.own(exchange)
    coming = [part for part in own if part.high >= index.released and part.low < watermark]
    if asked and coming:
        parts = [part for part in own if any(windows.needs(part) for windows in asked)]
        workspace = _read(stream, store, index, exchange, parts)
        for windows in asked:
            yield from windows.report(workspace, sum(p.bytes for p in coming) / sum(p.rows for p in coming))
    for windows in asked:
        windows.move_on()


def _read(
    stream: StreamJob, store: Store, index: ShardIndex, exchange: int, parts: Sequence[StatePart]
) -> Workspace:
    index.read += sum(part.rows for part in parts)
    tables = [layout.from_bytes(store.get(part.number)) for part in parts]
    return tasks.gather(stream.job, exchange, tables)


class MovingWindows:
    """One query with a window per event in one shard, while the watermark moves from `before` to `until`."""

    def __init__(
        self, stream: StreamJob, store: Store, index: ShardIndex, exchange: int, query: int, until: int
    ) -> None:
        self.stream, self.store, self.index, self.number, self.query = stream, store, index, exchange, query
        self.plan, self.before, self.until = stream.job.plans[query], index.released, until
        self.release: Release = stream.of(stream.job.exchanges[exchange])[query]
        self.length = self.release.window.length
        self.state = self._state()
        self.border = self._border()

    @property
    def exchange(self) -> Exchange:
        """How the query's events travel."""
        return self.stream.job.exchanges[self.number]

    def _state(self) -> MovingState:
        """What is kept of the query; nothing if that has another meaning, or ends elsewhere."""
        meaning, found = meaning_of_matrices(self.plan), self.index.moving.get(self.query)
        if found is None or found.meaning != meaning or found.blocks[-1].end != self.before:
            self.index.forget_moving(self.store, self.query)
            found = MovingState(
                meaning, ALWAYS, EventBlock(ALWAYS, ALWAYS), [EventBlock(self.before, self.before)]
            )
            self.index.moving[self.query] = found
        return found

    # ------------------------------------------------------------ what is read

    def _border(self) -> int:
        """Events from here up to `before` are in all windows that end now, and in blocks."""
        inside = [b.begin for b in self.state.blocks if b.begin >= self.until - self.length]
        return min(self.before, *inside) if inside and self.before > ALWAYS else self.before

    @property
    def _low(self) -> int:
        """No window that ends now holds an earlier event."""
        return ALWAYS if self.before == ALWAYS else self.before - self.length + 1

    def needs(self, part: StatePart) -> bool:
        """Whether some events of a part come in or go out now."""
        goes = part.low < self.border and part.high >= self._low
        return goes or (part.low < self.until and part.high >= self.before)

    def _chosen(self, workspace: Workspace, low: int, border: int) -> Workspace:
        """The events in [low, border) and those that come in."""
        time = workspace.batch.time
        kept = ((time >= low) & (time < border)) | ((time >= self.before) & (time < self.until))
        return workspace if kept.all() else tasks.subset(workspace, kept, self.exchange.conditions)

    # ------------------------------------------------------------ fold

    def report(self, workspace: Workspace, row_bytes: float) -> Iterator[Blob]:
        """The rows of windows that end now, from events that come in and go out; adds them to the blocks."""
        try:
            here = self._chosen(workspace, self._low, self.border)
            if not self._has_codes(here):
                here = self._everything()
                self.index.forget_moving(self.store, self.query)
                self.state, self.border = self._state(), self.before
            middle = self._middle() if self.border < self.before else None
            yield from self._fold(here, middle)
            if self.until < NEVER and self._has_codes(here):
                self._extend(self._chosen(here, self.until, self.until), row_bytes)
        except TrendfoldError as error:
            yield tasks.failure(self.query, error)

    def _has_codes(self, workspace: Workspace) -> bool:
        """Whether extremes mean the same in every matrix."""
        names = compared_attributes(self.plan)
        return all(has_codes(workspace.batch.column(name)) for name in names)

    def _everything(self) -> Workspace:
        """All events of the windows that end now."""
        parts = [p for p in self.index.own(self.number) if p.low < self.until and p.high >= self._low]
        every = _read(self.stream, self.store, self.index, self.number, parts)
        return self._chosen(every, self._low, self.before)

    def _fold(self, workspace: Workspace, middle: SegmentMatrices | None) -> Iterator[Blob]:
        asked, job = self.release.asked(self.before, self.until), self.stream.job
        if middle is None or not len(middle):
            yield from tasks.fold_rows(job, self.exchange, [self.query], workspace, asked)
            return
        started, request = perf_counter(), Request(job.origin, job.limits, job.arithmetic, asked)
        folded = self._fold_around(workspace, middle, request)
        way, seconds = Online(_WHY), perf_counter() - started
        step = FoldStep((self.plan.query.name,), way, len(workspace.batch), seconds, self.state.bytes)
        yield tasks.step_blob(self.query, step)
        yield from tasks.answer(job, self.exchange, self.query, folded, request)

    def _fold_around(self, workspace: Workspace, middle: SegmentMatrices, request: Request) -> FoldedQuery:
        """Fold events around the middle, which has a row of its own in every segment."""
        plan, real = self.plan, len(workspace.batch)
        every = with_matrix_rows(workspace, plan, middle.keys, self.before - 1, self.exchange)
        rows = read_rows(plan, every, limits=request.limits)
        request.limits.check_groups(plan.query.name, int(rows.group.max(initial=-1)) + 1)
        moment = moments(rows, every.batch)
        events = tuple(
            read_events(each, i, rows, moment, every.batch) for i, each in enumerate(plan.operands)
        )
        items = cut(plan, rows, rows.time, request.origin, request.limits, request.asked)
        is_asked = np.zeros(len(rows.segment) - 1, np.bool_)
        is_asked[items.segment] = True
        at = np.flatnonzero((rows.row >= real) & np.repeat(is_asked, np.diff(rows.segment)))
        which = rows.row[at] - real
        folded = tuple(
            fold_around(operand, events[i], rows.alphabets[i], items, at, middle.at(i, which))
            for i, operand in enumerate(plan.operands)
        )
        windows, takers = HeldWindows(np.unique(items.index)), cut_with_takers(plan, rows, request)
        return FoldedQuery(plan, rows, items, windows, events, every.batch, folded, with_takers=takers)

    # ------------------------------------------------------------ blocks

    def _middle(self) -> SegmentMatrices:
        """The product of all blocks from the border on."""
        state = self.state
        place = [block.begin for block in state.blocks].index(self.border)
        *closed, last = state.blocks[place:]
        if closed and self.border >= state.middle:
            self._flip(closed, last.begin)
        parts = [closed[0], state.back, last] if closed else [last]
        return multiply_in_order(self.plan, [self._get(block) for block in parts], self.stream)

    def _flip(self, closed: Sequence[EventBlock], middle: int) -> None:
        """Move the middle: blocks before it hold the product up to it."""
        found: SegmentMatrices | None = None
        for block in reversed(closed):
            own = self._get(block)
            found = own if found is None else multiply_in_order(self.plan, [own, found], self.stream)
            self._put(block, found)
            block.end = middle
        self._drop(self.state.back)
        self.state.middle, self.state.back = middle, EventBlock(middle, middle)

    def _pays(self, coming: Workspace) -> bool:
        """Whether a window has so many events that matrices are worth their numbers."""
        time = self.until - self.before if self.before > ALWAYS else NEVER
        code, _ = coming.partition(*partitioning(self.plan))
        known = self.state.blocks[-1].segments, self.state.back.segments
        segments = max(len(np.unique(code)), *known, 1)
        rows = len(coming.batch) * self.length / time
        return pays_matrices(rows, segments, numbers_of_matrix(self.plan))

    def _extend(self, coming: Workspace, row_bytes: float) -> None:
        """Multiply the last block by what came in, and end it if it is large enough."""
        if not self._pays(coming):
            self.index.forget_moving(self.store, self.query)
            self.before = self.until
            self.state = self._state()
            return
        last, found = self.state.blocks[-1], matrices_of(self.plan, coming)
        self._put(last, multiply_in_order(self.plan, [self._get(last), found], self.stream))
        last.events, last.end = last.events + len(coming.batch), self.until
        size = last.segments * matrix_bytes(self.plan)
        if ends_block(last.events, row_bytes, size, last.end - last.begin, self.length):
            if self.state.middle > ALWAYS:
                back = self.state.back
                self._put(back, multiply_in_order(self.plan, [self._get(back), self._get(last)], self.stream))
                back.end = last.end
            self.state.blocks.append(EventBlock(self.until, self.until))

    def move_on(self) -> None:
        """Forget blocks from which no later window can begin."""
        state = self.state
        if self.until == NEVER:
            self.index.forget_moving(self.store, self.query)
            return
        *closed, last = state.blocks
        gone = [block for block in closed if block.begin <= self.until - self.length]
        if last.begin <= self.until - self.length:
            self._drop(last)
            last = EventBlock(self.until, self.until)
        for block in gone:
            self._drop(block)
        state.blocks = [*(block for block in closed if block not in gone), last]
        last.end = self.until
        if state.blocks[0].begin >= state.middle:
            self._drop(state.back)
            state.middle = ALWAYS

    def _get(self, block: EventBlock) -> SegmentMatrices:
        if block.number < 0:
            return no_matrices(self.plan, self.stream)
        return SegmentMatrices.from_bytes(self.store.get(block.number), self.plan)

    def _put(self, block: EventBlock, found: SegmentMatrices) -> None:
        self._drop(block)
        if len(found):
            payload = found.to_bytes()
            block.number = self.index.put(self.store, payload)
            block.segments, block.bytes = len(found), len(payload)

    def _drop(self, block: EventBlock) -> None:
        if block.number >= 0:
            self.store.drop(block.number)
        block.number, block.segments, block.bytes = -1, 0, 0
