"""The CPU seconds of a first run where nothing is compiled: a process of its own with an empty cache.

A line is the import of the package and one small run of some queries; `events` counts first runs, so 0.1
events/s is a first run of ten seconds.

    python -m trendfold.bench.compile_bench "50 queries"     one line, as JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any

from trendfold.bench.harness import Case, Promise, Report, Timed
from trendfold.errors import InputError, nearest

EVENTS = 20_000
LANES = "50 queries of every kind, lanes alone"
"""The line that counts only what compiles kernels of lanes."""

_TEXT = "RETURN {} PATTERN {} {} WITHIN 1000 s SLIDE {} s"
_COUNT = _TEXT.format("COUNT(*)", "SEQ(A, B+, C)", "{}", 1_000)


def _kinds() -> Mapping[str, tuple[tuple[str, ...], int]]:
    """Per line its queries, with a place for a condition, and how many of each."""
    from trendfold.bench.many_queries import KINDS

    overlaps = _TEXT.format("COUNT(*)", "SEQ(A, B+, C)", "{}", 100)
    each = (
        _TEXT.format("MIN(B.x), MAX(B.x)", "SEQ(A, B+, C)", "{}", 1_000),
        *(text for text, _ in KINDS.values()),
    )
    return {
        "a query": ((_COUNT,), 1),
        "a query with NOT": ((_TEXT.format("COUNT(*)", "SEQ(A, B+, NOT D)", "{}", 1_000),), 1),
        "a query with GROUP BY B.h": ((_COUNT.replace("WITHIN", "GROUP BY B.h WITHIN"),), 1),
        "a query in overlapping windows": ((overlaps,), 1),
        "50 queries": ((_COUNT,), 50),
        "50 queries of every kind": (each, 50),
        LANES: (each, 50),
    }


PROMISED_S = {"a query": 6.0, LANES: 8.0}
"""The most CPU seconds of some lines."""


def cases(seed: int, scale: float) -> list[Case]:
    """One line per kind."""
    found = []
    for kind in _kinds():
        promises = (Promise(1 / PROMISED_S[kind]),) if kind in PROMISED_S else ()
        found.append(Case(kind, partial(_first_run, kind, seed), 1, promises=promises))
    return found


def notes(report: Report) -> tuple[str, ...]:
    """The lines in seconds."""
    return tuple(f"{line.name}: {line.median_s:.1f} s of CPU time" for line in report.measurements)


def _first_run(kind: str, seed: int) -> Timed:
    """The seconds of a line, and those of every kernel."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", "trendfold.bench.compile_bench", kind, str(seed)]
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty}
        told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = json.loads(told.splitlines()[-1])
    return Timed(found["seconds"], found["kernels"])


# ---------------------------------------------------------------- in a process of its own


def measured(kind: str, seed: int) -> dict[str, Any]:
    """Run a line here: its seconds since the process began, and those of every kernel, longest first."""
    kinds = _kinds()
    if kind not in kinds:
        hint = nearest(kind, kinds) or f"choose one of {', '.join(kinds)}"
        raise InputError(f"unknown line {kind!r}; {hint}")
    kernels = _seconds_of_kernels(lambda: _run(*kinds[kind], seed))
    longest = dict(sorted(kernels.items(), key=lambda each: -each[1]))
    of_lanes = sum(seconds for name, seconds in kernels.items() if "lane" in name)
    return {"seconds": of_lanes if kind == LANES else process_time(), "kernels": longest}


def _run(texts: tuple[str, ...], queries: int, seed: int) -> None:
    from trendfold.api import parse
    from trendfold.bench.many_queries import mixed_events
    from trendfold.bench.ways import run

    table = mixed_events(seed, EVENTS)
    for text in texts:
        conditions = (f"WHERE B.v > {500 * i // queries}" for i in range(queries))
        run(table, parse(";".join(map(text.format, conditions))).queries, "auto", unit="s")()


def _seconds_of_kernels(work: Callable[[], None]) -> dict[str, float]:
    """CPU seconds that each function takes to compile, without the functions that it calls."""
    from numba.core import event

    found: dict[str, float] = {}
    open_: list[list[float]] = []  # when each began, and what was compiled inside

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:
            open_.append([process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            began, inside = open_.pop()
            seconds, function = process_time() - began, event.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__name__}"
            found[name] = found.get(name, 0.0) + seconds - inside
            if open_:
                open_[-1][1] += seconds

    with event.install_listener("numba:compile", Watch()):
        work()
    return found


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
