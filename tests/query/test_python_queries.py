"""Queries written in Python are those of the text: on the page, and for random queries."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import trendfold as tf
from query.strategies import queries
from trendfold.errors import InputError, QueryError
from trendfold.query import check
from trendfold.query.in_python import ConditionExpr, EventExpr, ValueExpr
from trendfold.query.nodes import (
    EVENT_TIME,
    Aggregate,
    Attribute,
    Between,
    Binary,
    Both,
    Compare,
    Duration,
    Either,
    EventRef,
    Function,
    GroupKey,
    In,
    Instant,
    IsNull,
    Like,
    Literal,
    Logic,
    Matches,
    Maybe,
    Not,
    Plus,
    Query,
    Repeat,
    Seq,
    TypeSet,
    Unary,
    Window,
    WindowUnit,
)
from trendfold.query.parser import placed

PAGE = (Path(__file__).parents[2] / "docs" / "python-queries.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python( bad)?\n(.*?)^```\n+```(?:sql|text)\n(.*?)\n?^```$", re.MULTILINE | re.DOTALL)


def value_of(code: str, names: dict[str, Any]) -> Any:
    """Run a block; the value of its last line."""
    *first, last = ast.parse(code).body
    exec(compile(ast.Module(first, []), "page", "exec"), names)
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)


def test_every_example_of_the_page_is_the_text_beside_it() -> None:
    names: dict[str, Any] = {}
    found = BLOCK.findall(PAGE)
    assert len(found) == PAGE.count("```python") > 5
    for is_bad, code, beside in found:
        if is_bad:
            with pytest.raises((QueryError, TypeError)) as caught:
                value_of(code, names)
            assert str(caught.value) == beside
        else:
            assert value_of(code, names) == tf.parse(beside)


# ---------------------------------------------------------------- random queries, written again in Python

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def event(name: str) -> EventExpr:
    return tf.event(name)


def pattern(node: Any) -> Any:
    match node:
        case EventRef(TypeSet(None), alias):
            return tf.any_event(alias)
        case EventRef(TypeSet(frozenset() as names), alias):
            return tf.any_of(*names, as_=alias)
        case EventRef(str(type_), alias):
            return tf.event(type_, alias)
        case Seq(parts):
            return tf.seq(*map(pattern, parts))
        case Either(parts) | Both(parts):
            first, *rest = map(pattern, parts)
            for each in rest:
                first = first | each if isinstance(node, Either) else first & each
            return first
        case Not(body):
            return ~pattern(body)
        case Maybe(Plus(body)):
            return pattern(body).star()
        case Maybe(body):
            return pattern(body).optional()
        case Plus(body):
            return pattern(body).plus()
        case Repeat(body, low, None):
            return pattern(body).at_least(low)
        case Repeat(body, low, high):
            return pattern(body).times(low, high)
    raise AssertionError(node)


def literal(value: Any) -> Any:
    match value:
        case Instant(micros):
            return EPOCH + timedelta(microseconds=micros)
        case Duration(micros):
            return timedelta(microseconds=micros)
    return value


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
}
AGGREGATES = {Function.SUM: tf.sum, Function.MIN: tf.min, Function.MAX: tf.max, Function.AVG: tf.mean}


def value(node: Any) -> ValueExpr:
    """As an operand that has operators: literals and conditions too, which Python has by the other side."""
    found = expression(node)
    if isinstance(found, ConditionExpr):
        return ValueExpr(found._node)
    return found if isinstance(found, ValueExpr) else ValueExpr(node)


def condition(node: Any) -> ConditionExpr:
    found = expression(node)
    return found if isinstance(found, ConditionExpr) else ConditionExpr(value(node)._node)


def expression(node: Any) -> Any:
    match node:
        case Literal(held):
            return literal(held)
        case Attribute(None, name):
            return tf.col(name)
        case Attribute(str(alias), name, is_next):
            named = tf.next(event(alias)) if is_next else event(alias)
            return tf.time(named) if name == EVENT_TIME else named[name]
        case Aggregate(Function.COUNT, alias, None, log2, distinct):
            counted = tf.count(None if alias is None else event(alias))
            counted = tf.count_distinct(*distinct) if distinct else counted
            return tf.log2(counted) if log2 else counted
        case Aggregate(function, str(alias), str(attribute)):
            return AGGREGATES[function](event(alias)[attribute])
        case Unary("NOT", operand):
            return ~condition(operand)
        case Unary("-", operand):
            return -value(operand)
        case Unary(_, operand):
            return abs(value(operand))
        case Compare(op, left, right) | Binary(op, left, right):
            return COMPARE[op](value(left), expression(right))
        case Logic(op, parts):
            first, *rest = map(condition, parts)
            for each in rest:
                first = first & each if op == "AND" else first | each
            return first
        case IsNull(operand, negated):
            return value(operand).is_not_null() if negated else value(operand).is_null()
        case In(operand, items, negated):
            found = value(operand).is_in([expression(item) for item in items])
            return ~found if negated else found
        case Between(operand, low, high, negated):
            found = value(operand).between(expression(low), expression(high))
            return ~found if negated else found
        case Like(operand, text, negated):
            found = value(operand).like(text)
            return ~found if negated else found
    raise AssertionError(node)


def conjunct(node: Any) -> ConditionExpr:
    match node:
        case Logic("AND", parts):
            return tf.jointly(*map(condition, parts))
    return condition(node)


def key(each: GroupKey) -> Any:
    return each.attribute if each.alias is None else event(each.alias)[each.attribute]


def returned(item: Any) -> Any:
    found = key(item.value) if isinstance(item.value, GroupKey) else expression(item.value)
    return found if item.name is None else found.alias(item.name)


def length(size: int | None, unit: WindowUnit) -> Any:
    if size is None:
        return None
    return f"{size} events" if unit is WindowUnit.EVENTS else timedelta(microseconds=size)


def lengths(query: Query) -> Any:
    window = query.window or Window(0, None, WindowUnit.EVENTS)
    if query.bound is not None:
        every = length(query.window and window.length, window.unit)
        within = length(query.bound.length, WindowUnit.MICROSECONDS)
        return {"within": within, "every": every, "once": every is None}
    within = length(query.window and window.length, window.unit)
    return {"within": within, "slide": length(window.slide, window.unit)}


def written(query: Query) -> tf.Workload:
    """The query, through the functions that users call."""
    returns: Any = query.returns
    return tf.query(
        pattern(query.pattern),
        name=query.name,
        returns=tf.matches(*returns.attributes)
        if isinstance(returns, Matches)
        else [*map(returned, returns)],
        semantics=query.semantics,
        where=[*([tf.same(*query.equivalence)] if query.equivalence else []), *map(conjunct, query.where)],
        group_by=[*map(key, query.group_by)],
        having=None if query.having is None else condition(query.having),
        **lengths(query),
        limit=query.limit,
        include_empty=query.includes_empty,
    )


def flat(node: Any) -> Any:
    """As Python's operators build it: `a | (b | c)` is `a | b | c`, and NOT x IN y is x NOT IN y."""
    match node:
        case tuple():
            return tuple(map(flat, node))
        case Either(parts) | Both(parts):
            own = type(node)
            inner = [part.parts if isinstance(part, own) else (part,) for part in flat(parts)]
            return own(tuple(part for each in inner for part in each))
        case Logic(op, parts):
            inner = [p.parts if isinstance(p, Logic) and p.op == op else (p,) for p in flat(parts)]
            return Logic(op, tuple(part for each in inner for part in each))
        case Unary("NOT", In() | Between() | Like() | IsNull() as inside):
            return replace(flat(inside), negated=not inside.negated)
        case Seq() | Plus() | Maybe() | Not() | Repeat() | Unary() | Compare() | Binary():
            pass
        case In() | Between() | Like() | IsNull() | Query():
            pass
        case _:
            return node
    held = {
        name: flat(getattr(node, name)) for name in node.__dataclass_fields__ if name not in ("text", "span")
    }
    return replace(node, **held)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
def test_a_query_written_in_python_is_the_same_and_reads_back(query: Query) -> None:
    wanted = flat(query)
    if check(wanted):
        return
    workload = written(query)
    assert workload.queries == (wanted,)
    assert repr(workload.queries[0]) == repr(wanted)
    assert tf.parse(str(workload)) == workload
    assert placed(workload.queries[0]) == workload.queries[0]


# ---------------------------------------------------------------- one by one

T = tf.event("Travel", as_="T")
EVENTS = pa.table({"type": ["Travel", "Travel"], "ts": [1, 2], "speed": [5, 20]})


def test_it_runs() -> None:
    assert tf.query(T.plus(), where=T.speed < 10).run(EVENTS)["q1"]["count"].to_pylist() == [1.0]


def test_columns_are_checked_with_a_place_in_the_printed_query() -> None:
    with pytest.raises(QueryError) as caught:
        tf.query(T, where=T.sped < 10).run(EVENTS)
    lines = str(caught.value).splitlines()
    assert lines[0] == "4:7: query 'q1': there is no column 'sped'"
    assert lines[-1] == "hint: did you mean 'speed'?"


def test_numbers_of_numpy_and_either_side_of_an_operator() -> None:
    for where in (T.speed > np.int64(3), np.int64(3) < T.speed, np.float64(3) < T.speed):
        text = "T.speed > 3.0" if "3.0" in repr(where) else "T.speed > 3"
        assert repr(where) == text
    assert repr(10 - T.speed * 2 < 5) == "10 - T.speed * 2 < 5"
    assert repr(timedelta(minutes=1) > tf.time(T) - tf.time(T)) == "TIME(T) - TIME(T) < 1 min"
    assert repr(-T.speed) == "-T.speed"


def test_any_column_has_a_name() -> None:
    assert repr(T["times"]) == "T.times"
    assert repr(T['it\'s a "b"']) == 'T."it\'s a ""b"""'
    assert repr(tf.next(T)["_x"]) == "NEXT(T)._x"


def test_events_are_plain_values() -> None:
    for made in (T, T.plus(), T.speed < 3, tf.next(T)):
        assert repr(copy.deepcopy(made)) == repr(made) == repr(pickle.loads(pickle.dumps(made)))
    assert not hasattr(T, "_repr_html_")


def test_everything_is_found_by_completion_but_builtins_stay_python_s() -> None:
    assert {"seq", "event", "any_of", "count", "sum", "next", "query"} <= set(dir(tf))
    assert {"sum", "min", "max", "next"}.isdisjoint(tf.__all__)
    assert callable(tf.query)
    assert all(getattr(tf, name).__doc__ for name in tf.__all__)


def test_adding_workloads_keeps_order_and_refuses_equal_names() -> None:
    one, two = tf.query(T, name="one"), tf.parse("two: RETURN COUNT(*) PATTERN B")
    assert [query.name for query in one + two] == ["one", "two"]
    with pytest.raises(QueryError, match="both workloads have a query named 'one'"):
        one + one
    with pytest.raises(TypeError):
        one + 3  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.event(""), "an event type is a string that is not empty"),
        (lambda: T[""], "an attribute is a string that is not empty"),
        (lambda: tf.any_of(), "any_event"),
        (lambda: tf.same(), "same takes"),
        (lambda: tf.seq(), "seq takes"),
        (lambda: T.times(0), "high at least 1"),
        (lambda: T.times(3, 2), "low <= high"),
        (lambda: T.times(True), "whole numbers"),
        (lambda: T.at_least(-1), "whole number"),
        (lambda: T.speed.is_in([]), "at least one"),
        (lambda: T.speed == [1], "pass a number"),
        (lambda: T.speed == T, "name an attribute"),
        (lambda: T.speed == 10**5000, "digits"),
        (lambda: (T.speed < 1) & 3, "is no condition"),
        (lambda: tf.sum(T), "SUM takes"),
        (lambda: tf.sum(tf.next(T).speed), "SUM takes"),
        (lambda: tf.sum(tf.time(T)), "SUM takes"),
        (lambda: tf.log2(tf.sum(T.x)), "log2 takes"),
        (lambda: tf.count_distinct(), "count_distinct takes"),
        (lambda: tf.query(T, returns=tf.count_distinct("u")), "u"),
        (lambda: tf.count(T.plus()), "without a repetition"),
        (lambda: tf.any_event().speed, "give it one"),
        (lambda: tf.query(3), "is no pattern"),
        (lambda: tf.query(T, name=""), "named by a string"),
        (lambda: tf.query(T, returns=[]), "at least one aggregate"),
        (lambda: tf.query(T, returns=T.x + 1), "is no aggregate"),
        (lambda: tf.query(T, returns=[tf.matches()]), "stands alone"),
        (lambda: tf.query(T, group_by=tf.next(T).x), "grouping attribute"),
        (lambda: tf.query(T, where=[T == 3]), "is no condition"),
        (lambda: tf.query(T, semantics="nxt"), "did you mean 'next'"),
        (lambda: tf.query(T, within=0), "timedelta"),
        (lambda: tf.query(T, within=timedelta()), "positive"),
        (lambda: tf.query(T, within="1 h", slide="10 events"), "different units"),
        (lambda: tf.query(T, every="1 h"), "EVERY needs WITHIN"),
        (lambda: tf.query(T, within="1 h", every="1 h", slide="1 h"), "SLIDE cannot be combined with EVERY"),
        (lambda: tf.query(T, within="1 h", every="1 h", once=True), "EVERY cannot be combined with ONCE"),
        (lambda: tf.query(T, within="10 events", once=True), "ONCE needs durations"),
        (lambda: tf.query(T, within="1 h", once=1), "True or False"),
        (lambda: tf.query(T, slide="10 min"), "SLIDE needs WITHIN"),
        (lambda: tf.query(T, limit=0), "positive whole number"),
        (lambda: tf.query(T, returns=tf.matches(), within="1 h", slide="1 h"), "SLIDE cannot be combined"),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], object], message: str) -> None:
    with pytest.raises((InputError, QueryError), match=re.escape(message)):
        make()


def test_a_pattern_may_not_be_nested_too_deep() -> None:
    deep: Any = T
    for _ in range(300):
        deep = deep.plus()
    with pytest.raises(QueryError, match="nested deeper than 200"):
        tf.query(deep)
