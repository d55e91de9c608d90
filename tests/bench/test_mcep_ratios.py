"""Headlines about figures, from points that are given."""

from __future__ import annotations

import pytest

from trendfold.bench.mcep_figures import LOCAL, RIVALS, Figure
from trendfold.bench.mcep_ratios import headlines
from trendfold.bench.paper_claims import read_claims

TITLES = (
    "Figures 10, 12a, {}: patterns",
    "Figures 11a, 12b, {}: size",
    "Figure 11b, {}: seconds of search",
    "Figures 11c, 12c, {}: window, events per type",
    "Figures 11d, 12d, {}: window of events",
    "Figure 13, {}: reshuffles per 1,000 events",
    "Figure 14ab, {}: density of the multi-pattern graph",
    "Figure 14cd, {}: difference of rates",
)


def drawn(**curves: tuple[float, ...]) -> Figure:
    return {name.replace("_", "-"): list(enumerate(points)) for name, points in curves.items()}


def test_searches_are_compared_point_by_point_with_the_better_rival() -> None:
    figure = drawn(SA_EDGE=(4.0, 9.0), TS_EDGE=(6.0, 8.0), SH=(1.0, 6.0), RE=(2.0, 3.0))
    found = headlines({"Figures 11c, 12c, stock: window, events per type": figure})
    assert found == {
        "Figure 11c, stock: gain in the longest window over the shortest": 1.5,
        "Figure 12c, stock: over the better of SH and RE, least": 1.5,
    }


def test_adapting_is_compared_where_it_gains_least() -> None:
    figure = drawn(static=(2.0, 4.0), adaptive=(5.0, 4.0))
    found = headlines({"Figure 13, stock: reshuffles per 1,000 events": figure})
    assert found == {
        "Figure 13, stock: adaptive over trivial, least": 4.0,
        "Figure 13, stock: adaptive over static, least": 1.0,
    }


@pytest.mark.parametrize("stream", ["stock", "traffic"])
def test_every_claim_about_a_figure_has_its_headline(stream: str) -> None:
    curves = {name: [(1.0, 1.0), (2.0, 3.0)] for name in (*LOCAL, *RIVALS, "static", "adaptive")}
    found = headlines({title.format(stream): curves for title in TITLES})
    wanted = {claim.measured for claim in read_claims() if claim.bench == "mcep" and stream in claim.measured}
    assert wanted == found.keys()
