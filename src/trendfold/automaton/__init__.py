"""Query -> Machine: positions, NOT guards, classified predicates, and the linear update per symbol."""

from trendfold.automaton.glushkov import END, START, Automaton, Guard, Position, build
from trendfold.automaton.predicates import Predicates, split

__all__ = ["END", "START", "Automaton", "Guard", "Position", "Predicates", "build", "split"]
