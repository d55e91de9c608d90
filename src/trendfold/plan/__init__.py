"""Query -> plan: the machine and its grains (`logical`), and the way its rows are folded (`physical`)."""

from trendfold.plan.logical import (
    FINDERS,
    PLANNERS,
    Group,
    OperandPlan,
    Planner,
    QueryPlan,
    plan,
    plan_auto,
    plan_cogra,
    plan_greta,
)

__all__ = [
    "FINDERS",
    "PLANNERS",
    "Group",
    "OperandPlan",
    "Planner",
    "QueryPlan",
    "plan",
    "plan_auto",
    "plan_cogra",
    "plan_greta",
]
