"""What could be meant: words of the language, types and columns that begin as what is being typed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trendfold.query.names import RESERVED

_MORE = (
    "SEMANTICS",
    "COUNT(*)",
    "SUM(",
    "AVG(",
    "MIN(",
    "MAX(",
    "MATCHES",
    "GROUP BY",
    "skip-till-next-match",
)
KEYWORDS = tuple(sorted({*RESERVED, *_MORE} - {"GROUPBY", "GROUP_BY", "AGG", "WINDOW"}))
MOST_OFFERED = 8
_AFTER_NUMBER = re.compile(r"\d\s*$")
"""What stands before a unit, as in `5 s`: no type or clause begins there."""
_WORD = re.compile(r"[^\W\d][\w]*$")


def place_typed(before: str, after: str) -> int:
    """Where a text was changed last: the end of what was typed."""
    most = min(len(before), len(after))
    start = next((i for i in range(most) if before[i] != after[i]), most)
    tail = 0
    while tail < most - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return len(after) - tail


def offered(text: str, place: int, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The beginning of the word at a place, and the words that continue it: those of the data first."""
    found = _WORD.search(text[:place])
    if found is None or _AFTER_NUMBER.search(text[: found.start()]):
        return "", ()
    begun = found.group()
    fits = [
        word
        for word in dict.fromkeys((*words, *KEYWORDS))
        if word.lower().startswith(begun.lower()) and word != begun
    ]
    return begun, tuple(fits[:MOST_OFFERED])
