"""Spark's stateful operator for shards: per key an index, parts and one timer (ADR 11)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.blobs import SCHEMA, Blob, Content
from trendfold.runtime.spark.shipping import adopt_compiled
from trendfold.runtime.stream.parcels import Parcel
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.shards import absorb, release
from trendfold.runtime.stream.stream_job import StreamJob

INDEX, PARTS = "index", "parts"
"""Names of the state variables; a flush reads them from the checkpoint."""
INDEX_DDL, PART_KEY_DDL, PART_DDL = "text string", "number bigint", "payload binary"
_MS = 1_000


class Shards(StatefulProcessor):
    """Stores the events of shards, and reports windows when the watermark passes their ends."""

    def __init__(self, stream: StreamJob) -> None:
        self.stream = stream

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _quieten_driver_worker()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once per task."""
        adopt_compiled()
        self.handle = handle
        self.texts = handle.getValueState(INDEX, INDEX_DDL)
        self.parts = handle.getMapState(PARTS, PART_KEY_DDL, PART_DDL)

    # PySpark passes these by keyword, so the names are PySpark's.
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Absorb the parcels of a micro-batch."""
        store = _Store(self)
        before = store.timer_ms()
        yield from _frames(key, absorb(self.stream, store, _parcels(rows), _watermark(timerValues)))
        self._set_timer(before, store.timer_ms())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Report windows whose end the watermark has passed; called after the rows of the micro-batch."""
        store = _Store(self)
        yield from _frames(key, release(self.stream, store, _watermark(timerValues)))
        self._set_timer(None, store.timer_ms())  # the expired one is gone

    def close(self) -> None:
        """Nothing to release."""

    def _set_timer(self, before: int | None, after: int | None) -> None:
        if before == after:
            return
        if before is not None:
            self.handle.deleteTimer(before)
        if after is not None:
            self.handle.registerTimer(after)


_DRIVER_WORKER = "pyspark.sql.streaming.transform_with_state_driver_worker"


def _quieten_driver_worker() -> None:
    """Keep PySpark's reports on its own start off the terminal of the user.

    Spark starts one worker beside the driver that only declares the state's variables. It prints what it
    does, and Spark copies that to the driver's standard error. The processor is the first thing of ours that
    it loads.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == _DRIVER_WORKER:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends


class _Store:
    """The state of the current shard; its index is read once."""

    def __init__(self, shards: Shards) -> None:
        self.texts, self.parts = shards.texts, shards.parts
        found = self.texts.get()
        self.text: str | None = None if found is None else found[0]

    def index(self) -> str | None:
        return self.text

    def set_index(self, text: str) -> None:
        self.text = text
        self.texts.update((text,))

    def get(self, number: int) -> bytes:
        found = self.parts.getValue((number,))
        assert found is not None
        return bytes(found[0])

    def put(self, number: int, payload: bytes) -> None:
        self.parts.updateValue((number,), (payload,))

    def drop(self, number: int) -> None:
        self.parts.removeKey((number,))

    def clear(self) -> None:
        if self.text is not None:
            self.text = None
            self.texts.clear()

    def timer_ms(self) -> int | None:
        """When the shard's timer is due, in Spark's milliseconds, rounded up."""
        due = ShardIndex.load(self, ALWAYS).timer
        return None if due is None else -(-due // _MS)


def watermark_of(milliseconds: int) -> int:
    """Spark's watermark in microseconds; 0 means there is none yet."""
    return milliseconds * _MS if milliseconds > 0 else ALWAYS


def _watermark(times: TimerValues) -> int:
    return watermark_of(times.getCurrentWatermarkInMs())


def _parcels(frames: Iterable[pd.DataFrame]) -> Iterator[Parcel]:
    for frame in frames:
        for *blob, low, high, rest in frame.itertuples(index=False, name=None):
            bucket, content, owner, rows, payload = blob
            yield Parcel(Blob(bucket, Content(content), owner, rows, payload or b""), low, high, rest or b"")


def _frames(key: Any, blobs: Iterable[Blob]) -> Iterator[pd.DataFrame]:
    """A shard's blobs as rows, labelled with the shard's number."""
    for blob in blobs:
        payload = blob.payload if isinstance(blob.payload, bytes) else blob.payload.to_pybytes()
        values = key[0], int(blob.content), blob.owner, blob.rows, payload
        yield pd.DataFrame({name: [value] for name, value in zip(SCHEMA.names, values, strict=True)})
