"""A few ratios measured again, beside the committed ones.

`python -m trendfold.bench.check docs/benchmarks.json`, or `make bench-check`. Ratios and not times, so
that any machine can ask; lines are chosen to take a few minutes in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trendfold.bench import run
from trendfold.bench.harness import Report
from trendfold.bench.published import Kept, read
from trendfold.errors import InputError

LINES: dict[str, tuple[str, ...]] = {
    "aseq": (
        "Figure 12, length 4, aseq",
        "Figure 14b, NOT, aseq",
        "Figure 16b, prefix of 6, aseq",
        "Figure 16c, middle of 6, aseq",
    ),
    "cogra": (
        "Figure 10, any, 8000 a window, greta",
        "Figures 6 and 9, next, 10000 a window, greta",
        "Figure 13, 90 %, one window, greta",
        "Figure 13, 90 %, one window, auto",
    ),
}
OFF = 1.3
"""A ratio may be so many times the committed one, or that one so many times it."""
REPEATS = 15


@dataclass(frozen=True, slots=True)
class Compared:
    """A ratio then and now."""

    name: str
    then: float
    now: float

    @property
    def is_near(self) -> bool:
        """Whether neither is far above the other."""
        return max(self.then, self.now) <= OFF * min(self.then, self.now)

    def __str__(self) -> str:
        word = "same" if self.is_near else "OFF "
        return f"{word}  {self.name}: {self.now:.3g}, committed {self.then:.3g}"


def compare(committed: Mapping[str, Any], report: Report) -> list[Compared]:
    """All lines of a report that have a ratio there, too."""
    then = {line["name"]: line["of_floor"] for line in committed["lines"] if line["of_floor"]}
    now = {line.name: line.of_floor for line in report.measurements if line.of_floor}
    return [Compared(name, then[name], ratio) for name, ratio in now.items() if name in then]


def check(kept: Kept, tell: Callable[[str], None]) -> bool:
    """Measure the lines that are looked at; whether all ratios are near the committed ones."""
    found = []
    for bench, names in LINES.items():
        if bench not in kept:
            raise InputError(f"nothing is committed for bench {bench!r}; measure it with --into")
        floors = [line["floor"] for line in kept[bench]["lines"] if line["name"] in names]
        settings = kept[bench]["settings"]
        seed, scale = int(settings["seed"]), settings["scale"]
        report = run(bench, seed=seed, scale=scale, repeats=REPEATS, only={*names, *floors})
        for each in compare(kept[bench], report):
            tell(str(each))
            found.append(each)
    missing = sum(map(len, LINES.values())) - len(found)
    if missing:
        tell(f"{missing} lines are not among the committed ones; measure them with --into")
    return not missing and all(each.is_near for each in found)


def main(path: str) -> int:
    """0 if nothing is off."""
    return 0 if check(read(Path(path)), lambda line: print(line, flush=True)) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
