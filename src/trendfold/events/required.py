"""The columns that options name: each is there, once, and of a type that can be what it is said to be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from trendfold.errors import InputError, nearest
from trendfold.events.columns import kind_of
from trendfold.events.schema import Kind

if TYPE_CHECKING:
    from trendfold.events.batch import Options


def require_columns(schema: pa.Schema, options: Options, names: Iterable[str] | None = None) -> None:
    """Raise one InputError with every column that is missing, doubled or of a wrong type.

    `names` are all columns there are, where `schema` has only those that are needed.
    """
    problems = _missing(list(schema.names if names is None else names), options)
    counts = Counter(schema.names)
    problems += [
        f"column {name!r} is there more than once; rename one" for name in sorted(counts) if counts[name] > 1
    ]
    if not problems:
        problems = [told for option, name in options.named.items() if (told := _misfit(schema, option, name))]
        problems += _not_text(schema, options)
    if problems:
        raise InputError("\n".join(problems))


def _missing(names: Sequence[str], options: Options) -> list[str]:
    found = []
    for option, name in options.named.items():
        if name not in names:
            hint = nearest(name, names) or f"columns are {', '.join(names)}"
            found.append(f"there is no column {name!r} ({option}); {hint}")
    return [*found, *_text_hints(names)] if found else []


# ---------------------------------------------------------------- types


def _casts_to_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _casts_to_text(type_.value_type)
    try:
        pa.array([], type_).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


_FITS: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "type_column": (_casts_to_text, "types are text, or numbers that are taken as text"),
    "time_column": (
        lambda type_: kind_of(type_) not in (Kind.BOOLEAN, Kind.OTHER),
        "times are timestamps, numbers or text",
    ),
    "order_column": (lambda type_: kind_of(type_) is not Kind.OTHER, "an order is numbers, times or text"),
    "id_column": (lambda type_: not pa.types.is_nested(type_), "an id is a number, a time or text"),
}


def _misfit(schema: pa.Schema, option: str, name: str) -> str:
    """What is wrong with the type of a column, or nothing."""
    fits, wanted = _FITS[option]
    given = schema.field(name).type
    return "" if fits(given) else f"column {name!r} ({option}) is of type {given}; {wanted}"


def _not_text(schema: pa.Schema, options: Options) -> list[str]:
    given = schema.field(options.time_column).type
    if options.time_format is None or kind_of(given) in (Kind.STRING, Kind.INTEGER, Kind.NULL):
        return []
    return [
        f"column {options.time_column!r} (time_column) is of type {given}, and time_format is for text or "
        f"whole numbers; leave it out"
    ]


# ---------------------------------------------------------------- text files that were read another way


def _text_hints(names: Sequence[str]) -> list[str]:
    """What a CSV file that was read with a wrong delimiter or header looks like."""
    if len(names) == 1:
        for delimiter in ";\t|,":
            if delimiter in names[0]:
                shown = repr(delimiter)
                return [
                    f"the file seems to be separated by {shown}: pass csv={{'delimiter': {shown}}}, on the "
                    f"command line --csv-delimiter {shown}"
                ]
    if any(_VALUE.fullmatch(name) for name in names):
        return [
            "the first line looks like data: pass csv={'header': False, 'schema': 'NAME TYPE, ...'}, on the "
            "command line --csv-header no with --schema"
        ]
    return []


_VALUE = re.compile(r"\s*([+-]?\d+(\.\d*)?([eE][+-]?\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?)\s*")
"""A number or a date."""
