"""Memory for large columns that is used again: touching fresh pages costs more than folding their rows.

An array's memory returns here when nothing refers to it any more, views included.
"""

from __future__ import annotations

import threading
import weakref
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SMALLEST = 1 << 20
"""Bytes below which the allocator reuses memory by itself."""
_MOST_KEPT = 1 << 30
"""Bytes kept for later; what is past it goes back to the system."""


class Buffers:
    """A pool of memory blocks, each of a few sizes so that they fit again."""

    def __init__(self) -> None:
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._kept = 0
        self._lock = threading.RLock()  # memory may come back in the middle of anything

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Like numpy.empty."""
        kind = np.dtype(dtype)
        count = prod(shape) if isinstance(shape, tuple) else shape
        if count * kind.itemsize < _SMALLEST:
            return np.empty(shape, kind)
        block = self._take(_rounded(count * kind.itemsize))
        # Views of an array refer to the object its memory comes from: its end is the end of them all.
        flat = np.frombuffer(block.data, kind, count)
        weakref.finalize(flat.base, self._give, block).atexit = False
        return flat.reshape(shape)

    def _take(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            if self._free.get(size):
                self._kept -= size
                return self._free[size].pop()
        return np.empty(size, np.uint8)

    def _give(self, block: NDArray[np.uint8]) -> None:
        with self._lock:
            if self._kept + len(block) <= _MOST_KEPT:
                self._kept += len(block)
                self._free.setdefault(len(block), []).append(block)


def _rounded(size: int) -> int:
    """The next of four sizes per power of two."""
    step = 1 << max(0, size.bit_length() - 3)
    return -(-size // step) * step


_BUFFERS = Buffers()


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Like numpy.empty, from the memory of earlier arrays where it is large."""
    return _BUFFERS.empty(shape, dtype)
