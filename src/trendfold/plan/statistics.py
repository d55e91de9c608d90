"""What is known of the data when a way to fold is chosen: plain numbers, measured where the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trendfold.plan.overlap import Overlap


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Overlapping windows in batches: how many at once, the rows of all batches, and bytes of the largest."""

    windows: int
    passed: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OperandStatistics:
    """What is known of one operand's windows; without measurements, they do not overlap.

    overlap      rows and stretches, where windows can share stretches
    stack_bytes  memory that their products would take
    window_rows  rows of all windows, each row in every window, where windows can share trees
    batches      sizes of the batches they could pass the trees in
    """

    overlap: Overlap | None = None
    stack_bytes: int = 0
    window_rows: int = 0
    batches: tuple[BatchSize, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """What is known of the rows of one query.

    burst             rows per run of equal symbols
    groups_are_slots  whether the values of GROUP BY T.g were left in one stream (`physical.groups_as_slots`)
    is_exact          whether whole numbers of any size are asked for
    """

    rows: int
    burst: float
    operands: tuple[OperandStatistics, ...]
    groups_are_slots: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What lanes do for one kind of row: its events, their bursts, and what a burst touches."""

    events: int
    bursts: int
    vectors: int
    operations: int


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """What is known of the rows of queries that may be folded together; measured until one thing forbids it.

    group_values      distinct values of GROUP BY T.g; 1 without
    kinds             kinds of rows that the conditions of all queries tell apart
    windows_fit       whether the windows of all queries together are within the limit
    values_are_small  whether products of values and counts stay doubles
    work              per kind of row, where the rows are so many that a shared plan may pay
    frequencies       events per type in one of the longest windows
    window_share      part of all rows that one of the longest windows holds
    """

    rows: int = 0
    group_values: int = 1
    kinds: int = 0
    windows_fit: bool = True
    values_are_small: bool = True
    is_exact: bool = False
    work: tuple[Work, ...] = ()
    frequencies: Mapping[str, float] = field(default_factory=dict)
    window_share: float = 1.0
