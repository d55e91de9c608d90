"""Whole runs for comparison: the same table and queries with different strategies, shared or alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.answers import rows
from trendfold.bench.harness import Case, UnfinishedError
from trendfold.errors import LimitError
from trendfold.events.options import Options
from trendfold.plan import QueryPlan
from trendfold.plan.workload import plan_all
from trendfold.query import needed_columns
from trendfold.query.nodes import Query
from trendfold.runtime import local
from trendfold.runtime.limits import Limits
from trendfold.runtime.result import Result

TRENDS = 200_000_000
"""How many trends `construct` may build before it is given up."""
Run = Callable[[], Result]


def run(
    table: pa.Table, queries: Sequence[Query], strategy: str, *, together: bool = True, unit: str = "ms"
) -> Run:
    """A run from a table in memory to results, without planning."""
    workloads = [queries] if together else [(query,) for query in queries]
    plans = [plan for workload in workloads for plan in plan_all(tuple(workload), strategy)]
    return run_plans(table, plans, unit)


def run_plans(table: pa.Table, plans: Sequence[QueryPlan], unit: str = "ms") -> Run:
    """The same with plans."""
    options = Options(time_unit=unit)
    queries = [plan.query for plan in plans]
    source = local.read(table, needed_columns(queries, options.columns), options)

    def answered() -> Result:
        try:
            return local.run(plans, source, options, 0, Limits(trends=TRENDS))
        except LimitError as problem:
            raise UnfinishedError(f"given up after {TRENDS:,} trends") from problem

    return answered


def beside(
    what: str,
    table: pa.Table,
    text: str,
    ways: Sequence[str],
    *,
    floor: str | None = None,
    unit: str = "ms",
) -> list[Case]:
    """One line per way: a strategy, followed by `alone` if queries share nothing.

    Each is compared with the way `floor`, or with the first.
    """
    queries = parse(text).queries
    base = f"{what}, {floor or ways[0]}"
    found = []
    for way in ways:
        strategy, _, how = way.partition(" ")
        answer = run(table, queries, strategy, together=how != "alone", unit=unit)
        name = f"{what}, {way}"
        found.append(Case(name, answer, len(table), None if name == base else base, like=what, answer=rows))
    return found
