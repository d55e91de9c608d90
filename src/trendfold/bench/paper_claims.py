"""The claims of the papers (claims.toml), compared with our measurements."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

NEAR = 1.3
"""A claim of no change holds up to this factor."""


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A ratio that a paper reports: one method over another."""

    paper: str
    figure: str
    says: str
    ratio: float
    """The smallest ratio the paper reports; 1 if it claims no change."""
    bench: str
    ours: str = ""
    over: str = ""
    """The two lines of the bench whose speeds are compared; empty if there are none."""
    why: str = ""
    """The reason if our ratio is smaller."""
    ratio_text: str = ""
    """The paper's wording, if it is not one number."""
    measured: str = ""
    """The name of one of the bench's ratios, in place of two lines."""

    @property
    def claimed(self) -> str:
        """The paper's ratio."""
        return self.ratio_text or f"{self.ratio:,g}×"


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim, our ratio and the verdict."""

    claim: PaperClaim
    ratio: float | None
    verdict: str

    @property
    def is_less(self) -> bool:
        """Whether our ratio is smaller, so that `why` is shown."""
        return self.verdict in ("smaller", "does not hold")


def judge(claim: PaperClaim, report: Mapping[str, Any]) -> Judged:
    """Compare a claim with the bench's committed report; there is no ratio if a line was given up."""
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
    """Read claims.toml."""
    text = files("trendfold.bench").joinpath("claims.toml").read_text(encoding="utf-8")
    return tuple(PaperClaim(**fields) for fields in tomllib.loads(text)["claim"])
