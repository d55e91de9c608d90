"""The reference runtime: one process, no JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trendfold.events.batch import EventBatch
from trendfold.kernel.rows import number_moments
from trendfold.plan import QueryPlan
from trendfold.runtime.fold import fold_items
from trendfold.runtime.result import build_table, total
from trendfold.runtime.rows import Workspace, read_rows
from trendfold.runtime.windows import cut


def run_query(plan: QueryPlan, workspace: Workspace, origin: int) -> pa.Table:
    """The result table of one query."""
    batch: EventBatch = workspace.batch
    rows = read_rows(plan, workspace)
    time = batch.time[rows.row]
    order = batch.order[rows.row] if batch.order is not None else np.zeros(len(time), np.int64)
    moment, _ = number_moments(rows.segment, time, order)
    items = cut(plan, rows, time, origin)
    folded = tuple(
        fold_items(operand, i, rows, items, moment, batch) for i, operand in enumerate(plan.operands)
    )
    return build_table(plan, total(rows, items, folded), rows, batch, origin)
