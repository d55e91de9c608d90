"""What folding queries together costs, in nanoseconds: measured on the kernels (see runtime.calibration)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

NEVER = 1 << 30
"""Longer than any burst."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost table of kernel.together; without a measurement, what one machine had.

    event      to take up an event, or a burst, whatever it does
    operation  to begin with one block of lanes
    vector     eight lanes of one row
    next       one more event of a burst
    alone      an event of one query in a loop of its own
    """

    event: float = 6.0
    operation: float = 4.0
    vector: float = 2.0
    next: float = 1.0
    alone: float = 10.0

    def apply(self, vectors: int, operations: int) -> float:
        """What an event, or a burst that acts as one, costs."""
        return self.event + self.operation * operations + self.vector * vectors

    def pays_alone(self, burst: float, vectors: int) -> bool:
        """Whether even one query is better off as lanes, where so many equal events come together.

        Events that do not come in bursts are told apart one by one, which costs as much again.
        """
        return 2 * self.apply(vectors, 1) + (burst - 1) * self.next < burst * self.alone

    def share_from(self, vectors: int, operations: int) -> int:
        """The shortest burst for which acting once is no dearer; values cost the same either way."""
        act = self.apply(vectors, operations)
        return max(2, ceil(act / (act - self.next))) if act > self.next else NEVER
