"""Progress messages while kernels are compiled, which happens once per machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache
from time import monotonic

from trendfold.kernel.fold import count_windows, fold_windows
from trendfold.kernel.jit import has_compiled, watch_compiling

FIRST = "compiling, once: the first query of its kind on a machine takes up to a minute"
ON_WORKERS = (
    "compiling, once: the first query on a machine takes a minute or two, while Spark's workers compile"
)
_EVERY_S = 5.0
_LOG = logging.getLogger("trendfold.compiling")
"""Only its level counts: at ERROR nothing is printed."""


def _to_stderr(line: str) -> None:
    if _LOG.isEnabledFor(logging.WARNING):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class Teller:
    """Prints a line when compilation begins, and then every few seconds the number of finished kernels."""

    def __init__(
        self, say: Callable[[str], None] = _to_stderr, clock: Callable[[], float] = monotonic
    ) -> None:
        self.say, self.clock = say, clock
        self.began = self.last = 0.0

    def __call__(self, kernels: int) -> None:
        """Called when another kernel begins to compile, after `kernels` others."""
        now = self.clock()
        if kernels == 0:
            self.began = self.last = now
            self.say(FIRST)
        elif now - self.last >= _EVERY_S:
            self.last = now
            self.say(f"compiling, once: {kernels} kernels in {now - self.began:.0f} s")


@cache
def tell_of_compiling() -> None:
    """Print progress of all compilation in this process from now on."""
    watch_compiling(Teller())


@cache
def tell_of_compiling_on_workers() -> None:
    """Announce that Spark's workers compile, unless kernels were already compiled on this machine."""
    if not has_compiled(fold_windows) and not has_compiled(count_windows):
        _to_stderr(ON_WORKERS)
