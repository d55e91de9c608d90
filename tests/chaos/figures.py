"""What a round came to, and the table of a campaign."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.agreement import is_like
from trendfold.api import Workload
from trendfold.runtime.writing import file_name


@dataclass(frozen=True)
class Figures:
    """Counts of one scenario; `failures` are sentences, one for each thing that must not be."""

    rounds: int = 0
    faults: int = 0
    refused: int = 0
    """Times a stream said no, as it should, and went on (or was given up) afterwards."""
    events: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    failures: tuple[str, ...] = field(default=())

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def failing(self, sentence: str) -> Figures:
        """The same, with one more thing that must not be."""
        return replace(self, failures=(*self.failures, sentence))

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost, doubled, wrong or otherwise not as it must be."""
        return not (self.lost or self.doubled or self.wrong or self.failures)


def _values(figures: Figures) -> tuple[Any, ...]:
    return tuple(getattr(figures, name) for name in figures.__dataclass_fields__)


def compare(
    workload: Workload, expected: Mapping[str, pa.Table], found: Mapping[str, list[dict[str, Any]]]
) -> Figures:
    """Rows that were written beside those of batch: each window and group once, with the same values."""
    total = Figures()
    for query in workload.queries:
        wanted = expected[query.name]
        names = wanted.column_names[: 2 + len(query.group_by)]
        got: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in found[query.name]:
            got[tuple(row[name] for name in names)].append(row)
        lost = doubled = wrong = 0
        for row in wanted.to_pylist():
            copies = got.pop(tuple(row[name] for name in names), [])
            lost += not copies
            doubled += max(0, len(copies) - 1)
            wrong += any(not is_like(copy[name], value) for copy in copies[:1] for name, value in row.items())
        wrong += sum(len(copies) for copies in got.values())  # windows that batch has not
        total += Figures(rows=wanted.num_rows, lost=lost, doubled=doubled, wrong=wrong)
    return total


def written(folder: Path, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Per name all rows of all batches."""
    return {
        name: [
            row
            for path in sorted((folder / file_name(name)).glob("batch=*/*.parquet"))
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]
        for name in names
    }


def to_markdown(found: Mapping[str, Figures]) -> str:
    """A table of scenarios."""
    columns = ("rounds", "faults", "refused", "events", "rows", "lost", "doubled", "wrong")
    lines = [f"| scenario | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for name, figures in found.items():
        cells = [f"{getattr(figures, column):,}" for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def to_json(
    found: Mapping[str, Figures], about: Mapping[str, Any], more: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The same with everything that failed, for other programs."""
    return json.dumps(
        {
            **about,
            "scenarios": {name: asdict(figures) for name, figures in found.items()},
            "fuzz": list(more),
        },
        indent=2,
    )
