"""What counters and snapshots cost: as the paper counts them, or in measured nanoseconds once k is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trendfold.query.nodes import TypeSet

Type = str | TypeSet


@dataclass(frozen=True, slots=True)
class CounterPrices:
    """Prices per window, by the frequencies of its types; without them, each update costs one (section 4.2).

    k, the active marks of a tree, are its START events in a window that moves with every event. Nanoseconds
    measured on papers.aseq.kernel (`trendfold bench aseq`, chop-connect):

    update, mark        an event of a counter, and each mark it updates, in a vector loop
    snapshot, row       a CNET event, and each row of its snapshot, one after another
    reading, product    an event that ends a cut line, and each snapshot it reads
    """

    frequencies: Mapping[str, float] = field(default_factory=dict)
    update: float = 4.5
    mark: float = 0.045
    snapshot: float = 9.0
    row: float = 0.4
    reading: float = 9.0
    product: float = 0.3

    def counter(self, start: Type, last: Type, share: float = 1.0) -> float:
        """A counter of the prefix from one type to another, in a window of this share of the longest."""
        if not self.frequencies:
            return 1.0
        return self._of(last) * (self.update + self.mark * share * self._of(start))

    def link(self, starts: tuple[Type, ...], into: Type) -> float:
        """Snapshots of pieces that begin with `starts`; those of a multi-connect are products."""
        if not self.frequencies:
            return 1.0
        rows = self._of(starts[0]) * (self._of(starts[-1]) if len(starts) > 1 else 1.0)
        return self._of(into) * (self.snapshot + self.row * rows)

    def cut_reading(self, start: Type, last: Type) -> float:
        """What reading a cut line costs more than reading a whole one; its last piece begins with `start`."""
        return self._of(last) * (self.reading + self.product * self._of(start)) if self.frequencies else 0.0

    def _of(self, type_: Type) -> float:
        return self.frequencies.get(str(type_), 0.0)


PAPERS_PRICES = CounterPrices()
