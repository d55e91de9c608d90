"""GLORIA against its paper's baselines: Figures 11 to 19, scaled to one machine.

Figures 11 to 15: the time of its optimizer, against one without pruning and a greedy one, for workloads of
sequences, Kleene patterns and both (gloria_plans.py). Figures 16 to 19: the speed of running plans, against
`greta`, `hamlet` and `auto` (gloria_runs.py). Section 7.2: a stream whose rates flip (gloria_flips.py).
"""

from __future__ import annotations

from dataclasses import replace

from trendfold.bench import gloria_flips, gloria_plans, gloria_runs
from trendfold.bench.curves import draw
from trendfold.bench.harness import Case, Promise, Report, Verdict


def cases(seed: int, scale: float) -> list[Case]:
    """All lines; `scale` multiplies events, not numbers of queries."""
    return [*gloria_plans.cases(seed), *gloria_runs.cases(seed, scale), *gloria_flips.cases(seed, scale)]


def judged(report: Report) -> Report:
    """Add promises about the costs of plans, and about `auto` over all cells."""
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
    """For each cell: the speed of `auto` relative to the best of the others."""
    median = {line.name: line.median_s for line in report.measurements}
    found = {}
    for size, burst in gloria_runs.CELLS:
        names = [gloria_runs.mixed_name(size, burst, way) for way in gloria_runs.WAYS]
        *others, auto = (median[name] for name in names)
        found[f"{size} queries, bursts of {burst}"] = min(others) / auto
    return found


def ratios(report: Report) -> dict[str, float]:
    """Comparisons other than time: memory, costs, snapshots."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    return gloria_plans.ratios(seed) | gloria_runs.ratios(seed, scale)


def notes(report: Report) -> tuple[str, ...]:
    """Where the time of plans goes, and `auto` relative to the best of the others."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    near = ", ".join(f"{cell}: {ratio:.2f}" for cell, ratio in beside_best(report).items())
    return (*gloria_runs.notes(seed, scale), f"auto beside the best of the others: {near}")


def plot(report: Report) -> str:
    """Seconds by number of queries: optimizers for sequences, and strategies for mixed workloads."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in report.measurements:
        kind, size, *_, way = (part.strip() for part in line.name.split(","))
        if kind == "optimize sequences":
            curves.setdefault(f"optimize, {way}", []).append((float(size), line.median_s))
        elif kind == "mixed" and "bursts of 3" in line.name:
            curves.setdefault(f"run, {way}", []).append((float(size.split()[0]), line.median_s))
    return draw({name: sorted(points) for name, points in curves.items()}, {})
