"""`trendfold demo`: queries over generated rides, on Spark, with an HTML report."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from trendfold import api
from trendfold.cli.folders import owner_of_run
from trendfold.cli.plot import counts, sparkline
from trendfold.cli.show import note, print_table, say, say_summary, table_file, table_files, text_file
from trendfold.cli.spark_engine import progress_on
from trendfold.errors import UnsupportedError, plural
from trendfold.events.generate import StreamSettings, ridesharing
from trendfold.runtime.outputs import claimed, write_together
from trendfold.runtime.result import to_table

if TYPE_CHECKING:
    import pyarrow as pa

    from trendfold.runtime.result import Result

PARTS = 8
"""How many files the events are written to, in time order."""
ROWS_SHOWN = 5
QUERIES, REPORT, EVENTS, RESULTS = "demo.tql", "report.html", "events", "results"
"""Files and folders of the demo."""
TITLE = "What happens on the way: questions about rides"


def demo(events: int, seed: int, folder: str, engine: str, overwrite: bool = False) -> None:
    """Generate events, run the queries, print, and write results and a report into `folder`."""
    text = files("trendfold").joinpath(QUERIES).read_text(encoding="utf-8")
    workload = api.parse(text)
    with claimed(folder, owner_of_run(QUERIES, workload, _files_of(workload)), overwrite) as claim:
        table = ridesharing(StreamSettings(events=events, seed=seed))
        write_together([(claim, table_files(_parts(table), "parquet", EVENTS))])
        source = [str(claim.folder / name) for name in claim.written]
        print(
            f"{plural(events, 'event')} of rides, generated with seed {seed}: {claim.folder / EVENTS}\n"
            f"the queries:\n\n{text}"
        )
        _warm_up(workload, table, source, engine)
        with progress_on(engine) as tell:
            result = workload.run(source, engine=engine, progress=tell)
        tables = {name: to_table(result[name]) for name in result}
        _print(tables)
        written = table_files(tables, "parquet", RESULTS)
        if (page := _page(result)) is not None:
            written[REPORT] = text_file(page)
        written[QUERIES] = text_file(text)
        write_together([(claim, written)])
    totals = [counts(rows) for rows in tables.values() if "count" in rows.column_names]
    total = sum(count for each in totals for _, count in each)
    print(
        f"{total:.3g} trends in {result.summary.windows:,} windows were counted without building any, "
        f"in {result.summary.seconds:.2f} s"
    )
    report, results, queries = (claim.folder / name for name in (REPORT, RESULTS, QUERIES))
    shown = "" if page is None else f"open {report} in a browser; "
    print(f"{shown}the results are in {results}, the queries in {queries}")
    say_summary(result.summary)


def _page(result: Result) -> str | None:
    """The report, if what draws it is installed."""
    try:
        from trendfold.report import report_page
    except UnsupportedError as error:
        say(f"notice: no report is written: {error}")
        return None
    return report_page(result, TITLE)


def _files_of(workload: api.Workload) -> list[str]:
    tables = [f"{RESULTS}/{table_file(query.name, 'parquet')}" for query in workload]
    return [*(f"{EVENTS}/part-{i}.parquet" for i in range(PARTS)), *tables, REPORT, QUERIES]


def _parts(table: pa.Table) -> dict[str, pa.Table]:
    """The events as several tables in time order, as a stream is stored: tasks fold each on its own."""
    size = -(-table.num_rows // PARTS)
    return {f"part-{i}": table.slice(i * size, size) for i in range(PARTS)}


def _warm_up(workload: api.Workload, table: pa.Table, source: list[str], engine: str) -> None:
    """Compile the kernels so that only the work is timed; here first, or several workers would compile."""
    note("compiling the kernels: a minute or two on the first run, little on later ones")
    workload.run(table.slice(0, 1_000), engine="local")
    if engine == "spark":
        workload.run(source[0], engine=engine).unpersist()


def _print(tables: dict[str, pa.Table]) -> None:
    for name, rows in tables.items():
        print_table(name, rows.slice(0, ROWS_SHOWN))
    _print_lines(tables)


def _print_lines(tables: dict[str, pa.Table]) -> None:
    """Print each query's counts over time as a line."""
    print("trends per window, logarithmic scale")
    counted = {name: rows for name, rows in tables.items() if "count" in rows.column_names}
    width = max(map(len, counted))
    for name, rows in counted.items():
        print(f"{name:{width}}  {sparkline(counts(rows))}")
    print()
