"""The result of a run: one table per query, rejects, and a summary."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from trendfold.errors import InputError, UnsupportedError, nearest, plural, printable
from trendfold.plan.fold_steps import PhysicalPlan
from trendfold.query.nodes import Query
from trendfold.runtime.notebook import ROWS, facts_html, rows_html
from trendfold.runtime.text_tables import ROWS_SHOWN, table_lines

PICTURES = "trendfold.report"
"""The module that draws results; it is loaded when something is drawn."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts, timings, notices and warnings of a run."""

    engine: str
    events: int
    rejects: int
    windows: int
    rows: Mapping[str, int]
    strategy: Mapping[str, str]
    seconds: float
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """Decisions worth knowing about; nothing is wrong."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """On Spark, the route of each query's rows."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """Counters of queries folded together: bursts of equal events, bursts shared by all, ..."""
    reject_reasons: Mapping[str, int] = field(default_factory=dict)
    """The number of rejected rows, by kind of reason."""

    @property
    def has_no_events(self) -> bool:
        """Whether there were rows and all of them were rejected."""
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
        # If most rows were rejected, that is the first warning, and the first thing to print.
        first = warnings[:1] if 2 * self.rejects > self.events else []
        return "\n".join([*first, *lines, *warnings[len(first) :]])

    def _repr_html_(self) -> str:
        facts = {
            "events": f"{self.events:,}",
            "rejects": f"{self.rejects:,}",
            "windows": f"{self.windows:,}",
            "rows": f"{sum(self.rows.values()):,}",
            "seconds": f"{self.seconds:.2f}",
            "engine": self.engine,
        }
        return facts_html(facts, (*(f"warning: {each}" for each in self.warnings), *self.notices))


@dataclass(frozen=True)
class Result(Mapping[str, Any]):
    """The results of a run, by query name; `rejects` has a column `reason`.

    Tables are pyarrow Tables; on Spark they are DataFrames, views of one table cached until `unpersist`.
    """

    tables: Mapping[str, Any] = field(repr=False)
    rejects: Any = field(repr=False)
    summary: Summary
    plan: PhysicalPlan = field(default_factory=PhysicalPlan, repr=False)
    """The steps that ran: per query or group the way, the reason it was chosen, and its cost."""
    kept: Any = field(default=None, repr=False)
    """On Spark, the table of which all others are views."""
    queries: tuple[Query, ...] = field(default=(), repr=False)
    """What was asked, for reports."""
    statistics: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Events per second by type, and what joins measured, as `run` and `start` take it: a JSON value."""

    def with_notices(self, more: tuple[str, ...]) -> Result:
        """The same result with more notices in its summary."""
        return replace(self, summary=replace(self.summary, notices=(*more, *self.summary.notices)))

    def with_warnings(self, more: tuple[str, ...]) -> Result:
        """The same result with more warnings in its summary."""
        return replace(self, summary=replace(self.summary, warnings=(*self.summary.warnings, *more)))

    def unpersist(self) -> None:
        """Drop the results from Spark's cache; using them again recomputes them."""
        if self.kept is not None:
            self.kept.unpersist()

    def report(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write a page that needs no network: answers in words, charts, tables, the plan (docs/reports.md).

        A page that is there is replaced.
        """
        from trendfold.runtime.staging import make_folder, write_files

        require_page(path)
        page = import_module(PICTURES).report_page(self, title)
        make_folder(Path(path).parent)
        write_files({Path(path): lambda file: file.write(page.encode())})

    def plot(self, name: str | None = None) -> Any:
        """A chart of a query's rows, an Altair chart; `name` may be left out if there is one query."""
        if name is None and len(self.tables) > 1:
            raise InputError(
                f"there are {len(self.tables):,} queries; name one of {', '.join(list(self)[:20])}"
            )
        name = next(iter(self)) if name is None else name
        rows, query = self[name], next(query for query in self.queries if query.name == name)
        drawing = import_module(PICTURES)
        return drawing.chart_of(drawing.view_of(query, rows, self.summary.rows[name]))

    def _repr_html_(self) -> str:
        shown = list(self)[:ROWS]
        tables = (rows_html(name, to_table(self[name], ROWS), self.summary.rows[name]) for name in shown)
        more = f"<p>... and {plural(len(self) - ROWS, 'more query', 'more queries')}</p>"
        return "".join((self.summary._repr_html_(), *tables, more if len(self) > ROWS else ""))

    def to_pandas(self) -> dict[str, Any]:
        """The rows of each query as a pandas DataFrame, by query name; on Spark, they are fetched."""
        return {name: to_table(rows).to_pandas() for name, rows in self.tables.items()}

    def to_polars(self) -> dict[str, Any]:
        """The rows of each query as a polars DataFrame, by query name; on Spark, they are fetched."""
        return {name: to_frame_of_polars(to_table(rows)) for name, rows in self.tables.items()}

    def create_views(self, spark: Any, prefix: str = "") -> list[str]:
        """Create a temporary view of each query's rows, for SQL; returns their names."""
        for name, rows in self.tables.items():
            frame = rows if hasattr(rows, "createOrReplaceTempView") else spark.createDataFrame(rows)
            quoted = (prefix + name).replace("`", "``")
            frame.createOrReplaceTempView(f"`{quoted}`")
        return [prefix + name for name in self.tables]

    def __str__(self) -> str:
        """The first rows of every query, as the command line prints them."""
        parts = []
        for name, rows in self.tables.items():
            shown, more = to_table(rows, ROWS_SHOWN), self.summary.rows[name] - ROWS_SHOWN
            parts += [printable(name), *table_lines(shown)]
            parts += [f"... and {plural(more, 'more row')}"] * (more > 0) + [""]
        return "\n".join(parts[:-1])

    def __getitem__(self, name: str) -> Any:
        if name not in self.tables:
            hint = nearest(name, self.tables) or f"queries are {', '.join(self.tables)}"
            raise KeyError(f"no query {name!r}; {hint}")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


def to_frame_of_polars(table: Any) -> Any:
    """A pyarrow Table as a polars DataFrame."""
    try:
        import polars
    except ModuleNotFoundError:
        raise UnsupportedError("polars is not installed; pip install 'trendfold[polars]'") from None
    return polars.from_arrow(table)


def require_page(path: str | os.PathLike[str]) -> None:
    """Raise if a report would not be a page: nobody's data shall be replaced by one."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is a page, but {os.fspath(path)!r} does not end in .html")


def to_table(rows: Any, most: int | None = None) -> Any:
    """Rows of a result as a pyarrow Table; on Spark, fetches at most `most` rows."""
    if not hasattr(rows, "toArrow"):
        return rows.slice(0, most)
    return (rows if most is None else rows.limit(most)).toArrow()
