"""Reports as one self-contained HTML page: tables, notes and plots."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from trendfold.bench.harness import Measurement, Report, Verdict, has_ratio, short, times

_HEADINGS = ("case", "events", "median", "events/s", "of floor", "peak", "promises")


def to_html(reports: Sequence[Report]) -> str:
    """One page with a section for each report."""
    names = ", ".join(report.name for report in reports)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>trendfold bench: {escape(names)}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(_section(report) for report in reports)
    told = (
        "Lines that answer the same question gave equal answers before any was timed; a single line was "
        "compared with a reference answer. Lines took turns; times and ratios are medians over turns."
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main><h1>trendfold bench</h1>'
        f'<p class="soft">{told}</p>\n{body}</main></body></html>\n'
    )


def command(report: Report) -> str:
    """The command that repeats the measurement."""
    options = " ".join(f"--{name} {value:g}" for name, value in report.settings.items())
    return f"trendfold bench {report.name} {options}".rstrip()


def _section(report: Report) -> str:
    heads = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    lines = "\n".join(_row(line) for line in report.measurements)
    made_with = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    ratios = (f"{name}: {times(ratio)}" for name, ratio in report.ratios.items())
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*ratios, *report.notes))
    return (
        f"<section><h2>{escape(report.name)}</h2><pre>{escape(command(report))}</pre>"
        f'<p class="soft">{escape(f"{report.date}; {made_with}")}</p>'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
        + (f"<ul>{notes}</ul>" if notes else "")
        + (f"<figure>{report.plot}</figure>" if report.plot else "")
        + "</section>"
    )


def _row(line: Measurement) -> str:
    name, events = f"<td>{escape(line.name)}</td>", f"<td>{line.events:,}</td>"
    if line.unfinished:
        return f'<tr>{name}{events}<td class="why" colspan="5">{escape(line.unfinished)}</td></tr>'
    cells = (
        f"{line.median_s * 1e3:,.2f} ms",
        short(line.events_per_s),
        f"{line.of_floor:.3g}" if has_ratio(line) else "",
        f"{line.peak_bytes / 2**20:,.1f} MiB",
    )
    promises = "<br>".join(_verdict(verdict) for verdict in line.verdicts)
    return f"<tr>{name}{events}{''.join(f'<td>{cell}</td>' for cell in cells)}<td>{promises}</td></tr>"


def _verdict(verdict: Verdict) -> str:
    reached = f"{verdict.reached:.3g}" if verdict.promise.of else short(verdict.reached)
    word = "pass" if verdict.is_kept else "fail"
    return f'<span class="{word}">{word}</span> {escape(f"{verdict.promise} ({reached})")}'


_STYLE = """
:root{--ink:#1c2330;--soft:#667085;--rule:#e2e8f0;--paper:#fff;--panel:#f4f6f9;--pass:#1a7f4b;--fail:#b42318}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--rule:#2b3340;--paper:#12161d;
--panel:#1b212b;--pass:#5fd39a;--fail:#ff8a7a}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1.5rem}
pre{background:var(--panel);padding:.7rem 1rem;border-radius:6px;white-space:pre-wrap}
section{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.25rem .8rem .25rem 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child,th:last-child,td:last-child,.why{text-align:left;white-space:normal}
.soft,.why{color:var(--soft)}
.pass{color:var(--pass)}
.fail{color:var(--fail);font-weight:600}
figure{margin:1rem 0;max-width:46rem}
"""
