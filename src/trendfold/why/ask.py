"""Count the trends of every beginning of a pattern, and of a query without one of its clauses, by folding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.errors import LimitError, UnsupportedError, plural
from trendfold.events.columns import Column, from_arrow
from trendfold.events.options import Options
from trendfold.plan.workload import plan_all
from trendfold.query import having_value, named
from trendfold.query.names import PredicateKind, default_column, key_column, kind, refs, walk
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Expression,
    Matches,
    Pattern,
    Query,
    ReturnItem,
    Semantics,
    Window,
    WindowUnit,
    type_set,
)
from trendfold.query.printer import expression_text, pattern_text, to_text, window_text, within_text
from trendfold.runtime.expressions import Lookup, attribute_lookup
from trendfold.runtime.limits import Limits
from trendfold.runtime.local import answers
from trendfold.runtime.request import Request
from trendfold.runtime.workspace import Workspace
from trendfold.why.beginnings import beginnings, cut_to, new_refs, without_nots
from trendfold.why.near_misses import Among, near_miss, near_type
from trendfold.why.story import Candidates, Loosened, PatternStep, Sieve, WhyNot, amount, amount_of_trends

_BOUNDS = Limits(trends=1_000_000)
"""Trends that can only be built, and matches, are counted up to a million."""
_FURTHEST = 10
"""How often a window is doubled in search of one that is long enough."""
_TRIES = 6
"""The most clauses of which pairs are tried."""


@dataclass(frozen=True, slots=True)
class _Asker:
    """One reading of the events, over which every question is asked."""

    workspace: Workspace
    options: Options
    origin: int

    def table(self, query: Query) -> pa.Table | None:
        """The rows of a query; None where too many trends would have to be built."""
        request = Request(self.origin, _BOUNDS)
        try:
            [answer] = answers(plan_all([query]), self.workspace, self.options, request)
        except (LimitError, UnsupportedError):
            return None
        return answer.table

    def trends(self, query: Query) -> float | None:
        """The number of trends in all windows and groups."""
        table = self.table(query)
        if table is None or isinstance(query.returns, Matches):
            return None if table is None else float(table.num_rows)
        return float(np.sum(table.column("count").to_numpy()))

    @property
    def span(self) -> int:
        """The microseconds from the first event to the last."""
        time = self.workspace.batch.time
        return int(time.max() - time.min()) if len(time) else 0


def ask(query: Query, workspace: Workspace, options: Options, origin: int, rejects: int) -> WhyNot:
    """Why a query has no rows over these events, or so few."""
    asker = _Asker(workspace, options, origin)
    steps = tuple(_steps(query, asker))
    patterns = beginnings(query.pattern)
    empty = next((i for i, step in enumerate(steps) if step.trends == 0), None)
    asked = cut_to(query, patterns[empty if empty is not None else -1])
    at = steps[empty if empty is not None else -1]
    is_hopeless = any(not each.passed and not each.is_negated for each in at.added) and empty is not None
    loosened = () if is_hopeless else tuple(_loosened(asked, at.trends, asker))
    table = asker.table(query)
    rows = None if table is None else table.num_rows
    having = _having(query, asker)
    events = len(workspace.batch)
    told = _verdict(steps, empty, rows, events, rejects, having, loosened)
    return WhyNot(query.name, to_text(query), events, rejects, rows, steps, loosened, having, told)


# ---------------------------------------------------------------- steps


def _steps(query: Query, asker: _Asker) -> Iterator[PatternStep]:
    """Every beginning of the pattern, with the number of its trends."""
    before: Pattern | None = None
    for pattern in beginnings(query.pattern):
        added = tuple(_candidates(query, pattern, before, asker.workspace))
        yield PatternStep(pattern_text(pattern), added, asker.trends(cut_to(query, pattern)))
        before = pattern


def _candidates(
    query: Query, pattern: Pattern, before: Pattern | None, workspace: Workspace
) -> Iterator[Candidates]:
    batch = workspace.batch
    new = set(new_refs(pattern, before))
    for ref, is_negated in refs(pattern):
        key = (str(ref.type), ref.name or str(ref.type), is_negated)
        if key not in new:
            continue
        new.discard(key)
        rows = np.isin(
            batch.type_code, [i for i, name in enumerate(batch.type_names) if name in type_set(ref.type)]
        )
        names = {ref.alias, ref.type} - {None}
        local = [
            each
            for each in query.where
            if kind(each) is PredicateKind.LOCAL and {n for n, _ in named(each)} <= names
        ]
        sieves, passed = _sieves(query.equivalence, local, rows, workspace)
        missed = (
            ""
            if rows.any() or not isinstance(ref.type, str)
            else near_type(ref.type, _type_counts(workspace))
        )
        title = pattern_text(replace(ref))
        yield Candidates(title, is_negated, int(rows.sum()), sieves, int(passed.sum()), missed)


def _sieves(
    equivalence: Sequence[str], local: Sequence[Expression], rows: NDArray[np.bool_], workspace: Workspace
) -> tuple[tuple[Sieve, ...], NDArray[np.bool_]]:
    """What each condition on one event lets pass alone, and the rows that pass all."""
    count, found, passed = int(rows.sum()), [], rows.copy()
    for name in equivalence:
        valid = np.broadcast_to(workspace.batch.column(name).valid, rows.shape)
        passed &= valid
        if not valid[rows].all():
            found.append(Sieve(f"[{name}] is not null", int((valid & rows).sum()), count))
    for condition in local:
        holds = workspace.holds(condition)
        among = Among(rows if not (holds & rows).any() else passed, attribute_lookup(workspace.batch.column))
        passing = int((holds & rows).sum())
        missed = "" if (holds & passed).any() else near_miss(condition, among)
        found.append(Sieve(expression_text(condition), passing, count, missed))
        passed = passed & holds
    return tuple(found), passed


def _type_counts(workspace: Workspace) -> dict[str, int]:
    counts = np.bincount(workspace.batch.type_code, minlength=len(workspace.batch.type_names))
    return dict(zip(workspace.batch.type_names, map(int, counts), strict=True))


# ---------------------------------------------------------------- what if


_Change = tuple[str, Query]
"""A clause, and the query without it."""


def _loosened(query: Query, now: float | None, asker: _Asker) -> Iterator[Loosened]:
    """Clauses without which there would be more trends than now."""
    if now is None:
        return
    changes = tuple(_changes(query))
    helpful = [each for each in changes if _more(asker.trends(each[1]), now)]
    for clause, changed in helpful:
        hint = _long_enough(query, asker) if clause.startswith("WITHIN") and not now else ""
        yield Loosened(clause, asker.trends(changed) or 0.0, hint)
    if now or helpful or len(changes) > _TRIES:
        return
    for one, other in combinations(changes, 2):
        both = _apply(query, (one[0], other[0]))
        trends = asker.trends(both)
        if _more(trends, now):
            yield Loosened(f"{one[0]} and without {other[0]}", trends or 0.0)
            return


def _more(trends: float | None, now: float) -> bool:
    return trends is not None and trends > now


def _changes(query: Query) -> Iterator[_Change]:
    for condition in query.where:
        rest = tuple(each for each in query.where if each is not condition)
        yield expression_text(condition), replace(query, where=rest)
    for name in query.equivalence:
        rest_names = tuple(each for each in query.equivalence if each != name)
        yield f"[{name}]", replace(query, equivalence=rest_names)
    for text, pattern in without_nots(query.pattern):
        yield text, replace(query, pattern=pattern)
    if query.semantics is not Semantics.ANY:
        yield f"SEMANTICS {query.semantics}", replace(query, semantics=Semantics.ANY)
    if query.window is not None or query.bound is not None:
        yield within_text(query), replace(query, window=None, bound=None)


def _apply(query: Query, clauses: Sequence[str]) -> Query:
    """The query without several clauses."""
    for clause in clauses:
        query = next((changed for text, changed in _changes(query) if text == clause), query)
    return query


def _long_enough(query: Query, asker: _Asker) -> str:
    """The least window that holds a trend, to about a tenth; windows that cut trends at their edges."""
    window = query.window
    if (bound := query.bound) is not None:
        window = Window(bound.length, None, WindowUnit.MICROSECONDS)  # a trend fits the bound if it fits one
        query = replace(query, bound=None)
    assert window is not None
    if window.slide == window.length and _more(
        asker.trends(replace(query, window=replace(window, slide=None))), 0
    ):
        return "trends cross the edges of these windows: take a shorter SLIDE"
    short, long = window.length, window.length
    for _ in range(_FURTHEST):
        short, long = long, long * 2
        found = asker.trends(replace(query, window=_window(window, long)))
        if found:
            break
    else:
        return "no window up to a thousand times as long holds one"
    for _ in range(4):
        middle = (short + long) // 2
        short, long = (
            (short, middle)
            if asker.trends(replace(query, window=_window(window, middle)))
            else (middle, long)
        )
    return f"{_length_text(window, long)} would be long enough"


def _window(window: Window, length: int) -> Window:
    """A longer window that slides as before, unless that makes too many."""
    slide = (
        None
        if window.slide is None
        else max(window.slide if window.slide < window.length else 0, length // 32, 1)
    )
    return replace(window, length=length, slide=slide)


def _length_text(window: Window, length: int) -> str:
    if window.unit is WindowUnit.EVENTS:
        return f"WITHIN {plural(length, 'event')}"
    step = next((each for each in (60_000_000, 1_000_000, 1_000) if length >= 20 * each), 1)
    return window_text(replace(window, length=-(-length // step) * step, slide=None))


# ---------------------------------------------------------------- HAVING


def _having(query: Query, asker: _Asker) -> Sieve | None:
    """How many rows pass HAVING, and what it would take to pass."""
    if query.having is None or isinstance(query.returns, Matches):
        return None
    asked = _returning(query, (node for node in walk(query.having) if isinstance(node, Aggregate)))
    every, kept = (
        asker.table(replace(asked, having=None, limit=None)),
        asker.table(replace(query, limit=None)),
    )
    if every is None or kept is None:
        return None
    among = Among(np.ones(every.num_rows, np.bool_), _result_lookup(asked, every), "row")
    missed = "" if kept.num_rows else near_miss(query.having, among)
    return Sieve(expression_text(query.having), kept.num_rows, every.num_rows, missed)


def _returning(query: Query, aggregates: Iterable[Aggregate]) -> Query:
    """The query with more aggregates in RETURN, under names of their own."""
    assert not isinstance(query.returns, Matches)
    have = {item.value for item in query.returns}
    missing = [each for each in dict.fromkeys(aggregates) if each not in have]
    more = tuple(ReturnItem(each, f"having {i}") for i, each in enumerate(missing))
    return replace(query, returns=(*query.returns, *more))


def _result_lookup(query: Query, table: pa.Table) -> Lookup:
    """The columns of a result by what HAVING calls them."""
    assert not isinstance(query.returns, Matches)
    aggregates = {item.value: item.name for item in query.returns if isinstance(item.value, Aggregate)}

    def lookup(node: Attribute | Aggregate) -> Column:
        value = having_value(query, node) if isinstance(node, Attribute) else node
        if isinstance(value, Aggregate):
            return from_arrow(table.column(aggregates[value] or default_column(value)))
        assert value is not None
        return from_arrow(table.column(key_column(query, value)))

    return lookup


# ---------------------------------------------------------------- in words


def _verdict(
    steps: Sequence[PatternStep],
    empty: int | None,
    rows: int | None,
    events: int,
    rejects: int,
    having: Sieve | None,
    loosened: Sequence[Loosened],
) -> str:
    if not events:
        return f"no event was read; all {rejects:,} rows are rejected" if rejects else "there are no events"
    if empty is not None:
        cause = _cause(steps, empty, loosened)
        return f"no rows: nothing is left at step {empty + 1}, {steps[empty].pattern}; {cause}"
    if having is not None and not having.passed and having.of:
        return f"no rows: none of {plural(having.of, 'row')} passes HAVING {having.condition}" + (
            f"; {having.near_miss}" if having.near_miss else ""
        )
    told = "too many rows to tell" if rows is None else plural(rows, "row")
    most = max(loosened, key=lambda each: each.trends, default=None)
    less = f"; without {most.clause} there would be {amount(most.trends)}" if most is not None else ""
    return f"{told}, {amount_of_trends(steps[-1].trends)} in all windows{less}"


def _cause(steps: Sequence[PatternStep], empty: int, loosened: Sequence[Loosened]) -> str:
    for each in steps[empty].added:
        if each.is_negated:
            continue
        if not each.events:
            return each.near_miss or f"no event can take {each.position}"
        if not each.passed:
            sieve = next((s for s in each.sieves if not s.passed), each.sieves[-1])
            missed = f" ({sieve.near_miss})" if sieve.near_miss else ""
            which = (
                f"passes {sieve.condition}{missed}"
                if not sieve.passed
                else "passes all its conditions at once"
            )
            return f"none of {plural(each.events, 'event')} at {each.position} {which}"
    if not loosened:
        return "its events never come in this order"
    best = loosened[0] if len(loosened) == 1 else max(loosened, key=lambda each: bool(each.hint))
    return f"without {best.clause} there would be {amount_of_trends(best.trends)}" + (
        f": {best.hint}" if best.hint else ""
    )
