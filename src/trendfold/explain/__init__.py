"""Plans as text, JSON or HTML.

`describe` turns a plan into a plain value. All formats render only that value, so they cannot disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trendfold.errors import InputError, UnsupportedError
from trendfold.explain.match_plan import Drawing, traced
from trendfold.explain.page import fragment, to_html
from trendfold.explain.text import WIDTH, to_text
from trendfold.explain.value import Explained, Unplanned, Value, describe, to_json
from trendfold.plan import PLANNERS, QueryPlan
from trendfold.plan.fold_steps import PhysicalPlan
from trendfold.plan.papers import PAPERS
from trendfold.plan.stream_statistics import StreamStatistics
from trendfold.plan.workload import GIVEN, fitted_to, plan_all
from trendfold.query.nodes import Query

__all__ = [
    "FORMATS",
    "WIDTH",
    "Drawing",
    "Explanation",
    "Unplanned",
    "describe",
    "explain",
    "require_format",
    "to_html",
    "to_json",
    "to_text",
]


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The plans of a workload; prints in its `format`, and renders as HTML in a notebook."""

    plans: tuple[Explained, ...]
    format: str = "text"
    ran: PhysicalPlan | None = None
    """The ways chosen for given data, or those of a run."""

    def __str__(self) -> str:
        return FORMATS[self.format](to_json(self.plans, self.ran))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return fragment(to_json(self.plans, self.ran))


def explain(
    queries: Iterable[Query],
    strategy: str = "auto",
    format: str = "text",
    drawings: Sequence[Drawing] | None = None,
    ran: PhysicalPlan | None = None,
    statistics: StreamStatistics | None = None,
) -> Explanation:
    """Plan all queries; for a query that cannot be planned, the explanation is the reason.

    With `drawings`, the joins of RETURN MATCHES are those of a run; with `ran`, so are the ways to fold
    aggregates, and the plans of groups. Otherwise `statistics` decide, if there are any.
    """
    require_format(format)
    alone = [_plan_or_reason(query, strategy) for query in queries]
    planned = plan_all([each.query for each in alone if isinstance(each, QueryPlan)], strategy)
    planned = fitted_to(planned, statistics, GIVEN) if ran is None else ran.applied_to(planned)
    together = iter(planned)
    plans = tuple(next(together) if isinstance(each, QueryPlan) else each for each in alone)
    known = traced([plan for plan in plans if isinstance(plan, QueryPlan)], drawings)
    return Explanation(tuple(known.get(plan.query.name, plan) for plan in plans), format, ran)


def require_format(format: str) -> None:
    """Raise if the format is unknown."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")


def _plan_or_reason(query: Query, strategy: str) -> QueryPlan | Unplanned:
    try:
        return plan_all([query], strategy)[0]
    except UnsupportedError as error:
        if strategy not in PLANNERS and strategy not in PAPERS:
            raise
        return Unplanned(query, strategy, str(error))


def _json_text(value: Value) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


FORMATS: dict[str, Callable[[Value], str]] = {
    "text": to_text,
    "json": _json_text,
    "html": to_html,
}
