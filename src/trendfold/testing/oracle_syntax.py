"""A small recursive-descent parser of query text, for the oracle (language.md, section 2, and language-2.md).

It gives plain tuples and one ``QueryRecord`` record and shares no code with the package. It is strict
enough to read every valid query; of the invalid ones it refuses only those that it would otherwise
misread. One query at a time.

Pattern nodes
    ("type", {T, ...} or None for ANY, alias or None, T or None for a set)
    ("seq", [node])   ("rep", [node])   ("or", [node])   ("and", [node])
    ("plus", node)   ("opt", node)   ("not", node)              NOT only directly inside "seq"
`*` and `{m,n}` are written out as section 3 says while parsing, so every copy is a node of its own; the
copies of one repetition are a "rep", which is one element of its SEQ.

Expression nodes
    ("lit", value)   ("attr", name, attribute or TIME, is_next)   ("name", word)
    ("agg", function, name or None, attribute or None)
    ("agg", function, None, "duration" or "length")   ("agg", "COUNT DISTINCT", None, (attribute, ...))
    ("neg" | "abs" | "not", x)   ("+" "-" "*" "/" "%" "=" "!=" "<" "<=" ">" ">=" "and" "or", x, y)
    ("in", x, [y])   ("between", x, low, high)   ("null?", x)   ("like", x, y)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<string>'(?:[^']|'')*')
  | (?P<op><>|!=|<=|>=|[=<>+\-*/%()\[\]{},.|&!;:?∨∧])
    """,
    re.VERBOSE,
)

CLAUSES = {
    "RETURN", "AGG", "PATTERN", "SEMANTICS", "WHERE", "GROUP", "GROUPBY", "GROUP_BY",
    "HAVING", "WITHIN", "WINDOW", "SLIDE", "LIMIT", "QUERY", "INCLUDE",
}  # fmt: skip
RESERVED = CLAUSES | {
    "SEQ", "OR", "AND", "NOT", "NEXT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE",
}  # fmt: skip
SECONDS = {
    "ms": Fraction(1, 1000), "millisecond": Fraction(1, 1000), "milliseconds": Fraction(1, 1000),
    "s": 1, "sec": 1, "second": 1, "seconds": 1,
    "min": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
    "week": 604800, "weeks": 604800,
}  # fmt: skip
SEMANTICS = {
    "any": "any", "skip-till-any-match": "any",
    "next": "next", "skip-till-next-match": "next",
    "cont": "contiguous", "contiguous": "contiguous",
}  # fmt: skip
AGGREGATES = {"COUNT", "MIN", "MAX", "SUM", "AVG", "LOG2"}
COMPARE = {"=", "!=", "<>", "<", "<=", ">", ">="}


TIME = "\0time"
"""The attribute that TIME(E) reads."""


class Time(NamedTuple):
    """A time, in seconds since 1970."""

    seconds: Fraction


class Elapsed(NamedTuple):
    """A duration."""

    seconds: Fraction


class OracleSyntaxError(ValueError):
    """The text is not a query that the oracle reads."""


@dataclass
class QueryRecord:
    """A query as plain tuples."""

    name: str | None = None
    pattern: tuple | None = None
    semantics: str = "any"
    equivalence: list[str] = field(default_factory=list)  # attributes of [a, b]
    conjuncts: list[tuple] = field(default_factory=list)  # expressions
    group_by: list[tuple] = field(default_factory=list)  # (name or None, attribute)
    returns: list[tuple] = field(default_factory=list)  # (expression, AS name or None)
    matches: list[str] | None = None  # the attributes of RETURN MATCHES(...)
    having: tuple | None = None
    within: tuple | None = None  # ("time" | "events", number)
    slide: tuple | None = None
    every: int | None = None  # seconds: periods of trends that are counted once
    once: bool = False
    include_empty: bool = False
    limit: int | None = None


def parse(text: str) -> QueryRecord:
    """Read one query."""
    return _Parser(text).query()


class _Parser:
    def __init__(self, text: str):
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                raise OracleSyntaxError(f"unexpected {text[at]!r} at {at}")
            if found.lastgroup != "space":
                self.tokens.append((found.lastgroup, found.group()))
            at = found.end()
        self.at = 0

    # ---- tokens -------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ("end", "")

    def op(self, *texts: str) -> str | None:
        """Take one of these operators if it is next."""
        kind, text = self.peek()
        if kind == "op" and text in texts:
            self.at += 1
            return text
        return None

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        kind, text = self.peek(ahead)
        return kind == "word" and text.upper() in words

    def word(self, *words: str) -> str | None:
        """Take one of these keywords (any case) if it is next."""
        if self.is_word(*words):
            self.at += 1
            return self.tokens[self.at - 1][1].upper()
        return None

    def need(self, text: str) -> None:
        if not (self.op(text) or self.word(text)):
            raise OracleSyntaxError(f"expected {text}, found {self.peek()[1]!r}")

    def is_name(self, ahead: int = 0) -> bool:
        kind, text = self.peek(ahead)
        return kind == "quoted" or (kind == "word" and text.upper() not in RESERVED)

    def a_name(self) -> str:
        if not self.is_name():
            raise OracleSyntaxError(f"expected a name, found {self.peek()[1]!r}")
        kind, text = self.peek()
        self.at += 1
        return text[1:-1].replace('""', '"') if kind == "quoted" else text

    def any_word(self) -> str:
        kind, text = self.peek()
        if kind != "word":
            raise OracleSyntaxError(f"expected a word, found {text!r}")
        self.at += 1
        return text.lower()

    def a_number(self) -> int | float:
        kind, text = self.peek()
        if kind != "number":
            raise OracleSyntaxError(f"expected a number, found {text!r}")
        self.at += 1
        return int(text) if text.isdigit() else float(text)

    # ---- clauses ------------------------------------------------------------------------------

    def query(self) -> QueryRecord:
        q = QueryRecord()
        if self.word("QUERY"):
            q.name = self.a_name()
        elif self.is_name():
            q.name = self.a_name()
            self.op(":")
        seen = set()
        while self.peek()[0] != "end":
            if self.op(";"):
                break
            clause = self.word(*CLAUSES)
            if clause is None:
                raise OracleSyntaxError(f"expected a clause, found {self.peek()[1]!r}")
            clause = {"AGG": "RETURN", "GROUPBY": "GROUP", "GROUP_BY": "GROUP", "WINDOW": "WITHIN"}.get(
                text := clause, clause
            )
            if clause in seen:
                raise OracleSyntaxError(f"{clause} twice")
            seen.add(clause)
            if clause == "RETURN":
                self.returns(q)
            elif clause == "PATTERN":
                q.pattern = self.pattern()
            elif clause == "SEMANTICS":
                word = self.any_word()
                while self.op("-"):
                    word += "-" + self.any_word()
                q.semantics = SEMANTICS[word]
            elif clause == "WHERE":
                self.where(q)
            elif clause == "GROUP":
                if text == "GROUP":
                    self.op("-")
                    self.need("BY")
                q.group_by.append(self.attribute())
                while self.op(","):
                    q.group_by.append(self.attribute())
            elif clause == "HAVING":
                q.having = self.expression()
            elif clause == "WITHIN":
                q.within = self.span()
                if self.word("EVERY"):
                    q.every = self.span()[1]
                elif self.word("ONCE"):
                    q.once = True
            elif clause == "INCLUDE":
                self.need("EMPTY")
                q.include_empty = True
            elif clause == "SLIDE":
                q.slide = self.span()
            elif clause == "LIMIT":
                q.limit = int(self.a_number())
        if self.peek()[0] != "end":
            raise OracleSyntaxError("more than one query")
        if q.pattern is None:
            raise OracleSyntaxError("no PATTERN")
        return q

    def attribute(self) -> tuple:
        name = self.a_name()
        return (name, self.a_name()) if self.op(".") else (None, name)

    def span(self) -> tuple:
        number = self.a_number()
        unit = self.a_name().lower()
        if unit in ("event", "events"):
            return ("events", int(number))
        seconds = Fraction(str(number)) * SECONDS[unit]
        if seconds.denominator != 1:
            raise OracleSyntaxError("a duration is a whole number of ticks")
        return ("time", int(seconds))

    def returns(self, q: QueryRecord) -> None:
        if self.is_word("MATCHES"):
            self.at += 1
            q.matches = []
            if self.op("("):
                q.matches.append(self.a_name())
                while self.op(","):
                    q.matches.append(self.a_name())
                self.need(")")
            return
        while True:
            item = self.aggregate() if self.is_word(*AGGREGATES) else ("group", *self.attribute())
            q.returns.append((item, self.a_name() if self.word("AS") else None))
            if not self.op(","):
                return

    def aggregate(self) -> tuple:
        function = self.word(*AGGREGATES)
        if function == "COUNT" and not self.op("("):  # AGG COUNT
            return ("agg", "COUNT", None, None)
        if function == "LOG2":
            self.need("(")
            inner = self.aggregate()
            self.need(")")
            return ("agg", "LOG2", inner[2], inner[3])
        if function != "COUNT":
            self.need("(")
        name: str | None
        attr: str | tuple | None
        if function == "COUNT" and self.word("DISTINCT"):
            named = [self.a_name()]
            while self.op(","):
                named.append(self.a_name())
            function, name, attr = "COUNT DISTINCT", None, tuple(named)
        elif function != "COUNT" and self.is_word("DURATION", "LENGTH") and self.peek(1) == ("op", ")"):
            name, attr = None, self.any_word()
        elif function == "COUNT" and self.op("*"):
            name, attr = None, None
        elif function == "COUNT":
            name, attr = self.a_name(), None
        else:
            name, attr = self.attribute()
        self.need(")")
        return ("agg", function, name, attr)

    # ---- PATTERN (section 2 grammar, section 3 rewritings) ----------------------------------------

    def pattern(self) -> tuple:
        parts = [self.and_pattern()]
        while self.op("|", "∨"):
            parts.append(self.and_pattern())
        return parts[0] if len(parts) == 1 else ("or", parts)

    def and_pattern(self) -> tuple:
        parts = [self.not_pattern()]
        while self.op("&", "∧"):
            parts.append(self.not_pattern())
        return parts[0] if len(parts) == 1 else ("and", parts)

    def not_pattern(self) -> tuple:
        if self.op("!") or self.word("NOT"):
            return ("not", self.item())
        return self.item()

    def item(self) -> tuple:
        start = self.at
        node = self.atom()
        while True:
            if self.op("+"):
                node = ("plus", node)
            elif self.op("*"):
                node = ("opt", ("plus", node))  # P* is (P+)?
            elif self.op("?"):
                node = ("opt", node)
            elif self.op("{"):
                low = int(self.a_number())
                high: int | None = low
                if self.op(","):
                    high = None if self.peek() == ("op", "}") else int(self.a_number())
                self.need("}")
                node = _repeat(node, low, high)
            else:
                assert self.at > start
                return node

    def atom(self) -> tuple:
        if self.op("("):
            node = self.pattern()
            self.need(")")
            return node
        if word := self.word("SEQ", "OR", "AND"):
            self.need("(")
            parts = [self.pattern()]
            while self.op(","):
                parts.append(self.pattern())
            self.need(")")
            if word == "SEQ":
                return _sequence(parts)
            return parts[0] if len(parts) == 1 else (word.lower(), parts)
        types, name = self.typeset()
        # A bare name before RETURN never follows a type here: one query at a time.
        alias = self.a_name() if self.is_name() else None
        return ("type", types, alias, name)

    def typeset(self) -> tuple[frozenset[str] | None, str | None]:
        if not self.word("ANY"):
            name = self.a_name()
            return frozenset([name]), name
        if not self.op("("):
            return None, None
        types = [self.a_name()]
        while self.op(","):
            types.append(self.a_name())
        self.need(")")
        return frozenset(types), None

    # ---- WHERE and HAVING -----------------------------------------------------------------------

    def where(self, q: QueryRecord) -> None:
        """Conjuncts joined by AND; one in parentheses stays one conjunct."""
        while True:
            if self.op("["):
                q.equivalence.append(self.a_name())
                while self.op(","):
                    q.equivalence.append(self.a_name())
                self.need("]")
            else:
                q.conjuncts.extend(self.conjunct())
            if not self.word("AND"):
                return

    def conjunct(self) -> list[tuple]:
        start = self.at
        first = self.negation(chain := [])
        if not self.is_word("OR"):
            return chain or [first]  # A.u = B.u = C.u is A.u = B.u AND B.u = C.u
        self.at = start  # an OR outside parentheses binds weaker than every AND around it
        return [self.expression()]

    def expression(self) -> tuple:
        node = self.conjunction()
        while self.word("OR"):
            node = ("or", node, self.conjunction())
        return node

    def conjunction(self) -> tuple:
        node = self.negation()
        while self.word("AND"):
            node = ("and", node, self.negation())
        return node

    def negation(self, chain: list | None = None) -> tuple:
        if self.word("NOT"):
            return ("not", self.negation())
        return self.comparison(chain)

    def comparison(self, chain: list | None = None) -> tuple:
        left = self.sum()
        negated = bool(self.word("NOT"))
        if self.word("IN"):
            self.need("(")
            options = [self.sum()]
            while self.op(","):
                options.append(self.sum())
            self.need(")")
            node = ("in", left, options)
        elif self.word("BETWEEN"):
            low = self.sum()
            self.need("AND")
            node = ("between", left, low, self.sum())
        elif self.word("LIKE"):
            node = ("like", left, self.sum())
        elif negated:
            raise OracleSyntaxError("expected IN, BETWEEN or LIKE after NOT")
        elif self.word("IS"):
            negated = bool(self.word("NOT"))
            self.need("NULL")
            node = ("null?", left)
        elif sign := self.op(*COMPARE):
            right = self.sum()
            node = ("!=" if sign == "<>" else sign, left, right)
            links = [node]
            while sign == "=" and self.op("="):
                left, right = right, self.sum()
                links.append(("=", left, right))
                node = ("and", node, links[-1])
            if chain is not None:
                chain.extend(links)
        else:
            node = left
        return ("not", node) if negated else node

    def sum(self) -> tuple:
        node = self.product()
        while sign := self.op("+", "-"):
            node = (sign, node, self.product())
        return node

    def product(self) -> tuple:
        node = self.unary()
        while sign := self.op("*", "/", "%"):
            node = (sign, node, self.unary())
        return node

    def unary(self) -> tuple:
        if self.op("-"):
            return ("neg", self.unary())
        if self.op("+"):
            return self.unary()
        return self.operand()

    def operand(self) -> tuple:
        kind, text = self.peek()
        if kind == "number":
            number = self.a_number()
            unit, word = self.peek()
            if unit == "word" and word.lower() in SECONDS:
                self.at += 1
                return ("lit", Elapsed(Fraction(str(number)) * SECONDS[word.lower()]))
            return ("lit", number)
        if self.is_word("TIMESTAMP") and self.peek(1)[0] == "string":
            self.at += 2
            return ("lit", _time(self.tokens[self.at - 1][1][1:-1]))
        if kind == "string":
            self.at += 1
            return ("lit", text[1:-1].replace("''", "'"))
        if self.op("("):
            node = self.expression()
            self.need(")")
            return node
        if word := self.word("TRUE", "FALSE", "NULL"):
            return ("lit", {"TRUE": True, "FALSE": False, "NULL": None}[word])
        if self.word("NEXT"):
            self.need("(")
            name = self.a_name()
            self.need(")")
            self.need(".")
            return ("attr", name, self.a_name(), True)
        if self.peek(1) == ("op", "("):
            if self.is_word("ABS"):
                self.at += 2
                node = ("abs", self.expression())
                self.need(")")
                return node
            if self.is_word("TIME"):
                self.at += 2
                is_next = bool(self.word("NEXT"))
                if is_next:
                    self.need("(")
                name = self.a_name()
                if is_next:
                    self.need(")")
                self.need(")")
                return ("attr", name, TIME, is_next)
            if self.is_word(*AGGREGATES):
                return self.aggregate()
        name = self.a_name()
        return ("attr", name, self.a_name(), False) if self.op(".") else ("name", name)


def _time(text: str) -> Time:
    read = datetime.fromisoformat(text)
    read = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    ticks = (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return Time(Fraction(ticks, 1_000_000))


def _sequence(parts: list[tuple]) -> tuple:
    """SEQ(...). "Written SEQs are flattened", which matters only to a NOT first or last in one."""
    flat: list[tuple] = []
    for part in parts:
        if part[0] == "seq" and "not" in (part[1][0][0], part[1][-1][0]):
            flat.extend(part[1])
        else:
            flat.append(part)
    return ("seq", flat)


def _repeat(node: tuple, low: int, high: int | None) -> tuple:
    """Section 3: P{m,} is m-1 copies, then P+; P{m,n} is m copies, then (P(P...)?)?."""
    if high is None:
        if low == 0:
            return ("opt", ("plus", node))
        copies = [node] * (low - 1) + [("plus", node)]
    else:
        if low > high or high < 1:
            raise OracleSyntaxError("m <= n and n >= 1 in {m,n}")
        copies = [node] * low
        tail = None
        for _ in range(high - low):
            tail = ("opt", node if tail is None else ("rep", [node, tail]))
        if tail is not None:
            copies.append(tail)
    return copies[0] if len(copies) == 1 else ("rep", copies)
