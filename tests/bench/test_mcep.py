"""Workloads as the paper draws them, and what follows from their measurements."""

from __future__ import annotations

import pytest

import trendfold as tf
from trendfold.bench import mcep_bench
from trendfold.bench.harness import Measurement, Report
from trendfold.bench.mcep_figures import agree
from trendfold.bench.patterns import PatternShape, PatternStream, reshuffled, stock, traffic, workload
from trendfold.papers.mcep.baselines import BASELINES
from trendfold.papers.mcep.plan import PlanSearch
from trendfold.query.nodes import Both, Not, Plus, Seq


@pytest.mark.parametrize("make", [stock, traffic])
def test_patterns_are_sequences_and_conjunctions_with_conditions(make: type[PatternStream]) -> None:
    queries = workload(make(500, 1), PatternShape(patterns=60), 1).queries
    assert {type(query.pattern) for query in queries} == {Seq, Both}
    assert all(query.where for query in queries)
    parts = [part for query in queries for part in query.pattern.parts]
    assert any(isinstance(part, Not) for part in parts)
    assert any(isinstance(part, Plus) for part in parts)
    assert workload(make(500, 1), PatternShape(patterns=60), 1) == workload(
        make(500, 1), PatternShape(patterns=60), 1
    )


def test_reshuffling_moves_types_and_nothing_else() -> None:
    stream = stock(400, 2)
    changed = reshuffled(stream, 100, 5, 2)
    assert changed.table.drop_columns(["type"]) == stream.table.drop_columns(["type"])
    types = [table.column("type").to_pylist() for table in (stream.table, changed.table)]
    assert types[0][:100] == types[1][:100]
    assert types[0][100:] != types[1][100:]


@pytest.mark.slow
def test_every_plan_of_a_workload_finds_the_same_matches_and_others_are_noticed() -> None:
    stream, shape = traffic(2_000, 3), PatternShape(patterns=12, window=5.0, rarity=20.0)
    trivial = mcep_bench.measured(stream, shape, 3)
    found = {name: trivial.by(planner) for name, planner in {**BASELINES, "search": PlanSearch(0.1)}.items()}
    agree(found)
    assert sum(each.count for each in trivial.run(mcep_bench.ANY).matches) > 0
    other = mcep_bench.measured(reshuffled(stream, 1_000, 5, 3), shape, 3)
    with pytest.raises(tf.TrendfoldError, match="plan other finds other matches than trivial"):
        agree({"trivial": trivial, "other": other})


def test_the_promise_is_about_the_geometric_mean() -> None:
    def line(name: str, gain: float) -> Measurement:
        return Measurement(name, 10, (1.0,), 0, "trivial", gain)

    lines = [line("a, SH", 2.0), line("a, RE", 4.0), line("a, MCEP", 8.0)]
    lines += [line("b, SH", 8.0), line("b, RE", 2.0), line("b, MCEP", 32.0)]
    report = mcep_bench.judged(Report("mcep", tuple(lines), {}, {}))
    over_trivial, over_baselines = report.measurements[-1].verdicts
    assert over_trivial.reached == pytest.approx(16.0)
    assert over_baselines.reached == pytest.approx((2.0 * 4.0) ** 0.5)
    assert report.is_kept
