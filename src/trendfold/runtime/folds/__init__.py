"""One runner per way to fold an operand, in one table; `plan.physical.choose` picks the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trendfold.kernel.program import Folded
from trendfold.plan.physical import Bindings, OperandFold, Products, Queues, Trends, Vectors
from trendfold.plan.statistics import OperandStatistics
from trendfold.runtime.folds import by_bindings, by_building, by_products, by_queues, by_vectors
from trendfold.runtime.folds.operand import OperandRows

Runner = Callable[[OperandRows, Any, Any], tuple[Folded, int]]
"""(rows, way, material) -> the aggregates of every window, and the bytes of state held."""

RUNNERS: dict[type[OperandFold], Runner] = {
    Vectors: by_vectors.fold,
    Products: by_products.fold,
    Bindings: by_bindings.fold,
    Queues: by_queues.fold,
    Trends: by_building.fold,
}


def measure(here: OperandRows) -> tuple[OperandStatistics, Any]:
    """Measure an operand's windows; also returns intermediate results for the runner of the chosen way."""
    if here.operand.builds_trends or here.plan.has_queues(here.operand):
        return OperandStatistics(), None
    return by_bindings.measure(here) if here.operand.machine.by_event else by_products.measure(here)


def fold_operand(here: OperandRows, way: OperandFold, material: Any) -> tuple[Folded, int]:
    """Fold an operand in the chosen way."""
    return RUNNERS[type(way)](here, way, material)
