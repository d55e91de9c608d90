"""HAMLET's store of events that predicates compare: the predicates, and space for events and snapshots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.predicates import Pairwise
from trendfold.events.buffers import empty
from trendfold.kernel.program import Pairs
from trendfold.papers.hamlet import event_log as kernels
from trendfold.papers.hamlet.arrays import BURST, CONCERN, Layout
from trendfold.papers.hamlet.edges import MOST_SHARED
from trendfold.papers.hamlet.lower import HamletWindows, Table
from trendfold.papers.hamlet.plan import BurstFamily
from trendfold.plan import Group
from trendfold.query.nodes import Expression
from trendfold.runtime.conditions import compile_pairs
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.limits import Limits

_HELD = "events of a shared type that predicates compare, and their snapshots"


@dataclass(frozen=True)
class RunLog:
    """The predicates of a group on neighbours, and how much its windows hold.

    classes   the distinct sets of predicates, by number    of  the class of each member
    events    the maximum number of events of the shared type in a window
    opened    the first window of each member
    """

    at: Layout
    pairs: Pairs
    classes: tuple[tuple[int, ...], ...]
    of: tuple[int, ...]
    events: int
    opened: NDArray[np.int64]

    @property
    def size(self) -> int:
        """The size of a full log in bytes."""
        events, snapshots = 2 * self.events + 2, 4 * self.events + 4
        coefficients = events * MOST_SHARED * (12 * self.at.columns + 8 * self.at.xcolumns)
        values = snapshots * self.at.lanes * (12 * self.at.width + 8 * self.at.extremes)
        return coefficients + values

    def cleared(self) -> kernels.EventLog:
        """An empty log. Half of the room is spare: kept events move to the front now and then."""
        at, classes = self.at, len(self.classes)
        events, snapshots = 2 * self.events + 2, 4 * self.events + 4
        room = events * min(MOST_SHARED + 1, snapshots)
        numbers = (classes + 1, 1 + at.columns, snapshots)
        return kernels.EventLog(
            k=np.zeros(8, np.int64),
            row=np.zeros(events, np.int64),
            low=np.zeros(events, np.int64),
            at=np.zeros(events, np.int64),
            size=np.zeros(events, np.int64),
            c=empty((1 + at.columns, room), np.float64),
            ce=empty((1 + at.columns, room), np.int32),
            mu=empty((at.xcolumns, room), np.float64),
            born=np.zeros(snapshots, np.int64),
            m=empty((at.lanes, at.width, snapshots), np.float64),
            e=empty((at.lanes, at.width, snapshots), np.int32),
            x=empty((at.lanes, at.extremes, snapshots), np.float64),
            sum_m=empty(numbers, np.float64),
            sum_e=empty(numbers, np.int32),
            sum_x=empty((classes + 1, at.xcolumns, snapshots), np.float64),
            may=empty((classes, events), np.bool_),
            edge_start=np.cumsum([0, *map(len, self.classes)]),
            edge=np.array([number for each in self.classes for number in each], np.int64),
            edges_of=np.array(self.of, np.int64),
            opened=self.opened.copy(),
            stack_f=np.zeros(self.pairs.depth),
            stack_i=np.zeros(self.pairs.depth, np.int64),
            stack_n=np.zeros(self.pairs.depth, np.int64),
        )


def make_log(
    group: Group, together: GroupRows, at: Layout, table: Table, windows: HamletWindows, limits: Limits
) -> RunLog:
    """The comparisons of the members, with room for the events of their windows."""
    (family,) = group.details.families
    wanted = [_compared(group, family, k) for k in range(len(group.members))]
    conditions = list(dict.fromkeys(condition for each in wanted for condition in each))
    classes = list(dict.fromkeys(wanted))
    rows, batch = together.rows.row, together.batch
    pairs = compile_pairs(
        [Pairwise(condition, frozenset(), frozenset()) for condition in conditions],
        lambda name: batch.column(name).take(rows),
        len(rows),
    )
    taken = table[at.concern : at.concern + CONCERN * at.symbols : CONCERN] == BURST
    before = np.concatenate([[0], np.cumsum(taken[together.rows.symbols[0]])])
    log = RunLog(
        at,
        pairs,
        tuple(tuple(conditions.index(condition) for condition in each) for each in classes),
        tuple(classes.index(each) for each in wanted),
        int((before[windows.high] - before[windows.low]).max(initial=0)),
        windows.starts[:-1].astype(np.int64),
    )
    limits.check_state(group.members[0].query.name, log.size, _HELD)
    return log


def _compared(group: Group, family: BurstFamily, k: int) -> tuple[Expression, ...]:
    """The conditions of a member on two events of E, in an order of their own."""
    predicates, (place,) = group.members[k].operands[0].machine.predicates, family.positions[k]
    asked = (predicates.adjacency[i].condition for i in predicates.between(place, place))
    found = {condition for condition in asked if not isinstance(condition, NoneBetween)}
    return tuple(sorted(found, key=repr))
