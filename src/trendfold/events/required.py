"""Check the columns named by options: each exists, is unique, and has a suitable type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

import pyarrow as pa

from trendfold.errors import InputError, nearest
from trendfold.events.columns import kind_of
from trendfold.events.options import Options
from trendfold.events.schema import Kind


def require_columns(schema: pa.Schema, options: Options) -> None:
    """Raise one InputError listing every column that is missing, duplicated or of the wrong type."""
    require_names(schema.names, options, schema.names)
    problems = [told for option, name in options.named.items() if (told := _misfit(schema, option, name))]
    _raise([*problems, *_not_text(schema, options)])


def require_names(names: Sequence[str], options: Options, needed: Collection[str]) -> None:
    """Raise one InputError listing every missing column and every duplicated column that is needed."""
    counts = Counter(names)
    doubled = sorted(name for name in counts if counts[name] > 1 and name in needed)
    told = [f"column {name!r} exists more than once; rename one" for name in doubled]
    _raise([*_missing(names, options), *told])


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise InputError("\n".join(problems))


def _missing(names: Sequence[str], options: Options) -> list[str]:
    missing = {option: name for option, name in options.named.items() if name not in names}
    there, misread = f"columns are {', '.join(names)}", _misread(names)
    found = []
    for option, name in missing.items():
        hint = there if misread else _hint(option, name, names) or there
        found.append(f"there is no column {name!r} ({option}); {hint}")
    return [*found, misread] if found and misread else found


def _hint(option: str, name: str, names: Sequence[str]) -> str:
    """The nearest name; a default is hardly anybody's misspelling, so there a name must be very near."""
    is_default, lower = name == getattr(Options(), option), [other.lower() for other in names]
    if not is_default or get_close_matches(name, lower, cutoff=_VERY_NEAR):
        return nearest(name, names)
    what = "type" if option == "type_column" else "time"
    return f"name the column that has the {what} of each event: {', '.join(names)}"


_VERY_NEAR = 0.8
"""As difflib compares: one letter of four or five."""


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


# ---------------------------------------------------------------- text files read with wrong options


def _misread(names: Sequence[str]) -> str:
    """A hint if column names suggest a CSV file read with the wrong delimiter or header option."""
    if len(names) == 1:
        for delimiter in ";\t|,":
            if delimiter in names[0]:
                shown = repr(delimiter)
                return (
                    f"the file seems to be separated by {shown}: pass csv={{'delimiter': {shown}}}, on the "
                    f"command line --csv-delimiter {shown}"
                )
    if any(_VALUE.fullmatch(name) for name in names):
        return (
            "the first line looks like data: pass csv={'header': False, 'schema': 'NAME TYPE, ...'}, on the "
            "command line --csv-header no with --schema"
        )
    return ""


_VALUE = re.compile(r"\s*([+-]?\d+(\.\d*)?([eE][+-]?\d+)?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?)\s*")
"""A number or a date."""
