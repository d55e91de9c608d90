"""Where rows go: what is said when they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from chaos.streams import may_mount, small_disk
from trendfold.errors import TrendfoldError
from trendfold.runtime.spark.sinks import FolderSink, open_rejects, open_sink

NO_SESSION: Any = None  # a folder is written without Spark


@pytest.mark.skipif(not may_mount(), reason="only root can mount a small disk")
def test_a_disk_that_is_full_is_told_of_and_leaves_no_half_batch(tmp_path: Path) -> None:
    rows = {"q": pa.table({"count": list(range(1_000_000))})}
    with small_disk(tmp_path / "out", 64):
        sink = open_sink(tmp_path / "out")
        with pytest.raises(TrendfoldError, match=r"batch=0': No space left on device; no data is lost"):
            sink.write(NO_SESSION, 0, rows)
        assert not (tmp_path / "out" / "q" / "batch=0").exists()


def test_rejects_in_a_folder_do_not_take_the_format_of_a_table(tmp_path: Path) -> None:
    sink = open_rejects(tmp_path / "rejects", "delta")
    assert isinstance(sink, FolderSink)
    assert sink.file_format == "parquet"
