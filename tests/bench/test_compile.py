"""The bench of first runs: its lines, its notes, and how kernels are timed."""

from __future__ import annotations

import numba
import pytest

from trendfold.bench import compile_bench
from trendfold.bench.harness import Measurement, Report
from trendfold.errors import InputError
from trendfold.kernel.jit import IS_PLAIN


def test_every_line_is_a_case_and_promises_name_lines() -> None:
    names = [case.name for case in compile_bench.cases(0, 1.0)]
    assert set(compile_bench.PROMISED_S) <= set(names)
    assert len(names) == len(set(names))


def test_notes_are_in_seconds() -> None:
    report = Report("compile", (Measurement("a query", 1, (8.0, 9.0, 30.0), 0),), {}, {})
    assert compile_bench.notes(report) == ("a query: 9.0 s of CPU time",)


def test_an_unknown_line_is_named() -> None:
    with pytest.raises(InputError, match="unknown line 'a qery'; did you mean 'a query'"):
        compile_bench.measured("a qery", 0)


@pytest.mark.skipif(IS_PLAIN, reason="nothing is compiled")
def test_a_kernel_has_the_seconds_it_takes_without_those_it_calls() -> None:
    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    found = compile_bench._seconds_of_kernels(lambda: outer(1))
    names = {name.rpartition(".")[2]: seconds for name, seconds in found.items()}
    assert {"inner", "outer"} <= set(names)
    assert all(seconds > 0 for seconds in names.values())
