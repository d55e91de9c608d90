"""A case through the public API, under one strategy, next to what the oracle says.

    check(case, strategy)    fails, with a reduced case, unless the strategy's rows are the oracle's
    many(n)                  hypothesis settings: n fixed cases, or TRENDFOLD_FUZZ=m fresh ones
    to_table, chunked, ...   the shapes in which the events of a case are handed over

Every strategy of `plan.PLANNERS` is held to the whole language; what one does not support yet stands
in `GAPS`, by name of a feature.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings

import trendfold
import workloads
from trendfold.errors import TrendfoldError, UnsupportedError
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import FINDERS, PLANNERS, plan_auto
from trendfold.query import Query
from trendfold.testing import oracle
from workloads import Case

STRATEGIES = tuple(name for name in PLANNERS if name not in FINDERS)  # which find matches
ARROW = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64()}

Shape = Callable[[Case], Any]


# ---- What a strategy need not answer yet ---------------------------------------------------------


def has_cross_predicate(query: Query) -> bool:
    """Whether WHERE compares two aliases that need not be neighbours, other than to make a partition."""
    return any(operand.machine.predicates.cross for operand in plan_auto(query).operands)


def has_conditions_at_bounded_ends(query: Query) -> bool:
    """Whether a NOT at an end has conditions, and a trend's span is bounded."""
    return any(o.machine.predicates.judges_first_and_last for o in plan_auto(query).operands)


FEATURES: dict[str, Callable[[Query], bool]] = {
    "cross": has_cross_predicate,
    "bounded ends": has_conditions_at_bounded_ends,
}

GAPS: dict[str, frozenset[str]] = {
    "cogra": frozenset({"cross", "bounded ends"}),
    "greta": frozenset({"cross", "bounded ends"}),
}
"""Per strategy the features for which it may raise UnsupportedError. None are assumed."""


def is_gap(query: Query, strategy: str) -> bool:
    """Whether a strategy may decline a query."""
    return any(FEATURES[name](query) for name in GAPS.get(strategy, ()))


# ---- Shapes of input -----------------------------------------------------------------------------


def to_table(case: Case) -> pa.Table:
    """The events as Arrow, each column of the type that `workloads` says it has."""
    names = [name for name in workloads.COLUMNS if name != "seq" or case.order_column]
    columns = {
        name: pa.array([event.get(name) for event in case.events], ARROW[workloads.COLUMNS[name]])
        for name in names
    }
    return pa.table(columns)


def shuffled(seed: int) -> Shape:
    """The same rows in another order."""

    def shape(case: Case) -> pa.Table:
        events = random.Random(seed).sample(case.events, len(case.events))
        return to_table(case._replace(events=events))

    return shape


def chunked(seed: int) -> Shape:
    """The same rows in pieces, some of them empty, strings as dictionaries that differ by piece."""

    def shape(case: Case) -> pa.Table:
        rng = random.Random(seed)
        table = to_table(case)
        cuts = sorted(rng.randint(0, table.num_rows) for _ in range(rng.randint(0, 4)))
        pieces = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
        encoded = [name for name in ("type", "g", "s") if rng.random() < 0.5]
        for i, piece in enumerate(pieces):
            for name in encoded:
                at = piece.column_names.index(name)
                piece = piece.set_column(at, name, piece.column(name).dictionary_encode())
            pieces[i] = piece
        return pa.concat_tables(pieces)

    return shape


# ---- Rows -------------------------------------------------------------------------------------


def same(found: Any, expected: Any) -> bool:
    """Nulls, strings and whole numbers exactly; other numbers to 1e-9."""
    if found is None or expected is None:
        return found is expected
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


def difference(found: list[dict], expected: list[dict], keys: int) -> str | None:
    """How two lists of rows differ, or None. The first `keys` columns must also be of equal types."""
    if len(found) != len(expected):
        return f"{len(found)} rows instead of {len(expected)}"
    for number, (row, wanted) in enumerate(zip(found, expected, strict=True)):
        if list(row) != list(wanted):
            return f"columns {list(row)} instead of {list(wanted)}"
        for place, name in enumerate(row):
            typed = place >= keys or type(row[name]) is type(wanted[name])
            if not typed or not same(row[name], wanted[name]):
                return f"row {number}: {name} is {row[name]!r} instead of {wanted[name]!r}"
    return None


def wrong(
    case: Case,
    strategy: str,
    shape: Shape = to_table,
    typed: bool = True,
    gaps: Mapping[str, frozenset[str]] = GAPS,
) -> str | None:
    """What is wrong with a strategy's answer, or None."""
    expected = oracle.rows(*case)
    rejected = len(case.events) - len(oracle.read(case.events, case.order_column, "type", "ts"))
    workload = trendfold.parse(case.query)
    (query,) = workload
    try:
        result = workload.run(shape(case), strategy=strategy, order_column=case.order_column)
    except UnsupportedError:
        if gaps and is_gap(query, strategy):
            return None
        raise
    if result.rejects.num_rows != rejected or result.summary.rejects != rejected:
        return f"{result.rejects.num_rows} rejects instead of {rejected}"
    return difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by) if typed else 0)


def check(
    case: Case,
    strategy: str,
    shape: Shape = to_table,
    *,
    typed: bool = True,
    gaps: Mapping[str, frozenset[str]] = GAPS,
    origin: str = "",
) -> None:
    """Fail unless the rows are the oracle's: say where the case came from, and show a smaller one."""

    def problem(one: Case) -> str | None:
        try:
            return wrong(one, strategy, shape, typed, gaps)
        except UnsupportedError:
            raise
        except TrendfoldError as error:
            return f"{type(error).__name__}: {error}"
        except (ArithmeticError, AssertionError, LookupError, TypeError) as error:  # a crash, not a message
            return f"{type(error).__name__}: {error}"

    def kind_of(text: str | None) -> str:
        return (text or "").partition(":")[0] if text and "Error" in text.partition(":")[0] else "rows"

    found = problem(case)
    if found is None:
        return

    def fails(smaller: Case) -> bool:
        text = problem(smaller)
        return text is not None and kind_of(text) == kind_of(found)

    small = workloads.reduced(case, fails)
    raise AssertionError(
        f"strategy {strategy!r}: {found}\n{origin}\nreduced to: {problem(small)}\n{small.query}\n"
        f"events = {small.events!r}\norder_column = {small.order_column!r}\n"
        f"oracle: {oracle.rows(*small)!r}"
    )


def check_seed(seed: int, strategy: str, shape: Shape = to_table, **features: Any) -> None:
    """`check` of the case that a seed stands for."""
    options = {name: features.pop(name) for name in ("typed", "gaps") if name in features}
    case = workloads.random_case(random.Random(seed), **features)
    made = f"workloads.random_case(random.Random({seed}), **{features!r})"
    check(case, strategy, shape, origin=made, **options)


# ---- How many ------------------------------------------------------------------------------------

PLAIN_EXAMPLES = 5
"""Of every kind, where kernels run as plain Python."""
FUZZ = int(os.environ.get("TRENDFOLD_FUZZ") or 0)
ALL = bool(os.environ.get("TRENDFOLD_ALL"))


def many(examples: int) -> settings:
    """`examples` cases, the same in every run; with TRENDFOLD_FUZZ=n in the environment, n fresh ones.

    Only half of them without TRENDFOLD_ALL, which `make test-all` sets.

    A case is one seed, so there is nothing to shrink; `check` reduces the case itself.
    """
    return settings(
        max_examples=FUZZ
        or (min(examples, PLAIN_EXAMPLES) if IS_PLAIN else -(-examples // (1 if ALL else 2))),
        derandomize=not FUZZ,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
