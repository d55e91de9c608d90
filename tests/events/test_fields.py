"""Fields of nested columns, `B.place.city`: from tables, frames and files, with good errors."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf
from trendfold.errors import QueryError
from trendfold.events.fields import only_columns, outermost, take_fields, with_fields

QUERIES = """
QUERY a RETURN A.place.city, COUNT(*), SUM(B.place.geo.lat) PATTERN SEQ(A, B+)
WHERE B.place.city != 'z' AND NEXT(B).place.geo.lat >= B.place.geo.lat
GROUP BY A.place.city WITHIN 40 s SLIDE 40 s;
QUERY b RETURN "place.city", COUNT(*), COUNT(DISTINCT user.id) PATTERN SEQ(A, B) WHERE [user.id, place.city]
GROUP BY "place.city" WITHIN 50 s SLIDE 25 s
"""
WORKLOAD = tf.parse(QUERIES.replace("user.id)", '"user.id")'))
FLAT = tf.parse(
    QUERIES.replace('"place.city"', "city")
    .replace("place.geo.", "")
    .replace("place.city", "city")
    .replace("user.id", "id")
)


def events(rows: int = 200, seed: int = 3) -> list[dict]:
    """Events with a place (its parts may be null, or the whole of it) and a user."""
    rng = random.Random(seed)

    def place() -> dict | None:
        geo = rng.choice([None, {"lat": rng.choice([None, 1.5, 2.5, 3.0])}])
        return rng.choice([None, *[{"city": rng.choice(["x", "y", "z", None]), "geo": geo}] * 5])

    return [
        {"type": rng.choice("AB"), "ts": t, "place": place(), "user": {"id": rng.randint(1, 3)}}
        for t in range(rows)
    ]


def flattened(rows: list[dict]) -> pa.Table:
    """The same events with a column per field."""
    places = [row["place"] or {} for row in rows]
    return pa.table(
        {
            "type": [row["type"] for row in rows],
            "ts": [row["ts"] for row in rows],
            "city": pa.array([place.get("city") for place in places], pa.string()),
            "lat": pa.array([(place.get("geo") or {}).get("lat") for place in places], pa.float64()),
            "id": [row["user"]["id"] for row in rows],
        }
    )


def values(result: object, name: str) -> list[list]:
    return [list(row.values()) for row in result[name].to_pylist()]  # type: ignore[index]


@pytest.mark.parametrize("kind", ["table", "pandas", "polars", "parquet", "jsonl"])
def test_fields_are_read_like_columns(kind: str, tmp_path: Path) -> None:
    rows = events()
    table = pa.Table.from_pylist(rows)
    path = tmp_path / f"events.{kind}"
    data = {"table": lambda: table, "pandas": table.to_pandas}.get(kind, lambda: path)
    if kind == "polars":
        data = pytest.importorskip("polars").from_arrow(table).lazy
    elif kind == "parquet":
        pq.write_table(table, path)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result, wanted = WORKLOAD.run(data()), FLAT.run(flattened(rows))
    for name in "ab":
        assert values(result, name) == values(wanted, name)
        assert len(values(result, name)) > 2
    assert result["a"].column_names[2:] == ["place.city", "count", "sum_B_place.geo.lat"]


def test_files_of_which_one_lacks_a_field(tmp_path: Path) -> None:
    rows = events()
    for name, part in (("a", rows[:100]), ("b", [{**row, "place": None} for row in rows[100:]])):
        text = "\n".join(json.dumps(row) for row in part)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    result = WORKLOAD.run(tmp_path)
    same = WORKLOAD.run(pa.Table.from_pylist([*rows[:100], *({**row, "place": None} for row in rows[100:])]))
    assert values(result, "a") == values(same, "a")


def test_only_the_fields_of_a_parquet_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.Table.from_pylist(events()), tmp_path / "events.parquet")
    asked = []
    real = pq.ParquetFile.read
    monkeypatch.setattr(
        pq.ParquetFile, "read", lambda self, columns: asked.append(columns) or real(self, columns)
    )
    tf.parse("RETURN COUNT(*) PATTERN A WHERE A.place.city = 'x'").run(tmp_path / "events.parquet")
    assert [sorted(columns) for columns in asked] == [["place.city", "ts", "type"]]


def test_a_column_wins_over_a_field_of_its_name() -> None:
    table = pa.table({"a.b": [1], "a": [{"b": 2, "c": {"d": 3}}]})
    known = with_fields(table.schema)
    assert list(known) == ["a.b", "a", "a.c", "a.c.d"]
    assert only_columns(with_fields(table.select(["a"]).schema)) == ["a"]
    assert take_fields(table, ["a.c.d", "a.b"]).to_pylist() == [{"a.c.d": 3, "a.b": 1}]
    assert outermost(["a.b", "a.c.d", "x.y"], table.column_names) == {"a.b", "a", "x.y"}


def test_types_times_and_matches_may_be_fields() -> None:
    nested = pa.table({"meta": [{"kind": "A", "at": 1}, {"kind": "B", "at": 3}], "v": [{"w": 1}, {"w": 2}]})
    options = {"type_column": "meta.kind", "time_column": "meta.at"}
    result = tf.parse("RETURN MATCHES(v.w) PATTERN SEQ(A, B) WHERE B.v.w > 1").run(nested, **options)
    (row,) = result["q1"].to_pylist()
    assert (row["start"], row["end"], [each["v.w"] for each in row["B"]]) == (1, 3, [2])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("WHERE A.place.cty = 'x'", "there is no column 'place.cty'", "did you mean 'place.city'?"),
        ("WHERE A.place = 'x'", "A.place cannot be compared", "name a field of it, as in A.place.city"),
        (
            "GROUP BY place.city",
            "unknown alias 'place'",
            'a field of a column is quoted: GROUP BY "place.city"',
        ),
        ("WHERE A.type.x = 'x'", "there is no column 'type.x'", "did you mean 'type'?"),
    ],
)
def test_what_is_no_field_is_an_error_at_its_place(text: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        tf.parse(f"RETURN COUNT(*) PATTERN A {text}").run(pa.Table.from_pylist(events()))
    assert message in caught.value.problems[0].message
    assert hint in caught.value.problems[0].hint


def test_fields_print_as_they_are_read() -> None:
    text = (
        'QUERY q\nRETURN T.a.b, "c.d", COUNT(*), SUM(T.a."odd name".x)\nPATTERN T+\n'
        'WHERE [user.id] AND T.a.b < NEXT(T).a.b AND T."group".y = 1\nGROUP BY T.a.b, "c.d"'
    )
    workload = tf.parse(text)
    assert str(workload) == f"{text};"
    assert tf.parse(str(workload)).queries == workload.queries
    assert "MATCHES(a.b, c)" in str(tf.parse("RETURN MATCHES(a.b, c) PATTERN A"))


def test_fields_in_python() -> None:
    a, b = tf.events("A", "B")
    query = tf.query(
        tf.seq(a, b.plus()),
        returns=[a.place.city, tf.sum(b.place.geo.lat)],
        where=[b.place["city"] != "z", b.place.geo.lat <= tf.next(b).place.geo.lat],
        group_by=[a.place.city],
    )
    assert "SUM(B.place.geo.lat)" in str(query)
    assert "NEXT(B).place.geo.lat" in str(query)
    with pytest.raises(TypeError, match="values have no method 'isin'; did you mean 'is_in'"):
        b.place.city.isin(["x"])
    with pytest.raises(AttributeError, match="has no 'x'"):
        _ = (b.place + 1).x
