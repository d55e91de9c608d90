"""Query -> plan: what is computed and how finely (`logical`), and how its rows are folded (`physical`)."""

from trendfold.plan.logical import (
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
