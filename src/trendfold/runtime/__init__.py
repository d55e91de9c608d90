"""Plans + events -> results. RUNTIMES names the module of each engine; it is imported on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from trendfold.errors import UnsupportedError

RUNTIMES = {"local": "trendfold.runtime.local"}


def runtime(engine: str) -> ModuleType:
    """The module that runs plans on an engine."""
    if engine not in RUNTIMES:
        there = ", ".join(repr(name) for name in RUNTIMES)
        raise UnsupportedError(f"engine {engine!r} is not there; choose one of {there}")
    return import_module(RUNTIMES[engine])
