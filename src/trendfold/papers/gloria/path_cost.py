"""The cost of sharing: GLORIA's published formulas, and a protocol for other cost models.

    |E|  events of a type in a window          len  snapshots in an expression

Source: GLORIA (SIGMOD 2022), Equations 2 to 4, and Section 7.3 for other cost models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

EVENTS = 100.0
"""The default number of events of a type in a window, if frequencies are unknown."""


def nonshared_cost(events: float, before: float) -> float:
    """Equation 2, for one query and one predecessor type: |E| · |E_p|."""
    return events * before


def share_cost(before: float, length: float) -> float:
    """Equation 3, for one Q-set and one predecessor type: |E_p| · expr(E_p).len, without a factor |E|."""
    return before * length


def eval_cost(events: float, length: float, queries: int) -> float:
    """Equation 4: Σ over queries of |E| · expr(E).len."""
    return queries * events * length


class CostModel(Protocol):
    """The costs the optimizer uses; non-negative, in one unit."""

    def start(self, events: float) -> float:
        """Events at which trends of one query start."""
        ...

    def alone(self, events: float, before: float) -> float:
        """A single query's transition from the events `before` to `events`."""
        ...

    def share(self, events: float, before: float, length: float) -> float:
        """A Q-set's transition, with expressions of this length."""
        ...

    def evaluate(self, events: float, length: float, queries: int) -> float:
        """Evaluate the expressions of `events` for some queries."""
        ...

    def end(self, events: float, length: float, queries: int) -> float:
        """The same for events at which trends of some queries end."""
        ...


@dataclass(frozen=True, slots=True)
class PaperCosts:
    """The paper's model: cost grows with pairs of events; a start type costs its frequency."""

    def start(self, events: float) -> float:
        """Example 5.6: the edge from a start node weighs |E|."""
        return events

    def alone(self, events: float, before: float) -> float:
        """Equation 2."""
        return nonshared_cost(events, before)

    def share(self, events: float, before: float, length: float) -> float:
        """Equation 3."""
        return share_cost(before, length)

    def evaluate(self, events: float, length: float, queries: int) -> float:
        """Equation 4."""
        return eval_cost(events, length, queries)

    def end(self, events: float, length: float, queries: int) -> float:
        """Equation 4."""
        return eval_cost(events, length, queries)


PAPER = PaperCosts()


@dataclass(frozen=True, slots=True)
class KernelCosts:
    """Our kernels, in nanoseconds, measured on one machine: see ADR 18.

    Running sums replace scans: an event reads states, not all earlier events, and ends are evaluated when a
    window closes. A lane is a query in one of its windows.

    event        process an event for a Q-set, whatever it does
    lane         add the numbers of one lane at an event
    coefficient  propagate one snapshot of an expression
    value        evaluate one snapshot of an expression in one lane of many
    close        evaluate one snapshot for one closing window
    windows      the number of windows an event is in
    """

    event: float = 90.0
    lane: float = 0.35
    coefficient: float = 0.15
    value: float = 0.15
    close: float = 11.0
    windows: float = 1.0

    def start(self, events: float) -> float:
        """An event adds one to the numbers of a query."""
        return events * self.lane * self.windows

    def alone(self, events: float, before: float) -> float:
        """An event adds the running sum of the previous state."""
        return events * self.lane * self.windows

    def share(self, events: float, before: float, length: float) -> float:
        """The same for the running sum of each coefficient, once per Q-set."""
        return events * (self.event + self.coefficient * length)

    def evaluate(self, events: float, length: float, queries: int) -> float:
        """Coefficients times values, for every lane."""
        return queries * self.windows * events * self.value * length

    def end(self, events: float, length: float, queries: int) -> float:
        """Once per closing window; during one window length, as many close as are open at once."""
        return queries * self.windows * self.close * length


@dataclass(frozen=True)
class Weights:
    """A cost model with type frequencies."""

    types: Mapping[str, str]
    frequencies: Mapping[str, float]
    model: CostModel = PAPER

    def events(self, state: str) -> float:
        """|E| of a state; an unseen type counts as one event."""
        return self.frequencies.get(self.types[state], 1.0 if self.frequencies else EVENTS)

    def length(self, source: str, snapshot: str) -> float:
        """expr(source).len: 1 at the snapshot's own type, else the number of snapshots."""
        return 1.0 if snapshot == source else self.events(snapshot)

    def cross(self, source: str, target: str, snapshot: str) -> float:
        """The transition of a Q-set or a single query from `source` to `target`."""
        events, before = self.events(target), self.events(source)
        if not snapshot:
            return self.model.alone(events, before)
        return self.model.share(events, before, self.length(source, snapshot))

    def evaluate(self, state: str, snapshot: str, queries: int) -> float:
        """Evaluate expressions over snapshots of `snapshot` at `state`."""
        if not queries:
            return 0.0
        return self.model.evaluate(self.events(state), self.events(snapshot), queries)

    def end(self, state: str, snapshot: str, queries: int) -> float:
        """Trends of some queries end at `state`, with expressions over snapshots of `snapshot`."""
        if not queries:
            return 0.0
        return self.model.end(self.events(state), self.events(snapshot), queries)

    def start(self, state: str, queries: int) -> float:
        """Trends of some queries start at `state`."""
        return queries * self.model.start(self.events(state))
