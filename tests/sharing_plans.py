"""The best of all sharing plans, by looking at every one; shares nothing with the optimizer but its values.

    best(automata, plan, frequencies)   over the states and transitions of a plan
    cost(automata, plan, frequencies)   of one plan, by Equations 2 to 4 as in the published Table 3
    why_not(automata, plan)             the rules by which a plan can be carried out, or which one it breaks

Per transition every partition of its queries and every snapshot type is tried. A query by itself has no
snapshots of its own making, but may go on with those of a Q-set it was in. Of plans that are equal in all
that later transitions can see, the cheapest is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random

import trendfold as tf
from trendfold.automaton import END, START, Automaton
from trendfold.automaton import build as build_automaton
from trendfold.papers.gloria import Share, SharingPlan
from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.template import make_template

Edge = tuple[str, str]
Shares = tuple[Share, ...]
Decided = dict[Edge, Shares]


class Template:
    """What a plan says of positions, as sets."""

    def __init__(self, automata: Sequence[Automaton], positions: Sequence[Sequence[str]]) -> None:
        self.first: set[tuple[int, str]] = set()
        self.last: set[tuple[int, str]] = set()
        self.queries: dict[Edge, list[int]] = {}
        for k, (automaton, at) in enumerate(zip(automata, positions, strict=True)):
            for p, q in sorted(automaton.edges):
                if p == START:
                    self.first.add((k, at[q]))
                elif q == END:
                    self.last.add((k, at[p]))
                elif k not in self.queries.setdefault((at[p], at[q]), []):
                    self.queries[at[p], at[q]].append(k)


def events(state: str, frequencies: Mapping[str, float]) -> float:
    return frequencies[state.split(":")[0]]


def share_of(query: int, shares: Shares) -> Share | None:
    return next((share for share in shares if query in share.queries), None)


def coming(template: Template, decided: Decided, query: int, state: str) -> list[Share]:
    edges = [e for e, queries in template.queries.items() if e[1] == state and query in queries]
    return [share for e in edges if e in decided and (share := share_of(query, decided[e]))]


def carries(template: Template, decided: Decided, share: Share, state: str) -> bool:
    """Whether what comes to a state is what a Q-set would go on with."""
    for query in share.queries:
        came = coming(template, decided, query, state)
        if (query, state) in template.first or not came:
            return False
        if not all(c.snapshot == share.snapshot and set(share.queries) <= set(c.queries) for c in came):
            return False
    return True


def why_not(automata: Sequence[Automaton], plan: SharingPlan) -> str:
    template = Template(automata, plan.positions)
    decided = {(c.source, c.target): c.shares for c in plan.crossings}
    if decided.keys() != template.queries.keys():
        return "not every transition has a crossing"
    for edge, shares in decided.items():
        if sorted(q for share in shares for q in share.queries) != sorted(template.queries[edge]):
            return f"{edge}: no partition of its queries"
        for share in shares:
            if not share.snapshot and len(share.queries) > 1:
                return f"{edge}: {share} has no snapshots"
            if share.snapshot not in ("", edge[0]) and not carries(template, decided, share, edge[0]):
                return f"{edge}: {share} goes on with what it has not"
    return ""


# ---------------------------------------------------------------- costs


def cost(automata: Sequence[Automaton], plan: SharingPlan, frequencies: Mapping[str, float]) -> float:
    template = Template(automata, plan.positions)
    decided = {(c.source, c.target): c.shares for c in plan.crossings}
    total = sum(events(state, frequencies) for _, state in template.first)
    total += sum(crossing(edge, shares, frequencies) for edge, shares in decided.items())
    return total + sum(
        evaluated(template, decided, query, state, frequencies)
        for query, at in enumerate(plan.positions)
        for state in set(at)
    )


def crossing(edge: Edge, shares: Shares, frequencies: Mapping[str, float]) -> float:
    source, target = (events(state, frequencies) for state in edge)
    total = 0.0
    for share in shares:
        if not share.snapshot:
            total += source * target
        else:
            total += source * (1 if share.snapshot == edge[0] else events(share.snapshot, frequencies))
    return total


def evaluated(
    template: Template, decided: Decided, query: int, state: str, frequencies: Mapping[str, float]
) -> float:
    out = [e for e, queries in template.queries.items() if e[0] == state and query in queries]
    going = [share for e in out if (share := share_of(query, decided[e]))]
    if (query, state) not in template.last and all(s.snapshot not in ("", state) for s in going):
        return 0.0
    snapshots = {share.snapshot for share in coming(template, decided, query, state)} - {""}
    return sum(events(state, frequencies) * events(snapshot, frequencies) for snapshot in snapshots)


# ---------------------------------------------------------------- all plans


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    head, *tail = items
    for rest in partitions(tail):
        yield [[head], *rest]
        for i, block in enumerate(rest):
            yield [*rest[:i], [head, *block], *rest[i + 1 :]]


def all_shares(
    queries: Sequence[int], snapshots: Sequence[str], source: str, narrows: bool
) -> Iterator[Shares]:
    for blocks in partitions(queries):
        options = []
        for block in blocks:
            own = [source if len(block) > 1 else ""]
            found = dict.fromkeys([*own, *snapshots] if narrows or len(block) > 1 else own)
            options.append([Share(tuple(block), s) for s in found])
        for chosen in product(*options):
            yield tuple(sorted(chosen, key=lambda share: share.queries))


def units(states: Sequence[str], edges: Sequence[Edge]) -> list[tuple[str, ...]]:
    """The states in order, those on a common cycle together."""
    reach = {state: {q for p, q in edges if p == state} for state in states}
    for through in states:
        for state in states:
            if through in reach[state]:
                reach[state] |= reach[through]
    found = {s: tuple(t for t in states if t == s or (t in reach[s] and s in reach[t])) for s in states}
    return sorted(dict.fromkeys(found.values()), key=lambda own: -len(reach[own[0]].difference(own)))


def best(
    automata: Sequence[Automaton], plan: SharingPlan, frequencies: Mapping[str, float], narrows: bool = True
) -> float:
    """The least cost of all plans over the states of a plan.

    narrows  whether the last query of a Q-set may go on with its snapshots; the paper evaluates them
    """
    template = Template(automata, plan.positions)
    edges = list(template.queries)
    order = units(plan.states, edges)
    begin = sum(events(state, frequencies) for _, state in template.first)
    fronts: dict[frozenset[tuple[Edge, Shares]], float] = {frozenset(): begin}
    for i, own in enumerate(order):
        out = [e for e in edges if e[0] in own]
        later = {state for unit in order[i + 1 :] for state in unit}
        fresh: dict[frozenset[tuple[Edge, Shares]], float] = {}
        for front, so_far in fronts.items():
            for decided, more in decisions(template, own, out, dict(front), frequencies, narrows):
                if so_far + more > plan.alone:
                    continue
                key = frozenset((e, shares) for e, shares in decided.items() if e[1] in later)
                fresh[key] = min(fresh.get(key, plan.alone), so_far + more)
        fronts = fresh
    return min(fronts.values())


def decisions(
    template: Template,
    own: Sequence[str],
    out: Sequence[Edge],
    front: Decided,
    frequencies: Mapping[str, float],
    narrows: bool,
) -> Iterator[tuple[Decided, float]]:
    """Every way in which queries leave a unit, with what its events cost."""
    held = {share.snapshot for e, shares in front.items() if e[1] in own for share in shares} - {""}
    snapshots = sorted(held | (set(own) if any(e[1] in own for e in out) else set()))
    options = []
    for edge in out:
        shares = all_shares(template.queries[edge], snapshots, edge[0], narrows)
        if edge[1] not in own and not any(e[1] in own for e in out):  # no cycle: judged at once
            shares = (each for each in shares if fits(template, front, each, edge[0]))
        options.append(list(shares))
    at = {(q, state) for e in out for q in template.queries[e] for state in e if state in own}
    at |= {(q, state) for q, state in template.last if state in own}
    for chosen in product(*options):
        decided = front | dict(zip(out, chosen, strict=True))
        if all(fits(template, decided, shares, e[0]) for e, shares in zip(out, chosen, strict=True)):
            total = sum(crossing(e, shares, frequencies) for e, shares in zip(out, chosen, strict=True))
            total += sum(evaluated(template, decided, q, state, frequencies) for q, state in at)
            yield decided, total


def fits(template: Template, decided: Decided, shares: Shares, state: str) -> bool:
    return all(
        share.snapshot == ""
        or (share.snapshot == state and len(share.queries) > 1)
        or (share.snapshot != state and carries(template, decided, share, state))
        for share in shares
    )


# ---------------------------------------------------------------- workloads


def automata_of(patterns: Sequence[str]) -> list[Automaton]:
    texts = (f"QUERY n{k} RETURN COUNT(*) PATTERN {pattern}" for k, pattern in enumerate(patterns))
    return [build_automaton(query.pattern) for query in tf.parse("; ".join(texts))]


def weighed(automata: Sequence[Automaton], frequencies: Mapping[str, float]) -> Weights:
    return Weights(make_template(automata).types, frequencies)


def random_frequencies(automata: Sequence[Automaton], random: Random) -> dict[str, float]:
    types = sorted({position.type for automaton in automata for position in automaton.positions})
    return {type_: random.choice([1, 2, 3, 5, 8, 13, 20, 40]) for type_ in types}


def random_sequences(random: Random, most: int = 5) -> list[str]:
    """Sequences that overlap, mostly in one order of types."""
    return [sequence(random_types(random, random.randint(2, 5))) for _ in range(random.randint(2, most))]


def random_kleene(random: Random) -> list[str]:
    """Queries that begin with one Kleene sub-pattern, and go on apart or together."""
    kleene, most = random.choice([("X+", 4), ("SEQ(X, Y)+", 3), ("SEQ(X+, Y)+", 2)])
    return [
        sequence([kleene, *random_types(random, random.randint(0, 2))])
        for _ in range(random.randint(2, most))
    ]


def random_types(random: Random, count: int) -> list[str]:
    types = random.sample("ABCDEF", count)
    return sorted(types) if random.random() < 0.7 else types


def sequence(parts: Sequence[str]) -> str:
    return f"SEQ({', '.join(parts)})" if len(parts) > 1 else parts[0]


def backbone(queries: int, types: int, seed: int, families: int = 1) -> list[str]:
    """Sequences of types in one order: many overlap, few are equal, and families share nothing."""
    random = Random(seed)
    found = []
    for k in range(queries):
        length = random.randint(4, min(10, types))
        start = random.randint(0, types - length)
        name = f"F{k % families}T" if families > 1 else "T"
        found.append(sequence([f"{name}{number:02d}" for number in range(start, start + length)]))
    return found
