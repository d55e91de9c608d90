"""The state of all queries with open windows, in bytes: Figures 9 and 12 of HAMLET.

Computed instead of measured: memory is allocated for the worst case, and reused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.hamlet.kernel import VALUE
from trendfold.papers.hamlet.run import HamletReady
from trendfold.plan import plan
from trendfold.query.nodes import Query
from trendfold.runtime.folding import prepare
from trendfold.runtime.workspace import Workspace

NUMBER, EXTREME = 12, 8
"""Bytes of a wide number, and of an extreme value."""


def state(group: HamletReady, choice: int) -> int:
    """The numbers of all open windows, and the snapshot values of the largest graphlet.

    More is allocated up front; this is what must be in memory at once.
    """
    end = group.at.lane + 2 * group.at.lanes
    numbers, extremes = (int(each) for each in group.table[end : end + 2])
    return NUMBER * numbers + EXTREME * extremes + _most_in_graphlet(group, _values(group, choice))


def _values(group: HamletReady, choice: int) -> NDArray[np.float64]:
    """One row of the event log for every snapshot value of a member in a window."""
    room, lines = 1 << 18, 0
    while lines + 1 >= room or lines == 0:
        room *= 2
        journal = np.zeros((room, 5))
        group.fold(choice, journal)
        lines = int(journal[0, 0])
    told: NDArray[np.float64] = journal[1 : lines + 1]
    return np.asarray(told[told[:, 0] == VALUE])


def _most_in_graphlet(group: HamletReady, values: NDArray[np.float64]) -> int:
    """The maximum bytes of the values of one graphlet; each starts with snapshot 0 in its own row."""
    each = np.array([NUMBER * m.carried.width + EXTREME * len(m.carried.extremes) for m in group.members])
    row, snapshot = values[:, 1], values[:, 2]
    fresh = (snapshot == 0) & np.append(True, (snapshot[:-1] > 0) | (row[:-1] != row[1:]))
    return int(np.add.reduceat(each[values[:, 3].astype(np.intp)], np.flatnonzero(fresh)).max())


def greta_state(table: pa.Table, queries: Sequence[Query]) -> int:
    """One number for every event of a window that a query stores."""
    workspace = Workspace(read_batch(table, Options()))
    ready = [prepare(plan(query, "greta"), workspace) for query in queries]
    return NUMBER * sum(int((each.items.high - each.items.low).max(initial=0)) for each in ready)


def fixed_state(queries: Sequence[Query]) -> int:
    """One number for every step of every query."""
    plans = [plan(query, "cogra") for query in queries]
    return NUMBER * sum(
        len(operand.machine.automaton.positions) for each in plans for operand in each.operands
    )
