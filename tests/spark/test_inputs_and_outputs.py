"""The command line and Python on a real Spark: several inputs, and folders that belong to a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from trendfold.cli import main
from trendfold.errors import InputError
from trendfold.runtime import engine_for
from trendfold.runtime.ownership import OWNER_FILE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two inputs, the first of which has the name of a query."""
    monkeypatch.chdir(tmp_path)
    for place, types, times in (("inp/a.parquet", ["A", "B", None], [1, 2, 3]), ("more.parquet", ["B"], [4])):
        Path(place).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"type": pa.array(types, pa.string()), "ts": times}), place)
    Path("empty").mkdir()
    return tmp_path


def test_several_paths_are_one_input(spark: SparkSession, folder: Path) -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+)")
    paths = [folder / "inp", folder / "more.parquet", str(folder / "inp" / "*"), folder / "empty"]
    result = workload.run(paths, engine="spark")
    assert result["q1"].toArrow().column("count").to_pylist() == [3.0]
    assert (result.summary.events, result.summary.rejects) == (4, 1)
    assert result.summary.warnings == (f"the folder {folder / 'empty'} has no files",)
    urls = [f"file://{folder}/inp", f"file://{folder}/more.parquet"]
    assert workload.run(urls)["q1"].toArrow().column("count").to_pylist() == [3.0]
    Path("inp/b.csv").write_text("type,ts\nA,1\n")
    with pytest.raises(InputError, match="has 2 parquet and 1 csv files"):
        workload.run(urls)


def test_results_of_every_engine_are_views_for_sql(spark: SparkSession, folder: Path) -> None:
    workload = tf.parse('RETURN COUNT(*) PATTERN SEQ(A, B+); QUERY "my query" RETURN COUNT(*) PATTERN A')
    for engine in ("spark", "local"):
        result = workload.run(folder / "inp", engine=engine)
        assert result.create_views(spark, prefix=f"{engine}_") == [f"{engine}_q1", f"{engine}_my query"]
        asked = spark.sql(f"SELECT a.count + b.count FROM {engine}_q1 a, `{engine}_my query` b").collect()
        assert [row[0] for row in asked] == [2.0]
        assert result.to_pandas()["q1"]["count"].tolist() == [1.0]


def test_a_session_of_another_thread_answers_small_files_too(spark: SparkSession, folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(engine_for, folder / "more.parquet").result() == ("spark", ())
    assert engine_for(folder / "more.parquet") == ("spark", ())


def test_a_run_on_spark_owns_its_folder(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = "QUERY a RETURN COUNT(*) PATTERN A+"
    Path("g.tql").write_text(f"{one}; QUERY b RETURN COUNT(*) PATTERN B+")
    inputs = [
        "--input",
        str(folder / "inp"),
        "--input",
        str(folder / "more.parquet"),
    ]  # workers are elsewhere
    given = ["run", "g.tql", *inputs, "--engine", "spark"]
    assert main([*given, "--output", "out", "--rejects", "bad"]) == 0
    Path("g.tql").write_text(one)
    assert main([*given, "--output", "out", "--rejects", "bad", "--format", "csv"]) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [OWNER_FILE, "a.csv"]
    assert sorted(path.name for path in Path("bad").iterdir()) == [OWNER_FILE, "rejects.csv"]
    before = Path("inp/a.parquet").read_bytes()
    assert main([*given, "--output", "inp", "--overwrite"]) == 2
    assert Path("inp/a.parquet").read_bytes() == before
    assert main([*given, "--limit", "groups=0"]) == 2
    assert "limit 'groups' is 0" in capsys.readouterr().err
