"""Plots of benches: every measurement is a dot, and what grows evenly is a straight line."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from trendfold.bench.curves import draw

SVG = "{http://www.w3.org/2000/svg}"


def test_every_measurement_is_a_dot_and_every_curve_is_named() -> None:
    drawn = ElementTree.fromstring(
        draw({"a < b": [(10, 1.0), (100, 2.0)], "c": [(20, 0.5)]}, {"n": [(10, 1.0)]})
    )
    assert len(drawn.findall(f"{SVG}circle")) == 3
    names = {text.text for text in drawn.findall(f"{SVG}text")}
    assert {"a < b", "c", "n", "100 ms", "1 s", "100 events"} <= names


def test_a_power_of_n_is_a_straight_line() -> None:
    drawn = draw({"n²": [(n, n * n * 1e-6) for n in (10, 100, 1_000)]}, {})
    points = re.search(r'<polyline class="line"[^>]*points="([^"]*)"', drawn)
    assert points is not None
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points[1].split())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2)


def test_nothing_measured_is_an_empty_picture() -> None:
    assert ElementTree.fromstring(draw({}, {})).findall(f"{SVG}circle") == []
