"""INCLUDE EMPTY: the windows and groups that have a row although they may hold no trend."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trendfold.plan import QueryPlan
from trendfold.runtime.query_rows import Rows, can_take
from trendfold.runtime.request import Request
from trendfold.runtime.windows import Items, cut


def cut_with_takers(plan: QueryPlan, rows: Rows, request: Request) -> Items | None:
    """Cut rows into the window items that have a row in any case; None without INCLUDE EMPTY.

    They are not folded for that: it is enough that an event in them can take a positive position.
    """
    if not plan.query.includes_empty:
        return None
    items = cut(plan, rows, rows.time, request.origin, request.limits, request.asked)
    return items.at(np.flatnonzero(have_takers(plan, rows, items)))


def have_takers(plan: QueryPlan, rows: Rows, items: Items) -> NDArray[np.bool_]:
    """Which items hold, for every alias of GROUP BY, an event that can take it; without, any position."""
    found = np.ones(len(items.low), np.bool_)
    for takers in _takers(plan, rows):
        before = np.append(0, np.cumsum(takers))
        found &= before[items.high] > before[items.low]
    return found


def _takers(plan: QueryPlan, rows: Rows) -> Iterator[NDArray[np.bool_]]:
    """Per alias of GROUP BY, or once without, the rows that can take one of its positions."""
    automata = [operand.machine.automaton for operand in plan.operands]
    aliases = dict.fromkeys(key.alias or "" for key in plan.qualified_keys)
    wanted = [[automaton.called(alias) for automaton in automata] for alias in aliases]
    for positions in wanted or [[frozenset(p.index for p in a.positive) for a in automata]]:
        yield can_take(rows, positions)
