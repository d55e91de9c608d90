"""Decide whether prefix counters are cheaper than lanes: A-Seq for `auto`, where windows move with events.

The decision uses statistics of the rows, and measured costs of both kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import log2

from trendfold.errors import UnsupportedError
from trendfold.papers.aseq.counter_prices import CounterPrices
from trendfold.papers.aseq.plan import line_of, refuse_unsupported
from trendfold.papers.aseq.prefixes import Line, PrefixPlan, share_prefixes
from trendfold.plan import QueryPlan
from trendfold.plan.statistics import GroupStatistics

METHOD = "aseq"
SURE = 0.8
"""Counters are chosen if their estimate is at most this fraction of the alternative's."""
ROW_NS = 20.0
"""Fixed cost of a row, whatever it updates."""
READ_NS, READ_MARK_NS = 100.0, 0.1
"""A window, from its bounds to its result, and each mark whose count it adds up."""
LOWERED_NS = 800_000.0
"""What it takes to write down the lanes of queries whose windows end at the same events.

These share windows in lanes, but not here.
"""
MOST_BITS = 800
"""Counts of longer windows may leave the range of doubles, and are slower then."""


def cheaper(
    members: Sequence[QueryPlan], known: GroupStatistics, lanes_ns: float
) -> tuple[PrefixPlan, float] | None:
    """The counters of all members, and how many times cheaper they are expected to be; None if they are not.

    lanes_ns  what lanes, or the queries one by one, are expected to take for all rows
    """
    lines = _lines(members)
    if not lines or max(len(line.steps) for line in lines) * log2(known.rows + 1) > MOST_BITS:
        return None
    prices = CounterPrices(known.frequencies)
    plan = share_prefixes(lines, dict.fromkeys(range(len(lines)), ()), prices)
    in_window = ROW_NS * known.rows * known.window_share
    for family in plan.families:
        for tree in family.trees:
            types = [node.step.element.type for node in tree.nodes]
            in_window += sum(prices.counter(types[0], last) for last in types)
    for line in lines:
        marks, ends = (known.frequencies.get(str(line.steps[at].element.type), 0.0) for at in (0, -1))
        in_window += ends * (READ_NS + READ_MARK_NS * marks)
    counters_ns = in_window / max(known.window_share, 1e-9)
    for _, last in {(line.window, line.steps[-1].element) for line in lines}:
        ends = known.frequencies.get(str(last.type), 0.0) / max(known.window_share, 1e-9)
        lanes_ns += LOWERED_NS + READ_NS * ends
    return (plan, lanes_ns / counters_ns) if counters_ns < SURE * lanes_ns else None


def _lines(members: Sequence[QueryPlan]) -> list[Line]:
    """The members as lines, if all are sequences whose events take the kernel's fast path; otherwise none."""
    with suppress(UnsupportedError):
        for member in members:
            refuse_unsupported(member.query, member.operands[0].machine.automaton)
            if member.query.having is not None or member.operands[0].carried.extremes:
                return []
            if member.operands[0].machine.automaton.guards:
                return []
        return [line_of(member) for member in members]
    return []
