"""The benches of the papers' figures: every way of every figure answers alike, at a small size."""

from __future__ import annotations

import pytest

from trendfold.api import parse
from trendfold.bench import aseq_bench, cogra_bench, run
from trendfold.bench.answers import first_difference, rows
from trendfold.bench.flattened import flattened
from trendfold.bench.harness import Report
from trendfold.bench.ways import run as whole_run


def test_lengths_of_a_flattened_query_add_up() -> None:
    table, text = cogra_bench.events(0, 60), cogra_bench.text("any", 8)
    queries = parse(text).queries
    fixed = flattened(queries[0], 6)
    by_length = cogra_bench.summed(whole_run(table, fixed, "construct", unit="s")())
    assert first_difference(rows(whole_run(table, queries, "construct", unit="s")()), by_length) is None


def test_neighbours_pass_as_often_as_asked() -> None:
    table = cogra_bench.events(0, 4_000, percent=90)
    x, y = (table.column(name).to_numpy() for name in "xy")
    assert (x[:-1] < y[1:]).mean() == pytest.approx(0.9, abs=0.02)


def test_workloads_share_what_their_names_say() -> None:
    texts = aseq_bench.after(3, 2), aseq_bench.around(2, 2)
    assert [query.split("SEQ")[1].split(" WITHIN")[0] for query in texts[0].split(";")] == [
        "(T0, T1, T10)",
        "(T0, T1, T11)",
        "(T0, T1, T12)",
    ]
    assert "SEQ(T10, T0, T1, T9)" in texts[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aseq", "cogra"])
def test_all_ways_of_a_paper_s_figures_agree(name: str) -> None:
    report = run(name, scale=0.05, repeats=1)
    assert all(line.like for line in report.measurements)
    assert report.plot.startswith("<svg")


def test_memory_is_counted_in_the_papers_own_measures() -> None:
    report = Report("", (), {}, {"seed": 0, "scale": 0.1})
    objects = aseq_bench.ratios(report)
    assert [name.split(", ", 1)[1] for name in objects] == [
        "length 5, window 1000 ms",
        "length 3, window 1000 ms",
    ]
    assert min(objects.values()) > 3  # three steps to a beginning, and all that is built
    numbers = cogra_bench.ratios(report)
    assert numbers["events of a window over numbers of COGRA, next, 10000 a window"] == 10_000 / 3
    assert 1 < numbers["events of a window over numbers of COGRA, 90 %, one window"] < 1.5
