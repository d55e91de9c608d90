"""What a run hands back: one table per query, rejects, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trendfold.errors import nearest, plural
from trendfold.plan.fold_steps import PhysicalPlan


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
    notices: tuple[str, ...] = ()
    """What was decided on the way and may be of interest; nothing is wrong."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """On Spark, per query how its rows got to where they were folded."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """Where queries were folded together: bursts of equal events, those that acted once for all, ..."""
    reject_reasons: Mapping[str, int] = field(default_factory=dict)
    """How many rows are rejected, by kind of reason."""

    @property
    def has_no_events(self) -> bool:
        """Whether there were rows, and every one of them is rejected."""
        return 0 < self.events == self.rejects

    def __str__(self) -> str:
        rows = sum(self.rows.values())
        routes = ", ".join(sorted(set(self.routes.values())))
        where = f"{self.engine}: {routes}" if routes else self.engine
        lines = [
            f"{plural(self.events, 'event')}, {plural(self.rejects, 'reject')}, "
            f"{plural(len(self.rows), 'query', 'queries')}, {plural(self.windows, 'window')}, "
            f"{plural(rows, 'row')} in {self.seconds:.2f} s ({where})"
        ]
        if any(self.sharing.values()):
            counted = (plural(n, what.removesuffix("s")) for what, n in self.sharing.items())
            lines.append("together: " + ", ".join(counted))
        lines += (f"notice: {notice}" for notice in self.notices)
        warnings = [f"warning: {warning}" for warning in self.warnings]
        # That most rows are rejected is the first warning, and the first thing to know.
        first = warnings[:1] if 2 * self.rejects > self.events else []
        return "\n".join([*first, *lines, *warnings[len(first) :]])


@dataclass(frozen=True)
class Result(Mapping[str, Any]):
    """The results of a run, by query name; `rejects` has a column `reason`.

    Tables are pyarrow Tables, or on Spark DataFrames: views of one table that Spark keeps until `unpersist`.
    """

    tables: Mapping[str, Any] = field(repr=False)
    rejects: Any = field(repr=False)
    summary: Summary
    plan: PhysicalPlan = field(default_factory=PhysicalPlan, repr=False)
    """What ran: per query or group the way, why it was chosen, and what it took."""
    kept: Any = field(default=None, repr=False)
    """On Spark the one table that all others are views of."""

    def with_notices(self, more: tuple[str, ...]) -> Result:
        """The same result with more notices in its summary."""
        return replace(self, summary=replace(self.summary, notices=(*more, *self.summary.notices)))

    def with_warnings(self, more: tuple[str, ...]) -> Result:
        """The same result with more to be warned of."""
        return replace(self, summary=replace(self.summary, warnings=(*self.summary.warnings, *more)))

    def unpersist(self) -> None:
        """Let Spark forget the results; using them again computes them again."""
        if self.kept is not None:
            self.kept.unpersist()

    def __getitem__(self, name: str) -> Any:
        if name not in self.tables:
            hint = nearest(name, self.tables) or f"queries are {', '.join(self.tables)}"
            raise KeyError(f"no query {name!r}; {hint}")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)
