"""Side-by-side benchmarks. A bench is a module listed here, with `cases(seed, scale) -> list[Case]`.

It may also have `judged(report) -> Report`, which adds promises about several lines; `ratios(report) ->
Mapping[str, float]`, named comparisons other than the speed of two lines, which claims.toml may refer to;
`notes(report) -> tuple[str, ...]`, conclusions from several lines; and `plot(report) -> str`, an SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from importlib import import_module
from typing import Any

from trendfold.bench.harness import Case, Report, measure
from trendfold.errors import InputError, nearest

BENCHES: dict[str, str] = {
    "aseq": "trendfold.bench.aseq_bench",
    "cogra": "trendfold.bench.cogra_bench",
    "compile": "trendfold.bench.compile_bench",
    "detect": "trendfold.bench.detect_bench",
    "gloria": "trendfold.bench.gloria_bench",
    "hamlet": "trendfold.bench.hamlet_bench",
    "kernel": "trendfold.bench.kernel_bench",
    "language": "trendfold.bench.language_bench",
    "mcep": "trendfold.bench.mcep_bench",
    "neighbour": "trendfold.bench.neighbour_bench",
    "peers": "trendfold.bench.peers",
    "scale": "trendfold.bench.scale_bench",
    "sharing": "trendfold.bench.sharing_bench",
    "spark": "trendfold.bench.spark_bench",
    "stream": "trendfold.bench.stream_bench",
    "windows": "trendfold.bench.windows_bench",
}
"""Benches by name, and their modules, which are imported on use."""


def draws(name: str) -> bool:
    """Whether a bench has a plot."""
    return hasattr(_module(name), "plot")


def _module(name: str) -> Any:
    if name not in BENCHES:
        hint = nearest(name, BENCHES) or f"choose one of {', '.join(BENCHES)}"
        raise InputError(f"unknown bench {name!r}; {hint}")
    return import_module(BENCHES[name])


def run(
    name: str,
    *,
    seed: int = 0,
    scale: float = 1.0,
    repeats: int = 9,
    only: Collection[str] = (),
    parts: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Report:
    """Measure one bench, or `only` some of its lines; `scale` multiplies its numbers of events.

    With `parts`, its work is taken apart instead.
    """
    bench = _module(name)
    if parts:
        return _run_parts(bench, name, seed, scale, repeats, progress)
    cases: list[Case] = bench.cases(seed, scale)
    if only:
        cases = [case for case in cases if case.name in only]
    report = measure(cases, repeats, name=name, settings={"seed": seed, "scale": scale}, progress=progress)
    if only:
        return report
    report = bench.judged(report) if hasattr(bench, "judged") else report
    return replace(
        report,
        ratios=bench.ratios(report) if hasattr(bench, "ratios") else {},
        notes=bench.notes(report) if hasattr(bench, "notes") else (),
        plot=bench.plot(report) if hasattr(bench, "plot") else "",
    )


def _run_parts(
    bench: Any, name: str, seed: int, scale: float, repeats: int, progress: Callable[[str], None]
) -> Report:
    if not hasattr(bench, "parts"):
        raise InputError(f"bench {name!r} has no parts; leave out --parts")
    settings = {"seed": seed, "scale": scale}
    told = f"{name}, part by part"
    report = measure(bench.parts(seed, scale), repeats, name=told, settings=settings, progress=progress)
    return replace(report, notes=bench.parts_notes(report))
