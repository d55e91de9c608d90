"""Tells a person who waits that kernels are being compiled, which happens once per machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from time import monotonic

from trendfold.kernel.fold import fold_windows
from trendfold.kernel.jit import has_compiled, watch_compiling

FIRST = "compiling, once: the first query of its kind on a machine takes up to a minute"
ON_WORKERS = (
    "compiling, once: the first query on a machine takes a minute or two, while Spark's workers compile"
)
_EVERY_S = 5.0


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Teller:
    """Says a line when compiling begins, and then how many kernels are done every few seconds."""

    def __init__(
        self, say: Callable[[str], None] = _to_stderr, clock: Callable[[], float] = monotonic
    ) -> None:
        self.say, self.clock = say, clock
        self.began = self.last = 0.0

    def __call__(self, kernels: int) -> None:
        """Another kernel begins to compile, after so many others."""
        now = self.clock()
        if kernels == 0:
            self.began = self.last = now
            self.say(FIRST)
        elif now - self.last >= _EVERY_S:
            self.last = now
            self.say(f"compiling, once: {kernels} kernels in {now - self.began:.0f} s")


@cache
def tell_of_compiling() -> None:
    """From now on, in this process."""
    watch_compiling(Teller())


@cache
def tell_of_compiling_on_workers() -> None:
    """Spark's workers compile out of sight: say so where nothing was compiled on this machine yet."""
    if not has_compiled(fold_windows):
        _to_stderr(ON_WORKERS)
