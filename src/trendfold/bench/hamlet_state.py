"""Bytes that have to be kept at once, with the windows of all queries open: Figures 9 and 12 of HAMLET.

Counted and not measured: memory is allocated for the most that there can be, and used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import Options, read_batch
from trendfold.papers.hamlet.kernel import VALUE
from trendfold.papers.hamlet.run import HamletReady
from trendfold.plan import plan
from trendfold.query.nodes import Query
from trendfold.runtime.local import prepare
from trendfold.runtime.rows import Workspace

NUMBER, EXTREME = 12, 8
"""Bytes of a wide number, and of a least value."""


def state(group: HamletReady, choice: int) -> int:
    """The numbers of all open windows, and the values of snapshots of the graphlet that has most of them.

    More is allocated, once and for all; this is what has to be there at once.
    """
    end = group.at.lane + 2 * group.at.lanes
    numbers, extremes = (int(each) for each in group.table[end : end + 2])
    return NUMBER * numbers + EXTREME * extremes + _most_in_graphlet(group, _values(group, choice))


def _values(group: HamletReady, choice: int) -> NDArray[np.float64]:
    """A line of the journal for every value that a snapshot had for a member in a window."""
    room, lines = 1 << 18, 0
    while lines + 1 >= room or lines == 0:
        room *= 2
        journal = np.zeros((room, 5))
        group.fold(choice, journal)
        lines = int(journal[0, 0])
    told: NDArray[np.float64] = journal[1 : lines + 1]
    return np.asarray(told[told[:, 0] == VALUE])


def _most_in_graphlet(group: HamletReady, values: NDArray[np.float64]) -> int:
    """The most bytes that the values of one graphlet take; it begins with snapshot 0, in a row of its own."""
    each = np.array([NUMBER * m.carried.width + EXTREME * len(m.carried.extremes) for m in group.members])
    row, snapshot = values[:, 1], values[:, 2]
    fresh = (snapshot == 0) & np.append(True, (snapshot[:-1] > 0) | (row[:-1] != row[1:]))
    return int(np.add.reduceat(each[values[:, 3].astype(np.intp)], np.flatnonzero(fresh)).max())


def greta_state(table: pa.Table, queries: Sequence[Query]) -> int:
    """A number for every event of a window that a query keeps."""
    workspace = Workspace(read_batch(table, Options()))
    ready = [prepare(plan(query, "greta"), workspace, origin=0) for query in queries]
    return NUMBER * sum(int((each.items.high - each.items.low).max(initial=0)) for each in ready)


def fixed_state(queries: Sequence[Query]) -> int:
    """A number for every step of every query."""
    plans = [plan(query, "cogra") for query in queries]
    return NUMBER * sum(
        len(operand.machine.automaton.positions) for each in plans for operand in each.operands
    )
