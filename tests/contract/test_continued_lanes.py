"""A fold that is cut between moments and goes on from saved vectors gives the oracle's rows."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import fits, growing_workload, many_events, random_workload
from contract.test_together import SCHEMA
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel import rows as kernels
from trendfold.kernel.jit import IS_PLAIN
from trendfold.kernel.program import Folded
from trendfold.kernel.wide import log2
from trendfold.plan import Group, plan_auto
from trendfold.plan.logical import LANES
from trendfold.plan.workload import grouped, rows_key, units
from trendfold.query import Query
from trendfold.runtime.folding import FoldedQuery
from trendfold.runtime.folds.continued_lanes import (
    LaneFamily,
    StaleVectorsError,
    WindowVectors,
    families,
    fold_on,
    fresh,
    whole_trends,
)
from trendfold.runtime.folds.in_machine_lanes import CarriedOver, lane_material
from trendfold.runtime.lane_rows import LaneRows, read_lane_rows
from trendfold.runtime.local import table_of
from trendfold.runtime.request import EVERYTHING
from trendfold.runtime.windows import HeldWindows
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

Window = tuple[Hashable, int]
"""The key of a segment and the number of a window."""


def groups_of(queries: Iterable[Query]) -> list[Group]:
    """The groups that are folded in lanes, down to one query."""
    plans = [plan_auto(query) for query in queries]
    plans = list(grouped(plans, "auto", LANES, lambda p: rows_key(p) if fits(p) else None, least=1))
    found = units({i: plan for i, plan in enumerate(plans) if plan.group is not None})
    return [unit.group for unit in found if unit.group is not None]


def lane_rows(group: Group, table: pa.Table, order_column: str | None) -> LaneRows:
    together, _ = read_lane_rows(group, Workspace(read_batch(table, Options(order_column=order_column))))
    assert together is not None
    return together


def windows_of(group: Group, together: LaneRows, which: int) -> list[Window]:
    """The key of every item."""
    first = group.members[0]
    names = [*first.partition, *(key.attribute for key in first.plain_keys)]
    row = together.rows.row[together.rows.segment[:-1]]
    keys = list(
        zip(*(together.batch.table.column(n).take(pa.array(row)).to_pylist() for n in names), strict=True)
    )
    items = together.windows[which]
    pairs = zip(items.segment.tolist(), items.index.tolist(), strict=True)
    return [(keys[segment] if names else (), index) for segment, index in pairs]


class Store:
    """The vectors of all windows that have come so far, by family."""

    def __init__(self, group: Group) -> None:
        self.group, self.families = group, families(group)
        self.known: list[dict[Window, WindowVectors]] = [{} for _ in self.families]
        self.kinds = max(family.which for family in self.families) + 1

    def fold(self, table: pa.Table, order_column: str | None, rng: random.Random) -> None:
        """Load what is known of the windows of some rows, fold them, and save all."""
        together = lane_rows(self.group, table, order_column)
        windows = [windows_of(self.group, together, which) for which in range(self.kinds)]
        # Which vector is which window's is the same for all families of a kind.
        kept = [rng.sample(known, len(known)) for known in map(self._known, range(self.kinds))]
        order = [{window: i for i, window in enumerate(each)} for each in kept]
        carry = [
            CarriedOver(np.array([order[k].get(w, -1) for w in own], np.int64), np.ones(len(own), np.bool_))
            for k, own in enumerate(windows)
        ]
        given = [self._stacked(f, kept[family.which]) for f, family in enumerate(self.families)]
        found, why = fold_on(self.group, together, given, carry)
        assert found is not None, why
        for f, family in enumerate(self.families):
            for i, window in enumerate(windows[family.which]):
                self.known[f][window] = found.vectors[f].take(np.array([i]))

    def _known(self, which: int) -> list[Window]:
        return next(list(k) for k, f in zip(self.known, self.families, strict=True) if f.which == which)

    def _stacked(self, f: int, windows: list[Window]) -> WindowVectors | None:
        every = [self.known[f][window] for window in windows]
        if not every:
            return None
        parts = (
            np.concatenate([getattr(v, n) for v in every])
            for n in ("mantissa", "exponent", "extreme", "time")
        )
        return WindowVectors(every[0].fingerprints, *parts)

    def results(self, together: LaneRows) -> tuple[Folded, ...]:
        """The aggregates of every member's items in one fold of everything."""
        found: dict[int, Folded] = {}
        for f, family in enumerate(self.families):
            stacked = self._stacked(f, windows_of(self.group, together, family.which)) or fresh(family, 0)
            found |= zip(family.members, whole_trends(family, stacked), strict=True)
        return tuple(found[k] for k in range(len(found)))


def chunks(table: pa.Table, order_column: str | None, rng: random.Random) -> list[pa.Table]:
    """A table cut at random moments, perhaps nowhere or at each; rows within a chunk stay in their order."""
    names = ["ts", order_column] if order_column else ["ts"]
    moment = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    often = rng.choice([0.0, 0.1, 0.4, 1.0])
    cuts = [each for each in sorted(set(moment)) if rng.random() < often]
    chunk = np.array([sum(each >= cut for cut in cuts) for each in moment], np.int64)
    return [table.filter(pa.array(chunk == k)) for k in range(len(cuts) + 1) if (chunk == k).any()]


@engine.many(400)
@given(seed=st.integers(0, 2**40))
def test_a_stream_cut_at_any_moments_has_the_oracles_rows(seed: int) -> None:
    rng = random.Random(seed)
    check_cut(rng, *random_workload(rng))


def check_cut(rng: random.Random, texts: list[str], events: list[dict], order_column: str | None) -> None:
    """Fail unless every query has the oracle's rows when its events are cut at some moments."""
    table = pa.Table.from_pylist(events, SCHEMA)
    queries = tf.parse(";\n".join(texts))
    text_of = dict(zip((query.name for query in queries), texts, strict=True))
    for group in groups_of(queries):
        store = Store(group)
        for chunk in chunks(table, order_column, rng):
            store.fold(chunk, order_column, rng)
        together = lane_rows(group, table, order_column)
        for plan, (items, own) in zip(
            group.members, together.with_trends([(each,) for each in store.results(together)]), strict=True
        ):
            rows = together.rows_of(plan, group.members[0])
            held = HeldWindows(items.index)
            found = table_of(FoldedQuery(plan, rows, items, held, (), together.batch, own), EVERYTHING)
            expected = oracle.rows(text_of[plan.query.name], events, order_column)
            wrong = engine.difference(found.to_pylist(), expected, 2 + len(plan.query.group_by))
            assert wrong is None, f"{plan.query.name}: {wrong}\n{texts!r}\n{events!r}\n{order_column!r}"


@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 16))
def test_counts_of_any_size_go_on(seed: int) -> None:
    rng = random.Random(seed)
    table = many_events(rng, 300 if IS_PLAIN else 2_000, with_ties=seed % 2 == 1)
    for group in groups_of(growing_workload(rng)):
        store, together = Store(group), lane_rows(group, table, None)
        time = table.column("ts").to_numpy()
        edges = [-1, *sorted(rng.sample(range(int(time[-1])), 4)), int(time[-1])]
        for low, high in pairwise(edges):
            chunk = table.filter(pa.array((time > low) & (time <= high)))
            if chunk.num_rows:
                store.fold(chunk, None, rng)
        ready = lane_material(group, together).lower(in_bursts=seed % 3 == 0)
        for found, wanted in zip(store.results(together), ready.fold(), strict=True):
            close(found, wanted)


def close(found: Folded, wanted: Folded) -> None:
    """Counts agree, and sums up to what they lose where terms cancel out."""
    counts = [log2(each.mantissa[:, 0], each.exponent[:, 0]) for each in (found, wanted)]
    np.testing.assert_allclose(*counts, rtol=1e-12)
    np.testing.assert_array_equal(found.extreme, wanted.extreme)
    has_trends = wanted.mantissa[:, :1] != 0
    top = np.maximum(np.maximum(found.exponent, wanted.exponent), wanted.exponent[:, :1])
    scaled = [np.ldexp(each.mantissa, -256 * np.minimum(top - each.exponent, 4)) for each in (found, wanted)]
    count = np.ldexp(wanted.mantissa[:, :1], -256 * np.minimum(top - wanted.exponent[:, :1], 4))
    assert np.all(np.abs(scaled[0] - scaled[1]) <= 1e-9 * (np.abs(scaled[1]) + 1e9 * count * has_trends))


def vectors_of(text: str) -> tuple[Group, LaneRows, LaneFamily]:
    table = pa.table({"type": list("AB"), "ts": [1, 2], "x": [0.5, 2.0]})
    (group,) = groups_of(tf.parse(text))
    return group, lane_rows(group, table, None), families(group)[0]


def test_vectors_of_other_queries_are_refused() -> None:
    group, together, _ = vectors_of("RETURN SUM(B.x) PATTERN SEQ(A, B+)")
    carry = [CarriedOver(np.zeros(1, np.int64), np.zeros(1, np.bool_))]
    for other in ("RETURN COUNT(*) PATTERN SEQ(A, B+)", "RETURN SUM(B.x) PATTERN SEQ(A, B)"):
        with pytest.raises(StaleVectorsError, match="start the stream anew"):
            fold_on(group, together, [fresh(vectors_of(other)[2])], carry)


def test_a_window_without_a_row_stays_as_it_is() -> None:
    group, together, family = vectors_of("RETURN SUM(B.x) PATTERN SEQ(A, B+)")
    (items,) = together.windows
    twice = {name: np.repeat(getattr(items, name), 2) for name in ("segment", "index", "low", "high")}
    twice["high"] = np.array([0, 2])  # the first ends where the second begins, in the same slot
    together = replace(together, windows=(replace(items, **twice),))
    carry = [CarriedOver(np.array([0, 1]), np.ones(2, np.bool_))]
    given = fresh(family, 2)
    found, _ = fold_on(group, together, [given], carry)
    assert found is not None
    np.testing.assert_array_equal(found.vectors[0].mantissa[0], given.mantissa[0])
    assert found.results[0].mantissa.tolist() == [[0.0, 0.0, 0.0], [1.0, 2.0, 1.0]]


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_copied_into_streams_as_they_are_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, values = 40, np.array([-1, 0, 2, -1, 1, 2])
    segment, start = np.array([0, 15, count]), np.array([0, 3, 6])
    value, is_own = rng.integers(0, 4, count), rng.random(count) < 0.4
    row, time, takes = rng.permutation(count), np.sort(rng.integers(0, 99, count)), rng.random(count) < 0.5
    kind, other = rng.integers(0, 3, count).astype(np.uint8), np.array([0, 3, 4], np.int32)
    size = int(kernels.start_streams(segment, value, is_own, start, values)[-1])
    source, matches = np.empty(size, np.int64), np.empty(size, np.bool_)
    kernels.split_streams(segment, value, is_own, start, values, source, matches)
    copies = tuple(np.empty(size, each) for each in (np.int64, np.int64, np.int32, np.bool_))
    kernels.copy_into_streams(segment, value, is_own, start, values, (row, time, kind, other, takes), copies)
    kinds = np.where(matches, kind[source], other[kind[source]])
    for found, wanted in zip(
        copies, (row[source], time[source], kinds, matches & takes[source]), strict=True
    ):
        assert found.tolist() == wanted.tolist()
