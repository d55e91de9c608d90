"""Sharing plans that follow the rates of a stream: they change between releases, and the rows never do."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pyarrow as pa
import pytest

import trendfold as tf
from contract import engine
from contract.test_gloria import PATTERNS
from contract.test_hamlet import AGGREGATES, LOCAL, table
from stream.simulation import Simulation, ordered, simulate
from stream.test_settling import START, feed, seeds
from trendfold.events.options import Options
from trendfold.papers.gloria import follow
from trendfold.papers.gloria.follow import PlanInForce, cost_by, forget_graphs, reconfiguration
from trendfold.papers.gloria.incremental import keep, reweigh
from trendfold.plan import QueryPlan
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.stream_job import Epoch, stream_job
from trendfold.testing import oracle

WINDOWS = ("WITHIN 4 s SLIDE 4 s", "WITHIN 6 s SLIDE 2 s", "WITHIN 6 s SLIDE 3 s", "WITHIN 2 s SLIDE 3 s")


def always_migrate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any gain is worth a migration, and only the windows at hand count."""
    for name, value in (("THRESHOLD", 0.0), ("CHANCE", 0.0), ("LASTING", inf), ("MEMORY", 0.0)):
        monkeypatch.setattr(follow, name, value)


def changing_events(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Events whose types change their rates every few seconds."""
    found: list[dict[str, Any]] = []
    ts = START
    for number in range(count):
        if number % 12 == 0:
            weights = [rng.choice([1, 1, 3, 12]) for _ in "ABCD"]
        ts += rng.choice([0, 1, 1])
        one = {"type": rng.choices("ABCD", weights)[0], "ts": ts, "k": rng.choice([1, 1, 2, None])}
        others = {
            "g": rng.choice("xy"),
            "v": rng.choice([0, 1, 2, None]),
            "w": rng.choice([0.5, -2.0]),
            "s": "s",
        }
        found.append({**one, **others})
    return found


def queries_that_share(rng: random.Random) -> list[str]:
    """Queries over the same streams with few patterns, in windows of a few seconds."""
    streams, found = rng.choice(["", "[k]"]), []
    patterns = rng.sample(PATTERNS[:10], 2)
    for number in range(rng.randint(2, 6)):
        wanted = [one for one in (streams, rng.choice(LOCAL)) if one]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        text = f"QUERY n{number} RETURN {rng.choice(AGGREGATES)} PATTERN {rng.choice(patterns)} {where}"
        text = f"{text} {rng.choice(WINDOWS)}"
        try:
            tf.parse(text)
        except tf.QueryError:
            continue
        found.append(text)
    return found


def stored(stream: Simulation) -> list[PlanInForce]:
    """The plans in force, in all shards."""
    states = (ShardIndex.load(store, ALWAYS).running for store in stream.shards.values())
    return [PlanInForce(**each) for state in states for each in state.values()]


def wrong_rows(
    found: Mapping[str, Sequence[pa.Table]], texts: list[str], events: list[dict[str, Any]]
) -> list[str]:
    """How the rows of a stream differ from the oracle's."""
    like, wrong = tf.parse(";".join(texts)).run(table(events)), []
    for text in texts:
        [query] = tf.parse(text)
        rows = ordered(found[query.name], like[query.name], 0).to_pylist()
        problem = engine.difference(rows, oracle.rows(text, events, None), 2)
        wrong += [f"{text}: {problem}"] if problem else []
    return wrong


@pytest.mark.parametrize("seed", seeds(5, 100))
def test_plans_that_change_all_the_time_give_the_oracles_rows(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    always_migrate(monkeypatch)
    rng = random.Random(seed)
    texts, events = queries_that_share(rng), changing_events(rng, 50)
    if not texts:
        return
    rows = table(events)
    strategy = rng.choice(["gloria", "gloria", "gloria-noprune"])
    stream = simulate(
        tf.parse(";".join(texts)), rows.schema, 2_000_000, rng.choice([1, 2]), strategy=strategy
    )
    feed(stream, rows, 2, rng)
    assert wrong_rows(stream.results(), texts, events) == []


# ---------------------------------------------------------------- rates that flip

FLIPPED = [
    f"QUERY f{n} RETURN COUNT(*) PATTERN SEQ(A, B, C, D, {last}) WITHIN 20 s SLIDE 20 s"
    for n, last in enumerate("EEFF")
]


def flipping(seconds: int = 400, flip: int = 200, per_second: int = 10) -> pa.Table:
    """A is rare and C frequent; from some time on it is the other way round."""
    rng = random.Random(3)
    before, after = (1, 10, 30, 10, 5, 5), (30, 10, 1, 10, 5, 5)
    times = [START + number // per_second for number in range(seconds * per_second)]
    types = [rng.choices("ABCDEF", before if ts < START + flip else after)[0] for ts in times]
    return pa.table({"type": types, "ts": pa.array(times, pa.int64())})


def fed(stream: Simulation, rows: pa.Table, size: int = 500) -> list[PlanInForce]:
    """The plan in force after every micro-batch, in the only shard."""
    seen: list[PlanInForce] = []
    for low in range(0, rows.num_rows, size):
        stream.feed(rows.slice(low, size))
        seen += stored(stream)[:1]
    return seen


def test_a_plan_is_migrated_when_rates_flip_and_only_then() -> None:
    rows, workload = flipping(), tf.parse(";".join(FLIPPED))
    stream = simulate(workload, rows.schema, 1_000_000, 1, strategy="gloria")
    seen = fed(stream, rows)
    stream.flush()
    counts = [each.migrations for each in seen]
    assert counts[: len(counts) // 2 - 1] == [0] * (len(counts) // 2 - 1)
    assert 1 <= counts[-1] <= 3
    assert seen[-1].cost <= seen[-1].best * (1 + follow.THRESHOLD) < seen[-1].alone
    like = workload.run(rows)
    for query in workload:
        assert ordered(stream.results()[query.name], like[query.name], 0) == like[query.name]
    assert all(store.text is None for store in stream.shards.values())


def test_what_is_stored_gives_any_process_the_same_plan() -> None:
    rows, workload = flipping(), tf.parse(";".join(FLIPPED))
    one, other = (simulate(workload, rows.schema, 1_000_000, 1, strategy="gloria") for _ in range(2))
    seen = fed(one, rows)
    for low in range(0, rows.num_rows, 500):
        forget_graphs()
        other.feed(rows.slice(low, 500))
    assert stored(other)[0] == seen[-1]


def test_a_removed_query_leaves_the_rates_to_the_others() -> None:
    rows, workload = flipping(200), tf.parse(";".join(FLIPPED))
    given = (), rows.schema, Options(), 0, DEFAULTS, "auto", 1
    stream = Simulation(stream_job([Epoch(workload.plan("gloria"))], *given, delay_ms=1_000), 1_000_000)
    stream.feed(rows.slice(0, 1_000))
    [before] = stored(stream)
    stream.stream = stream_job([Epoch(workload.plan("gloria"))], {1}, *given[1:], delay_ms=1_000)
    stream.feed(rows.slice(1_000))
    [after] = stored(stream)
    assert after.built == before.built
    assert after.rates != before.rates
    stream.flush()
    like = workload.run(rows)
    for query in (workload.queries[0], *workload.queries[2:]):
        assert ordered(stream.results()[query.name], like[query.name], 0) == like[query.name]


# ---------------------------------------------------------------- the decision


def members() -> tuple[QueryPlan, ...]:
    group = tf.parse(";".join(FLIPPED)).plan("gloria")[0].group
    assert group is not None
    return group.members


RATES = {"A": 4.0, "B": 40.0, "C": 120.0, "D": 40.0, "E": 20.0, "F": 20.0}
FLIPS = {**RATES, "A": 120.0, "C": 4.0}


def test_the_cost_of_a_path_by_other_rates_is_that_of_its_plan() -> None:
    kept = keep(members(), RATES)
    weights = replace(kept.found.graph.weights, frequencies=FLIPS)
    assert cost_by(kept.found, kept.found.graph.weights) == kept.found.cost
    assert cost_by(kept.found, weights) >= reweigh(kept, FLIPS).found.cost
    assert cost_by(kept.found, weights) > 1.5 * keep(members(), FLIPS).found.cost


def test_a_migration_must_pay_for_the_reconfiguration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MEMORY", 0.0)
    _, before = follow.follow(members(), RATES, PlanInForce.begin(RATES))
    kept, new = keep(members(), RATES), keep(members(), FLIPS)
    weights = new.found.graph.weights
    costs = reconfiguration(kept.plan(), new.plan(), weights)
    gain = cost_by(kept.found, weights) - new.found.cost
    assert costs > 0 == reconfiguration(new.plan(), new.plan(), weights)
    for lasting, migrations in ((costs / gain * 0.99, 0), (costs / gain * 1.01, 1)):
        monkeypatch.setattr(follow, "LASTING", lasting)
        plan, now = follow.follow(members(), FLIPS, before)
        assert now.migrations == migrations
        assert (now.cost > now.best) == (migrations == 0)
        assert (plan.crossings == kept.plan().crossings) == (migrations == 0)


def test_rates_that_move_little_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, before = follow.follow(members(), RATES, PlanInForce.begin(RATES))
    monkeypatch.setattr(follow, "_look_again", None)
    _, now = follow.follow(members(), {name: rate * 1.3 for name, rate in RATES.items()}, before)
    assert now.rates["B"] == 46.0
    assert now.weighed == before.weighed
    with pytest.raises(TypeError):
        follow.follow(members(), FLIPS, before)
