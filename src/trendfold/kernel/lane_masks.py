"""Masks of queries, encoded as runs of vectors of eight lanes for the steps of the machine of lanes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VECTOR = 8
"""Lanes of a vector."""

Masks = NDArray[np.bool_]
Longs = NDArray[np.int64]


class SlotLayout(NamedTuple):
    """The lanes of a block: `windows` slots of `stride` lanes, of which the first are its queries'.

    has_neighbours  whether lanes beyond these are others', and not there to fill the last vector
    """

    windows: int
    stride: int
    has_neighbours: bool = False

    @property
    def lanes(self) -> int:
        """All lanes, padded to whole vectors."""
        return padded(self.windows * self.stride)


class Runs(NamedTuple):
    """Masks as runs of vectors in which all lanes take part, or some: per mask, in order of lanes.

    start    int64[masks+1]  the runs of each mask
    vector   int64[runs]     the first vector
    vectors  int64[runs]     how many
    weight   int64[runs]     the first weight
    apace    int64[runs]     8 if each lane has a weight, 0 where eight weights stand for all vectors
    is_whole bool[masks]     whether every query takes part
    """

    start: Longs
    vector: Longs
    vectors: Longs
    weight: Longs
    apace: Longs
    is_whole: Masks

    def of_lists(self, mask: Longs) -> tuple[Longs, Longs, Masks]:
        """The runs of the mask of every list: run, place of the list, and whether the run is its last."""
        sizes = self.start[mask + 1] - self.start[mask]
        which = np.repeat(np.arange(len(mask)), sizes)
        at = _ranges(np.zeros(len(mask), np.int64), sizes)
        return self.start[mask[which]] + at, which, at == sizes[which] - 1


class LaneWeights:
    """Collects the weights of lanes, for the runs that need them; the first eight are 1."""

    def __init__(self) -> None:
        self.parts: list[NDArray[np.float64]] = [np.ones(VECTOR)]
        self.used = VECTOR

    def runs(self, masks: Masks, slots: SlotLayout, covers: bool) -> Runs:
        """Masks of queries, bool[masks, queries], as runs; with `covers` they go over every lane."""
        if slots.stride == VECTOR and slots.windows > 1 and not covers:
            one = self.runs(masks, SlotLayout(1, VECTOR), covers)  # the same eight lanes in every slot
            return one._replace(vectors=one.vectors * slots.windows, apace=one.apace * 0)
        vectors, of_queries = _tiled(masks, slots), _tiled(np.ones((1, masks.shape[1]), np.bool_), slots)
        if slots.has_neighbours:
            of_queries[:] = True
        some = vectors.any(axis=2)
        full = (vectors | ~of_queries).all(axis=2) & some
        of, first, size, kind = _equal_runs(_smoothed(np.add(some, full, dtype=np.int8), covers))
        kept = kind != _NONE
        of, first, size, is_mixed = of[kept], first[kept], size[kept], kind[kept] == _SOME
        many = np.where(is_mixed, size * VECTOR, 0)
        weight = np.where(is_mixed, np.cumsum(many) - many + self.used, 0)
        inside = np.repeat(of[is_mixed], size[is_mixed]), _ranges(first[is_mixed], size[is_mixed])
        self.parts.append(vectors[inside].astype(np.float64).reshape(-1))
        self.used += len(self.parts[-1])
        start = np.searchsorted(of, np.arange(len(masks) + 1))
        is_whole = np.asarray(masks.all(axis=1))
        return Runs(start, first, size, weight, np.where(is_mixed, VECTOR, 0), is_whole)


def _tiled(masks: Masks, slots: SlotLayout) -> Masks:
    """The same mask in every slot: bool[masks, vectors, 8]."""
    found = np.zeros((len(masks), slots.lanes), np.bool_)
    own = found[:, : slots.windows * slots.stride].reshape(len(masks), slots.windows, slots.stride)
    own[:, :, : masks.shape[1]] = masks[:, None]
    found[:, : slots.windows * slots.stride] = own.reshape(len(masks), -1)
    return found.reshape(len(masks), -1, VECTOR)


_NONE, _SOME, _ALL = range(3)
"""How many lanes of a vector take part."""
_GAP, _LONG = 3, 16
"""Gaps of at most _GAP vectors are merged into a run; at least _LONG full ones are a run without weights."""


def _equal_runs(kind: NDArray[np.int8]) -> tuple[Longs, Longs, Longs, NDArray[np.int8]]:
    """Runs of equal numbers in each row of a table: row, first, size and number."""
    edges = np.ones(kind.shape, np.bool_)
    edges[:, 1:] = kind[:, 1:] != kind[:, :-1]
    of, first = (each.astype(np.int64) for each in np.nonzero(edges))
    after = np.append(first[1:], 0)
    return of, first, np.where(after > first, after, kind.shape[1]) - first, kind[of, first]


def _smoothed(kind: NDArray[np.int8], covers: bool) -> NDArray[np.int8]:
    """Merge short runs: starting a run costs as much as a few vectors."""
    _, first, size, kinds = _equal_runs(kind)
    is_inside = (first > 0) & (first + size < kind.shape[1])
    gap = (kinds == _NONE) & (covers | ((size <= _GAP) & is_inside))
    short = (kinds == _ALL) & (size < _LONG) & (size < kind.shape[1])
    return np.repeat(np.where(gap | short, np.int8(_SOME), kinds), size).reshape(kind.shape)


def _ranges(first: Longs, size: Longs) -> Longs:
    """first, first + 1, ... so many times, one after another."""
    begin = np.cumsum(size) - size
    return np.arange(int(size.sum())) - np.repeat(begin - first, size)


def distinct_rows(table: Masks) -> tuple[Masks, Longs]:
    """The distinct rows of a table, and which one each row is; a row without any comes first.

    Rows are sorted by a word, which stands for all words of a row; where it does not, by all bytes.
    """
    bits = np.ascontiguousarray(np.packbits(table, axis=1))
    if not len(table) or table.shape[1] == 0:
        return table[:1], np.zeros(len(table), np.int64)
    count = -(-bits.shape[1] // 8)
    words = np.zeros((len(bits), count), np.uint64)
    words.view(np.uint8)[:, : bits.shape[1]] = bits
    _, index, code = np.unique(words @ _weights(count), return_index=True, return_inverse=True)
    if count > 1 and (words[index][code] != words).any():
        whole = bits.view(np.dtype((np.void, bits.shape[1]))).reshape(-1)
        _, index, code = np.unique(whole, return_index=True, return_inverse=True)
    return table[index], code.reshape(-1)


@lru_cache(maxsize=64)
def _weights(count: int) -> NDArray[np.uint64]:
    """What the words of a row are multiplied by before they are added up; the first is 1."""
    random = np.random.default_rng(0).integers(1 << 62, size=count, dtype=np.uint64)
    return np.append(np.ones(1, np.uint64), 2 * random[1:] + 1)


def padded(lanes: int) -> int:
    """The next whole vector."""
    return -(-lanes // VECTOR) * VECTOR
