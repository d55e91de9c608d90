"""trendfold answers pattern questions over event streams without building the matches."""

from trendfold import datasets
from trendfold.api import Workload, parse, read
from trendfold.errors import InputError, LimitError, QueryError, RejectError, TrendfoldError, UnsupportedError

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
