"""The rows of windows that have ended: from aggregates that were folded online, and from raw events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.running_plan import RunningPlan
from trendfold.errors import InputError
from trendfold.plan import QueryPlan
from trendfold.plan.spread import Mode, compared_attributes, ends_with_segment
from trendfold.runtime.query_rows import Rows, name_plain_groups
from trendfold.runtime.release import Release
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob
from trendfold.runtime.spark.exchanges import Exchange
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.join_plans import JoinPlans
from trendfold.runtime.stream.moving_windows import report_moving
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.open_windows import EndedWindows, some_rows
from trendfold.runtime.stream.segments import examples, keys_of, segment_codes
from trendfold.runtime.stream.settling import Settling
from trendfold.runtime.stream.shard_state import ShardIndex, Store
from trendfold.runtime.stream.stream_job import StreamJob
from trendfold.runtime.values import require_codes
from trendfold.runtime.windows import Items, bounds
from trendfold.runtime.workspace import Workspace


def report(
    stream: StreamJob, store: Store, index: ShardIndex, exchange: int, watermark: int
) -> Iterator[Blob]:
    """The rows of an exchange's windows that ended since the last release."""
    yield from report_moving(stream, store, index, exchange, watermark)
    workspace = _raw_events(stream, store, index, exchange, watermark)
    if workspace is not None:
        raw, plans = stream.keeps_raw(exchange), JoinPlans(store, index, exchange)
        yield from _fold_raw(stream, index, exchange, raw, workspace, watermark, running=plans.running)
        plans.write()
    for group in stream.online[exchange]:
        settling = Settling(stream, store, index, exchange, group)
        if workspace is not None:
            light = _without_vectors(stream, exchange, settling, workspace)
            is_part = not ends_with_segment(group.plans[0])
            yield from _fold_raw(stream, index, exchange, group.queries, light, watermark, is_part)
        yield from _report_online(stream, settling, watermark)
        _compact(settling)


# ---------------------------------------------------------------- raw events


def _raw_events(
    stream: StreamJob, store: Store, index: ShardIndex, exchange: int, watermark: int
) -> Workspace | None:
    """The raw events of windows that end now; None if there are none."""
    own, releases = index.own(exchange), stream.of(stream.job.exchanges[exchange])
    first = min((part.low for part in own), default=watermark)
    others = [release for query, release in releases.items() if query not in stream.moving[exchange]]
    due = [release for release in others if release.due(first, index.released) <= watermark]
    if not due:
        return None
    low = min(release.floor(index.released) for release in due)
    high = max(release.last_end(watermark) for release in due)
    parts = [part for part in own if part.high >= low and part.low < high]
    if not parts:
        return None
    index.read += sum(part.rows for part in parts)
    tables = [layout.from_bytes(store.get(part.number)) for part in parts]
    workspace = tasks.gather(stream.job, exchange, tables)
    return _between(workspace, stream.job.exchanges[exchange], low, high)


def _between(workspace: Workspace, exchange: Exchange, low: int, high: int) -> Workspace:
    """Only the events in [low, high), if that removes many, or if matches must not hold later ones."""
    time = workspace.batch.time
    kept = (time >= low) & (time < high)
    is_needless = not exchange.finds_matches and kept.sum() > 0.9 * len(kept)
    if is_needless or kept.all():
        return workspace
    return tasks.subset(workspace, kept, exchange.conditions)


def _fold_raw(
    stream: StreamJob,
    index: ShardIndex,
    exchange: int,
    queries: Sequence[int],
    workspace: Workspace,
    watermark: int,
    is_part: bool = False,
    running: dict[str, RunningPlan] | None = None,
) -> Iterator[Blob]:
    """Fold the windows that end now from raw events.

    With `is_part`, other partitions of a group may have vectors: their totals are added up before HAVING.
    `running` has the join plans of matches.
    """
    releases: dict[int, Release] = stream.of(stream.job.exchanges[exchange])
    if not len(workspace.batch):
        return
    asked = {query: releases[query].asked(index.released, watermark) for query in queries}
    here = stream.job.exchanges[exchange]
    if is_part:
        here = replace(here, mode=Mode.PARTIAL)
        try:
            for query in queries:
                _require_codes(stream.job.plans[query], workspace)
        except InputError as error:
            yield tasks.failure(queries[0], error)
            return
    # Per-event windows are released one moment later than the others.
    for windows in dict.fromkeys(asked.values()):
        due = [query for query in queries if asked[query] == windows]
        if here.finds_matches:
            yield from tasks.find_in_rows(stream.job, due, workspace, asked=windows, running=running)
        else:
            yield from tasks.fold_rows(stream.job, here, due, workspace, windows, running=index.running)


def _require_codes(plan: QueryPlan, workspace: Workspace) -> None:
    """Raise if extremes of these events cannot be compared with those that are in the state."""
    for name in compared_attributes(plan):
        require_codes(plan.query.name, name, workspace.batch.column(name))


def _without_vectors(stream: StreamJob, exchange: int, settling: Settling, workspace: Workspace) -> Workspace:
    """The events of segments that have no vectors."""
    if not settling.state.segments:
        return workspace
    code, distinct = segment_codes(settling.group, workspace)
    present, example = examples(code, distinct)
    number = np.full(distinct + 1, -1, np.int64)
    number[present] = settling.keys.find(keys_of(settling.group, workspace.batch.table, example))
    light = number[code] < 0
    conditions = stream.job.exchanges[exchange].conditions
    return workspace if light.all() else tasks.subset(workspace, light, conditions)


# ---------------------------------------------------------------- folded online


def _report_online(stream: StreamJob, settling: Settling, watermark: int) -> Iterator[Blob]:
    """Windows that have ended become rows, or partial sums where other shards have some of a group."""
    group, job = settling.group, stream.job
    rows = batch = None
    for kind, ended in settling.windows.take_ended(watermark):
        if rows is None or batch is None:
            batch = settling.keys.batch()
            rows = _rows_of_segments(group, len(settling.keys), Workspace(batch))
        folded_of = dict(zip(group.operands(kind), ended.folded, strict=True))
        for k in group.members(kind):
            release = stream.releases[group.queries[k]]
            parts = tuple(folded_of[operand] for operand in group.operands_of(k))
            own = _within(release, ended, settling.released)
            keys = zip(group.plans[k].query.group_by, group.plans[0].query.group_by, strict=True)
            named = replace(rows, group_rows={key: rows.group_rows[other] for key, other in keys})
            including = group.including_empty(kind)
            takers = _items(ended, own & ended.takers[:, including.index(k)]) if k in including else None
            folded = tuple(some_rows(part, own) for part in parts)
            found = tasks.Parts(named, _items(ended, own), folded, batch, takers)
            yield from tasks.add_up_groups(job, group.queries[k], found)


def _within(release: Release | None, ended: EndedWindows, released: int) -> NDArray[np.bool_]:
    """The windows that a query reports: they begin after it was added, and before its successor's first."""
    assert release is not None
    begin, end = bounds(release.window, ended.index, release.origin)
    found: NDArray[np.bool_] = (begin > release.since) & (begin <= release.until) & (end > released)
    return found


def _items(ended: EndedWindows, some: NDArray[np.bool_]) -> Items:
    """Some windows; their rows are gone."""
    none = np.zeros((2, int(some.sum())), np.int64)
    return Items(ended.segment[some].astype(np.int32), ended.index[some], *none)


def _rows_of_segments(group: OnlineGroup, count: int, workspace: Workspace) -> Rows:
    """A row per segment, and their groups."""
    none = np.zeros(0, np.int64)
    every = np.arange(count)
    rows = Rows(every, np.zeros(count, np.int64), (), (), np.arange(count + 1), none, {})
    rows = name_plain_groups(rows, workspace, group.plans[0])
    return _by_value(rows, group, count, workspace) if group.qualified else rows


def _by_value(rows: Rows, group: OnlineGroup, count: int, workspace: Workspace) -> Rows:
    """Groups by the values of GROUP BY T.g too; `SegmentKeys.batch` has them after the keys."""
    pairs = rows.group
    for i, key in enumerate(group.qualified, start=1):
        code, distinct = workspace.partition((), (key.attribute,))
        pairs = np.unique(pairs * distinct + code[i * count :][:count], return_inverse=True)[1].reshape(-1)
    _, example = np.unique(pairs, return_index=True)
    named = {key: row[rows.group[example]] for key, row in rows.group_rows.items()}
    values = {key: i * count + example for i, key in enumerate(group.qualified, start=1)}
    return replace(rows, group=pairs, group_rows=named | values)


def _compact(settling: Settling) -> None:
    """Forget segments that no window holds any more, where they are at least half of all."""
    state, windows = settling.state, settling.windows
    if state.segments <= 2 * sum(part.rows for part in (*state.open, *state.ended)):
        return
    used = windows.used()
    if settling.group.qualified:
        used = np.union1d(used, settling.keys.base_of[used])
    number_of = np.full(state.segments, -1, np.int64)
    number_of[used] = np.arange(len(used))
    settling.keys.keep(used)
    windows.renumber(number_of)
    if settling.group.compares:
        settling.bindings.renumber(number_of)
    settling.keys.write()
