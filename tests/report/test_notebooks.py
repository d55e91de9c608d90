"""What notebooks show, and that those of `examples` run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.runtime.notebook import is_notebook, progress_bar, table_html

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of asyncio and zmq, in Jupyter's own code
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("text/html" in output.get("data", {}) for output in outputs)


def test_workloads_results_summaries_and_plans_have_html() -> None:
    workload = tf.parse("QUERY a RETURN x, COUNT(*) PATTERN A GROUP BY x")
    data = pa.table({"type": ["A"] * 30, "ts": range(30), "x": [f"<{i}>" for i in range(30)]})
    result = workload.run(data)
    assert "PATTERN A" in workload._repr_html_()
    assert "<b>30</b>" in result.summary._repr_html_()
    assert "a: 30 rows" in result._repr_html_()
    assert "... and 20 more rows" in result._repr_html_()
    assert "&lt;10&gt;" in result._repr_html_()
    assert "<10>" not in result._repr_html_()
    assert "<td>a</td>" in result.plan._repr_html_()


def test_numbers_and_nulls_in_tables() -> None:
    html = table_html("t", ["a"], [[1.0], [2.5], [1e300], [float("inf")], [float("nan")], [None]])
    for shown in ("1", "2.5", "1e+300", "inf", "nan", ""):
        assert f"<td>{shown}</td>" in html


def test_outside_of_a_notebook_there_is_no_bar() -> None:
    assert not is_notebook()
    assert progress_bar() is None
