"""COUNT(DISTINCT ...) and INCLUDE EMPTY, added to the text of a query at random."""

from __future__ import annotations

import random
import re

import trendfold
from trendfold.query.partitions import partition_attributes


def with_more_clauses(text: str, rng: random.Random, attribute: str = "k") -> str:
    """The query with INCLUDE EMPTY, COUNT(DISTINCT ...) or both, and perhaps WHERE [attribute]."""
    if not re.search(r"\bWHERE\b", text) and rng.random() < 0.7:
        text += f"\nWHERE [{attribute}]"
    (query,) = trendfold.parse(text)
    keys = (*partition_attributes(query), *(key.attribute for key in query.group_by if key.alias is None))
    known = sorted(set(keys))
    includes = rng.random() < 0.7
    if known and (not includes or rng.random() < 0.6):
        counted = [
            f"COUNT(DISTINCT {', '.join(rng.sample(known, rng.randint(1, len(known))))})"
            for _ in range(rng.choice([1, 1, 2]))
        ]
        if rng.random() < 0.2:
            sign, bound = rng.choice([">", ">=", "<", "!="]), rng.randint(0, 3)
            text = _having(text, f"{rng.choice(counted)} {sign} {bound}")
        items = ", ".join(f"{each} AS d{i}" for i, each in enumerate(counted))
        text = re.sub(r"\bRETURN ", f"RETURN {items}, ", text, count=1)
    if includes:
        text += "\nINCLUDE EMPTY"
    return text


def _having(text: str, condition: str) -> str:
    found = re.search(r"\bHAVING ", text)
    return f"{text}\nHAVING {condition}" if found is None else text
