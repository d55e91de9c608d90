"""Which queries a method that folds several together can take at all, and how the others are folded."""

from __future__ import annotations

from trendfold.plan import QueryPlan, plan_auto, plan_cogra, plan_greta
from trendfold.query.nodes import Query, Semantics, WindowUnit

OWN_STREAMS = "GROUP BY names a type that also stands elsewhere in the pattern"
OWN_ROWS = "no other query partitions and groups its rows alike"


def unfit(plan: QueryPlan) -> str:
    """Why no strategy that shares expressions can fold a query with others, whatever grain it needs."""
    window = plan.query.window
    if plan.finds_matches:
        return "it asks for matches, not for aggregates"
    if len(plan.operands) > 1:
        return "AND combines operands that are judged alone"
    if plan.query.semantics is not Semantics.ANY:
        return f"under {plan.query.semantics} an event uses up what it continues"
    if window is not None and window.slide is None:
        return "its windows move with every event"
    if window is not None and window.unit is WindowUnit.EVENTS:
        return "its windows are counted in events"
    if plan.query.having is not None:
        return "HAVING is judged on true values, query by query"
    if plan.operands[0].machine.predicates.cross:
        return "a predicate compares events that need not be neighbours"
    return ""


def plan_coarsely(query: Query) -> QueryPlan:
    """The coarsest plan; where events far apart are compared, that of building trends."""
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_cogra(query)


def plan_alone(query: Query) -> QueryPlan:
    """How a query is folded that shares with nobody: as the papers compare with, every binding kept."""
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_greta(query)
