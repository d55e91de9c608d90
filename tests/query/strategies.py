"""Random valid queries: built from the spec's rules, then passed through the checks."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from trendfold.errors import Span
from trendfold.query import check
from trendfold.query.names import named, refs
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
    Expression,
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
    Pattern,
    Plus,
    Query,
    Repeat,
    ReturnItem,
    Semantics,
    Seq,
    SpanBound,
    TypeSet,
    Unary,
    Window,
    WindowUnit,
)

PLAIN = ["speed", "min", "Count", "events", "as", "matches", "größe", "d"]
STRANGE = ["select", "ORDER", "where", "True", "a b", 'say "hi"', "it's", "1st", "--", "a.b", "GROUP_BY", ";"]
names = st.sampled_from(PLAIN + STRANGE) | st.text(min_size=1, max_size=4)
types = st.sampled_from(["A", "B", "C", "Travel", "seq", "TRUE", "b-c"])

# ---------------------------------------------------------------- patterns


def _seq(parts: list[Pattern]) -> Pattern:
    """SEQ as the parser normalises it."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Seq) else (part,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _repeat(body: Pattern, low: int, more: int | None) -> Pattern:
    if more is None:
        return Repeat(body, low, None) if low else Maybe(Plus(body))
    return Repeat(body, low, max(low + more, 1))


sets = st.none() | st.frozensets(st.sampled_from(["A", "B", "any", "b-c"]), min_size=1)
events = st.builds(
    EventRef, types | st.builds(TypeSet, sets), st.none() | st.sampled_from(["x", "y", "z", "limit", "no go"])
)
positive: st.SearchStrategy[Pattern] = st.recursive(
    events,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(_seq),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(Either),
        st.builds(Plus, inner),
        st.builds(Maybe, inner),
        st.builds(_repeat, inner, st.integers(0, 2), st.none() | st.integers(0, 2)),
    ),
    max_leaves=5,
)
negated: st.SearchStrategy[Pattern] = st.recursive(
    st.builds(EventRef, st.sampled_from(["N", "M", "not"])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(_seq),
        st.lists(inner, min_size=2, max_size=2).map(tuple).map(Either),
        st.builds(Plus, inner),
    ),
    max_leaves=3,
).map(Not)


@st.composite
def sequences(draw: st.DrawFn) -> Pattern:
    """Positive patterns with a NOT here and there."""
    parts = draw(st.lists(positive, min_size=1, max_size=3))
    for i in sorted(draw(st.sets(st.integers(0, len(parts)), max_size=2)), reverse=True):
        parts.insert(i, draw(negated))
    return _seq(parts)


def _both(parts: list[Pattern]) -> Pattern:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Both) else (part,))]
    return Both(tuple(flat))


patterns = positive | sequences() | st.lists(sequences(), min_size=2, max_size=3).map(_both)

# ---------------------------------------------------------------- expressions

literals = st.builds(
    Literal,
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.builds(Instant, st.integers(-(10**16), 10**17))
    | st.builds(
        Duration, st.integers(-(10**17), 10**17) | st.integers(-9, 9).map(lambda n: n * 3_600_000_000)
    ),
)


def _minus(operand: Expression) -> Expression:
    """A minus before a number is part of the number."""
    if isinstance(operand, Literal) and type(operand.value) in (int, float, Duration):
        return operand
    return Unary("-", operand)


def expressions(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Conditions and values over the given attributes; types play no part in the syntax."""

    def wider(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.builds(Compare, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), inner, inner),
            st.builds(Binary, st.sampled_from("+-*/%"), inner, inner),
            st.builds(
                Logic, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)
            ),
            st.builds(Unary, st.sampled_from(["NOT", "ABS"]), inner),
            st.builds(_minus, inner),
            st.builds(IsNull, inner, st.booleans()),
            st.builds(In, inner, st.lists(inner, min_size=1, max_size=3).map(tuple), st.booleans()),
            st.builds(Between, inner, inner, inner, st.booleans()),
            st.builds(Like, inner, st.text(max_size=4), st.booleans()),
        )

    return st.recursive(leaves, wider, max_leaves=5)


# Aliases are drawn as numbers and named once the pattern is known: to build strategies in a draw is slow.
_numbers = st.sampled_from(["0", "1", "2", "3"])
_conditions = expressions(
    st.builds(Attribute, _numbers, names | st.just(EVENT_TIME), st.booleans()) | literals
)
_counts = st.builds(Aggregate, st.just(Function.COUNT), st.none() | _numbers, st.none(), st.booleans())
_sums = st.builds(
    Aggregate, st.sampled_from([Function.SUM, Function.MIN, Function.MAX, Function.AVG]), _numbers, names
)
_havings = expressions(_counts | _sums | literals | st.builds(Attribute, st.none(), st.just("n")))


def _named(node: Any, known: list[str]) -> Any:
    """The node with its numbers replaced by aliases and types of a pattern."""
    match node:
        case tuple():
            return tuple(_named(part, known) for part in node)
        case Attribute(str(number)) | Aggregate(_, str(number)) | GroupKey(str(number)):
            return replace(node, alias=known[int(number) % len(known)])
    if not is_dataclass(node) or isinstance(node, Literal | Span):
        return node
    rebuild: Any = type(node)
    return rebuild(*(_named(getattr(node, field.name), known) for field in fields(node)))


# ---------------------------------------------------------------- queries

_lengths = st.integers(1, 10**12) | st.integers(1, 10**5).map(lambda n: n * 60_000_000)
_keys = st.builds(GroupKey, st.none() | _numbers, names)
_items = st.lists(st.builds(ReturnItem, _counts | _sums, st.none() | names), max_size=3).map(tuple)
_clauses: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "semantics": st.sampled_from(Semantics),
        "equivalence": st.lists(names, max_size=2, unique=True).map(tuple),
        "where": st.lists(_conditions.filter(named), max_size=3).map(tuple),
        "group_by": st.lists(_keys, max_size=2, unique=True).map(tuple),
        "returns": _items.map(lambda items: (*items, ReturnItem(Aggregate(Function.COUNT), "n"))) | st.none(),
        "having": _havings | st.none(),
        "window": st.builds(Window, _lengths, st.none() | _lengths, st.sampled_from(WindowUnit)) | st.none(),
        "bound": st.none() | st.tuples(_lengths, st.none() | _lengths),
        "limit": st.none() | st.integers(1, 10**9),
    }
)
_matches = st.lists(names, max_size=2, unique=True).map(tuple).map(Matches)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """A valid query; a clause that the checks refuse is left out, a conjunct as well."""
    query = Query(draw(names), draw(_matches), draw(patterns))
    assume(not check(query))
    known = list(
        dict.fromkeys(
            name for ref, _ in refs(query.pattern) for name in (ref.alias, ref.type) if isinstance(name, str)
        )
    )
    for clause, value in _named(tuple(draw(_clauses).items()), known or ["nothing"]):  # ANY has no name
        if value is None or (clause == "window" and query.bound is not None):
            continue
        for more in [(conjunct,) for conjunct in value] if clause == "where" else [value]:
            change: Any = {clause: query.where + more if clause == "where" else more}
            if clause == "bound":
                period = None if more[1] is None else Window(more[1], more[1], WindowUnit.MICROSECONDS)
                change = {"bound": SpanBound(more[0]), "window": period}
            changed = replace(query, **change)
            query = query if check(changed) else changed
    if isinstance(query.returns, Matches):
        return query
    return _with_rows_of_partitions(query, draw(st.booleans()))


def _with_rows_of_partitions(query: Query, includes_empty: bool) -> Query:
    """The query with COUNT(DISTINCT ...) of the attributes that partition it."""
    plain = (key.attribute for key in query.group_by if key.alias is None)
    names = tuple(dict.fromkeys((*query.equivalence, *plain)))
    item = ReturnItem(Aggregate(Function.COUNT, distinct=names, log2=includes_empty))
    changed = replace(query, includes_empty=includes_empty, returns=(*query.returns, item))
    return query if not names or check(changed) else changed
