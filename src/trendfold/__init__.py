"""trendfold answers pattern questions over event streams without building the matches."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trendfold import datasets
    from trendfold.api import Workload, parse, read
    from trendfold.errors import (
        InputError,
        LimitError,
        QueryError,
        RejectError,
        TrendfoldError,
        UnsupportedError,
    )

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "LimitError",
    "QueryError",
    "RejectError",
    "TrendfoldError",
    "UnsupportedError",
    "Workload",
    "datasets",
    "parse",
    "read",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for: the command line must listen for Ctrl-C before pyarrow is loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "datasets":
        return import_module("trendfold.datasets")
    module = import_module("trendfold.errors" if name.endswith("Error") else "trendfold.api")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
