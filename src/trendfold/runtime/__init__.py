"""Plans + events -> results. RUNTIMES names the module of each engine; it is imported on first use."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trendfold.errors import UnsupportedError
from trendfold.events.sources import as_files, size_on_disk

RUNTIMES = {"local": "trendfold.runtime.local", "spark": "trendfold.runtime.spark.engine"}
FUNNELS = {"local": "trendfold.runtime.funnels", "spark": "trendfold.runtime.spark.funnel_frames"}
"""The same for funnels: `read` opens a source, `count` counts the keys of each step."""


def runtime(engine: str, modules: Mapping[str, str] = RUNTIMES) -> ModuleType:
    """The module that runs plans on an engine: `read` opens a source, `run` answers queries over it."""
    if engine not in modules:
        there = ", ".join(repr(name) for name in modules)
        raise UnsupportedError(f"engine {engine!r} is not there; choose one of {there}")
    if engine == "spark" and not has_spark():
        raise UnsupportedError(
            "engine 'spark' needs pyspark: pip install 'trendfold[spark]'; or choose 'local'"
        )
    return import_module(modules[engine])


NO_SPARK = "pyspark is not installed (pip install 'trendfold[spark]'): running locally"
SMALL_INPUT = 256 << 20
"""Files of fewer bytes in all are folded before Spark would have started."""


def engine_for(data: Any) -> tuple[str, tuple[str, ...]]:
    """The engine for some data where none is asked for, and a notice where the choice may surprise.

    Spark takes its own DataFrames, and files where a session runs already or where they are large. Tables in
    memory and small files are answered in this process.
    """
    if type(data).__module__.startswith("pyspark."):
        return "spark", ()
    files = as_files(data)
    if files is None:
        return "local", ()
    if not has_spark():
        return "local", (NO_SPARK,)
    if runs_spark():
        return "spark", ()
    size = size_on_disk(files)
    if size is None or size >= SMALL_INPUT:
        return "spark", ()
    told = f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"
    return "local", (f"an input of {told} is answered in this process, without Spark",)


def runs_spark() -> bool:
    """Whether this process has a Spark session, or was started to talk to one."""
    if {"SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"} & set(os.environ):  # a Connect server; spark-submit
        return True
    if "pyspark" not in sys.modules:
        return False
    return bool(import_module("trendfold.runtime.spark.session").has_session())


def has_spark() -> bool:
    """Whether pyspark is installed."""
    return find_spec("pyspark") is not None
