"""Heartbeats: while a source is idle, they move the watermark on by the clock.

Spark's watermark follows the events, so windows stay open when none arrive. A heartbeat is a file with a
time, in a folder of the checkpoint that the stream reads beside its source. Spark records which batch read
it, so a batch that is repeated after a crash has the same watermark.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from trendfold.runtime.places import Place
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.spark.manifest import Tally

FOLDER = "heartbeats"
_NOTHING_SEEN = b'{"types": [], "latest": null}'
_LOOKS = 4
"""How often, per timeout, a stream is checked for new events."""


def read_heartbeats(spark: SparkSession, checkpoint: Place, shard: int) -> DataFrame:
    """The heartbeats of a stream as parcels without events, for one shard."""
    beats = (
        spark.readStream.schema("micros bigint")
        .option("cleanSource", "delete")
        .option("pathGlobFilter", "*.json")  # files being written have another ending
        .json((checkpoint / FOLDER).url)
    )
    return beats.select(
        F.timestamp_micros("micros").alias("clock"),
        F.lit(shard).alias("bucket"),
        F.lit(int(Content.SEEN)).alias("content"),
        F.lit(0).alias("owner"),
        F.lit(0).cast("bigint").alias("rows"),
        F.lit(_NOTHING_SEEN).alias("payload"),
        F.lit(0).cast("bigint").alias("low"),
        F.lit(0).cast("bigint").alias("high"),
        F.lit(b"").alias("rest"),
    )


class Heartbeats:
    """Writes heartbeats while no events arrive, in a thread of its own.

    Event time is taken to go on like the clock: a heartbeat has the latest time of an event plus the time
    since events last arrived.
    """

    def __init__(
        self,
        checkpoint: Place,
        timeout_s: float,
        now: Callable[[], float] = time.monotonic,
        is_running: Callable[[], bool] = lambda: True,
    ) -> None:
        self._checkpoint, self._timeout_s, self._now = checkpoint, timeout_s, now
        self._is_running = is_running
        self._events, self._since, self._last = -1, now(), now()
        self._is_paused = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trendfold heartbeats", daemon=True)

    def start(self) -> None:
        """Begin to look for events."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more heartbeats."""
        self._stopped.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write none for a while: Spark would wait for each to be processed."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def beat(self) -> int | None:
        """Write a heartbeat if the source is idle, at most one per timeout; returns its time."""
        tally, now = Tally.read(self._checkpoint), self._now()
        if tally.events != self._events:
            self._events, self._since, self._last = tally.events, now, now
        if tally.latest == ALWAYS or now - self._last < self._timeout_s:
            return None
        self._last = now
        micros = tally.latest + int((now - self._since) * 1e6)
        (self._checkpoint / FOLDER / f"{micros}.json").write(json.dumps({"micros": micros}).encode())
        return micros

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_s / _LOOKS):
            if not self._goes_on():
                return
            if not self._is_paused:
                self.beat()

    def _goes_on(self) -> bool:
        """Whether the stream is still running: it may fail by itself, or Spark may end."""
        try:
            return self._is_running()
        except Exception:
            return False
