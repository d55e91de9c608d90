"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from warm import compile_kernels

SOURCE = Path(__file__).parents[1] / "src" / "trendfold"
KERNELS = (SOURCE / "kernel", SOURCE / "detect", *(SOURCE / "papers").glob("*/"))


def pytest_configure(config: pytest.Config) -> None:
    """Forget compiled kernels older than any kernel's source.

    numba recompiles a function when its own file changes, but not when a function it calls from another
    file does: without this, a change to `wide.py` would be tested in stale code.
    """
    if hasattr(config, "workerinput"):
        return  # the controller has done it
    newest = max(path.stat().st_mtime for room in KERNELS for path in room.glob("*.py"))
    compiled = [path for room in KERNELS for path in room.glob("__pycache__/*.nb[ic]")]
    if any(path.stat().st_mtime < newest for path in compiled):
        for path in compiled:
            path.unlink(missing_ok=True)
        compiled = []
    if not compiled and config.getoption("numprocesses", None):
        compile_kernels()
