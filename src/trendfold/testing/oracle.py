"""The oracle: what a query means, by brute force, straight from language.md and language-2.md.

Everything is enumerated literally: every trend of every window of every stream is built, then
counted. It is exponential on purpose and shares no code with the package. Section numbers in the
comments are those of language.md; those of language-2.md are written "section 2.N".

    rows(query, events)      the result rows, in order (sections 1-7 and 9)
    trends(query, events)    the trends behind them, by window and group
    matches(query, events)   the rows of RETURN MATCHES (section 8)

Times are integers in seconds (or floats, rounded to microseconds). COUNT is an int, SUM an int for
integer attributes and otherwise the exactly rounded float, AVG the exactly rounded float.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from trendfold.testing import oracle_syntax as syntax
from trendfold.testing.oracle_syntax import Elapsed, Time

INT64 = range(-(2**63), 2**63)
AUTO = object()
MOST_EVENTS, MOST_STEPS = 500, 5_000_000
"""How many events of one stream may be enumerated, and how many trends, finished or not."""


class OracleError(ValueError):
    """The query is an error by the specification, or beyond what the oracle reads."""


# ---- Section 1: input ---------------------------------------------------------------------------


class Event(NamedTuple):
    """A row that is kept, with what orders it."""

    index: int  # the row's position in the input
    type: str
    time: int | float
    key: tuple  # (time,) or (time, order): "before" is a smaller key; equal keys are one moment
    attributes: dict[str, Any]


def _value(value: Any) -> Any:
    """NaN and infinities are null; -0.0 is 0.0."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value + 0.0
    return value


def read(events: list[dict], order_column: str | None, type_column: str, time_column: str) -> list[Event]:
    """The kept events in time order. A null type, time or order makes a row a reject."""
    kept = []
    for index, row in enumerate(events):
        row = {name: _value(value) for name, value in row.items()}
        kind, time = row.get(type_column), row.get(time_column)
        order = row.get(order_column) if order_column else 0
        if kind is None or order is None:
            continue
        if not isinstance(time, (int, float)) or isinstance(time, bool):
            continue
        if isinstance(time, float):
            time = round(time, 6)
            time = int(time) if time.is_integer() else time
        key = (time, order) if order_column else (time,)
        if len(kept) == MOST_EVENTS:
            raise OracleError(f"more than {MOST_EVENTS} events are too many to enumerate; take fewer")
        row[syntax.TIME] = Time(Fraction(str(time)))
        kept.append(Event(index, str(kind), time, key, row))
    return sorted(kept, key=lambda event: event.key)


# ---- Section 2: expressions, in SQL's three-valued logic -----------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float, Fraction)):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


def _compare(sign: str, x: Any, y: Any) -> bool | None:
    if x is None or y is None:
        return None
    if _kind(x) != _kind(y):
        raise OracleError(f"comparing unlike types: {x!r} {sign} {y!r}")
    if isinstance(x, str):  # strings by bytes
        x, y = x.encode(), y.encode()
    return {
        "=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y,
    }[sign]  # fmt: skip


def _calculate(sign: str, x: Any, y: Any) -> Any:
    if x is None or y is None:
        return None
    if isinstance(x, (Time, Elapsed)) or isinstance(y, (Time, Elapsed)):
        return _calculate_times(sign, x, y)
    if _kind(x) != "number" or _kind(y) != "number":
        raise OracleError(f"{x!r} {sign} {y!r} is not a calculation with numbers")
    if sign in "/%" and y == 0:
        return None  # x/0 and x%0 are null
    try:
        if sign == "+":
            result = x + y
        elif sign == "-":
            result = x - y
        elif sign == "*":
            result = x * y
        elif sign == "/":
            result = x / y if isinstance(x, Fraction) or isinstance(y, Fraction) else float(x) / float(y)
        elif isinstance(x, float) or isinstance(y, float):
            result = math.fmod(x, y)
        else:
            result = abs(x) % abs(y)  # the sign of the left side
            result = -result if x < 0 else result
    except OverflowError:
        return None
    return _bounded(result, x, y)


def _calculate_times(sign: str, x: Any, y: Any) -> Time | Elapsed:
    """Section 2.2: times and durations."""
    kinds = sign, _kind(x), _kind(y)
    if kinds == ("-", "Time", "Time"):
        return Elapsed(x.seconds - y.seconds)
    if kinds in (("+", "Time", "Elapsed"), ("-", "Time", "Elapsed")):
        return Time(x.seconds + y.seconds if sign == "+" else x.seconds - y.seconds)
    if kinds == ("+", "Elapsed", "Time"):
        return Time(x.seconds + y.seconds)
    if kinds in (("+", "Elapsed", "Elapsed"), ("-", "Elapsed", "Elapsed")):
        return Elapsed(x.seconds + y.seconds if sign == "+" else x.seconds - y.seconds)
    if kinds == ("*", "Elapsed", "number"):
        return Elapsed(x.seconds * Fraction(y))
    if kinds == ("*", "number", "Elapsed"):
        return Elapsed(Fraction(x) * y.seconds)
    raise OracleError(f"{x!r} {sign} {y!r} is not a calculation with times")


def _bounded(result: Any, *inputs: Any) -> Any:
    """Integer overflow is null (of 64-bit inputs: the counts of HAVING are true values)."""
    if isinstance(result, int) and result not in INT64 and all(x in INT64 for x in inputs):
        return None
    return _value(result)


def _and(x: bool | None, y: bool | None) -> bool | None:
    if x is False or y is False:
        return False
    return None if x is None or y is None else True


def _not(x: bool | None) -> bool | None:
    if x is not None and not isinstance(x, bool):
        raise OracleError(f"{x!r} is not a condition")
    return None if x is None else not x


def _or(x: bool | None, y: bool | None) -> bool | None:
    return _not(_and(_not(x), _not(y)))


def _like(text: Any, pattern: Any) -> bool | None:
    """`%`, `_` and the escape `\\`."""
    if text is None or pattern is None:
        return None
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise OracleError("LIKE compares strings")
    regex, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            regex += re.escape(pattern[at])
        else:
            regex += {"%": ".*", "_": "."}.get(char, re.escape(char))
        at += 1
    return re.fullmatch(regex, text, re.DOTALL) is not None


def evaluate(node: tuple, look: Callable[[tuple], Any]) -> Any:
    """The value of an expression; `look` gives the value of its attributes, names, aggregates."""
    what = node[0]
    if what == "lit":
        return node[1]
    if what in ("attr", "name", "agg"):
        return look(node)
    if what == "neg":
        value = evaluate(node[1], look)
        return Elapsed(-value.seconds) if isinstance(value, Elapsed) else _calculate("-", 0, value)
    if what == "abs":
        value = evaluate(node[1], look)
        if isinstance(value, Elapsed):
            return Elapsed(abs(value.seconds))
        return None if value is None else _bounded(abs(value), value)
    if what == "not":
        return _not(evaluate(node[1], look))
    if what == "null?":
        return evaluate(node[1], look) is None
    if what == "in":
        value, found = evaluate(node[1], look), False
        for option in node[2]:
            found = _or(found, _compare("=", value, evaluate(option, look)))
        return found
    if what == "between":
        value, low, high = (evaluate(part, look) for part in node[1:])
        return _and(_compare("<=", low, value), _compare("<=", value, high))
    x, y = evaluate(node[1], look), evaluate(node[2], look)
    if what == "and":
        return _and(x, y)
    if what == "or":
        return _or(x, y)
    if what == "like":
        return _like(x, y)
    if what in ("+", "-", "*", "/", "%"):
        return _calculate(what, x, y)
    return _compare(what, x, y)


def _leaves(node: Any) -> Iterator[tuple]:
    """The attributes, names and aggregates that an expression names."""
    if isinstance(node, list):
        for part in node:
            yield from _leaves(part)
    elif isinstance(node, tuple):
        if node[0] in ("attr", "name", "agg"):
            yield node
        elif node[0] != "lit":
            for part in node[1:]:
                yield from _leaves(part)


# ---- Section 3: patterns as positions ------------------------------------------------------------


class PatternPosition(NamedTuple):
    """An occurrence of an event, or of an AND, in a pattern."""

    id: int
    types: frozenset[str] | None  # None: ANY (section 2.1)
    name: str | None  # the type, if it is written with just that type
    alias: str | None
    negated: bool
    operands: tuple  # the automata of an AND inside a pattern, which takes a combination (section 8)

    @property
    def label(self) -> str:
        """The alias or type; a set without an alias has none."""
        return self.alias or self.name or ""

    def holds(self, kind: str) -> bool:
        """Whether a type stands here."""
        return not self.operands and (self.types is None or kind in self.types)


class PositionAutomaton:
    """The position (Glushkov) automaton of one pattern, with the places of its NOTs."""

    def __init__(self, node: tuple, positions: list[PatternPosition], negated: bool = False):
        self.positions = positions  # of the whole query, shared
        self.negated = negated
        self.own: list[int] = []  # the positions of this automaton
        self.follow: dict[int, set[int]] = defaultdict(set)
        self.crossing: dict[tuple[int, int], list[PositionAutomaton]] = defaultdict(list)
        self.at_start: list[PositionAutomaton] = []
        self.at_end: list[PositionAutomaton] = []
        if node[0] == "seq":  # the outermost SEQ: a NOT may be first or last
            parts = list(node[1])
            while parts and parts[0][0] == "not":  # section 2.6: several may stand beside each other
                self.at_start.append(self._negative(parts.pop(0)))
            while parts and parts[-1][0] == "not":
                self.at_end.append(self._negative(parts.pop()))
            if not parts:
                raise OracleError("NOT beside nothing")
            node = ("seq", parts)
        self.empty, self.first, self.last = self._build(node)
        if self.empty:
            raise OracleError("a pattern that accepts the empty sequence")

    def _negative(self, node: tuple) -> PositionAutomaton:
        if self.negated:
            raise OracleError("NOT inside NOT")
        return PositionAutomaton(node[1], self.positions, negated=True)

    def _build(self, node: tuple) -> tuple[bool, set[int], set[int]]:
        what = node[0]
        if what in ("type", "and"):
            place = len(self.positions)
            types, alias, name = node[1:] if what == "type" else (frozenset(), None, None)
            self.positions.append(PatternPosition(place, types, name, alias, self.negated, ()))
            if what == "and":
                operands = tuple(PositionAutomaton(part, self.positions, self.negated) for part in node[1])
                self.positions[place] = self.positions[place]._replace(operands=operands)
            self.own.append(place)
            return False, {place}, {place}
        if what == "or":
            empties, firsts, lasts = zip(*[self._build(part) for part in node[1]], strict=True)
            return any(empties), set().union(*firsts), set().union(*lasts)
        if what == "plus":
            empty, first, last = self._build(node[1])
            for p in last:
                self.follow[p] |= first
            return empty, first, last
        if what == "opt":
            _, first, last = self._build(node[1])
            return True, first, last
        if what in ("seq", "rep"):
            return self._build_seq(node[1])
        raise OracleError(f"{what.upper()} cannot stand here")

    def _build_seq(self, parts: list[tuple]) -> tuple[bool, set[int], set[int]]:
        empty, first, last = True, set(), set()
        between: list[PositionAutomaton] = []
        previous_can_be_empty = True
        for number, part in enumerate(parts):
            if part[0] == "not":
                if number in (0, len(parts) - 1) or previous_can_be_empty:
                    raise OracleError("NOT without neighbours that cannot be empty")
                between.append(self._negative(part))
                continue
            part_empty, part_first, part_last = self._build(part)
            if between and part_empty:
                raise OracleError("NOT beside an element that can be empty")
            for p in last:
                for q in part_first:
                    self.follow[p].add(q)
                    self.crossing[p, q] += between  # section 6: the pairs that cross this place
            between = []
            first = first | part_first if empty else first
            last = last | part_last if part_empty else part_last
            empty = empty and part_empty
            previous_can_be_empty = part_empty
        return empty, first, last

    def negatives(self) -> list[PositionAutomaton]:
        """The automata of all NOTs."""
        found = self.at_start + self.at_end
        for some in self.crossing.values():
            found += [n for n in some if n not in found]
        return found


# ---- The compiled query --------------------------------------------------------------------------


class Meaning:
    """A parsed query with its positions and its predicates sorted by kind (sections 4 and 5)."""

    def __init__(self, text: str):
        self.query = q = syntax.parse(text)
        self.positions: list[PatternPosition] = []
        if q.pattern[0] == "and":  # AND(P, Q, ...) outermost: each operand judged alone
            self.operands = [PositionAutomaton(part, self.positions) for part in q.pattern[1]]
        else:
            self.operands = [PositionAutomaton(q.pattern, self.positions)]
        self.real = [p for p in self.positions if not p.operands]
        self.by_name: dict[str, set[int]] = defaultdict(set)
        for p in self.real:
            for name in {p.name, p.alias} - {None}:
                self.by_name[name].add(p.id)

        self.local: list[tuple[set[int], tuple]] = []
        self.adjacency: list[tuple[set[int], set[int], tuple]] = []
        self.cross: list[tuple[str, str, tuple]] = []
        self.breaking: list[tuple[str, str, tuple]] = []  # section 2.6: a negated name, a positive one
        self.equivalence = list(q.equivalence)
        for conjunct in self._without_connecting_equalities(q.conjuncts):
            self._sort(conjunct)

        self.plain = [attr for name, attr in q.group_by if name is None]
        self.qualified = [(name, attr) for name, attr in q.group_by if name is not None]
        self._enumerated = 0
        self._take: dict[tuple, bool] = {}
        self._pair: dict[tuple, bool] = {}
        self._crossed: dict[tuple, bool] = {}

    def at(self, name: str) -> set[int]:
        """An alias means its positions, a type name all positions of that type."""
        if name not in self.by_name:
            raise OracleError(f"no alias or type {name}")
        return self.by_name[name]

    def _without_connecting_equalities(self, conjuncts: list[tuple]) -> list[tuple]:
        """Section 4: equalities on one u that connect all positive positions are exactly [u]."""
        positive = {p.id for p in self.real if not p.negated}
        equalities: dict[str, list[tuple]] = defaultdict(list)
        for node in conjuncts:
            if node[0] == "=" and node[1][0] == node[2][0] == "attr":
                (_, a, u, a_next), (_, b, v, b_next) = node[1:]
                plain = u == v and u != syntax.TIME and a != b and not a_next and not b_next
                if plain and self.at(a) | self.at(b) <= positive:
                    equalities[u].append(node)
        dropped: list[tuple] = []
        for u, nodes in equalities.items():
            joined = set(self.at(nodes[0][1][1]))
            for _ in nodes:
                for node in nodes:
                    both = self.at(node[1][1]) | self.at(node[2][1])
                    if joined & both:
                        joined |= both
            if joined == positive:
                self.equivalence.append(u)
                dropped += nodes
        return [node for node in conjuncts if node not in dropped]

    def _sort(self, conjunct: tuple) -> None:
        """Section 5: predicates, by what a conjunct names."""
        leaves = set(_leaves(conjunct))
        if any(leaf[0] != "attr" for leaf in leaves):
            raise OracleError("WHERE names attributes of aliases only")
        here = sorted({leaf[1] for leaf in leaves if not leaf[3]})
        after = sorted({leaf[1] for leaf in leaves if leaf[3]})
        for name in here + after:
            self.at(name)
        if len(here) == 1 and not after:
            self.local.append((self.at(here[0]), conjunct))
        elif len(here) == 1 and len(after) == 1:
            self.adjacency.append((self.at(here[0]), self.at(after[0]), conjunct))
        elif len(here) == 2 and not after:
            negated = [all(self.positions[p].negated for p in self.at(name)) for name in here]
            if negated[0] == negated[1]:
                self.cross.append((here[0], here[1], conjunct))
            else:
                n, a = here if negated[0] else here[::-1]
                self.breaking.append((n, a, conjunct))
        else:
            raise OracleError("a conjunct is local, adjacency or cross")

    # -- what depends only on events and positions, remembered for speed --

    def can_take(self, event: Event, p: int) -> bool:
        """Section 3: the type is the position's and the position's local predicates hold."""
        known = self._take.get((event.index, p))
        if known is None:
            known = self.positions[p].holds(event.type) and all(
                evaluate(node, lambda leaf: event.attributes.get(leaf[2])) is True
                for places, node in self.local
                if p in places
            )
            self._take[event.index, p] = known
        return known

    def pair_holds(self, x: Event, p: int, e: Event, q: int) -> bool:
        """Every adjacency predicate for a binding (x,p) directly followed by (e,q)."""
        if not self.adjacency:
            return True
        known = self._pair.get((x.index, p, e.index, q))
        if known is None:
            known = all(
                evaluate(node, lambda leaf: (e if leaf[3] else x).attributes.get(leaf[2])) is True
                for here, after, node in self.adjacency
                if p in here and q in after
            )
            self._pair[x.index, p, e.index, q] = known
        return known

    def cross_holds(self, bindings: tuple) -> bool:
        """Every pair of different bindings, one at A and one at B, satisfies the predicate."""
        for number, (a, b, node) in enumerate(self.cross):
            for i, (x, p) in enumerate(bindings):
                if p not in self.at(a):
                    continue
                for j, (y, q) in enumerate(bindings):
                    if i == j or q not in self.at(b):
                        continue
                    key = (number, x.index, y.index)
                    if key not in self._crossed:
                        at = {a: x, b: y}
                        look = lambda leaf, at=at: at[leaf[1]].attributes.get(leaf[2])  # noqa: E731
                        self._crossed[key] = evaluate(node, look) is True
                    if not self._crossed[key]:
                        return False
        return True

    # -- section 4: groups and their streams --

    def streams(self, events: list[Event]) -> dict[tuple, list[tuple[dict, list[Event], dict]]]:
        """Row group -> [(required values at positions, stream, its values)], one for each partition."""
        partitions: dict[tuple, list[Event]] = defaultdict(list)
        for e in events:
            equal = tuple(e.attributes.get(a) for a in self.equivalence)
            if None in equal:
                continue  # in no partition of the query
            partitions[equal, tuple(e.attributes.get(a) for a in self.plain)].append(e)

        groups: dict[tuple, list[tuple[dict, list[Event], dict]]] = defaultdict(list)
        for (equal, plain), partition in partitions.items():
            values_of = dict(zip((*self.equivalence, *self.plain), (*equal, *plain), strict=True))
            # A group has a stream in every partition of its plain values, also where no event
            # takes T: its events open per-event windows (section 7).
            choices = []
            for name, attr in self.qualified:
                values = [
                    e.attributes.get(attr)
                    for (_, other), members in partitions.items()
                    if other == plain
                    for e in members
                    if any(self.can_take(e, p) for p in self.at(name))
                ]
                choices.append(list(dict.fromkeys(values)))
            for chosen in product(*choices):
                stream = [
                    e
                    for e in partition
                    if not any(
                        self._only_at(e.type, name) and e.attributes.get(attr) != value
                        for (name, attr), value in zip(self.qualified, chosen, strict=True)
                    )
                ]
                required: dict[int, list] = defaultdict(list)
                for (name, attr), value in zip(self.qualified, chosen, strict=True):
                    for p in self.at(name):
                        required[p].append((attr, value))
                values_plain, values_chosen = iter(plain), iter(chosen)
                group = tuple(
                    next(values_plain if name is None else values_chosen) for name, _ in self.query.group_by
                )
                groups[group].append((required, stream, values_of))
        return groups

    def _only_at(self, kind: str, name: str) -> bool:
        """The type stands only at T's positions."""
        places = {p.id for p in self.real if p.holds(kind)}
        return bool(places) and places <= self.at(name)

    def takes(self, event: Event, p: int, required: dict) -> bool:
        """Can take, and an event of another g never takes T's positions."""
        return self.can_take(event, p) and all(
            event.attributes.get(attr) == value for attr, value in required.get(p, ())
        )

    # -- section 5: trends --

    def trends(
        self,
        automaton: PositionAutomaton,
        stream: list[Event],
        required: dict,
        semantics: str,
        window: Any = AUTO,
    ) -> list[tuple]:
        """All trends of one automaton in one stream (already cut to one window).

        A trend is a tuple of bindings (event, position id). `window` is given for MATCHES only:
        a function that bounds the events over which NOT at the start and at the end is judged.
        """
        steps = self._steps(automaton, stream, required, semantics)
        spans = {id(n): self._spans(n, stream, required) for n in automaton.negatives()}

        def broken_between(x: TrendStep, y: TrendStep) -> bool:
            return any(
                x.hi < lo and hi < y.lo and self.breaks(single, x.lasts + y.firsts)
                for n in automaton.crossing.get((x.position, y.position), ())
                for lo, hi, single in spans[id(n)]
            )

        def candidates(x: TrendStep) -> list[TrendStep]:
            return [
                y
                for y in steps
                if y.position in automaton.follow[x.position]
                and x.hi < y.lo
                and (not x.event or not y.event or self.pair_holds(x.event, x.position, y.event, y.position))
                and not broken_between(x, y)
            ]

        def adjacent(x: TrendStep) -> list[TrendStep]:
            found = candidates(x)
            if semantics == "next":  # all of the earliest moment
                return [y for y in found if not any(z.lo < y.lo for z in found)]
            if semantics == "contiguous":  # no event of the stream strictly between the two
                return [y for y in found if not any(x.hi < z.key < y.lo for z in stream)]
            return found

        after: dict[int, list[TrendStep]] = {}
        found: list[tuple] = []

        def extend(bindings: tuple, start: TrendStep, step: TrendStep) -> None:
            self._count_step()
            bindings += step.bindings
            if (
                step.position in automaton.last
                and self.cross_holds(bindings)
                and not self._broken_outside(automaton, spans, start, step, window)
            ):
                found.append(bindings)
            if id(step) not in after:
                after[id(step)] = adjacent(step)
            for y in after[id(step)]:
                extend(bindings, start, y)

        for step in steps:
            if step.position in automaton.first:
                extend((), step, step)
        return found

    def _count_step(self) -> None:
        self._enumerated += 1
        if self._enumerated > MOST_STEPS:
            raise OracleError(
                f"more than {MOST_STEPS:,} trends, finished or not, are too many to enumerate; "
                "take fewer events, shorter windows or a stricter pattern"
            )

    def _steps(
        self, automaton: PositionAutomaton, stream: list[Event], required: dict, semantics: str
    ) -> list[TrendStep]:
        steps = []
        for p in automaton.own:
            operands = self.positions[p].operands
            if operands:  # section 8: AND inside a pattern
                for parts in self._combinations(operands, stream, required, semantics):
                    bindings = sum(parts, ())
                    keys = [e.key for e, _ in bindings]
                    firsts, lasts = tuple(part[0] for part in parts), tuple(part[-1] for part in parts)
                    steps.append(TrendStep(p, min(keys), max(keys), bindings, None, firsts, lasts))
            else:
                for e in stream:
                    if self.takes(e, p, required):
                        one = ((e, p),)
                        steps.append(TrendStep(p, e.key, e.key, one, e, one, one))
        return steps

    def _combinations(
        self, operands: tuple, stream: list[Event], required: dict, semantics: str
    ) -> Iterator[tuple]:
        """One trend of each operand; they share no event and may interleave (section 8)."""
        for parts in product(*[self.trends(o, stream, required, semantics) for o in operands]):
            bindings = sum(parts, ())
            self._count_step()
            if len({e.index for e, _ in bindings}) == len(bindings):
                yield parts

    # -- section 6: NOT --

    def _spans(self, negative: PositionAutomaton, stream: list[Event], required: dict) -> list[tuple]:
        """(first moment, last moment, first binding) of N's trends: those under any, in the same stream."""
        return [(n[0][0].key, n[-1][0].key, n[0]) for n in self.trends(negative, stream, required, "any")]

    def breaks(self, broken_by: tuple, beside: tuple) -> bool:
        """Section 2.6: every conjunct of a NOT's event holds with the bindings beside it at its alias."""
        n, place = broken_by
        for name, other, node in self.breaking:
            for e, p in beside:
                if place in self.at(name) and p in self.at(other):
                    at = {name: n, other: e}
                    if evaluate(node, lambda leaf, at=at: at[leaf[1]].attributes.get(leaf[2])) is not True:
                        return False
        return True

    def _broken_outside(
        self, automaton: PositionAutomaton, spans: dict, first: TrendStep, last: TrendStep, window: Any
    ) -> bool:
        start, end = first.lo, last.hi

        def is_in_reach(where: str, lo: tuple, hi: tuple) -> bool:
            return window is AUTO or window(where, start, end, lo, hi)

        return any(
            hi < start and is_in_reach("start", lo, hi) and self.breaks(single, first.firsts)
            for n in automaton.at_start
            for lo, hi, single in spans[id(n)]
        ) or any(
            end < lo and is_in_reach("end", lo, hi) and self.breaks(single, last.lasts)
            for n in automaton.at_end
            for lo, hi, single in spans[id(n)]
        )

    # -- section 7: windows --

    def numbers(self, events: list[Event]) -> dict[int, int]:
        """The number of each event for count windows: by (time, order) in its plain group."""
        result: dict[int, int] = {}
        groups: dict[tuple, list[Event]] = defaultdict(list)
        for e in events:
            groups[tuple(e.attributes.get(a) for a in self.plain)].append(e)
        for members in groups.values():
            for number, e in enumerate(members):
                if number and members[number - 1].key == e.key:
                    raise OracleError(f"a tie at {e.time}: count windows need an order column")
                result[e.index] = number
        return result

    def windows(
        self, streams: list[tuple[dict, list[Event], dict]], numbers: dict[int, int]
    ) -> Iterator[tuple[Any, Any, Callable[[Event], bool]]]:
        """(start, end, holds) of every window of one row group that can hold a trend."""
        within, slide = self.query.within, self.query.slide
        members = [e for _, stream, _ in streams for e in stream]
        if within is None:
            if slide is not None:
                raise OracleError("SLIDE needs WITHIN")
            yield None, None, lambda e: True
        elif slide is not None:
            (kind, w), (slide_kind, s) = within, slide
            if kind != slide_kind:
                raise OracleError("one kind of window per query")
            place: Callable[[Event], Any] = (
                (lambda e: e.time) if kind == "time" else (lambda e: numbers[e.index])
            )
            places = [place(e) for e in members]
            if not places:
                return
            for k in range(math.floor((min(places) - w) / s), math.floor(max(places) / s) + 1):
                if kind == "events" and k < 0:
                    continue
                start, end = k * s, k * s + w
                yield start, end, lambda e, start=start, end=end: start <= place(e) < end
        elif within[0] == "events":
            raise OracleError("WITHIN n events needs SLIDE")
        else:
            w = within[1]
            times = {
                e.time
                for required, stream, _ in streams
                for e in stream
                for automaton in self.operands
                for p in automaton.last
                if self.takes(e, p, required)
            }
            for t in sorted(times):
                yield t - w, t, lambda e, t=t: t - w < e.time <= t

    def results(self, events: list[Event]) -> list[tuple[tuple, tuple, list[Partition]]]:
        """[(window, group, its partitions with trends)], in the order of rows."""
        q = self.query
        found = self._periods(events) if q.every is not None or q.once else self._in_windows(events)
        return sorted(found, key=lambda row: (_nulls_first(row[0]), _nulls_first(row[1])))

    def _in_windows(self, events: list[Event]) -> list[tuple[tuple, tuple, list[Partition]]]:
        numbers = self.numbers(events) if self.query.within and self.query.within[0] == "events" else {}
        found = []
        for group, streams in self.streams(events).items():
            for start, end, holds in self.windows(streams, numbers):
                partitions, is_empty_row = [], False
                for required, stream, values in streams:
                    inside = [e for e in stream if holds(e)]
                    lists = []
                    for automaton in self.operands:
                        lists.append(self.trends(automaton, inside, required, self.query.semantics))
                    if all(lists):
                        partitions.append(Partition(lists, values))
                    is_empty_row |= self.query.include_empty and self._could_take(inside, required)
                if partitions or is_empty_row:
                    found.append(((start, end), group, partitions))
        return found

    def _could_take(self, inside: list[Event], required: dict) -> bool:
        """Section 2.5: whether a partition's events in a window make a row without trends."""
        places = [p for p in self.real if not p.negated]
        if self.qualified:
            named = {name for name, _ in self.qualified}
            return all(any(self.takes(e, p, required) for e in inside for p in self.at(n)) for n in named)
        return any(self.takes(e, p.id, required) for e in inside for p in places)

    def _periods(self, events: list[Event]) -> list[tuple[tuple, tuple, list[Partition]]]:
        """Section 2.3: trends of the whole stream that are short enough, each in the period of its end."""
        q = self.query
        if q.pattern[0] == "and" or q.slide is not None or q.within[0] != "time":
            raise OracleError("EVERY and ONCE are for durations, without SLIDE and AND")
        _, w = q.within
        automaton = self.operands[0]

        def period(time: Any) -> tuple:
            if q.once:
                return None, None
            k = math.floor(Fraction(str(time)) / q.every)
            return k * q.every, (k + 1) * q.every

        found = []
        for group, streams in self.streams(events).items():
            by_period: dict[tuple, list[Partition]] = defaultdict(list)
            for required, stream, values in streams:
                own: dict[tuple, list[tuple]] = defaultdict(list)
                for trend in self.trends(automaton, stream, required, q.semantics, _in_reach(stream, w)):
                    if trend[-1][0].time - trend[0][0].time < w:
                        own[period(trend[-1][0].time)].append(trend)
                for at, some in own.items():
                    by_period[at].append(Partition([some], values))
                for at in {period(e.time) for e in stream} if q.include_empty else ():
                    if self._could_take([e for e in stream if period(e.time) == at], required):
                        by_period[at] += []
            found += [(at, group, partitions) for at, partitions in by_period.items()]
        return found

    def group_columns(self) -> list[str]:
        """The column is g, or T_g when two would be equal; AS renames it."""
        attributes = [attr for _, attr in self.query.group_by]
        columns = []
        for name, attr in self.query.group_by:
            column = f"{name}_{attr}" if name and attributes.count(attr) > 1 else attr
            for item, alias in self.query.returns:
                if alias and item == ("group", name, attr):
                    column = alias
            columns.append(column)
        return columns


class Partition(NamedTuple):
    """A partition with trends in a row: the trends of each operand, and the partition's own values."""

    lists: list[list[tuple]]
    values: dict[str, Any]


class TrendStep(NamedTuple):
    """One element of a trend being built: a binding, or a combination at an AND (section 8)."""

    position: int
    lo: tuple
    hi: tuple
    bindings: tuple
    event: Event | None
    firsts: tuple  # the first binding of each operand of an AND, or the only one
    lasts: tuple


def _in_reach(stream: list[Event], w: Any, numbers: dict[int, int] | None = None) -> Callable[..., bool]:
    """Which of N's trends break a trend by NOT at the start or at the end, without windows.

    Start: the whole of n lies inside (end - w, start); end: inside (end, start + w).
    """
    # A moment's place on the axis that WITHIN measures: its time, or its event number.
    place = {e.key: numbers[e.index] if numbers else e.time for e in stream}

    def is_in_reach(where: str, start: tuple, end: tuple, lo: tuple, hi: tuple) -> bool:
        if w is None:
            return True
        return place[end] - w < place[lo] if where == "start" else place[hi] < place[start] + w

    return is_in_reach


def _nulls_first(values: tuple) -> tuple:
    """Nulls sort first, strings by bytes."""
    return tuple(
        (value is not None, value.encode() if isinstance(value, str) else value or 0) for value in values
    )


# ---- Sections 7 and 9: rows ----------------------------------------------------------------------


class Counted(NamedTuple):
    """The trends of one row."""

    count: int
    times: dict[tuple[Event, int], int]  # in how many trends each binding is: in k trends it counts k times
    partitions: list[Partition]


def _of_trends(counted: Counted, function: str, what: str) -> Any:
    """Section 2.4: DURATION and LENGTH."""
    trends = [trend for partition in counted.partitions for trend in partition.lists[0]]
    if any(len(partition.lists) > 1 for partition in counted.partitions):
        raise OracleError(f"{what.upper()} with AND")
    if not trends:
        return None
    values: list[Any] = [len(trend) for trend in trends]
    if what == "duration":
        values = [Fraction(str(trend[-1][0].time)) - Fraction(str(trend[0][0].time)) for trend in trends]
    if function == "AVG":
        return Fraction(sum(values), len(values))
    return {"SUM": sum, "MIN": min, "MAX": max}[function](values)


def _aggregate(meaning: Meaning, node: tuple, counted: Counted) -> Any:
    """One aggregate as a true value: int, Fraction, float (LOG2, MIN, MAX) or null."""
    _, function, name, attr = node
    count, times = counted.count, counted.times
    if function == "COUNT DISTINCT":
        found = {tuple(p.values[a] for a in attr) for p in counted.partitions}
        return len([one for one in found if None not in one])
    if name is None and attr is not None:
        return _of_trends(counted, function, attr)
    if name is None:
        total: Any = count
    else:
        places = meaning.at(name)
        if any(meaning.positions[p].negated for p in places):
            raise OracleError(f"an aggregate of a negated name: {name}")
        here = [(e.attributes.get(attr) if attr else None, k) for (e, p), k in times.items() if p in places]
        total = sum(k for _, k in here)
        here = [(value, k) for value, k in here if value is not None]
    if function == "COUNT":
        return total
    if function == "LOG2":
        return math.log2(total) if total else None
    if not here:
        return None
    if function == "MIN":
        return min(value for value, _ in here)
    if function == "MAX":
        return max(value for value, _ in here)
    exact = all(isinstance(value, int) for value, _ in here)
    summed = sum(value * k if exact else Fraction(value) * k for value, k in here)
    if function == "SUM":
        return summed if exact else Fraction(summed)
    return Fraction(summed) / sum(k for _, k in here)


def _shown(value: Any) -> Any:
    if not isinstance(value, Fraction):
        return value
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _default_name(node: tuple) -> str:
    _, function, name, attr = node
    words = ["log2", "count"] if function == "LOG2" else [function.lower().replace(" ", "_")]
    attributes = attr if isinstance(attr, tuple) else (attr,)
    return "_".join([*words, *[part for part in (name, *attributes) if part]])


def rows(
    query_text: str,
    events: list[dict],
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
) -> list[dict]:
    """The result rows of one aggregate query, ordered by window, then group; nulls first."""
    meaning = Meaning(query_text)
    q = meaning.query
    if q.matches is not None:
        raise OracleError("RETURN MATCHES has matches, not rows")
    if any(p.operands for p in meaning.positions):
        raise OracleError("in an aggregate query AND stands outermost")
    result = []
    kept = read(events, order_column, type_column, time_column)
    for window, group, partitions in meaning.results(kept):
        count = 0
        times: dict[tuple[Event, int], int] = defaultdict(int)
        for lists, _ in partitions:
            # AND: every combination of one trend of each operand, so each trend of one operand
            # stands in as many combinations as the product of the other COUNTs.
            count += math.prod(len(some) for some in lists)
            for number, some in enumerate(lists):
                others = math.prod(len(other) for i, other in enumerate(lists) if i != number)
                for trend in some:
                    for event, p in trend:
                        times[_Bound(event, p)] += others
        row = _row(meaning, window, group, Counted(count, times, partitions))
        if row is not None:
            result.append(row)
    return result


def _row(meaning: Meaning, window: tuple, group: tuple, counted: Counted) -> dict | None:
    """One row, or None if HAVING is not true."""
    q = meaning.query
    columns = meaning.group_columns()
    row = {"window_start": window[0], "window_end": window[1], **dict(zip(columns, group, strict=True))}
    named: dict[str, Any] = {}
    for item, alias in q.returns:
        if item[0] == "agg":
            value = _aggregate(meaning, item, counted)
            row[alias or _default_name(item)] = _shown(value)
            if alias:
                named[alias] = value

    def look(node: tuple) -> Any:
        if node[0] == "agg":
            return _aggregate(meaning, node, counted)
        if node[0] == "attr":
            return group[q.group_by.index((node[1], node[2]))]
        if node[1] in named:
            return named[node[1]]
        if (None, node[1]) in q.group_by:
            return group[q.group_by.index((None, node[1]))]
        return group[columns.index(node[1])]

    if q.having is not None and evaluate(q.having, look) is not True:  # null is not true
        return None
    return row


class _Bound(tuple):
    """(event, position) that is equal by the event's row, not by its values."""

    def __new__(cls, event: Event, p: int) -> _Bound:
        return tuple.__new__(cls, (event, p))

    def __hash__(self) -> int:
        return hash((self[0].index, self[1]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bound) and (self[0].index, self[1]) == (other[0].index, other[1])


def trends(
    query_text: str,
    events: list[dict],
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
) -> dict[tuple, list[tuple]]:
    """{(window_start, window_end, group values): [trend]} in the order of rows, before HAVING.

    A trend is a tuple of (event index, alias or type); under an outermost AND the operands'
    trends stand one after the other. Two trends that differ only in which copy of an alias their
    events take look the same here and are both listed.
    """
    meaning = Meaning(query_text)
    result: dict[tuple, list[tuple]] = {}
    for window, group, partitions in meaning.results(read(events, order_column, type_column, time_column)):
        result[(*window, group)] = [
            tuple((e.index, meaning.positions[p].label) for e, p in sum(parts, ()))
            for lists, _ in partitions
            for parts in product(*lists)
        ]
    return result


# ---- Section 8: matches --------------------------------------------------------------------------


def matches(
    query_text: str,
    events: list[dict],
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
    id_column: str | None = None,
) -> list[dict]:
    """The rows of RETURN MATCHES, one for each trend, ordered by start, end and group.

    For each alias (or type name) a row has a list of {"id", "time", the attributes named}, in
    time order. The id is the row's position without an id column. LIMIT keeps any n, so all
    matches are given here whatever it says.
    """
    meaning = Meaning(query_text)
    q = meaning.query
    if q.matches is None or q.slide or q.having:
        raise OracleError("not a MATCHES query")
    if any(p.operands for p in meaning.positions) and q.semantics != "any":
        raise OracleError("AND inside a pattern is for skip-till-any-match")
    kept = read(events, order_column, type_column, time_column)
    kind, w = q.within or (None, None)
    numbers = meaning.numbers(kept) if kind == "events" else {}
    labels = dict.fromkeys(p.label for p in meaning.real if not p.negated and p.label)
    found = []
    for group, streams in meaning.streams(kept).items():
        for required, stream, values in streams:
            reach = _in_reach(stream, w, numbers if kind == "events" else None)
            place = {e.key: numbers[e.index] if kind == "events" else e.time for e in stream}
            operands = [meaning.trends(o, stream, required, q.semantics, reach) for o in meaning.operands]
            for parts in product(*operands):
                bindings = sorted(sum(parts, ()), key=lambda one: (one[0].key, one[0].index, one[1]))
                if len({e.index for e, _ in bindings}) < len(bindings):
                    continue  # the operands of an AND share no event
                if not meaning.cross_holds(bindings):
                    continue  # section 5, also between the operands of an outermost AND
                first, last = bindings[0][0], bindings[-1][0]
                if w is not None and not place[last.key] - place[first.key] < w:
                    continue
                row: dict[str, Any] = {"start": first.time, "end": last.time}
                row.update(zip(meaning.group_columns(), group, strict=True))
                row.update((a, values[a]) for a in meaning.equivalence if a not in row)  # section 2.7
                for label in labels:
                    row[label] = [
                        {
                            "id": e.attributes.get(id_column) if id_column else e.index,
                            "time": e.time,
                            **{attr: e.attributes.get(attr) for attr in q.matches},
                        }
                        for e, p in bindings
                        if meaning.positions[p].label == label
                    ]
                found.append(((first.time, last.time), _nulls_first(group), row))
    return [row for _, _, row in sorted(found, key=lambda one: one[:2])]
