"""The matrices of many queries, folded in one pass over the rows they share (see folds.lane_matrices)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.kernel.lower_machine_lanes import LaneMember, Taken
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import union
from trendfold.plan.physical import MOST_KINDS
from trendfold.plan.spread import keeps_other_rows, pane_of
from trendfold.runtime.empty_rows import have_takers
from trendfold.runtime.folds.lane_matrices import fold_stretches
from trendfold.runtime.group_rows import kinds_held, lane_events
from trendfold.runtime.lane_rows import read_by, read_taken, rows_of_kinds
from trendfold.runtime.pieces import LAST, TAKERS, Cut, cut_rows, moments, name_pieces, pack_folded
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.values import starting_at
from trendfold.runtime.workspace import Workspace


@dataclass(frozen=True)
class CutAlone:
    """One query and its rows, cut into pieces."""

    plans: Mapping[int, QueryPlan]
    cut: Cut

    def __len__(self) -> int:
        return len(self.cut)


@dataclass(frozen=True)
class CutTogether:
    """Queries whose matrices are folded in one pass, and their rows, cut into pieces.

    plans     by their numbers in the workload
    operands  of all queries, in order
    taken     what kinds of rows, the symbols of `cut`, mean to each operand
    """

    plans: Mapping[int, QueryPlan]
    operands: tuple[OperandPlan, ...]
    cut: Cut
    taken: Taken

    def __len__(self) -> int:
        return len(self.cut)

    def rows_of(self, number: int) -> Rows:
        """The rows with the symbols of one query's operands."""
        ends = accumulate(len(plan.operands) for plan in self.plans.values())
        own = dict(zip(self.plans, pairwise([0, *ends]), strict=True))[number]
        return read_by(self.cut.rows, self.taken, range(*own))


def cut_together(
    plans: Mapping[int, QueryPlan], workspace: Workspace, origin: int, gaps: NDArray[np.int64]
) -> Iterator[CutTogether]:
    """Sort the rows that some queries need and cut them into pieces, once for all.

    Queries whose conditions tell too many kinds of rows apart are taken in two parts.
    """
    operands = tuple(operand for plan in plans.values() for operand in plan.operands)
    symbols, taken = read_taken([operand.machine for operand in operands], workspace)
    if len(taken.is_taken) > MOST_KINDS and len(plans) > 1:
        numbers, half = list(plans), len(plans) // 2
        for part in (numbers[:half], numbers[half:]):
            yield from cut_together({number: plans[number] for number in part}, workspace, origin, gaps)
        return
    first = next(iter(plans.values()))
    rows = rows_of_kinds(first, symbols, workspace, any(map(keeps_other_rows, plans.values())))
    yield CutTogether(plans, operands, cut_rows(rows, pane_of(first), origin, gaps), taken)


def fold_together(here: CutTogether, workspace: Workspace) -> pa.Table:
    """Like pieces.fold_pieces for many queries at once; a query's columns are named `… <query> <operand>`.

    If a piece has no event of a query, the query's matrix is null.
    """
    cut, rows = here.cut, here.cut.rows
    members = [LaneMember(operand.machine, operand.carried) for operand in here.operands]
    carried = union(member.carried for member in members)
    moment = moments(rows, workspace.batch)
    events = starting_at(lane_events(carried, rows, moment, workspace.batch), carried, cut.bounds)
    matrices = iter(fold_stretches(members, events, here.taken, cut.bounds))
    columns = name_pieces(next(iter(here.plans.values())), workspace, cut)
    for (number, plan), is_there in zip(here.plans.items(), _held(here), strict=True):
        if plan.query.includes_empty:
            takers = have_takers(plan, here.rows_of(number), cut.items)
            columns[f"{TAKERS.split()[0]} {number} 0"] = pa.array(takers)
        for i in range(len(plan.operands)):
            columns |= pack_folded(f"{number} {i}", next(matrices), len(cut), is_there)
    return pa.table(columns)


def _held(here: CutTogether) -> NDArray[np.bool_]:
    """Per query and piece whether the query, alone, has a row there."""
    operand, kinds = 0, []
    for plan in here.plans.values():
        own = range(operand, operand + len(plan.operands))
        taken = np.any([here.taken.of_member(k).any(axis=1) for k in own], axis=0)
        kinds.append(np.flatnonzero(taken | keeps_other_rows(plan)).tolist())
        operand += len(plan.operands)
    return kinds_held(here.cut.rows.symbols[0], here.cut.items, kinds, len(here.taken.is_taken))


def apart(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Split the pieces of several queries by query, with the column names of pieces.fold_pieces."""
    names = table.column_names
    keys = names[: names.index(LAST) + 1]
    owned = [(int(name.split()[1]), name) for name in names[len(keys) :]]
    for query, group in groupby(owned, key=lambda pair: pair[0]):
        own = {name: " ".join(name.split()[::2]) for _, name in group}
        chosen = table.select([*keys, *own]).rename_columns([*keys, *own.values()])
        yield query, chosen.filter(chosen.column("mantissa 0").is_valid())
