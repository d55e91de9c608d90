"""The query language: `parse` turns text into checked queries, `to_text` prints them."""

from trendfold.query.builder import read_duration
from trendfold.query.caution import caution_text, cautions
from trendfold.query.check import check, check_columns
from trendfold.query.names import (
    PredicateKind,
    columns,
    default_column,
    having_value,
    key_column,
    kind,
    list_names,
    named,
    needed_columns,
    refs,
    stands_for,
)
from trendfold.query.nodes import Query
from trendfold.query.parser import parse, read_literal
from trendfold.query.printer import expression_text, pattern_text, to_text

__all__ = [
    "PredicateKind",
    "Query",
    "caution_text",
    "cautions",
    "check",
    "check_columns",
    "columns",
    "default_column",
    "expression_text",
    "having_value",
    "key_column",
    "kind",
    "list_names",
    "named",
    "needed_columns",
    "parse",
    "pattern_text",
    "read_duration",
    "read_literal",
    "refs",
    "stands_for",
    "to_text",
]
