"""Plans as a value, and that value as text, JSON or a page: what is computed, how finely, at what cost.

`describe` makes the value; every rendering reads nothing else, so no two of them can disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import zip_longest
from math import gcd
from textwrap import wrap
from typing import Any, TypeVar

from trendfold.automaton.glushkov import END, START, Automaton
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Pairwise, partition_attributes
from trendfold.errors import InputError, UnsupportedError
from trendfold.plan import PLANNERS, OperandPlan, QueryPlan, plan
from trendfold.plan.carried import Measure, Number, aggregates, extreme_of, numbers_of
from trendfold.query import to_text as query_text
from trendfold.query.names import PredicateKind, children, kind, named, walk
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
    WindowUnit,
)
from trendfold.query.printer import expression_text, pattern_text

Value = dict[str, Any]
"""What JSON can hold. A place is a position's number, or one of the signs ⊥ and ⊤."""

T = TypeVar("T")

NUMBER_BYTES, EXTREME_BYTES = 12, 8
"""A number is a mantissa of 8 bytes and an exponent of 4."""
BINDING_BYTES = 12
"""A binding kept by itself also knows its row, its moment, and when it was continued."""
NEGATED_BYTES = 8
"""One inside a NOT knows its row, and when its NOT began."""

CONSTRUCT = "construct"
STRATEGIES = {
    "cogra": "every place keeps as little as its answer allows",
    "greta": "every binding is kept and asked one by one",
    CONSTRUCT: "builds every trend, up to limits.trends, then aggregates",
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


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The plans of a workload; prints in its `format`, and shows as a picture in a notebook."""

    plans: tuple[QueryPlan | Unplanned, ...]
    format: str = "text"

    def __str__(self) -> str:
        return FORMATS[self.format](self.plans)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _fragment(to_json(self.plans))


def explain(queries: Iterable[Query], strategy: str = "auto", format: str = "text") -> Explanation:
    """Plan query by query: one that cannot be planned is explained by the reason."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    return Explanation(tuple(_plan_or_reason(query, strategy) for query in queries), format)


def _plan_or_reason(query: Query, strategy: str) -> QueryPlan | Unplanned:
    try:
        return plan(query, strategy)
    except UnsupportedError as error:
        if strategy not in PLANNERS:
            raise
        return Unplanned(query, strategy, str(error))


# ---------------------------------------------------------------- the value


def to_json(plans: Iterable[QueryPlan | Unplanned]) -> Value:
    """All plans of a workload as one value that JSON can hold."""
    return {"queries": [describe(each) for each in plans]}


def describe(plan: QueryPlan | Unplanned) -> Value:
    """One plan as a value that JSON can hold."""
    query = plan.query
    head = {"query": query.name, "text": query_text(query), "strategy": plan.strategy}
    if isinstance(plan, Unplanned):
        return head | {"reason": plan.reason}
    return head | {
        "strategy_means": STRATEGIES.get(plan.strategy, ""),
        "strategy_why": _built_because(plan),
        "semantics": str(query.semantics),
        "semantics_means": SEMANTICS[query.semantics],
        "partition": {"attributes": list(plan.partition), "from": _partition_conjuncts(query)},
        "group_by": [_group_key(key, plan) for key in query.group_by],
        "window": _window(query),
        "operands": [
            _operand(operand, pattern, plan)
            for operand, pattern in zip(plan.operands, _patterns(query), strict=True)
        ],
    }


def _built_because(plan: QueryPlan) -> str:
    """Why nothing cheaper than building trends will do; nothing where it was only asked for."""
    has_cross = any(operand.machine.predicates.cross for operand in plan.operands)
    return "a cross predicate compares events that need not be neighbours" if has_cross else ""


def _patterns(query: Query) -> tuple[Pattern, ...]:
    return query.pattern.parts if isinstance(query.pattern, Both) else (query.pattern,)


def _partition_conjuncts(query: Query) -> list[str]:
    """The parts of WHERE that say what every event is partitioned by."""
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
            (inside if position.is_called(key.alias) else outside).add(position.type)
    return {
        "key": f"{key.alias}.{key.attribute}",
        "kind": "qualified",
        "own_types": sorted(inside - outside),
        "copied_types": sorted(outside),
        "copies_other_types": is_contiguous,
    }


def _window(query: Query) -> Value:
    """The window's kind and sizes; sizes are in `unit`."""
    window = query.window
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


# ---------------------------------------------------------------- the value: one operand


def _operand(operand: OperandPlan, pattern: Pattern, plan: QueryPlan) -> Value:
    is_built = plan.strategy == CONSTRUCT
    return {
        "pattern": pattern_text(pattern),
        "positions": _positions(operand.machine.automaton),
        "edges": _edges(operand.machine, plan.query),
        "predicates": _predicates(operand.machine, plan.query),
        "guards": _guards(operand, pattern, is_built),
        "grains": [] if is_built else _grains(operand),
        "carried": _carried(operand, plan.query),
        "state": None if is_built else _state(operand, plan),
        "cost": [] if is_built else _costs(operand.machine),
    }


def _place(place: int) -> int | str:
    return {START: "⊥", END: "⊤"}.get(place, place)


def _place_order(place: int) -> tuple[bool, int]:
    """⊥ first, ⊤ last."""
    return place == END, place


def _in_order(places: Iterable[int]) -> list[int]:
    return sorted(places, key=_place_order)


def _positions(automaton: Automaton) -> list[Value]:
    """Each position; of a negated one, whether it is first or last in its NOT."""
    guard_at = {p: g for g, guard in enumerate(automaton.guards) for p in guard.positions}
    first = automaton.first.union(*(guard.first for guard in automaton.guards))
    last = automaton.last.union(*(guard.last for guard in automaton.guards))
    return [
        {
            "index": p.index,
            "type": p.type,
            "alias": p.alias,
            "negated": p.index in guard_at,
            "guard": guard_at.get(p.index),
            "first": p.index in first,
            "last": p.index in last,
        }
        for p in automaton.positions
    ]


def _edges(machine: Machine, query: Query) -> list[Value]:
    texts = [text for text, _ in _adjacency(machine, query)]
    return [
        {
            "from": _place(p),
            "to": _place(q),
            "guard": machine.automaton.guard_of.get((p, q)),
            "predicates": [texts[i] for i in machine.predicates.between(p, q)],
        }
        for p, q in sorted(machine.automaton.edges, key=lambda e: (_place_order(e[0]), _place_order(e[1])))
    ]


def _resolved(
    machine: Machine, query: Query, wanted: PredicateKind, found: Sequence[T]
) -> list[tuple[str, T]]:
    """The operand's predicates of one kind, each with the conjunct as it was written."""
    called = machine.automaton.called
    texts = [
        expression_text(conjunct)
        for conjunct in query.where
        if kind(conjunct) is wanted
        and all(called(name) for name, _ in named(conjunct))
        and not _is_partition(conjunct, query)
    ]
    return list(zip(texts, found, strict=True))


def _adjacency(machine: Machine, query: Query) -> list[tuple[str, Pairwise]]:
    return _resolved(machine, query, PredicateKind.ADJACENCY, machine.predicates.adjacency)


def _predicates(machine: Machine, query: Query) -> Value:
    """Predicates by kind; of a neighbour predicate the edges, those inside a NOT too, that it stands on."""
    inner = [edge for guard in machine.automaton.guards for edge in guard.edges]
    edges = sorted([*machine.automaton.edges, *inner])
    local = _resolved(machine, query, PredicateKind.LOCAL, machine.predicates.local)
    cross = _resolved(machine, query, PredicateKind.CROSS, machine.predicates.cross)
    return {
        "local": [{"text": text, "positions": sorted(p.positions)} for text, p in local],
        "adjacency": [
            {"text": text, "edges": [[p, q] for p, q in edges if p in pair.left and q in pair.right]}
            for text, pair in _adjacency(machine, query)
        ],
        "cross": [{"text": t, "left": sorted(c.left), "right": sorted(c.right)} for t, c in cross],
    }


def _guards(operand: OperandPlan, pattern: Pattern, is_built: bool) -> list[Value]:
    bodies = _negated(pattern)
    automaton = operand.machine.automaton
    return [
        {
            "pattern": pattern_text(bodies[g]),
            "positions": list(guard.positions),
            "where": _where(automaton, g),
            "judged": _judged(operand, g, is_built),
        }
        for g, guard in enumerate(automaton.guards)
    ]


def _negated(pattern: Pattern) -> list[Pattern]:
    """What every NOT negates, in the order in which the automaton numbers its guards."""
    found = []
    stack = [pattern]
    while stack:
        match stack.pop():
            case Not(body):
                found.append(body)
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
    """How a NOT is judged, and at which places its mass waits: one entry per way and reason."""
    machine = operand.machine
    places = _in_order(machine.exits(guard))
    if is_built:
        return [{"how": "trend by trend", "classes": None, "places": [], "why": "every trend is built"}]
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
    """The numbers, COUNT(*) first, and the extremes; each with the aggregates it is for."""
    called = operand.machine.automaton.called
    asked = aggregates(query)
    mine = [(a, called(a.alias)) for a in asked if a.alias is not None]
    every = [expression_text(a) for a in asked if a.alias is None]
    numbers: list[Value] = [{"what": "how many trends", "positions": [], "for": every}]
    for number in operand.carried.numbers:
        users = [expression_text(a) for a, at in mine if number in numbers_of(a, at)]
        numbers.append({"what": _measured(number), "positions": sorted(number.positions), "for": users})
    extremes = []
    for extreme in operand.carried.extremes:
        users = [expression_text(a) for a, at in mine if extreme_of(a, at) == extreme]
        what = f"{'greatest' if extreme.is_max else 'least'} {extreme.attribute}"
        extremes.append({"what": what, "positions": sorted(extreme.positions), "for": users})
    return {"numbers": numbers, "extremes": extremes}


def _measured(number: Number) -> str:
    match number.measure:
        case Measure.BINDINGS:
            return "how many bindings"
        case Measure.VALUE:
            return f"sum of {number.attribute}"
        case Measure.PRESENT:
            return f"how many have {number.attribute}"


def _state(operand: OperandPlan, plan: QueryPlan) -> Value:
    """The size of what waits, per stream and window."""
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


def _asked_inside(machine: Machine) -> list[int]:
    """The positions inside NOTs whose bindings a neighbour predicate must see."""
    if not machine.by_event:
        return []
    edges = {edge for guard in machine.automaton.guards for edge in guard.edges}
    return sorted({p for p, q in edges if machine.predicates.between(p, q)})


def _costs(machine: Machine) -> list[Value]:
    """What an event of each type costs, at most, and what events of other types do."""
    sources: dict[int, set[int]] = {}
    for p, q in machine.automaton.edges:
        sources.setdefault(q, set()).add(p)
    for guard in machine.automaton.guards:
        for p, q in guard.edges:
            sources.setdefault(q, set()).add(p)
    scanned = (machine.by_event - {START}).union(_asked_inside(machine))
    takes: dict[str, list[int]] = {}
    for position in machine.automaton.positions:
        takes.setdefault(position.type, []).append(position.index)
    found: list[Value] = []
    for type_, positions in takes.items():
        reads = sorted(scanned & set[int]().union(*(sources.get(q, set()) for q in positions)))
        cost = "O(bindings)" if reads else "O(1)"
        found.append({"type": type_, "takes": positions, "cost": cost, "reads": reads})
    is_seen = machine.semantics is Semantics.CONTIGUOUS
    return [*found, {"type": None, "takes": [], "cost": "O(1)" if is_seen else "none", "reads": []}]


# ---------------------------------------------------------------- the value as titled tables


Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table of words, which text aligns and a page frames."""

    title: str
    rows: tuple[Row, ...]


MAX_ROWS = 60
MAX_DRAWN = 40
"""Longer tables are cut, and bigger automata not drawn; JSON has them whole."""

_UNITS_US = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000}


def _section(title: str, rows: Iterable[Row]) -> Section:
    rows = tuple(rows)
    if len(rows) > MAX_ROWS:
        rows = (*rows[:MAX_ROWS], (f"... and {len(rows) - MAX_ROWS:,} more; the JSON has them all",))
    return Section(title, rows)


def _blocks(value: Value) -> list[tuple[str, list[Section]]]:
    """A query's tables: those of the whole query, then those of each operand under its heading."""
    if "reason" in value:
        rows = [_section("strategy", [(value["strategy"],)]), _section("no plan", [(value["reason"],)])]
        return [("", rows)]
    operands = value["operands"]
    blocks = [("", _query_sections(value))]
    for number, operand in enumerate(operands, 1):
        heading = f"operand {number} of {len(operands)}: {operand['pattern']}" if len(operands) > 1 else ""
        blocks.append((heading, _operand_sections(operand, value)))
    return [(heading, [section for section in sections if section.rows]) for heading, sections in blocks]


def _query_sections(value: Value) -> list[Section]:
    return [
        _section("strategy", _strategy_rows(value)),
        _section("semantics", [(value["semantics"], value["semantics_means"])]),
        _section("partition", _partition_rows(value["partition"])),
        _section("group by", [_key_row(key) for key in value["group_by"]]),
        _section("window", _window_rows(value["window"])),
        _section("combined", [("product of the operands' counts; each operand is judged alone",)])
        if len(value["operands"]) > 1
        else _section("combined", ()),
    ]


def _strategy_rows(value: Value) -> list[Row]:
    rows: list[Row] = [(value["strategy"], value["strategy_means"])]
    return [*rows, ("because", value["strategy_why"])] if value["strategy_why"] else rows


def _partition_rows(partition: Value) -> list[Row]:
    if not partition["attributes"]:
        return []
    each = "value" if len(partition["attributes"]) == 1 else "combination of values"
    means = f"a stream per {each}; an event with a null there is in none"
    return [(", ".join(partition["attributes"]), means), ("from", " AND ".join(partition["from"]))]


def _key_row(key: Value) -> Row:
    if key["kind"] == "plain":
        return key["key"], "plain", "partitions every event; null is a value"
    own = ", ".join(key["own_types"])
    copied = ", ".join([*key["copied_types"], *["all other types"] * key["copies_other_types"]])
    parts = ["a stream per value"]
    parts += [f"{own}: only in the stream of its value"] if own else []
    parts += [f"{copied}: copied to every stream"] if copied else []
    return key["key"], "qualified", "; ".join(parts)


def _window_rows(window: Value) -> list[Row]:
    if window["kind"] == "none":
        return [("none", "one window over the whole input")]
    length = _length(window["length"], window["unit"])
    if window["kind"] == "per-event":
        means = f"one window (t - {length}, t] for every time t of an event that can end a trend"
        return [("per-event", means), ("overlap", f"as many windows as such times in {length}")]
    slide, pane = _length(window["slide"], window["unit"]), _length(window["pane"], window["unit"])
    return [
        (window["kind"], f"{length} long, a new one every {slide}"),
        ("pane", f"{pane} = gcd(length, slide); {_count(window['panes_per_window'], 'pane')} to a window"),
        ("overlap", _overlap(*window["windows_per_event"])),
    ]


def _overlap(least: int, most: int) -> str:
    if least == most:
        return f"every event is in {_count(most, 'window')}"
    if least == 0:
        return "an event is in 1 window, or in the gap between two"
    return f"every event is in {least:,} or {most:,} windows"


def _length(length: int, unit: str) -> str:
    """A length as a query writes it."""
    if unit == WindowUnit.EVENTS:
        return _count(length, "event")
    for word, microseconds in _UNITS_US.items():
        if length % microseconds == 0:
            return f"{length // microseconds} {word}"
    return f"{length // 1_000}.{length % 1_000:03d} ms"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _operand_sections(operand: Value, value: Value) -> list[Section]:
    name = _names(operand)
    return [
        _section("positions", map(_position_row, operand["positions"])),
        _section("edges", [_edge_row(edge, operand, name) for edge in operand["edges"]]),
        _section("predicates", _predicate_rows(operand["predicates"], name)),
        _section("guards", _guard_rows(operand["guards"], name)),
        _section("grain", [(name[g["place"]], g["grain"], g["why"]) for g in operand["grains"]]),
        _section("carried", _carried_rows(operand["carried"], name)),
        _section("state", _state_rows(operand["state"], name)),
        _section("cost", _cost_rows(operand, value, name)),
    ]


Names = dict[int | str, str]


def _names(operand: Value) -> Names:
    """What places are called: a number and an alias, or a type where there is none."""
    found: Names = {"⊥": "⊥", "⊤": "⊤"}
    return found | {p["index"]: f"{p['index']} {p['alias'] or p['type']}" for p in operand["positions"]}


def _at(places: Iterable[int | str], name: Names) -> str:
    return ", ".join(name[place] for place in places)


def _position_row(position: Value) -> Row:
    ends = " and ".join(end for end in ("first", "last") if position[end])
    if position["negated"]:
        ends = f"{ends} in guard {position['guard']}" if ends else f"in guard {position['guard']}"
    sign = "negated" if position["negated"] else "positive"
    return str(position["index"]), position["type"], position["alias"] or "", sign, ends


def _edge_row(edge: Value, operand: Value, name: Names) -> Row:
    notes = []
    if edge["guard"] is not None:
        notes.append(f"guard {edge['guard']}: NOT {operand['guards'][edge['guard']]['pattern']}")
    notes += [f"if {text}" for text in edge["predicates"]]
    return f"{name[edge['from']]} → {name[edge['to']]}", "; ".join(notes)


def _predicate_rows(predicates: Value, name: Names) -> list[Row]:
    rows: list[Row] = []
    for local in predicates["local"]:
        rows.append(("local", local["text"], f"at {_at(local['positions'], name)}"))
    for pair in predicates["adjacency"]:
        on = ", ".join(f"{name[p]} → {name[q]}" for p, q in pair["edges"])
        rows.append(("adjacency", pair["text"], f"on {on}" if on else "never: these are no neighbours"))
    for pair in predicates["cross"]:
        between = f"any {_at(pair['left'], name)} and any {_at(pair['right'], name)} of a trend"
        rows.append(("cross", pair["text"], between))
    return rows


def _guard_rows(guards: list[Value], name: Names) -> list[Row]:
    rows: list[Row] = []
    for number, guard in enumerate(guards):
        for way in guard["judged"]:
            how = f"{way['classes']} classes" if way["classes"] else way["how"]
            rows.append(
                (str(number), f"NOT {guard['pattern']}", guard["where"], how, _guard_reason(way, name))
            )
    return rows


def _guard_reason(way: Value, name: Names) -> str:
    where = _at(way["places"], name)
    match way["how"]:
        case "by class":
            return f"counts at {where} are split by its progress"
        case "by binding time":
            return f"at {where}: {way['why']}"
    return str(way["why"])


def _carried_rows(carried: Value, name: Names) -> list[Row]:
    rows: list[Row] = []
    for sort, items in (("number", carried["numbers"]), ("extreme", carried["extremes"])):
        for item in items:
            where = f"at {_at(item['positions'], name)}" if item["positions"] else ""
            users = f"for {', '.join(item['for'])}" if item["for"] else "always: all else rides on it"
            rows.append((sort, item["what"], where, users))
    return rows


def _state_rows(state: Value | None, name: Names) -> list[Row]:
    if state is None:
        return [("every trend that is being built: grows with events, up to limits.trends",)]
    per = " and ".join(filter(None, [", ".join(state["per"][:-1]), state["per"][-1]]))
    rows = [_vectors(state)] if state["states"] else []
    if state["kept_at"]:
        rows.append(
            f"{state['bytes_per_binding']:,} bytes for every binding at {_at(state['kept_at'], name)}"
        )
    if state["negated_kept_at"]:
        rows.append(
            f"{NEGATED_BYTES} bytes for every binding at {_at(state['negated_kept_at'], name)}, inside a NOT"
        )
    rows.append(f"per {per}; {'grows' if state['grows'] else 'does not grow'} with events")
    return [(row,) for row in rows]


def _vectors(state: Value) -> str:
    """The arithmetic of what waits in vectors."""
    vector = f"{_count(state['numbers'], 'number')} × {NUMBER_BYTES} bytes"
    if state["extremes"]:
        vector = f"({vector} + {_count(state['extremes'], 'extreme')} × {EXTREME_BYTES} bytes)"
    return f"{_count(state['states'], 'state')} × {vector} = {state['bytes']:,} bytes"


def _cost_rows(operand: Value, value: Value, name: Names) -> list[Row]:
    if not operand["cost"]:
        return [("any event", "builds trends", "their number can double with every event")]
    is_contiguous = value["semantics"] == Semantics.CONTIGUOUS
    rows: list[Row] = []
    for cost in operand["cost"]:
        type_ = cost["type"] or "other types"
        rate = "free" if cost["cost"] == "none" else f"{cost['cost']} per event"
        rows.append((type_, rate, _cost_reason(cost, operand, is_contiguous, name)))
    return rows


def _cost_reason(cost: Value, operand: Value, is_contiguous: bool, name: Names) -> str:
    if cost["type"] is None:
        return "comes between neighbours" if is_contiguous else "skipped"
    guard = {p["index"]: p["guard"] for p in operand["positions"]}
    taken = [p for p in cost["takes"] if guard[p] is None]
    parts = [f"takes {_at(taken, name)}"] if taken else []
    for number in sorted({guard[p] for p in cost["takes"]} - {None}):
        is_idle = operand["guards"][number]["judged"][0]["how"] == "never"
        parts.append("comes between neighbours" if is_idle else f"moves guard {number}")
    if cost["reads"]:
        which = "the last moment's bindings" if is_contiguous else "every binding"
        parts.append(f"asks {which} at {_at(cost['reads'], name)}")
    return "; ".join(parts)


# ---------------------------------------------------------------- text

WIDTH = 100
_INDENT, _TITLE = 2, 12


def to_text(plans: Iterable[QueryPlan | Unplanned]) -> str:
    """Plans for a terminal: aligned, no line longer than 100 characters."""
    return "\n\n\n".join(_query_text(value) for value in to_json(plans)["queries"])


def _query_text(value: Value) -> str:
    name = wrap(value["query"], WIDTH) or [""]
    lines = [*name, "=" * max(map(len, name)), ""]
    for clause in value["text"].splitlines():
        lines += wrap(clause, WIDTH, initial_indent="    ", subsequent_indent=" " * 8)
    for heading, sections in _blocks(value):
        lines += ["", *wrap(heading, WIDTH)]
        for section in sections:
            lines += _section_lines(section)
    return "\n".join(lines)


def _section_lines(section: Section) -> list[str]:
    margin = " " * (_INDENT + _TITLE)
    table = _align(section.rows, WIDTH - len(margin))
    first = f"{'':{_INDENT}}{section.title:{_TITLE}}{table[0]}"
    return [line.rstrip() for line in (first, *(margin + line for line in table[1:]))]


def _align(rows: Sequence[Row], room: int) -> list[str]:
    """Rows as lines of at most `room` characters: columns of one width, long cells wrapped."""
    if len(rows[-1]) < len(rows[0]):  # the note under a table that was cut spans it
        return [*_align(rows[:-1], room), *_align(rows[-1:], room)]
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    while sum(widths) + 2 * (len(widths) - 1) > room:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in zip(*columns, strict=True):
        cells = [wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(f"{part:{width}}" for part, width in zip(parts, widths, strict=True)))
    return lines


# ---------------------------------------------------------------- a page


def to_html(plans: Iterable[QueryPlan | Unplanned]) -> str:
    """Plans as one page that needs nothing else."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>trendfold</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f'<body style="margin:0">{_fragment(to_json(plans))}</body></html>\n'
    )


def _fragment(value: Value) -> str:
    """What a notebook shows: its style touches nothing around it."""
    queries = "\n".join(_query_html(query) for query in value["queries"])
    return f'<div class="trendfold"><style>{_style()}</style>\n{queries}</div>'


def _query_html(value: Value) -> str:
    parts = [f"<h2>{escape(value['query'])}</h2><pre>{escape(value['text'])}</pre>"]
    operands = [None, *value.get("operands", ())]
    for (heading, sections), operand in zip(_blocks(value), operands, strict=True):
        parts.append(f"<h3>{escape(heading)}</h3>" if heading else "")
        parts.append(_picture(operand) if operand is not None else "")
        parts += [_section_html(section) for section in sections]
    return f"<section>{''.join(parts)}</section>"


def _section_html(section: Section) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
    return f"<details open><summary>{escape(section.title)}</summary><table>{rows}</table></details>"


def _style() -> str:
    """Light and dark, and: pointing at a place lights up the edges that touch it."""
    touching = "".join(
        f".trendfold svg:has(.at-{i}:hover) .touch-{i}{{stroke:var(--accent);fill:var(--accent)}}"
        for i in range(MAX_DRAWN + 2)
    )
    return _STYLE + touching


_STYLE = """
.trendfold{--ink:#1c2330;--soft:#667085;--line:#98a2b3;--paper:#fff;--panel:#f4f6f9;--accent:#1f6feb;--not:#b42318;
background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif;padding:1rem 1.5rem}
@media (prefers-color-scheme:dark){.trendfold{--ink:#e6e9ef;--soft:#98a2b3;--line:#667085;--paper:#12161d;
--panel:#1b212b;--accent:#6cb0ff;--not:#ff8a7a}}
.trendfold section{max-width:70rem;margin:0 auto 2.5rem}
.trendfold pre{background:var(--panel);color:var(--ink);padding:.7rem 1rem;border-radius:6px;
white-space:pre-wrap}
.trendfold details{display:grid;margin:.3rem 0}
.trendfold summary{cursor:pointer;color:var(--soft)}
.trendfold table{border-collapse:collapse;margin:.1rem 0 .4rem 1rem}
.trendfold td{padding:.1rem 1.2rem .1rem 0;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere}
.trendfold .picture{overflow-x:auto}
.trendfold svg .box{fill:var(--panel);stroke:var(--line)}
.trendfold svg g:hover>.box{stroke:var(--accent)}
.trendfold svg text{fill:var(--ink);font:12px system-ui,sans-serif;text-anchor:middle}
.trendfold svg .small{fill:var(--soft);font-size:11px}
.trendfold svg .not{fill:var(--not)}
.trendfold svg .edge{stroke:var(--line);stroke-width:1.4}
.trendfold svg .edge path{fill:none}
.trendfold svg .edge polygon{fill:var(--line)}
.trendfold svg .edge:hover{stroke:var(--accent)}
.trendfold svg .edge text{stroke:none}
"""

# ---------------------------------------------------------------- the automaton, drawn


@dataclass(frozen=True, slots=True)
class _Box:
    """A place in the drawing: where its middle is, and how wide it is."""

    number: int
    x: float
    width: float


_RADIUS, _NARROWEST, _GAP, _LETTER, _LINE = 20, 86, 130, 7, 15


def _picture(operand: Value) -> str:
    """The position automaton as SVG: ⊥ on the left, ⊤ on the right, what loops back below."""
    name = _names(operand)
    places: list[int | str] = ["⊥", *(p["index"] for p in operand["positions"] if not p["negated"]), "⊤"]
    if len(places) > MAX_DRAWN + 2:
        return f"<p>{_count(len(places) - 2, 'position')}: too many to draw</p>"
    boxes = _lay_out(places, name)
    edges = [(edge, boxes[edge["from"]], boxes[edge["to"]]) for edge in operand["edges"]]
    above = max(_rise(a, b) + _LINE * len(_notes(edge, operand)) for edge, a, b in edges) + 2 * _LINE
    below = max((_rise(a, b) for _, a, b in edges if b.number < a.number), default=0) + 4 * _LINE
    width = boxes["⊤"].x + boxes["⊤"].width / 2 + 12
    grain = {g["place"]: g for g in operand["grains"]}
    drawn = [_edge_svg(edge, a, b, operand, name) for edge, a, b in edges]
    drawn += [_box_svg(boxes[place], name[place], grain.get(place)) for place in places]
    return (
        f'<div class="picture"><svg width="{width:.0f}" height="{above + below:.0f}" role="img" '
        f'viewBox="0 {-above:.0f} {width:.0f} {above + below:.0f}">{"".join(drawn)}</svg></div>'
    )


def _lay_out(places: Sequence[int | str], name: Names) -> dict[int | str, _Box]:
    boxes = {}
    left = 12.0
    for number, place in enumerate(places):
        width = max(_NARROWEST, _LETTER * len(_cut(name[place], 18)) + 20)
        boxes[place] = _Box(number, left + width / 2, width)
        left += width + _GAP
    return boxes


def _rise(a: _Box, b: _Box) -> float:
    """How far an edge leaves the line of places: neighbours not at all, others to pass over those between."""
    span = b.number - a.number
    return 0 if span == 1 else 48 if span == 0 else 24 + 30 * abs(span)


def _notes(edge: Value, operand: Value) -> list[tuple[str, str]]:
    """What stands on an edge: (style, words)."""
    found = []
    if edge["guard"] is not None:
        found.append(("not", f"NOT {operand['guards'][edge['guard']]['pattern']}"))
    return found + [("small", text) for text in edge["predicates"]]


def _edge_svg(edge: Value, a: _Box, b: _Box, operand: Value, name: Names) -> str:
    path, tip, apex = _curve(a, b)
    notes = _notes(edge, operand)
    room = int(max(_GAP, abs(b.x - a.x) - 60) / 6)
    x, y = apex
    step = -_LINE if b.number >= a.number else _LINE
    offset = -6 if step < 0 else _LINE
    words = "".join(
        f'<text class="{style}" x="{x:.0f}" y="{y + offset + step * i:.0f}">{escape(_cut(text, room))}</text>'
        for i, (style, text) in enumerate(notes)
    )
    title = f"{name[edge['from']]} → {name[edge['to']]}" + "".join(f"\n{text}" for _, text in notes)
    return (
        f'<g class="edge touch-{a.number} touch-{b.number}"><title>{escape(title)}</title>'
        f'<path d="{path}"/><polygon points="{tip}"/>{words}</g>'
    )


def _curve(a: _Box, b: _Box) -> tuple[str, str, tuple[float, float]]:
    """An edge's path, the corners of its arrow head, and the point where its words go."""
    rise = _rise(a, b)
    if rise == 0:
        start, end = a.x + a.width / 2, b.x - b.width / 2
        tip = f"{end:.0f},0 {end - 8:.0f},-4 {end - 8:.0f},4"
        return f"M{start:.0f} 0H{end - 8:.0f}", tip, ((start + end) / 2, 0)
    side = -1 if b.number >= a.number else 1
    inset = 8 if b.number >= a.number else -8
    start, end = a.x + inset, b.x - inset
    near, far = side * _RADIUS, side * (_RADIUS + 8)
    # The middle of this curve is three quarters of the way to its two control points.
    control = near + side * rise / 0.75
    lean = 14 if a.number == b.number else 0
    left, right = start + lean, end - lean
    tip = f"{end:.0f},{near} {end - 4:.0f},{far} {end + 4:.0f},{far}"
    path = f"M{start:.0f} {near}C{left:.0f} {control:.0f} {right:.0f} {control:.0f} {end:.0f} {far}"
    return path, tip, ((start + end) / 2, near + side * rise)


def _box_svg(box: _Box, label: str, grain: Value | None) -> str:
    words = f"{grain['grain']} grain" if grain else ""
    title = f"{label}: {words}, {grain['why']}" if grain else label
    left, middle = box.x - box.width / 2, -2 if grain else 4
    return (
        f'<g class="at-{box.number}"><title>{escape(title)}</title>'
        f'<rect class="box" x="{left:.0f}" y="{-_RADIUS}" width="{box.width:.0f}" '
        f'height="{2 * _RADIUS}" rx="{_RADIUS}"/>'
        f'<text x="{box.x:.0f}" y="{middle}">{escape(_cut(label, 18))}</text>'
        f'<text class="small" x="{box.x:.0f}" y="12">{escape(words)}</text></g>'
    )


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


# ---------------------------------------------------------------- formats


def _json_text(plans: Iterable[QueryPlan | Unplanned]) -> str:
    return json.dumps(to_json(plans), indent=2, ensure_ascii=False)


FORMATS: dict[str, Callable[[Iterable[QueryPlan | Unplanned]], str]] = {
    "text": to_text,
    "json": _json_text,
    "html": to_html,
}
