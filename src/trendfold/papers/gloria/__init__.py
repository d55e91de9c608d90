"""GLORIA: which queries go through which transitions together, and whose events serve as snapshots.

A plan is a plain value: the optimizer finds one, the executor carries out any that is valid.

Source: GLORIA (SIGMOD 2022), Definitions 2.6 and 2.7.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """A Q-set: queries that go through a transition as one.

    queries   their numbers among the members of a group, ascending
    snapshot  the state whose events are the snapshots; empty for one query that goes by itself
    """

    queries: tuple[int, ...]
    snapshot: str = ""

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.queries))}){'^' + self.snapshot if self.snapshot else ''}"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A transition of the template, and how its queries are shared out among Q-sets (Definition 2.6)."""

    source: str
    target: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another node of a pool: its Q-sets, its distance from the start, and whether pruning left it out."""

    shares: tuple[Share, ...]
    distance: float
    is_pruned: bool


@dataclass(frozen=True, slots=True)
class Considered:
    """A pool of the GLORIA graph: what was chosen for its transitions, and what else there was.

    transitions  one, or all of a Kleene sub-pattern: there, a Q-set has the snapshots it was made for
    weight       what the choice costs: going through, and evaluation on the way in and at ends
    distance     from the start, by Equation 22
    """

    transitions: tuple[tuple[str, str], ...]
    chosen: tuple[Share, ...]
    weight: float
    distance: float
    others: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """What all transitions of a workload's template do (Definition 2.7).

    states     the template's states: event types, `A:2` for the second A of a query
    positions  per member the state of every position of its automaton
    crossings  every transition between states; beginnings and ends of trends are not among them
    cost       what the cost model expects of this plan
    alone      and of the one that shares nothing
    considered the graph it was found in, for `explain`; without it a plan is carried out as it is
    """

    states: tuple[str, ...]
    positions: tuple[tuple[str, ...], ...]
    crossings: tuple[Crossing, ...]
    cost: float
    alone: float
    considered: tuple[Considered, ...] = ()
