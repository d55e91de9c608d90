"""HAMLET's benefit model: the paper's numbers, its pruning principles, and where they miss the best plan."""

from __future__ import annotations

import random

import pytest

from hamlet_benefit import (
    Burst,
    Sharer,
    all_plans,
    benefit,
    exhaustive_choice,
    nonshared_cost,
    pays_among,
    plan_cost,
    pruned_choice,
    shared_cost,
    snapshots,
)


@pytest.mark.parametrize(
    ("burst", "s_c", "s_p", "shared", "alone"),
    [
        (Burst(b=4, n=7, g=4, t=2), 1, 1, 44, 56),
        (Burst(b=4, n=11, g=8, t=2), 1, 2, 120, 88),
        (Burst(b=4, n=15, g=4, t=2), 1, 1, 76, 120),
    ],
    ids=["equation 8: share", "equation 9: split", "equation 10: merge"],
)
def test_the_papers_decisions(burst: Burst, s_c: int, s_p: int, shared: int, alone: int) -> None:
    assert shared_cost(burst, 2, s_c, s_p) == shared
    assert nonshared_cost(burst, 2) == alone
    assert benefit(burst, 2, s_c, s_p) == alone - shared


def test_figure_7_has_twelve_plans_for_four_queries() -> None:
    # The paper does not draw the four plans in which one query shares with nobody: they are the last one.
    plans = [chosen for chosen in all_plans(4) if len(chosen) != 1]
    assert len(plans) == len(set(plans)) == 12


def sharers(*rejects: str, windows: tuple[int, ...] = ()) -> list[Sharer]:
    """A sharer per word, which rejects the events that its digits name."""
    many = windows or (1,) * len(rejects)
    return [Sharer(k, frozenset(map(int, word))) for k, word in zip(many, rejects, strict=True)]


def test_an_event_that_all_reject_or_all_take_costs_no_snapshot() -> None:
    assert snapshots(sharers("12", "1", "13"), frozenset({0, 1, 2})) == 1 + 2
    assert snapshots(sharers("12", "12"), frozenset({0, 1})) == snapshots([], frozenset()) == 1


def test_example_4_6_shares_all_but_the_query_whose_snapshots_cost_too_much() -> None:
    burst = Burst(b=20, n=100, g=20, t=2)
    four = sharers("", "", "", "123456")
    assert pruned_choice(burst, four) == exhaustive_choice(burst, four) == {0, 1, 2}


def random_burst(rng: random.Random) -> tuple[Burst, list[Sharer]]:
    b = rng.randint(1, 12)
    burst = Burst(b=b, n=b + rng.randint(0, 40), g=b, t=rng.randint(1, 4))
    chance, most = rng.choice([0.0, 0.1, 0.3, 0.6]), rng.choice([1, 1, 3, 8])
    kinds = [frozenset(e for e in range(b) if rng.random() < chance) for _ in range(rng.randint(1, 4))]
    return burst, [Sharer(rng.randint(1, most), rng.choice(kinds)) for _ in range(rng.randint(2, 8))]


def test_the_pruned_choice_beside_all_plans() -> None:
    found = 0
    for seed in range(1_000):
        burst, several = random_burst(random.Random(seed))
        best = plan_cost(burst, several, exhaustive_choice(burst, several))
        pruned = plan_cost(burst, several, pruned_choice(burst, several))
        assert best <= pruned <= plan_cost(burst, several, frozenset()), seed
        found += pruned == best
    assert found > 750  # the others are like the counterexamples below


def test_theorem_4_3_is_false_under_equation_7() -> None:
    # A query without snapshots of its own still pays g · t for each snapshot of the others.
    burst, three = Burst(b=10, n=20, g=20, t=6), sharers("", "1", "1", windows=(10, 10, 1))
    everybody = frozenset({0, 1, 2})
    assert snapshots(three, everybody) == snapshots(three, everybody - {2})
    assert not pays_among(burst, three, everybody, 2)


def test_the_snapshot_driven_principle_prunes_the_best_plan() -> None:
    # Neither 1 nor 2 brings snapshots that the other does not bring too, so both must share; best is neither.
    burst, three = Burst(b=10, n=60, g=10, t=2), sharers("", "12345", "123456", windows=(9, 1, 1))
    assert exhaustive_choice(burst, three) == {0}
    assert pruned_choice(burst, three) == {0, 1}
    assert plan_cost(burst, three, frozenset({0, 1})) > plan_cost(burst, three, frozenset({0}))


def test_the_benefit_driven_principle_prunes_the_best_plan() -> None:
    # Beside 0, whose snapshots are many, 1 does not pay: each of them costs it g · t. Beside 2 alone it does.
    burst, three = Burst(b=6, n=17, g=6, t=2), sharers("013", "2", "", windows=(3, 3, 2))
    assert not pays_among(burst, three, frozenset({0, 1, 2}), 1)
    assert pays_among(burst, three, frozenset({1, 2}), 1)
    assert exhaustive_choice(burst, three) == {1, 2}
    assert pruned_choice(burst, three) == {2}
