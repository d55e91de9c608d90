"""Build every trend, then aggregate: for cross predicates, and as a baseline."""

from __future__ import annotations

from trendfold.kernel import construct
from trendfold.kernel.lower import SEMANTICS, lower_paths
from trendfold.kernel.program import Folded
from trendfold.plan.physical import Trends
from trendfold.runtime.compared import latest_of, pairs_of
from trendfold.runtime.folds.operand import OperandRows

_BINDING_BYTES = 16
"""Approximate bytes of one binding of the trend under construction."""


def fold(here: OperandRows, way: Trends, material: None) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of the longest trend under construction."""
    machine, out, items = here.operand.machine, here.nothing(), here.items
    pairs = pairs_of(machine, here.rows, here.batch)
    latest = latest_of(here.plan, here.number, here.rows, here.events, pairs, here.limits)
    paths = lower_paths(machine, here.alphabet, here.operand.carried)
    semantics = SEMANTICS[machine.semantics]
    built = construct.build_windows(
        here.events, items.low, items.high, paths, pairs, latest, semantics, here.limits.trends, out
    )
    here.limits.check_trends(here.plan.query.name, built)
    return out, _BINDING_BYTES * int((items.high - items.low).max(initial=0))
