"""The last file of `make test-plain`: the tests before it have called every kernel in plain Python."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import trendfold
from trendfold.kernel.jit import IS_PLAIN, PLAIN


@pytest.mark.skipif(not IS_PLAIN, reason="kernels are compiled; make test-plain runs them as Python")
def test_every_kernel_ran() -> None:
    for module in pkgutil.walk_packages(trendfold.__path__, "trendfold."):
        if module.name.split(".")[1] in ("kernel", "detect", "papers"):
            import_module(module.name)
    never = [name for name, calls in PLAIN.items() if not calls]
    assert not never, "\n".join(never)
