"""The one table in which the core names the papers' methods; each is imported on first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

PAPERS = {
    "hamlet": "trendfold.papers.hamlet",
    "hamlet-static": "trendfold.papers.hamlet",
    "aseq": "trendfold.papers.aseq",
    "ecube": "trendfold.papers.aseq",
    "gloria": "trendfold.papers.gloria",
    "gloria-greedy": "trendfold.papers.gloria",
    "gloria-noprune": "trendfold.papers.gloria",
}
"""Strategies that plan a workload as a whole, and the package of each.

Its `plan.PLANNERS` maps strategies to planners, `plan.fitted` fits the plan of a group to the statistics of
its rows, and `run.FOLDS` maps the methods of groups to folds.
"""

NEED_RATES = frozenset({"gloria"})
"""The methods whose plans depend on how often types come."""

OFFERS = "trendfold.papers.gloria.choose"
"""The module that `auto` asks for a shared plan cheaper than lanes."""

COUNTERS = "trendfold.papers.aseq.offered"
"""The module that `auto` asks for prefix counters where windows move with events."""

JOIN_PLANS = "trendfold.papers.mcep.plan"
"""The module whose `PlanSearch` plans the joins of many patterns for detection."""


def paper(strategy: str, step: str) -> Any:
    """Import the module of one step, `plan` or `run`, of a paper's method."""
    return import_module(f"{PAPERS[strategy]}.{step}")


def offer() -> Any:
    """Import the module that offers `auto` a shared plan instead of lanes, once statistics are known."""
    return import_module(OFFERS)


def counters() -> Any:
    """Import the module that offers `auto` prefix counters, once statistics are known."""
    return import_module(COUNTERS)


def join_plans() -> ModuleType:
    """Import the module that searches for join plans, once rates and selectivities are known."""
    return import_module(JOIN_PLANS)
