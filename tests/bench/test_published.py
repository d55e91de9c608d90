from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from trendfold.bench import BENCHES, published, recheck
from trendfold.bench.harness import Measurement, Report
from trendfold.bench.paper_claims import PaperClaim, judge, read_claims
from trendfold.bench.report_page import to_html
from trendfold.errors import InputError

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / published.FILE
SETTINGS = {"seed": 0, "scale": 1.0, "repeats": 3}


def report(name: str, **speeds: float) -> Report:
    """Lines of 100 events with so many events/s, each beside the first."""
    first = next(iter(speeds))
    lines = [
        Measurement(line, 100, (100 / speed,), 0, first, speed / speeds[first]) if line != first else
        Measurement(line, 100, (100 / speed,), 0)
        for line, speed in speeds.items()
    ]  # fmt: skip
    return Report(name, tuple(lines), {"python": "3"}, SETTINGS, ("a <note>",), "<svg></svg>", "2024-12-31")


def line(name: str, events_per_s: float | None, unfinished: str = "") -> dict[str, object]:
    return {"name": name, "events_per_s": events_per_s, "unfinished": unfinished}


def test_reports_are_put_among_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(published.put(path, [report("one", a=1.0), report("two", a=1.0)]), encoding="utf-8")
    path.write_text(published.put(path, [report("two", a=5.0)]), encoding="utf-8")
    kept = published.read(path)
    assert sorted(kept) == ["one", "two"]
    assert kept["two"]["lines"][0]["events_per_s"] == 5.0
    assert kept["one"]["command"] == "trendfold bench one --seed 0 --scale 1 --repeats 3"
    assert kept["one"]["date"] == "2024-12-31"


def test_ratios_are_kept_shown_and_may_be_missing_in_older_figures() -> None:
    ours = replace(report("one", a=1.0), ratios={"memory of a over b": 2.5, "never ended": math.nan})
    kept = json.loads(published.put(Path("none"), [ours, report("two", a=1.0)]))
    assert kept["one"]["ratios"] == {"memory of a over b": 2.5, "never ended": None}
    del kept["two"]["ratios"]
    assert "| memory of a over b | 2.5× |" in published.to_markdown(kept)
    assert "<li>memory of a over b: 2.5×</li>" in to_html([ours])


def test_figures_that_cannot_be_read_are_an_error_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        published.read(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("ratio", "ours", "verdict"),
    [
        (10, 20.0, "holds"),
        (10, 5.0, "smaller"),
        (10, 0.5, "does not hold"),
        (1, 0.9, "holds"),
        (1, 0.5, "does not hold"),
        (1.01, 0.9, "does not hold"),
    ],
)
def test_a_claim_holds_holds_by_less_or_does_not(ratio: float, ours: float, verdict: str) -> None:
    lines = [line("new", ours), line("old", 1.0)]
    by_lines = PaperClaim("P", "1", "is faster", ratio, "b", "new", "old")
    by_ratio = PaperClaim("P", "1", "needs less memory", ratio, "b", measured="memory")
    assert judge(by_lines, {"lines": lines}).verdict == verdict
    assert judge(by_ratio, {"lines": lines, "ratios": {"memory": ours}}).verdict == verdict


def test_a_claim_without_lines_is_not_measured_and_one_against_what_did_not_end_says_so() -> None:
    claim = PaperClaim("P", "1", "is faster", 10, "b", "new", "old")
    assert judge(claim, {}).verdict == "not measured"
    assert (
        judge(PaperClaim("P", "1", "is smaller", 2, "b", measured="lost"), {"lines": []}).verdict
        == "not measured"
    )
    lines = [line("new", 1.0), line("old", None, "not finished in 30 s")]
    assert judge(claim, {"lines": lines}).verdict == "not finished by old"


def test_every_paper_has_its_figures() -> None:
    claims = read_claims()
    figures: dict[str, set[int]] = {}
    for claim in claims:
        figures.setdefault(claim.paper.split()[0], set()).update(map(int, re.findall(r"\d+", claim.figure)))
    assert figures["A-Seq"] >= {*range(12, 17)}
    assert figures["COGRA"] >= {*range(5, 14)}
    assert figures["MCEP"] >= {*range(10, 15)}
    assert figures["HAMLET"] >= {*range(8, 13)}
    assert figures["GLORIA"] >= {*range(11, 20)}


def test_lines_that_claims_and_checks_name_are_among_the_committed_ones() -> None:
    kept = published.read(KEPT)
    names = {bench: {line["name"] for line in kept[bench]["lines"]} for bench in kept}
    for claim in read_claims():
        if claim.ours and claim.bench in names:
            assert {claim.ours, claim.over} <= names[claim.bench], claim
        if claim.measured and claim.bench in names:
            assert claim.measured in kept[claim.bench].get("ratios", {}), claim
    for bench, lines in recheck.LINES.items():
        assert set(lines) <= names.get(bench, set(lines)), bench


def test_pages_are_those_that_the_committed_figures_give() -> None:
    kept = published.read(KEPT)
    assert (ROOT / "docs" / "benchmarks.md").read_text("utf-8") == published.to_markdown(kept)
    assert (ROOT / "docs" / "benchmarks.svg").read_text("utf-8") == published.picture(kept)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert published.with_headlines(readme, kept) == readme


def test_a_readme_without_marks_is_refused() -> None:
    with pytest.raises(InputError, match="no part between"):
        published.with_headlines("# trendfold", {})


def test_ratios_near_the_committed_ones_pass_and_others_do_not() -> None:
    then = json.loads(published.put(Path("none"), [report("b", floor=1.0, near=2.0, low=2.0, high=2.0)]))["b"]
    now = report("b", floor=7.0, near=7 * 2.5, low=7 * 1.5, high=7 * 2.7)
    found = {each.name: each for each in recheck.compare(then, now)}
    assert [found[name].is_near for name in ("near", "low", "high")] == [True, False, False]
    assert str(found["low"]) == "OFF   low: 1.5, committed 2"


def rounds(monkeypatch: pytest.MonkeyPatch, *ratios: float) -> tuple[bool, list[str]]:
    """Whether a check passes that finds these ratios where 2 is committed; and what it tells."""
    kept = json.loads(published.put(Path("none"), [report("b", floor=1.0, a=2.0, near=3.0)]))
    found = iter(ratios)
    told: list[str] = []
    monkeypatch.setattr(recheck, "LINES", {"b": ("a", "near")})

    def run(name: str, only: set[str], **_: object) -> Report:
        again = {"near": 3.0} if "near" in only else {}
        return report(name, floor=1.0, a=next(found), **again)

    monkeypatch.setattr(recheck, "run", run)
    return recheck.check(kept, told.append), told


@pytest.mark.parametrize(
    ("ratios", "passes"),
    [
        ([2.1], True),
        ([1.5, 2.1], True),
        ([9.0, 1.0, 2.1], True),
        ([1.4, 1.45, 2.1], False),
        ([1.4, 1.4, 1.4], False),
        ([1.53, 1.3, 1.52], False),
        ([2.7, 2.7, 2.7], False),
    ],
)
def test_a_ratio_is_off_if_the_median_of_all_rounds_is(
    monkeypatch: pytest.MonkeyPatch, ratios: list[float], passes: bool
) -> None:
    found, told = rounds(monkeypatch, *ratios)
    assert found is passes
    assert sum(" a: " in line for line in told) == len(ratios)
    assert sum(" near: " in line for line in told) == 1


def test_a_check_fails_where_a_line_or_a_bench_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json.loads(published.put(Path("none"), [report("b", floor=1.0, a=2.0)]))
    told: list[str] = []
    monkeypatch.setattr(recheck, "LINES", {"b": ("a", "lost"), "other": ("x", "y")})
    monkeypatch.setattr(recheck, "run", lambda name, **_: report(name, floor=1.0, a=2.0))
    assert not recheck.check(kept, told.append)
    assert "3 lines are not among the committed ones" in told[-1]
    monkeypatch.setattr(recheck, "LINES", {"b": ("a",)})
    assert recheck.check(kept, told.append)


def test_a_check_looks_at_every_bench_that_needs_neither_spark_nor_peers() -> None:
    elsewhere = {"peers", "spark", "stream", "mcep", "detect", "compile", "language", "scale"}
    assert recheck.LINES.keys() == BENCHES.keys() - elsewhere


def test_the_page_needs_nothing_else_and_shows_all() -> None:
    slow = Measurement("slow <way>", 5, (), 0, unfinished="not finished in 30 s")
    page = to_html([report("one", floor=1.0, a=2.0), Report("two", (slow,), {}, SETTINGS)])
    assert "slow &lt;way&gt;" in page
    assert "a &lt;note&gt;" in page
    assert "not finished in 30 s" in page
    assert "<svg></svg>" in page
    assert "trendfold bench one --seed 0 --scale 1 --repeats 3" in page
    assert not re.search(r"(src|href)=|https?://|@import|<script", page)
