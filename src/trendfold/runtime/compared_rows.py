"""The columns that conditions between a NOT and its neighbours read (automaton.breaking)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.breaking import MOMENT, TIME, Breaker
from trendfold.automaton.machine import Machine, Symbol
from trendfold.automaton.predicates import Pairwise
from trendfold.events.batch import EventBatch
from trendfold.events.columns import Column, all_valid
from trendfold.events.schema import Kind
from trendfold.kernel.breakers import NO_FIRST, NO_LAST, first_breakers, last_breakers
from trendfold.kernel.program import Pairs
from trendfold.runtime.conditions import compile_pairs
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.windows import LONGEST

_LATEST = 2**62
Lookup = Callable[[str], Column]


@dataclass
class ComparedRows:
    """The rows of one operand as conditions on two events read them.

    symbol, moment  int32[n]; within: the time from which on events matter no more, or -1
    """

    machine: Machine
    rows: Rows
    alphabet: tuple[Symbol, ...]
    symbol: NDArray[np.int32]
    moment: NDArray[np.int32]
    batch: EventBatch
    within: int
    _found: dict[str, Column] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """An attribute of the rows, or a column of moments."""
        if not name.startswith("\0"):
            return self.batch.column(name).take(self.rows.row)
        if name not in self._found:
            self._found[name] = _integers(self._values(name))
        return self._found[name]

    def _values(self, name: str) -> NDArray[np.integer]:
        if name == MOMENT:
            return self.moment
        return self.rows.time if name == TIME else self._broken(name)

    def rows_at(self, position: int) -> NDArray[np.int32]:
        """The rows that can take a position."""
        takes = np.array([position in symbol for symbol in self.alphabet], np.bool_)
        return np.flatnonzero(takes[self.symbol]).astype(np.int32)

    def inner_pairs(self) -> Pairs:
        """The conditions between events of NOTs and their neighbours, compiled."""
        breaking = self.machine.predicates.breaking
        pairs = [Pairwise(b.condition, b.negated, b.beside) for b in breaking]
        return compile_pairs(pairs, self.column, len(self.rows.row))

    def _broken(self, name: str) -> NDArray[np.int64]:
        breaker = next(b for b in self.machine.predicates.breakers if b.name == name)
        moments = self._nearest(breaker, self.inner_pairs())
        return moments if breaker.span is None else self._times(moments, breaker)

    def _times(self, moments: NDArray[np.int64], breaker: Breaker) -> NDArray[np.int64]:
        """From when on a trend that begins at a row may end, or until when one that ends there may begin."""
        assert breaker.span is not None
        times = np.zeros(int(self.moment.max(initial=0)) + 1, np.int64)
        times[self.moment] = self.rows.time
        none, way, unbounded = (NO_FIRST, -1, _LATEST) if breaker.is_first else (NO_LAST, 1, -_LATEST)
        is_there = moments != none
        span = min(breaker.span, LONGEST)
        return np.where(is_there, times[np.where(is_there, moments, 0)] + way * span, unbounded)

    def _nearest(self, breaker: Breaker, pairs: Pairs) -> NDArray[np.int64]:
        out = np.empty(len(self.moment), np.int64)
        nearest = first_breakers if breaker.is_first else last_breakers
        own, conditions = self.rows_at(breaker.position), np.array(breaker.conditions, np.int32)
        nearest(own, conditions, pairs, self.rows.segment, self.moment, self.rows.time, self.within, out)
        return out


def _integers(values: NDArray[np.integer]) -> Column:
    return Column(Kind.INTEGER, values.astype(np.int64), all_valid(len(values)))
