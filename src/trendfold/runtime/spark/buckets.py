"""Bucket labels that Spark's hash maps to distinct partitions: one bucket, one task.

`repartition(n, column)` puts a row into partition hash(value) mod n. Of the numbers 0 to n - 1 some collide
and leave other partitions empty, so buckets are labelled with numbers that do not collide.
"""

from __future__ import annotations

from functools import cache
from itertools import count

_MASK = 0xFFFFFFFF


@cache
def partition_labels(parts: int) -> tuple[int, ...]:
    """For each partition, the smallest number that Spark maps to it."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(spark_hash(number) % parts, number)
        if len(found) == parts:
            return tuple(found[part] for part in range(parts))
    raise AssertionError("there are enough numbers")


def spark_hash(number: int) -> int:
    """Spark's hash of an int: Murmur3, 32 bits, seed 42."""
    mixed = number * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    found = _rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    found ^= 4  # the length of an int
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
