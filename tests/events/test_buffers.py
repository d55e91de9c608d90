"""Memory of large arrays is used again, and never while anything still refers to it."""

import gc

import numpy as np

from trendfold.events.buffers import Buffers

MANY = 1 << 20


def test_memory_comes_back_when_the_last_view_is_gone() -> None:
    buffers = Buffers()
    first = buffers.empty((MANY, 2), np.int64)
    address = first.ctypes.data
    view = first[5:].reshape(-1)[::2]
    view[:] = 7
    del first
    gc.collect()
    second = buffers.empty((MANY, 2), np.int64)
    assert second.ctypes.data != address
    second[:] = 0
    assert (view == 7).all()
    del view
    gc.collect()
    assert buffers.empty((MANY, 2), np.int64).ctypes.data == address


def test_shapes_and_types_are_those_asked_for() -> None:
    buffers = Buffers()
    for shape, dtype in ((3, np.int8), (MANY, np.float64), ((MANY + 1, 3), np.int32)):
        array = buffers.empty(shape, dtype)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert array.dtype == dtype
        assert array.flags.writeable
