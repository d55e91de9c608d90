"""GLORIA's bench: its workloads, and what it says of plans."""

from __future__ import annotations

from collections import Counter

import pytest

from trendfold.automaton import build
from trendfold.bench import gloria_plans, run, trade_queries
from trendfold.bench.gloria_plans import LARGEST, costs
from trendfold.bench.paper_claims import read_claims
from trendfold.query.nodes import Query


def test_no_plan_is_lost_by_pruning() -> None:
    found = costs(0, LARGEST)
    assert found["gloria"] <= found["NoPrune"] * 1.001
    assert found["gloria"] < found["Greedy"] < 1.1


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_nor_for_other_seeds(seed: int) -> None:
    found = costs(seed, "sequences, 120")
    assert found["gloria"] <= found["NoPrune"] * 1.005


def types(query: Query) -> list[str]:
    return [position.type for position in build(query.pattern).positions]


def test_workloads_are_what_they_are_called() -> None:
    hub = trade_queries.through_a_hub(40, 0)
    assert {types(query)[2] for query in hub} == {"P00", "P01", "P02", "P03"}
    assert {types(query)[4] for query in hub} == {"HUB"}
    half = trade_queries.beside_hamlet(100, 0, 0.5)
    assert Counter(len(types(query)) for query in half) == {3: 50, 8: 50}


def test_claims_name_lines_and_ratios_of_the_bench() -> None:
    lines = {case.name for case in gloria_plans.cases(0)}
    claims = [claim for claim in read_claims() if claim.bench == "gloria"]
    optimizing = [claim for claim in claims if claim.ours.startswith("optimize")]
    assert optimizing
    assert all({claim.ours, claim.over} <= lines for claim in optimizing)
    assert {int(claim.figure) for claim in claims} == set(range(11, 20))


@pytest.mark.slow
def test_all_ways_agree_and_everything_claimed_is_measured() -> None:
    report = run("gloria", scale=0.05, repeats=1)
    lines = {line.name for line in report.measurements}
    for claim in read_claims():
        if claim.bench == "gloria":
            assert claim.measured in report.ratios or {claim.ours, claim.over} <= lines, claim
    assert report.plot.startswith("<svg")
    assert any("coefficients" in note for note in report.notes)
