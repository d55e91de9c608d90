"""The progress of a stream, and a listener that reports it after every micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from trendfold.errors import plural
from trendfold.plan.fold_steps import PhysicalPlan, from_value
from trendfold.runtime.notebook import facts_html
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.manifest import Tally


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stream; counts start with its checkpoint."""

    batch: int
    events: int
    events_per_second: float
    """In the last micro-batch that had events."""
    watermark: datetime | None
    latest: datetime | None
    """The latest time of an event."""
    open_windows: int
    """Windows that may still get events; per-event windows are not counted."""
    state_rows: int
    """Raw events in the state."""
    state_bytes: int
    late: int
    rejects: int
    rows: Mapping[str, int]
    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    """What ran last: per query or group the way, why it was chosen, and what it took."""
    vectors: int = 0
    """Vectors in the state: one per key and open window of the queries that are folded online."""
    vector_bytes: int = 0
    read: int = 0
    """Raw events read from the state so far; an event that is read twice counts twice."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """The queries whose events are kept until their windows end, and why."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """The counters of all folds so far, such as the bursts and snapshots of HAMLET and GLORIA."""
    partial_matches: int = 0
    """Partial matches in the state, of patterns without a key."""
    plans: int = 0
    """How many join plans of RETURN MATCHES were made: a first one in every shard, others after changes."""
    sharing_plans: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of plans that follow the rates of the stream, by the names of their queries and summed over shards: the
    cost of the plan in force, of the best one and without sharing, and how often it was migrated."""
    latency_p50_s: float | None = None
    """Seconds from the arrival of events to the rows that they complete: the median of recent batches."""
    latency_p99_s: float | None = None

    def __str__(self) -> str:
        rows = ", ".join(f"{name} {count:,}" for name, count in self.rows.items())
        return (
            f"batch {self.batch}: {plural(self.events, 'event')} ({self.events_per_second:,.0f}/s), "
            f"watermark {self.watermark or 'none'}, {plural(self.open_windows, 'open window')}, "
            f"{plural(self.state_rows, 'event')} and {plural(self.vectors, 'vector')} in "
            f"{plural(self.state_bytes, 'byte')} of state, "
            f"{self.late:,} late, {plural(self.rejects, 'reject')}"
            f"{self._migrated()}{self._latency()}; rows: {rows}"
        )

    def _repr_html_(self) -> str:
        facts = {
            "micro-batch": f"{self.batch:,}",
            "events": f"{self.events:,}",
            "events a second": f"{self.events_per_second:,.0f}",
            "watermark": self.watermark or "none",
            "open windows": f"{self.open_windows:,}",
            "state": f"{self.state_bytes:,} bytes",
            "late": f"{self.late:,}",
            "rejects": f"{self.rejects:,}",
        }
        return facts_html(facts, (f"{name}: {plural(count, 'row')}" for name, count in self.rows.items()))

    def _migrated(self) -> str:
        """How far the plans in force are from the best, and how often they were migrated."""
        facts = self.sharing_plans.values()
        if not facts:
            return ""
        cost, best, alone = (sum(each[name] for each in facts) for name in ("cost", "best", "alone"))
        times = int(sum(each["migrations"] for each in facts))
        return (
            f", sharing plans cost {cost:,.0f} (best {best:,.0f}, alone {alone:,.0f}) "
            f"after {plural(times, 'migration')}"
        )

    def _latency(self) -> str:
        if self.latency_p50_s is None:
            return ""
        return f", latency {self.latency_p50_s:.2f} s (p50) and {self.latency_p99_s:.2f} s (p99)"


Watcher = Callable[[Progress], None]


def progress_of(
    query: StreamingQuery, tally: Tally, queries: Sequence[str], raw: Mapping[str, str]
) -> Progress:
    """The progress, from Spark's reports and the tally."""
    recent: list[Any] = list(query.recentProgress)
    busy = [p for p in recent if p["numInputRows"]]
    watermark = next((w for p in reversed(recent) if (w := p["eventTime"].get("watermark"))), None)
    windows: dict[str, tuple[int, int]] = {}
    for shard in tally.state.values():
        for name, (first, last) in shard["windows"].items():
            known = windows.get(name, (first, last))
            windows[name] = min(first, known[0]), max(last, known[1])
    latency = latencies(recent)
    return Progress(
        batch=tally.batch,
        events=tally.events,
        events_per_second=float(busy[-1]["processedRowsPerSecond"]) if busy else 0.0,
        watermark=_spark_time(watermark),
        latest=_time(tally.latest),
        open_windows=sum(last - first + 1 for first, last in windows.values()),
        state_rows=sum(shard["rows"] for shard in tally.state.values()),
        state_bytes=sum(shard["bytes"] for shard in tally.state.values()),
        late=tally.late,
        rejects=tally.rejects,
        rows={name: tally.rows.get(name, 0) for name in queries},
        plan=PhysicalPlan(tuple(map(from_value, tally.steps))),
        vectors=sum(shard.get("vectors", 0) for shard in tally.state.values()),
        vector_bytes=sum(shard.get("vector_bytes", 0) for shard in tally.state.values()),
        read=tally.rows_read,
        sharing=tally.sharing,
        partial_matches=sum(shard.get("partial_matches", 0) for shard in tally.state.values()),
        plans=tally.sharing.get("plans", 0),
        latency_p50_s=_percentile(latency, 0.50),
        latency_p99_s=_percentile(latency, 0.99),
        raw=raw,
        sharing_plans=_sharing_plans(tally.state.values()),
    )


def _sharing_plans(shards: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The facts about plans that follow rates, summed over shards."""
    found: dict[str, dict[str, float]] = {}
    for shard in shards:
        for name, facts in shard.get("sharing_plans", {}).items():
            before = found.get(name, {})
            found[name] = {fact: value + before.get(fact, 0) for fact, value in facts.items()}
    return found


def latencies(recent: Sequence[Mapping[str, Any]]) -> list[float]:
    """Per micro-batch with events, the seconds until the rows that they complete were written.

    Events arrive by the time their batch is triggered. They move the watermark of the next batch, which may
    have no events of its own; that batch reports the windows that they completed.
    """
    done = [p for p in recent if "addBatch" in p["durationMs"]]
    return [
        (
            datetime.fromisoformat(later["timestamp"]) - datetime.fromisoformat(batch["timestamp"])
        ).total_seconds()
        + later["durationMs"]["triggerExecution"] / 1_000
        for batch, later in pairwise(done)
        if batch["numInputRows"] and later["batchId"] == batch["batchId"] + 1
    ]


def _percentile(values: Sequence[float], share: float) -> float | None:
    """The least value that a share of all values does not exceed."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else None


def _spark_time(text: str | None) -> datetime | None:
    """Parse Spark's watermark; it is 1970 if there is none yet."""
    if text is None:
        return None
    found = datetime.fromisoformat(text)
    return found if found > datetime(1970, 1, 1, tzinfo=UTC) else None


def _time(micros: int) -> datetime | None:
    if micros == ALWAYS:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return None


class Listener(StreamingQueryListener):
    """Reports the progress of one stream after each of its micro-batches, across restarts."""

    def __init__(
        self,
        spark: SparkSession,
        query_id: Callable[[], str],
        progress: Callable[[], Progress],
        watcher: Watcher,
    ) -> None:
        self._spark, self._query_id, self._progress, self._watcher = spark, query_id, progress, watcher

    # PySpark calls these by their Java names.
    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to report yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report the progress after a micro-batch."""
        if str(event.progress.id) == str(self._query_id()):
            self._watcher(self._progress())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing to do at the end."""

    def remove(self) -> None:
        """Stop listening."""
        self._spark.streams.removeListener(self)
