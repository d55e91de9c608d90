"""Measure cases: a report of medians, ratios and promises.

The cases of a report take turns, so that a machine that slows down affects all of them. Cases that answer the
same question must first give the same answer; otherwise there is an error and no time.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from statistics import median
from time import perf_counter

from rich.markup import escape
from rich.table import Table

from trendfold.bench.answers import Answer, require_alike
from trendfold.bench.hardware import begin_peak, peak_bytes, versions
from trendfold.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Promise:
    """A minimum of events/s or, with `of`, a minimum fraction of another line's events/s."""

    at_least: float
    of: str | None = None

    def __str__(self) -> str:
        return f"≥ {self.at_least:g} of {self.of}" if self.of else f"≥ {short(self.at_least)} events/s"


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a report: the work to time, its number of events, and its promises."""

    name: str
    run: Callable[[], object]
    events: int
    floor: str | None = None
    """The baseline line, such as one pass of `numpy.bincount` over the same events."""
    promises: tuple[Promise, ...] = ()
    like: str | None = None
    """The question; cases with the same question must give equal answers."""
    answer: Answer | None = None
    """Extracts the answer to compare from the run's result; None compares all of it."""
    expected: Callable[[], object] | None = None
    """Computes the expected answer if no other case does; run once, and not timed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The result of a run that timed itself, because it ran in another process."""

    seconds: float
    result: object = None


class UnfinishedError(Exception):
    """A run that was given up; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A promise and its measured value: events/s, or a fraction of another line's."""

    promise: Promise
    reached: float

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept."""
        return self.reached >= self.promise.at_least


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one case over all repeats."""

    name: str
    events: int
    seconds: tuple[float, ...]
    peak_bytes: int
    """The peak memory of a repeat above what was in use when it began."""
    floor: str | None = None
    of_floor: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    like: str | None = None
    """The question; all lines with the same one gave equal answers."""
    unfinished: str = ""
    """Why the case has no time; empty if it has one."""

    @property
    def median_s(self) -> float:
        """The median of the repeats; NaN if there are none."""
        return median(self.seconds) if self.seconds else math.nan

    @property
    def events_per_s(self) -> float:
        """Events of the case divided by its median time."""
        return self.events / self.median_s


@dataclass(frozen=True, slots=True)
class Report:
    """Measurements made together, and the machine and versions."""

    name: str
    measurements: tuple[Measurement, ...]
    versions: Mapping[str, str]
    settings: Mapping[str, float]
    """Seed, scale and repeats, to reproduce the run."""
    notes: tuple[str, ...] = ()
    """Conclusions from several lines."""
    plot: str = ""
    """An SVG of the lines, if the bench draws one."""
    date: str = ""
    """The day it was measured, as 2024-12-31."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Named comparisons other than the speed of two lines, such as memory."""

    @property
    def is_kept(self) -> bool:
        """Whether every promise was kept."""
        return all(verdict.is_kept for line in self.measurements for verdict in line.verdicts)


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run of one case."""

    seconds: float
    peak_bytes: int


# ---------------------------------------------------------------- measuring


SHORT_S = 0.5
"""Cases shorter than this are warmed up before each turn."""


def measure(
    cases: Sequence[Case],
    repeats: int = 9,
    *,
    name: str = "",
    warm_up: int = 1,
    settings: Mapping[str, float] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Report:
    """Run every case `warm_up` times untimed, compare the answers, then run all in turn `repeats` times.

    A short case also runs untimed before each turn, because its memory was freed while the others ran.
    `progress` is called with the name of each case before it runs.
    """
    _check(cases, repeats)
    warmed = _warm_up(cases, warm_up, progress)
    why = {name: warm.unfinished for name, warm in warmed.items()}
    last_s = {name: warm.seconds for name, warm in warmed.items()}
    samples: dict[str, list[Sample]] = {case.name: [] for case in cases}
    for turn in range(repeats):
        for case in cases:
            if why[case.name]:
                continue
            progress(f"{turn + 1}/{repeats}: {case.name}")
            try:
                if last_s[case.name] < SHORT_S:
                    case.run()
                samples[case.name].append(_sample(case.run))
                last_s[case.name] = samples[case.name][-1].seconds
            except UnfinishedError as problem:
                why[case.name] = str(problem)
                samples[case.name].clear()
    return Report(
        name=name,
        measurements=tuple(
            replace(_judge(case, cases, samples), unfinished=why[case.name]) for case in cases
        ),
        versions=versions(),
        settings={**(settings or {}), "repeats": repeats},
        date=date.today().isoformat(),
    )


@dataclass(frozen=True, slots=True)
class _Warm:
    """Findings of the warm-up runs."""

    seconds: float
    """May include compilation."""
    unfinished: str = ""


def _warm_up(cases: Sequence[Case], times: int, progress: Callable[[str], None]) -> dict[str, _Warm]:
    """Run all cases untimed; those with the same question must agree."""
    found: dict[str, _Warm] = {}
    agreed: dict[str, tuple[str, object]] = {}
    for case in cases:
        progress(f"warm-up: {case.name}")
        start = perf_counter()
        result: object = None
        try:
            for _ in range(max(times, case.like is not None, case.expected is not None)):
                result = case.run()
        except UnfinishedError as problem:
            found[case.name] = _Warm(math.inf, str(problem))
            continue
        found[case.name] = _Warm(perf_counter() - start if times > 0 else math.inf)
        _compare(case, result, agreed)
    return found


def _compare(case: Case, result: object, agreed: dict[str, tuple[str, object]]) -> None:
    """Compare with the first case of the same question, and with the expected answer."""
    if case.like is None and case.expected is None:
        return
    answer = _answer(case, result)
    if case.like is not None:
        first, expected = agreed.setdefault(case.like, (case.name, answer))
        require_alike(first, expected, case.name, answer)
    if case.expected is not None:
        require_alike("another way", case.expected(), case.name, answer)


def _answer(case: Case, result: object) -> object:
    given = result.result if isinstance(result, Timed) else result
    return case.answer(given) if case.answer is not None else given


def _check(cases: Sequence[Case], repeats: int) -> None:
    if repeats < 1:
        raise InputError(f"option 'repeats' is {repeats}; it must be 1 or more")
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two cases are named {name!r}; give each a name of its own")
    for case in cases:
        for other in (case.floor, *(promise.of for promise in case.promises)):
            if other is not None and other not in names:
                hint = nearest(other, names) or f"choose one of {', '.join(names)}"
                raise InputError(f"case {case.name!r} is compared with the unknown {other!r}; {hint}")


def _sample(run: Callable[[], object]) -> Sample:
    gc.collect()
    before = begin_peak()
    start = perf_counter()
    result = run()
    seconds = perf_counter() - start
    peak = peak_bytes()
    if isinstance(result, Timed):
        seconds = result.seconds
    # The result is kept until here, so that freeing it is not timed.
    del result
    return Sample(max(seconds, 1e-9), max(0, peak - before))


def _judge(case: Case, cases: Sequence[Case], samples: Mapping[str, Sequence[Sample]]) -> Measurement:
    events = {other.name: other.events for other in cases}

    def fraction(of: str) -> float:
        """The median ratio of this case's events/s to the other's in the same turn; NaN if there is none."""
        if not samples[case.name] or not samples[of]:
            return math.nan
        turns = zip(samples[case.name], samples[of], strict=True)
        return median(theirs.seconds / ours.seconds for ours, theirs in turns) * case.events / events[of]

    line = Measurement(
        case.name,
        case.events,
        seconds=tuple(sample.seconds for sample in samples[case.name]),
        peak_bytes=max((sample.peak_bytes for sample in samples[case.name]), default=0),
        floor=case.floor,
        of_floor=fraction(case.floor) if case.floor else None,
        like=case.like,
    )
    reached = (fraction(promise.of) if promise.of else line.events_per_s for promise in case.promises)
    return replace(line, verdicts=tuple(map(Verdict, case.promises, reached)))


# ---------------------------------------------------------------- showing


def render(report: Report) -> Table:
    """The report as a table for a terminal."""
    made_with = ", ".join(f"{name} {value}" for name, value in report.versions.items())
    settings = ", ".join(f"{name} {value:g}" for name, value in report.settings.items())
    told = [f"{name}: {times(ratio)}" for name, ratio in report.ratios.items()]
    caption = "\n".join([*map(escape, [*told, *report.notes]), settings, made_with])
    table = Table(title=report.name or None, caption=caption, caption_justify="left")
    table.add_column("case")
    for heading in ("events", "median", "events/s", "of floor", "peak"):
        table.add_column(heading, justify="right")
    table.add_column("promises")
    for line in report.measurements:
        table.add_row(*_cells(line))
    return table


def _cells(line: Measurement) -> Iterable[str]:
    yield escape(line.name)
    yield f"{line.events:,}"
    if line.unfinished:
        yield from ("", "", "", "", escape(line.unfinished))
        return
    yield f"{line.median_s * 1e3:,.2f} ms"
    yield short(line.events_per_s)
    yield f"{line.of_floor:.3f}" if has_ratio(line) else ""
    yield f"{line.peak_bytes / 2**20:,.1f} MiB"
    yield "\n".join(_shown(verdict) for verdict in line.verdicts)


def has_ratio(line: Measurement) -> bool:
    """Whether the line and its baseline both have a time."""
    return line.of_floor is not None and not math.isnan(line.of_floor)


def _shown(verdict: Verdict) -> str:
    word = "[green]pass[/]" if verdict.is_kept else "[bold red]FAIL[/]"
    reached = f"{verdict.reached:.3f}" if verdict.promise.of else short(verdict.reached)
    return f"{word} {escape(str(verdict.promise))} ({reached})"


def short(number: float) -> str:
    """Format 1,234,567 as 1.23 M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def times(ratio: float) -> str:
    """Format 1234.5 as 1,234×."""
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def to_json(report: Report) -> str:
    """The report with the seconds of every repeat, and the derived figures."""
    whole = {
        "name": report.name,
        "date": report.date,
        "is_kept": report.is_kept,
        "settings": dict(report.settings),
        "versions": dict(report.versions),
        "ratios": {name: _number(ratio) for name, ratio in report.ratios.items()},
        "notes": list(report.notes),
        "measurements": [_line(line) for line in report.measurements],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _line(line: Measurement) -> dict[str, object]:
    verdicts = [
        {**asdict(verdict.promise), "reached": _number(verdict.reached), "is_kept": verdict.is_kept}
        for verdict in line.verdicts
    ]
    return {
        **asdict(line),
        "of_floor": None if line.of_floor is None else _number(line.of_floor),
        "median_s": _number(line.median_s),
        "events_per_s": _number(line.events_per_s),
        "verdicts": verdicts,
    }


def _number(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if math.isnan(value) else value
