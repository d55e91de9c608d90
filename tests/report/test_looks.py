"""Pages as a person sees them in Chromium: nothing cut off, nothing too pale, charts that show something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from browser import Page, chromium, needs_chromium
from trendfold.errors import InputError
from trendfold.report import failure_page

pytestmark = needs_chromium
CHARTS = "[...document.querySelectorAll('[data-chart]')]"
LOOKS = {"light": (1100, False), "dark": (1100, True), "phone": (390, False)}

FAULTS = """<!doctype html><html lang="en"><body style="margin:0;background:#fff;color:#111">
<p style="color:#bbb">pale words</p>
<p style="width:60px;overflow:hidden;white-space:nowrap">words that are cut off</p>
<p style="position:absolute;left:-300px;top:90px">words far outside</p>
<button><i></i></button>
<figure><h3>empty</h3><svg width="200" height="50"><g class="mark-line"></g></svg></figure>
<figure><svg width="200" height="60"><g class="mark-rect"><path d="M0 0H50V50H0Z"/></g>
<text x="190" y="20">too far right</text>
<text x="20" y="50">one</text><text x="24" y="52">two</text></svg></figure>
<p>well</p></body></html>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("browser")) as page:
        yield page


def test_faults_are_found(page: Page, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(FAULTS, encoding="utf-8")
    page.look_like(800, 600)
    page.open((tmp_path / "page.html").as_uri())
    told = "\n".join(page.complaints())
    for fault in (
        "contrast 1.9: pale words",
        "cut off: words that are cut off",
        "outside of the window: words far outside",
        "no name: <button>",
        "nothing is drawn in empty",
        "a chart cuts off: too far right",
        "words on one another: one and two",
    ):
        assert fault in told
    assert "well" not in told


def rides(text: str) -> Any:
    return tf.parse(text).run(tf.datasets.ridesharing(events=5_000, seed=7))


def many_rows() -> Any:
    many = 1_000_000
    data = pa.table({"type": ["A"] * many, "ts": np.arange(many), "g": np.arange(many) % 7})
    return tf.parse("RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 1 s SLIDE 1 s").run(data)


PAGES = {
    "groups over time": (
        lambda: rides(
            "-- How many travel?\nQUERY by_kind RETURN kind, COUNT(*), AVG(T.speed) "
            "PATTERN SEQ(Request R, Travel T+) WHERE [driver, rider] GROUP BY kind WITHIN 1 s SLIDE 500 ms"
        ),
        ("How many travel?", "Most are of kind Pool", "Trends per window", "By kind", "163 rows as a table"),
    ),
    "hundreds of groups": (
        lambda: rides(
            "RETURN rider, COUNT(*) PATTERN SEQ(Request R, Travel T+) WHERE [rider] GROUP BY rider "
            "WITHIN 5 s SLIDE 5 s"
        ),
        ("the 8 largest can be picked", "The 16 largest of"),
    ),
    "matches": (
        lambda: rides("RETURN MATCHES(kind) PATTERN SEQ(Request R, Cancel C) WHERE [rider] WITHIN 1 min"),
        ("From first to last event a match takes", "seconds since the match began", "When matches begin"),
    ),
    "one row": (lambda: rides("RETURN COUNT(*) PATTERN Request"), ("314 trends.", "1 row as a table")),
    "no rows": (
        lambda: rides("RETURN COUNT(*) PATTERN request"),
        (
            "No trend of this pattern was found",
            "To see where nothing is left",
            "no event has the type 'request'",
        ),
    ),
    "a million rows": (many_rows, ("A point is the mean of 4,167 windows", "1,000,000 rows as a table")),
    "fifty queries": (
        lambda: rides(
            ";".join(f"QUERY q{i} RETURN COUNT(*) PATTERN Travel T WHERE T.speed > {i}" for i in range(50))
        ),
        ("q0, q1, q2 and 47 more", "q49"),
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "groups over time" else pytest.mark.slow) for name in PAGES],
)
def test_a_report_can_be_read(page: Page, tmp_path: Path, name: str) -> None:
    made, words = PAGES[name]
    made().report(tmp_path / "page.html")
    for width, is_dark in LOOKS.values():
        show(page, tmp_path / "page.html", width, is_dark)
        for word in words:
            assert word in page.text()
        page.js("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.complaints() == []
    assert page.errors == []


@pytest.mark.slow
def test_a_failure_and_a_plan_can_be_read(page: Page, tmp_path: Path) -> None:
    queries = tf.parse(
        "QUERY a RETURN COUNT(*) PATTERN SEQ(Request, Travel+) WHERE [rider];"
        "QUERY b RETURN COUNT(*) PATTERN Request WHERE [rider]"
    )
    failed, plan = tmp_path / "failed.html", tmp_path / "plan.html"
    failed.write_text(failure_page(queries.queries, InputError("no column 'x'")), encoding="utf-8")
    events = tf.datasets.ridesharing(events=5_000, seed=7)
    plan.write_text(str(queries.explain(format="html", data=events, analyze=True)), encoding="utf-8")
    for width, is_dark in LOOKS.values():
        for path, words in (
            (failed, ("The run failed", "no column 'x'")),
            (plan, ("What the queries have in common", "2 queries")),
        ):
            show(page, path, width, is_dark)
            assert all(word in page.js("document.documentElement.textContent") for word in words)
            assert page.complaints() == []


def show(page: Page, path: Path, width: int, is_dark: bool) -> None:
    """Open a page, high enough for all of it to be drawn."""
    page.look_like(width, 6000, is_dark=is_dark, is_phone=width < 500)
    page.open(path.as_uri())
    page.wait(f"{CHARTS}.every(host => host.querySelector('svg') || host.getBoundingClientRect().top > 6500)")
