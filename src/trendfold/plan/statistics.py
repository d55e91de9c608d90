"""Data statistics from which a way to fold is chosen: plain numbers, measured where the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trendfold.plan.overlap import Overlap


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Windows in batches: windows per batch, rows of all batches, and bytes of the largest.

    queries  how many queries share a batch, in one pass over the rows
    """

    windows: int
    passed: int
    bytes: int
    queries: int = 1


@dataclass(frozen=True, slots=True)
class OperandStatistics:
    """Statistics of one operand's windows; the defaults mean that windows do not overlap.

    overlap      rows and stretches, if windows can share stretches
    stack_bytes  memory that the products of stretches would take
    is_small     whether values are small enough for sums of their products with counts in doubles
    window_rows  rows counted once per window, if windows can share trees
    batches      possible batch sizes, if windows can share trees
    """

    overlap: Overlap | None = None
    stack_bytes: int = 0
    is_small: bool = False
    window_rows: int = 0
    batches: tuple[BatchSize, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """Statistics of the rows of one query.

    burst             rows per run of equal symbols
    windows           windows to fold, counted once per partition and group
    groups_are_slots  whether the values of GROUP BY T.g were left in one stream (`physical.groups_as_slots`)
    is_exact          whether the run computes exact integers (arithmetic='exact' or 'integer')
    obstacle          why its rows cannot be a lane; empty if they can
    """

    rows: int
    burst: float
    operands: tuple[OperandStatistics, ...]
    windows: int = 0
    groups_are_slots: bool = False
    is_exact: bool = False
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of lanes for one kind of row: its events, their bursts, and what a burst updates."""

    events: int
    bursts: int
    vectors: int
    operations: int


@dataclass(frozen=True, slots=True)
class PaneStatistics:
    """Overlapping windows: the stretches between their edges, and these counted once per window."""

    stretches: int
    multiplied: int


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """The values of GROUP BY T.g, for queries that can be lanes.

    rows    of all queries, each once
    acting  rows that may continue a trend once it has passed T, other than those at T
    copied  rows if each value had a stream of its own
    slots   the most values of a segment; 0 if values cannot be slots of lanes
    """

    rows: int
    acting: int
    copied: int
    slots: int


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of the rows of a group of queries; measuring stops once one forbids folding together.

    group_values      distinct values of GROUP BY T.g, if rows have to be copied for each; otherwise 1
    values            the values of GROUP BY T.g, for queries that can be lanes
    kinds             kinds of rows that the conditions of all queries distinguish
    open_windows      the most windows of one query that hold one row
    windows_fit       whether the windows of all queries together are within the limit
    obstacle          why the rows cannot be lanes; empty if they can
    burst             rows per run of equal symbols
    work              per kind of row, if there are enough rows for a shared plan to pay
    frequencies       events per type in one of the longest windows
    window_share      share of all rows that one of the longest windows holds
    panes             the stretches of overlapping windows, if all queries have the same windows
    trees             windows and possible batch sizes, for queries that can share trees
    own_share         share of the rows that one query needs on average, for such queries
    running           what a stream stores of a plan that follows its rates, empty at first; None elsewhere
    """

    rows: int = 0
    group_values: int = 1
    values: ValueStatistics | None = None
    kinds: int = 0
    open_windows: int = 1
    windows_fit: bool = True
    is_exact: bool = False
    obstacle: str = ""
    burst: float = 1.0
    work: tuple[Work, ...] = ()
    frequencies: Mapping[str, float] = field(default_factory=dict)
    window_share: float = 1.0
    panes: PaneStatistics | None = None
    trees: OperandStatistics = OperandStatistics()
    own_share: float = 1.0
    running: Mapping[str, Any] | None = None
