"""Queries that compare neighbours alike, and differ in local conditions only: they can share trees."""

from __future__ import annotations

from collections.abc import Hashable

from trendfold.plan.logical import QueryPlan
from trendfold.plan.overlap import can_share_trees
from trendfold.query.nodes import Semantics, WindowUnit


def why_no_shared_trees(plan: QueryPlan) -> str:
    """The reason that a query that compares neighbours cannot share trees with others; empty if it can."""
    (operand, *more) = plan.operands
    window = plan.query.window
    if plan.finds_matches or more or operand.builds_trends or not operand.machine.by_event:
        return "it does not find neighbours by value"
    if plan.query.semantics is not Semantics.ANY:
        return f"under {plan.query.semantics}, events consume the bindings they continue"
    if operand.carried.added:
        return "lengths and durations of trends are sums, which shared trees do not keep"
    if not can_share_trees(operand.machine, operand.accesses):
        return "a predicate compares events, and bindings are scanned or discarded one by one"
    if operand.machine.predicates.breaking:
        return "a NOT has conditions with its neighbours"
    if plan.query.having is not None:
        return "HAVING needs exact values, which are computed query by query"
    if len({key.alias for key in plan.qualified_keys}) > 1:
        return "GROUP BY names several aliases"
    if plan.query.bound is not None:
        return "its trends are bounded one by one"
    if window is not None and (window.slide is None or window.unit is not WindowUnit.MICROSECONDS):
        return "its windows depend on its own events"
    return ""


def shared_trees_key(plan: QueryPlan) -> Hashable | None:
    """A key equal for queries that differ in local conditions only; None if a query cannot share trees.

    Conditions on the events of a NOT must be equal, because they move the mass of all queries at once.
    """
    if why_no_shared_trees(plan):
        return None
    (operand,) = plan.operands
    machine = operand.machine
    automaton = machine.automaton
    negated = [p for guard in automaton.guards for p in guard.positions]
    return (
        plan.query.window,
        tuple(position.type for position in automaton.positions),
        automaton.edges,
        automaton.guards,
        frozenset(automaton.guard_of.items()),
        tuple(machine.predicates.wanted_at(p) for p in negated),
        machine.by_event,
        operand.accesses,
        operand.carried,
    )
