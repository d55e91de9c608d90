"""Plans as JSON values: machine, grains, accesses, state and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeVar

from trendfold.automaton.glushkov import END, START, Automaton, build
from trendfold.automaton.machine import Machine
from trendfold.automaton.merge import merge
from trendfold.automaton.predicates import Local, Pairwise
from trendfold.events.schema import Kind
from trendfold.explain.match_plan import Traced, traced
from trendfold.explain.sharing import OWN_LANE, describe_sharing, tell_lanes
from trendfold.papers.aseq.prefixes import PrefixPlan
from trendfold.papers.aseq.prefixes import describe as tell
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Measure, Number, aggregates, extreme_of, numbers_of, positions_of
from trendfold.plan.fold_steps import PhysicalPlan, way_name
from trendfold.plan.logical import LANES, SHARED_TREES
from trendfold.plan.neighbour import BOUNDS, Structure
from trendfold.plan.physical import has_guards, may_be_lane
from trendfold.plan.spread import Mode, aggregates_of, matching_attributes, mode_of, segment_attributes
from trendfold.plan.stream_choices import has_moving_windows, why_raw
from trendfold.query import to_text as query_text
from trendfold.query.names import PredicateKind, children, joined_nots, kind, named, walk
from trendfold.query.nodes import (
    Attribute,
    Both,
    Compare,
    Expression,
    GroupKey,
    Not,
    Pattern,
    Query,
    Repeat,
    Semantics,
    Seq,
    WindowUnit,
)
from trendfold.query.partitions import partition_attributes
from trendfold.query.printer import expression_text, pattern_text

Value = dict[str, Any]
"""A JSON object. A place is a position's number, or one of the signs ⊥ and ⊤."""

T = TypeVar("T")

NUMBER_BYTES, EXTREME_BYTES = 12, 8
"""A number is a mantissa of 8 bytes and an exponent of 4."""
BINDING_BYTES = 12
"""A binding kept by itself also stores its row, its moment, and when it was continued."""
NEGATED_BYTES = 8
"""A binding inside a NOT stores its row, and when the NOT's trend began."""

CONSTRUCT = "construct"
STRATEGIES = {
    "auto": "every place keeps the coarsest correct grain; bindings are found by value",
    "cogra": "every place keeps the coarsest correct grain",
    "greta": "every binding is kept and scanned",
    "hamlet": "a graphlet folds each burst of E once for all queries with E+, where that pays",
    "hamlet-static": "a graphlet folds each burst of E once for all queries with E+",
    "aseq": "queries share the counters of prefixes and sub-patterns that they have in common",
    "ecube": "builds every sequence, those that queries have in common once, up to limits.trends",
    "gloria": "queries share transitions through snapshots, along the cheapest path of a graph",
    "gloria-greedy": "GLORIA with a greedy choice, transition by transition",
    "gloria-noprune": "GLORIA without pruning the graph",
    CONSTRUCT: "builds every trend, up to limits.trends, then aggregates",
}
FINDING = {
    "mcep": "joins events to partial matches in a chosen order; patterns share what they have in common",
    "spass": "joins runs of events that patterns have in common once, in the order written",
    "motto": "joins any events that patterns have in common once, in the order written",
    CONSTRUCT: "builds every trend one by one, up to limits.trends",
}
SEMANTICS = {
    Semantics.ANY: "any later candidate may follow, whatever lies between",
    Semantics.NEXT: "only the earliest candidates may follow",
    Semantics.CONTIGUOUS: "no event may lie between neighbours",
}


@dataclass(frozen=True, slots=True)
class Unplanned:
    """A query that a strategy does not support, and why."""

    query: Query
    strategy: str
    reason: str


Explained = QueryPlan | Traced | Unplanned
"""What can be explained."""


def to_json(plans: Iterable[Explained], ran: PhysicalPlan | None = None) -> Value:
    """All plans of a workload as one JSON value; with `ran`, including the steps of each query."""
    plans = list(plans)
    queries = [describe(each) | _steps(each.query.name, ran) for each in plans]
    template = _template([each for each in plans if isinstance(each, QueryPlan) and not each.finds_matches])
    return {"queries": queries} | ({"template": template} if template else {})


def _template(plans: Sequence[QueryPlan]) -> Value:
    """The automata of all queries merged, and which queries may be folded together; empty for one query."""
    if len(plans) < 2:
        return {}
    parts = [(plan.query.name, operand.machine.automaton) for plan in plans for operand in plan.operands]
    merged = merge([automaton for _, automaton in parts])
    groups: dict[str, list[QueryPlan]] = {}
    for plan in plans:
        groups.setdefault(plan.group.key if plan.group else plan.query.name, []).append(plan)
    return {
        "queries": [plan.query.name for plan in plans],
        "types": list(merged.types),
        "transitions": [
            {
                "from": t.source,
                "to": t.target,
                "queries": list(dict.fromkeys(parts[k][0] for k in sorted(t.queries))),
            }
            for t in merged.transitions
        ],
        "together": [
            {"queries": [plan.query.name for plan in group], "how": _how_together(group[0])}
            for group in groups.values()
        ],
    }


def _how_together(plan: QueryPlan) -> str:
    if plan.group is None:
        return f"by itself: {plan.alone}" if plan.alone else "by itself"
    return (
        _together(plan)[0]
        if plan.group.method in (LANES, SHARED_TREES)
        else f"planned together by {plan.strategy}"
    )


def _steps(query: str, ran: PhysicalPlan | None) -> Value:
    """The steps that fold one query: ways, reasons, resources, and the queries folded with it."""
    if ran is None:
        return {}
    return {
        "steps": [
            {
                "way": way_name(step.way),
                "why": step.way.why,
                "with": [name for name in step.queries if name != query],
                "rows": step.rows,
                "seconds": step.seconds,
                "bytes": step.bytes,
                "tasks": step.tasks,
                "counts": dict(step.counts),
            }
            for step in ran.of(query)
        ]
    }


def describe(plan: Explained) -> Value:
    """One plan as a JSON value."""
    query = plan.query
    head = {"query": query.name, "text": query_text(query)}
    if isinstance(plan, Unplanned):
        return head | {"strategy": plan.strategy, "reason": plan.reason}
    if isinstance(plan, QueryPlan) and plan.finds_matches:
        plan = traced([plan])[query.name]
    if isinstance(plan, Traced):
        matches = {"matches": plan.matches, "window": _window(query), "operands": []}
        return head | _asked(plan.plan) | {"spark": _matches_on_spark(plan.plan)} | matches
    return (
        head
        | _asked(plan)
        | {
            "window": _window(query) | _shared(plan),
            "spark": _spark(plan),
            "stream": _stream(plan),
            "sharing": describe_sharing(plan),
            "together": _together(plan),
            "operands": [
                _operand(operand, pattern, plan)
                for operand, pattern in zip(plan.operands, _patterns(query), strict=True)
            ],
        }
    )


def _asked(plan: QueryPlan) -> Value:
    """The entries that every plan has."""
    query = plan.query
    return {
        "strategy": plan.strategy,
        "strategy_means": (FINDING if plan.finds_matches else STRATEGIES).get(plan.strategy, ""),
        "strategy_why": "" if plan.finds_matches else _built_because(plan),
        "semantics": str(query.semantics),
        "semantics_means": SEMANTICS[query.semantics],
        "partition": {"attributes": list(plan.partition), "from": _partition_conjuncts(query)},
        "group_by": [_group_key(key, plan) for key in query.group_by],
    }


def _spark(plan: QueryPlan) -> Value:
    """How Spark may distribute the query's work; the route is chosen once the data is known."""
    mode, why = mode_of(plan, None)
    keys = segment_attributes(plan) if mode is not Mode.COMPLETE else (k.attribute for k in plan.plain_keys)
    routes = ["stretches", "by partition", "split in time"] if mode is Mode.LINEAR else ["by partition"]
    return {"mode": str(mode), "why": why, "routes": routes, "shuffle_by": sorted(keys)}


def _stream(plan: QueryPlan) -> Value:
    """What the state of a stream holds for the query; empty if it cannot run on a stream."""
    window = plan.query.window
    if window is None or window.unit is WindowUnit.EVENTS:
        return {}
    why = why_raw(plan, None)
    if why:
        return {"state": "raw events", "why": f"kept until their windows end: {why}"}
    names = sorted({each.attribute for each in aggregates_of(plan) if each.attribute is not None})
    if raw := why_raw(plan, dict.fromkeys(names, Kind.INTEGER)):
        folded = _folded(plan)
        return folded | {"why": f"{folded['why']}; with integers raw events: {raw}"}
    return _folded(plan)


def _folded(plan: QueryPlan) -> Value:
    """The state of a query whose events are not kept until its windows end."""
    if has_moving_windows(plan):
        why = "kept as long as a window: stretches of them are folded once, and windows multiply these"
        return {"state": "raw events and matrices", "why": why}
    if plan.compares_neighbours:
        why = "events are folded once they are final; bindings that compare alike are one"
        return {"state": "vectors and bindings", "why": why}
    return {"state": "vectors", "why": "events are folded once they are final"}


def _matches_on_spark(plan: QueryPlan) -> Value:
    """How Spark may distribute the search for a query's matches."""
    keys, window = matching_attributes(plan), plan.query.window
    is_cut = window is not None and window.unit is not WindowUnit.EVENTS
    route = "by partition" if keys else "overlapping in time" if is_cut else "in one task"
    return {"routes": [route], "shuffle_by": sorted(keys)}


def _together(plan: QueryPlan) -> list[str]:
    """What a query's group shares; A-Seq's sharing is described with the group's first member."""
    group = plan.group
    if group is not None and group.method in (LANES, SHARED_TREES):
        return tell_lanes(plan, group)
    if group is None and has_guards(plan) and may_be_lane(plan, is_exact=False):
        return [OWN_LANE]
    if group is None or not isinstance(group.details, PrefixPlan):
        return []
    names = [member.query.name for member in group.members]
    return list(tell(group.details, names)) if plan.number == 0 else [f"shared as described for {names[0]}"]


def _built_because(plan: QueryPlan) -> str:
    """The reason that trends must be built; empty if building them is only the requested strategy."""
    if any(operand.machine.predicates.judges_first_and_last for operand in plan.operands):
        return "whether the NOT at an end breaks a trend depends on both ends of the trend"
    has_cross = any(operand.machine.predicates.cross for operand in plan.operands)
    return "a cross predicate compares events that need not be neighbours" if has_cross else ""


def _patterns(query: Query) -> tuple[Pattern, ...]:
    return query.pattern.parts if isinstance(query.pattern, Both) else (query.pattern,)


def _partition_conjuncts(query: Query) -> list[str]:
    """The parts of WHERE that partition the events."""
    written = [f"[{', '.join(query.equivalence)}]"] if query.equivalence else []
    return written + [expression_text(c) for c in query.where if _is_partition(c, query)]


def _is_partition(conjunct: Expression, query: Query) -> bool:
    """Whether a conjunct is one of the equalities `A.u = B.u` that together amount to `[u]`."""
    match conjunct:
        case Compare("=", Attribute(_, u, False), Attribute(_, v, False)) if u == v:
            return u in partition_attributes(replace(query, equivalence=()))
    return False


def _group_key(key: GroupKey, plan: QueryPlan) -> Value:
    if key.alias is None:
        return {
            "key": key.attribute,
            "kind": "plain",
            "own_types": [],
            "copied_types": [],
            "copies_other_types": False,
        }
    is_contiguous = plan.query.semantics is Semantics.CONTIGUOUS
    inside: set[str] = set()
    outside: set[str] = set()
    for operand in plan.operands:
        for position in operand.machine.automaton.positions:
            side = inside if position.is_called(key.alias) else outside
            side.update(["ANY"] if position.types.names is None else position.types.names)
    return {
        "key": f"{key.alias}.{key.attribute}",
        "kind": "qualified",
        "own_types": [] if "ANY" in outside else sorted(inside - outside),
        "copied_types": sorted(outside),
        "copies_other_types": is_contiguous,
    }


def _window(query: Query) -> Value:
    """The window's kind and sizes; sizes are in `unit`."""
    window = query.window
    if query.bound is not None:
        period = None if window is None else window.length
        unit = str(WindowUnit.MICROSECONDS)
        return {"kind": "per-trend", "unit": unit, "length": query.bound.length, "slide": period}
    if window is None:
        return {"kind": "none"}
    sizes: Value = {"unit": str(window.unit), "length": window.length, "slide": window.slide}
    if window.slide is None:
        return {"kind": "per-event"} | sizes
    is_count = window.unit is WindowUnit.EVENTS
    pane = gcd(window.length, window.slide)
    return {
        "kind": "count" if is_count else "tumbling" if window.length == window.slide else "sliding",
        **sizes,
        "pane": pane,
        "panes_per_window": window.length // pane,
        "windows_per_event": [window.length // window.slide, -(-window.length // window.slide)],
    }


def _shared(plan: QueryPlan) -> Value:
    """What overlapping windows share, in any operand; empty if they do not overlap."""
    ways = dict.fromkeys(plan.sharing(operand) for operand in plan.operands)
    found = [str(way) for way in ways if way is not None]
    if found and plan.group is not None and plan.group.method in (LANES, SHARED_TREES):
        found = ["together"]
    return {"folded": found} if found else {}


# ---------------------------------------------------------------- the value: one operand


def _operand(operand: OperandPlan, pattern: Pattern, plan: QueryPlan) -> Value:
    operand = _as_kept(operand, plan)
    is_built = plan.strategy == CONSTRUCT
    has_own = is_built or plan.strategy in ("aseq", "ecube")  # its state is not that of the machine's places
    return {
        "pattern": pattern_text(pattern),
        "positions": _positions(operand.machine.automaton),
        "edges": _edges(operand.machine, plan.query),
        "predicates": _predicates(operand.machine, plan.query),
        "accesses": [] if is_built else _accesses(operand, plan.query),
        "guards": _guards(operand, pattern, is_built),
        "grains": [] if has_own else _grains(operand),
        "carried": _carried(operand, plan.query),
        "state": None if has_own else _state(operand, plan),
        "cost": [] if has_own else _costs(operand),
    }


def _as_kept(operand: OperandPlan, plan: QueryPlan) -> OperandPlan:
    """The operand with queues, where bindings are kept in queues."""
    if not plan.has_queues(operand):
        return operand
    why = "only times are compared: bindings expire in order"
    queues = tuple(replace(each, structure=Structure.QUEUE, why=why) for each in operand.accesses)
    return replace(operand, accesses=queues)


def _place(place: int) -> int | str:
    return {START: "⊥", END: "⊤"}.get(place, place)


def _place_order(place: int) -> tuple[bool, int]:
    """⊥ first, ⊤ last."""
    return place == END, place


def _in_order(places: Iterable[int]) -> list[int]:
    return sorted(places, key=_place_order)


def _positions(automaton: Automaton) -> list[Value]:
    """All positions; for a negated position, `first` and `last` refer to its NOT."""
    guard_at = {p: g for g, guard in enumerate(automaton.guards) for p in guard.positions}
    first = automaton.first.union(*(guard.first for guard in automaton.guards))
    last = automaton.last.union(*(guard.last for guard in automaton.guards))
    return [
        {
            "index": p.index,
            "type": p.label,
            "alias": p.alias,
            "negated": p.index in guard_at,
            "guard": guard_at.get(p.index),
            "first": p.index in first,
            "last": p.index in last,
        }
        for p in automaton.positions
    ]


def _edges(machine: Machine, query: Query) -> list[Value]:
    texts = _texts(machine.predicates.adjacency)
    return [
        {
            "from": _place(p),
            "to": _place(q),
            "guard": machine.automaton.guard_of.get((p, q)),
            "predicates": [texts[i] for i in machine.predicates.between(p, q)],
        }
        for p, q in sorted(machine.automaton.edges, key=lambda e: (_place_order(e[0]), _place_order(e[1])))
    ]


def _local(machine: Machine, query: Query) -> list[tuple[str, Local]]:
    """The operand's local predicates, each with the text of its conjunct."""
    called = machine.automaton.called
    texts = [
        expression_text(conjunct)
        for conjunct in query.where
        if kind(conjunct) is PredicateKind.LOCAL and all(called(name) for name, _ in named(conjunct))
    ]
    return list(zip(texts, machine.predicates.local, strict=True))


def _texts(pairs: Iterable[Pairwise]) -> list[str]:
    """Predicates on two bindings as they are written, or a text that says what they mean."""
    return [pair.text if pair.written is None else expression_text(pair.written) for pair in pairs]


def _predicates(machine: Machine, query: Query) -> Value:
    """Predicates by kind; for an adjacency predicate, the edges it applies to, also inside a NOT.

    One that is written without NEXT compares bindings that are always neighbours.
    """
    found = machine.predicates
    inner = [edge for guard in machine.automaton.guards for edge in guard.edges]
    edges = sorted([*machine.automaton.edges, *inner])
    return {
        "local": [{"text": text, "positions": sorted(p.positions)} for text, p in _local(machine, query)],
        "adjacency": [
            {
                "text": text,
                "edges": [[_place(p), _place(q)] for p, q in edges if p in pair.left and q in pair.right],
                "always": pair.written is not None and kind(pair.written) is PredicateKind.CROSS,
            }
            for text, pair in zip(_texts(found.adjacency), found.adjacency, strict=True)
        ],
        "cross": [
            {"text": text, "left": sorted(pair.left), "right": sorted(pair.right)}
            for text, pair in zip(_texts(found.cross), found.cross, strict=True)
        ],
        "idle": [{"text": text} for text in _texts(found.idle)],
        **({"beside_not": _beside_not(machine)} if found.breaking else {}),
    }


def _beside_not(machine: Machine) -> list[Value]:
    """Conditions between an event of a NOT and its neighbours."""
    return [
        {"text": expression_text(b.written), "negated": sorted(b.negated), "beside": sorted(b.beside)}
        for b in machine.predicates.breaking
    ]


def _accesses(operand: OperandPlan, query: Query) -> list[Value]:
    """How bindings kept one by one are found: the structure per place and predicates, and its bound."""
    texts = _texts(operand.machine.predicates.adjacency)
    return [
        {
            "place": access.place,
            "predicates": [texts[i] for i in access.predicates],
            "guard": access.guard,
            "structure": str(access.structure),
            "bound": access.bound,
            "why": access.why,
        }
        for access in operand.accesses
    ]


def _guards(operand: OperandPlan, pattern: Pattern, is_built: bool) -> list[Value]:
    bodies = _negated(pattern)
    automaton = operand.machine.automaton
    written = build(pattern) if operand.machine.predicates.breaking else automaton
    return [
        {
            "pattern": pattern_text(bodies[g]),
            "positions": list(guard.positions),
            "where": _where(written, g),
            "judged": _judged(operand, g, is_built),
        }
        for g, guard in enumerate(automaton.guards)
    ]


def _negated(pattern: Pattern) -> list[Pattern]:
    """The negated sub-patterns, in the order of the automaton's guards."""
    found = []
    stack = [pattern]
    while stack:
        match stack.pop():
            case Not(body):
                found.append(body)
            case Seq(parts):
                stack.extend(reversed(joined_nots(parts)))
            case Repeat() as repeat if any(isinstance(part, Not) for part in walk(repeat)):
                stack.extend([repeat.body] * (repeat.high or repeat.low))
            case node:
                stack.extend(reversed(children(node)))
    return found


def _where(automaton: Automaton, guard: int) -> str:
    crossing = [edge for edge, g in automaton.guard_of.items() if g == guard]
    if any(p == START for p, _ in crossing):
        return "start"
    return "end" if any(q == END for _, q in crossing) else "middle"


def _judged(operand: OperandPlan, guard: int, is_built: bool) -> list[Value]:
    """How a NOT is evaluated, and at which places its mass is pending: one entry per reason."""
    machine = operand.machine
    places = _in_order(machine.exits(guard))
    if machine.is_bounded and guard in machine.end_guards:
        why = "decides, by its latest start, at which moments a trend may end that begins at an event"
        return [{"how": "by span", "classes": None, "places": [], "why": why}]
    if is_built:
        return [{"how": "trend by trend", "classes": None, "places": [], "why": "every trend is built"}]
    if not places and not machine.automaton.guards[guard].first:
        why = "its conditions with a neighbour make it one between both, over the moments of its events"
        return [{"how": "by moments", "classes": None, "places": [], "why": why}]
    if not places:
        why = f"nothing lies between neighbours under {machine.semantics}"
        return [{"how": "never", "classes": None, "places": [], "why": why}]
    found: dict[str, Value] = {}
    for choice in operand.grains:
        if choice.place in places:
            is_kept = choice.place in machine.by_event
            split = None if is_kept else machine.guard_classes[guard]
            how = "by binding time" if split is None else "by class"
            entry: Value = {
                "how": how,
                "classes": split and split.broken + 1,
                "places": [],
                "why": choice.why,
            }
            found.setdefault(choice.why, entry)["places"].append(_place(choice.place))
    return list(found.values())


def _grains(operand: OperandPlan) -> list[Value]:
    return [{"place": _place(c.place), "grain": str(c.grain), "why": c.why} for c in operand.grains]


def _carried(operand: OperandPlan, query: Query) -> Value:
    """The carried numbers, COUNT(*) first, and extremes, each with the aggregates that need it."""
    asked = [(a, positions_of(a, operand.machine.automaton)) for a in aggregates(query)]
    mine = [(a, at) for a, at in asked if at]
    every = [expression_text(a) for a, _ in asked if a.alias is None and a.of is None]
    numbers: list[Value] = [{"what": "how many trends", "positions": [], "for": every}]
    for number in operand.carried.numbers:
        users = [expression_text(a) for a, at in mine if number in numbers_of(a, at)]
        numbers.append({"what": _measured(number), "positions": sorted(number.positions), "for": users})
    extremes = []
    for extreme in operand.carried.extremes:
        users = [expression_text(a) for a, at in mine if extreme_of(a, at) == extreme]
        of = extreme.attribute if extreme.of is None else extreme.of.value
        what = f"{'greatest' if extreme.is_max else 'least'} {of}"
        extremes.append({"what": what, "positions": sorted(extreme.positions), "for": users})
    return {"numbers": numbers, "extremes": extremes}


def _measured(number: Number) -> str:
    match number.measure:
        case Measure.BINDINGS:
            return "how many bindings"
        case Measure.VALUE:
            return f"sum of {number.attribute}"
        case Measure.PRESENT:
            return f"how many non-null {number.attribute}"
        case Measure.ELAPSED:
            return "time that has passed, for every trend begun"


def _state(operand: OperandPlan, plan: QueryPlan) -> Value:
    """The size of the state per partition, group and window."""
    machine = operand.machine
    numbers, extremes = operand.carried.width, len(operand.carried.extremes)
    vector = NUMBER_BYTES * numbers + EXTREME_BYTES * extremes
    kept = _in_order(machine.by_event - {START})
    asked = _asked_inside(machine)
    scope = ["partition"] * bool(plan.partition) + ["group"] * bool(plan.query.group_by) + ["window"]
    return {
        "states": len(machine.states),
        "numbers": numbers,
        "extremes": extremes,
        "bytes": vector * len(machine.states),
        "per": scope,
        "kept_at": [_place(place) for place in kept],
        "negated_kept_at": asked,
        "bytes_per_binding": vector + BINDING_BYTES if kept else 0,
        "grows": bool(kept or asked),
    }


def _cost(operand: OperandPlan, positions: list[int], reads: list[int]) -> str:
    """The bound of the slowest access of an event that takes these positions to the places it reads."""
    machine = operand.machine
    if not reads:
        return "O(1)"
    structures = {(a.place, a.predicates, a.guard): a.structure for a in operand.accesses}
    scans = [scan for step in machine.steps(frozenset(positions)) for scan in step.scans]
    found = {structures.get((s.place, s.predicates, s.guard)) for s in scans if s.place in reads}
    known = [structure for structure in found if structure is not None]
    if None in found or not known or set(reads) & set(_asked_inside(machine)):
        return SCANNED
    slowest = max(known, key=list(Structure).index)
    return SCANNED if slowest in (Structure.SCAN, Structure.LAST) else BOUNDS[slowest]


SCANNED = "O(bindings)"


def _asked_inside(machine: Machine) -> list[int]:
    """The positions inside NOTs whose bindings an adjacency predicate compares."""
    if not machine.by_event:
        return []
    edges = {edge for guard in machine.automaton.guards for edge in guard.edges}
    return sorted({p for p, q in edges if machine.predicates.between(p, q)})


def _costs(operand: OperandPlan) -> list[Value]:
    """The worst-case cost of an event of each type, and of events of all other types."""
    machine = operand.machine
    sources: dict[int, set[int]] = {}
    for p, q in machine.automaton.edges:
        sources.setdefault(q, set()).add(p)
    for guard in machine.automaton.guards:
        for p, q in guard.edges:
            sources.setdefault(q, set()).add(p)
    scanned = (machine.by_event - {START}).union(_asked_inside(machine))
    takes: dict[str, list[int]] = {}
    for position in machine.automaton.positions:
        takes.setdefault(position.label, []).append(position.index)
    found: list[Value] = []
    for type_, positions in takes.items():
        reads = sorted(scanned & set[int]().union(*(sources.get(q, set()) for q in positions)))
        cost = _cost(operand, positions, reads)
        found.append({"type": type_, "takes": positions, "cost": cost, "reads": reads})
    is_seen = machine.semantics is Semantics.CONTIGUOUS
    return [*found, {"type": None, "takes": [], "cost": "O(1)" if is_seen else "none", "reads": []}]
