"""Make the pictures of docs/reports.md and docs/console.md, in Chromium.

PYTHONPATH=src:tests python tools/screenshots.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trendfold as tf
from browser import Page, chromium

DOCS = Path(__file__).parents[1] / "docs"
QUERY = """-- Which kinds of rides are on the way?
QUERY on_the_way
RETURN kind, COUNT(*), AVG(T.speed)
PATTERN SEQ(Request R, Travel T+)
WHERE [driver, rider]
GROUP BY kind WITHIN 5 s SLIDE 5 s"""


def main() -> None:
    """Take both pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = tf.datasets.ridesharing(events=20_000, seed=7)
        (folder / "work").mkdir()
        tf.parse(QUERY).run(events).report(folder / "page.html")
        words = "generate ridesharing --events 20000 --seed 7 --output".split()
        subprocess.run(
            [sys.executable, "-m", "trendfold", *words, folder / "work" / "rides.parquet"], check=True
        )
        with chromium(folder) as page:
            report(page, folder / "page.html")
            console(page, folder / "work")


def report(page: Page, path: Path) -> None:
    """The upper part of a report."""
    page.look_like(860, 1080)
    page.open(path.as_uri())
    page.wait("[...document.querySelectorAll('[data-chart]')].every(host => host.querySelector('svg'))")
    time.sleep(1)
    page.shoot(DOCS / "report.webp", is_whole=False)


def console(page: Page, folder: Path) -> None:
    """The console with data, a query and its plan."""
    words = [sys.executable, "-m", "trendfold", "console", str(folder), "--no-browser"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\S+", server.stderr.readline())
        assert found is not None
        page.look_like(1240, 800)
        page.open_when_served(found.group())
        page.wait("document.querySelector('.tf-side input')")
        page.click("document.querySelector('.tf-side input')")
        page.wait("document.querySelector('.q-menu .q-item')")
        page.click("document.querySelector('.q-menu .q-item')")
        page.wait_for("20,000 events")
        page.click("document.querySelector('.cm-content')")
        page.press("a", 65, modifiers=2)
        page.type(QUERY)
        page.wait_for("on_the_way")
        time.sleep(2)
        page.shoot(DOCS / "console.webp", is_whole=False)
        server.terminate()


if __name__ == "__main__":
    main()
