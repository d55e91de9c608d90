"""What the papers report (claims.toml), beside what was measured."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

NEAR = 1.3
"""A claim that nothing changes holds up to this factor."""


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A ratio that a paper reports: one way over another."""

    paper: str
    figure: str
    says: str
    ratio: float
    """The least that the paper reports; 1 where it says that nothing changes."""
    bench: str
    ours: str = ""
    over: str = ""
    """Lines of the bench, whose speeds are compared; empty where it has none for this."""
    why: str = ""
    """Where ours is less: the reason."""
    ratio_text: str = ""
    """The paper's own way to put it, if that is not one number."""
    measured: str = ""
    """Instead of two lines: the name of one of the bench's ratios."""

    @property
    def claimed(self) -> str:
        """The paper's ratio."""
        return self.ratio_text or f"{self.ratio:,g}×"


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim beside what was measured."""

    claim: PaperClaim
    ratio: float | None
    verdict: str

    @property
    def is_less(self) -> bool:
        """Whether a reason is due."""
        return self.verdict in ("smaller", "does not hold")


def judge(claim: PaperClaim, report: Mapping[str, Any]) -> Judged:
    """Our ratio in the bench's committed report; where a line was given up there is none."""
    lines = {line["name"]: line for line in report.get("lines", ())}
    ours, over = lines.get(claim.ours), lines.get(claim.over)
    if ours is not None and over is not None:
        if ours["unfinished"] or over["unfinished"]:
            who = claim.over if over["unfinished"] else claim.ours
            return Judged(claim, None, f"not finished by {who}")
        return _beside(claim, ours["events_per_s"] / over["events_per_s"])
    ratio = report.get("ratios", {}).get(claim.measured)
    return Judged(claim, None, "not measured") if ratio is None else _beside(claim, ratio)


def _beside(claim: PaperClaim, ratio: float) -> Judged:
    if claim.ratio == 1:
        return Judged(claim, ratio, "holds" if ratio >= 1 / NEAR else "does not hold")
    if ratio >= claim.ratio:
        return Judged(claim, ratio, "holds")
    return Judged(claim, ratio, "smaller" if ratio > 1 else "does not hold")


def read_claims() -> tuple[PaperClaim, ...]:
    """Those of claims.toml."""
    text = files("trendfold.bench").joinpath("claims.toml").read_text(encoding="utf-8")
    return tuple(PaperClaim(**fields) for fields in tomllib.loads(text)["claim"])
