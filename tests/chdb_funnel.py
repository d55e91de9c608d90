"""ClickHouse's `windowFunnel` over a file. Run as a program, it measures it beside `tf.funnel`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trendfold as tf


def window_funnel(
    path: Path, steps: Sequence[str], within: int, mode: str = "", threads: int = 1
) -> list[int]:
    """How many users reach each step."""
    import chdb

    conditions = ", ".join(f"type = '{step}'" for step in steps)
    named = f", '{mode}'" if mode else ""
    levels = (
        f"SELECT user, windowFunnel({within}{named})(toUInt64(ts), {conditions}) AS level "
        f"FROM file('{path}', Parquet) GROUP BY user"
    )
    text = f"SELECT level, count() FROM ({levels}) GROUP BY level SETTINGS max_threads = {threads}"
    rows = [line.split("\t") for line in str(chdb.query(text, "TabSeparated")).splitlines() if line]
    return [sum(int(n) for level, n in rows if int(level) > k) for k in range(len(steps))]


def generated(path: Path, rows: int) -> None:
    """Ten events a user on average, over thirty days."""
    draw = np.random.default_rng(1)
    types = np.array(["view", "cart", "checkout", "pay", "confirm", "other"])
    types = types[draw.choice(6, rows, p=[0.35, 0.2, 0.15, 0.1, 0.1, 0.1])]
    times = np.sort(draw.integers(0, 30 * 86_400, rows))
    pq.write_table(pa.table({"type": types, "ts": times, "user": draw.integers(0, rows // 10, rows)}), path)


def main(rows: int, repeats: int = 5) -> None:
    """The best CPU time of each, interleaved, reading Parquet included."""
    steps, best = ["view", "cart", "checkout", "pay", "confirm"], {"trendfold": 1e9, "ClickHouse": 1e9}
    with TemporaryDirectory() as folder:
        path = Path(folder, "events.parquet")
        generated(path, rows)
        ways: dict[str, Any] = {
            "trendfold": lambda: tf.funnel(path, steps=steps, by="user", within="7 d", engine="local"),
            "ClickHouse": lambda: window_funnel(path, steps, 7 * 86_400),
        }
        for _ in range(repeats):
            for name, way in ways.items():
                began = time.process_time()
                way()
                best[name] = min(best[name], time.process_time() - began)
    for name, seconds in best.items():
        print(f"{name:10}  {rows / seconds / 1e6:6.2f} M rows/s  ({seconds:.3f} s of CPU time)")
    print(f"{best['ClickHouse'] / best['trendfold']:.2f} times ClickHouse's windowFunnel on one thread")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
