"""Reports in a real browser: everything is drawn, offline, at every width, and reacts to keys and clicks."""

from __future__ import annotations

from pathlib import Path

import pytest

import trendfold as tf
from browser import chromium, needs_chromium

QUERIES = """
QUERY by_kind RETURN kind, COUNT(*), AVG(T.speed) PATTERN SEQ(Request R, Travel T+) WHERE [driver, rider]
GROUP BY kind WITHIN 1 s SLIDE 500 ms;
QUERY rides RETURN COUNT(*) PATTERN Request WITHIN 1 s SLIDE 1 s;
QUERY all_kinds RETURN kind, COUNT(*) PATTERN Request GROUP BY kind;
QUERY gone RETURN MATCHES(kind) PATTERN SEQ(Request R, Cancel C) WHERE [rider] WITHIN 1 min
"""
TIMES = "document.querySelector('[data-chart] .role-axis-label').textContent"
CHARTS = "[...document.querySelectorAll('[data-chart]')]"


@pytest.mark.slow
@needs_chromium
def test_a_report_in_a_browser(tmp_path: Path) -> None:
    events = tf.datasets.ridesharing(events=5_000, seed=7)
    tf.parse(QUERIES).run(events).report(tmp_path / "page.html")
    with chromium(tmp_path) as page:
        for width, is_dark in ((1100, False), (390, True)):
            page.look_like(width, 6000, is_dark=is_dark, is_phone=width < 500)
            page.open((tmp_path / "page.html").as_uri())
            page.wait(f"{CHARTS}.every(host => host.querySelector('svg'))")
            assert page.js("document.documentElement.scrollWidth") <= width
            assert page.js(
                f"{CHARTS}.every(h => h.querySelector('svg').getBoundingClientRect().width <= h.clientWidth)"
            )
            assert (
                page.js("document.querySelectorAll('.mark-rect path[aria-roledescription=bar]').length") > 4
            )
        assert {url.partition(":")[0] for url in page.requested} <= {"file", "data", "blob"}

        lines = "document.querySelectorAll('figure .mark-line path').length"
        before = page.js(lines)
        page.js("document.querySelector('.chip').focus()")
        page.press(" ", 32)
        page.wait(
            f"document.querySelector('.chip').getAttribute('aria-pressed') === 'false' || {lines} < {before}"
        )

        page.js("document.querySelector('[data-chart] .mark-area').scrollIntoView({block: 'center'})")
        times = page.js(TIMES)
        page.drag("document.querySelector('[data-chart] .mark-area')", 0.3, 0.6)
        page.wait(f"{TIMES} !== {times!r}")

        page.click("document.querySelector('details.rows summary')")
        page.wait("document.querySelectorAll('details.rows tbody tr').length > 10")
        page.js("document.querySelectorAll('details.rows th button')[3].focus()")
        page.press("Enter", 13)
        page.wait("document.querySelectorAll('details.rows th')[3].getAttribute('aria-sort') === 'ascending'")
        page.js("document.querySelector('details.rows input').focus()")
        page.type("kind:Pool")
        page.wait(
            "[...document.querySelectorAll('details.rows')[0].querySelectorAll('tbody tr')]"
            ".every(tr => tr.cells[2].textContent === 'Pool')"
        )
        assert page.errors == []
