"""One operand of a query with its rows, the input of every runner."""

from __future__ import annotations

from dataclasses import dataclass

from trendfold.automaton.machine import Symbol
from trendfold.events.batch import EventBatch
from trendfold.kernel.lower import lower_frame
from trendfold.kernel.program import Events, Folded, Frame
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import Items


@dataclass(frozen=True)
class OperandRows:
    """Operand `number` of a query, its rows, and the windows into which they are cut."""

    plan: QueryPlan
    number: int
    events: Events
    rows: Rows
    items: Items
    batch: EventBatch
    limits: Limits

    @property
    def operand(self) -> OperandPlan:
        """The operand's plan."""
        return self.plan.operands[self.number]

    @property
    def alphabet(self) -> tuple[Symbol, ...]:
        """The symbols of the rows."""
        return self.rows.alphabets[self.number]

    @property
    def frame(self) -> Frame:
        """The sizes of the operand's vectors."""
        return lower_frame(self.operand.machine, self.operand.carried)

    def nothing(self) -> Folded:
        """Empty aggregates for every window."""
        carried = self.operand.carried
        return no_trends(len(self.items.low), carried.width, len(carried.extremes))


def vector_bytes(frame: Frame) -> int:
    """The size of one vector: a number is a mantissa of 8 bytes and an exponent of 4."""
    return int(frame.states * (12 * frame.width + 8 * frame.extremes))
