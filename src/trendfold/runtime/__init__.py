"""Plans + events -> results. RUNTIMES names the module of each engine; it is imported on first use."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trendfold.errors import UnsupportedError
from trendfold.events.sources import as_files

RUNTIMES = {"local": "trendfold.runtime.local", "spark": "trendfold.runtime.spark.engine"}


def runtime(engine: str) -> ModuleType:
    """The module that runs plans on an engine: `read` opens a source, `run` answers queries over it."""
    if engine not in RUNTIMES:
        there = ", ".join(repr(name) for name in RUNTIMES)
        raise UnsupportedError(f"engine {engine!r} is not there; choose one of {there}")
    if engine == "spark" and not has_spark():
        raise UnsupportedError(
            "engine 'spark' needs pyspark: pip install 'trendfold[spark]'; or choose 'local'"
        )
    return import_module(RUNTIMES[engine])


NO_SPARK = "pyspark is not installed (pip install 'trendfold[spark]'): running locally"


def engine_for(data: Any) -> tuple[str, tuple[str, ...]]:
    """Spark for its own DataFrames and for paths, otherwise local; and a notice where pyspark is missing."""
    if type(data).__module__.startswith("pyspark."):
        return "spark", ()
    if as_files(data) is None:
        return "local", ()
    return ("spark", ()) if has_spark() else ("local", (NO_SPARK,))


def has_spark() -> bool:
    """Whether pyspark is installed."""
    return find_spec("pyspark") is not None
