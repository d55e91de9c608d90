"""Split a workload's text into one piece per query, so that errors in one query do not hide another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from trendfold.errors import Span, query_error
from trendfold.query.names import RESERVED

MAX_NESTING = 200

UNITS_US = {
    word: microseconds
    for words, microseconds in (
        ("ms millisecond milliseconds", 1_000),
        ("s sec second seconds", 1_000_000),
        ("min minute minutes", 60_000_000),
        ("h hour hours", 3_600_000_000),
        ("d day days", 86_400_000_000),
        ("week weeks", 604_800_000_000),
    )
    for word in words.split()
}
"""The units of durations, in microseconds."""

TOKEN = re.compile(
    r"""(?P<skip>[\s\ufeff]+|--[^\n]*)
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<number>[0-9][\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
"""The tokens of a text; comments and white space are `skip`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token for splitting and for messages; the grammar has its own tokens."""

    kind: str
    text: str
    span: Span

    @property
    def word(self) -> str:
        """The token in capitals if it is a word, to compare with keywords; empty otherwise."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_name(self) -> bool:
        """Whether this can be a name: quoted, or a word that is not reserved."""
        return self.kind == "quoted" or (self.kind == "word" and self.word not in RESERVED)

    @property
    def name(self) -> str:
        """The name without its quotes."""
        return unquoted(self.text) if self.kind == "quoted" else self.text


@dataclass(frozen=True, slots=True)
class Piece:
    """The tokens of one query; `next` is the first token of the next query if a `;` is missing."""

    tokens: tuple[Token, ...]
    next: Token | None = None

    @property
    def span(self) -> Span:
        """From the first token to the last."""
        return Span(self.tokens[0].span.start, self.tokens[-1].span.end)

    @property
    def name(self) -> str | None:
        """The query's name, if it is given."""
        match self.tokens:
            case [Token(word="QUERY"), Token(is_name=True) as title, *_]:
                return title.name
            case [
                Token(is_name=True) as title,
                Token(text=":") | Token(word="RETURN" | "AGG"),
                *_,
            ]:
                return title.name
        return None


def _tokens(text: str) -> list[Token]:
    return [
        Token(str(found.lastgroup), found.group(), Span(*found.span()))
        for found in TOKEN.finditer(text)
        if found.lastgroup != "skip"
    ]


def split_queries(text: str) -> list[Piece]:
    """Split at `;`, at a bare name before a second RETURN, and where a `;` must be missing."""
    tokens = _tokens(text)
    pieces: list[Piece] = []
    current: list[Token] = []
    has_return = False

    def close(following: Token | None = None) -> None:
        nonlocal has_return
        if current:
            pieces.append(Piece(tuple(current), following))
        current.clear()
        has_return = False

    for token, after in zip_longest(tokens, tokens[1:]):
        if token.text == ";":
            close()
            continue
        if current and current[-1].kind == "number" and token.text.lower() in UNITS_US:
            current.append(token)  # a unit, never the name of a query
            continue
        if has_return and token.is_name and after and after.word in ("RETURN", "AGG"):
            close()
        elif current and after and _begins_query(current, token, after):
            close(token)
        has_return = has_return or token.word in ("RETURN", "AGG")
        current.append(token)
    close()
    return pieces


def _begins_query(current: list[Token], token: Token, after: Token) -> bool:
    """`QUERY name` or `name:` in the middle of a query: the `;` before it is missing."""
    before = current[-1]
    if token.word == "EVERY" and any(each.word in ("WITHIN", "WINDOW") for each in current[-3:]):
        return False  # the colon begins a parameter, as in WITHIN 5 min EVERY :s
    if before.text in (".", ",", "(", "[") or before.word == "QUERY":
        return False
    return (token.word == "QUERY" and after.is_name) or (token.is_name and after.text == ":")


def check_nesting(piece: Piece) -> None:
    """Limit bracket nesting before parsing: later passes may recurse once per level."""
    level = 0
    for token in piece.tokens:
        level += (token.text in "([{") - (token.text in ")]}")
        if level > MAX_NESTING:
            raise query_error(f"brackets are nested deeper than {MAX_NESTING} levels", token.span)


def unquoted(text: str) -> str:
    """The content of a 'string' or a "name"; a doubled quote inside stands for one quote."""
    return text[1:-1].replace(text[0] * 2, text[0])
