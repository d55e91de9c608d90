"""Query -> Machine: positions, guards, predicates by kind, and the linear update of every symbol."""

from trendfold.automaton.glushkov import END, START, Automaton, Guard, Position, build
from trendfold.automaton.predicates import Predicates, split

__all__ = ["END", "START", "Automaton", "Guard", "Position", "Predicates", "build", "split"]
