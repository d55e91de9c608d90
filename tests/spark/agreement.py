"""Helpers: Spark's rows are the local engine's, to the last but for the rounding of sums in another order."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import trendfold as tf
import workloads
from contract import engine
from trendfold.api import Workload
from trendfold.query.nodes import Query, WindowUnit
from trendfold.runtime.result import Result
from trendfold.runtime.spark.blobs import Content, unpack


def agree(spark_table: pa.Table, local_table: pa.Table) -> None:
    """Equal columns and rows, in the same order."""
    assert spark_table.column_names == local_table.column_names
    assert spark_table.num_rows == local_table.num_rows
    assert [plain(t) for t in spark_table.schema.types] == [plain(t) for t in local_table.schema.types]
    for got, wanted in zip(spark_table.to_pylist(), local_table.to_pylist(), strict=True):
        for name, value in wanted.items():
            assert is_like(got[name], value), (name, got, wanted)


def plain(kind: pa.DataType) -> pa.DataType:
    """Spark has one width of strings, and shows times in the zone of the session."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", "UTC")
    return pa.string() if pa.types.is_large_string(kind) else kind


def is_like(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or one == other
    return bool(one == other)


def check(workload: Workload, data: Any, table: pa.Table, views: bool = True, **options: Any) -> Result:
    """Run on Spark over `data`, and locally over `table`, which holds the same events.

    Without `views`, all results are read at once: a view is a job, and that adds up for many queries.
    """
    there = workload.run(data, engine="spark", **options)
    here = workload.run(table, engine="local", **options)
    if views:
        tables = {query.name: there[query.name].toArrow() for query in workload}
    else:
        tables = everything(workload, there, here)
    for query in workload:
        agree(tables[query.name], here[query.name])
    assert there.summary.events == here.summary.events
    assert there.summary.rejects == here.summary.rejects
    assert dict(there.summary.rows) == dict(here.summary.rows)
    assert there.summary.windows == here.summary.windows
    there.unpersist()
    return there


def everything(workload: Workload, result: Result, like: Result) -> dict[str, pa.Table]:
    """Every query's rows in order, out of the one table that is kept."""
    found = [like[query.name].slice(0, 0) for query in workload]
    for row in result.kept.filter(f"content = {int(Content.RESULT)}").collect():
        found[row.owner] = pa.concat_tables([found[row.owner], unpack(bytes(row.payload))])
    keys = [table.column_names[: 2 + len(q.group_by)] for table, q in zip(found, workload, strict=True)]
    return {
        query.name: table.take(pc.sort_indices(table, [(name, "ascending", "at_start") for name in by]))
        for query, table, by in zip(workload, found, keys, strict=True)
    }


def put(table: pa.Table, folder: Path, cuts: list[int]) -> str:
    """The table in one Parquet file per stretch of rows between the cuts."""
    folder.mkdir(parents=True)
    edges = [0, *cuts, table.num_rows]
    for i, (low, high) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(low, high - low), folder / f"part-{i:03}.parquet")
    return str(folder)


def many_cases(seed: int, count: int, *, spans: bool = False) -> tuple[Workload, pa.Table]:
    """Random cases as one workload: every query over all their events, each case in a time of its own."""
    rng = random.Random(seed)
    queries: list[Query] = []
    tables = []
    while len(queries) < count:
        case = workloads.random_case(
            rng,
            aggregates=True,
            having=rng.random() < 0.3,
            both=rng.random() < 0.2,
            cross=rng.random() < 0.1,
            sets=rng.random() < 0.3,
            times=rng.random() < 0.3,
            spans=spans,
        )
        (query,) = tf.parse(case.query)
        if query.window is not None and query.window.unit is WindowUnit.EVENTS:
            continue  # ties in time are an error there, and all cases share the order column
        if query.where or rng.random() < 0.5:  # few trends, so that they can be built where they must be
            query = replace(query, equivalence=(*query.equivalence, "case"))
        number = len(queries)
        queries.append(replace(query, name=f"q{number}"))
        tables.append(_moved(engine.to_table(case), number))
    return Workload(tuple(queries)), pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _moved(table: pa.Table, number: int) -> pa.Table:
    times = [None if t is None else t + 1_000 * number for t in table.column("ts").to_pylist()]
    at, kind = table.schema.get_field_index("ts"), table.schema.field("ts").type
    table = table.set_column(at, "ts", pa.array(times, kind))
    return table.append_column("case", pa.array([number] * table.num_rows, pa.int64()))
