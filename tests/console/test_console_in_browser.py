"""The console in a real browser: write a query with an error, see it, mend it, run it, read a number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf
from browser import Page, chromium, needs_chromium
from trendfold.cli import main

pytestmark = [pytest.mark.slow, needs_chromium]
EDITOR = "document.querySelector('.cm-content')"


def button(text: str) -> str:
    """The button with a text."""
    return f"[...document.querySelectorAll('button')].find(b => b.innerText.includes({text!r}))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    words = ["generate", "ridesharing", "--events", "5000", "--seed", "7"]
    assert main([*words, "--output", str(root / "rides.parquet")]) == 0
    return root


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> Iterator[Page]:
    words = [sys.executable, "-m", "trendfold", "console", str(folder), "--no-browser"]
    outside = {
        k: v for k, v in os.environ.items() if not k.startswith("PYTEST")
    }  # NiceGUI is another under pytest
    # To a file: Spark writes to standard error, too, and would wait for ever for a pipe that nobody reads.
    told = tmp_path / "told"
    with told.open("w") as errors, subprocess.Popen(words, stderr=errors, env=outside) as server:
        try:
            until = time.monotonic() + 60
            while (found := re.search(r"http://127\.0\.0\.1:\S+\n", told.read_text())) is None:
                assert time.monotonic() < until, told.read_text()
                time.sleep(0.1)
            with chromium(tmp_path) as page:
                page.look_like(1300, 1000)
                page.open_when_served(found.group().strip())
                page.wait_for("trendfold console")
                yield page
        finally:
            server.terminate()


def open_data(page: Page, name: str, events: int) -> None:
    page.click("document.querySelector('.tf-side input')")
    page.wait("document.querySelector('.q-menu .q-item')")
    page.click(f"[...document.querySelectorAll('.q-menu .q-item')].find(e => e.innerText.includes({name!r}))")
    page.wait_for(f"{events:,} events")


def open_rides(page: Page) -> None:
    open_data(page, "rides.parquet", 5_000)


def is_readable(page: Page) -> bool:
    """Whether nothing is cut off or too pale, by day, by night and on a phone."""
    for width, is_dark in ((1300, False), (1300, True), (390, False)):
        page.look_like(width, 1000, is_dark=is_dark, is_phone=width < 500)
        page.wait(f"document.body.classList.contains('body--dark') === {str(is_dark).lower()}")
        page.wait("!document.getAnimations().some(each => each instanceof CSSTransition)")
        assert page.complaints() == []
    page.look_like(1300, 1000)
    return True


def write(page: Page, text: str) -> None:
    """Replace the text of the editor."""
    page.click(EDITOR)
    page.press("a", 65, modifiers=2)
    page.type(text)


def test_from_an_error_to_a_number(page: Page, folder: Path) -> None:
    assert page.js("document.querySelectorAll('button[disabled]').length") >= 1
    assert is_readable(page)
    open_rides(page)
    page.wait_for("Request")
    page.wait(f"{EDITOR}.textContent.includes('PATTERN SEQ(Travel, Request)')")
    write(page, "RETURN COUNT(*) PATTERN Request R WHERE R.sped > 10")
    page.wait_for("1:41: query 'q1': there is no column 'sped'")
    page.wait("document.querySelector('.tf-wrong') !== null")
    assert page.js("document.querySelector('.tf-wrong').textContent") == "R.sped"
    assert is_readable(page)
    write(page, "RETURN COUNT(*) PATTERN Request R WHERE R.speed > 10")
    page.wait_for("1 query, no errors")
    page.wait_for("Request R")
    assert is_readable(page)
    page.press("Enter", 13, modifiers=2)
    page.wait("document.querySelector('iframe.tf-report') !== null", 120)
    shown = "document.querySelector('iframe.tf-report').contentDocument.body.innerText"
    page.wait(f"{shown}.includes('trends')")
    rides = tf.parse("RETURN COUNT(*) PATTERN Request R WHERE R.speed > 10").run(
        folder / "rides.parquet", engine="local"
    )
    assert f"{int(rides['q1']['count'][0].as_py()):,} trends" in page.js(shown)
    assert page.errors == []


def test_a_run_that_fails_says_why_on_its_page(page: Page) -> None:
    open_rides(page)
    write(page, "RETURN MATCHES PATTERN SEQ(Travel T, Travel U, Travel V)")
    page.wait_for("1 query, no errors")
    page.press("Enter", 13, modifiers=2)
    page.wait("document.querySelector('iframe.tf-report') !== null", 120)
    shown = "document.querySelector('iframe.tf-report').contentDocument.body.innerText"
    page.wait(f"{shown}.includes('The run failed') && {shown}.includes('more than 1,000,000 matches')")


def test_a_run_is_stopped_within_a_query(page: Page, folder: Path) -> None:
    many = 200_000  # a quarter of an hour
    slow = pa.table({"type": ["A"] * many, "ts": range(many), "x": np.random.default_rng(1).random(many)})
    pq.write_table(slow, folder / "slow.parquet")
    page.js("location.reload()")
    page.wait(f"{button('Run')}")
    open_data(page, "slow.parquet", many)
    write(page, "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).x < 0.9")
    page.wait_for("1 query, no errors")
    page.click(button("Run"))
    page.wait("/\\b[3-9] s\\b/.test(document.body.innerText)")
    assert page.js(f"{button('Run')}.disabled")
    page.click(button("Stop"))
    page.wait_for("Stopped", 5)
    page.wait(f"!{button('Run')}.disabled", 5)
    write(page, "RETURN COUNT(*) PATTERN A")
    page.wait_for("1 query, no errors")
    page.press("Enter", 13, modifiers=2)
    page.wait("document.querySelector('iframe.tf-report') !== null", 120)


def test_completion_why_and_saving(page: Page, folder: Path) -> None:
    open_rides(page)
    write(page, "RETURN COUNT(*) PATTERN SEQ(Req")
    page.wait("document.querySelector('.tf-suggestions').innerText.includes('Request')")
    page.click("document.querySelector('.tf-suggestions button')")
    page.wait(f"{EDITOR}.textContent.includes('SEQ(Request')")
    write(page, "RETURN COUNT(*) PATTERN SEQ(Request R, cancel C)")
    page.wait_for("1 query, no errors")
    page.click(button("Why no rows?"))
    page.wait_for("no event has the type 'cancel'", 60)
    page.click(button("More"))
    page.wait("document.querySelector('.q-menu .q-item') !== null")
    page.click("[...document.querySelectorAll('.q-menu .q-item')].find(e => e.innerText.startsWith('Save'))")
    page.wait("document.querySelector('.q-dialog input') !== null")
    page.js(
        "[...document.querySelectorAll('.q-dialog button')].find(b => b.innerText.includes('Save')).click()"
    )
    page.wait_for("Saved queries.tql")
    assert (folder / "queries.tql").read_text() == "RETURN COUNT(*) PATTERN SEQ(Request R, cancel C)"


def test_a_stream_is_watched_and_stopped(page: Page) -> None:
    write(page, "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s SLIDE 1 s")
    page.wait_for("1 query, no errors")
    page.click("[...document.querySelectorAll('.q-tab')].find(e => e.innerText.includes('Stream'))")
    page.wait(f"{button('Start')} && {button('Start')}.getBoundingClientRect().x > 0")
    page.js(f"{button('Start')}.click()")
    page.wait_for("Stream, running", 180)
    page.wait("/pairs: [1-9][0-9]* row/.test(document.body.innerText)", 180)
    write(page, "QUERY alone RETURN COUNT(*) PATTERN A WITHIN 1 s SLIDE 1 s")
    page.wait_for("1 query, no errors")
    page.js(f"{button('Add the editor')}.click()")
    page.wait_for("Added alone", 180)
    page.wait("/alone: [1-9][0-9]* row/.test(document.body.innerText)", 180)
    page.js("document.querySelector('button[aria-label=\"Remove pairs\"]').click()")
    page.wait_for("Removed pairs", 180)
    page.wait("!document.body.innerText.includes('pairs: ')", 180)
    page.js(f"{button('Stop the stream')}.click()")
    page.wait_for("The stream is stopped.", 60)
