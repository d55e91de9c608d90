"""The first query on a machine says that it compiles."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import event

from trendfold.kernel.jit import IS_PLAIN, watch_compiling
from trendfold.runtime.compiling import FIRST, Teller

ASK = """
import pyarrow as pa, trendfold as tf
events = pa.table({"type": ["A", "B"], "ts": [1, 2]})
print(tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+)").run(events)["q1"]["count"][0])
"""


def test_compiling_is_told_once_and_then_every_few_seconds() -> None:
    times, said = iter([0.0, 1.0, 6.0, 7.0, 12.0]), list[str]()
    teller = Teller(said.append, lambda: next(times))
    for kernels in range(5):
        teller(kernels)
    assert said == [FIRST, "compiling, once: 2 kernels in 6 s", "compiling, once: 4 kernels in 12 s"]


def test_a_kernel_that_is_not_on_disk_is_seen_to_compile() -> None:
    seen: list[int] = []
    watch_compiling(seen.append)

    def double(x):  # type: ignore[no-untyped-def]
        return 2 * x

    double.__module__ = "trendfold.kernel.nowhere"
    assert numba.njit(double)(4) == 8
    assert seen == [0]


@pytest.mark.slow
def test_the_first_query_of_a_machine_says_so_and_the_second_does_not(tmp_path: Path) -> None:
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", ASK], env=fresh, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["1.0\n"] * 2
    assert runs[0].stderr.startswith(FIRST)
    assert runs[1].stderr == ""


@pytest.mark.skipif(IS_PLAIN, reason="nothing is compiled")
def test_the_garbage_collector_waits_until_a_kernel_is_compiled() -> None:
    seen = []

    class Watch(event.Listener):
        def on_start(self, event: object) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: object) -> None:
            seen.append(gc.isenabled())

    def doubled(x: float) -> float:
        return 2.0 * x

    def unknown(x: float) -> float:
        return x.nothing  # type: ignore[attr-defined]

    with event.install_listener("numba:compile", Watch()):
        assert numba.njit(doubled)(1.5) == 3.0
        assert seen[0] is False
        assert gc.isenabled()
        with pytest.raises(numba.core.errors.TypingError):
            numba.njit(unknown)(1.5)
    assert gc.isenabled()
