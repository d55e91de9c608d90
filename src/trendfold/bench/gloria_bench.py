"""GLORIA beside what its paper compares with: Figures 11 to 19 at the size of one machine.

Figures 11 to 15: how long its optimizer takes, beside one without pruning and a greedy one, over workloads
of sequences, Kleene patterns and both (gloria_plans.py). Figures 16 to 19: how fast plans are carried out,
beside `greta`, `hamlet` and `auto` (gloria_runs.py).
"""

from __future__ import annotations

from dataclasses import replace

from trendfold.bench import gloria_plans, gloria_runs
from trendfold.bench.curves import draw
from trendfold.bench.harness import Case, Promise, Report, Verdict


def cases(seed: int, scale: float) -> list[Case]:
    """All lines; events are multiplied by `scale`, numbers of queries are not."""
    return [*gloria_plans.cases(seed), *gloria_runs.cases(seed, scale)]


def judged(report: Report) -> Report:
    """With the promises about plans' costs, and about `auto` in all cells together."""
    verdicts = gloria_plans.verdicts(int(report.settings["seed"]))
    near = beside_best(report)
    last = gloria_runs.mixed_name(*gloria_runs.CELLS[-1], "auto")
    kept = sorted(near.values())[1]  # all but the worst
    verdicts[last] = Verdict(Promise(gloria_runs.MOSTLY, "the best way, in all cells but one"), kept)
    lines = tuple(
        replace(line, verdicts=(*line.verdicts, verdicts[line.name])) if line.name in verdicts else line
        for line in report.measurements
    )
    return replace(report, measurements=lines)


def beside_best(report: Report) -> dict[str, float]:
    """By cell: the speed of `auto` beside the best of the others."""
    median = {line.name: line.median_s for line in report.measurements}
    found = {}
    for size, burst in gloria_runs.CELLS:
        names = [gloria_runs.mixed_name(size, burst, way) for way in gloria_runs.WAYS]
        *others, auto = (median[name] for name in names)
        found[f"{size} queries, bursts of {burst}"] = min(others) / auto
    return found


def ratios(report: Report) -> dict[str, float]:
    """What is compared that is no time: memory, costs, snapshots."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    return gloria_plans.ratios(seed) | gloria_runs.ratios(seed, scale)


def notes(report: Report) -> tuple[str, ...]:
    """Where the time of plans goes; `auto` beside the best of the others."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    near = ", ".join(f"{cell}: {ratio:.2f}" for cell, ratio in beside_best(report).items())
    return (*gloria_runs.notes(seed, scale), f"auto beside the best of the others: {near}")


def plot(report: Report) -> str:
    """Seconds against queries: optimizers over sequences, and ways over mixed workloads."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in report.measurements:
        kind, size, *_, way = (part.strip() for part in line.name.split(","))
        if kind == "optimize sequences":
            curves.setdefault(f"optimize, {way}", []).append((float(size), line.median_s))
        elif kind == "mixed" and "bursts of 3" in line.name:
            curves.setdefault(f"run, {way}", []).append((float(size.split()[0]), line.median_s))
    return draw({name: sorted(points) for name, points in curves.items()}, {})
