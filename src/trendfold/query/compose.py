"""Clauses written in Python -> a checked query. Errors point into the query as it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from trendfold.errors import InputError, Problem, QueryError, nearest
from trendfold.query.builder import SEMANTICS, read_duration
from trendfold.query.check import check
from trendfold.query.in_python import ConditionExpr, Same, ValueExpr, count, pattern_of
from trendfold.query.names import depth
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Duration,
    Expression,
    GroupKey,
    Logic,
    Matches,
    Query,
    ReturnItem,
    Semantics,
    SpanBound,
    Window,
    WindowUnit,
)
from trendfold.query.parameters import plain
from trendfold.query.parser import placed
from trendfold.query.split import MAX_NESTING


def compose(name: object, clauses: Mapping[str, Any]) -> Query:
    """The query of these clauses, checked as one of text is; raises one QueryError with all its problems."""
    found: dict[str, Any] = {}
    problems = []
    for clause, read in _READERS.items():
        try:
            found[clause] = read(clauses.get(clause, _OMITTED.get(clause)))
        except InputError as error:
            problems.append(Problem(f"{clause}: {error}", str(name)))
    if not isinstance(name, str) or not name:
        raise QueryError([Problem(f"name: a query is named by a string, not {name!r}"), *problems])
    if problems:
        raise QueryError(problems)
    equivalence, where = found["where"]
    within, slide, every, once = (found.pop(clause) for clause in ("within", "slide", "every", "once"))
    if every or once:
        window, bound = _periods(name, within, slide, every, once)
    else:
        window, bound = _window(name, within, slide), None
    given = {"equivalence": equivalence, "where": where, "window": window, "bound": bound}
    query = Query(name, **{**found, **given})
    return _checked(query)


def _checked(query: Query) -> Query:
    if deep := list(_deep(query)):
        message = f"{' and '.join(deep)} is nested deeper than {MAX_NESTING} levels"
        raise QueryError([Problem(message, query.name)])
    if check(query):
        raise QueryError(check(placed(query)))
    return query


def _deep(query: Query) -> Iterable[str]:
    if depth(query.pattern) > MAX_NESTING:
        yield "the pattern"
    conditions = query.where if query.having is None else (*query.where, query.having)
    if any(depth(condition) > MAX_NESTING for condition in conditions):
        yield "a condition"


# ---------------------------------------------------------------- one function per clause


def _listed(value: Any) -> tuple[Any, ...]:
    """One item, or several."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _returns(value: Any) -> tuple[ReturnItem, ...] | Matches:
    if isinstance(value, Matches):
        return value
    if not (items := tuple(map(_item, _listed(value)))):
        raise InputError("give at least one aggregate, such as count()")
    return items


def _item(item: Any) -> ReturnItem:
    match item:
        case ValueExpr(_node=Aggregate() as aggregate, _name=name):
            return ReturnItem(aggregate, name)
        case ValueExpr(_node=Attribute(str()), _name=name):
            return ReturnItem(_key(item), name)
        case str():
            return ReturnItem(_key(item))
        case Matches():
            raise InputError("matches(...) stands alone")
    raise InputError(f"{item!r} is no aggregate, such as count(), and no grouping attribute")


def _key(item: Any) -> GroupKey:
    match item:
        case str() if item:
            return GroupKey(None, item)
        case ValueExpr(_node=Attribute(alias, str(name), False)) if name:
            return GroupKey(alias, name)
    hint = "write its name, or T.district for that of one event"
    raise InputError(f"{item!r} is no grouping attribute; {hint}")


def _where(value: Any) -> tuple[tuple[str, ...], tuple[Expression, ...]]:
    """The equivalence attributes and the conjuncts; `&` separates conjuncts."""
    equivalence: list[str] = []
    conjuncts: list[Expression] = []
    for item in _listed(value):
        match item:
            case Same(attributes):
                equivalence += attributes
            case ConditionExpr(_node=Logic("AND", parts), _is_joint=False):
                conjuncts += parts
            case ConditionExpr(_node=node):
                conjuncts.append(node)
            case _:
                raise InputError(f"{item!r} is no condition, such as T.speed < 10 or same('driver')")
    return tuple(dict.fromkeys(equivalence)), tuple(conjuncts)


def _having(value: Any) -> Expression | None:
    match value:
        case None:
            return None
        case ConditionExpr(_node=node):
            return node
    raise InputError(f"{value!r} is no condition, such as count() > 100")


def _semantics(value: Any) -> Semantics:
    if value not in SEMANTICS:
        raise InputError(f"unknown {value!r}; {nearest(str(value), SEMANTICS) or 'choose any, next or cont'}")
    return SEMANTICS[value]


def _limit(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63):
        raise InputError(f"a positive whole number, not {value!r}")
    return value


Length = tuple[int, WindowUnit]


def read_length(value: Any) -> Length | None:
    """A length of a window: a timedelta, a duration such as `10 min`, or a number of events."""
    match value:
        case None:
            return None
        case timedelta():
            duration = plain("", value)
            size, unit = duration.micros if isinstance(duration, Duration) else 0, WindowUnit.MICROSECONDS
        case str() if counted := re.fullmatch(r"\s*(\d{1,18})\s+events?\s*", value, re.IGNORECASE):
            size, unit = int(counted[1]), WindowUnit.EVENTS
        case str():
            size, unit = read_duration(value, "it"), WindowUnit.MICROSECONDS
        case _:
            raise InputError(f"a timedelta, a duration such as '10 min', or '1000 events', not {value!r}")
    if not 0 < size < 2**63:
        raise InputError(f"must be positive and fit 64 bits, not {value!r}")
    return size, unit


def _window(name: str, within: Length | None, slide: Length | None) -> Window | None:
    match within, slide:
        case None, None:
            return None
        case (int(length), unit), None:
            return Window(length, None, unit)
        case (int(length), unit), (int(step), other) if unit is other:
            return Window(length, step, unit)
        case None, _:
            raise QueryError([Problem("SLIDE needs WITHIN", name, hint="pass within as well")])
    hint = "give both as durations or both in events"
    raise QueryError([Problem("WITHIN and SLIDE have different units", name, hint=hint)])


def _periods(
    name: str, within: Length | None, slide: Length | None, every: Length | None, once: bool
) -> tuple[Window | None, SpanBound]:
    """The periods of EVERY, none with ONCE, and the bound on the span of a trend."""
    word = "EVERY" if every else "ONCE"
    if within is None:
        raise QueryError([Problem(f"{word} needs WITHIN", name, hint="pass within as well")])
    if slide or (every and once):
        message = f"SLIDE cannot be combined with {word}" if slide else "EVERY cannot be combined with ONCE"
        raise QueryError([Problem(message, name, hint="leave one of them out")])
    if any(unit is WindowUnit.EVENTS for _, unit in filter(None, (within, every))):
        raise QueryError([Problem(f"{word} needs durations", name, hint="give a duration, such as '1 h'")])
    period = None if every is None else Window(every[0], every[0], every[1])
    return period, SpanBound(within[0])


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"True or False, not {value!r}")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "pattern": pattern_of,
    "returns": _returns,
    "semantics": _semantics,
    "where": _where,
    "group_by": lambda value: tuple(map(_key, _listed(value))),
    "having": _having,
    "within": read_length,
    "slide": read_length,
    "every": read_length,
    "once": _flag,
    "limit": _limit,
    "includes_empty": bool,
}

_OMITTED: dict[str, Any] = {
    "returns": count(),
    "semantics": "any",
    "where": (),
    "group_by": (),
    "once": False,
    "includes_empty": False,
}
"""What stands for a clause that is left out; for the others it is None."""
