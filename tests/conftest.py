"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from warm import compile_kernels

KERNELS = Path(__file__).parents[1] / "src" / "trendfold" / "kernel"


def pytest_configure(config: pytest.Config) -> None:
    """Forget compiled kernels older than any kernel's source.

    numba recompiles a function when its own file changes, but not when a function it calls from another
    file does: without this, a change to `wide.py` would be tested in stale code.
    """
    if hasattr(config, "workerinput"):
        return  # the controller has done it
    newest = max(path.stat().st_mtime for path in KERNELS.glob("*.py"))
    compiled = [*KERNELS.glob("__pycache__/*.nbi"), *KERNELS.glob("__pycache__/*.nbc")]
    if any(path.stat().st_mtime < newest for path in compiled):
        for path in compiled:
            path.unlink(missing_ok=True)
        compiled = []
    if not compiled and config.getoption("numprocesses", None):
        compile_kernels()
