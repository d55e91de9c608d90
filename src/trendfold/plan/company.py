"""Which queries can be folded together with others at all, and how the rest are planned."""

from __future__ import annotations

from trendfold.plan import QueryPlan, plan_auto, plan_cogra
from trendfold.plan.carried import of_trends
from trendfold.query.nodes import Query, Semantics, TypeSet, WindowUnit
from trendfold.query.printer import expression_text

OWN_STREAMS = "the type that GROUP BY names also occurs elsewhere in the pattern"
OWN_ROWS = "no other query has the same partitions and groups"


def unfit(plan: QueryPlan) -> str:
    """The reason that no strategy with shared expressions can fold a query with others, at any grain."""
    window = plan.query.window
    if plan.finds_matches:
        return "it returns matches, not aggregates"
    if len(plan.operands) > 1:
        return "AND folds its operands separately"
    if plan.query.semantics is not Semantics.ANY:
        return f"under {plan.query.semantics}, events consume the bindings they continue"
    if plan.query.bound is not None:
        return f"WITHIN {'ONCE' if window is None else 'EVERY'} bounds each trend by itself"
    if window is not None and window.slide is None:
        return "it has a window per event"
    if window is not None and window.unit is WindowUnit.EVENTS:
        return "its windows are count windows"
    if plan.query.having is not None:
        return "HAVING needs exact values, which are computed query by query"
    if any(isinstance(p.type, TypeSet) for p in plan.operands[0].machine.automaton.positions):
        return "a position takes events of several types (ANY)"
    if plan.operands[0].machine.predicates.breaking:
        return "a NOT has conditions with its neighbours"
    if found := of_trends(plan.query):
        return f"{expression_text(found[0])} is of whole trends"
    if plan.operands[0].machine.predicates.cross:
        return "a predicate compares events that need not be neighbours"
    return ""


def plan_coarsely(query: Query) -> QueryPlan:
    """Plan at the coarsest grain, as COGRA does, or by building trends if a cross predicate needs them."""
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_cogra(query)
