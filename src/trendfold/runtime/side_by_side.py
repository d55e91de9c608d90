"""Queries as lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trendfold.kernel import fold
from trendfold.kernel.lower import lower_frame, lower_guards, lower_rows, no_grid
from trendfold.kernel.program import Folded
from trendfold.plan import Group
from trendfold.runtime.fold import no_trends, read_events
from trendfold.runtime.limits import Limits

if TYPE_CHECKING:
    from trendfold.runtime.groups import GroupRows


def fold_lanes(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """Each member over the rows of all."""
    found = []
    for k, member in enumerate(group.members):
        (operand,) = member.operands
        own = tuple(symbols[k] for symbols in together.alphabet)
        events = read_events(operand, 0, together.rows, together.moment, together.batch)
        frame = lower_frame(operand.machine, operand.carried)
        out = no_trends(len(together.items[k].low), frame.width, frame.extremes)
        program, grid = lower_rows(operand.machine, own, operand.carried)
        if not events.is_small:
            grid = no_grid(grid)
        guards = lower_guards(operand.machine, own)
        fold.fold_windows(
            events, together.items[k].low, together.items[k].high, program, grid, guards, frame, out
        )
        found.append(out)
    return tuple(found)
