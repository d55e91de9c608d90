"""`make chaos`: rounds of every scenario in turn until the time is up, then a table of what was lost."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from chaos import fuzz, kafka, streams
from chaos.figures import Figures, to_json, to_markdown

Scenario = Callable[[random.Random, Path], Figures]


def main() -> int:
    """0 where nothing was lost, doubled or wrong, and every error was told in words."""
    args = _arguments()
    known = _scenarios(args.jars)
    chosen = {name: known[name] for name in args.only or known}
    found: dict[str, Figures] = dict.fromkeys(chosen, Figures())
    fuzzed = fuzz.campaign(args.seed, args.inputs) if args.inputs else []
    for result in fuzzed:
        print(
            f"{result['what']}: {result['inputs']:,} inputs, {len(result['failures'])} failures", flush=True
        )
    deadline, number = time.monotonic() + args.minutes * 60, 0
    while chosen and time.monotonic() < deadline and number < args.rounds:
        for name, scenario in chosen.items():
            if time.monotonic() > deadline:
                break
            found[name] += _round(name, scenario, f"{args.seed}/{name}/{number}", args.keep)
        number += 1
    _report(args, found, fuzzed)
    is_clean = all(f.is_clean for f in found.values()) and not any(r["failures"] for r in fuzzed)
    return 0 if is_clean else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="no round begins after these")
    parser.add_argument("--rounds", type=int, default=1_000, help="of every scenario, at most")
    parser.add_argument("--inputs", type=int, default=2_000, help="how many queries and files are damaged")
    parser.add_argument("--only", action="append", metavar="SCENARIO")
    parser.add_argument("--jars", type=Path, default=Path(".chaos"), help="of a Kafka broker and a connector")
    parser.add_argument("--report", type=Path, help="write REPORT.json and REPORT.md")
    parser.add_argument("--keep", type=Path, help="keep the folders of rounds that fail here")
    return parser.parse_args()


def _scenarios(jars: Path) -> Mapping[str, Scenario]:
    known: dict[str, Scenario] = dict(streams.SCENARIOS)
    if not streams.may_mount():
        print("no disk is filled: only root can mount a small one", flush=True)
        del known["disk full"]
    if (jars / "kafka").is_dir() and (jars / "connector").is_dir():
        known["Kafka"] = partial(kafka.driver_and_broker_killed, jars=jars.resolve())
    else:
        print(f"no Kafka: there are no jars in {jars}", flush=True)
    return known


def _round(name: str, scenario: Scenario, seed: str, keep: Path | None) -> Figures:
    """One round, in a folder of its own; a fault of the campaign itself is a failure too."""
    folder = Path(tempfile.mkdtemp(prefix="trendfold-chaos-"))
    began = time.monotonic()
    try:
        figures = scenario(random.Random(seed), folder)
    except Exception as error:
        traceback.print_exc()
        figures = Figures(rounds=1).failing(f"{type(error).__name__}: {error}")
    for failure in figures.failures:
        print(f"  {seed}: {failure}", flush=True)
    took = time.monotonic() - began
    state = "clean" if figures.is_clean else "NOT CLEAN"
    print(f"{seed}: {took:.0f} s, {figures.faults} faults, {figures.rows:,} rows, {state}", flush=True)
    if keep is not None and not figures.is_clean:
        shutil.copytree(folder, keep / seed.replace("/", "-").replace(" ", "-"), dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return figures


def _report(args: argparse.Namespace, found: Mapping[str, Figures], fuzzed: list[dict[str, object]]) -> None:
    ran = {name: figures for name, figures in found.items() if figures.rounds}
    print(f"\n{to_markdown(ran)}\n", flush=True)
    if args.report is not None:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        about = {"seed": args.seed, "minutes": args.minutes}
        args.report.with_suffix(".json").write_text(to_json(ran, about, fuzzed), encoding="utf-8")
        args.report.with_suffix(".md").write_text(to_markdown(ran) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
