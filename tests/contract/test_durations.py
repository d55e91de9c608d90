"""DURATION and LENGTH of trends: each strategy, engine and grain gives the oracle's rows."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from contract.test_continued_lanes import check_cut
from contract.test_machine_lanes import check, random_workload
from contract.test_mixed_lanes import mixed_workload
from contract.test_stretches import LONG
from contract.test_together import SCHEMA
from spark.test_matrices_together import check_matrices
from spark.test_tasks import check as check_route
from stream.test_moving import use_blocks
from stream.test_settling import WINDOWS, seeds
from stream.test_settling import check as check_stream
from trendfold.errors import QueryError, UnsupportedError
from trendfold.plan import physical
from trendfold.query.nodes import Aggregate, OfTrend
from trendfold.runtime.folds import by_products
from trendfold.runtime.spark.tasks import Route
from trendfold.testing import oracle
from workloads import of_trends

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_durations_and_lengths_are_the_oracles(strategy: str, seed: int) -> None:
    engine.check_seed(
        seed, strategy, durations=True, aggregates=seed % 2 == 0, having=seed % 3 == 0, sets=seed % 4 == 0
    )


@pytest.mark.parametrize("strategy", ["auto", "cogra"])
@engine.many(100)
@given(seed=SEEDS)
def test_beside_conditions_on_neighbours(strategy: str, seed: int) -> None:
    engine.check_seed(
        seed, strategy, durations=True, neighbours=True, times=seed % 2 == 0, nots=seed % 3 == 0
    )


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_windows_are_products_of_stretches(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "products_ns", lambda overlap, shape: 0.0)
    monkeypatch.setattr(by_products, "long_stretch", lambda shape: long)
    for seed in range(60):
        case = workloads.random_case(random.Random(seed), durations=True, nots=seed % 3 == 0)
        engine.check(case, "auto")


def with_trends(rng: random.Random, texts: list[str]) -> list[str]:
    """The same queries, most of which also return something of whole trends."""

    def more() -> str:
        return ", ".join(dict.fromkeys(["COUNT(*)", *(of_trends(rng) for _ in range(rng.randint(0, 3)))]))

    return [text if "AND(" in text else text.replace("COUNT(*)", more(), 1) for text in texts]


@engine.many(200)
@given(seed=SEEDS)
def test_many_queries_in_one_pass(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    table = pa.Table.from_pylist(events, SCHEMA)
    check(with_trends(rng, texts), events, table, order_column, in_bursts=seed % 3 > 0)


@engine.many(150)
@given(seed=SEEDS)
def test_windows_of_many_queries_share_stretches(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    table = pa.Table.from_pylist(events, SCHEMA)
    window = rng.choice(["WITHIN 8 s SLIDE 4 s", "WITHIN 7 s SLIDE 3 s", "WITHIN 9 s SLIDE 1 s"])
    texts = [f"{text.partition(' WITHIN')[0]} {window}" for text in with_trends(rng, texts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "_shares_panes", lambda _, known, __: known.panes is not None)
        check(texts, events, table, order_column, in_bursts=False)


@engine.many(200)
@given(seed=SEEDS)
def test_folds_go_on_from_saved_vectors(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    check_cut(rng, with_trends(rng, texts), events, order_column)


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME, Route.PARTITION])
@pytest.mark.parametrize("seed", seeds(12, 60))
def test_tasks_of_spark_have_the_local_rows(seed: int, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check_route(workloads.random_case(rng, durations=True, nots=seed % 3 == 0), route, rng, monkeypatch)


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME])
@pytest.mark.parametrize("seed", seeds(12, 60))
def test_matrices_of_many_queries_give_the_oracles_rows(
    seed: int, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    check_matrices(rng, with_trends(rng, texts), events, order_column, route, monkeypatch)


@pytest.mark.parametrize("seed", seeds(20, 150))
def test_streams_have_the_oracles_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check_stream(seed, monkeypatch, with_trends(rng, mixed_workload(rng, 6, WINDOWS)))


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_windows_per_event_on_streams(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    use_blocks(monkeypatch, rng)
    texts = with_trends(rng, mixed_workload(rng, 4, ("WITHIN 3 s", "WITHIN 9 s")))
    check_stream(seed, monkeypatch, texts, most_cuts=30)


# ---- Numbers -------------------------------------------------------------------------------------------

BEGIN = 1_767_225_600_000  # 2026, in milliseconds
WEEK = "WITHIN 7 d SLIDE 7 d"
STRATEGIES = ("auto", "cogra", "greta", "construct")


def milliseconds(times: list[int], types: str, **more: list[int]) -> pa.Table:
    at = pa.array([BEGIN + t for t in times], pa.timestamp("ms"))
    return pa.table({"type": list(types), "ts": at, **{k: pa.array(v) for k, v in more.items()}})


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_milliseconds_are_exact_in_a_window_of_a_week(strategy: str, semantics: str) -> None:
    times = [part + 86_400_000 * day for day in range(7) for part in (1, 2)]
    users = [day for day in range(7) for _ in range(2)]
    text = "RETURN COUNT(*), SUM(DURATION), AVG(DURATION), MIN(DURATION), MAX(DURATION) PATTERN SEQ(A, B)"
    asked = tf.parse(f"{text} SEMANTICS {semantics} WHERE [u] {WEEK}")
    found = asked.run(milliseconds(times, "AB" * 7, u=users), strategy=strategy)["q1"].to_pylist()
    assert sum(row["count"] for row in found) == 7
    assert sum(row["sum_duration"] for row in found) == pytest.approx(0.007, rel=1e-12)
    assert {row[f"{name}_duration"] for row in found for name in ("avg", "min", "max")} == {0.001}


def _growing(times: list[int], width: int) -> tuple[int, Fraction]:
    """COUNT and SUM(DURATION) of SEQ(A, B, C, D), each type in turn `width` times."""
    parts = [times[i * width : (i + 1) * width] for i in range(4)]
    spans = width * (sum(parts[3]) - sum(parts[0]))
    return width**4, Fraction(spans * width**2)


@pytest.mark.parametrize("strategy", STRATEGIES[:2])
@pytest.mark.parametrize("window", [WEEK, "WITHIN 7 d SLIDE 1 d", ""])
def test_a_quadrillion_trends_of_milliseconds(strategy: str, window: str) -> None:
    width = 5_700  # 10^15 trends
    times = [6 * 86_400_000 + i // 100 for i in range(4 * width)]
    table = milliseconds(times, "".join(each * width for each in "ABCD"))
    order = pa.array(range(4 * width))
    asked = tf.parse(f"RETURN COUNT(*), SUM(DURATION), AVG(DURATION) PATTERN SEQ(A, B, C, D) {window}")
    result = asked.run(table.append_column("n", order), strategy=strategy, order_column="n")
    count, spans = _growing(times, width)
    for row in result["q1"].to_pylist():
        assert row["count"] == count
        assert row["sum_duration"] == pytest.approx(float(spans / 1_000), rel=1e-9)
        assert row["avg_duration"] == pytest.approx(float(spans / 1_000 / count), rel=1e-9)


@pytest.mark.parametrize("text", ["A+", "SEQ(A, A+)", "SEQ(A+, NOT C, B)"])
def test_averages_of_counts_past_doubles(text: str) -> None:
    """With 2^n trends of n events, one at each millisecond, most trends begin at once and end at last."""
    table = milliseconds(list(range(2_000)), "A" * 1_999 + "B")
    asked = tf.parse(f"RETURN LOG2(COUNT(*)), AVG(DURATION), AVG(LENGTH), MAX(LENGTH) PATTERN {text}")
    clauses = str(asked).partition("\n")[2].rstrip(";")
    many = tf.parse(";".join(f"QUERY q{i} {clauses}" for i in range(3)))
    (row,) = asked.run(table)["q1"].to_pylist()
    last = 1_998 if text != "SEQ(A+, NOT C, B)" else 1_999
    assert row["log2_count"] == pytest.approx(1_999, abs=1)
    assert row["avg_length"] == pytest.approx(999.5, abs=1.1)
    assert row["max_length"] == (1_999 if last == 1_998 else 2_000)
    assert row["avg_duration"] == pytest.approx((last - 1.5) / 1_000, rel=1e-3)
    for each in many.run(table).values():
        assert engine.difference(each.to_pylist(), [row], 2) is None


@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
@engine.many(120)
@given(seed=SEEDS)
def test_whole_numbers_are_exact(arithmetic: str, seed: int) -> None:
    case = workloads.random_case(random.Random(seed), durations=True, having=seed % 2 == 0)
    (query,) = workload = tf.parse(case.query)
    rows = workload.run(engine.to_table(case), order_column=case.order_column, arithmetic=arithmetic)
    found, keys = rows[query.name].to_pylist(), 2 + len(query.group_by)
    asked = [item.value for item in query.returns if isinstance(item.value, Aggregate)]
    for row in found:
        for value, name in zip(asked, list(row)[keys:], strict=True):
            if str(value.function) == "SUM" and value.of is OfTrend.LENGTH:
                assert isinstance(row[name], str if arithmetic == "exact" else int), name
            row[name] = int(row[name]) if isinstance(row[name], str) else row[name]
    expected = oracle.rows(case.query, case.events, case.order_column)
    assert engine.difference(found, expected, keys) is None, case


def test_lengths_of_any_size_have_all_digits() -> None:
    table = milliseconds(list(range(100)), "A" * 100)
    asked = tf.parse("RETURN SUM(LENGTH), MAX(LENGTH) PATTERN A+ HAVING SUM(LENGTH) > 10000")
    (row,) = asked.run(table, arithmetic="exact")["q1"].to_pylist()
    assert row["sum_length"] == str(100 * 2**99)
    assert row["max_length"] == 100


def test_having_compares_durations_in_seconds() -> None:
    table = milliseconds([0, 1_500, 4_000], "ABB")
    for condition, rows in [("> 5.4", 1), ("> 5.5", 0), ("BETWEEN 5.5 AND 6", 1), ("* 2 = 11", 1)]:
        asked = tf.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B) HAVING SUM(DURATION) {condition}")
        assert asked.run(table)["q1"].num_rows == rows, condition


# ---- Words ---------------------------------------------------------------------------------------------


def test_the_words_are_names_elsewhere() -> None:
    text = "RETURN SUM(DURATION.LENGTH), MAX(LENGTH) AS duration PATTERN SEQ(DURATION, LENGTH+)"
    table = pa.table({"type": ["DURATION", "LENGTH"], "ts": [1, 2], "LENGTH": [5, 6]})
    (row,) = tf.parse(text).run(table)["q1"].to_pylist()
    assert row["sum_DURATION_LENGTH"] == 5.0
    assert row["duration"] == 2
    assert tf.parse(str(tf.parse(text))) == tf.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("RETURN SUM(DURATION) PATTERN AND(A, B)", "SUM(DURATION) cannot be combined with AND"),
        ("RETURN COUNT(*) PATTERN AND(A, B) HAVING MAX(LENGTH) > 1", "MAX(LENGTH) cannot be combined"),
        ("RETURN COUNT(DURATION) PATTERN A", "unknown alias 'DURATION'"),
        ("RETURN COUNT(*) PATTERN A HAVING LENGTH > 1", "HAVING names 'LENGTH'"),
    ],
)
def test_where_they_mean_nothing(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=re.escape(problem)):
        tf.parse(text)


def test_strategies_of_papers_decline_or_fold_them_alone() -> None:
    table = milliseconds([0, 1, 2], "ABB")
    asked = tf.parse("RETURN AVG(DURATION) PATTERN SEQ(A, B); RETURN MAX(LENGTH) PATTERN SEQ(A, B+)")
    with pytest.raises(UnsupportedError, match=r"AVG\(DURATION\) is of whole trends"):
        asked.run(table, strategy="aseq")
    for strategy in ("hamlet", "gloria"):
        found = asked.run(table, strategy=strategy)
        assert found["q1"].to_pylist()[0]["avg_duration"] == 0.0015
        assert found["q2"].to_pylist()[0]["max_length"] == 3


def test_they_are_written_in_python() -> None:
    made = tf.query(
        tf.seq("A", tf.event("B").plus()),
        returns=[tf.sum(tf.DURATION), tf.max(tf.LENGTH).alias("steps")],
        having=tf.mean(tf.DURATION) > 1.5,
    )
    text = "RETURN SUM(DURATION), MAX(LENGTH) AS steps PATTERN SEQ(A, B+) HAVING AVG(DURATION) > 1.5"
    assert made.queries == tf.parse(text).queries


def test_rows_without_trends_have_no_duration() -> None:
    asked = "SUM(DURATION), AVG(LENGTH), MAX(LENGTH), SUM(LENGTH)"
    text = f"RETURN COUNT(*), {asked} PATTERN SEQ(A, B) INCLUDE EMPTY"
    for arithmetic in ("auto", "exact", "integer"):
        (row,) = tf.parse(text).run(milliseconds([0], "A"), arithmetic=arithmetic)["q1"].to_pylist()
        assert [value for name, value in row.items() if "duration" in name or "length" in name] == [None] * 4


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(60)
@given(seed=SEEDS)
def test_of_trends_that_count_once(strategy: str, seed: int) -> None:
    features = {"neighbours": seed % 3 == 0, "nots": seed % 2 == 0, "having": seed % 5 == 0}
    engine.check_seed(seed, strategy, durations=True, spans=True, **features)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(60)
@given(seed=SEEDS)
def test_beside_conditions_between_a_not_and_its_neighbours(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, durations=True, beside=True, spans=seed % 3 == 0)
