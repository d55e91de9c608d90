"""Detection on slices of published streams equals a plain nested loop over the events."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trendfold as tf

SHARED = Path(os.environ.get("TRENDFOLD_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
EVENTS = SHARED / "data" / "events"

pytestmark = pytest.mark.skipif(not EVENTS.exists(), reason="the published streams are not here")

Event = dict[str, Any]
Test = Callable[..., bool]


def stocks(name: str, rows: slice) -> list[Event]:
    with open(EVENTS / name, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))[rows]
    return [
        {
            "type": line[0],
            "ts": int(datetime.strptime(line[1], "%Y%m%d%H%M").timestamp()),
            "open": float(line[2]),
            "close": float(line[5]),
            "volume": int(line[6]),
        }
        for line in lines
    ]


def sensors(rows: slice) -> list[Event]:
    with open(EVENTS / "Sensors.dat", encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))[rows]
    return [
        {
            "type": line[0],
            "ts": int(datetime.strptime(line[1], "%m/%d/%Y %H:%M:%S").timestamp()),
            "x": float(line[3]),
        }
        for line in lines
    ]


def traffic(rows: slice) -> list[Event]:
    with gzip.open(EVENTS / "aarhus_traffic_20.csv.gz", "rt", encoding="utf-8") as file:
        lines = sorted(csv.DictReader(file), key=lambda line: (line["time"], line["sensor"]))[rows]
    return [
        {
            "type": f"P{line['sensor']}",
            "ts": int(datetime.fromisoformat(line["time"]).timestamp()),
            "speed": int(line["avg_speed"]),
            "vehicles": int(line["vehicle_count"]),
        }
        for line in lines
    ]


def loop(events: Sequence[Event], types: Sequence[str], within: int, in_order: bool, test: Test) -> Iterator:
    """All tuples of one event per type, by nothing but loops."""

    def grow(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == len(types):
            if test(*(events[i] for i in chosen)):
                yield chosen
            return
        for i, event in enumerate(events):
            if event["type"] != types[len(chosen)]:
                continue
            if in_order and chosen and events[chosen[-1]]["ts"] >= event["ts"]:
                continue
            if any(abs(events[a]["ts"] - event["ts"]) >= within for a in chosen):
                continue
            yield from grow((*chosen, i))

    return grow(())


def found(events: Sequence[Event], query: str, names: Sequence[str]) -> list[tuple[int, ...]]:
    rows = tf.parse(query).run(pa.Table.from_pylist(list(events)))["q1"].to_pylist()
    assert rows
    return sorted(tuple(row[name][0]["id"] for name in names) for row in rows)


@pytest.mark.parametrize("start", [0, 400, 900])
def test_sequences_of_stock_minutes(start: int) -> None:
    events = stocks("NASDAQ_AAPL_AMZN_GOOG.txt", slice(start, start + 150))
    query = """RETURN MATCHES PATTERN SEQ(AAPL a, AMZN b, GOOG c)
        WHERE a.close > a.open AND a.volume < b.volume AND b.close < c.close WITHIN 8 min"""
    expected = loop(
        events,
        ["AAPL", "AMZN", "GOOG"],
        480,
        True,
        lambda a, b, c: a["close"] > a["open"] and a["volume"] < b["volume"] and b["close"] < c["close"],
    )
    assert found(events, query, "abc") == sorted(expected)


def test_conjunctions_of_stock_minutes() -> None:
    events = stocks("NASDAQ_MEDIUM.txt", slice(0, 200))
    query = """RETURN MATCHES PATTERN AND(DRIV d, MSFT m, ORLY a)
        WHERE d.volume < m.volume AND a.close > a.open WITHIN 4 min"""
    expected = loop(
        events,
        ["DRIV", "MSFT", "ORLY"],
        240,
        False,
        lambda d, m, a: d["volume"] < m["volume"] and a["close"] > a["open"],
    )
    assert found(events, query, "dma") == sorted(expected)


def test_patterns_over_stock_minutes_together() -> None:
    """Three patterns that share joins, in one workload, and windows that count events."""
    events = stocks("NASDAQ_AAPL_AMZN_GOOG.txt", slice(0, 180))
    for i, event in enumerate(events):
        event["number"] = i
    patterns = {
        "q0": (["AAPL", "AMZN"], True, 12, lambda a, b: a["volume"] < b["volume"]),
        "q1": (["AAPL", "AMZN", "GOOG"], True, 12, lambda a, b, c: a["volume"] < b["volume"]),
        "q2": (["GOOG", "AAPL", "AMZN"], False, 9, lambda c, a, b: a["volume"] < b["volume"] < c["volume"]),
    }
    where = {
        "q0": "AAPL.volume < AMZN.volume",
        "q1": "AAPL.volume < AMZN.volume",
        "q2": "AAPL.volume < AMZN.volume AND AMZN.volume < GOOG.volume",
    }
    text = ";".join(
        f"QUERY {name} RETURN MATCHES PATTERN {'SEQ' if in_order else 'AND'}({', '.join(types)}) "
        f"WHERE {where[name]} WITHIN {within} events"
        for name, (types, in_order, within, _) in patterns.items()
    )
    result = tf.parse(text).run(pa.Table.from_pylist(events), order_column="number")
    numbered = [{**event, "ts": event["number"]} for event in events]
    for name, (types, in_order, within, test) in patterns.items():
        rows = result[name].to_pylist()
        found = sorted(tuple(row[kind][0]["id"] for kind in types) for row in rows)
        assert found == sorted(loop(numbered, types, within, in_order, test))
        assert found


def test_a_missing_reading_between_two_of_a_sensor() -> None:
    events = sensors(slice(0, 300))
    query = """RETURN MATCHES PATTERN SEQ(Magnetometer m, NOT PressTemp, Accelerometer a)
        WHERE m.x < a.x WITHIN 12 s"""
    pressure = [event["ts"] for event in events if event["type"] == "PressTemp"]
    expected = loop(
        events,
        ["Magnetometer", "Accelerometer"],
        12,
        True,
        lambda m, a: m["x"] < a["x"] and not any(m["ts"] < t < a["ts"] for t in pressure),
    )
    assert found(events, query, "ma") == sorted(expected)


def test_every_rising_run_of_traffic() -> None:
    """A Kleene closure on real readings: every rising sub-sequence within half an hour."""
    events = [event for event in traffic(slice(4000, 4400)) if event["vehicles"] > 0]
    kind = events[0]["type"]
    own = [i for i, event in enumerate(events) if event["type"] == kind]
    expected = []
    for size in range(1, 8):
        for chosen in combinations(own, size):
            times = [events[i]["ts"] for i in chosen]
            counts = [events[i]["vehicles"] for i in chosen]
            if times[-1] - times[0] < 1800 and all(a < b for a, b in pairwise(counts)):
                expected.append(chosen)
    query = f"RETURN MATCHES PATTERN {kind} p+ WHERE p.vehicles < NEXT(p).vehicles WITHIN 30 min"
    rows = tf.parse(query).run(pa.Table.from_pylist(events))["q1"].to_pylist()
    assert sorted(tuple(e["id"] for e in row["p"]) for row in rows) == sorted(expected)
