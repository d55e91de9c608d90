"""A notebook's cell that shows a stream: it follows the stream while it runs, is changed, and ends."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # of asyncio and zmq, in Jupyter's own code
]

START = """
import tempfile, time
import trendfold as tf
from trendfold.runtime.spark.session import session
from trendfold.runtime.spark.stream_sources import open_stream
from trendfold.events.text_files import CsvOptions

def wait(condition):
    until = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < until, handle.progress
        time.sleep(0.2)

events = open_stream(session(), "rate:50", CsvOptions(), ["A", "B"])
folder = tempfile.TemporaryDirectory()
pairs = tf.parse("QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s SLIDE 1 s")
wanted = dict(watermark="1 s", output=lambda *_: None, trigger="1 second")
handle = pairs.start(events, checkpoint=folder.name, **wanted)
handle
"""
FOLLOW = """
wait(lambda: handle.progress.rows["pairs"] > 0)
time.sleep(3)  # the cell looks every two seconds
"""
CHANGE = """
handle.add("QUERY alone RETURN COUNT(*) PATTERN A WITHIN 1 s SLIDE 1 s")
wait(lambda: handle.progress.rows.get("alone"))
time.sleep(3)
"""
END = """
handle.stop()
time.sleep(3)
session().stop()
"""


def test_a_streams_cell_follows_it_to_its_end() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in (START, FOLLOW, CHANGE, END)]
    client = NotebookClient(notebook, timeout=400, kernel_name="python3")
    shown = []
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
            shown.append(html_of(notebook.cells[0]))
    assert "Stream, running" in shown[0]
    events = [
        int(found[1].replace(",", ""))
        for each in shown
        if (found := re.search(r"events</small><br><b>([\d,]+)", each))
    ]
    assert 0 < events[1] < events[2] <= events[3]
    assert re.search("pairs: [1-9]", shown[1])
    assert re.search("alone: [1-9]", shown[2])
    assert "Stream, stopped" in shown[3]


def html_of(cell: Any) -> str:
    """What a cell shows."""
    [display] = (each for each in cell.outputs if "text/html" in each.get("data", {}))
    return str(display["data"]["text/html"])
