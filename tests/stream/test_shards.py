"""Any arrival order inside the delay and any cut into micro-batches gives the rows of batch."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import trendfold as tf
import workloads
from contract import engine
from spark.agreement import agree
from stream.simulation import arrival, cuts, ordered, simulate
from trendfold.api import Workload
from trendfold.query.nodes import Query, WindowUnit


def random_stream(seed: int, count: int) -> tuple[Workload, pa.Table]:
    """Random queries with windows that end, over the events of all of them."""
    rng = random.Random(seed)
    queries: list[Query] = []
    tables = []
    while len(queries) < count:
        case = workloads.random_case(
            rng, aggregates=True, having=rng.random() < 0.3, both=rng.random() < 0.2, cross=rng.random() < 0.1
        )
        (query,) = tf.parse(case.query)
        if query.window is None or query.window.unit is WindowUnit.EVENTS:
            continue
        if query.where or rng.random() < 0.5:
            query = replace(query, equivalence=(*query.equivalence, "case"))
        number = len(queries)
        queries.append(replace(query, name=f"q{number}"))
        table = engine.to_table(case)
        at = table.schema.get_field_index("ts")
        times = [None if t is None else t + 40 * number + 1_000 for t in table.column("ts").to_pylist()]
        table = table.set_column(at, "ts", pa.array(times, table.schema.field("ts").type))
        tables.append(table.append_column("case", pa.array([number] * table.num_rows, pa.int64())))
    return Workload(tuple(queries)), pa.concat_tables(tables, promote_options="permissive").combine_chunks()


@pytest.mark.parametrize("seed", range(12))
def test_random_workloads_in_any_order_inside_the_delay_give_the_rows_of_batch(seed: int) -> None:
    workload, table = random_stream(seed, 12)
    rng = random.Random(seed)
    delay = rng.choice([0, 1, 5, 30, 200])
    order = arrival(table.column("ts").to_pylist(), delay, rng)
    stream = simulate(workload, table.schema, delay * 1_000_000, shards=rng.choice([1, 3]))
    shuffled = table.take(pa.array(order))
    for cut in cuts(len(order), rng):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
    batch = workload.run(table, engine="local")
    for query in workload:  # whatever the watermark has passed is there before the end
        ends = [row["window_end"] for part in stream.results()[query.name] for row in part.to_pylist()]
        passed = stream.watermark_ms / 1000 - (query.window.slide is None)
        assert len(ends) == sum(end <= passed for end in batch[query.name].column("window_end").to_pylist())
    stream.flush()
    assert stream.late() == 0
    found = stream.results()
    for query in workload:
        keys = len(query.group_by)
        agree(ordered(found[query.name], batch[query.name], keys), batch[query.name])
    assert not any(store.text or store.parts for store in stream.shards.values())
