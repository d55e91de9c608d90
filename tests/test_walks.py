"""The walks of docs/architecture.md are those of the code: every function is called, in the order told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from spark.test_tasks import run as run_tasks
from stream.simulation import simulate
from trendfold.events.batch import schema_of
from trendfold.events.options import Options
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.spark.exchanges import exchanges
from trendfold.runtime.spark.tasks import Job, Route
from walks import astray, calls_of, walks

EVENTS = pa.table({"type": list("ABCABBCB") * 5, "ts": range(40)})
COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 8 s SLIDE 8 s"
MATCHES = "RETURN MATCHES PATTERN SEQ(A, B, C) WITHIN 8 s"


def in_one_process(text: str) -> Callable[[], object]:
    return lambda: tf.parse(text).run(EVENTS)


def in_tasks(route: Route) -> Callable[[], object]:
    """The stages of a job on Spark, without Spark."""
    plans, options = tf.parse(COUNT).plan(), Options()
    job = Job(
        plans=plans,
        exchanges=exchanges(plans, schema_of(EVENTS.schema), options, "auto"),
        routes=(route,),
        options=options,
        schema=EVENTS.schema,
        origin=0,
        limits=DEFAULTS,
        arithmetic="auto",
        buckets=3,
        finishers=2,
        shared=np.zeros((0, 2), np.int64),
        chunks=np.zeros(0, np.int64),
    )
    return lambda: run_tasks(job, [EVENTS.slice(0, 20), EVENTS.slice(20)])


def in_a_stream(text: str, batches: int = 2) -> Callable[[], object]:
    events = pa.table({"type": list("ABCABBCB") * 500, "ts": range(4_000)})

    def run() -> object:
        stream = simulate(tf.parse(text), events.schema, delay_us=1_000_000)
        for low in range(0, 4_000, 4_000 // batches):
            stream.feed(events.slice(low, 4_000 // batches))
        return stream

    return run


RUNS: dict[str, Callable[[], object]] = {
    "one query": in_one_process(COUNT),
    "fifty queries": in_one_process("; ".join([COUNT] * 50)),
    "Spark: a task": in_tasks(Route.STRETCHES),
    "Spark: a task that folds rows": in_tasks(Route.PARTITION),
    "a stream": in_a_stream(COUNT),
    "a stream of raw events": in_a_stream(f"{COUNT} HAVING 2 * COUNT(*) > 1"),
    "a stream with a window per event": in_a_stream("RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 50 min", 4),
    "matches": in_one_process(MATCHES),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_walk_is_that_of_the_code(name: str) -> None:
    assert astray(walks()[name], calls_of(RUNS[name])) == []


def test_every_walk_is_followed() -> None:
    assert set(walks()) == {*RUNS, "Spark: the driver"}  # the last one in tests/spark/test_walks.py


def test_one_query_is_a_dozen_hops_from_its_kernel() -> None:
    """`count_windows` is compiled: the last hop that Python sees is what calls it."""
    depth, deepest = 0, 0
    import sys
    from types import FrameType

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, deepest
        if not frame.f_globals.get("__name__", "").startswith("trendfold"):
            return
        if event == "call":
            depth += 1
            if frame.f_globals["__name__"].endswith("by_vectors"):
                deepest = depth
        elif event == "return":
            depth -= 1

    sys.setprofile(note)
    try:
        tf.parse(COUNT).run(EVENTS)
    finally:
        sys.setprofile(None)
    assert 0 < deepest <= 12
