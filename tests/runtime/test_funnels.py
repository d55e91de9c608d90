"""Funnels against their rules told in plain Python, and against the language's own enumeration."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.errors import InputError, QueryError, RejectError
from trendfold.testing import oracle

Rows = list[dict[str, Any]]

GUIDE = Path(__file__).parents[2] / "docs" / "funnels.md"


def attempts(events: Rows, steps: Sequence[str], within: int) -> Iterator[tuple[Any, ...]]:
    """Per event of the first step: the times of the steps that its attempt gets through."""
    for begin in events:
        if begin["type"] != steps[0]:
            continue
        times = [before(begin)]
        for step in steps[1:]:
            later = [before(e) for e in events if e["type"] == step and before(e) > times[-1]]
            if not later or min(later)[0] - times[0][0] >= within:
                break
            times.append(min(later))
        yield tuple(times)


def before(event: dict[str, Any]) -> tuple[int, int]:
    return event["ts"], event.get("o", 0)


def told(events: Rows, steps: Sequence[str], within: int, every: int | None, origin: int) -> Rows:
    """The rules of docs/funnels.md, as they stand there."""
    best: dict[tuple[int, Any], tuple[Any, ...]] = {}
    for user in {e["user"] for e in events if e["user"] is not None}:
        for times in attempts([e for e in events if e["user"] == user], steps, within):
            period = 0 if every is None else (times[0][0] - origin) // every
            other = best.get((period, user))
            # Furthest; then the first to get there; then the last to begin.
            rank = len(times), [-x for x in times[-1]], times[0]
            if other is None or rank > (len(other), [-x for x in other[-1]], other[0]):
                best[period, user] = times
    found = []
    for period in sorted({period for period, _ in best} if every is not None else {0}):
        own = [times for (p, _), times in best.items() if p == period]
        for k, name in enumerate(steps):
            gaps = [times[k][0] - times[k - 1][0] for times in own if k and len(times) > k]
            row = {"step": k + 1, "name": name, "keys": sum(len(times) > k for times in own)}
            row |= {"mean_seconds": mean(gaps) if gaps else None}
            row |= {"median_seconds": median(gaps) if gaps else None}
            if every is not None:
                row["window_start"] = period * every + origin
            found.append(row)
    return found


def stream(draw: random.Random, has_order: bool) -> Rows:
    return [
        {
            "type": draw.choice("ABCDx"),
            "ts": draw.randrange(-8, 25),
            "user": draw.choice(["u", "v", "w", None]),
        }
        | ({"o": draw.randrange(3)} if has_order else {})
        for _ in range(draw.randrange(30))
    ]


def to_table(events: Rows) -> pa.Table:
    kinds = {"type": pa.string(), "ts": pa.int64(), "user": pa.string(), "o": pa.int64()}
    names = list(events[0]) if events else ["type", "ts", "user", "o"]
    return pa.table({name: pa.array([e[name] for e in events], kinds[name]) for name in names})


STEPS = (["A", "B", "C"], ["A", "A", "B"], ["A", "B", "A", "B"], ["B"], ["A", "B", "C", "D"])


@pytest.mark.parametrize("seed", range(150))
def test_the_counts_and_times_are_those_of_the_rules(seed: int) -> None:
    draw = random.Random(seed)
    has_order = draw.random() < 0.3
    events, steps, within = stream(draw, has_order), draw.choice(STEPS), draw.randrange(1, 20)
    every, origin = draw.choice([None, None, 3, 10]), draw.choice([0, -4])
    table = tf.funnel(
        to_table(events),
        steps=steps,
        by="user",
        within=f"{within} s",
        every=None if every is None else timedelta(seconds=every),
        order_column="o" if has_order and events else None,
        origin=origin,
    ).table
    wanted = told(events, steps, within, every, origin)
    for row, expected in zip(table.to_pylist(), wanted, strict=True):
        assert {name: row[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(60))
def test_a_step_is_reached_by_the_keys_that_have_a_trend_of_its_prefix(seed: int) -> None:
    """The language says so under any, where nothing is greedy: COUNT(DISTINCT user) of every prefix."""
    draw = random.Random(seed)
    events, steps, within = stream(draw, False), draw.choice(STEPS), draw.randrange(1, 20)
    found = tf.funnel(to_table(events), steps=steps, by="user", within=f"{within} s")
    for k in range(len(steps)):
        pattern = f"SEQ({', '.join(steps[: k + 1])})"
        for semantics in ("any", "next"):
            text = f"RETURN COUNT(DISTINCT user) AS n PATTERN {pattern} SEMANTICS {semantics}"
            rows = oracle.rows(f"{text} WHERE [user] WITHIN {within} s ONCE", events, None)
            assert found.table["keys"][k].as_py() == (rows[0]["n"] if rows else 0)


T = pa.table(
    {
        "type": ["view", "cart", "pay", "view", "order", "view"],
        "ts": pa.array([0, 60, 90, 10, 20, None], pa.timestamp("s", "UTC")),
        "user": ["ann", "ann", "ann", "bob", "bob", "eve"],
        "shop": [1, 1, 2, 1, 1, 1],
        "amount": [None, 5.0, 7.0, None, 3.0, None],
    }
)


def test_steps_may_be_sets_and_have_conditions() -> None:
    paid = tf.any_of("pay", "order", as_="paid")
    found = tf.funnel(T, steps=["view", paid], by="user", within="1 h", where=paid.amount > 4)
    assert found.table["name"].to_pylist() == ["view", "paid"]
    assert found.table["keys"].to_pylist() == [2, 1]
    assert found.rejects == 1
    assert "PATTERN SEQ(view, ANY(order, pay) paid)" in found.text


def test_keys_of_several_attributes() -> None:
    found = tf.funnel(T, steps=["view", "cart", "pay"], by=["user", "shop"], within="1 h")
    assert found.table["keys"].to_pylist() == [2, 1, 0]
    assert found.table["of_first"].to_pylist() == [1, 0.5, 0]
    assert found.table["of_previous"].to_pylist() == [None, 0.5, 0]


def test_periods_have_the_type_of_the_time_column() -> None:
    found = tf.funnel(T, steps=["view", "cart"], by="user", within="1 h", every="1 min")
    assert found.table["window_start"].type == pa.timestamp("s", "UTC")
    assert (found.table["window_end"][0].as_py() - found.table["window_start"][0].as_py()).seconds == 60


def test_nothing_in_gives_steps_without_keys_and_no_periods() -> None:
    nothing = T.slice(0, 0)
    assert tf.funnel(nothing, steps=["a", "b"], by="user", within="1 h").table["keys"].to_pylist() == [0, 0]
    assert tf.funnel(nothing, steps=["a"], by="user", within="1 h", every="1 h").table.num_rows == 0


def test_the_picture_has_a_bar_per_row_and_no_markup_of_names() -> None:
    found = tf.funnel(T, steps=["view", "<b>"], by="user", within="1 h")
    assert found.svg().count("<rect") == 2
    assert "<b>" not in found.svg()
    assert "no event has the type '<b>'" in found.summary
    assert (
        tf.funnel(T, steps=["view", "cart"], by="user", within="1 h", every="1 min").svg().count("<rect") == 2
    )


def test_frames() -> None:
    found = tf.funnel(T, steps=["view", "cart"], by="user", within="1 h")
    assert found.to_pandas()["keys"].tolist() == found.to_polars()["keys"].to_list() == [2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": []}, "1 to 60 steps"),
        ({"steps": ["a"] * 61}, "1 to 60 steps"),
        ({"steps": [tf.event("a").plus()]}, "is no step"),
        ({"within": "5 mins"}, "duration"),
        ({"within": "5 events"}, "within is a timedelta"),
        ({"every": 0}, "timedelta"),
        ({"by": "usr"}, "did you mean 'user'"),
        ({"by": []}, "same takes"),
        ({"where": tf.event("view").amount < tf.event("cart").amount}, "names one step"),
        ({"where": tf.event("viu").amount < 3}, "did you mean 'view'"),
        ({"engine": "locl"}, "choose one of"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    asked: dict[str, Any] = {"steps": ["view", "cart"], "by": "user", "within": "1 h"} | change
    with pytest.raises((InputError, QueryError, tf.UnsupportedError), match=re.escape(message)):
        tf.funnel(T, **asked)


def test_on_reject_fail() -> None:
    with pytest.raises(RejectError):
        tf.funnel(T, steps=["view"], by="user", within="1 h", on_reject="fail")


@pytest.mark.compiled
def test_many_keys() -> None:
    draw = np.random.default_rng(3)
    types = np.array(["A", "B", "C"])[draw.integers(0, 3, 20_000)]
    table = pa.table({"type": types, "ts": draw.permutation(20_000), "user": draw.integers(0, 500, 20_000)})
    events = table.cast(pa.schema([("type", "string"), ("ts", "int64"), ("user", "int64")])).to_pylist()
    rows = tf.funnel(table, steps=["A", "B", "C"], by="user", within="300 s").table.to_pylist()
    for row, expected in zip(rows, told(events, ["A", "B", "C"], 300, None, 0), strict=True):
        assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_the_examples_of_the_page_print_what_stands_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```\n+```text\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    names: dict[str, Any] = {}
    assert len(blocks) > 2
    for code, output in blocks:
        exec(code, names)
        assert capsys.readouterr().out == output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"within": "7 x"}, "within: it is '7 x'; write a duration"),
        ({"within": "7 d", "every": "3 events"}, "every is a timedelta or a duration such as '7 d'"),
    ],
)
def test_a_length_that_is_no_duration_is_named(given: dict[str, str], told: str) -> None:
    with pytest.raises(tf.InputError, match=told):
        tf.funnel(T, steps=["view", "pay"], by="user", **given)
