"""The beginnings of a pattern, and a query cut down to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trendfold.query.names import can_be_empty, named, refs, sides
from trendfold.query.nodes import (
    Aggregate,
    Both,
    Function,
    Matches,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    ReturnItem,
    Seq,
)
from trendfold.query.printer import pattern_text

_COPIES = 8
"""The most beginnings shown of `p{m,n}`."""


def beginnings(pattern: Pattern) -> tuple[Pattern, ...]:
    """The beginnings of a pattern, one event type longer each; the last is the pattern itself.

    Of an outermost AND, those of every operand.

    >>> from trendfold.query import parse, pattern_text
    >>> [query] = parse("RETURN COUNT(*) PATTERN SEQ(A, NOT X, B{2,}, C)")
    >>> [pattern_text(each) for each in beginnings(query.pattern)]
    ['A', 'SEQ(A, NOT X, B)', 'SEQ(A, NOT X, B{2,})', 'SEQ(A, NOT X, B{2,}, C)']
    """
    parts = pattern.parts if isinstance(pattern, Both) else (pattern,)
    found = [each for part in parts for each in _beginnings(part) if not can_be_empty(each)]
    return tuple(dict.fromkeys([*found, pattern]))


def _beginnings(pattern: Pattern) -> Iterator[Pattern]:
    match pattern:
        case Seq(parts):
            for i, part in enumerate(parts):
                before = parts[:i]
                if not isinstance(part, Not):
                    yield from (_sequence(before, each) for each in _beginnings(part))
        case Plus(body) | Maybe(body):
            yield from _beginnings(body)
        case Repeat(body, low) if low > 0:
            yield from _beginnings(body)
            yield from (Repeat(body, k, k) for k in range(2, min(low, _COPIES)))
    yield pattern


def _sequence(before: tuple[Pattern, ...], part: Pattern) -> Pattern:
    after = part.parts if isinstance(part, Seq) else (part,)
    return Seq((*before, *after)) if before else part


def without_nots(pattern: Pattern) -> tuple[tuple[str, Pattern], ...]:
    """The pattern without one of the NOTs in its outermost SEQ each, with the text of that NOT."""
    if not isinstance(pattern, Seq):
        return ()
    found = []
    for i, part in enumerate(pattern.parts):
        if isinstance(part, Not):
            rest = (*pattern.parts[:i], *pattern.parts[i + 1 :])
            found.append((pattern_text(part), rest[0] if len(rest) == 1 else Seq(rest)))
    return tuple(found)


def cut_to(query: Query, pattern: Pattern) -> Query:
    """A query for the trends of a beginning, under all conditions that concern only its events."""
    known = set(sides(pattern))
    where = tuple(each for each in query.where if {name for name, _ in named(each)} <= known)
    keys = tuple(key for key in query.group_by if key.alias is None or key.alias in known)
    is_found = isinstance(query.returns, Matches)
    counted = Matches() if is_found else (ReturnItem(Aggregate(Function.COUNT)),)
    return replace(
        query, returns=counted, pattern=pattern, where=where, group_by=keys, having=None, limit=None
    )


def new_refs(pattern: Pattern, before: Pattern | None) -> tuple[tuple[str, str, bool], ...]:
    """The positions that a beginning adds to the one before: type, name, and whether they are under a NOT."""
    seen = (
        {(str(ref.type), ref.name, is_not) for ref, is_not in refs(before)} if before is not None else set()
    )
    found = [(str(ref.type), ref.name, is_not) for ref, is_not in refs(pattern)]
    return tuple(
        dict.fromkeys(
            (kind, name or kind, is_not) for kind, name, is_not in found if (kind, name, is_not) not in seen
        )
    )
