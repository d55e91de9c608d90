"""`trendfold stream` that ends itself by SIGKILL at a chosen point: `python -m chaos.job POINT:N ...`.

The points are put around functions of the library from outside; the library knows nothing of them.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from trendfold.cli import main
from trendfold.runtime.places import Place
from trendfold.runtime.spark import sinks, stream

Where = Callable[[tuple[Any, ...]], bool]


def _is_batch(given: tuple[Any, ...]) -> bool:
    return "batch=" in given[0].path


def _is_manifest(given: tuple[Any, ...]) -> bool:
    return bool(given[0].path.endswith("workload.json"))


def _is_tally(given: tuple[Any, ...]) -> bool:
    return bool(given[0].path.endswith("tally.json"))


def _always(given: tuple[Any, ...]) -> bool:
    return True


POINTS: dict[str, tuple[Any, str, Where, bool]] = {
    "before-rename": (Place, "become", _is_batch, True),
    "after-rename": (Place, "become", _is_batch, False),
    "after-sink": (sinks.FolderSink, "write", _always, False),
    "before-tally": (Place, "write", _is_tally, True),
    "after-tally": (Place, "write", _is_tally, False),
    "before-manifest": (Place, "write", _is_manifest, True),
    "after-manifest": (Place, "write", _is_manifest, False),
    "before-flush": (stream.Handle, "_flush", _always, True),
    "after-flush": (stream.Handle, "_flush", _always, False),
}
"""Owner, function, for which calls, and whether before the call or after it."""


def arm(point: str, times: int) -> None:
    """Kill this process and all it started when the point is reached for the n-th time."""
    owner, name, where, is_before = POINTS[point]
    function = getattr(owner, name)
    left = [times]

    @functools.wraps(function)
    def wrapped(*given: Any, **named: Any) -> Any:
        counts = where(given)
        left[0] -= counts
        if counts and is_before and not left[0]:
            _die()
        result = function(*given, **named)
        if counts and not is_before and not left[0]:
            _die()
        return result

    setattr(owner, name, wrapped)


def _die() -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] != "-":
        named, _, number = sys.argv[1].partition(":")
        arm(named, int(number))
    sys.exit(main(sys.argv[2:]))
