"""Rows to buckets by a hash of their keys that is the same in every process."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@inlined
def _mixed(value):
    """Every bit of the result depends on every bit of the value (the finish of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@kernel
def add_key(values, valid, known):
    """Mix one more key column into the rows' hashes `known`, uint64[n]; null is a value of its own.

    values  int64[n]; valid  bool[n]
    """
    for i in range(known.shape[0]):
        value = np.uint64(values[i]) + _ODD if valid[i] else np.uint64(0)
        known[i] = _mixed(known[i] * _ODD + value)


@kernel
def group_by_bucket(known, is_sent, buckets, order, start):
    """Row numbers by bucket (hash modulo `buckets`), in the given order within a bucket.

    is_sent  bool[n]           rows that go anywhere
    order    int64[m]          written: as many as are sent
    start    int64[buckets+1]  written: where each bucket begins; zeros at first
    """
    many = np.uint64(buckets)
    for i in range(known.shape[0]):
        if is_sent[i]:
            start[known[i] % many + np.uint64(1)] += 1
    for b in range(buckets):
        start[b + 1] += start[b]
    place = start.copy()
    for i in range(known.shape[0]):
        if is_sent[i]:
            b = known[i] % many
            order[place[b]] = i
            place[b] += 1
