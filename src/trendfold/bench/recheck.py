"""Remeasure a few ratios, and compare them with the committed ones.

`python -m trendfold.bench.recheck docs/benchmarks.json`, or `make bench-check`. It compares ratios instead of
times, so it works on any machine. The lines take under three minutes in total, and if possible tens of
milliseconds each, so that they vary little. A ratio that is off is measured again; the median counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from trendfold.bench import run
from trendfold.bench.harness import Report
from trendfold.bench.published import Kept, read

LINES: dict[str, tuple[str, ...]] = {
    "aseq": ("Figure 16b, prefix of 2, aseq", "Figure 16c, middle of 6, aseq"),
    "cogra": ("Figure 13, 90 %, one window, greta", "Figure 13, 90 %, one window, auto"),
    "gloria": ("100 queries, 100 % complex, bursts of 100, gloria",),
    "hamlet": ("stock, 4000 a minute, 20 queries, hamlet", "stock, 4000 a minute, 50 queries, hamlet"),
    "kernel": ("skip-till-any-match, windows of 10,000", "five aggregates, wide numbers"),
    "neighbour": ("any, 20,000 events",),
    "sharing": ("shared, 10 queries, bursts of 2", "shared, 50 queries, bursts of 100"),
    "windows": ("30 overlaps of 1,000 events", "32 overlaps of 200 events, neighbours compared"),
}
"""By bench: lines that have a floor. Without Spark, peers, and searches that take minutes."""
OFF = 1.3
"""The largest factor by which a ratio may differ from the committed one, in either direction."""
REPEATS, ROUNDS = 7, 3


@dataclass(frozen=True, slots=True)
class ComparedRatio:
    """The committed ratio of a line, and the ratio now."""

    name: str
    then: float
    now: float

    @property
    def is_near(self) -> bool:
        """Whether the two ratios differ by at most the factor OFF."""
        return max(self.then, self.now) <= OFF * min(self.then, self.now)

    def __str__(self) -> str:
        word = "same" if self.is_near else "OFF "
        return f"{word}  {self.name}: {self.now:.3g}, committed {self.then:.3g}"


def compare(committed: Mapping[str, Any], report: Report) -> list[ComparedRatio]:
    """The lines that have a ratio in both reports."""
    then = {line["name"]: line["of_floor"] for line in committed["lines"] if line["of_floor"]}
    now = {line.name: line.of_floor for line in report.measurements if line.of_floor}
    return [ComparedRatio(name, then[name], ratio) for name, ratio in now.items() if name in then]


def check(kept: Kept, tell: Callable[[str], None]) -> bool:
    """Measure the chosen lines; returns whether all ratios are near the committed ones."""
    left, missing = LINES, 0
    seen: dict[tuple[str, str], list[float]] = {}
    for rounds in range(1, ROUNDS + 1):
        off: dict[str, tuple[str, ...]] = {}
        for bench, names in left.items():
            found = _measured(kept, bench, names)
            missing += len(names) - len(found)
            again = []
            for each in found:
                ratios = seen.setdefault((bench, each.name), [])
                ratios.append(each.now)
                so_far = replace(each, now=median(ratios))
                tell(str(so_far))
                again += [] if so_far.is_near else [each.name]
            if again:
                off[bench] = tuple(again)
        left = off
        if left and rounds < ROUNDS:
            tell(f"measured again: {sum(map(len, left.values()))}")
    if missing:
        tell(f"{missing} lines are not among the committed ones; measure them with --into")
    return not missing and not left


def _measured(kept: Kept, bench: str, names: Collection[str]) -> list[ComparedRatio]:
    """Measure lines with the settings of the committed report; empty if there is none."""
    if bench not in kept:
        return []
    floors = [line["floor"] for line in kept[bench]["lines"] if line["name"] in names]
    settings = kept[bench]["settings"]
    seed, scale = int(settings["seed"]), settings["scale"]
    report = run(bench, seed=seed, scale=scale, repeats=REPEATS, only={*names, *floors})
    return [each for each in compare(kept[bench], report) if each.name in names]


def main(path: str) -> int:
    """The exit code: 0 if all ratios are near."""
    return 0 if check(read(Path(path)), lambda line: print(line, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
