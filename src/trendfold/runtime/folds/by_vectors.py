"""Each window separately: a vector of aggregates, updated event by event (see kernel.fold)."""

from __future__ import annotations

from trendfold.kernel import fold as kernels
from trendfold.kernel.lower import lower_guards, lower_rows, no_grid
from trendfold.kernel.program import Folded
from trendfold.plan.physical import Vectors
from trendfold.runtime.folds.operand import OperandRows, vector_bytes


def fold(here: OperandRows, way: Vectors, material: object) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of one window's state."""
    return fold_items(here)


def fold_items(here: OperandRows) -> tuple[Folded, int]:
    """The same, also for windows that are left of another way."""
    machine, items, out, frame = here.operand.machine, here.items, here.nothing(), here.frame
    program, grid = lower_rows(machine, here.alphabet, here.operand.carried)
    if not here.events.is_small:
        grid = no_grid(grid)
    tables = program, grid, lower_guards(machine, here.alphabet), frame
    mass = kernels.empty_mass(frame, grid, here.events.values.shape[1])
    if items.spans is None and kernels.only_counts(here.events, *tables[1:]):
        kernels.count_windows(here.events, items.low, items.high, *tables, mass, out)
    else:
        kernels.fold_windows(here.events, items.low, items.until, items.high, *tables, mass, out)
    return out, vector_bytes(frame)
