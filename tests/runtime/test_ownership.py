"""Which folders stand apart, and who a folder belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from trendfold.errors import InputError
from trendfold.runtime.ownership import OWNER_FILE, Owner, owner_of, relation, require_apart
from trendfold.runtime.places import place


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a folder of data and links to it."""
    (tmp_path / "data" / "day").mkdir(parents=True)
    (tmp_path / "data" / "day" / "a.csv").touch()
    (tmp_path / "data" / "a[1].csv").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("written", "read", "how"),
    [
        ("data", "data", "is"),
        ("data/", "data", "is"),
        ("./other/../data//", "data", "is"),
        ("link", "data", "is"),
        ("data", "link/", "is"),
        ("file:{here}/data", "data", "is"),
        ("file://{here}/data/", "{here}/data", "is"),
        ("data", "file:///{here}/other/%2e%2e/data", "is"),
        (".", "data", "holds"),
        ("data/day", "data/day/a.csv", "holds"),
        ("link", "data/day/a.csv", "holds"),
        ("data", "link/day", "holds"),
        ("link/new", "data", "lies in"),
        ("data/day/a.csv", "data/day/a.csv", "is"),
        ("data/day/a.csv/x", "data/day/a.csv", "lies in"),
        ("data/results", "data/day", ""),
        ("data2", "data", ""),
        ("dat", "data", ""),
        ("new/deep", "data", ""),
        # globs
        ("data", "data/*.csv", "holds"),
        ("data/day", "data/day/*", "holds"),
        (".", "data/*/a.csv", "holds"),
        ("data/day", "data/*/a.csv", "lies in"),
        ("data/day", "data/*", "lies in"),
        ("data/day/deeper", "data/d*", "lies in"),
        ("data/day", "data/**/*.csv", "lies in"),
        ("data/day", "link/d??", "lies in"),
        ("data/new", "data/*.csv", ""),
        ("out", "*.csv", ""),
        ("out", "*", "lies in"),
        (".out", "*", ""),
        ("other", "data/*", ""),
        ("data", "data/a[1].csv", "holds"),
        ("data/a1.csv", "data/a[1].csv", ""),
        # elsewhere
        ("s3://bucket/a", "s3://bucket/a/", "is"),
        ("s3://bucket/a", "s3a://bucket/x/../a", "is"),
        ("s3://bucket", "s3://bucket/a", "holds"),
        ("hdfs://host/a/b", "hdfs://host/a", "lies in"),
        ("hdfs://host/a/b", "hdfs://host/a/{{b,c}}", "lies in"),
        ("hdfs://host/a/b", "hdfs://host/a/*.parquet", ""),
        ("hdfs://host/ab", "hdfs://host/a", ""),
        ("hdfs://host/a", "hdfs://other/a", ""),
        ("s3://bucket/data", "data", ""),
    ],
)
def test_a_folder_is_holds_or_lies_in_another(here: Path, written: str, read: str, how: str) -> None:
    assert relation(written.format(here=here), read.format(here=here)) == how


def test_what_is_not_apart_is_told_with_both_names(here: Path) -> None:
    with pytest.raises(InputError, match=r"--output '\.' holds --input 'data': .* choose another folder"):
        require_apart(("--output", "."), {"--rejects": None, "--input": Path("data")})
    require_apart(("--output", "new"), {"--rejects": None, "--input": "data"})


def test_an_owner_is_read_as_it_was_written(here: Path) -> None:
    owner = Owner("run", "7", "rides.tql", ("a", "b"), ("a.csv", "sub/b.csv"))
    assert owner_of(place("data")) is None
    owner.write(place("data"))
    assert owner_of(place("data")) == owner


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "run"}', '{"kind": "run", "id": 1, "more": 2}'])
def test_an_owner_that_is_damaged_is_told(here: Path, content: str) -> None:
    Path("data", OWNER_FILE).write_text(content)
    with pytest.raises(InputError, match=r"_trendfold\.json' is damaged"):
        owner_of(place("data"))


def test_a_run_is_of_a_workload_by_its_file_or_by_a_query() -> None:
    owner = Owner("run", "7", "rides.tql", ("a", "b"))
    assert owner.is_of("rides.tql", ("c",))
    assert owner.is_of("other.tql", ("b", "c"))
    assert not owner.is_of("other.tql", ("c",))
    assert not Owner("stream", "7", "rides.tql", ("a",)).is_of("rides.tql", ("a",))
