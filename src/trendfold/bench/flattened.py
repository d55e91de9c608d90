"""Flatten Kleene queries into fixed-length sequences, as HAMLET's authors do for SHARON (5.1)."""

from __future__ import annotations

from dataclasses import replace

from trendfold.query.nodes import Both, Either, EventRef, Maybe, Not, Pattern, Plus, Query, Repeat, Seq


def flattened(query: Query, longest: int) -> tuple[Query, ...]:
    """One query per length of E+ up to `longest`; if no match is longer, COUNTs sum to the Kleene query's.

    If several types have a Kleene plus, all get the same length: only those trends are covered.
    """
    return tuple(
        replace(query, name=f"{query.name} of {length}", pattern=_fixed(query.pattern, length))
        for length in range(1, longest + 1)
    )


def _fixed(pattern: Pattern, length: int) -> Pattern:
    match pattern:
        case Plus(EventRef() as body):
            return body if length == 1 else Repeat(body, length, length)
        case Seq(parts) | Either(parts) | Both(parts):
            return replace(pattern, parts=tuple(_fixed(part, length) for part in parts))
        case Plus(body) | Maybe(body) | Not(body) | Repeat(body):
            return replace(pattern, body=_fixed(body, length))
    return pattern
