"""Random small cases for property tests: a query, events and an order column.

    random_case(rng, **features)   one case from a random.Random: fast, and valid by the language page
    cases(**features)              the same as a hypothesis strategy
    reduced(case, fails)           a smaller case that still fails, for a readable report

Features, all off by default, so that plain COUNT(*) cases are drawn:
    aggregates   COUNT(E), SUM, MIN, MAX, AVG, LOG2
    having       HAVING
    cross        predicates between two aliases, also equalities that make a partition
    both         an outermost AND
    rejects      rows with a null type, time or order
    matches      RETURN MATCHES (WITHIN without SLIDE, no aggregates)
    neighbours   several comparisons between neighbours, most of them on the same pair of names
    sets         positions of several types (ANY), aliases over different types, conditions on the type
    nots         several NOTs side by side
    spans        WITHIN w EVERY s or WITHIN w ONCE (without AND)
    beside       conditions between a NOT's event and an event next to it
    times        TIME, durations and TIMESTAMP in conditions: gaps between neighbours, and cross with `cross`

Every event has all of ``COLUMNS`` (``seq`` only with an order column); the number of trends of a
case is bounded (``TRENDS``) whatever its predicates do, by leaving out events.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any, NamedTuple

from hypothesis import strategies as st

from trendfold.testing import oracle

COLUMNS = {
    "type": "string",
    "ts": "int64",
    "k": "int64",
    "g": "string",
    "v": "int64",
    "w": "float64",
    "s": "string",
    "seq": "int64",
}
TRENDS = 2500  # of one operand of the pattern, or of one NOT
COMBINATIONS = 20_000  # of all operands of an AND
POSITIONS = 6
SIGNS = ["=", "!=", "<>", "<", "<=", ">", ">="]


class Case(NamedTuple):
    query: str
    events: list[dict]
    order_column: str | None


def cases(**features: bool) -> st.SearchStrategy[Case]:
    """Random cases as a strategy: one seed drives the generator."""
    return st.integers(0, 2**40).map(lambda seed: random_case(random.Random(seed), **features))


def random_case(
    rng: random.Random,
    *,
    aggregates: bool = False,
    having: bool = False,
    cross: bool = False,
    both: bool = False,
    rejects: bool = False,
    matches: bool = False,
    neighbours: bool = False,
    sets: bool = False,
    times: bool = False,
    nots: bool = False,
    spans: bool = False,
    beside: bool = False,
    durations: bool = False,
) -> Case:
    """One valid case."""
    for _ in range(30 if beside else 1):
        pattern = _pattern(rng, both and not spans and rng.random() < 0.5, cross, sets, nots)
        conditions = _beside(rng, f"RETURN COUNT(*) PATTERN {pattern.text}") if beside else []
        if conditions:
            break
    lines = [f"PATTERN {pattern.text}"]
    semantics = rng.choice(
        ["", "any", "skip-till-any-match", "next", "skip-till-next-match", "cont", "contiguous"]
    )
    if semantics:
        lines.append(f"SEMANTICS {semantics}")
    where = _where(rng, pattern, cross)
    if sets and pattern.positive and rng.random() < 0.3:
        where = [f"({one})" if _has_open_or(one) else one for one in where]
        where.append(_of_type(rng, rng.choice(pattern.positive)))
    if times and pattern.positive:
        where = [f"({one})" if _has_open_or(one) else one for one in where]
        where += _time_conditions(rng, pattern, cross)
    if neighbours:
        where = [f"({one})" if _has_open_or(one) else one for one in where] + _comparisons(rng, pattern)
    if beside:
        where = [f"({one})" if _has_open_or(one) else one for one in where]
        where += conditions
    if where:
        lines.append("WHERE " + " AND ".join(where))
    keys = _group_by(rng, pattern)
    if keys:
        lines.append(rng.choice(["GROUP BY ", "GROUP BY ", "GROUP-BY "]) + ", ".join(keys))
    if matches:
        counted = rng.random() < 0.2
        if rng.random() < 0.7:
            unit = "events" if counted else "s"
            lines.append(f"WITHIN {rng.randint(1, 12)} {unit}")
        attributes = rng.sample(["k", "g", "v", "w", "s"], rng.randint(0, 2))
        returned = "MATCHES" + (f"({', '.join(attributes)})" if attributes else "")
    else:
        window, counted = (_span(rng), False) if spans else _window(rng)
        if window:
            lines.append(window)
        items = _aggregates(rng, pattern) if aggregates else ["COUNT(*)"]
        if durations and "AND(" not in pattern.text and "&" not in pattern.text:
            items += [of_trends(rng) for _ in range(rng.randint(1, 4))]
        named = [item + (f" AS r{i}" if rng.random() < 0.8 else "") for i, item in enumerate(items)]
        if len({*items}) < len(items):  # equal default names would be an error
            named = [f"{item} AS r{i}" for i, item in enumerate(items)]
        returned = ", ".join(keys + named)
        if having and rng.random() < 0.4:
            lines.append("HAVING " + _having(rng, pattern, keys, named))
            if durations and items[-1].endswith(("(DURATION)", "(LENGTH)")):
                judged = items[-1] if rng.random() < 0.5 else of_trends(rng)
                lines[-1] = f"HAVING {judged} >= {rng.choice([1, 2, 3.5, 6])}"
    if rng.random() < 0.3:
        rng.shuffle(lines)  # clauses stand in any order
    head = rng.choice(["QUERY q\n", "QUERY q\n", "q:\n", ""])
    text = head + "\n".join([f"RETURN {returned}", *lines])
    meaning = oracle.Meaning(text)
    events, order_column = _events(rng, meaning, counted, rejects and rng.random() < 0.5)
    return Case(text, _bounded(rng, meaning, events, order_column), order_column)


def reduced(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Drop events and clauses one at a time for as long as the case still fails."""
    shrinking = True
    while shrinking:
        shrinking = False
        events = case.events
        smaller = [case._replace(events=events[:i] + events[i + 1 :]) for i in range(len(events))]
        lines = case.query.split("\n")
        for i, line in enumerate(lines):
            if line.startswith("WHERE ") and " AND " in line and "BETWEEN" not in line and "(" not in line:
                parts = line[6:].split(" AND ")
                for j in range(len(parts)):
                    rest = "WHERE " + " AND ".join(parts[:j] + parts[j + 1 :])
                    smaller.append(case._replace(query="\n".join([*lines[:i], rest, *lines[i + 1 :]])))
            if line.startswith(("WHERE ", "HAVING ", "WITHIN ", "SEMANTICS ")):
                smaller.append(case._replace(query="\n".join(lines[:i] + lines[i + 1 :])))
        for candidate in smaller:
            try:
                oracle.Meaning(candidate.query)
                failing = fails(candidate)
            except ValueError:
                continue
            if failing:
                case, shrinking = candidate, True
                break
    return case


# ---- Patterns ------------------------------------------------------------------------------------


class _Part(NamedTuple):
    text: str
    empty: bool  # can be empty
    size: int  # positions when written out
    always: frozenset  # names in every trend
    single: bool = True  # no operator outside parentheses


class _Pattern(NamedTuple):
    text: str
    always: frozenset
    operands: list  # of an AND: the leaves of each; else one
    negatives: list  # the leaves of each NOT

    @property
    def positive(self) -> list[str]:
        leaves = [leaf for operand in self.operands for leaf in operand]
        negated = {kind for some in self.negatives for kind, _ in some}
        found = []
        for kind, alias in leaves:
            for name in (alias, kind if kind not in negated else None):
                if name and name not in found:
                    found.append(name)
        return found


class _Maker:
    """Draws one operand of a pattern."""

    def __init__(
        self,
        rng: random.Random,
        types: list[str],
        others: list[str],
        aliases: str,
        prefix: str,
        sets: list[str],
        nots: bool,
    ):
        self.rng, self.types, self.others, self.aliases, self.prefix = rng, types, others, aliases, prefix
        self.nots = nots
        self.sets = sets  # what a position of several types is drawn from; none if it is empty
        self.leaves: list[tuple] = []
        self.negatives: list[list[tuple]] = []

    def leaf(self) -> _Part:
        kind, written = self.typed(self.types)
        alias = None
        if self.aliases == "all" or (self.aliases == "mixed" and self.rng.random() < 0.5):
            used = [name for known, name in self.leaves if name and (known == kind or self.sets)]
            if used and self.rng.random() < 0.25:
                alias = self.rng.choice(used)  # one alias on several positions
            else:
                alias = f"{self.prefix}{(kind or 'y').lower()}{len(self.leaves) + 1}"
        self.leaves.append((kind, alias))
        return _Part(f"{written} {alias}" if alias else written, False, 1, frozenset({kind, alias} - {None}))

    def typed(self, types: list[str]) -> tuple[str | None, str]:
        """A type as name and text; a set of types has no name."""
        if not self.sets or self.rng.random() < 0.5:
            kind = self.rng.choice(types)
            return kind, kind
        if self.rng.random() < 0.4 and not self.prefix:  # beside an operand of AND there is no ANY
            return None, "ANY"
        return None, f"ANY({', '.join(self.rng.choices(self.sets, k=self.rng.choice([1, 2, 2, 3])))})"

    def part(self, depth: int, may_be_empty: bool = True) -> _Part:
        if depth == 0 or self.rng.random() < 0.5:
            made = self.leaf()
        elif self.rng.random() < 0.7:
            made = self.sequence(depth - 1)
        else:
            made = self.alternative(depth - 1)
        if self.rng.random() < (0.6 if depth else 0.5):
            made = self.repeated(made, may_be_empty)
            if self.rng.random() < 0.06:
                made = self.repeated(made, may_be_empty)
        return made

    def repeated(self, made: _Part, may_be_empty: bool) -> _Part:
        low = self.rng.choice([1, 1, 2, 2, 3])
        high = low + self.rng.choice([0, 1, 1, 2])
        text = made.text if made.single else f"({made.text})"
        forms = [("+", made.empty, 1)] * 6 + [
            (f"{{{low}}}", made.empty, low),
            (f"{{{low},}}", made.empty, low),
            (f"{{{low},{high}}}", made.empty, high),
        ]
        if may_be_empty:
            forms += [("*", True, 1)] * 2 + [("?", True, 1)] * 2
            forms += [("{0,}", True, 1), (f"{{0,{high}}}", True, high)]
        suffix, empty, times = self.rng.choice(forms)
        always = frozenset() if suffix in "*?" or suffix.startswith("{0") else made.always
        return _Part(text + suffix, empty, made.size * times, always)

    def sequence(self, depth: int, outermost: bool = False) -> _Part:
        parts = [self.part(depth) for _ in range(self.rng.choice([2, 2, 3]))]
        texts = [parts[0].text]
        for left, right in pairwise(parts):
            if not left.empty and not right.empty and self.rng.random() < (0.4 if self.nots else 0.15):
                texts += self.negated()
            texts.append(right.text)
        if outermost:
            if not parts[0].empty and self.rng.random() < 0.2:
                texts = self.negated() + texts
            if not parts[-1].empty and self.rng.random() < 0.2:
                texts += self.negated()
        return _Part(
            f"SEQ({', '.join(texts)})",
            all(part.empty for part in parts),
            sum(part.size for part in parts),
            frozenset().union(*[part.always for part in parts]),
        )

    def alternative(self, depth: int) -> _Part:
        parts = [self.part(depth) for _ in range(self.rng.choice([2, 2, 2, 3]))]
        always = frozenset.intersection(*[part.always for part in parts])
        empty, size = any(part.empty for part in parts), sum(part.size for part in parts)
        if self.rng.random() < 0.7:
            return _Part(f"OR({', '.join(part.text for part in parts)})", empty, size, always)
        texts = [part.text if part.single else f"({part.text})" for part in parts]
        return _Part(" | ".join(texts), empty, size, always, single=False)

    def negated(self) -> list[str]:
        return [self.negative() for _ in range(self.rng.choice([1, 2, 2, 3]) if self.nots else 1)]

    def negative(self) -> str:
        """NOT N: a type, or a pattern of SEQ, + and OR over types."""
        pool = self.others + self.types
        leaves: list[tuple] = []
        aliased = self.aliases == "all" or self.rng.random() < 0.4

        def one(repeat: float = 0.3) -> str:
            kind, written = self.typed(pool)
            label = (kind or "y").lower()
            alias = f"{self.prefix}n{len(self.negatives)}{label}{len(leaves)}" if aliased else None
            leaves.append((kind, alias))
            return (f"{written} {alias}" if alias else written) + ("+" if self.rng.random() < repeat else "")

        def inner(deep: bool) -> str:
            if not deep or self.rng.random() < 0.5:
                return one()
            operator = self.rng.choice(["SEQ", "OR"])
            return f"{operator}({one()}, {one()})" + ("+" if self.rng.random() < 0.2 else "")

        draw = self.rng.random()
        if draw < 0.5:
            text = one(repeat=0.15)
        elif draw < 0.8:
            text = f"SEQ({inner(True)}, {inner(True)})" + ("+" if self.rng.random() < 0.1 else "")
        elif draw < 0.93:
            text = f"OR({inner(True)}, {inner(False)})"
        else:
            text = f"({one()} | {one()})"
        self.negatives.append(leaves)
        return self.rng.choice(["NOT ", "NOT ", "!"]) + text


def _pattern(rng: random.Random, both: bool, cross: bool, sets: bool = False, nots: bool = False) -> _Pattern:
    while True:
        # For cross predicates names must not overlap, so either all positions have an alias or none.
        aliases = rng.choice(["none", "all"] if cross else ["none", "none", "all", "mixed"])
        letters = rng.sample("ABCD", 4)
        if both:
            shares = [letters[:2], letters[2:]] if rng.random() < 0.85 else [[a] for a in letters[:3]]
            strangers = [["N"], ["M"], []]
        else:
            shares, strangers = [letters[: rng.choice([1, 2, 3, 3, 4])]], [["N", "M"]]
        parts, makers = [], []
        for number, types in enumerate(shares):
            several = [*types, *strangers[number]] if sets else []
            maker = _Maker(
                rng, types, strangers[number], aliases, f"o{number}" if both else "", several, nots
            )
            depth = rng.choice([0, 1, 1, 2, 2, 2] if not both else [0, 1, 1])
            if depth and rng.random() < 0.65:
                part = maker.sequence(depth - 1, outermost=True)
            else:
                part = maker.part(depth, may_be_empty=False)
            parts.append(part)
            makers.append(maker)
        limit = POSITIONS // 2 + 1 if both else POSITIONS
        if any(part.empty or part.size > limit for part in parts):
            continue
        if not both:
            text = parts[0].text
        elif rng.random() < 0.7:
            text = f"AND({', '.join(part.text for part in parts)})"
        else:
            text = " & ".join(part.text if part.single else f"({part.text})" for part in parts)
        return _Pattern(
            text,
            frozenset().union(*[part.always for part in parts]),
            [maker.leaves for maker in makers],
            [leaves for maker in makers for leaves in maker.negatives],
        )


# ---- Predicates ----------------------------------------------------------------------------------


def _where(rng: random.Random, pattern: _Pattern, cross: bool) -> list[str]:
    found = []
    if rng.random() < 0.3:
        found.append(rng.choice(["[k]", "[k]", "[k]", "[g]", "[k, g]"]))
    positive = pattern.positive
    sides = [names for leaves in pattern.negatives if (names := _negative_names(pattern, leaves))]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        if positive:
            found.append(_local(rng, rng.choice(positive)))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        names = [name for name in _operand_names(pattern, rng) if name in positive]
        if names:
            found.append(_adjacency(rng, *_neighbours(rng, names)))
    for names in sides:
        if rng.random() < 0.4:
            found.append(_local(rng, rng.choice(names)))
        if rng.random() < 0.4:
            found.append(_adjacency(rng, *_neighbours(rng, names)))
        if cross and len(names) > 1 and rng.random() < 0.3:
            found.append(_cross(rng, *rng.sample(names, 2)))
    if cross:
        labels = [label for label in _labels(rng.choice(pattern.operands)) if label in positive]
        if len(labels) > 1:
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                found.append(_cross(rng, *rng.sample(labels, 2)))
            everything = sorted({label for operand in pattern.operands for label in _labels(operand)})
            if len(pattern.operands) == 1 and set(labels) == set(everything) and rng.random() < 0.3:
                found.extend(_connecting(rng, labels))
    rng.shuffle(found)
    if len(found) > 1:
        found = [f"({one})" if _has_open_or(one) else one for one in found]
    return found


def _has_open_or(conjunct: str) -> bool:
    return " OR " in conjunct and not (conjunct.startswith("(") or conjunct.startswith("NOT ("))


def _labels(leaves: list[tuple]) -> list[str]:
    return list(dict.fromkeys(alias or kind or "" for kind, alias in leaves))  # a set may have no name


def _operand_names(pattern: _Pattern, rng: random.Random) -> list[str]:
    leaves = rng.choice(pattern.operands)
    names = [alias or kind for kind, alias in leaves] + [kind for kind, _ in leaves]
    return list(dict.fromkeys(name for name in names if name))


def _negative_names(pattern: _Pattern, leaves: list[tuple]) -> list[str]:
    """Names of one NOT that mean no position outside it."""
    others = [some for some in [*pattern.operands, *pattern.negatives] if some is not leaves]
    outside = {kind for some in others for kind, _ in some}
    found = []
    for kind, alias in leaves:
        name = alias or (kind if kind not in outside else None)
        if name and name not in found:
            found.append(name)
    return found


def _neighbours(rng: random.Random, names: list[str]) -> tuple[str, str]:
    """Two names, mostly ones that stand beside each other or loop."""
    draw = rng.random()
    first = rng.randrange(len(names))
    if draw < 0.4:
        return names[first], names[first]
    if draw < 0.8:
        return names[first], names[(first + 1) % len(names)]
    return rng.choice(names), rng.choice(names)


def _local(rng: random.Random, a: str) -> str:
    c, sign, x = rng.randint(0, 5), rng.choice(SIGNS), rng.choice("vwk")
    return rng.choice(
        [
            f"{a}.v {sign} {c}",
            f"{a}.v {sign} {c}",
            f"{a}.v >= 1",
            f"{a}.v != {c}",
            f"{c} {sign} {a}.v",
            f"{a}.w {sign} {c / 2}",
            f"{a}.w <= {c}",
            f"{a}.k = {rng.randint(1, 2)}",
            f"{a}.{x} {sign} {a}.{rng.choice('vwk')}",
            f"{a}.v IN ({c}, {c + 1}, {rng.randint(0, 5)})",
            f"{a}.v NOT IN ({c}, {rng.randint(0, 5)})",
            f"{a}.v NOT IN ({c}, NULL)",
            f"{a}.g IN ('x', 'y')",
            f"{a}.v BETWEEN {c - 2} AND {c + 2}",
            f"{a}.w BETWEEN 0.5 AND {c}",
            f"{a}.v NOT BETWEEN {c} AND {c + 1}",
            f"{a}.{x} IS NOT NULL",
            f"{a}.{rng.choice('vwkgs')} IS NULL",
            f"({a}.v > {c} OR {a}.w < 1.2)",
            f"{a}.v > {c} OR {a}.w < 1.2 OR {a}.k IS NULL",
            f"({a}.v > 0 AND {a}.w < 2.5)",
            f"NOT {a}.v = {c}",
            f"NOT ({a}.v < {c} AND {a}.w < 1.5)",
            f"{a}.v + {a}.w > {c}",
            f"2 * {a}.v - {a}.w <= {c + 3}",
            f"{a}.v % 2 = {rng.randint(0, 1)}",
            f"{a}.v % {rng.choice(['3', '-2', '0', '1.5'])} != 1",
            f"({a}.v - 3) % 2 = {rng.choice(['-1', '0', '1'])}",
            f"{a}.v % {a}.k = 0",
            f"{a}.v / {a}.k >= 1",
            f"{a}.v / 2 > {c / 2}",
            f"{a}.w / {rng.choice(['0', '2', '0.5'])} < 4",
            f"{a}.v / 0 IS NULL",
            f"ABS({a}.v - 3) <= {rng.randint(0, 3)}",
            f"-{a}.v < -{rng.randint(0, 4)}",
            f"{a}.s LIKE '{rng.choice(['x%', '%y', '_', 'x_%', '%', '', 'x', '%é%'])}'",
            f"{a}.s LIKE '{rng.choice(['a' + chr(92) + '_%', '%' + chr(92) + '%', '_' + chr(92) + '__'])}'",
            f"{a}.s NOT LIKE '%x%'",
            f"{a}.g LIKE 'x%'",
            f"{a}.g = '{rng.choice('xyz')}'",
            f"{a}.s {sign} 'x'",
            f"{a}.s = {a}.g",
            f"{a}.v * {a}.v >= {c}",
        ]
    )


def _of_type(rng: random.Random, a: str) -> str:
    return rng.choice(
        [
            f"{a}.type = '{rng.choice('ABC')}'",
            f"{a}.type != '{rng.choice('ABC')}'",
            f"{a}.type LIKE '{rng.choice(['A%', '_', '%B'])}'",
            f"{a}.type IN ('A', 'D', 'X')",
            f"{a}.type < NEXT({a}).type",
            f"{a}.type != NEXT({a}).type",
        ]
    )


def _time_conditions(rng: random.Random, pattern: _Pattern, cross: bool) -> list[str]:
    found = []
    for _ in range(rng.choice([1, 1, 2])):
        names = [name for name in _operand_names(pattern, rng) if name in pattern.positive]
        if not names:
            continue
        found.append(_gap(rng, *_neighbours(rng, names)) if rng.random() < 0.7 else _clock(rng, names[0]))
        labels = [label for label in _labels(rng.choice(pattern.operands)) if label in pattern.positive]
        if cross and len(labels) > 1 and rng.random() < 0.5:
            a, b = rng.sample(labels, 2)
            found.append(f"TIME({a}) - TIME({b}) {rng.choice(SIGNS)} {rng.randint(-3, 5)} s")
    return found


def _gap(rng: random.Random, a: str, b: str) -> str:
    """A bound on the time between neighbours, in one of the ways to write it."""
    sign, c = rng.choice(SIGNS), rng.randint(0, 4)
    return rng.choice(
        [
            f"TIME(NEXT({b})) - TIME({a}) <= {c} s",
            f"TIME(NEXT({b})) - TIME({a}) {sign} {c * 1000} ms",
            f"{c} s {sign} TIME(NEXT({b})) - TIME({a})",
            f"TIME({a}) - TIME(NEXT({b})) {sign} -{c} s",
            f"TIME(NEXT({b})) {sign} TIME({a}) + {c} s",
            f"TIME(NEXT({b})) - {c} s {sign} TIME({a})",
            f"TIME(NEXT({b})) - TIME({a}) BETWEEN 1 s AND {c} s",
            f"TIME(NEXT({b})) - TIME({a}) {sign} {a}.v * 1 s",
            f"TIME(NEXT({b})) - TIME({a}) {sign} 500 ms * NEXT({b}).v + {a}.w * 1 s",
            f"ABS(TIME({a}) - TIME(NEXT({b}))) {sign} {c} s",
            f"(TIME(NEXT({b})) - TIME({a})) * 2 {sign} {c} s + 0.5 s",
            f"(TIME(NEXT({b})) - TIME({a}) <= {c} s OR {a}.v < NEXT({b}).v)",
            f"TIME(NEXT({b})) - TIME({a}) IN (1 s, {c} s, NULL)",
            f"NOT TIME(NEXT({b})) - TIME({a}) > {c} s",
            f"(TIME(NEXT({b})) - TIME({a}) <= {c} s AND {a}.v < NEXT({b}).v)",
        ]
    )


def _clock(rng: random.Random, a: str) -> str:
    """A condition on the time of one event."""
    sign, c = rng.choice(SIGNS), rng.randint(0, 20)
    return rng.choice(
        [
            f"TIME({a}) {sign} TIMESTAMP '1970-01-01 00:00:{c:02}'",
            f"TIMESTAMP '1970-01-01T00:00:{c:02}Z' - TIME({a}) {sign} 0.0001 week",
            f"TIME({a}) - {a}.v * 2 s {sign} TIMESTAMP '1970-01-01 01:00:{c:02}+01:00'",
            f"TIME({a}) BETWEEN TIMESTAMP '1970-01-01 00:00:03' AND TIMESTAMP '1970-01-01 00:00:{c:02}'",
            f"TIME({a}) IS NOT NULL",
            f"{a}.ts {sign} {c}",
        ]
    )


def _adjacency(rng: random.Random, a: str, b: str) -> str:
    sign, c = rng.choice(SIGNS), rng.randint(-2, 2)
    x, y = rng.choice("vvvvwwk"), rng.choice("vvvwwk")
    if rng.random() < 0.5:
        y = x
    plus = f" {'+' if c >= 0 else '-'} {abs(c)}"
    return rng.choice(
        [
            f"{a}.{x} {sign} NEXT({b}).{y}",
            f"{a}.{x} {sign} NEXT({b}).{y}",
            f"{a}.{x}{plus} {sign} NEXT({b}).{y}",
            f"{a}.{x} {sign} NEXT({b}).{y}{plus}",
            f"NEXT({b}).{y} {sign} {a}.{x}{plus}",
            f"NEXT({b}).{y}{plus} {sign} {a}.{x}",
            f"{a}.{rng.choice('gs')} {sign} NEXT({b}).{rng.choice('gs')}",
            # not separable into a side of A and a side of B
            f"{a}.v + NEXT({b}).v {rng.choice(['>', '<=', '!='])} {rng.randint(1, 6)}",
            f"{a}.v < NEXT({b}).v OR {a}.w = NEXT({b}).w",
            f"({a}.v <= NEXT({b}).v OR {a}.k = NEXT({b}).k)",
            f"{a}.v * NEXT({b}).v % 2 = 0",
            f"{a}.v - NEXT({b}).v {sign} {c}",
            f"ABS({a}.v - NEXT({b}).v) <= {rng.randint(0, 3)}",
            f"NEXT({b}).v BETWEEN {a}.v - 1 AND {a}.v + 2",
            f"{a}.v IN (NEXT({b}).v, NEXT({b}).k, 3)",
            f"NOT {a}.{x} = NEXT({b}).{y}",
            f"({a}.v IS NULL OR NEXT({b}).v IS NOT NULL)",
            f"({a}.v > 1 AND NEXT({b}).v < 5)",
            f"{a}.v / NEXT({b}).v <= 2",
            f"{a}.w * 2 {sign} NEXT({b}).v % 3",
        ]
    )


def _comparisons(rng: random.Random, pattern: _Pattern) -> list[str]:
    """One to three comparisons on a pair of names, and sometimes others on another pair."""
    found = []
    for _ in range(rng.choice([1, 1, 2])):
        names = [name for name in _operand_names(pattern, rng) if name in pattern.positive]
        if names:
            a, b = _neighbours(rng, names)
            found += [_comparison(rng, a, b) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
    return found


def _comparison(rng: random.Random, a: str, b: str) -> str:
    """A value of one event beside a value of the next, or something that amounts to such comparisons."""
    sign, c = rng.choice(SIGNS), rng.randint(0, 2)
    x, y = rng.choice("vvwk"), rng.choice("vvwk")
    return rng.choice(
        [
            f"{a}.{x} {sign} NEXT({b}).{x}",
            f"{a}.{x} {sign} NEXT({b}).{y}",
            f"{a}.{x} + {c} {sign} NEXT({b}).{y}",
            f"NEXT({b}).{y} {sign} {a}.{x} - {c}",
            f"{a}.s {sign} NEXT({b}).{rng.choice('gs')}",
            f"{a}.k = NEXT({b}).k",
            f"{a}.ts + {c} {sign} NEXT({b}).ts",
            f"NEXT({b}).{y} BETWEEN {a}.{x} - {c} AND {a}.{x} + 1",
            f"{a}.{x} BETWEEN NEXT({b}).{y} - {c} AND NEXT({b}).{x}",
            f"NOT {a}.{x} {sign} NEXT({b}).{y}",
            f"({a}.{x} {sign} NEXT({b}).{x} AND {a}.v > 1 AND NEXT({b}).w < 2.5)",
            f"{a}.v - NEXT({b}).v {sign} {c}",
        ]
    )


def _cross(rng: random.Random, a: str, b: str) -> str:
    sign, x, y = rng.choice(SIGNS), rng.choice("vvwk"), rng.choice("vvwk")
    return rng.choice(
        [
            f"{a}.{x} {sign} {b}.{y}",
            f"{a}.{x} {sign} {b}.{x}",
            f"{a}.{x} != {b}.{x}",
            f"{a}.{x} = {b}.{x}",
            f"{a}.k = {b}.k",
            f"{a}.g = {b}.g",
            f"{a}.v + {b}.v > {rng.randint(1, 6)}",
            f"({a}.v < {b}.v OR {a}.w <= {b}.w)",
            f"{a}.v {sign} {b}.v + 1",
            f"({a}.v IS NULL OR {b}.v IS NULL OR {a}.v != {b}.v)",
        ]
    )


def _beside(rng: random.Random, text: str) -> list[str]:
    """Conditions between the event of a NOT of one type and an event that can be next to it."""
    meaning = oracle.Meaning(text)
    found: list[tuple[str, str]] = []
    for automaton in meaning.operands:
        places = [(pair, some) for pair, some in automaton.crossing.items()]
        places += [(tuple(automaton.first), automaton.at_start), (tuple(automaton.last), automaton.at_end)]
        for beside, nots in places:
            for own in (one.own for one in nots if len(one.own) == 1):
                for n, a in product(_names_of(meaning, own), _names_of(meaning, beside)):
                    if _is_one_sided(meaning, n, negated=True) and _is_one_sided(meaning, a, negated=False):
                        found.append((n, a))
    single = {n for n, _ in found if all(_stands_alone(meaning, p) for p in meaning.at(n))}
    found = sorted({pair for pair in found if pair[0] in single})
    chosen = rng.sample(found, min(len(found), rng.choice([1, 1, 2, 3])))
    conditions = [_cross(rng, *pair) if rng.random() < 0.8 else _distance(rng, *pair) for pair in chosen]
    return [f"({one})" if _has_open_or(one) else one for one in conditions]


def _names_of(meaning: oracle.Meaning, places: Any) -> list[str]:
    found = [{meaning.positions[p].name, meaning.positions[p].alias} - {None} for p in places]
    return sorted(name for names in found for name in names if name in meaning.by_name)


def _is_one_sided(meaning: oracle.Meaning, name: str, *, negated: bool) -> bool:
    return all(meaning.positions[p].negated == negated for p in meaning.at(name))


def _stands_alone(meaning: oracle.Meaning, position: int) -> bool:
    """Whether a negated position is all of its NOT."""
    every = [n for automaton in meaning.operands for n in automaton.negatives()]
    return any(len(n.own) == 1 and position in n.own and not any(n.follow.values()) for n in every)


def _distance(rng: random.Random, n: str, a: str) -> str:
    return f"ABS(TIME({n}) - TIME({a})) {rng.choice(SIGNS)} {rng.randint(0, 3)} s"


def _connecting(rng: random.Random, labels: list[str]) -> list[str]:
    """Equalities on one attribute that connect all positive aliases: a partition."""
    u = rng.choice("kkgv")
    names = rng.sample(labels, len(labels))
    if rng.random() < 0.5:
        return [" = ".join(f"{name}.{u}" for name in names)]
    return [f"{name}.{u} = {names[rng.randrange(i)]}.{u}" for i, name in enumerate(names) if i]


# ---- Groups, windows, aggregates -----------------------------------------------------------------


def _group_by(rng: random.Random, pattern: _Pattern) -> list[str]:
    always = [name for name in pattern.positive if name in pattern.always]
    draw = rng.random()
    if draw < 0.45:
        return []
    if draw < 0.6 or not always:
        return rng.choice([["g"], ["g"], ["k"], ["g", "k"], ["w"]])
    one, other = rng.choice(always), rng.choice(always)
    if draw < 0.85:
        return [f"{one}.{rng.choice('gggkv')}"]
    return rng.choice(
        [
            [f"{one}.g", f"{one}.k"],
            [f"{one}.g", f"{other}.{'g' if other != one else 'k'}"],
            [f"{one}.k", f"{other}.g"],
            ["g", f"{one}.k"],
            [f"{one}.g", "g"],
            ["k", f"{one}.g", f"{other}.v"],
        ]
    )


def _window(rng: random.Random) -> tuple[str, bool]:
    """The clause and whether it counts events."""
    draw = rng.random()
    if draw < 0.2:
        return "", False
    if draw < 0.4:
        return f"{rng.choice(['WITHIN', 'WITHIN', 'WINDOW'])} {rng.randint(1, 15)} s", False
    if draw < 0.55:
        return f"WITHIN {rng.randint(1, 12)} events SLIDE {rng.randint(1, 6)} events", True
    if draw < 0.6:
        return f"WITHIN {rng.choice(['1 min', '60 seconds'])} SLIDE {rng.choice(['30 s', '1 minute'])}", False
    size = rng.randint(2, 18)
    slide = rng.choice([size, rng.randint(1, size), rng.randint(1, size), size + rng.randint(1, 4)])
    unit, factor = rng.choice([("s", 1), ("s", 1), ("sec", 1), ("ms", 1000)])
    return f"WITHIN {size * factor} {unit} SLIDE {slide} s", False


def _span(rng: random.Random) -> str:
    """A bound on the span of each trend."""
    by = rng.choice(["ONCE", f"EVERY {rng.randint(1, 15)} s", f"every {rng.randint(1, 4)} s"])
    return f"WITHIN {rng.randint(1, 15)} s {by}"


def _aggregate(rng: random.Random, names: list[str]) -> str:
    if not names or rng.random() < 0.15:
        return rng.choice(["COUNT(*)", "LOG2(COUNT(*))"])
    name = rng.choice(names)
    if rng.random() < 0.25:
        return rng.choice([f"COUNT({name})", f"COUNT({name})", f"LOG2(COUNT({name}))"])
    attr = rng.choice(["v", "v", "v", "w", "w", "k", "ts"])
    function = rng.choice(["MIN", "MAX"] if attr == "ts" else ["SUM", "MIN", "MAX", "AVG"])
    return f"{function}({name}.{attr})"


def of_trends(rng: random.Random) -> str:
    """An aggregate of whole trends."""
    return f"{rng.choice(['SUM', 'AVG', 'MIN', 'MAX'])}({rng.choice(['DURATION', 'LENGTH'])})"


def _aggregates(rng: random.Random, pattern: _Pattern) -> list[str]:
    found = [_aggregate(rng, pattern.positive) for _ in range(rng.randint(1, 4))]
    return ["COUNT(*)", *found] if rng.random() < 0.8 else found


def _having(rng: random.Random, pattern: _Pattern, keys: list[str], returned: list[str]) -> str:
    aggregate = _aggregate(rng, pattern.positive)
    while ".ts)" in aggregate:  # a time compares with no number
        aggregate = _aggregate(rng, pattern.positive)
    choices = [
        f"COUNT(*) >= {rng.randint(1, 6)}",
        f"COUNT(*) {rng.choice(SIGNS)} {rng.randint(1, 4)}",
        "COUNT(*) % 2 = 1",
        f"COUNT(*) BETWEEN 2 AND {rng.randint(2, 20)}",
        f"{aggregate} {rng.choice(['>', '<=', '!='])} {rng.choice(['1.25', '2', '4'])}",
        f"{aggregate} IS NOT NULL",
        f"NOT ({aggregate} < 3 OR COUNT(*) < 2)",
        f"{aggregate} > 2 AND COUNT(*) > 1",
        f"{aggregate} <= COUNT(*) + 1",
    ]
    for item in returned:
        if " AS " in item and ".ts)" not in item:
            choices.append(f"{item.split(' AS ')[1]} > {rng.randint(0, 3)}")
    for key in keys:
        if key.endswith("g"):
            choices.append(f"{key} = 'x' OR COUNT(*) > 3")
        choices.append(f"{key} IS NOT NULL")
    return rng.choice(choices)


# ---- Events --------------------------------------------------------------------------------------


def _events(
    rng: random.Random, meaning: oracle.Meaning, unique: bool, rejects: bool
) -> tuple[list[dict], str | None]:
    """Up to 12 events; `unique` means no two are of one moment."""
    kinds = [kind for p in meaning.real for kind in sorted(p.types or "ABCX")]
    size = rng.choice([0, *range(1, 13), *range(5, 13), *range(7, 13)])
    types = [rng.choice(kinds) if rng.random() < 0.88 else rng.choice("ABCDNMX") for _ in range(size)]
    if rng.random() < 0.9:  # sow the types of a trend, so that most cases have one
        types = _sown(rng, meaning, types)
    ordered = rng.random() < 0.35
    nulls = rng.choice([0.0, 0.05, 0.1, 0.25])
    few = rng.random() < 0.5  # few different values: more equalities
    start, ties = rng.choice([0, 0, 3, 17, -9, 100]), rng.choice([0.0, 0.0, 0.2, 0.5, 0.8])
    if unique and not ordered:
        ties = 0.0
    time, events = start, []

    def or_null(value: Any) -> Any:
        return None if rng.random() < nulls else value

    ranks = rng.sample(range(40), len(types)) if unique or rng.random() < 0.5 else None
    step = rng.choice([1, 1, 1, 2, 4])
    for i, kind in enumerate(types):
        if i and rng.random() >= ties:
            time += rng.randint(1, step)
        event = {
            "type": kind,
            "ts": time,
            "k": or_null(rng.choice([1, 1, 1, 2] if few else [1, 1, 2, 0])),
            "g": or_null(rng.choice(["x", "x", "y"] if few else ["x", "y", "xy", "é"])),
            "v": or_null(rng.randint(1, 3) if few else rng.randint(-1, 5)),
            "w": or_null(rng.choice([0.5, 1.0, 1.5, 2.0] if few else [-1.5, -0.0, 0.0, 0.25, 1.0, 2.5])),
            "s": or_null(rng.choice(["x", "xy", "y", "a_b", "50%", "", "é", "x\ny"])),
        }
        if ordered:
            event["seq"] = ranks[i] if ranks else rng.randint(0, 3)
        events.append(event)
    if not unique and events and rng.random() < 0.25:  # whole events twice
        for event in rng.sample(events, min(len(events), rng.randint(1, 2))):
            events.append(dict(event))
    if rejects:
        for event in events:
            if rng.random() < 0.2:
                event[rng.choice(["type", "ts", *(["seq"] if ordered else [])])] = None
    if rng.random() < 0.4:
        rng.shuffle(events)
    return events, "seq" if ordered else None


def _sown(rng: random.Random, meaning: oracle.Meaning, types: list[str]) -> list[str]:
    """Put the types of one trend of each operand, in order, over a part of the list."""
    types = list(types)
    for automaton in meaning.operands:
        p = rng.choice(sorted(automaton.first))
        walk = [p]
        while len(walk) < 9 and not (p in automaton.last and rng.random() < 0.6):
            after = sorted(automaton.follow[p])
            if not after:
                break
            p = rng.choice(after)
            walk.append(p)
        while len(types) < min(len(walk), 9):
            types.append(rng.choice(types or ["X"]))
        if len(walk) <= len(types):
            places = sorted(rng.sample(range(len(types)), len(walk)))
            if rng.random() < 0.5:  # side by side, for contiguous
                start = rng.randint(0, len(types) - len(walk))
                places = list(range(start, start + len(walk)))
            for at, p in zip(places, walk, strict=True):
                kinds = meaning.positions[p].types
                types[at] = meaning.positions[p].name or rng.choice(sorted(kinds or "ABCDX"))
    return types


def _bounded(
    rng: random.Random, meaning: oracle.Meaning, events: list[dict], order_column: str | None
) -> list[dict]:
    """Leave out events until the pattern, without its predicates and under any, has few trends."""
    events = list(events)
    while events:
        read = oracle.read(events, order_column, "type", "ts")
        counts = [_trend_count(automaton, read) for automaton in meaning.operands]
        negatives = [_trend_count(n, read) for automaton in meaning.operands for n in automaton.negatives()]
        if max(counts + negatives) <= TRENDS and math.prod(counts) <= COMBINATIONS:
            break
        events.pop(rng.randrange(len(events)))
    return events


def _trend_count(automaton: oracle.PositionAutomaton, events: list[oracle.Event]) -> int:
    """The number of trends under any, without predicates: a bound on all three semantics."""
    before: dict[int, int] = dict.fromkeys(automaton.own, 0)
    total, moment, pending = 0, None, []
    for e in events:
        if e.key != moment:
            for q, count in pending:
                before[q] += count
            moment, pending = e.key, []
        for q in automaton.own:
            if automaton.positions[q].holds(e.type):
                count = sum(n for p, n in before.items() if n and q in automaton.follow[p])
                count += q in automaton.first
                pending.append((q, count))
                total += count if q in automaton.last else 0
    return total
