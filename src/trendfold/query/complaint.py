"""Syntax errors in human words: what was found, what could have stood there, and what may have been meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import cast

from lark import UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.lexer import PatternStr

from trendfold.errors import QueryError, Span, query_error
from trendfold.query.builder import grammar
from trendfold.query.names import RESERVED
from trendfold.query.pieces import Piece, Token

_CLAUSES = "RETURN PATTERN SEMANTICS WHERE GROUP_BY HAVING WITHIN SLIDE LIMIT".split()

# (terminals that must all be possible, what to call them, terminals it covers), tried in this order
_PHRASES: tuple[tuple[str, str, str], ...] = (
    ("_SEQ", "a pattern", "_SEQ _OR _AND NOT BANG LPAR NAME TRUE FALSE NULL"),
    ("NUMBER NAME", "a value", "NUMBER STRING TRUE FALSE NULL MINUS NOT NEXT FUNCTION LPAR LSQB NAME"),
    ("NUMBER STRING", "a literal", "NUMBER STRING TRUE FALSE NULL MINUS"),
    ("FUNCTION NAME", "an attribute or an aggregate", "FUNCTION NAME MATCHES COUNT"),
    ("QMARK", "a repetition such as '+'", "PLUS STAR QMARK LBRACE"),
    ("_OR_SIGN", "'|' or '&'", "_OR_SIGN _AND_SIGN"),
    ("COMPARE PLUS", "an operator", "PLUS MINUS STAR SLASH PERCENT COMPARE _IS IN BETWEEN LIKE NOT _AND _OR"),
    ("_AND", "AND or OR", "_AND _OR"),
    ("NUMBER", "a number", "NUMBER MINUS"),
    ("STRING", "a 'string'", "STRING"),
    ("NAME", "a name", "NAME"),
    ("UNIT", "a unit such as 'min' or 'events'", "UNIT"),
    ("SEMANTICS_WORD", "skip-till-any-match, skip-till-next-match or contiguous", "SEMANTICS_WORD"),
    ("_QUERY", "QUERY", "_QUERY"),
    ("PATTERN", "a clause", " ".join([*_CLAUSES, "AGG", "WINDOW", "$END"])),
    ("RETURN", "RETURN", "RETURN AGG"),
    ("$END", "the end of the query", "$END"),
)

_SIGN_HINTS = {"==": "equality is written =", "&&": "write AND", "||": "write OR"}
_FOREIGN = {"SELECT": "a query begins with RETURN", "ORDER": "results are ordered by window and group"}


def syntax_error(text: str, piece: Piece, error: UnexpectedInput) -> QueryError:
    """What was found, what was expected there, and a guess at what was meant."""
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    start = piece.span.end if at_end else cast(int, error.pos_in_stream)
    index = next((i for i, t in enumerate(piece.tokens) if t.span.end > start), len(piece.tokens))
    found = piece.tokens[index] if index < len(piece.tokens) else None
    before = piece.tokens[index - 1] if index else None
    if isinstance(error, UnexpectedCharacters) and found and found.text in "'\"":
        if text[start : start + 2] == '""':
            return query_error("a quoted name is empty", Span(start, start + 2))
        what = "string" if found.text == "'" else "quoted name"
        return query_error(f"this {what} is not closed", found.span, f"end it with {found.text}")
    possible = _possible(error)
    message = f"expected {_expected(possible)}, found {repr(found.text) if found else 'the end of the query'}"
    return query_error(
        message, found.span if found else Span(start, start), _hint(text, before, found, possible)
    )


def _possible(error: UnexpectedInput) -> set[str]:
    """The terminals after which parsing could have gone on."""
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


def _hint(text: str, before: Token | None, found: Token | None, possible: set[str]) -> str:
    """A guess at what was meant: another sign, a misspelt clause, a reserved word as a name."""
    if found is None:
        return ""
    start = found.span.start
    for sign in (text[start : start + 2], text[start - 1 : start + 1]):
        if sign in _SIGN_HINTS:
            return _SIGN_HINTS[sign]
    if found.word in ("AND", "OR") and "_OR_SIGN" in possible:
        return f"between patterns, {found.word} is written {'&' if found.word == 'AND' else '|'}"
    if found.word in RESERVED - {"GROUP"} and "NAME" in possible and not possible & {"RPAR", "PATTERN"}:
        return f'{found.text!r} is a reserved word; as a name it is written "{found.text}"'
    if "PATTERN" in possible and (guess := _clause_guess(found)):
        return guess
    if before is not None and (guess := _clause_guess(before)):
        return guess.replace("?", f" instead of {before.text!r}?")
    return ""


def _clause_guess(token: Token) -> str:
    """The clause a word may be a misspelling of."""
    if not (token.word and token.is_name) and token.word != "GROUP":
        return ""
    clauses = [clause.replace("_", " ") for clause in _CLAUSES]
    close = get_close_matches(token.word, clauses, n=1, cutoff=0.7)
    return _FOREIGN.get(token.word) or (f"did you mean {close[0]!r}?" if close else "")
