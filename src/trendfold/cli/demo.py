"""`trendfold demo`: queries over generated rides, on Spark, with a report to look at."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trendfold import api
from trendfold.cli.plot import counts, sparkline
from trendfold.cli.report import report
from trendfold.cli.show import make_folder, print_table, replacing, say, to_table, write_all, write_tables
from trendfold.cli.spark import progress_on
from trendfold.events.generate import Options, ridesharing

if TYPE_CHECKING:
    import pyarrow as pa

PARTS = 8
"""Files that the events are written to, each after the other in time."""
ROWS_SHOWN = 5


def demo(events: int, seed: int, folder: str, engine: str) -> None:
    """Generate, run, print, write the results and a report into `folder`."""
    text = files("trendfold").joinpath("demo.tql").read_text(encoding="utf-8")
    workload = api.parse(text)
    source, results = Path(folder, "events"), Path(folder, "results")
    for one in (source, results):
        make_folder(one)
    table = ridesharing(Options(events=events, seed=seed))
    _write_events(table, source)
    print(f"{events:,} events of rides, generated with seed {seed}, are in {source}; the queries:\n\n{text}")
    _warm_up(workload, table, source, engine)
    with progress_on(engine, "queries") as tell:
        result = workload.run(str(source), engine=engine, progress=tell)
    tables = {name: to_table(result[name]) for name in result}
    for name, rows in tables.items():
        print_table(name, rows.slice(0, ROWS_SHOWN))
    _print_lines(tables)
    _write_results(result, tables, results, engine)
    page, queries = Path(folder, "report.html"), Path(folder, "demo.tql")
    with replacing([page, queries]) as (page_beside, queries_beside):
        page_beside.write_text(report(workload, tables, result.summary), encoding="utf-8")
        queries_beside.write_text(text, encoding="utf-8")
    total = sum(count for rows in tables.values() for _, count in counts(rows))
    print(
        f"{total:.3g} trends in {result.summary.windows:,} windows were counted, and none built, "
        f"in {result.summary.seconds:.2f} s"
    )
    print(f"open {page} in a browser; the results are in {results}, the queries in {queries}")
    say(str(result.summary))


def _warm_up(workload: api.Workload, table: pa.Table, source: Path, engine: str) -> None:
    """So that what is measured is the work. Here first: two workers would compile the same loops twice."""
    say("compiling the loops, which takes a minute or two on the first run and little later")
    workload.run(table.slice(0, 1_000), engine="local")
    if engine == "spark":
        workload.run(str(source / "part-0.parquet"), engine=engine).unpersist()


def _write_events(table: pa.Table, folder: Path) -> None:
    """Several files in the order of time, as a stream is kept: tasks fold each by itself."""
    size = -(-table.num_rows // PARTS)
    parts = {folder / f"part-{i}.parquet": table.slice(i * size, size) for i in range(PARTS)}
    write_all(parts, "parquet")


def _write_results(result: Any, tables: dict[str, pa.Table], folder: Path, engine: str) -> None:
    """On Spark as any DataFrame is written: a folder per query. Locally a file."""
    if engine == "spark":
        for name in result:
            result[name].write.mode("overwrite").parquet(str(folder.resolve() / name))
    else:
        write_tables(str(folder), tables, "parquet")


def _print_lines(tables: dict[str, pa.Table]) -> None:
    """What each query counts over time, in a line."""
    print("trends per window, logarithmic scale")
    width = max(map(len, tables))
    for name, rows in tables.items():
        print(f"{name:{width}}  {sparkline(counts(rows))}")
    print()
