"""What a stream keeps of its events, and when it folds them: pure functions of plans and sizes.

A stream asks them in every micro-batch, shard by shard; `explain` shows what is known before any event.
"""

from __future__ import annotations

from collections.abc import Mapping

from trendfold.events.schema import Kind
from trendfold.plan import QueryPlan
from trendfold.plan.judged import is_decided_by_doubles
from trendfold.plan.neighbour import is_judged_by_time
from trendfold.plan.papers import PAPERS
from trendfold.plan.spread import compared_attributes, ends_with_segment
from trendfold.plan.workload import PER_EVENT, why_no_lanes, windows_at_once

# ---------------------------------------------------------------- before any event


def why_raw(plan: QueryPlan, kinds: Mapping[str, Kind] | None, arithmetic: str = "auto") -> str:
    """The reason that a stream folds a query's events only when windows end; empty if there is none.

    Otherwise it folds them as they become final. Without `kinds`, all values are assumed to be floats.
    """
    if plan.finds_matches:
        return "matches consist of events"
    strategy = plan.strategy if plan.group is None else plan.group.strategy
    if plan.query.bound is not None:
        return "trends that end in a period may begin before it"
    if arithmetic != "auto":
        return "exact arithmetic needs all events of a window"
    if any(operand.machine.predicates.cross for operand in plan.operands):
        return "a predicate compares events that need not be neighbours"
    if strategy in PAPERS or any(operand.builds_trends for operand in plan.operands):
        return f"strategy {strategy!r} folds whole windows"
    if not is_decided_by_doubles(plan.query, kinds):
        return "HAVING may need all digits of a count or a sum of integers, and those need all events"
    if has_moving_windows(plan) and any(operand.carried.elapsed for operand in plan.operands):
        return "a window per event adds up durations of all its events"
    if has_moving_windows(plan):
        return _why_moving_raw(plan, kinds or {})
    if plan.compares_neighbours:
        return _why_neighbours_raw(plan)
    return why_no_lanes(plan, MOST_OPEN_WINDOWS)


def _why_moving_raw(plan: QueryPlan, kinds: Mapping[str, Kind]) -> str:
    """The same for a query with a window per event."""
    others = any(kinds.get(name, Kind.FLOAT) is not Kind.FLOAT for name in compared_attributes(plan))
    if others and not ends_with_segment(plan):
        return "it has a window per event, and MIN or MAX of integers over several partitions of a group"
    if plan.compares_neighbours:
        return "a predicate compares neighbours, and it has a window per event"
    return "it has a window per event and GROUP BY an alias" if plan.qualified_keys else ""


def _why_neighbours_raw(plan: QueryPlan) -> str:
    """The same for a query that compares neighbours."""
    if plan.strategy == "greta":
        return "strategy 'greta' keeps every event"
    if len(plan.operands) > 1:
        return "a predicate compares neighbours in an operand of AND"
    if plan.qualified_keys:
        return "a predicate compares neighbours, and GROUP BY names an alias"
    if plan.operands[0].carried.elapsed or plan.operands[0].carried.added:
        return "a predicate compares neighbours, and the durations or lengths of trends are aggregated"
    if is_judged_by_time(plan.operands[0].machine):
        return "a NOT breaks trends by the times of the events that a predicate compares"
    if plan.group is not None and len(plan.group.members) > _MOST_ALONE:
        return (
            f"{len(plan.group.members)} queries compare neighbours alike: they share trees of whole windows"
        )
    if windows_at_once(plan) > MOST_OPEN_BINDINGS:
        return f"a predicate compares neighbours, and more than {MOST_OPEN_BINDINGS} windows overlap"
    return ""


_MOST_ALONE = 3
"""Of queries that compare neighbours alike so many keep bindings each; more share trees, over raw events."""
MOST_OPEN_BINDINGS = 128
"""Each binding has a mass in every open window."""


def has_moving_windows(plan: QueryPlan) -> bool:
    """Whether a query has a window per event, which ends with it."""
    return windows_at_once(plan) == PER_EVENT


MOST_OPEN_WINDOWS = 1_024
"""Events of a query with more windows at once stay raw: each event would change all of their vectors."""


# ---------------------------------------------------------------- vectors, or raw events

_ID_BYTES, _NUMBER_BYTES = 12, 8


_FEW_VALUES, _MOST_VALUES = 16, 64


def most_values(overlap: int) -> int:
    """With more values of GROUP BY T.g a segment stays raw.

    Its other events are folded once per value; raw events are read again for every overlapping window.
    """
    return min(_MOST_VALUES, max(_FEW_VALUES, 2 * overlap))


_RAW_READS = 4


def most_raw_rows(numbers: int, row_bytes: float, overlap: int = 1) -> int:
    """How many events of a segment a stream keeps raw; with more, vectors of so many numbers are smaller.

    Where windows overlap little, raw events are read only once or twice, which is faster than loading and
    saving vectors in every micro-batch: then they may take up to four times as much.
    """
    vectors = _ID_BYTES + _NUMBER_BYTES * numbers
    return int(vectors * max(1.0, _RAW_READS / overlap) / row_bytes)


def most_raw_rows_per_value(numbers: int, row_bytes: float, overlap: int = 1) -> float:
    """How many events with the same compared values a stream keeps raw: with more, their binding is smaller.

    numbers  those of a binding in all windows; its representative is an event itself
    """
    return 1.0 + most_raw_rows(numbers, row_bytes, overlap)


def pays_vectors(heavy_rows: int, raw_rows: int) -> bool:
    """Whether segments that outweigh their vectors get them now: if they have half of the raw events.

    Otherwise most raw events would be read and written again for few that go.
    """
    return 2 * heavy_rows >= raw_rows


_PER_VECTOR, _PER_BINDING = 8, 4
"""So many events per vector, and per binding in a window, wait to be folded: loading and saving one costs as
much as a few of them."""


def pays_settling(final_rows: float, stored_rows: int, vectors: int, bindings: int = 0) -> bool:
    """Whether final events are folded in this micro-batch, rather than in a later one.

    final_rows   how many of the events at hand and in the state are final
    stored_rows  how many would be read from the state: at least half of them must be final, so that an
                 event is read about twice, however far events of one micro-batch lie apart
    vectors      how many vectors would be loaded and saved
    bindings     how many bindings, one per window; even if no two are equal, they are read when they double
    """
    wanted = _PER_VECTOR * vectors + _PER_BINDING * bindings
    return final_rows > 0 and final_rows >= max(wanted, stored_rows / 2)


_LIGHT = 1 << 16
"""Raw events are not weighed again before they have grown by so many bytes."""


def must_weigh(now: int, before: int | None, by_value: bool) -> bool:
    """Whether raw events are compared with vectors again: their bytes have doubled since the last time.

    So an event is read about twice for that. With `by_value`, where distinct values are counted, which takes
    longer and whose share changes little, they must have grown fourfold.
    """
    return before is None or now >= max((4 if by_value else 2) * before, before + _LIGHT)


# ---------------------------------------------------------------- a window per event

BLOCKS = 32
"""The most blocks of a window per event, and the most time ranges by which its raw events are stored."""
_DENSE = 4


def pays_matrices(window_rows: float, segments: int, numbers: int) -> bool:
    """Whether windows per event multiply matrices of blocks, instead of folding all their events again.

    window_rows  the events of one window, over all segments
    numbers      those of one matrix; a release reads about three per segment
    """
    return window_rows >= _DENSE * segments * numbers


def ends_block(events: int, row_bytes: float, matrix_bytes: int, time: int, length: int) -> bool:
    """Whether a block of events that covers some time ends here: its matrices are smaller than its events."""
    return events * row_bytes >= matrix_bytes and time * BLOCKS >= length
