"""The committed figures, docs/benchmarks.json, and the pages generated from them.

`python -m trendfold.bench.published docs README.md` regenerates docs/benchmarks.md, docs/benchmarks.svg and
the part of README.md between its markers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from trendfold.bench.curves import draw_all
from trendfold.bench.harness import Report, short, times, to_json
from trendfold.bench.paper_claims import Judged, judge, read_claims
from trendfold.bench.report_page import command
from trendfold.errors import InputError

Kept = dict[str, Any]
"""By bench: date, command, settings, versions, ratios, notes and lines."""
FILE = "benchmarks.json"
BEGIN, END = "<!-- benchmarks: written by `make benchmarks` -->", "<!-- end of benchmarks -->"


def put(path: Path, reports: Sequence[Report]) -> str:
    """The file's text with these reports added or replaced; other benches stay."""
    kept = read(path) if path.exists() else {}
    for report in reports:
        whole = json.loads(to_json(report))
        lines = [{key: line[key] for key in _LINE} for line in whole["measurements"]]
        kept[report.name] = {
            "command": command(report),
            **{key: whole[key] for key in ("date", "settings", "versions", "ratios", "notes")},
            "lines": lines,
        }
    return json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n"


_LINE = ("name", "events", "median_s", "events_per_s", "floor", "of_floor", "peak_bytes", "unfinished")


def read(path: Path) -> Kept:
    """Read the committed figures."""
    try:
        kept: Kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{str(path)!r} cannot be read as figures: {problem}") from problem
    return kept


# ---------------------------------------------------------------- pages


def to_markdown(kept: Kept) -> str:
    """docs/benchmarks.md."""
    parts = [_prose("introduction.md"), *_peers(kept), *_papers(kept), *_benches(kept)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _prose(*path: str) -> str:
    """Text around the figures."""
    return files("trendfold.bench").joinpath(*path).read_text(encoding="utf-8")


def _peers(kept: Kept) -> Iterable[str]:
    if "peers" not in kept:
        return
    yield _prose("peers", "aligned.md")
    yield _origin(kept["peers"])
    tables: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in kept["peers"]["lines"]:
        who, semantics, b, queries = line["name"].split(", ")
        question = f"{b}, {queries}"
        tables.setdefault((semantics, ""), {}).setdefault(question, {})[who] = line
    for (semantics, _), questions in tables.items():
        whos = list(dict.fromkeys(who for line in questions.values() for who in line))
        rows = [
            [question, *(_speed(found.get(who)) for who in whos)] for question, found in questions.items()
        ]
        yield f"**{semantics}**: events per second, and how many times faster trendfold is"
        yield _table(["B in a window, queries", *whos], rows)
    yield "![How many times faster than the peers](benchmarks.svg)"


def _speed(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return ""
    if line["unfinished"]:
        return str(line["unfinished"]).partition(":")[0]
    factor = f" ({times(1 / line['of_floor'])})" if line["of_floor"] else ""
    return short(line["events_per_s"]) + factor


def _papers(kept: Kept) -> Iterable[str]:
    yield (
        "## The papers' claims\n\nThe ratio a paper reports, and the ratio of our implementations of both "
        "sides, on streams like the papers' scaled to one small machine. *Smaller* means that the same "
        "side wins, but by less."
    )
    claims = read_claims()
    for paper in dict.fromkeys(claim.paper for claim in claims):
        judged = [judge(claim, kept.get(claim.bench, {})) for claim in claims if claim.paper == paper]
        yield f"### {paper}"
        yield _table(
            ["figure", "the paper", "the paper's ratio", "ours", "our ratio", "verdict"],
            [_claim_row(each) for each in judged],
        )
        reasons = [
            f"- {each.claim.figure}: {each.claim.why}" for each in judged if each.claim.why and each.is_less
        ]
        if reasons:
            yield "Why a claim does not hold, or holds by less:\n\n" + "\n".join(dict.fromkeys(reasons))


def _claim_row(judged: Judged) -> list[str]:
    claim = judged.claim
    what = f"{claim.ours} over {claim.over}" if claim.ours else claim.measured
    measured = f"`{claim.bench}`: {what}" if what else f"`{claim.bench}`"
    ratio = times(judged.ratio) if judged.ratio is not None else ""
    return [claim.figure, claim.says, claim.claimed, measured, ratio, judged.verdict]


def _benches(kept: Kept) -> Iterable[str]:
    yield "## All lines"
    for name, report in kept.items():
        yield f"### {name}"
        yield _origin(report)
        rows = [
            [
                line["name"],
                f"{line['events']:,}",
                line["unfinished"] or f"{line['median_s'] * 1e3:,.2f} ms",
                "" if line["unfinished"] else short(line["events_per_s"]),
                f"{line['of_floor']:.3g} of {line['floor']}" if line["of_floor"] else "",
            ]
            for line in report["lines"]
        ]
        yield _table(["case", "events", "median", "events/s", "beside"], rows)
        ratios = [
            [what, times(ratio)] for what, ratio in report.get("ratios", {}).items() if ratio is not None
        ]
        if ratios:
            yield _table(["compared", "ratio"], ratios)
        if report["notes"]:
            yield "\n".join(f"- {note.strip()}" for note in report["notes"])


def _origin(report: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in report["versions"].items())
    return f"`{report['command']}` on {report['date']}; {versions}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


# ---------------------------------------------------------------- README


def headlines(kept: Kept) -> str:
    """Three headline figures, for README.md."""
    lines = []
    for semantics, b in (("any", "10 B"), ("next", "10 B")):
        what = f"{semantics}, {b}, 1 query"
        ours = _line(kept, "peers", f"trendfold, {what}")
        if ours:
            lines.append(
                f"- Counting `SEQ(A, B+, C)` under *{semantics}*, {b} a window: "
                f"{short(ours['events_per_s'])} events/s, {_beside(kept, what)}."
            )
    lines.append(f"- Fifty such queries at once under *next*: {_beside(kept, 'next, 10 B, 50 queries')}.")
    return "\n".join(lines)


def _beside(kept: Kept, what: str) -> str:
    """The speedup over each peer."""
    found = ((who, _line(kept, "peers", f"{who}, {what}")) for who in ("Flink CEP", "Flink SQL", "Esper"))
    return ", ".join(f"{times(1 / line['of_floor'])} {who}'s" for who, line in found if line)


def _line(kept: Kept, bench: str, name: str) -> Mapping[str, Any] | None:
    lines = kept.get(bench, {}).get("lines", ())
    return next((line for line in lines if line["name"] == name and not line["unfinished"]), None)


def picture(kept: Kept) -> str:
    """A plot of the speedup over each peer, by B in a window."""
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in kept.get("peers", {}).get("lines", ()):
        who, semantics, b, queries = line["name"].split(", ")
        if line["of_floor"] and queries == "1 query":
            curves = figures.setdefault(
                f"{semantics}: how many times faster trendfold is, by B in a window", {}
            )
            curves.setdefault(who, []).append((float(b.split()[0]), 1 / line["of_floor"]))
    return draw_all(figures, "times faster than the peers")


def with_headlines(text: str, kept: Kept) -> str:
    """README.md with the part between its markers regenerated."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"README has no part between {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{headlines(kept)}\n{END}{after}"


def main(docs: str, readme: str) -> None:
    """Regenerate all pages."""
    kept = read(Path(docs, FILE))
    Path(docs, "benchmarks.md").write_text(to_markdown(kept), encoding="utf-8")
    Path(docs, "benchmarks.svg").write_text(picture(kept), encoding="utf-8")
    Path(readme).write_text(with_headlines(Path(readme).read_text("utf-8"), kept), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
