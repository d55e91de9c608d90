"""Workloads of stock queries like those GLORIA's authors generate: sequences, Kleene patterns, and both.

All queries group by the open price level of one company and require a minimum volume. Windows are 5 to 20
minutes long and slide by 5. That company is followed by a run of one common order of tickers, so that queries
overlap; the tickers around it are random.

Source: GLORIA (SIGMOD 2022), Section 8.1.
"""

from __future__ import annotations

from random import Random

from trendfold.api import parse
from trendfold.query.nodes import Query

COMPANY = "CORE"
ORDER = tuple(f"S{i:02}" for i in range(16))
"""The tickers that queries share, in pattern order."""
AROUND = tuple(f"T{i:02}" for i in range(40))
TYPES = (COMPANY, *ORDER, *AROUND)

_RETURNS = ("COUNT(*)", "SUM(CORE.open)", "AVG(CORE.open)")


def sequences(queries: int, seed: int) -> tuple[Query, ...]:
    """SEQ(x, CORE, three tickers in order, y)."""
    random = Random(seed)
    return _parsed(random, [_sequence(random) for _ in range(queries)])


def kleene(queries: int, seed: int, length: int, layers: int = 1) -> tuple[Query, ...]:
    """SEQ(SEQ(CORE, ...)+, x, y): a common Kleene part of `length` types in `layers` layers."""
    random = Random(seed)
    return _parsed(random, [_kleene(random, 0, length, layers) for _ in range(queries)])


def mixed(queries: int, seed: int, share: float = 1 / 7) -> tuple[Query, ...]:
    """Sequences, and a `share` of Kleene patterns with two layers."""
    random = Random(seed)
    many = round(queries * share)
    patterns = [_kleene(random, random.randrange(4), 6, 2) for _ in range(many)]
    patterns += [_sequence(random) for _ in range(queries - many)]
    random.shuffle(patterns)
    return _parsed(random, patterns)


def through_a_hub(queries: int, seed: int) -> tuple[Query, ...]:
    """SEQ(x, CORE, a pair, HUB, y), ten queries per pair: all go through HUB, which leaves few choices."""
    random = Random(seed)
    patterns = []
    for k in range(queries):
        first, last = random.sample(AROUND, 2)
        pair = k // 10 % len(AROUND)
        patterns.append(f"SEQ({first}, {COMPANY}, P{pair:02}, Q{pair:02}, HUB, {last})")
    random.shuffle(patterns)
    return _parsed(random, patterns)


def beside_hamlet(queries: int, seed: int, complex_share: float) -> tuple[Query, ...]:
    """Simple queries SEQ(x+, CORE, y); a `complex_share` of them has five more tickers.

    Simple queries have the same condition on events, complex ones different conditions.
    """
    random = Random(seed)
    texts = []
    for k in range(queries):
        is_complex = k < round(queries * complex_share)
        first, *others = ORDER[k % 4], *random.sample(AROUND, 6 if is_complex else 1)
        least = random.choice((30, 100)) if is_complex else 30
        texts.append(
            f"QUERY g{k} RETURN COUNT(*) PATTERN SEQ({first}+, {COMPANY}, {', '.join(others)}) "
            f"WHERE {first}.vol > {least} WITHIN 5 min SLIDE 5 min"
        )
    return parse("; ".join(texts)).queries


def rare_beginnings(queries: int) -> tuple[Query, ...]:
    """SEQ(CORE, S00, S01, y) with rare CORE: few snapshots, and many lanes."""
    texts = [
        f"QUERY g{k} RETURN COUNT(*) PATTERN SEQ({COMPANY}, {ORDER[0]}, {ORDER[1]}, {AROUND[k % 20]}) "
        f"WITHIN 40 min SLIDE 5 min"
        for k in range(queries)
    ]
    return parse("; ".join(texts)).queries


def _sequence(random: Random) -> str:
    start = random.randrange(len(ORDER) - 3)
    first, last = random.sample(AROUND, 2)
    return f"SEQ({first}, {COMPANY}, {', '.join(ORDER[start : start + 3])}, {last})"


def _kleene(random: Random, start: int, length: int, layers: int) -> str:
    """Layers of Kleene plus around `length` types, starting with the company."""
    inner = list(ORDER[start : start + length - 1])
    pattern = f"SEQ({', '.join([COMPANY, *inner] if layers == 1 else inner)})+"
    for layer in range(1, layers):
        first = COMPANY if layer == layers - 1 else ORDER[-1 - layer]
        pattern = f"SEQ({first}, {pattern})+"
    return f"SEQ({pattern}, {', '.join(random.sample(AROUND, 2))})"


def _parsed(random: Random, patterns: list[str]) -> tuple[Query, ...]:
    texts = [
        f"QUERY g{k} RETURN CORE.open_level, {random.choice(_RETURNS)} PATTERN {pattern} "
        f"WHERE CORE.vol > {random.choice((30, 100))} GROUP BY CORE.open_level "
        f"WITHIN {random.choice((5, 10, 15, 20))} min SLIDE 5 min"
        for k, pattern in enumerate(patterns)
    ]
    return parse("; ".join(texts)).queries
