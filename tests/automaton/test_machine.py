"""The linear machine: classes of NOT, states, and what an event does to them."""

from __future__ import annotations

import pytest

import trendfold
from trendfold.automaton import END, START, build, split
from trendfold.automaton.machine import MAX_CLASSES, Classes, Machine, Scan, State, classes
from trendfold.query.partitions import partition_attributes


def machine(text: str, by_event: frozenset[int] = frozenset()) -> Machine:
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN {text}")
    automaton = build(query.pattern)
    return Machine(automaton, query.semantics, split(query, automaton), by_event)


def classes_of(negated: str) -> Classes:
    (guard,) = machine(f"SEQ(A, NOT {negated}, B)").automaton.guards
    found = classes(guard)
    assert found is not None
    return found


def names(found: Classes, negated: str) -> list[str]:
    """The classes as words of N's types: "" is unbroken, "NM" has seen an N and then an M."""
    type_of = {p.index: p.type for p in machine(f"SEQ(A, NOT {negated}, B)").automaton.positions}
    return ["".join(sorted(type_of[r] for r in reached)) for reached in found.sets]


# ---- Classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("negated", "expected"),
    [
        ("N", [""]),
        ("N+", [""]),
        ("OR(N, M)", [""]),
        ("SEQ(N, M)", ["", "N"]),
        ("SEQ(N+, M)", ["", "N"]),
        ("SEQ(K, L, M)", ["", "K", "KL"]),
        ("OR(SEQ(K, L), SEQ(M, N))", ["", "K", "M", "KM"]),
        ("SEQ(OR(K, L), M)", ["", "K", "L", "KL"]),
        ("SEQ(SEQ(K, L)+, M)", ["", "K", "KL"]),
    ],
)
def test_a_class_is_how_far_n_has_come(negated: str, expected: list[str]) -> None:
    assert names(classes_of(negated), negated) == expected


def test_the_last_class_is_broken() -> None:
    found = classes_of("SEQ(N, M)")
    n, m = found.guard.positions
    assert found.broken == 2
    assert found.after(0, found.reached(0, frozenset({m}))) == 0  # an M alone begins nothing
    assert found.after(0, found.reached(0, frozenset({n}))) == 1
    assert found.after(1, found.reached(1, frozenset({n}))) == 1
    assert found.after(1, found.reached(1, frozenset({m}))) == found.broken
    assert found.after(found.broken, frozenset()) == found.broken


def test_events_of_one_moment_do_not_continue_each_other() -> None:
    found = classes_of("SEQ(N, M)")
    n, m = found.guard.positions
    both = found.reached(0, frozenset({n})) | found.reached(0, frozenset({m}))
    assert found.after(0, both) == 1


def test_a_class_only_grows() -> None:
    found = classes_of("OR(SEQ(K, L), SEQ(M, N))")
    for cls in range(found.broken):
        for position in found.guard.positions:
            assert found.after(cls, found.reached(cls, frozenset({position}))) >= cls


def test_an_event_at_several_positions_of_n_reaches_them_all() -> None:
    found = classes_of("OR(SEQ(N x, M), SEQ(N y, K))")
    first = found.guard.first
    assert found.reached(0, first) == first
    assert len(found.sets) == 4


def test_too_many_classes_are_none() -> None:
    def guard(branches: int) -> Classes | None:
        parts = ", ".join(f"SEQ(K{i}, L{i})" for i in range(branches))
        (only,) = machine(f"SEQ(A, NOT OR({parts}), B)").automaton.guards
        return classes(only)

    few = guard(5)
    assert few is not None
    assert few.broken + 1 <= MAX_CLASSES
    assert guard(6) is None


# ---- States and steps -----------------------------------------------------------------------------


def test_mass_waits_where_something_may_follow_and_at_both_ends() -> None:
    assert machine("SEQ(A, B+, C)").states == (State(START), State(0), State(1), State(END))


def test_mass_before_a_not_waits_in_every_class() -> None:
    found = machine("SEQ(A, NOT SEQ(N, M), B)")
    assert found.states == (State(START), State(0, 0), State(0, 1), State(0, 2), State(END))
    (step,) = found.steps(frozenset({3}))
    assert step.sources == (State(0, 0), State(0, 1))  # broken mass does not cross
    assert step.targets == (State(END),)


def test_edges_beside_a_not_let_broken_mass_pass() -> None:
    found = machine("SEQ(A+, NOT N, B)")
    (again,) = found.steps(frozenset({0}))
    assert again.sources == (State(START), State(0, 0), State(0, 1))


def test_a_not_at_the_end_splits_what_is_complete() -> None:
    found = machine("SEQ(A, NOT N)")
    assert found.states == (State(START), State(END, 0), State(END, 1))
    assert found.whole() == (State(END, 0),)


def test_a_not_at_the_start_splits_the_start() -> None:
    found = machine("SEQ(NOT N, A)")
    assert found.states == (State(START, 0), State(START, 1), State(END))
    (step,) = found.steps(frozenset({1}))
    assert step.sources == (State(START, 0),)
    assert found.whole() == (State(END),)


def test_under_contiguous_a_not_between_neighbours_breaks_nothing() -> None:
    between = machine("SEQ(A, NOT N, B) SEMANTICS contiguous")
    assert between.states == (State(START), State(0), State(END))
    assert between.guard_classes == (None,)
    end = machine("SEQ(A, NOT N) SEMANTICS contiguous")
    assert end.states == (State(START), State(END, 0), State(END, 1))


def test_only_events_of_n_move_mass() -> None:
    found = machine("SEQ(A, NOT N, B)")
    a, n, b = 0, 1, 2
    assert found.moves(frozenset({n}))
    assert not found.moves(frozenset({a, b}))


def test_an_event_at_two_positions_takes_two_steps() -> None:
    found = machine("SEQ(A x+, A y)")
    first, second = found.steps(frozenset({0, 1}))
    assert (first.position, first.sources) == (0, (State(START), State(0)))
    assert (second.position, second.sources, second.targets) == (1, (State(0),), (State(END),))


def test_a_place_kept_by_event_is_scanned_and_not_a_state() -> None:
    found = machine("SEQ(A+, B) WHERE A.v < NEXT(A).v", by_event=frozenset({0}))
    assert found.states == (State(START), State(END))
    (again,) = found.steps(frozenset({0}))
    assert again.scans == (Scan(0, predicates=(0,)),)
    assert again.kept_at == (0,)
    (last,) = found.steps(frozenset({1}))
    assert last.scans == (Scan(0),)


# ---- Predicates by kind ---------------------------------------------------------------------------


def test_an_adjacency_predicate_is_for_a_pair_in_its_order() -> None:
    found = machine("SEQ(A, B)+ WHERE A.v < NEXT(B).v").predicates
    assert found.between(0, 1) == (0,)
    assert found.between(1, 0) == ()


def test_a_local_predicate_of_a_type_is_asked_at_all_its_positions() -> None:
    found = machine("SEQ(A x, B, A y) WHERE A.v > 1 AND y.w > 2").predicates
    assert [len(found.wanted_at(p)) for p in range(3)] == [1, 0, 2]


@pytest.mark.parametrize(
    ("where", "partition", "cross"),
    [
        ("A.k = B.k AND B.k = C.k", ("k",), 0),
        ("A.k = B.k = C.k", ("k",), 0),
        ("C.k = A.k AND B.k = C.k", ("k",), 0),
        ("A.k = B.k", (), 1),  # C is not connected
        ("A.k = B.k AND B.g = C.g", (), 2),
        ("[k] AND A.g = B.g AND B.g = C.g", ("k", "g"), 0),
        ("A.k = B.v AND B.k = C.k", (), 2),
    ],
)
def test_equalities_that_connect_all_aliases_are_a_partition(
    where: str, partition: tuple[str, ...], cross: int
) -> None:
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE {where}")
    assert partition_attributes(query) == partition
    assert len(split(query, build(query.pattern)).cross) == cross
