"""Which parts of a query text have which colour."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from trendfold.errors import Span
from trendfold.query.names import RESERVED
from trendfold.query.split import TOKEN, UNITS_US, unquoted

_FUNCTIONS = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "LOG2", "TIME", "ABS", "MATCHES"})
_CLAUSES = RESERVED | {
    "BY",
    "ANY",
    "AS",
    "DISTINCT",
    "EVENTS",
    "INCLUDE",
    "EMPTY",
    "EVERY",
    "ONCE",
    "TIMESTAMP",
}


def colours(text: str, types: Collection[str]) -> Iterator[tuple[str, Span]]:
    """The parts of a text with a colour, in order, and what they are."""
    for found in TOKEN.finditer(text):
        kind = _kind(str(found.lastgroup), found.group(), types)
        if kind:
            yield kind, Span(*found.span())


def _kind(group: str, word: str, types: Collection[str]) -> str:
    match group:
        case "skip":
            return "comment" if word.startswith("--") else ""
        case "string" | "number":
            return group
        case "quoted":
            return "type" if unquoted(word) in types else ""
        case "word" if word in types:
            return "type"
        case "word" if word in UNITS_US:
            return "number"
        case "word" if word.upper() in _FUNCTIONS:
            return "function"
        case "word" if word.upper() in _CLAUSES:
            return "clause"
    return ""


def decorations(text: str, types: Collection[str], wrong: Collection[Span]) -> list[dict[str, Any]]:
    """The colours, and what is wrong underlined, as marks of the editor."""
    parts = [*colours(text, types), *(("wrong", span) for span in wrong)]
    return [
        {
            "kind": "mark",
            "from": span.start,
            "to": min(max(span.end, span.start + 1), len(text)),
            "class": f"tf-{kind}",
        }
        for kind, span in parts
        if span.start < len(text)
    ]
