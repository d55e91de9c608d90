"""A memory pool for large arrays: faulting in fresh pages costs more than folding their rows.

An array's memory returns to the pool once nothing refers to it any more, views included.
"""

from __future__ import annotations

import threading
import weakref
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SMALLEST = 1 << 20
"""Below this many bytes the allocator already reuses memory."""
_MOST_KEPT = 1 << 30
"""The most bytes the pool keeps; more than that goes back to the system."""


class Buffers:
    """A pool of memory blocks in a few sizes, so that they can be reused."""

    def __init__(self) -> None:
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._kept = 0
        self._lock = threading.RLock()  # a finalizer may return memory at any point

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Like numpy.empty."""
        kind = np.dtype(dtype)
        count = prod(shape) if isinstance(shape, tuple) else shape
        if count * kind.itemsize < _SMALLEST:
            return np.empty(shape, kind)
        block = self._take(_rounded(count * kind.itemsize))
        # Views of an array refer to the object that owns its memory: it is freed when the last view is.
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
    """Round up to one of four sizes per power of two."""
    step = 1 << max(0, size.bit_length() - 3)
    return -(-size // step) * step


_BUFFERS = Buffers()


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Like numpy.empty; large arrays reuse the memory of earlier ones."""
    return _BUFFERS.empty(shape, dtype)
