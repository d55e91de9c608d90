"""A hand-written baseline: COUNT(*) of SEQ(A, B+, C) by group and window, and nothing else.

No queries, plans, ties, disorder or counts beyond doubles: the minimum one process needs to read the files
and fold them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray


def read_and_fold(folder: Path, groups: int, window: int, types: tuple[str, str, str]) -> NDArray[np.float64]:
    """The count of every window and group; `window` is in microseconds."""
    table = pq.read_table(folder, columns=["g", "ts", "type"], read_dictionary=["type"])
    ts = table.column("ts").cast(pa.int64()).to_numpy()
    g = table.column("g").to_numpy()
    encoded = table.column("type").unify_dictionaries().combine_chunks()
    names = encoded.dictionary.to_pylist()
    step = np.array([types.index(name) + 1 if name in types else 0 for name in names], np.int8)
    found = np.zeros((int(ts[-1] // window) + 1, groups))
    _fold(g, ts, encoded.indices.to_numpy(), step, window, found)
    return found


@numba.njit(cache=True)
def _fold(g: Any, ts: Any, code: Any, step: Any, window: Any, found: Any) -> None:  # pragma: no cover
    a, b = np.zeros(found.shape[1]), np.zeros(found.shape[1])
    now = np.int64(-1)
    for i in range(ts.shape[0]):
        if ts[i] >= (now + 1) * window:
            now = ts[i] // window
            a[:] = 0.0
            b[:] = 0.0
        kind, key = step[code[i]], g[i]
        if kind == 1:
            a[key] += 1.0
        elif kind == 2:
            b[key] += b[key] + a[key]
        elif kind == 3:
            found[now, key] += b[key]
