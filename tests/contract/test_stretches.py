"""Windows as products by two stacks give what windows one by one give: the oracle's rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan import physical, plan
from trendfold.plan.overlap import Sharing
from trendfold.runtime.folding import prepare
from trendfold.runtime.folds import by_products
from trendfold.runtime.windows import Items
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

LONG = {"all moment by moment": 1 << 30, "all matrices": 1, "both": 3}

Force = Callable[[bool, int], None]


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Force:
    """Take two stacks, or never, whatever they cost, with matrices for stretches of so many rows."""

    def choose(shares: bool, long: int = 1) -> None:
        monkeypatch.setattr(physical, "products_ns", lambda overlap, shape: 0.0 if shares else np.inf)
        monkeypatch.setattr(by_products, "long_stretch", lambda shape: long)

    return choose


def check(case: workloads.Case, origin: object) -> None:
    result = tf.parse(case.query).run(engine.to_table(case), order_column=case.order_column, strategy="auto")
    (query,) = tf.parse(case.query)
    expected = oracle.rows(case.query, case.events, case.order_column)
    found = result[query.name].to_pylist()
    assert engine.difference(found, expected, 2 + len(query.group_by)) is None, (origin, case)


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
@pytest.mark.parametrize("part", range(4))
def test_products_of_stretches_are_the_windows(force: Force, long: int, part: int) -> None:
    force(True, long)
    for seed in range(100 * part, 100 * part + 100):
        case = workloads.random_case(random.Random(seed), aggregates=True, having=True, both=True)
        check(case, seed)


PATTERNS = (
    "SEQ(A, B+, C)",
    "SEQ(A+, B)",
    "SEQ(A, NOT N, B+)",
    "SEQ(A, NOT SEQ(N, M), B, NOT N)",
    "SEQ(NOT N, (SEQ(A+, B))+)",
    "SEQ(A, A+)",
    "SEQ(A+, (B | A))",
)
SEMANTICS = ("any", "next", "contiguous")
RETURNS = ("COUNT(*)", "COUNT(*), COUNT(A), SUM(A.v), AVG(A.w), MIN(A.w), MAX(A.v)")
WHERE = ("", "WHERE [k]", "GROUP BY g")


@st.composite
def windows(draw: st.DrawFn) -> str:
    """Clauses whose windows overlap: any ratio, counts of events, and a window per event."""
    length = draw(st.integers(2, 15))
    slide = draw(st.integers(1, length - 1))
    return draw(
        st.sampled_from(
            [
                f"WITHIN {length} s SLIDE {slide} s",
                f"WITHIN {length} events SLIDE {slide} events",
                f"WITHIN {length} s",
            ]
        )
    )


@st.composite
def cases(draw: st.DrawFn) -> workloads.Case:
    """Few types, many of them tied, with gaps and nulls, from before 1970 on."""
    window = draw(windows())
    lines = [
        f"RETURN {draw(st.sampled_from(RETURNS))}",
        f"PATTERN {draw(st.sampled_from(PATTERNS))}",
        f"SEMANTICS {draw(st.sampled_from(SEMANTICS))}",
        draw(st.sampled_from(WHERE)),
        window,
    ]
    least = 1 if "events" in window else 0  # ties among counted events are an error
    gap = st.sampled_from([least, 1, 1, 1, 2, 20])
    time, events = draw(st.integers(-30, 5)), []
    for kind in draw(st.lists(st.sampled_from("AABBCNMX"), max_size=11)):
        time += draw(gap)
        events.append(
            {
                "type": kind,
                "ts": time,
                "k": draw(st.sampled_from([1, 1, 1, 2, None])),
                "g": draw(st.sampled_from(["x", "x", "y", None])),
                "v": draw(st.sampled_from([-2, 0, 3, None])),
                "w": draw(st.sampled_from([-0.5, 1.5, None])),
            }
        )
    return workloads.Case("\n".join(line for line in lines if line), events, None)


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
@given(case=cases())
@engine.many(150)
def test_overlapping_windows_of_every_kind_are_the_oracles(long: int, case: workloads.Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "products_ns", lambda overlap, shape: 0.0)
        patch.setattr(by_products, "long_stretch", lambda shape: long)
        check(case, long)


def stream(events: int) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "type": rng.choice(["A", "B", "C"], events).tolist(),
            "ts": np.cumsum(rng.integers(0, 3, events)).tolist(),
            "x": rng.normal(size=events).tolist(),
        }
    )


@pytest.mark.compiled
@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
@pytest.mark.parametrize("window", ["WITHIN 3000 s SLIDE 100 s", "WITHIN 2999 s SLIDE 71 s", "WITHIN 1500 s"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_overlapping_windows_past_doubles_agree_with_windows_one_by_one(
    force: Force, long: int, window: str, semantics: str
) -> None:
    events = stream(4_000)
    query = tf.parse(
        f"RETURN LOG2(COUNT(*)), AVG(B.x), MIN(B.x) PATTERN SEQ(A, B+, C) SEMANTICS {semantics} {window}"
    )
    force(True, long)
    shared = query.run(events)["q1"].to_pylist()
    force(False)
    alone = query.run(events)["q1"].to_pylist()
    assert len(shared) == len(alone) > 60
    for one, other in zip(shared, alone, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_matrices_that_no_window_needs_any_more_make_room(
    force: Force, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_products, "_CHUNK", 4)
    force(True, long)
    query = tf.parse("RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B, C) WITHIN 40 s SLIDE 7 s")
    shared = query.run(stream(1_000))["q1"].to_pylist()
    force(False)
    assert shared == [pytest.approx(row, rel=1e-9) for row in query.run(stream(1_000))["q1"].to_pylist()]


@pytest.mark.parametrize("count", [pytest.param(3_000, marks=pytest.mark.compiled), 450])
@pytest.mark.parametrize("returns", ["LOG2(COUNT(*))", "LOG2(COUNT(*)), AVG(B.x), MIN(B.x)"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_windows_apart_are_products_of_their_stretches(semantics: str, returns: str, count: int) -> None:
    """As Spark multiplies them, a matrix per stretch; under *any* counts pass doubles."""
    rng = np.random.default_rng(count)
    events = pa.table(
        {
            "type": ["A", *rng.choice(["B", "B", "B", "B", "B", "C"], count - 1)],
            "ts": np.cumsum(rng.integers(0, 4, count) > 0),
            "x": rng.normal(size=count),
        }
    )
    asked = tf.parse(f"RETURN {returns} PATTERN SEQ(A, B+, C) SEMANTICS {semantics}")
    ready = prepare(plan(asked.queries[0]), Workspace(read_batch(events, Options())))
    [operand], [own], [wanted] = ready.plan.operands, ready.operands, ready.fold()
    borders = np.flatnonzero(np.diff(ready.moment)) + 1
    bounds = np.array([0, *borders[::17], count])
    matrices = by_products.fold_matrices(operand, own.events, ready.rows.alphabets[0], bounds)
    whole = np.array([0]), np.array([len(bounds) - 1])
    found = by_products.multiply_matrices(operand, matrices, *whole)
    assert wanted.exponent.any() == (semantics == "any")
    assert found.exponent.tolist() == wanted.exponent.tolist()
    assert found.mantissa == pytest.approx(wanted.mantissa, rel=1e-9)
    assert found.extreme.tolist() == wanted.extreme.tolist()


def test_cogra_folds_every_window_on_its_own_and_auto_shares() -> None:
    def shared(window: str, strategy: str = "auto") -> Sharing | None:
        planned = plan(tf.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B+) {window}").queries[0], strategy)
        return planned.sharing(planned.operands[0])

    assert shared("WITHIN 30 s SLIDE 1 s") is Sharing.STRETCHES
    assert shared("WITHIN 30 s SLIDE 1 s", "cogra") is Sharing.NOTHING
    assert shared("WITHIN 30 s") is Sharing.STRETCHES
    assert shared("WITHIN 30 s SLIDE 30 s") is None


def test_rows_in_no_window_are_in_no_stretch() -> None:
    low, high = np.array([2, 4, 20], np.int64), np.array([6, 9, 30], np.int64)
    cut = by_products.cut_stretches(Items(np.zeros(3, np.int32), low, low, high), long=4)
    assert list(zip(cut.low.tolist(), cut.high.tolist(), strict=True)) == [(2, 4), (4, 6), (6, 9), (20, 30)]
    assert cut.rank.tolist() == [0, 0, 0, 0, 1]
    assert (cut.first.tolist(), cut.last.tolist()) == ([0, 1, 3], [2, 3, 4])
