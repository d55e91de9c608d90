"""Decide which queries of a workload can share which sub-patterns, and why others cannot.

Source: HAMLET (SIGMOD 2021), Definitions 3.1 and 3.2, and the panes of Section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import gcd

from trendfold.automaton.glushkov import Automaton
from trendfold.automaton.merge import Template, merge
from trendfold.plan import Group, QueryPlan
from trendfold.plan.carried import aggregates
from trendfold.plan.company import OWN_ROWS, OWN_STREAMS, plan_coarsely, unfit
from trendfold.plan.statistics import GroupStatistics
from trendfold.plan.workload import rows_key
from trendfold.query.nodes import Aggregate, Function, Query


@dataclass(frozen=True, slots=True)
class Pair:
    """What two queries can share: the types E of common sub-patterns E+, or why they cannot share."""

    first: int
    second: int
    types: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class BurstFamily:
    """The queries that can share E+, each with the positions where E stands in it.

    is_compared  whether predicates compare events of E with the next; then the group shares nothing else
    """

    type: str
    positions: Mapping[int, tuple[int, ...]]
    is_compared: bool = False


@dataclass(frozen=True, slots=True)
class Sharable:
    """Queries that are folded together; `members` are workload numbers, everything else indexes `members`.

    pane   microseconds: the greatest common divisor of all windows and slides; None without windows
    pairs  what each pair of members shares
    """

    members: tuple[int, ...]
    families: tuple[BurstFamily, ...]
    pairs: tuple[Pair, ...]
    template: Template
    pane: int | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """A workload split into groups; queries in none are in `alone`, with the reason."""

    groups: tuple[Sharable, ...]
    alone: Mapping[int, str]


def analyse(plans: Sequence[QueryPlan], key: Callable[[QueryPlan], Hashable | None]) -> Analysis:
    """Group queries that are connected by sharing; `plans` are the coarse plans of each query alone.

    `key` is equal for queries whose rows are split into the same streams; None if a query cannot be grouped.
    Queries that fit but share nothing are still folded together: one pass reads the rows of all.
    """
    alone = {i: reason for i, plan in enumerate(plans) if (reason := misfit(plan))}
    alone |= {i: OWN_STREAMS for i, plan in enumerate(plans) if i not in alone and key(plan) is None}
    groups: list[Sharable] = []
    for own in _by_streams(plans, alone, key):
        compared = _compared(plans, own)
        groups += [_sharable(plans, members, type_) for type_, members in compared]
        own = [i for i in own if not any(i in members for _, members in compared)]
        for i in own:
            if compared_type(plans[i]):
                alone[i] = _one_by_one(plans[i])
        own = [i for i in own if i not in alone]
        connected = _connected(own, [(a, b) for a, b in combinations(own, 2) if _pair(plans, a, b).types])
        together = [members for members in connected if len(members) > 1]
        left = [members[0] for members in connected if len(members) == 1]
        together += [left] if len(left) > 1 else []
        groups += [_sharable(plans, members) for members in together]
        if len(left) == 1:
            alone[left[0]] = _why_alone(plans, left[0])
    return Analysis(tuple(groups), alone)


# ---------------------------------------------------------------- one query


def misfit(plan: QueryPlan) -> str:
    """Why a query cannot be folded with others; empty if it can."""
    if reason := unfit(plan):
        return reason
    return _one_by_one(plan) if plan.operands[0].machine.by_event and not compared_type(plan) else ""


def _one_by_one(plan: QueryPlan) -> str:
    machine = plan.operands[0].machine
    kept = ", ".join(sorted({_name(machine.automaton, place) for place in machine.by_event}))
    return f"bindings are kept one by one at {kept}"


def compared_type(plan: QueryPlan) -> str:
    """The type E if all adjacency predicates compare an event of E with the next event of E; else empty."""
    machine = plan.operands[0].machine
    automaton, between = machine.automaton, machine.predicates.between
    edges = [*automaton.edges, *(edge for guard in automaton.guards for edge in guard.edges)]
    compared = {edge for edge in edges if between(*edge)}
    for type_, (place, *more) in kleene(plan).items():
        if (
            not more
            and compared == {(place, place)}
            and machine.by_event == {place}
            and machine.crossed(place, place) is None
        ):
            return type_
    return ""


def _name(automaton: Automaton, place: int) -> str:
    return automaton.positions[place].label if place >= 0 else "the ends of the pattern"


def kleene(plan: QueryPlan) -> dict[str, tuple[int, ...]]:
    """The sharable sub-patterns E+ of a query: their types and positions.

    The paper requires a single Kleene plus on one type. A burst of E needs less: each position of E may
    follow itself, and no other of E. So E+ may also be inside or next to other Kleene patterns, and stand
    several times in a pattern: inside a burst, each position is a Kleene plus of its own.
    """
    automaton = plan.operands[0].machine.automaton
    places: dict[str, list[int]] = {}
    for position in automaton.positions:
        places.setdefault(position.label, []).append(position.index)
    return {type_: tuple(at) for type_, at in places.items() if _are_loops(at, automaton)}


def _are_loops(places: Sequence[int], automaton: Automaton) -> bool:
    """Whether each of these positions may follow itself, and no other of them; none is negated."""
    positive = {position.index for position in automaton.positive}
    return positive.issuperset(places) and all(
        ((p, q) in automaton.edges) == (p == q) for p in places for q in places
    )


def elements(plan: QueryPlan) -> dict[str, None]:
    """A query's aggregates as HAMLET shares them: AVG is a SUM and a COUNT of events."""
    automaton = plan.operands[0].machine.automaton
    return dict.fromkeys(part for each in aggregates(plan.query) for part in _elements(each, automaton))


def _elements(aggregate: Aggregate, automaton: Automaton) -> list[str]:
    if aggregate.alias is None:
        return ["COUNT(*)"]
    name = " | ".join(sorted({automaton.positions[p].label for p in automaton.called(aggregate.alias)}))
    match aggregate.function:
        case Function.COUNT:
            return [f"COUNT({name})"]
        case Function.AVG:
            return [f"SUM({name}.{aggregate.attribute})", f"COUNT({name})"]
    return [f"{aggregate.function}({name}.{aggregate.attribute})"]


# ---------------------------------------------------------------- two queries


def _pair(plans: Sequence[QueryPlan], a: int, b: int) -> Pair:
    """Definition 3.2, for queries whose rows are partitioned and grouped alike.

    Windows aligned to the same origin overlap, whatever their lengths.
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
    """Why two queries have no common sub-pattern E+."""
    both = [_loops(plan.operands[0].machine.automaton) for plan in (one, other)]
    for type_ in both[0]:
        if type_ in both[1]:
            return f"{type_} stands at several positions that do not all loop on their own"
    return "no Kleene sub-pattern of one type in common"


def _loops(automaton: Automaton) -> dict[str, None]:
    """The types that can follow themselves at some position."""
    return dict.fromkeys(p.label for p in automaton.positive if (p.index, p.index) in automaton.edges)


def _why_alone(plans: Sequence[QueryPlan], number: int) -> str:
    """Why a query that fits shares with no other."""
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


def _compared(plans: Sequence[QueryPlan], own: Sequence[int]) -> list[tuple[str, list[int]]]:
    """For each type E, the queries that share E+ although predicates compare its events (Definition 3.11).

    Queries without such predicates are included if they have E+ once and can share it with no other query
    without them.
    """
    by_type: dict[str, list[int]] = {}
    for i in own:
        if type_ := compared_type(plans[i]):
            by_type.setdefault(type_, []).append(i)
    plain = [i for i in own if not compared_type(plans[i])]
    single = [i for i in plain if not any(_pair(plans, i, j).types for j in plain if j != i)]
    found = []
    for type_, some in by_type.items():
        all_ = sorted([*some, *(i for i in single if len(kleene(plans[i]).get(type_, ())) == 1)])
        edges = [(a, b) for a, b in combinations(all_, 2) if type_ in _pair(plans, a, b).types]
        for members in _connected(all_, edges):
            if len(members) > 1:
                found.append((type_, members))
                single = [i for i in single if i not in members]
    return found


def _connected(numbers: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components of a graph, each sorted."""
    component = {number: [number] for number in numbers}
    for a, b in edges:
        one, other = component[a], component[b]
        if one is not other:
            one += other
            component |= dict.fromkeys(other, one)
    return [sorted(one) for one in {id(one): one for one in component.values()}.values()]


def _sharable(plans: Sequence[QueryPlan], members: Sequence[int], compared: str = "") -> Sharable:
    """A group; if `compared` names a type, only that type is shared."""
    own = [plans[i] for i in members]
    pairs = tuple(_pair(own, a, b) for a, b in combinations(range(len(own)), 2))
    families = _families(own, pairs)
    if compared:
        pairs = tuple(replace(pair, types=(compared,)) if pair.types else pair for pair in pairs)
        families = (BurstFamily(compared, {k: kleene(plan)[compared] for k, plan in enumerate(own)}, True),)
    template = merge([plan.operands[0].machine.automaton for plan in own])
    return Sharable(tuple(members), families, pairs, template, pane_of(own))


def _families(plans: Sequence[QueryPlan], pairs: Sequence[Pair]) -> tuple[BurstFamily, ...]:
    """Per type the queries that share it with some other; by their pairs they are connected."""
    sharers: dict[str, set[int]] = {}
    for pair in pairs:
        for type_ in pair.types:
            sharers.setdefault(type_, set()).update((pair.first, pair.second))
    return tuple(
        BurstFamily(type_, {m: kleene(plans[m])[type_] for m in sorted(members)})
        for type_, members in sharers.items()
    )


def pane_of(plans: Iterable[QueryPlan]) -> int | None:
    """The greatest common divisor of all window lengths and slides, in microseconds."""
    sizes = [size for plan in plans if (w := plan.query.window) for size in (w.length, w.slide or w.length)]
    return gcd(*sizes) if sizes else None


# ---------------------------------------------------------------- plans


def plan_shared(
    queries: Sequence[Query], strategy: str, key: Callable[[QueryPlan], Hashable | None]
) -> tuple[QueryPlan, ...]:
    """Plan queries: a group for those folded together, COGRA's plan for each of the others."""
    plans = [plan_coarsely(query) for query in queries]
    analysis = analyse(plans, key)
    found = list(plans)
    for sharable in analysis.groups:
        members = tuple(replace(plans[i], strategy=strategy) for i in sharable.members)
        group = Group(strategy, strategy, members, sharable)
        for place, i in enumerate(sharable.members):
            found[i] = replace(members[place], group=group, number=place)
    for i, reason in analysis.alone.items():
        found[i] = replace(plans[i], alone=reason)
    return tuple(found)


def plan_hamlet(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """Queries with a common sub-pattern E+ share bursts of E if the benefit model says so."""
    return plan_shared(queries, "hamlet", rows_key)


def plan_hamlet_static(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The same, but every burst is shared by all queries that can."""
    return plan_shared(queries, "hamlet-static", rows_key)


def fitted(group: Group, known: GroupStatistics) -> Sharable:
    """The plan of a group; it does not depend on the rows."""
    planned: Sharable = group.details
    return planned


PLANNERS = {"hamlet": plan_hamlet, "hamlet-static": plan_hamlet_static}
