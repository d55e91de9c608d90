"""A-Seq gives the oracle's rows on random workloads of sequences, however they share their counters."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine, sequences
from contract.engine import difference, many
from contract.sequences import Workload
from stream.simulation import arrival, ordered, simulate
from stream.simulation import cuts as micro_batches
from trendfold.errors import LimitError, UnsupportedError
from trendfold.papers.aseq import plan as aseq
from trendfold.papers.aseq import prefixes as prefix
from trendfold.papers.aseq.plan import line_of
from trendfold.papers.aseq.prefixes import share_prefixes
from trendfold.plan import QueryPlan
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)
TYPES = {"type": pa.string(), "ts": pa.int64(), "k": pa.int64(), "g": pa.string(), "v": pa.int64()}


def to_table(case: Workload) -> pa.Table:
    types = TYPES | {"w": pa.float64()} | ({"seq": pa.int64()} if case.order_column else {})
    return pa.table({name: pa.array([e[name] for e in case.events], type_) for name, type_ in types.items()})


def wrong(case: Workload, strategy: str = "aseq") -> str | None:
    """What is wrong with the answer to a workload, or None."""
    asked = tf.parse(";\n".join(case.queries))
    result = asked.run(to_table(case), strategy=strategy, engine="local", order_column=case.order_column)
    for query, text in zip(asked, case.queries, strict=True):
        assert strategy == "auto" or result.summary.strategy[query.name] == strategy
        expected = oracle.rows(text, case.events, case.order_column)
        problem = difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by))
        if problem:
            return f"{query.name}: {problem}"
    return None


def check(seed: int, strategy: str = "aseq") -> None:
    """Fail, with a smaller workload, unless the rows are the oracle's."""
    case = sequences.random_workload(random.Random(seed))
    if strategy != "aseq":
        case = without_not(case) if strategy == "ecube" else for_counters(case)
    if not case.queries or wrong(case, strategy) is None:
        return
    shrinking = True
    while shrinking:
        shrinking = False
        smaller = [
            case._replace(queries=case.queries[:i] + case.queries[i + 1 :]) for i in range(len(case.queries))
        ]
        smaller += [
            case._replace(events=case.events[:i] + case.events[i + 1 :]) for i in range(len(case.events))
        ]
        for candidate in smaller:
            if candidate.queries and wrong(candidate, strategy) is not None:
                case, shrinking = candidate, True
                break
    queries = ";\n".join(case.queries)
    raise AssertionError(
        f"seed {seed}: {wrong(case, strategy)}\n{queries}\n{case.events!r}\n{case.order_column!r}"
    )


def without_not(case: Workload) -> Workload:
    """The queries of a workload that E-Cube supports."""
    return case._replace(
        queries=[text for text in case.queries if "SEQ(NOT" not in text and ", NOT " not in text]
    )


def for_counters(case: Workload) -> Workload:
    """The queries of a workload that `auto` may count by prefix, all in windows that move with events."""
    kept = [text for text in without_not(case).queries if "MIN(" not in text and "MAX(" not in text]
    windows = itertools.cycle(["WITHIN 9 s", "WITHIN 16 s"])
    return case._replace(queries=[re.sub(r"\nWITHIN .*", "", text) + "\n" + next(windows) for text in kept])


@contextmanager
def chopped(cuts: Callable[[list[prefix.Line]], prefix.Cuts]) -> Iterator[None]:
    """Lines are chopped as `cuts` says, whatever the planner would do."""

    def share(plans: Sequence[QueryPlan]) -> prefix.PrefixPlan:
        lines = [*map(line_of, plans)]
        return share_prefixes(lines, cuts(lines))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aseq, "share_lines", share)
        yield


@many(100)
@given(seed=SEEDS)
def test_workloads_of_sequences_give_the_oracles_rows(seed: int) -> None:
    check(seed)


@many(50)
@given(seed=SEEDS)
def test_lines_may_be_chopped_in_windows_of_any_kind(seed: int) -> None:
    with chopped(lambda lines: prefix.chop(dict(enumerate(lines)))):
        check(seed)


@many(120)
@given(seed=SEEDS)
def test_lines_may_be_chopped_anywhere(seed: int) -> None:
    def cuts(lines: list[prefix.Line]) -> prefix.Cuts:
        rng = random.Random(seed)
        return {
            member: tuple(i for i in range(1, len(line.steps)) if line.opening is None and rng.random() < 0.5)
            for member, line in enumerate(lines)
        }

    with chopped(cuts), pytest.MonkeyPatch.context() as patch:
        patch.setattr("trendfold.papers.aseq.run.is_wide", lambda *_: seed % 2 == 0)
        check(seed)


@many(60)
@given(seed=SEEDS)
def test_wide_numbers_give_the_same_rows(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trendfold.papers.aseq.run.is_wide", lambda *_: True)
        check(seed)


@many(100)
@given(seed=SEEDS)
def test_auto_gives_the_oracles_rows_with_prefix_counters(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trendfold.papers.aseq.offered.SURE", math.inf)
        patch.setattr("trendfold.runtime.group_rows._SINGLE", 0.0)
        check(seed, "auto")


def test_random_workloads_are_counted_by_prefix_under_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trendfold.papers.aseq.offered.SURE", math.inf)
    monkeypatch.setattr("trendfold.runtime.group_rows._SINGLE", 0.0)
    counted = 0
    for seed in range(150):
        case = for_counters(sequences.random_workload(random.Random(seed)))
        if len(case.queries) > 1 and case.events:
            asked = tf.parse(";".join(case.queries))
            run = asked.run(to_table(case), engine="local", order_column=case.order_column)
            counted += any("prefix counters" in step.way.why for step in run.plan.steps)
    assert counted > 10


def many_trades(events: int = 50_000) -> pa.Table:
    kinds = random.Random(0).choices("ABCDEF", k=events)
    return pa.table({"type": kinds, "ts": list(range(events))})


def test_auto_counts_by_prefix_where_windows_move_with_events_and_says_why() -> None:
    asked = tf.parse("; ".join(f"RETURN COUNT(*) PATTERN SEQ(A, B, {x}) WITHIN 90 s" for x in "CDEF"))
    [step] = asked.run(many_trades(), engine="local").plan.steps
    assert step.way.why.startswith("windows move with events; prefix counters are expected to be ")
    assert "shared plan of aseq" in str(asked.explain(data=many_trades()))
    tied = many_trades().set_column(1, "ts", pa.array([i // 5 for i in range(50_000)]))
    assert "prefix counters" not in str(asked.explain(data=tied))  # updates would be of several events


@pytest.mark.parametrize("changed", ["MIN(B.ts)", "COUNT(*) HAVING COUNT(*) > 3", "A, NOT D, B", "A+, B"])
def test_auto_counts_by_prefix_only_what_is_fast_there(changed: str) -> None:
    returned, _, having = (changed if "(" in changed else "COUNT(*)").partition(" HAVING ")
    steps = changed if "," in changed else "A, B"
    tail = f"HAVING {having} WITHIN 90 s" if having else "WITHIN 90 s"
    text = f"RETURN {returned} AS r PATTERN SEQ({steps}, {{}}) {tail}"
    told = str(tf.parse("; ".join(text.format(x) for x in "CEF")).explain(data=many_trades(5_000)))
    assert "prefix counters" not in told


@many(100)
@given(seed=SEEDS)
def test_built_sequences_give_the_oracles_rows(seed: int) -> None:
    check(seed, "ecube")


@many(60)
@given(seed=SEEDS)
def test_sequences_may_be_joined_anywhere(seed: int) -> None:
    def share(plans: Sequence[QueryPlan]) -> prefix.PrefixPlan:
        rng, lines = random.Random(seed), [*map(line_of, plans)]
        return share_prefixes(
            lines,
            {
                member: tuple(i for i in range(1, len(line.steps)) if rng.random() < 0.5)
                for member, line in enumerate(lines)
            },
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aseq, "share_stacks", share)
        patch.setattr("trendfold.papers.aseq.run._ROOM", 1 + seed % 3)
        check(seed, "ecube")


def test_built_sequences_are_bounded_by_the_limit_on_trends() -> None:
    events = pa.table({"type": list("ABAB") * 5, "ts": list(range(20))})
    asked = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B, A, B); RETURN COUNT(*) PATTERN SEQ(B, A, B)")
    whole = asked.run(events, strategy="ecube", engine="local", limits={"trends": 2_000})
    assert [whole[name]["count"].to_pylist() for name in ("q1", "q2")] == [
        [math.comb(12, 4)],
        [math.comb(11, 3)],
    ]
    with pytest.raises(
        LimitError, match="'q1, q2': more than 100 trends had to be built, over limits trends=100"
    ):
        asked.run(events, strategy="ecube", engine="local", limits={"trends": 100})


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "COUNT(*) PATTERN SEQ(A, NOT B, C)",
            "PATTERN has NOT, and strategy 'ecube' joins events that occur",
        ),
        (
            "COUNT(*) PATTERN SEQ(A, B+)",
            "PATTERN has + or * (Kleene), and strategy 'ecube' counts sequences of",
        ),
        (
            "COUNT(*) PATTERN SEQ(A, B) WHERE A.v < B.v",
            "WHERE compares two aliases without NEXT, which strategy",
        ),
        ("COUNT(*) PATTERN SEQ(A, B) SEMANTICS next", "SEMANTICS skip-till-next-match, and strategy 'ecube'"),
        ("MATCHES PATTERN SEQ(A, B) WITHIN 5 s", "RETURN MATCHES, and strategy 'ecube' counts the sequences"),
    ],
)
def test_what_ecube_cannot_build_is_refused_with_query_and_clause(query: str, told: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        tf.parse(f"QUERY late RETURN {query}").plan("ecube")
    assert str(error.value).startswith(f"query 'late': {told}")


def test_sequences_built_once_are_explained() -> None:
    asked = tf.parse("; ".join(f"RETURN COUNT(*) PATTERN SEQ({x}, D, E, F) WITHIN 9 s" for x in "ABC"))
    told = str(asked.explain("ecube"))
    assert "12 stacks alone, 9 stacks and joints shared" in told
    assert "each D begins sequences that are joined with those of: A" in told


def test_random_workloads_share_prefixes_chop_and_connect() -> None:
    """What the tests above compare is not empty, and is shared."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        case = sequences.random_workload(random.Random(seed))
        for plan in tf.parse(";\n".join(case.queries)).plan("aseq"):
            lines = [*map(line_of, plan.group.members)] if plan.number == 0 else []
            for cuts in (None, prefix.chop(dict(enumerate(lines)))) if lines else ():
                for family in share_prefixes(lines, cuts).families:
                    seen["shared"] += any(len(node.users) > 1 for tree in family.trees for node in tree.nodes)
                    seen["chopped"] += bool(family.links)
                    seen["closed"] += any(bool(tree.opening) for tree in family.trees)
            for family in plan.group.details.families if lines else ():
                seen["windows"] += len(family.windows) > 1
                bars = [node.step.barred for tree in family.trees for node in tree.nodes]
                seen["either"] += any(len(barred) > 1 for barred in bars)
        seen["counted"] += any("events" in text for text in case.queries)
        seen["rows"] += any(oracle.rows(text, case.events, case.order_column) for text in case.queries)
    assert min(seen.values()) > 10
    assert set(seen) == {"shared", "chopped", "closed", "windows", "either", "counted", "rows"}


def test_a_window_per_event_ends_at_events_of_other_partitions_whatever_stands_beside_it() -> None:
    """Group x has an event of partition 2, at 3, that ends a window; a query with other windows is first."""
    queries = [
        f"QUERY q{i}\nRETURN a.g, COUNT(*) AS r PATTERN SEQ(A a, B b)\nWHERE [k]\nGROUP BY a.g\n{window}"
        for i, window in enumerate(["WITHIN 8 s SLIDE 4 s", "WITHIN 8 s"])
    ]
    rows = [("A", 1, 1, "x"), ("B", 2, 1, "y"), ("B", 3, 2, "y"), ("A", 4, 2, "y"), ("B", 5, 2, "y")]
    events = [dict(zip(("type", "ts", "k", "g"), row, strict=True)) | {"v": 0, "w": 0.0} for row in rows]
    assert [row["window_end"] for row in oracle.rows(queries[1], events, None) if row["g"] == "x"] == [
        2,
        3,
        5,
    ]
    assert wrong(Workload(queries, events, None)) is None


@many(25)
@given(seed=SEEDS)
def test_a_stream_gives_the_rows_of_batch(seed: int) -> None:
    rng = random.Random(seed)
    case = sequences.random_workload(rng)
    queries = [text for text in case.queries if "WITHIN" in text and "events" not in text]
    if not queries or case.order_column:
        return
    asked, table = tf.parse(";\n".join(queries)), to_table(case)
    delay = rng.choice([0, 3, 50])
    stream = simulate(asked, table.schema, delay * 1_000_000, strategy="aseq")
    arrived = table.take(pa.array(arrival(table.column("ts").to_pylist(), delay, rng), pa.int64()))
    for cut in micro_batches(len(arrived), rng):
        stream.feed(arrived.slice(cut.start, cut.stop - cut.start))
    stream.flush()
    for query, text in zip(asked, queries, strict=True):
        like = asked.run(table, engine="local", strategy="aseq")[query.name]
        found = ordered(stream.results()[query.name], like, len(query.group_by)).to_pylist()
        assert difference(found, oracle.rows(text, case.events, None), 2 + len(query.group_by)) is None


def test_what_is_shared_is_explained_and_what_is_refused_too() -> None:
    asked = tf.parse(
        "RETURN COUNT(*) PATTERN SEQ(A, B, C); RETURN COUNT(*) PATTERN A+; RETURN COUNT(*) PATTERN SEQ(A, B)"
    )
    told = str(asked.explain("aseq"))
    assert "5 prefix counters alone, 3 counters and snapshots shared" in told
    assert "B  -> q3" in told
    assert "shared as described for q1" in told
    assert "query 'q2': PATTERN has + or * (Kleene)" in " ".join(told.split())


# ---------------------------------------------------------------- single queries of the whole language


@many(150)
@given(seed=SEEDS)
def test_a_query_of_the_language_is_answered_right_or_refused(seed: int) -> None:
    case = workloads.random_case(random.Random(seed), aggregates=True, having=True, both=True)
    with suppress(UnsupportedError):
        engine.check(case, "aseq", gaps={})


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "PATTERN SEQ(A, B+)",
            "PATTERN has + or * (Kleene), and strategy 'aseq' counts sequences of one length",
        ),
        ("PATTERN SEQ(A, B*)", "PATTERN has + or * (Kleene)"),
        ("PATTERN SEQ(A, B | C)", "PATTERN has OR"),
        ("PATTERN SEQ(A, B?)", "PATTERN has ? (an option)"),
        ("PATTERN SEQ(A, B{1,2})", "PATTERN has {m,n} (repetition)"),
        ("PATTERN SEQ(A, NOT SEQ(N, M), B)", "PATTERN has a NOT of a pattern"),
        ("PATTERN SEQ(A, NOT (N | SEQ(M, K)), B)", "PATTERN has a NOT of a pattern"),
        ("PATTERN AND(A, B)", "PATTERN has an outermost AND"),
        ("PATTERN SEQ(A, B) SEMANTICS next", "SEMANTICS skip-till-next-match"),
        ("PATTERN SEQ(A, B) SEMANTICS contiguous", "SEMANTICS contiguous"),
        ("PATTERN SEQ(A, B) WHERE A.v < NEXT(B).v", "WHERE compares neighbours in A.v < NEXT(B).v"),
        (
            "PATTERN SEQ(A, B) WHERE A.v < B.v",
            "WHERE compares two aliases without NEXT, which strategy 'aseq'",
        ),
    ],
)
def test_what_aseq_cannot_count_is_refused_with_query_clause_and_way_out(query: str, told: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        tf.parse(f"QUERY late RETURN COUNT(*) {query}").plan("aseq")
    assert str(error.value).startswith(f"query 'late': {told}")
    assert "'auto'" in str(error.value)


def test_matches_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="'late': RETURN MATCHES, and strategy 'aseq' counts trends"):
        tf.parse("QUERY late RETURN MATCHES PATTERN SEQ(A, AND(B, C)) WITHIN 5 s").plan("aseq")


def test_an_unknown_strategy_is_told_with_all_known_ones() -> None:
    with pytest.raises(UnsupportedError, match=r"unknown strategy 'fast'; choose one of auto, .*aseq"):
        tf.parse("RETURN COUNT(*) PATTERN A").plan("fast")


@pytest.mark.parametrize(
    "pattern",
    [
        "A",
        "A{3}",
        "SEQ(A, SEQ(B, C))",
        "SEQ(A, NOT N+, B)",
        "SEQ(NOT N, A, NOT M)",
        "SEQ(A, NOT (N | M+), B)",
    ],
)
def test_patterns_of_one_length_are_sequences_however_they_are_written(pattern: str) -> None:
    [plan] = tf.parse(f"RETURN COUNT(*) PATTERN {pattern}").plan("aseq")
    assert plan.strategy == "aseq"
    assert plan.group is not None


def test_extremes_of_a_line_chopped_twice_are_the_oracles() -> None:
    rest = ["SEQ(C, D, X)", "SEQ(Y, C, D, Z)", "SEQ(E, F)", "SEQ(Z, E, F)"]
    texts = [
        f"RETURN COUNT(*), MIN({low}.v) AS low, MAX({high}.v) AS high PATTERN {pattern} WITHIN 14 s"
        for pattern, low, high in [("SEQ(A, B, C, D, E, F)", "B", "D"), *((p, p[4], p[7]) for p in rest)]
    ]
    stream = "ABACBDCDYCEDDXZEEFABFCDEF"
    events = [
        {"type": kind, "ts": i, "k": 0, "g": "x", "v": i * 7 % 11, "w": 0.0} for i, kind in enumerate(stream)
    ]
    case = Workload(tuple(texts), events, None)
    [family] = share_prefixes([line_of(plan) for plan in tf.parse(";".join(texts)).plan("aseq")]).families
    assert len(family.readings[0].cuts) == 2
    with chopped(lambda lines: prefix.chop(dict(enumerate(lines)))):
        assert wrong(case) is None


def test_sums_past_the_mantissa_of_wide_numbers_are_right() -> None:
    events = pa.table({"type": list("AAB"), "ts": [1, 2, 3], "w": [0.0, 0.0, 1e100]})
    result = tf.parse("RETURN SUM(B.w) AS r PATTERN SEQ(A, B)").run(events, strategy="aseq", engine="local")
    assert result["q1"]["r"].to_pylist() == [2e100]


# ---------------------------------------------------------------- where the paper slips


def test_a_sum_is_carried_with_its_count() -> None:
    """The rule of section 5 (sum · count(ABCD) / count(ABC) at the end) gives 151.5; the trends give 102."""
    events = pa.table({"type": list("ABCDCD"), "ts": list(range(6)), "w": [0, 0, 1, 0, 100, 0]})
    result = tf.parse("RETURN SUM(C.w), AVG(C.w), COUNT(*) PATTERN SEQ(A, B, C, D)").run(
        events, strategy="aseq", engine="local"
    )
    [row] = result["q1"].to_pylist()
    assert (row["sum_C_w"], row["avg_C_w"], row["count"]) == (102.0, 34.0, 3.0)


# ---------------------------------------------------------------- at any size


@pytest.mark.compiled
def test_counts_past_the_range_of_doubles_are_right() -> None:
    events = pa.table({"type": ["A"] * 2000, "ts": list(range(2000)), "v": [0.5] * 2000})
    query = "RETURN LOG2(COUNT(*)) AS bits, COUNT(*), AVG(A.v) AS mean PATTERN A{300}"
    [row] = tf.parse(query).run(events, strategy="aseq", engine="local")["q1"].to_pylist()
    assert row["bits"] == pytest.approx(math.log2(math.comb(2000, 300)), rel=1e-12)
    assert row["count"] == math.inf
    assert row["mean"] == pytest.approx(0.5, rel=1e-9)


def test_snapshots_that_do_not_fit_are_told_before_they_are_made() -> None:
    events = pa.table({"type": list("ADEF") * 300, "ts": list(range(1200))})
    queries = ";".join(f"RETURN COUNT(*) PATTERN SEQ({first}, D, E, F) WITHIN 1200 s" for first in "ABC")
    with (
        chopped(lambda lines: prefix.chop(dict(enumerate(lines)))),
        pytest.raises(LimitError, match="prefix counters and snapshots, over limits state=50,000"),
    ):
        tf.parse(queries).run(events, strategy="aseq", engine="local", limits={"state": 50_000})
