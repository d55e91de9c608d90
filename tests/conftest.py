"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from trendfold.cli.warming import warm
from trendfold.kernel.jit import IS_PLAIN

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
        warm(("core", "papers"), processes=2)  # or every worker would compile all kernels for itself


MOST_PLAIN = 6
"""Parameter sets of one test that `make test-plain` runs, spread over all of them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In plain Python, leave out tests marked `compiled`, and most parameter sets of the others."""
    if not IS_PLAIN:
        return
    by_test: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("compiled") is None:
            by_test.setdefault((item.path, item.name.partition("[")[0]), []).append(item)
    kept = {item for same in by_test.values() for item in _spread(same)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _spread(same: list[pytest.Item]) -> list[pytest.Item]:
    """MOST_PLAIN items, evenly spaced from the first to the last."""
    if len(same) <= MOST_PLAIN:
        return same
    return [same[i * (len(same) - 1) // (MOST_PLAIN - 1)] for i in range(MOST_PLAIN)]
