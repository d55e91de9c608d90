from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import cycle
from types import ModuleType

import numpy as np
import pytest
from rich.console import Console

from trendfold import bench
from trendfold.bench import hardware, harness
from trendfold.bench.harness import Case, Measurement, Promise, Report, Verdict, measure, render, to_json
from trendfold.errors import InputError

MIB = 2**20


def nothing() -> None:
    pass


class Clock:
    """Time that passes only when work says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def work(self, *seconds: float) -> Callable[[], None]:
        """Work that takes these times, one after the other, again and again."""
        durations = cycle(seconds)

        def run() -> None:
            self.now += next(durations)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(harness, "perf_counter", lambda: clock.now)
    return clock


def report_of(*lines: Measurement) -> Report:
    return Report("toy", lines, {"python": "3"}, {"seed": 1, "repeats": 3})


def shown(report: Report) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(render(report))
    return capture.get()


def test_cases_warm_up_and_then_take_turns() -> None:
    ran: list[str] = []
    cases = [Case(name, lambda name=name: ran.append(name), events=1) for name in "abc"]  # type: ignore[misc]
    measure(cases, repeats=2)
    assert "".join(ran) == "abc" + "aabbcc" + "aabbcc"  # short ones are measured warm


def test_every_repeat_is_kept_and_the_warm_up_is_not() -> None:
    (line,) = measure([Case("a", nothing, events=1)], repeats=4, warm_up=3).measurements
    assert len(line.seconds) == 4


def test_a_line_tells_events_by_its_median_time() -> None:
    line = Measurement("a", 100, seconds=(1.0, 9.0, 2.0), peak_bytes=0)
    assert line.median_s == 2.0
    assert line.events_per_s == 50.0


def test_a_line_is_compared_with_its_floor_event_by_event(clock: Clock) -> None:
    cases = [
        Case("floor", clock.work(1), events=10),
        Case("work", clock.work(2), events=10, floor="floor"),
        Case("more events", clock.work(2), events=40, floor="floor"),
    ]
    assert [line.of_floor for line in measure(cases, repeats=3).measurements] == [None, 0.5, 2.0]


def test_a_turn_that_is_slow_for_all_leaves_the_fraction_alone(clock: Clock) -> None:
    cases = [
        Case("floor", clock.work(1, 10, 100), events=1),
        Case("work", clock.work(2, 20, 200), events=1, floor="floor"),
    ]
    assert measure(cases, repeats=3).measurements[1].of_floor == 0.5


def test_promises_are_judged_in_events_per_second_or_against_another_line(clock: Clock) -> None:
    promises = (Promise(50), Promise(51), Promise(0.5, of="floor"), Promise(0.51, of="floor"))
    cases = [Case("floor", clock.work(1), 100), Case("work", clock.work(2), 100, promises=promises)]
    report = measure(cases, repeats=3)
    assert [verdict.is_kept for verdict in report.measurements[1].verdicts] == [True, False, True, False]
    assert not report.is_kept


def test_a_report_without_broken_promises_is_kept() -> None:
    assert measure([Case("a", nothing, events=1000, promises=(Promise(1.0),))], repeats=1).is_kept


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems cannot forget a peak")
def test_the_peak_is_that_of_the_case_and_not_of_the_one_before() -> None:
    big = Case("big", lambda: np.ones(64 * MIB // 8).sum(), events=1)
    small = Case("small", lambda: np.ones(MIB // 8).sum(), events=1)
    first, second = measure([big, small], repeats=2).measurements
    assert first.peak_bytes == pytest.approx(64 * MIB, rel=0.2)
    assert second.peak_bytes < 16 * MIB


def test_a_peak_is_told_where_nothing_can_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_field", lambda path, name: "")
    (line,) = measure([Case("a", nothing, events=1)], repeats=1).measurements
    assert line.peak_bytes >= 0
    assert hardware.peak_bytes() > MIB


def test_two_cases_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two cases are named 'a'"):
        measure([Case("a", nothing, 1), Case("a", nothing, 1)])


def test_an_unknown_floor_is_refused_before_anything_runs() -> None:
    ran: list[int] = []
    cases = [Case("bincount", lambda: ran.append(1), 1), Case("fold", nothing, 1, floor="bincuont")]
    with pytest.raises(InputError, match="did you mean 'bincount'"):
        measure(cases)
    assert ran == []


def test_no_repeats_are_refused() -> None:
    with pytest.raises(InputError, match="repeats"):
        measure([Case("a", nothing, 1)], repeats=0)


def test_progress_is_told_before_each_run() -> None:
    told: list[str] = []
    measure([Case("a", nothing, 1)], repeats=2, progress=told.append)
    assert told == ["warm-up: a", "1/2: a", "2/2: a"]


def test_versions_name_what_a_figure_depends_on() -> None:
    found = hardware.versions()
    assert {"python", "trendfold", "numpy", "numba", "pyarrow", "cpu", "system"} == set(found)
    assert found["numpy"] == np.__version__


def test_the_table_shows_ratios_and_verdicts() -> None:
    verdicts = (Verdict(Promise(0.12, of="bincount"), 0.25), Verdict(Promise(4e7), 2.5e7))
    line = Measurement("fold [any]", 1_000_000, (0.04,), 3 * MIB, "bincount", 0.25, verdicts)
    text = shown(report_of(line))
    assert "fold [any]" in text
    assert "1,000,000" in text
    assert "25 M" in text
    assert "3.0 MiB" in text
    assert "pass ≥ 0.12 of bincount (0.250)" in text
    assert "FAIL ≥ 40 M events/s (25 M)" in text
    assert "seed 1, repeats 3" in text


def test_json_holds_every_repeat_and_every_verdict() -> None:
    line = Measurement(
        "fold", 100, (1.0, 2.0, 4.0), 5, "bincount", 0.25, (Verdict(Promise(0.5, of="bincount"), 0.25),)
    )
    read = json.loads(to_json(report_of(line)))
    assert read["name"] == "toy"
    assert read["is_kept"] is False
    assert read["settings"] == {"seed": 1, "repeats": 3}
    (measured,) = read["measurements"]
    assert measured["seconds"] == [1.0, 2.0, 4.0]
    assert measured["events_per_s"] == 50.0
    assert measured["verdicts"] == [{"at_least": 0.5, "of": "bincount", "reached": 0.25, "is_kept": False}]


def test_a_bench_is_imported_when_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = ModuleType("toy_bench")
    toy.cases = lambda seed, scale: [Case("a", nothing, events=int(10 * scale) + seed)]
    toy.ratios = lambda report: {"memory [a]": report.settings["scale"]}
    monkeypatch.setitem(sys.modules, "toy_bench", toy)
    monkeypatch.setitem(bench.BENCHES, "toy", "toy_bench")
    report = bench.run("toy", seed=3, scale=2.0, repeats=1)
    assert report.measurements[0].events == 23
    assert report.settings == {"seed": 3, "scale": 2.0, "repeats": 1}
    assert json.loads(to_json(report))["ratios"] == {"memory [a]": 2.0}
    assert "memory [a]: 2×" in shown(report)
    assert bench.run("toy", repeats=1, only={"a"}).ratios == {}


def test_an_unknown_bench_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown bench 'kernal'; did you mean 'kernel'"):
        bench.run("kernal")
