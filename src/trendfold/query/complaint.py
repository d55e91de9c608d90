"""Readable syntax errors: what was found, what was expected, and what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

from lark import UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from trendfold.errors import QueryError, Span, query_error
from trendfold.query.builder import FUNCTION_HINTS, grammar
from trendfold.query.names import RESERVED
from trendfold.query.split import Piece, Token

_CLAUSES = "RETURN PATTERN SEMANTICS WHERE GROUP_BY HAVING WITHIN SLIDE LIMIT INCLUDE".split()

_LITERAL = "NUMBER STRING TRUE FALSE NULL MINUS TIMESTAMP PARAMETER"
_OPERATORS = "PLUS MINUS STAR SLASH PERCENT COMPARE _IS IN BETWEEN LIKE NOT _AND _OR"

# (terminals that must all be possible, their description, terminals it covers), tried in this order
_PHRASES: tuple[tuple[str, str, str], ...] = (
    ("_SEQ", "a pattern", "_SEQ _OR _AND NOT BANG LPAR NAME TRUE FALSE NULL ANY"),
    ("NUMBER NAME", "a value", f"{_LITERAL} NOT NEXT FUNCTION LPAR LSQB NAME"),
    ("NUMBER STRING", "a literal", _LITERAL),
    ("FUNCTION NAME", "an attribute or an aggregate", "FUNCTION NAME MATCHES COUNT"),
    ("QMARK", "a repetition such as '+'", "PLUS STAR QMARK LBRACE"),
    ("_OR_SIGN", "'|' or '&'", "_OR_SIGN _AND_SIGN"),
    ("COMPARE PLUS", "an operator", f"{_OPERATORS} DURATION_UNIT"),
    ("PLUS DURATION_UNIT", "an operator", f"{_OPERATORS} DURATION_UNIT"),
    ("_AND", "AND or OR", "_AND _OR"),
    ("NUMBER", "a number", "NUMBER MINUS PARAMETER"),
    ("STRING", "a 'string'", "STRING PARAMETER"),
    ("NAME", "a name", "NAME"),
    ("UNIT", "a unit such as 'min' or 'events'", "UNIT"),
    ("SEMANTICS_WORD", "skip-till-any-match, skip-till-next-match or contiguous", "SEMANTICS_WORD"),
    ("_QUERY", "QUERY", "_QUERY"),
    ("PATTERN", "a clause", " ".join([*_CLAUSES, "AGG", "WINDOW", "EVERY", "ONCE", "$END"])),
    ("RETURN", "RETURN", "RETURN AGG"),
    ("$END", "the end of the query", "$END"),
)

_SIGN_HINTS = {
    "==": "equality is written =",
    "&&": "write AND",
    "||": "write OR",
    "=>": "write >=",
    "=<": "write <=",
    "=!": "write !=",
    "->": "events that come one after the other are written SEQ(A, B)",
    "/*": "a comment begins with -- and ends with the line",
    "//": "a comment begins with -- and ends with the line",
}
_DURATION = "write the duration as it is, as in WITHIN 5 min"
_SLIDING = "windows are written WITHIN 10 min SLIDE 1 min"
_FOREIGN = {
    "SELECT": "a query begins with RETURN",
    "FROM": "a query names no table: pass the events to run, and name event types in PATTERN",
    "JOIN": "events are combined by PATTERN, as in SEQ(A, B)",
    "ON": "conditions go to WHERE",
    "ORDER": "results are ordered by window and group",
    "PARTITION": "write WHERE [a] to keep trends within one value of a, or GROUP BY a to get a row for each",
    "MATCH_RECOGNIZE": "a query is RETURN ... PATTERN ... WHERE ...; (A B+) is written SEQ(A, B+)",
    "DEFINE": "conditions go to WHERE, as in WHERE A.x > 1; A is a value of the type column",
    "MEASURES": "aggregates go to RETURN, as in RETURN SUM(A.x)",
    "AFTER": "SEMANTICS says which events a trend may skip",
    "DISTINCT": "COUNT(DISTINCT a) counts values of WHERE [a] or GROUP BY a; COUNT(T) the events in trends",
    "INTERVAL": _DURATION,
    "EVERY": "EVERY comes directly after WITHIN, as in WITHIN 10 min EVERY 1 h",
    "ONCE": "ONCE comes directly after WITHIN, as in WITHIN 10 min ONCE",
    "TUMBLING": _SLIDING,
    "TUMBLE": _SLIDING,
    "HOP": _SLIDING,
    "TOP": "RETURN MATCHES takes LIMIT n at the end",
    "FETCH": "RETURN MATCHES takes LIMIT n at the end",
    "ILIKE": "write LIKE, which is case-sensitive",
    "WITH": "a query begins with RETURN",
    "UNION": "queries are separated by ';' and answered together",
}
"""Hints for keywords known from SQL."""


def syntax_error(text: str, piece: Piece, error: UnexpectedInput) -> QueryError:
    """What was found, what was expected there, and a guess at what was meant."""
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    start = piece.span.end if at_end else cast(int, error.pos_in_stream)
    index = next((i for i, t in enumerate(piece.tokens) if t.span.end > start), len(piece.tokens))
    found = piece.tokens[index] if index < len(piece.tokens) else None
    if isinstance(error, UnexpectedCharacters) and found and found.text in "'\"":
        if text[start : start + 2] == '""':
            return query_error("a quoted name is empty", Span(start, start + 2))
        what = "string" if found.text == "'" else "quoted name"
        return query_error(f"this {what} is not closed", found.span, f"end it with {found.text}")
    possible = _possible(error)
    message = f"expected {_expected(possible)}, found {repr(found.text) if found else 'the end of the query'}"
    return query_error(
        message,
        found.span if found else Span(start, start),
        _hint(text, piece.tokens[:index], found, possible) if found else "",
    )


def _possible(error: UnexpectedInput) -> set[str]:
    """The terminals the parser would have accepted."""
    interactive = getattr(error, "interactive_parser", None)
    return set(interactive.accepts()) if interactive is not None else set()


def _expected(possible: set[str]) -> str:
    left, phrases = set(possible), []
    for needed, phrase, covered in _PHRASES:
        if left.issuperset(needed.split()):
            phrases.append(phrase)
            left -= set(covered.split())
    phrases = sorted(_spelling(terminal) for terminal in left) + phrases
    return " or ".join(filter(None, [", ".join(phrases[:-1]), phrases[-1]])) if phrases else "nothing more"


def _spelling(terminal: str) -> str:
    pattern = grammar().get_terminal(terminal).pattern
    return f"'{pattern.value}'" if isinstance(pattern, PatternStr) else terminal.strip("_").replace("_", " ")


def _hint(text: str, before: Sequence[Token], found: Token, possible: set[str]) -> str:
    """A guess at what was meant: another operator, a misspelt clause, a reserved word used as a name."""
    last = before[-1] if before else None
    start = found.span.start
    for sign in (text[start : start + 2], text[start - 1 : start + 1]):
        if sign in _SIGN_HINTS:
            return _SIGN_HINTS[sign]
    if found.text == "#":
        return _SIGN_HINTS["//"]
    if found.text == "!" and "NUMBER" in possible:
        return "write NOT"
    if found.kind == "string" and "NUMBER" in possible:
        return _DURATION
    if hint := _call_hint(before, found):
        return hint
    if found.word in ("AND", "OR") and "_OR_SIGN" in possible:
        return f"between patterns, {found.word} is written {'&' if found.word == 'AND' else '|'}"
    if found.word in RESERVED - {"GROUP"} and "NAME" in possible and not possible & {"RPAR", "PATTERN"}:
        return f'{found.text!r} is a reserved word; as a name it is written "{found.text}"'
    for token in filter(None, (found, last)):
        if token.word in _FOREIGN:
            return _FOREIGN[token.word]
    if "PATTERN" in possible and (guess := _clause_guess(found)):
        return guess
    if last is not None and (guess := _clause_guess(last)):
        return guess.replace("?", f" instead of {last.text!r}?")
    return _alias_hint(last, found) if last is not None and found.is_name and "QMARK" in possible else ""


def _call_hint(before: Sequence[Token], found: Token) -> str:
    """A hint for a call with a misplaced dot, and for RETURN *."""
    match [token.word or token.text for token in before[-4:]], found.text:
        case [*_, "NEXT", "(", _], ".":
            return f"NEXT takes an alias, as in NEXT({before[-1].text}).x"
        case [word, "(", _, ")"], "." if word in FUNCTION_HINTS:
            return FUNCTION_HINTS[word]
        case [*_, "RETURN"], "*":
            return "RETURN MATCHES gives the events of trends, RETURN COUNT(*) how many trends there are"
    return ""


def _alias_hint(last: Token, found: Token) -> str:
    """A hint for a name after a complete pattern: after a repetition, after AS, or with a missing comma."""
    if last.word == "AS":
        return f"an alias follows its type without AS, as in Travel {found.text}"
    if last.text in ("+", "*", "?"):
        alias = f"an alias comes before {last.text!r}, as in Travel {found.text}{last.text}"
        return f"{alias}; what comes next stands after a comma, as in SEQ(A{last.text}, {found.text})"
    return f"events that come one after the other are written SEQ(A, {found.text})"


def _clause_guess(token: Token) -> str:
    """A hint naming the clause a word may misspell."""
    if not (token.word and token.is_name) and token.word != "GROUP":
        return ""
    clauses = [clause.replace("_", " ") for clause in _CLAUSES]
    close = get_close_matches(token.word, clauses, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else ""
