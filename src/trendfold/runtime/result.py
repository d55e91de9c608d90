"""What a run hands back: one table per query, rejects, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trendfold.errors import nearest


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened in a run."""

    engine: str
    events: int
    rejects: int
    windows: int
    rows: Mapping[str, int]
    strategy: Mapping[str, str]
    seconds: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = sum(self.rows.values())
        lines = [
            f"{self.events:,} events, {self.rejects:,} rejects, {len(self.rows):,} queries, "
            f"{self.windows:,} windows, {rows:,} rows in {self.seconds:.2f} s ({self.engine})"
        ]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])


@dataclass(frozen=True)
class Result(Mapping[str, pa.Table]):
    """The results of a run, by query name; `rejects` has a column `reason`."""

    tables: dict[str, pa.Table] = field(repr=False)
    rejects: pa.Table = field(repr=False)
    summary: Summary

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self.tables:
            hint = nearest(name, self.tables) or f"queries are {', '.join(self.tables)}"
            raise KeyError(f"no query {name!r}; {hint}")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)
