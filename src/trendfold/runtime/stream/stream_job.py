"""The work of a stream as a value: queries, how their events travel, and what their state is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from trendfold.events.batch import schema_of
from trendfold.events.options import Options
from trendfold.plan import QueryPlan
from trendfold.plan.papers import NEED_RATES
from trendfold.plan.stream_choices import BLOCKS, has_moving_windows, why_raw
from trendfold.runtime.limits import Limits
from trendfold.runtime.release import ALWAYS, NEVER, Release, release_of
from trendfold.runtime.spark.exchanges import Exchange, exchanges, joined, within_exchanges
from trendfold.runtime.spark.tasks import Job, Route
from trendfold.runtime.stream.online_groups import OnlineGroup, online_groups


@dataclass(frozen=True)
class StreamJob:
    """A job, and for each query when its windows are reported; None for a removed query."""

    job: Job
    releases: tuple[Release | None, ...]
    keeps_rejects: bool = False
    max_ahead: int | None = None
    """How far in the future an event may be, in microseconds; None for no limit."""
    delay_ms: int | None = None
    """The watermark's delay; None if it is not known, and only the watermark itself makes events final."""
    emits_updates: bool = False
    """Whether the rows of open windows are reported after every micro-batch."""

    def of(self, exchange: Exchange) -> dict[int, Release]:
        """The queries of an exchange that are not removed."""
        found = {query: self.releases[query] for query in exchange.queries}
        return {query: release for query, release in found.items() if release is not None}

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """The exchanges that still have a query."""
        return tuple(n for n, exchange in enumerate(self.job.exchanges) if self.of(exchange))

    @cached_property
    def raw(self) -> dict[int, str]:
        """The queries whose events are kept until their windows end, and the reason."""
        kinds, arithmetic = schema_of(self.job.schema), self.job.arithmetic
        asked = [query for query, release in enumerate(self.releases) if release is not None]
        found = {query: why_raw(self.job.plans[query], kinds, arithmetic) for query in asked}
        return {query: why for query, why in found.items() if why}

    @cached_property
    def moving(self) -> dict[int, tuple[int, ...]]:
        """Per exchange, the queries with a window per event whose events are folded once or twice."""
        plans = self.job.plans
        return {
            number: tuple(
                query
                for query in self.of(self.job.exchanges[number])
                if query not in self.raw and has_moving_windows(plans[query])
            )
            for number in self.asked
        }

    @cached_property
    def online(self) -> dict[int, tuple[OnlineGroup, ...]]:
        """Per exchange, the queries whose events are folded as they become final."""
        found = {}
        for number in self.asked:
            own = self.of(self.job.exchanges[number])
            queries = [query for query in own if query not in self.raw and query not in self.moving[number]]
            since = {query: own[query].since for query in queries}
            found[number] = online_groups(number, queries, self.job.plans, since)
        return found

    @cached_property
    def followed(self) -> dict[str, frozenset[str]]:
        """The groups whose plans follow the rates of the stream, by name, and their queries."""
        asked = (plan for plan, release in zip(self.job.plans, self.releases, strict=True) if release)
        groups = (plan.group for plan in asked if plan.group is not None)
        return {group.name: frozenset(group.names) for group in groups if group.method in NEED_RATES}

    def is_over(self, exchange: int, watermark: int) -> bool:
        """Whether all queries of an exchange are replaced, and their last windows reported."""
        return all(r.is_over(watermark) for r in self.of(self.job.exchanges[exchange]).values())

    def keeps_raw(self, exchange: int) -> tuple[int, ...]:
        """The queries of an exchange that fold its events when their windows end."""
        return tuple(query for query in self.of(self.job.exchanges[exchange]) if query in self.raw)

    def needs_events(self, exchange: int) -> bool:
        """Whether all events of an exchange are kept until the windows of some query end."""
        return bool(self.keeps_raw(exchange) or self.moving[exchange])

    def final(self, latest: int, watermark: int) -> int:
        """Events before this time are final after a micro-batch with an event at `latest`.

        The next watermark is the latest time seen less the delay, in whole milliseconds, and never falls.
        """
        if self.delay_ms is None or latest == ALWAYS:
            return watermark
        reached = latest // 1_000 - self.delay_ms
        return max(watermark, reached * 1_000) if reached > 0 else watermark

    def pane(self, exchange: Exchange) -> int:
        """The length of the time ranges by which events of an exchange arrive: the shortest pane."""
        return min(release.pane for release in self.of(exchange).values())

    def stored_pane(self, exchange: Exchange, has_blocks: bool) -> int:
        """The length of the time ranges by which parts are merged: panes, or blocks of windows per event."""
        if not has_blocks:
            return self.pane(exchange)
        return min(
            release.pane if release.window.slide else max(1, release.window.length // BLOCKS)
            for release in self.of(exchange).values()
        )


def _add(own: list[Exchange], added: Exchange, joins: bool) -> None:
    """Add an exchange, or its queries to one whose rows go the same way."""
    for number, exchange in enumerate(own if joins else ()):
        if (both := joined(exchange, added)) is not None:
            own[number] = both
            return
    own.append(added)


@dataclass(frozen=True, slots=True)
class Epoch:
    """Queries added together, and the time after which their first windows begin.

    joins  whether they join exchanges of earlier epochs, and so share the state of their groups
    """

    plans: tuple[QueryPlan, ...]
    since: int = ALWAYS
    joins: bool = False


def stream_job(
    epochs: Sequence[Epoch],
    removed: Collection[int],
    schema: pa.Schema,
    options: Options,
    origin: int,
    limits: Limits,
    arithmetic: str,
    shards: int,
    keeps_rejects: bool = False,
    max_ahead: int | None = None,
    delay_ms: int | None = None,
    replaced: Mapping[int, int] = MappingProxyType({}),
) -> StreamJob:
    """The job of a stream.

    Exchanges and queries keep their numbers when queries are added or removed, and with them the state of all
    others. `replaced` has, per replaced query, the time by which its last window begins.
    """
    kinds = schema_of(schema)
    plans: list[QueryPlan] = []
    own: list[Exchange] = []
    releases: list[Release | None] = []
    for epoch in epochs:
        for exchange in exchanges(epoch.plans, kinds, options, arithmetic):
            added = replace(exchange, queries=tuple(len(plans) + query for query in exchange.queries))
            _add(own, added, epoch.joins)
        for plan in epoch.plans:
            release = release_of(plan, origin, epoch.since, replaced.get(len(plans), NEVER))
            releases.append(None if len(plans) in removed else release)
            plans.append(plan)
    job = Job(
        plans=within_exchanges(plans, own),
        exchanges=tuple(own),
        routes=(Route.PARTITION,) * len(own),
        options=options,
        schema=schema,
        origin=origin,
        limits=limits,
        arithmetic=arithmetic,
        buckets=shards,
        finishers=1,
        shared=np.zeros((0, 2), np.int64),
        chunks=np.zeros(0, np.int64),
    )
    return StreamJob(job, tuple(releases), keeps_rejects, max_ahead, delay_ms)
