"""Which queries of a workload can share what, and why others cannot.

Source: HAMLET (SIGMOD 2021), Definitions 3.1 and 3.2, and the panes of Section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import gcd

from trendfold.automaton.glushkov import Automaton
from trendfold.automaton.merge import Template, merge
from trendfold.plan import Group, QueryPlan, plan_auto, plan_cogra, plan_greta
from trendfold.plan.carried import aggregates
from trendfold.query.nodes import Aggregate, Function, Query, Semantics, WindowUnit


@dataclass(frozen=True, slots=True)
class Pair:
    """What two queries can share: the types E of common sub-patterns E+, or the reason why nothing."""

    first: int
    second: int
    types: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """The queries that can share E+, each with the position where E stands in it."""

    type: str
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Sharable:
    """Queries that are folded together; `members` are numbers in the workload, all else numbers in `members`.

    pane   microseconds: the greatest common divisor of all windows and slides; None without windows
    pairs  every two members, and what they share
    """

    members: tuple[int, ...]
    families: tuple[Family, ...]
    pairs: tuple[Pair, ...]
    template: Template
    pane: int | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A workload in groups; what is in none is in `alone`, with the reason."""

    groups: tuple[Sharable, ...]
    alone: Mapping[int, str]


def analyse(plans: Sequence[QueryPlan], key: Callable[[QueryPlan], Hashable | None]) -> Analysis:
    """Groups of queries connected by what they share; each planned as if it were alone, coarsely.

    `key` is equal for queries whose rows are split into the same streams; None where no other's could be.
    Queries that fit but share with nobody are still folded together: one pass reads the rows of all.
    """
    alone = {i: reason for i, plan in enumerate(plans) if (reason := misfit(plan))}
    alone |= {i: OWN_STREAMS for i, plan in enumerate(plans) if i not in alone and key(plan) is None}
    groups: list[Sharable] = []
    for own in _by_streams(plans, alone, key):
        connected = _connected(own, [(a, b) for a, b in combinations(own, 2) if _pair(plans, a, b).types])
        together = [members for members in connected if len(members) > 1]
        left = [members[0] for members in connected if len(members) == 1]
        together += [left] if len(left) > 1 else []
        groups += [_sharable(plans, tuple(members)) for members in together]
        if len(left) == 1:
            alone[left[0]] = _why_alone(plans, left[0])
    return Analysis(tuple(groups), alone)


OWN_STREAMS = "GROUP BY names a type that also stands elsewhere in the pattern"
OWN_ROWS = "no other query partitions and groups its rows alike"


# ---------------------------------------------------------------- one query


def misfit(plan: QueryPlan) -> str:
    """Why a query is folded with no other; empty if it can be."""
    if reason := unfit(plan):
        return reason
    machine = plan.operands[0].machine
    if machine.by_event:
        kept = ", ".join(sorted({_name(machine.automaton, place) for place in machine.by_event}))
        return f"bindings are kept one by one at {kept}"
    return ""


def unfit(plan: QueryPlan) -> str:
    """Why no strategy that shares expressions can fold a query with others, whatever grain it needs."""
    window = plan.query.window
    if plan.finds_matches:
        return "it asks for matches, not for aggregates"
    if len(plan.operands) > 1:
        return "AND combines operands that are judged alone"
    if plan.query.semantics is not Semantics.ANY:
        return f"under {plan.query.semantics} an event uses up what it continues"
    if window is not None and window.slide is None:
        return "its windows move with every event"
    if window is not None and window.unit is WindowUnit.EVENTS:
        return "its windows are counted in events"
    if plan.query.having is not None:
        return "HAVING is judged on true values, query by query"
    if plan.operands[0].machine.predicates.cross:
        return "a predicate compares events that need not be neighbours"
    return ""


def _name(automaton: Automaton, place: int) -> str:
    return automaton.positions[place].type if place >= 0 else "the ends of the pattern"


def kleene(plan: QueryPlan) -> dict[str, int]:
    """The sub-patterns E+ of a query that can be shared: their types, and the positions they stand at.

    The paper asks that Kleene plus stands on one type, once. What a burst of E needs is less: E can take one
    position, which may follow itself. So E+ may also stand inside other Kleene patterns and beside them.
    """
    automaton = plan.operands[0].machine.automaton
    places: dict[str, list[int]] = {}
    for position in automaton.positions:
        places.setdefault(position.type, []).append(position.index)
    return {
        type_: at[0] for type_, at in places.items() if len(at) == 1 and (at[0], at[0]) in automaton.edges
    }


def elements(plan: QueryPlan) -> dict[str, None]:
    """The aggregates of a query as HAMLET shares them: AVG is a SUM and a COUNT of events."""
    automaton = plan.operands[0].machine.automaton
    return dict.fromkeys(part for each in aggregates(plan.query) for part in _elements(each, automaton))


def _elements(aggregate: Aggregate, automaton: Automaton) -> list[str]:
    if aggregate.alias is None:
        return ["COUNT(*)"]
    name = " | ".join(sorted({automaton.positions[p].type for p in automaton.called(aggregate.alias)}))
    match aggregate.function:
        case Function.COUNT:
            return [f"COUNT({name})"]
        case Function.AVG:
            return [f"SUM({name}.{aggregate.attribute})", f"COUNT({name})"]
    return [f"{aggregate.function}({name}.{aggregate.attribute})"]


# ---------------------------------------------------------------- two queries


def _pair(plans: Sequence[QueryPlan], a: int, b: int) -> Pair:
    """Definition 3.2, for queries whose rows are partitioned and grouped alike.

    Windows that are counted from one origin overlap, whatever their lengths.
    """
    own, other = kleene(plans[a]), kleene(plans[b])
    types = tuple(name for name in own if name in other)
    if not types:
        return Pair(a, b, obstacle=_no_type(plans[a], plans[b]))
    wanted = elements(plans[b])
    common = tuple(name for name in elements(plans[a]) if name in wanted)
    if not common:
        return Pair(a, b, obstacle=f"no aggregate in common, although both have {_plus(types)}")
    return Pair(a, b, types, common)


def _plus(types: Iterable[str]) -> str:
    return ", ".join(f"{name}+" for name in types)


def _no_type(one: QueryPlan, other: QueryPlan) -> str:
    """Why two queries have no sub-pattern E+ in common."""
    both = [_loops(plan.operands[0].machine.automaton) for plan in (one, other)]
    for type_ in both[0]:
        if type_ in both[1]:
            return f"{type_} stands at several positions"
    return "no Kleene sub-pattern of one type in common"


def _loops(automaton: Automaton) -> dict[str, None]:
    """The types that may follow themselves at some position."""
    return dict.fromkeys(p.type for p in automaton.positive if (p.index, p.index) in automaton.edges)


def _why_alone(plans: Sequence[QueryPlan], number: int) -> str:
    """What is told of a query that fits, but with no other."""
    if not _loops(plans[number].operands[0].machine.automaton):
        return f"it has no Kleene sub-pattern, and {OWN_ROWS}"
    return OWN_ROWS


# ---------------------------------------------------------------- many queries


def _by_streams(
    plans: Sequence[QueryPlan], alone: Mapping[int, str], key: Callable[[QueryPlan], Hashable | None]
) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for i, plan in enumerate(plans):
        if i not in alone:
            found.setdefault(key(plan), []).append(i)
    return list(found.values())


def _connected(numbers: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Components of a graph, each in order."""
    component = {number: [number] for number in numbers}
    for a, b in edges:
        one, other = component[a], component[b]
        if one is not other:
            one += other
            component |= dict.fromkeys(other, one)
    return [sorted(one) for one in {id(one): one for one in component.values()}.values()]


def _sharable(plans: Sequence[QueryPlan], members: tuple[int, ...]) -> Sharable:
    own = [plans[i] for i in members]
    pairs = tuple(_pair(own, a, b) for a, b in combinations(range(len(own)), 2))
    machines = [plan.operands[0].machine for plan in own]
    return Sharable(
        members, _families(own, pairs), pairs, merge([m.automaton for m in machines]), pane_of(own)
    )


def _families(plans: Sequence[QueryPlan], pairs: Sequence[Pair]) -> tuple[Family, ...]:
    """Per type the queries that share it with some other; by their pairs they are connected."""
    sharers: dict[str, set[int]] = {}
    for pair in pairs:
        for type_ in pair.types:
            sharers.setdefault(type_, set()).update((pair.first, pair.second))
    return tuple(
        Family(type_, {m: kleene(plans[m])[type_] for m in sorted(members)})
        for type_, members in sharers.items()
    )


def pane_of(plans: Iterable[QueryPlan]) -> int | None:
    """The greatest common divisor of all windows and slides, in microseconds."""
    sizes = [size for plan in plans if (w := plan.query.window) for size in (w.length, w.slide or w.length)]
    return gcd(*sizes) if sizes else None


# ---------------------------------------------------------------- plans


def plan_shared(
    queries: Sequence[Query], strategy: str, key: Callable[[QueryPlan], Hashable | None]
) -> tuple[QueryPlan, ...]:
    """A group for queries that are folded together; GRETA's plan for each of the others."""
    plans = [plan_coarsely(query) for query in queries]
    analysis = analyse(plans, key)
    found = list(plans)
    for sharable in analysis.groups:
        members = tuple(replace(plans[i], strategy=strategy) for i in sharable.members)
        group = Group(strategy, strategy, members, sharable)
        for place, i in enumerate(sharable.members):
            found[i] = replace(members[place], group=group, number=place)
    for i, reason in analysis.alone.items():
        found[i] = replace(plan_alone(queries[i]), alone=reason)
    return tuple(found)


def plan_coarsely(query: Query) -> QueryPlan:
    """The coarsest plan; where events far apart are compared, that of building trends."""
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_cogra(query)


def plan_alone(query: Query) -> QueryPlan:
    """How a query is folded that shares with nobody: as the papers compare with, every binding kept."""
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_greta(query)
