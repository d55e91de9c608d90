"""A-Seq's plan: shared prefixes (the PreTree), and shared sub-patterns (chop-connect).

A query is a *line* of steps. Lines are inserted into prefix trees: one counter per distinct prefix, however
many queries have it. A line may be *chopped*: the part after the cut goes into another tree, where it shares
counters with the same sub-pattern of other queries. A *link* connects the pieces: a snapshot of the counts
before the cut, taken at every event that begins the piece after it (the CNET events).

Source: A-Seq (SIGMOD 2014), sections 3.3, 4.1 and 4.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from trendfold.papers.aseq.counter_prices import PAPERS_PRICES, CounterPrices
from trendfold.query.nodes import TypeSet, Window
from trendfold.query.printer import type_text, window_text


@dataclass(frozen=True, slots=True)
class LineElement:
    """The type and condition of the events that can take one place of a line, or break one."""

    type: str | TypeSet
    conditions: frozenset[str] = frozenset()
    """Local predicates as text without the alias, so that equal predicates are equal strings."""
    keyed: frozenset[str] = frozenset()
    """GROUP BY attributes of the alias at this place: it only takes events of its group."""
    position: int = field(default=-1, compare=False)
    """Its position in the automaton of its query."""

    def __str__(self) -> str:
        wanted = " AND ".join(sorted(self.conditions))
        return type_text(self.type) + (f"[{wanted}]" if wanted else "")


Barred = tuple[LineElement, ...]
"""A NOT: an event of any of these breaks a trend; empty for no NOT."""


def _barred_text(barred: Barred) -> str:
    return f"NOT {barred[0]}" if len(barred) == 1 else f"NOT ({' | '.join(map(str, barred))})"


@dataclass(frozen=True, slots=True)
class LineStep:
    """One place of a line, and what must not come between it and the next place (or the window's end)."""

    element: LineElement
    barred: Barred = ()

    def __str__(self) -> str:
        return str(self.element) + (f", {_barred_text(self.barred)}" if self.barred else "")


@dataclass(frozen=True, slots=True)
class Line:
    """One query as a sequence of steps; `opening` is the NOT before the first step."""

    steps: tuple[LineStep, ...]
    window: Window | None = None
    opening: Barred = ()

    @property
    def positions(self) -> tuple[int, ...]:
        """The automaton position of every step."""
        return tuple(step.element.position for step in self.steps)


Cuts = dict[int, tuple[int, ...]]
"""For each member, the places before which its line is chopped, in order."""


@dataclass(frozen=True, slots=True)
class PrefixNode:
    """A prefix counter. `member` is a query whose positions its step names; `users` are all that pass it."""

    step: LineStep
    parent: int
    depth: int
    member: int
    users: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """Counters of all prefixes that start with one step; node 0 counts the START events."""

    nodes: tuple[PrefixNode, ...]
    opening: Barred = ()

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root to `node`."""
        found = [node]
        while (parent := self.nodes[found[-1]].parent) >= 0:
            found.append(parent)
        return tuple(found[::-1])


@dataclass(frozen=True, slots=True)
class Link:
    """Connects two pieces: every event that begins tree `into` takes a snapshot of the counts before it.

    That is the count at `node` of `tree`, multiplied by the snapshots of the link `before` if that tree is
    not the first piece (multi-connect; -1 for none). It has a row per START event of the whole line, its
    tag, so that rows expire with it.
    """

    before: int
    tree: int
    node: int
    into: int


@dataclass(frozen=True, slots=True)
class CounterReading:
    """Where the count of one query is read: at `node` of `tree`, times the snapshots of `link` (-1: none)."""

    member: int
    link: int
    tree: int
    node: int
    cuts: tuple[int, ...]
    """The places before which its line is chopped."""
    positions: tuple[int, ...]
    """The automaton position of every place of the line."""


@dataclass(frozen=True, slots=True)
class ExpiryFamily:
    """Queries with one SLIDE that share counters: START events expire with the longest of their windows."""

    windows: tuple[Window | None, ...]
    trees: tuple[Tree, ...]
    links: tuple[Link, ...]
    readings: tuple[CounterReading, ...]

    @property
    def updates(self) -> int:
        """The number of counters and links: the paper's cost."""
        return sum(len(tree.nodes) for tree in self.trees) + len(self.links)

    def pieces(self, reading: CounterReading) -> tuple[tuple[int, int], ...]:
        """The (tree, node) at which each piece of a line ends, in order."""
        found = [(reading.tree, reading.node)]
        at = reading.link
        while at >= 0:
            link = self.links[at]
            found.append((link.tree, link.node))
            at = link.before
        return tuple(found[::-1])


@dataclass(frozen=True, slots=True)
class PrefixPlan:
    """How a workload of lines shares its counters; members are numbered as the lines were."""

    families: tuple[ExpiryFamily, ...]
    alone: int
    """The number of counters without sharing."""
    is_guess: bool = False
    """Whether lines were cut without knowing how many marks are active; `fitted` then cuts anew."""
    is_built: bool = False
    """Whether sequences are built (E-Cube) instead of counted: a stack of them for every counter."""

    @property
    def updates(self) -> int:
        """The number of counters and snapshots of all families."""
        return sum(family.updates for family in self.families)


def share_prefixes(
    lines: Sequence[Line], cuts: Cuts | None = None, prices: CounterPrices = PAPERS_PRICES
) -> PrefixPlan:
    """Plan a workload; without `cuts`, lines are chopped where that is cheaper.

    A chopped piece has counters for every event that begins it. With per-event windows, an unchopped line
    also has counters for every START event. In other windows, START events that expire together share
    counters, and a set per CNET event would only add work.
    """
    families, is_guess = [], False
    for windows, own in _families(lines, prices).items():
        where = cuts
        if where is None:
            is_per_event = all(window is not None and window.slide is None for window in windows)
            is_guess |= is_per_event and len(own) > 1 and not prices.frequencies
            where = chop(own, prices) if is_per_event else dict.fromkeys(own, ())
        families.append(_lay(windows, own, where))
    return PrefixPlan(tuple(families), sum(len(line.steps) for line in lines), is_guess)


# ---------------------------------------------------------------- which windows share marks


def _families(
    lines: Sequence[Line], prices: CounterPrices
) -> dict[tuple[Window | None, ...], dict[int, Line]]:
    """The lines of each family, by their windows.

    Lines that begin alike share marks in windows of different WITHIN if that is cheaper: a counter is updated
    once, but for all START events of the longest window. SLIDE must be the same, so that windows begin at the
    same times.
    """
    alike: dict[object, dict[int, Line]] = {}
    for member, line in enumerate(lines):
        moves = line.window and (line.window.slide, line.window.unit)
        alike.setdefault((moves, line.opening, line.steps[0]), {})[member] = line
    found: dict[tuple[Window | None, ...], dict[int, Line]] = {}
    for own in alike.values():
        windows = tuple(dict.fromkeys(line.window for line in own.values()))
        is_shared = len(windows) == 1 or _updates(own, prices) < sum(
            _updates({m: line for m, line in own.items() if line.window == window}, prices, window, windows)
            for window in windows
        )
        for member, line in own.items():
            found.setdefault(windows if is_shared else (line.window,), {})[member] = line
    ordered = sorted(found.items(), key=lambda family: min(family[1]))
    return {windows: dict(sorted(own.items())) for windows, own in ordered}


def _updates(
    lines: dict[int, Line],
    prices: CounterPrices,
    window: Window | None = None,
    beside: Sequence[Window | None] = (),
) -> float:
    """The price of the counters of lines that begin alike, in the longest window or a shorter one."""
    lengths = [each.length for each in beside if each is not None]
    share = window.length / max(lengths) if window is not None else 1.0
    prefixes = {line.steps[:end] for line in lines.values() for end in range(1, len(line.steps) + 1)}
    return sum(prices.counter(word[0].element.type, word[-1].element.type, share) for word in prefixes)


# ---------------------------------------------------------------- where to chop

_Word = tuple[int, ...]
"""Steps, by number."""


def chop(lines: dict[int, Line], prices: CounterPrices = PAPERS_PRICES) -> Cuts:
    """Where to chop each line, by greedy search: the sub-pattern that saves most first.

    A move takes a sub-pattern of two or more steps that several lines share, and chops all of them before
    it; what follows the sub-pattern stays a branch below it. Moves are made while they lower the cost. A line
    that begins with NOT is not chopped: expiry alone does not tell which of its START events count in a
    window.

    The cost is the sum of the prices of distinct counters and links, and of reading what is chopped. The
    paper's prices are one per update: an event updates one counter per prefix that ends with its type, and
    takes one snapshot per link into the tree that it begins (A-Seq, section 4.2, which counts snapshots of
    multi-connects like others).
    """
    words, types = _numbered(lines)
    cuts: Cuts = dict.fromkeys(lines, ())
    while True:
        users = Counter(key for member in lines for key in _laid(lines[member], words[member], cuts[member]))
        moves = _moves(lines, words, cuts)
        tried = [
            (_change(_moved(lines, words, cuts, move), users, partial(_price, types, prices)), move)
            for move in moves
        ]
        change, move = min(tried, key=lambda found: found[0], default=(0.0, {}))
        if change >= 0:
            return cuts
        cuts |= move


class _Counted(NamedTuple):
    """A prefix counter: the NOT before it, and its steps."""

    opening: Barred
    word: _Word


class _Linked(NamedTuple):
    """A link: the pieces before it, and the step after it."""

    pieces: tuple[_Word, ...]
    into: int


class _CutReading(NamedTuple):
    """The reading of a line in several pieces."""

    pieces: tuple[_Word, ...]


_Key = _Counted | _Linked | _CutReading


def _laid(line: Line, word: _Word, cuts: tuple[int, ...]) -> Iterator[_Key]:
    """The counters and links of one line."""
    pieces = tuple(word[low:high] for low, high in pairwise((0, *cuts, len(word))))
    for i, piece in enumerate(pieces):
        for end in range(1, len(piece) + 1):
            yield _Counted(line.opening if i == 0 else (), piece[:end])
        if i:
            yield _Linked(pieces[:i], piece[0])
    if cuts:
        yield _CutReading(pieces)


def _price(types: Sequence[str | TypeSet], prices: CounterPrices, key: _Key) -> float:
    match key:
        case _Counted(_, word):
            return prices.counter(types[word[0]], types[word[-1]])
        case _Linked(pieces, into):
            return prices.link(tuple(types[piece[0]] for piece in pieces), types[into])
        case _CutReading(pieces):
            return prices.cut_reading(types[pieces[-1][0]], types[pieces[-1][-1]])


def _moved(lines: dict[int, Line], words: dict[int, _Word], cuts: Cuts, move: Cuts) -> Counter[_Key]:
    """How many users each counter and link gains or loses by a move."""
    moved: Counter[_Key] = Counter()
    for member, anew in move.items():
        moved.subtract(_laid(lines[member], words[member], cuts[member]))
        moved.update(_laid(lines[member], words[member], anew))
    return moved


def _change(moved: Counter[_Key], users: Counter[_Key], price: Callable[[_Key], float]) -> float:
    """The change in cost made by a move; `users` are the users of all counters and links before it."""
    change = 0.0
    for key, by in moved.items():
        if (sign := (users[key] + by > 0) - (users[key] > 0)) != 0:
            change += sign * price(key)
    return change


def _numbered(lines: dict[int, Line]) -> tuple[dict[int, _Word], list[str | TypeSet]]:
    """Equal steps by equal numbers, since steps are compared often and are long; and the type of each."""
    number: dict[LineStep, int] = {}
    words = {
        member: tuple(number.setdefault(step, len(number)) for step in line.steps)
        for member, line in lines.items()
    }
    return words, [step.element.type for step in number]


def _moves(lines: dict[int, Line], words: dict[int, _Word], cuts: Cuts) -> Iterator[Cuts]:
    """For every sub-pattern shared by several lines: the cuts that chop all of them before it."""
    found: dict[_Word, list[tuple[int, int]]] = {}
    for member, word in words.items():
        for low in range(len(word) - 1):
            for high in range(low + 2, len(word) + 1):
                found.setdefault(word[low:high], []).append((member, low))
    seen: set[tuple[tuple[int, int], ...]] = set()
    for places in found.values():
        fresh = tuple(
            (member, low)
            for member, low in places
            if low and low not in cuts[member] and not lines[member].opening
        )
        if len({member for member, _ in places}) > 1 and fresh and fresh not in seen:
            seen.add(fresh)
            move: Cuts = {}
            for member, low in fresh:
                move[member] = tuple(sorted((*move.get(member, cuts[member]), low)))
            yield move


# ---------------------------------------------------------------- laying lines into trees


@dataclass(slots=True)
class _Growing:
    """A tree under construction."""

    opening: Barred
    steps: list[tuple[LineStep, int, int, int]] = field(default_factory=list)
    """Per node its step, parent, depth and first user."""
    users: list[list[int]] = field(default_factory=list)
    children: dict[tuple[int, LineStep], int] = field(default_factory=dict)

    def lay(self, steps: Iterable[LineStep], member: int) -> int:
        """The node at which a piece ends; nodes that are not there yet grow."""
        node = -1
        for depth, step in enumerate(steps):
            if (node, step) not in self.children:
                self.children[node, step] = len(self.steps)
                self.steps.append((step, node, depth, member))
                self.users.append([])
            node = self.children[node, step]
            if member not in self.users[node]:
                self.users[node].append(member)
        return node

    def grown(self) -> Tree:
        nodes = [PrefixNode(*made, tuple(users)) for made, users in zip(self.steps, self.users, strict=True)]
        return Tree(tuple(nodes), self.opening)


def _lay(windows: tuple[Window | None, ...], lines: dict[int, Line], cuts: Cuts) -> ExpiryFamily:
    """The trees, links and readings of lines that are chopped at `cuts`."""
    roots: dict[tuple[Barred, LineStep], int] = {}
    trees: list[_Growing] = []
    links: dict[Link, int] = {}
    readings = []
    for member, line in lines.items():
        link, end = -1, (-1, -1)
        for low, high in pairwise((0, *cuts[member], len(line.steps))):
            opening = line.opening if low == 0 else ()
            tree = roots.setdefault((opening, line.steps[low]), len(trees))
            if tree == len(trees):
                trees.append(_Growing(opening))
            if low:
                link = links.setdefault(Link(link, *end, tree), len(links))
            end = tree, trees[tree].lay(line.steps[low:high], member)
        readings.append(CounterReading(member, link, *end, cuts[member], line.positions))
    return ExpiryFamily(windows, tuple(tree.grown() for tree in trees), tuple(links), tuple(readings))


# ---------------------------------------------------------------- in words


def describe(plan: PrefixPlan, names: Sequence[str]) -> tuple[str, ...]:
    """The plan as lines of text: the trees of each family, with links and the queries read at each node."""
    kept, joined = ("stacks", "joints") if plan.is_built else ("prefix counters", "snapshots")
    found = [f"{plan.alone} {kept} alone, {plan.updates} {kept.split()[-1]} and {joined} shared"]
    if plan.is_guess:
        found.append(
            "cuts are by the paper's cost; a run cuts by measured costs, which know its START events"
        )
    for family in plan.families:
        told = (window_text(window) if window else "no window" for window in family.windows)
        found.append(f"{', '.join(told)}:")
        for number, tree in enumerate(family.trees):
            link = (
                "begins sequences that are joined with those of" if plan.is_built else "keeps a snapshot of"
            )
            found += [f"  {line}" for line in _describe_tree(family, number, tree, names, link)]
    return tuple(found)


def _describe_tree(
    family: ExpiryFamily, number: int, tree: Tree, names: Sequence[str], linked: str
) -> Iterator[str]:
    before = f" ({_barred_text(tree.opening)} before)" if tree.opening else ""
    yield f"tree {number + 1}{before}"
    for node in _in_depth(tree):
        made = tree.nodes[node]
        read = [names[r.member] for r in family.readings if (r.tree, r.node) == (number, node)]
        tail = f"  -> {', '.join(read)}" if read else ""
        yield f"{'  ' * (made.depth + 1)}{made.step}{tail}"
    for link in family.links:
        if link.into == number:
            source = " ".join(
                str(family.trees[tree].nodes[n].step.element)
                for tree, end in _chain(family, link)
                for n in family.trees[tree].path(end)
            )
            yield f"  each {tree.nodes[0].step.element} {linked}: {source}"


def _chain(family: ExpiryFamily, link: Link) -> tuple[tuple[int, int], ...]:
    return family.pieces(CounterReading(-1, link.before, link.tree, link.node, (), ()))


def _in_depth(tree: Tree) -> Iterator[int]:
    """Nodes in depth-first order."""
    children: dict[int, list[int]] = {}
    for number, node in enumerate(tree.nodes):
        children.setdefault(node.parent, []).append(number)
    waiting = [0]
    while waiting:
        here = waiting.pop()
        yield here
        waiting += reversed(children.get(here, []))
