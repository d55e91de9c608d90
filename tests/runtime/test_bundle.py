"""Queries folded side by side: each has the matrices that it has when it is folded alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel import wide
from trendfold.kernel.program import Folded
from trendfold.plan.overlap import matrix_shape
from trendfold.runtime.folds.matrices_together import apart, bundles, cut_shared, fold_together
from trendfold.runtime.pieces import cut_pieces, fold_pieces, unpack_folded
from trendfold.runtime.workspace import Workspace, shared_partitionings

PATTERNS = [
    "SEQ(A, B+, C)",
    "SEQ(B, C)",
    "A+",
    "SEQ(A+, B)",
    "SEQ(A, B, C, D, A x, B y)",
    "SEQ(D+, D z)",
    "(SEQ(A, B))+",
    "SEQ(A, OR(B+, C), E?)",
    "C",
]
NONE = np.zeros(0, np.int64)


def workload(patterns: list[str], tail: str = "GROUP BY g WITHIN 40 s SLIDE 20 s") -> tf.api.Workload:
    return tf.parse(";\n".join(f"RETURN COUNT(*) PATTERN {pattern} {tail}" for pattern in patterns))


def events(rows: int, seconds: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "type": rng.choice(list("ABCDE"), rows),
            "ts": np.sort(rng.integers(-seconds // 2, seconds // 2, rows)),
            "g": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1),
        }
    )


@pytest.mark.parametrize("rows", [1, 7, 300, 20_000])
@pytest.mark.parametrize("seed", range(4))
def test_side_by_side_and_alone(rows: int, seed: int) -> None:
    """Few rows over a long time, and many at the same moments: counts leave the range of doubles."""
    plans = dict(enumerate(workload(PATTERNS).plan()))
    shared = shared_partitionings(plans.values())
    table = events(rows, 100 if seed % 2 else 100_000, seed)
    workspace = Workspace(read_batch(table, Options(time_unit="s")), shared=shared)
    (together,) = bundles(list(plans.values()), list(plans), shared)
    assert together == list(plans)
    found = dict(apart(fold_together(plans, workspace, cut_shared(plans[0], workspace, 0, NONE))))
    for query, plan in plans.items():
        alone = fold_pieces(plan, workspace, cut_pieces(plan, workspace, 0, NONE))
        assert found[query].column("g").to_pylist() == alone.column("g").to_pylist()
        shape = matrix_shape(plan.operands[0].machine, plan.operands[0].carried)
        wanted = (shape.starts, shape.states, shape.width)
        assert_alike(*(unpack_folded(table, 0, wanted, 0) for table in (found[query], alone)))


def assert_alike(one: Folded, other: Folded) -> None:
    assert np.array_equal(one.mantissa == 0, other.mantissa == 0)
    for each in (one, other):
        assert (np.abs(each.mantissa) < wide.RADIX).all()
    np.testing.assert_allclose(
        wide.log2(one.mantissa, one.exponent), wide.log2(other.mantissa, other.exponent), rtol=1e-12
    )
    small = (one.exponent == 0) & (other.exponent == 0)
    np.testing.assert_allclose(one.mantissa[small], other.mantissa[small], rtol=1e-12)


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A, B+, C) SEMANTICS next",
        "SEQ(A, B+, C) SEMANTICS contiguous",
        "SEQ(A, NOT B, C)",
        "SEQ(A, B) WHERE A.g > 1",
        "SEQ(A, B+) WHERE B.g < NEXT(B).g",
        "(SEQ(A x, A y))+",  # each reads what the other writes
    ],
)
def test_what_cannot_stand_beside_others_is_folded_alone(pattern: str) -> None:
    texts = [*PATTERNS[:3], pattern]
    plans = workload(texts, "WITHIN 40 s SLIDE 20 s").plan()
    assert bundles(plans, range(4), shared_partitionings(plans)) == [[0, 1, 2], [3]]


def test_sums_and_other_windows_are_folded_apart() -> None:
    plans = (
        *workload(PATTERNS[:2]).plan(),
        *workload(PATTERNS[:2], "GROUP BY g WITHIN 30 s SLIDE 30 s").plan(),
        *tf.parse("RETURN SUM(B.g) PATTERN SEQ(A, B) GROUP BY g WITHIN 40 s SLIDE 20 s").plan(),
    )
    assert bundles(plans, range(5), shared_partitionings(plans)) == [[0, 1], [2, 3], [4]]
