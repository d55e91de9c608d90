"""trendfold answers pattern questions over event streams without building the matches."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trendfold import datasets, testing
    from trendfold.api import Workload, funnel, parse, query, read
    from trendfold.errors import (
        InputError,
        LimitError,
        QueryError,
        RejectError,
        TrendfoldError,
        UnsupportedError,
    )
    from trendfold.query.in_python import (
        DURATION,
        LENGTH,
        any_event,
        any_of,
        col,
        count,
        count_distinct,
        event,
        events,
        jointly,
        log2,
        matches,
        mean,
        same,
        seq,
        time,
    )
    from trendfold.query.in_python import max_ as max  # noqa: F401
    from trendfold.query.in_python import min_ as min  # noqa: F401
    from trendfold.query.in_python import next_ as next  # noqa: F401
    from trendfold.query.in_python import sum_ as sum  # noqa: F401

__version__ = "0.2.0"

__all__ = [
    "DURATION",
    "LENGTH",
    "InputError",
    "LimitError",
    "QueryError",
    "RejectError",
    "TrendfoldError",
    "UnsupportedError",
    "Workload",
    "any_event",
    "any_of",
    "col",
    "count",
    "count_distinct",
    "datasets",
    "event",
    "events",
    "funnel",
    "jointly",
    "log2",
    "matches",
    "mean",
    "parse",
    "query",
    "read",
    "same",
    "seq",
    "testing",
    "time",
]

_API = ("Workload", "funnel", "parse", "query", "read")
NAMED_AS_BUILTINS = ("max", "min", "next", "sum")
"""Functions named like Python's own: `from trendfold import *` leaves them out."""


def __getattr__(name: str) -> Any:
    """Import what is asked for: the command line must listen for Ctrl-C before pyarrow is loaded."""
    if name not in __all__ and name not in NAMED_AS_BUILTINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = _find(name)
    return found


def _function(name: str) -> property:
    return property(lambda _: _find(name), lambda _, room: None)


class _Package(ModuleType):
    """This package: these two are functions, also after Python has imported the rooms of the same names."""

    events = _function("events")
    query = _function("query")


sys.modules[__name__].__class__ = _Package


def _find(name: str) -> Any:
    if name in ("datasets", "testing"):
        return import_module(f"trendfold.{name}")
    if name.endswith("Error"):
        return getattr(import_module("trendfold.errors"), name)
    if name in _API:
        return getattr(import_module("trendfold.api"), name)
    return getattr(
        import_module("trendfold.query.in_python"), f"{name}_" if name in NAMED_AS_BUILTINS else name
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *NAMED_AS_BUILTINS})
