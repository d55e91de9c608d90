"""What a plan makes of predicates between neighbours."""

from __future__ import annotations

import pytest

import trendfold as tf
from trendfold.plan import plan
from trendfold.plan.neighbour import BOUNDS, Structure, online


def structures(where: str, pattern: str = "A+", semantics: str = "any") -> list[tuple[str, str]]:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics} WHERE {where}")
    return [(str(a.structure), a.bound) for a in plan(query).operands[0].accesses]


@pytest.mark.parametrize(
    ("where", "structure"),
    [
        ("A.x < NEXT(A).x", "tree"),
        ("A.x + 1 <= NEXT(A).y * 2", "tree"),
        ("NEXT(A).x >= A.y", "tree"),
        ("A.x != NEXT(A).x", "tree"),
        ("NOT A.x = NEXT(A).x", "tree"),
        ("A.x = NEXT(A).x", "table"),
        ("A.x = NEXT(A).x AND A.y = NEXT(A).z", "table"),
        ("A.x = NEXT(A).x AND A.y < NEXT(A).z", "tree"),
        ("A.x BETWEEN NEXT(A).y AND NEXT(A).z", "tree"),
        ("(A.x < NEXT(A).x AND A.y > 1 AND NEXT(A).y > 2)", "tree"),
        ("A.x < NEXT(A).x AND A.y < NEXT(A).y", "nested trees"),
        ("A.k = NEXT(A).k AND A.x != NEXT(A).x AND A.y < NEXT(A).y", "nested trees"),
        ("NEXT(A).x BETWEEN A.x - 1 AND A.x + 2", "nested trees"),
        ("A.x < NEXT(A).x AND A.y < NEXT(A).y AND A.z < NEXT(A).z", "scan"),
        ("A.x != NEXT(A).x AND A.x != NEXT(A).y AND A.z < NEXT(A).z", "scan"),
        ("A.x < NEXT(A).x AND A.x + NEXT(A).x > 3", "scan"),
        ("(A.x < NEXT(A).x OR A.y < NEXT(A).y)", "scan"),
    ],
)
def test_a_conjunction_of_comparisons_has_a_structure(where: str, structure: str) -> None:
    found = structures(where)
    if structure == "scan":
        assert not found  # nothing is indexed: the plan is cogra's
    else:
        assert found == [(structure, BOUNDS[Structure(structure)])]


def test_under_next_all_who_ask_the_same_bindings_find_them_alike() -> None:
    mixed = "A.x = NEXT(A).x AND A.x < NEXT(B).x"
    assert structures(mixed, "SEQ(A+, B)") == [("table", "O(1)"), ("tree", "O(log n)")]
    assert structures(mixed, "SEQ(A+, B)", "next") == [("tree", "O(log n)")] * 2
    assert structures("A.x = NEXT(A).x AND A.x + NEXT(B).x > 1", "SEQ(A+, B)", "next") == []


def test_under_contiguous_only_the_last_moment_is_asked() -> None:
    assert structures("A.x < NEXT(A).x", semantics="contiguous") == []


@pytest.mark.parametrize("strategy", ["cogra", "greta"])
def test_the_papers_strategies_ask_every_binding(strategy: str) -> None:
    (query,) = tf.parse("RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x")
    assert plan(query, strategy).operands[0].accesses == ()
    assert plan(query).strategy == "auto"


@pytest.mark.parametrize(
    ("where", "is_able"),
    [
        ("A.x < NEXT(A).x", True),
        ("A.x != NEXT(A).x", True),
        ("A.k = NEXT(A).k AND A.x < NEXT(A).x", False),
        ("A.x BETWEEN NEXT(A).y AND NEXT(A).z", False),
        ("A.x < NEXT(A).x AND A.y < NEXT(A).y", False),
    ],
)
def test_one_comparison_by_order_can_do_without_ranks(where: str, is_able: bool) -> None:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN A+ WHERE {where}")
    (access,) = plan(query).operands[0].accesses
    assert not access.is_online
    assert online(access).is_online == is_able
    assert online(access).bound == access.bound
