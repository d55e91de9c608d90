"""GLORIA: which queries share which transitions, and which events serve as snapshots.

A plan is a plain value: the optimizer finds one, and the executor runs any valid plan.

Source: GLORIA (SIGMOD 2022), Definitions 2.6 and 2.7.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """A Q-set: queries that share a transition.

    queries   their indices among the members of a group, ascending
    snapshot  the state whose events are the snapshots; empty for a single query
    """

    queries: tuple[int, ...]
    snapshot: str = ""

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.queries))}){'^' + self.snapshot if self.snapshot else ''}"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A transition of the template, and the Q-sets of its queries (Definition 2.6)."""

    source: str
    target: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another node of a pool: its Q-sets, its distance from the start, and whether it was pruned."""

    shares: tuple[Share, ...]
    distance: float
    is_pruned: bool


@dataclass(frozen=True, slots=True)
class Considered:
    """A pool of the GLORIA graph: the choice for its transitions, and the alternatives.

    transitions  one, or all of a Kleene sub-pattern
    weight       the cost of the choice: the transition, and evaluations before it and at ends
    distance     from the start, by Equation 22
    """

    transitions: tuple[tuple[str, str], ...]
    chosen: tuple[Share, ...]
    weight: float
    distance: float
    others: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The Q-sets of all transitions of a workload's template (Definition 2.7).

    states     the template's states: event types, `A:2` for the second A of a query
    positions  per member the state of every position of its automaton
    crossings  every transition between states, without starts and ends of trends
    cost       the estimated cost of this plan
    alone      the estimated cost without sharing
    considered the graph it was found in, for `explain`; a plan without it is not optimized again
    """

    states: tuple[str, ...]
    positions: tuple[tuple[str, ...], ...]
    crossings: tuple[Crossing, ...]
    cost: float
    alone: float
    considered: tuple[Considered, ...] = ()
