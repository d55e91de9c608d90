"""Plans as text, JSON or a page.

`describe` makes a plain value of a plan; every rendering reads nothing else, so no two of them can disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trendfold.errors import InputError, UnsupportedError
from trendfold.explain.page import fragment, to_html
from trendfold.explain.text import WIDTH, to_text
from trendfold.explain.value import Unplanned, describe, to_json
from trendfold.plan import PLANNERS, QueryPlan
from trendfold.plan.workload import WORKLOAD_PLANNERS, plan_all
from trendfold.query.nodes import Query

__all__ = [
    "FORMATS",
    "WIDTH",
    "Explanation",
    "Unplanned",
    "describe",
    "explain",
    "to_html",
    "to_json",
    "to_text",
]


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The plans of a workload; prints in its `format`, and shows as a picture in a notebook."""

    plans: tuple[QueryPlan | Unplanned, ...]
    format: str = "text"

    def __str__(self) -> str:
        return FORMATS[self.format](self.plans)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return fragment(to_json(self.plans))


def explain(queries: Iterable[Query], strategy: str = "auto", format: str = "text") -> Explanation:
    """Plan what can be planned together; a query that cannot be planned is explained by the reason."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    alone = [_plan_or_reason(query, strategy) for query in queries]
    together = iter(plan_all([each.query for each in alone if isinstance(each, QueryPlan)], strategy))
    return Explanation(tuple(next(together) if isinstance(e, QueryPlan) else e for e in alone), format)


def _plan_or_reason(query: Query, strategy: str) -> QueryPlan | Unplanned:
    try:
        return plan_all([query], strategy)[0]
    except UnsupportedError as error:
        if strategy not in PLANNERS and strategy not in WORKLOAD_PLANNERS:
            raise
        return Unplanned(query, strategy, str(error))


def _json_text(plans: Iterable[QueryPlan | Unplanned]) -> str:
    return json.dumps(to_json(plans), indent=2, ensure_ascii=False)


FORMATS: dict[str, Callable[[Iterable[QueryPlan | Unplanned]], str]] = {
    "text": to_text,
    "json": _json_text,
    "html": to_html,
}
