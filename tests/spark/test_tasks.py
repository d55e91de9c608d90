"""The work of Spark's tasks, without Spark: every route, over parts cut anywhere, gives the local rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
import workloads
from contract import engine, matching
from spark.agreement import agree
from trendfold.events.batch import read_batch, schema_of
from trendfold.events.options import Options
from trendfold.plan import physical
from trendfold.plan.spread import Mode
from trendfold.runtime.limits import Limits
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content
from trendfold.runtime.spark.exchanges import exchanges
from trendfold.runtime.spark.ranges import EVER, alone_between, chunk_times, overlapping_share, overlaps
from trendfold.runtime.spark.tasks import Job, Route

BUCKETS = 3


def run(job: Job, parts: Iterable[pa.Table]) -> list[Blob]:
    """All stages, blobs handed from one to the next as Spark would."""
    found = [blob for part in parts for blob in tasks.scan(job, part)]
    if Route.TIME in job.routes:
        found = [b for group in shuffled(found, 2) for b in tasks.chunk(job, group)]
    found = [b for group in shuffled(found, BUCKETS) for b in tasks.fold(job, group)]
    return [b for group in shuffled(found, BUCKETS) for b in tasks.finish(job, group)]


def shuffled(blobs: list[Blob], tasks_: int) -> Iterator[list[Blob]]:
    for number in range(tasks_):
        yield [blob for blob in blobs if blob.bucket % tasks_ == number]


def result(job: Job, blobs: list[Blob]) -> pa.Table:
    like = tasks.empty_result(job, 0)
    assert not [blob for blob in blobs if blob.content in (Content.ERROR, Content.OVERLAP)]
    rows = pa.concat_tables([like, *(blob.table() for blob in blobs if blob.content is Content.RESULT)])
    keys = like.column_names[: 2 + len(job.plans[0].query.group_by)]
    order = pa.compute.sort_indices(rows, [(name, "ascending", "at_start") for name in keys])
    return rows.take(order)


@pytest.mark.parametrize("route", [each for each in Route if each is not Route.OVERLAPS])  # for matches
@pytest.mark.parametrize("seed", range(60))
def test_every_route_gives_the_local_rows(seed: int, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    case = workloads.random_case(
        rng, aggregates=True, having=rng.random() < 0.1, both=rng.random() < 0.2, rejects=rng.random() < 0.2
    )
    check(case, route, rng, monkeypatch)


def check(
    case: workloads.Case,
    route: Route,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    *,
    counts_windows: bool = True,
) -> None:
    """Fail unless the rows are those of the local engine, however the events are cut and sent."""
    monkeypatch.setattr(physical, "_FEW_BYTES", rng.choice([0, 1 << 16]))  # rows, matrices, or some of both
    monkeypatch.setattr(physical, "_ROW_BYTES", rng.choice([24, 2_000]))
    table, options = engine.to_table(case), Options(order_column=case.order_column)
    workload = tf.parse(case.query)
    plans = workload.plan()
    own = exchanges(plans, schema_of(table.schema), options, "auto")
    parts, ranges, chunks = arranged(table, options, route, rng)
    monkeypatch.setattr(tasks, "MOST_OUTSIDE", rng.choice([0.25, 1.0]))
    job = Job(
        plans=plans,
        exchanges=own,
        routes=tuple(route if exchange.mode is Mode.LINEAR else Route.PARTITION for exchange in own),
        options=options,
        schema=table.schema,
        origin=0,
        limits=Limits(),
        arithmetic="auto",
        buckets=BUCKETS,
        finishers=2,
        shared=overlaps(ranges.tolist()),
        ranges=ranges if rng.random() < 0.7 else ranges[:0],
        chunks=chunks,
    )
    expected = workload.run(table, engine="local", order_column=case.order_column)
    blobs = run(job, parts)
    agree(result(job, blobs), expected[workload.queries[0].name])
    assert sum(b.rows for b in blobs if b.content is Content.REJECTS) == expected.summary.rejects
    assert sum(b.rows for b in blobs if b.content is Content.SEEN) == expected.summary.events
    windows = [np.frombuffer(b.payload, np.int64) for b in blobs if b.content is Content.WINDOWS]
    assert (
        not counts_windows
        or len(np.unique(np.concatenate([*windows, np.zeros(0, np.int64)]))) == expected.summary.windows
    )


def arranged(
    table: pa.Table, options: Options, route: Route, rng: random.Random
) -> tuple[list[pa.Table], np.ndarray, np.ndarray]:
    """The table in parts, about in order for stretches, in any order otherwise; their times, and chunks."""
    none, count = np.zeros((0, 2), np.int64), rng.randint(1, 4)
    batch = read_batch(table, options)
    ends = (int(batch.time.min()), int(batch.time.max())) if len(batch) else (0, 0)
    if route is not Route.STRETCHES:
        owner = np.array([rng.randrange(count) for _ in range(table.num_rows)])
        parts = [table.filter(pa.array(owner == i)) for i in range(count)] if table.num_rows else [table]
        return parts, none, chunk_times(*ends, rng.randint(1, 4))
    times = [-1 if t is None else t for t in table.column("ts").to_pylist()]
    order = sorted(range(len(times)), key=lambda i: times[i] + (rng.random() < 0.3) * rng.randint(0, 3))
    edges = sorted([0, len(order), *(rng.randint(0, len(order)) for _ in range(count - 1))])
    parts = [table.take(pa.array(order[low:high], pa.int64())) for low, high in pairwise(edges)]
    read = [read_batch(part, options) for part in parts]
    ranges = [(int(b.time.min()), int(b.time.max())) for b in read if len(b)]
    return parts, np.array(ranges, np.int64).reshape(-1, 2), chunk_times(0, 0, 1)


# ---------------------------------------------------------------- ranges


def test_overlaps_are_what_two_ranges_share() -> None:
    assert overlaps([(0, 10), (11, 20), (30, 40)]).tolist() == []
    assert overlaps([(0, 10), (10, 20)]).tolist() == [[10, 10]]
    assert overlaps([(0, 10), (5, 20), (18, 30)]).tolist() == [[5, 10], [18, 20]]
    assert overlaps([(0, 100), (10, 20), (15, 30), (50, 60)]).tolist() == [[10, 30], [50, 60]]


def test_where_a_part_has_the_only_rows() -> None:
    ranges = np.array([(0, 10), (10, 20), (25, 40), (28, 30)])
    assert alone_between(ranges, 1, 9) == (-EVER, 10)
    assert alone_between(ranges, 10, 20) == (10, 25)
    assert alone_between(ranges, 25, 40) == (20, 28)
    assert alone_between(ranges, 28, 30) == (40, EVER)  # beyond its own times
    after, until = alone_between(ranges[:0], 1, 9)
    assert after >= until


def test_the_share_of_rows_in_overlaps() -> None:
    assert overlapping_share([(0, 9), (10, 19)], [5, 5]) == 0
    assert overlapping_share([(0, 9), (0, 9)], [5, 5]) == 1
    assert overlapping_share([(0, 9), (5, 14)], [10, 10]) == pytest.approx(0.5)
    assert overlapping_share([], []) == 0


def test_chunks_cover_all_times() -> None:
    assert chunk_times(0, 99, 4).tolist() == [25, 50, 75]
    assert chunk_times(0, 0, 4).tolist() == [0]


# ---------------------------------------------------------------- matches


def without_ids(rows: list[dict]) -> list[str]:
    """Rows as a multiset; on Spark events have no position."""
    for row in rows:
        for events in row.values():
            for event in events if isinstance(events, list) else ():
                event.pop("id", None)
    return matching.canonical(rows)


@pytest.mark.parametrize("seed", range(40))
def test_matches_of_parts_are_the_local_ones(seed: int) -> None:
    rng = random.Random(seed)
    case = workloads.random_case(rng, matches=True, cross=rng.random() < 0.5, both=rng.random() < 0.3)
    table, workload = engine.to_table(case), tf.parse(case.query)
    options = Options(order_column=case.order_column)
    plans = workload.plan()
    own = exchanges(plans, schema_of(table.schema), options, "auto")
    routes = tuple(Route.PARTITION if exchange.reach is None else Route.OVERLAPS for exchange in own)
    times = [event["ts"] for event in case.events] or [0]
    chunks = chunk_times(min(times) * 1_000_000, max(times) * 1_000_000, 3)
    none = np.zeros((0, 2), np.int64)
    job = Job(plans, own, routes, options, table.schema, 0, Limits(), "auto", BUCKETS, 2, none, chunks)
    cut = rng.randint(0, table.num_rows)
    blobs = [blob for part in (table.slice(0, cut), table.slice(cut)) for blob in tasks.scan(job, part)]
    found = [b for group in shuffled(blobs, BUCKETS) for b in tasks.fold(job, group)]
    assert not [blob for blob in found if blob.content is Content.ERROR]
    rows = [row for blob in found if blob.content is Content.RESULT for row in blob.table().to_pylist()]
    (local,) = workload.run(table, order_column=case.order_column).values()
    assert without_ids(rows) == without_ids(local.to_pylist()), case.query
