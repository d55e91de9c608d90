"""arithmetic="exact": every COUNT and every SUM of integers to the last digit, under every strategy."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold
import workloads
from contract import engine
from contract.engine import many
from trendfold.errors import InputError, LimitError, UnsupportedError
from trendfold.query.names import default_column
from trendfold.query.nodes import Aggregate, Function, Matches, Query
from trendfold.runtime.exact_values import to_text
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)
every_strategy = pytest.mark.parametrize("strategy", engine.STRATEGIES)
both_kernels = pytest.mark.parametrize("strategy", ["cogra", "greta"])


def run(query: str, types: str, strategy: str = "auto", **options: Any) -> pa.Table:
    columns = {"type": list(types), "ts": options.pop("times", None) or list(range(len(types)))}
    columns |= {name: options.pop(name) for name in ("v", "w", "g") if name in options}
    options = {"arithmetic": "exact", **options}
    return trendfold.parse(f"QUERY q {query}").run(pa.table(columns), strategy=strategy, **options)["q"]


def one_row(query: str, types: str, strategy: str = "auto", **options: Any) -> dict[str, Any]:
    (row,) = run(query, types, strategy, **options).to_pylist()
    return dict(row)


# ---- Decimals -------------------------------------------------------------------------------------


def cents(values: list[str | None], type_: pa.DataType | None = None) -> pa.Array:
    return pa.array([None if v is None else Decimal(v) for v in values], type_ or pa.decimal128(10, 2))


@pytest.mark.parametrize("strategy", ["auto", "cogra", "greta", "construct"])
def test_sums_of_decimals_are_exact_and_keep_their_digits(strategy: str) -> None:
    row = one_row("RETURN SUM(A.v), COUNT(*), AVG(A.v) PATTERN A", "AA", strategy, v=cents(["0.10", "0.20"]))
    assert (row["sum_A_v"], row["count"]) == ("0.30", "2")
    assert row["avg_A_v"] == pytest.approx(0.15)
    trends = one_row("RETURN SUM(A.v) PATTERN A+", "AAAA", strategy, v=cents(["0.10", "0.20", "-5.05", None]))
    assert trends["sum_A_v"] == "-38.00"  # every value is in 8 of the 15 trends
    assert one_row("RETURN SUM(A.v) PATTERN A", "A", strategy, v=cents([None]))["sum_A_v"] is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.decimal32(5, 1), "-1.5"),
        (pa.decimal64(15, 0), "7"),
        (pa.decimal128(20, 0), str(2**64 - 1)),
        (pa.decimal128(20, 3), "-0.007"),
        (pa.decimal256(50, 2), "12.25"),
    ],
)
def test_decimals_of_every_width_are_summed(type_: pa.DataType, value: str) -> None:
    row = one_row("RETURN SUM(A.v) PATTERN A", "AA", v=cents([value, value], type_))
    assert Decimal(row["sum_A_v"]) == 2 * Decimal(value)


def test_decimals_past_64_bits_are_a_limit() -> None:
    with pytest.raises(LimitError, match="query 'q': 'v' has decimals of more than 64 bits"):
        run("RETURN SUM(A.v) PATTERN A", "A", v=cents(["12345678901234567890.5"], pa.decimal128(38, 10)))


def test_having_compares_exact_decimals_with_what_a_literal_says() -> None:
    values = cents(["0.10", "0.20"])
    asked = "RETURN SUM(A.v) PATTERN A HAVING SUM(A.v) {}"
    assert run(asked.format("= 0.3"), "AA", v=values).num_rows == 1
    assert run(asked.format("> 0.3"), "AA", v=values).num_rows == 0
    assert (
        run(asked.format("> 0.3"), "AA", v=values, arithmetic="auto").num_rows == 1
    )  # doubles add up to more


# ---- Against the oracle ---------------------------------------------------------------------------


def returned(query: Query) -> list[tuple[str, Aggregate]]:
    assert not isinstance(query.returns, Matches)
    found = [(item.name, item.value) for item in query.returns if isinstance(item.value, Aggregate)]
    return [(name or default_column(aggregate), aggregate) for name, aggregate in found]


def is_whole(aggregate: Aggregate) -> bool:
    if aggregate.function is Function.SUM:
        return workloads.COLUMNS[aggregate.attribute or ""] == "int64"
    return aggregate.function is Function.COUNT and not aggregate.log2


def check(seed: int, strategy: str, **features: bool) -> None:
    case = workloads.random_case(random.Random(seed), aggregates=True, having=True, **features)
    (query,) = trendfold.parse(case.query)
    try:
        found = trendfold.parse(case.query).run(
            engine.to_table(case), strategy=strategy, order_column=case.order_column, arithmetic="exact"
        )[query.name]
    except UnsupportedError:
        assert engine.is_gap(query, strategy)
        return
    keys = 2 + len(query.group_by)
    texts = {f.name for f in list(found.schema)[keys:] if pa.types.is_string(f.type)}
    assert texts == {name for name, aggregate in returned(query) if is_whole(aggregate)}
    expected = oracle.rows(*case)
    for row in expected:
        for name in texts:
            row[name] = None if row[name] is None else str(row[name])
    difference = engine.difference(found.to_pylist(), expected, keys)
    assert difference is None, f"seed {seed}: {difference}\n{case.query}\n{case.events!r}\n{expected!r}"


@every_strategy
@many(200)
@given(seed=SEEDS)
def test_rows_are_the_oracles(strategy: str, seed: int) -> None:
    check(seed, strategy)


@every_strategy
@many(200)
@given(seed=SEEDS)
def test_rows_of_an_outermost_and_are_the_oracles(strategy: str, seed: int) -> None:
    check(seed, strategy, both=True)


@every_strategy
@many(150)
@given(seed=SEEDS)
def test_rows_with_cross_predicates_are_the_oracles(strategy: str, seed: int) -> None:
    check(seed, strategy, both=True, cross=True)


def test_only_whole_numbers_become_text() -> None:
    table = run(
        "RETURN COUNT(*), COUNT(A), SUM(A.v), SUM(A.w), AVG(A.v), MIN(A.v), MAX(A.v), LOG2(COUNT(*)) "
        "PATTERN A+", "AAA", v=[1, 2, 3], w=[0.5, 1.5, 2.5],
    )  # fmt: skip
    assert [str(type_) for type_ in table.schema.types[2:]] == [
        "string", "string", "string", "double", "double", "int64", "int64", "double",
    ]  # fmt: skip
    row = table.to_pylist()[0]
    assert (row["count"], row["count_A"], row["sum_A_v"]) == ("7", "12", "24")
    assert (row["sum_A_w"], row["avg_A_v"], row["min_A_v"], row["max_A_v"]) == (18.0, 2.0, 1, 3)


def test_a_sum_of_nothing_stays_null_beside_a_sum_of_zero() -> None:
    table = run("RETURN SUM(A.v) PATTERN A GROUP BY g", "AAA", v=[None, 5, -5], g=["x", "y", "y"])
    assert table.column("sum_A_v").to_pylist() == [None, "0"]
    assert run("RETURN COUNT(*), SUM(A.v) PATTERN A", "B", v=[1]).num_rows == 0


@pytest.mark.parametrize("arithmetic", ["exakt", "", "EXACT", None])
def test_an_unknown_arithmetic_is_an_input_error(arithmetic: Any) -> None:
    with pytest.raises(InputError, match="unknown arithmetic"):
        run("RETURN COUNT(*) PATTERN A", "A", arithmetic=arithmetic)


# ---- Large counts, against Python's integers ---------------------------------------------------------


def prefixes(types: str, values: list[int], times: list[int]) -> tuple[int, int, int]:
    """COUNT(*), COUNT(B) and SUM(B.v) of SEQ(A, B+, C) under any, by prefix counters."""
    a = b = c = 0
    nb = sb = nc = sc = 0
    i = 0
    while i < len(types):
        j = i
        new = [0] * 7
        while j < len(types) and times[j] == times[i]:
            match types[j]:
                case "A":
                    new[0] += 1
                case "B":
                    new[1] += a + b
                    new[2] += nb + a + b
                    new[3] += sb + values[j] * (a + b)
                case "C":
                    new[4] += b
                    new[5] += nb
                    new[6] += sb
            j += 1
        a, b, nb, sb = a + new[0], b + new[1], nb + new[2], sb + new[3]
        c, nc, sc = c + new[4], nc + new[5], sc + new[6]
        i = j
    return c, nc, sc


@pytest.mark.compiled
@both_kernels
@pytest.mark.parametrize("tied", [1, 3])
@pytest.mark.parametrize("largest", [0, 9, 2**31, 2**63 - 1])
def test_prefix_counts_of_thousands_of_events(strategy: str, tied: int, largest: int) -> None:
    rng = random.Random(f"{tied} {largest}")
    size = 3000 if strategy == "cogra" else 1000
    types = "".join(rng.choices("ABCX", k=size))
    values = [rng.randint(-largest - bool(largest), largest) for _ in types]
    times = [i // tied for i in range(size)]
    count, bindings, total = prefixes(types, values, times)
    assert count.bit_length() > 100
    row = one_row(
        "RETURN COUNT(*), COUNT(B), SUM(B.v) PATTERN SEQ(A, B+, C)", types, strategy, v=values, times=times
    )
    assert row["count"] == to_text(count)
    assert row["count_B"] == to_text(bindings)
    assert row["sum_B_v"] == to_text(total)


@pytest.mark.compiled
@both_kernels
@pytest.mark.parametrize("n", [1, 2, 52, 63, 64, 65, 127, 128, 129, 1023, 1024, 1500])
def test_a_kleene_plus_has_2_to_the_n_less_one_trends(strategy: str, n: int) -> None:
    row = one_row("RETURN COUNT(*), COUNT(A), SUM(A.v) PATTERN A+", "A" * n, strategy, v=[-(2**63)] * n)
    assert row["count"] == to_text(2**n - 1)
    assert row["count_A"] == to_text(n * 2 ** (n - 1))
    assert row["sum_A_v"] == to_text(-(2**63) * n * 2 ** (n - 1))


@both_kernels
@pytest.mark.parametrize("semantics", ["next", "contiguous"])
def test_chains_of_tied_moments(strategy: str, semantics: str) -> None:
    # Each binding continues to all three events of the next moment, and only there.
    moments, ending, total = 400, 0, 0
    for _ in range(moments):
        ending = 3 * (ending + 1)
        total += ending
    times = [i // 3 for i in range(3 * moments)]
    query = f"RETURN COUNT(*) PATTERN A+ SEMANTICS {semantics}"
    row = one_row(query, "A" * 3 * moments, strategy, times=times)
    assert row["count"] == to_text(total)


@pytest.mark.compiled
@both_kernels
def test_a_not_moves_whole_numbers_between_its_classes(strategy: str) -> None:
    types = "A" * 600 + "N" + "A" * 300 + "N" + "A" * 600 + "B"
    row = one_row("RETURN COUNT(*), COUNT(A) PATTERN SEQ(A+, NOT N, B)", types, strategy)
    assert row["count"] == to_text(2**1500 - 2**900)
    assert row["count_A"] == to_text(1500 * 2**1499 - 900 * 2**899)


@pytest.mark.compiled
@both_kernels
def test_a_neighbour_predicate_keeps_bindings_one_by_one(strategy: str) -> None:
    rng = random.Random(5)
    values = [rng.randint(-50, 50) for _ in range(800)]
    counts: list[int] = []
    sums: list[int] = []
    for i, v in enumerate(values):
        before = [j for j in range(i) if values[j] <= v]
        counts.append(1 + sum(counts[j] for j in before))
        sums.append(v * counts[i] + sum(sums[j] for j in before))
    query = "RETURN COUNT(*), SUM(A.v) PATTERN A+ WHERE A.v <= NEXT(A).v"
    row = one_row(query, "A" * 800, strategy, v=values)
    assert row["count"] == to_text(sum(counts))
    assert row["sum_A_v"] == to_text(sum(sums))


def test_groups_add_up_and_operands_multiply() -> None:
    # Partitions of unequal sizes in one group, so their numbers have unequal numbers of digits.
    sizes = {1: 700, 2: 3, 3: 64}
    types = "".join("AB" * n for n in sizes.values())
    keys = [k for k, n in sizes.items() for _ in range(2 * n)]
    row = one_row("RETURN COUNT(*), COUNT(A), SUM(B.v) PATTERN AND(A+, B+) WHERE [w]", types, w=keys, v=keys)
    ways = {k: 2**n - 1 for k, n in sizes.items()}
    members = {k: n * 2 ** (n - 1) for k, n in sizes.items()}
    assert row["count"] == to_text(sum(w * w for w in ways.values()))
    assert row["count_A"] == to_text(sum(members[k] * ways[k] for k in sizes))
    assert row["sum_B_v"] == to_text(sum(k * members[k] * ways[k] for k in sizes))


def test_windows_of_very_different_sizes() -> None:
    times = [0, 1, 2, *range(10_000, 11_500), 20_000]
    table = run("RETURN COUNT(*) PATTERN A+ WITHIN 5000 s SLIDE 5000 s", "A" * len(times), times=times)
    assert table.column("count").to_pylist() == ["7", to_text(2**1500 - 1), "1"]


@pytest.mark.compiled
@both_kernels
def test_items_are_folded_in_blocks(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    rng = random.Random(3)
    types, keys = "".join(rng.choices("AB", k=600)), [rng.randint(0, 9) for _ in range(600)]
    query = "RETURN COUNT(*), COUNT(A), SUM(B.v) PATTERN AND(A+, B+) WHERE [w] WITHIN 90 s SLIDE 30 s"
    whole = run(query, types, strategy, w=keys, v=keys)
    assert whole.num_rows > 10
    for size in [1, 5, 40]:
        monkeypatch.setattr("trendfold.runtime.exact_values._BLOCK", size)
        assert run(query, types, strategy, w=keys, v=keys).equals(whole)


def test_built_trends_sum_large_values() -> None:
    values = [2**63 - 1, -(2**63), 2**62 + 1, -7, 2**63 - 1]
    query = "RETURN COUNT(*), COUNT(A), SUM(A.v) PATTERN A+"
    rows = [one_row(query, "AAAAA", strategy, v=values) for strategy in engine.STRATEGIES]
    assert rows == [rows[0]] * len(rows)
    assert rows[0]["sum_A_v"] == str(sum(values) * 16)


def test_unsigned_values_past_2_to_the_63() -> None:
    values = pa.array([2**64 - 1, 2**64 - 2, None], pa.uint64())
    for strategy in engine.STRATEGIES:
        row = one_row("RETURN SUM(A.v) PATTERN A+", "AAA", strategy, v=values)
        assert row["sum_A_v"] == str(4 * (2**65 - 3))


# ---- Past 1 M bits ----------------------------------------------------------------------------------


def long_run(n: int, query: str, **options: Any) -> pa.Table:
    types = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["A"]))
    table = pa.table({"type": types, "ts": np.arange(n)})
    return trendfold.parse(f"QUERY long {query}").run(table, **options)["long"]


@pytest.mark.compiled
def test_a_number_past_a_million_bits_is_an_error_that_says_so() -> None:
    with pytest.raises(LimitError, match=r"'long'.*1,000,000 bits.*auto.*LOG2"):
        long_run(1_000_100, "RETURN COUNT(*) PATTERN A+", arithmetic="exact")
    row = long_run(1_000_100, "RETURN LOG2(COUNT(*)) PATTERN A+", arithmetic="exact").to_pylist()[0]
    assert row["log2_count"] == pytest.approx(1_000_100)


def test_the_limit_is_on_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trendfold.runtime.exact_values.MOST_BITS", 3000)
    assert one_row("RETURN COUNT(*) PATTERN A+", "A" * 3000)["count"] == to_text(2**3000 - 1)
    with pytest.raises(LimitError, match="3,000 bits"):
        run("RETURN COUNT(*) PATTERN A+", "A" * 3001)
    # What HAVING drops is not given.
    assert run("RETURN COUNT(*) PATTERN A+ HAVING COUNT(*) < 1e300", "A" * 3001).num_rows == 0


@pytest.mark.slow
def test_a_count_of_a_million_bits_is_given() -> None:
    (row,) = long_run(1_000_000, "RETURN COUNT(*) PATTERN A+", arithmetic="exact").to_pylist()
    assert len(row["count"]) == 301_030
    assert row["count"].endswith(str(pow(2, 1_000_000, 10**30) - 1))


# ---- HAVING -----------------------------------------------------------------------------------------

HOLDS = [
    "COUNT(*) > 5",
    "COUNT(*) > 1e300",
    "COUNT(*) + 1 > COUNT(*)",
    "COUNT(*) * 2 > COUNT(*) + 1",
    "COUNT(A) > COUNT(*)",
    "COUNT(B) = COUNT(*)",
    "COUNT(B) IN (1, COUNT(*))",
    "NOT COUNT(A) = COUNT(*)",
    "COUNT(*) % 2 = 1",
    "COUNT(*) BETWEEN COUNT(B) AND COUNT(A)",
    "SUM(A.v) / COUNT(A) > 0.9",
    "SUM(A.v) = COUNT(A)",
    "SUM(B.v) = 7 * COUNT(*)",
    "-SUM(A.v) < -COUNT(*)",
    "ABS(-COUNT(*)) = COUNT(B)",
    "n = COUNT(B)",
    "n - COUNT(B) = 0 AND n > 0",
    "LOG2(COUNT(*)) < COUNT(*)",
    "MIN(A.v) < SUM(A.v)",
    "(COUNT(*) + 1) / COUNT(B) = 1",
    "COUNT(*) - 1 IS NOT NULL",
    "COUNT(*) / 0 IS NULL",
    "SUM(A.w) > 1e300",
    "SUM(A.w) / 2 > 1e300",
]


@pytest.mark.parametrize("arithmetic", ["auto", "exact"])
@pytest.mark.parametrize("having", HOLDS)
def test_having_compares_the_true_value_past_doubles(having: str, arithmetic: str) -> None:
    # 2^1100 - 1 trends, each with one B.
    types, values = "A" * 1100 + "B", [1] * 1100 + [7]
    query = "RETURN COUNT(*) AS n PATTERN SEQ(A+, B)"
    columns = {"v": values, "w": [0.5] * 1101, "arithmetic": arithmetic}
    assert run(f"{query} HAVING {having}", types, **columns).num_rows == 1
    assert run(f"{query} HAVING NOT ({having})", types, **columns).num_rows == 0


@pytest.mark.parametrize("arithmetic", ["auto", "exact"])
@both_kernels
def test_having_tells_neighbours_apart_where_doubles_cannot(strategy: str, arithmetic: str) -> None:
    types = "A" * 60
    for having, rows in [
        (f"COUNT(*) = {2**60 - 1}", 1),
        (f"COUNT(*) = {2**60}", 0),
        (f"COUNT(*) < {2**60}", 1),
        (f"COUNT(*) >= {2**60}", 0),
        ("COUNT(*) % 2 = 1", 1),
        (f"COUNT(*) + 1 = {2**60}", 1),
        ("SUM(A.v) = 0", 1),
        ("SUM(A.v) + 1 = 1", 1),
        ("SUM(A.w) = 0", 0),
    ]:
        values = [2**62, -(2**62)] * 30
        found = run(
            f"RETURN COUNT(*) PATTERN A+ HAVING {having}", types, strategy,
            v=values, w=[1, *values[1:]], arithmetic=arithmetic,
        )  # fmt: skip
        assert found.num_rows == rows, having


def test_having_in_auto_goes_on_past_a_million_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trendfold.runtime.exact_values.MOST_BITS", 1000)
    query = "RETURN COUNT(*) PATTERN A+ HAVING COUNT(A) > 2 * COUNT(*)"
    assert run(query, "A" * 1500, arithmetic="auto").num_rows == 1
    with pytest.raises(LimitError):
        run(query, "A" * 1500, arithmetic="exact")


def test_having_on_keys_and_huge_counts() -> None:
    types, groups = "A" * 2200 + "AA", ["x"] * 1100 + ["y"] * 1100 + ["z"] * 2
    query = "RETURN g, COUNT(*) PATTERN A+ GROUP BY g HAVING g != 'x' AND COUNT(*) + 1 > 4 OR g LIKE 'z%'"
    table = run(query, types, g=groups)
    assert table.column("g").to_pylist() == ["y", "z"]
    assert table.column("count").to_pylist() == [to_text(2**1100 - 1), "3"]


def test_averages_are_right_past_doubles() -> None:
    row = one_row("RETURN AVG(A.v), SUM(A.v) PATTERN A+", "A" * 1100, v=[1, 2] * 550)
    assert Fraction(row["avg_A_v"]) == Fraction(3, 2)
