"""Fold groups with HAMLET: the rows of several queries -> the complete trends of each query's windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel.lower_machine_lanes import LaneMember
from trendfold.kernel.program import Events, Folded
from trendfold.papers.hamlet import kernel as hamlet
from trendfold.papers.hamlet.arrays import Graphlet, LaneNumbers, Layout
from trendfold.papers.hamlet.edges import fold_edges
from trendfold.papers.hamlet.lower import HamletWindows, Table, lower_group
from trendfold.papers.hamlet.plan import Sharable
from trendfold.papers.hamlet.run_log import RunLog, make_log
from trendfold.plan import Group, QueryPlan
from trendfold.plan.carried import union
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.limits import Limits
from trendfold.runtime.windows import Items, open_at_once

Journal = NDArray[np.float64]
"""A log of graphlets for debugging, one row per value (see papers.hamlet.kernel)."""
NO_JOURNAL: Journal = np.zeros((0, 5))


@dataclass(frozen=True, slots=True)
class HamletTally:
    """The counters of a fold under HAMLET."""

    bursts: int = 0
    shared_bursts: int = 0
    graphlets: int = 0
    event_snapshots: int = 0
    splits: int = 0
    merges: int = 0
    decisions: int = 0
    burst_events: int = 0
    shared_events: int = 0

    @property
    def snapshots(self) -> int:
        """One per shared graphlet, plus those of events."""
        return self.graphlets + self.event_snapshots


def fold_hamlet(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """Fold a group; the benefit model chooses who shares each burst."""
    return _counted(together, *ready(group, together, limits).fold(hamlet.BY_BENEFIT))


def fold_hamlet_static(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """Fold a group; every burst is shared by all queries that can."""
    return _counted(together, *ready(group, together, limits).fold(hamlet.ALWAYS))


def _counted(together: GroupRows, folded: tuple[Folded, ...], tally: HamletTally) -> tuple[Folded, ...]:
    """Leave what happened for the summary of the run."""
    together.counts.update(
        {
            "bursts": tally.bursts,
            "shared bursts": tally.shared_bursts,
            "snapshots": tally.snapshots,
            "splits": tally.splits,
            "merges": tally.merges,
            "decisions": tally.decisions,
        }
    )
    return folded


def ready(group: Group, together: GroupRows, limits: Limits) -> HamletReady:
    """All that the kernel reads."""
    details: Sharable = group.details
    members = tuple(map(_member, group.members))
    windows = _windows(together.items)
    at, table = lower_group(members, together.alphabet, details.families, windows, hamlet.TALLIES)
    limits.check_state(group.members[0].query.name, _state_bytes(at, table), _HELD)
    events = together.events(union(member.carried for member in members))
    log = None
    if any(family.is_compared for family in details.families):
        log = make_log(group, together, at, table, windows, limits)
    return HamletReady(members, windows, at, table, events, log)


def _member(plan: QueryPlan) -> LaneMember:
    """A query with a machine for all events but those stored individually."""
    (operand,) = plan.operands
    return LaneMember(replace(operand.machine, by_event=frozenset()), operand.carried)


@dataclass(frozen=True)
class HamletReady:
    """A group whose machines and rows are arrays: only the fold is left."""

    members: tuple[LaneMember, ...]
    windows: HamletWindows
    at: Layout
    table: Table
    events: Events
    log: RunLog | None = None
    """Where predicates compare events of the shared type."""

    def fold(self, choice: int, journal: Journal = NO_JOURNAL) -> tuple[tuple[Folded, ...], HamletTally]:
        """Per member the whole trends of its windows, and what happened on the way."""
        at, starts = self.at, self.windows.starts
        count = len(self.windows.low)
        out = Folded(
            np.zeros((count, at.width)),
            np.zeros((count, at.width), np.int32),
            np.full((count, at.extremes), np.inf),
        )
        work = np.zeros(at.work, np.int64)
        work[at.first : at.first + at.members] = work[at.upto : at.upto + at.members] = starts[:-1]
        work[at.before : at.before + at.families] = -1
        numbers = _numbers(at, self.table)
        if self.log is None:
            hamlet.fold_group(self.events, self.table, at, choice, numbers, work, _graphlet(at), out, journal)
        else:
            log, pairs = self.log.cleared(), self.log.pairs
            base = _graphlet(at, snapshots=1)
            fold_edges(self.events, self.table, at, choice, numbers, work, base, log, pairs, out, journal)
        found = []
        for k, member in enumerate(self.members):
            own = slice(starts[k], starts[k + 1])
            wide, low = slice(member.carried.width), slice(len(member.carried.extremes))
            found.append(Folded(out.mantissa[own, wide], out.exponent[own, wide], out.extreme[own, low]))
        return tuple(found), HamletTally(*map(int, work[at.tally : at.tally + hamlet.TALLIES]))


_HELD = "the windows of queries that are folded together"


def _ends(at: Layout, table: Table) -> tuple[int, int]:
    """The number of numbers and extremes of all lanes, with scratch space for one event."""
    end = at.lane + 2 * at.lanes
    return int(table[end]) + at.rows, int(table[end + 1]) + at.xrows


def _state_bytes(at: Layout, table: Table) -> int:
    numbers, extremes = _ends(at, table)
    shared = at.sharings * hamlet.MOST_SNAPSHOTS * (12 * at.width + 8 * at.extremes) if at.families else 0
    return 12 * numbers + 8 * extremes + shared


def _numbers(at: Layout, table: Table) -> LaneNumbers:
    numbers, extremes = _ends(at, table)
    return LaneNumbers(np.zeros(numbers), np.zeros(numbers, np.int32), np.full(extremes, np.inf))


def _graphlet(at: Layout, snapshots: int = hamlet.MOST_SNAPSHOTS) -> Graphlet:
    lanes = at.sharings if at.families else 0
    shape = (lanes, at.width, snapshots)
    return Graphlet(
        empty(shape, np.float64),
        empty(shape, np.int32),
        empty((lanes, at.extremes, snapshots), np.float64),
        np.zeros((1 + at.columns, snapshots)),
        np.zeros((at.xcolumns, snapshots)),
        np.zeros(at.columns + at.xcolumns),
    )


def _windows(items: tuple[Items, ...]) -> HamletWindows:
    """All windows one member after the other."""
    return HamletWindows(
        np.cumsum([0, *(len(each.low) for each in items)]),
        np.concatenate([each.low for each in items]),
        np.concatenate([each.high for each in items]),
        np.array([open_at_once(each) for each in items]),
    )


FOLDS = {"hamlet": fold_hamlet, "hamlet-static": fold_hamlet_static}
