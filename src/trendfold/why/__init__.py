"""Why a query has no rows, or few: what is left of the events after each step of its pattern."""

from trendfold.why.ask import ask
from trendfold.why.story import Loosened, PatternStep, Sieve, WhyNot, require_why_format

__all__ = ["Loosened", "PatternStep", "Sieve", "WhyNot", "ask", "require_why_format"]
