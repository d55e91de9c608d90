"""Arrays of numbers as bytes, column by column in as few bytes as their values take.

Counts are small integers more often than not, and some columns hold one value only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INTEGERS = (np.uint8, np.uint16, np.uint32)
_NARROW: tuple[type[Any], ...] = (*_INTEGERS, np.float32)
_SAME, _WIDE = 0, len(_NARROW) + 1
"""Codes of columns: one value, each of the narrow types from 1 on, and as it is."""
_EXACT = 2.0**53


def pack_columns(told: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """Arrays of shape [rows, columns] and a header as bytes."""
    shapes = [[array.dtype.str, *array.shape] for array in arrays]
    header = json.dumps({"told": told, "arrays": shapes}).encode()
    parts = [len(header).to_bytes(4, "little"), header]
    for array in arrays:
        if array.size:
            parts += _packed(array)
    return b"".join(parts)


def _packed(array: NDArray[Any]) -> list[bytes]:
    code = _codes(array)
    parts = [code.tobytes()]
    for number in sorted(set(code.tolist())):
        own = array[:, code == number]
        type_ = array.dtype if number in (_SAME, _WIDE) else _NARROW[number - 1]
        parts.append((own[0] if number == _SAME else own).astype(type_).tobytes())
    return parts


def _codes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The code of every column."""
    if not array.any():
        return np.full(array.shape[1], _SAME, np.uint8)
    least, most = array.min(axis=0), array.max(axis=0)
    found = np.full(array.shape[1], _WIDE, np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        if array.dtype == np.float64:
            found[(array.astype(np.float32) == array).all(axis=0)] = 1 + _NARROW.index(np.float32)
            is_whole = (least >= 0) & (most < _EXACT) & (array == np.floor(array)).all(axis=0)
        else:
            is_whole = least >= 0
    for number in reversed(range(1, len(_INTEGERS) + 1)):
        found[is_whole & (most < 256.0 ** _INTEGERS[number - 1]().itemsize)] = number
    found[least == most] = _SAME
    return found


def unpack_columns(payload: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """What `pack_columns` packed."""
    at = 4 + int.from_bytes(payload[:4], "little")
    header = json.loads(payload[4:at])
    found = []
    for kind, rows, columns in header["arrays"]:
        array = np.empty((rows, columns), np.dtype(kind))
        if array.size:
            at = _unpacked(payload, at, array)
        found.append(array)
    return header["told"], found


def _unpacked(payload: bytes, at: int, array: NDArray[Any]) -> int:
    """Fill an array from bytes, and return where they end."""
    rows, columns = array.shape
    code = np.frombuffer(payload, np.uint8, columns, at)
    at += columns
    types: list[Any] = [array.dtype, *_NARROW, array.dtype]
    for number in sorted(set(code.tolist())):
        own = code == number
        height, count = 1 if number == _SAME else rows, int(own.sum())
        block = np.frombuffer(payload, types[number], height * count, at).reshape(height, count)
        array[:, own] = block
        at += block.nbytes
    return at
