"""A plan's JSON value -> titled tables of words, for text and HTML output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trendfold.errors import plural
from trendfold.explain.gloria_path import gain_row, other_rows, pool_row
from trendfold.explain.value import EXTREME_BYTES, NEGATED_BYTES, NUMBER_BYTES, Value
from trendfold.plan.fold_steps import size_text
from trendfold.query.nodes import Semantics, WindowUnit

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table of words."""

    title: str
    rows: tuple[Row, ...]


MAX_ROWS = 60
"""Longer tables are truncated; the JSON has all rows."""

_UNITS_US = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000}


def _section(title: str, rows: Iterable[Row]) -> Section:
    rows = tuple(rows)
    if len(rows) > MAX_ROWS:
        rows = (*rows[:MAX_ROWS], (f"... and {len(rows) - MAX_ROWS:,} more; the JSON has them all",))
    return Section(title, rows)


def blocks(value: Value) -> list[tuple[str, list[Section]]]:
    """A query's tables: first those of the whole query, then those of each operand under a heading."""
    if "reason" in value:
        rows = [_section("strategy", [(value["strategy"],)]), _section("no plan", [(value["reason"],)])]
        return [("", rows)]
    if "matches" in value:
        return [("", [section for section in _match_sections(value) if section.rows])]
    operands = value["operands"]
    found = [("", _query_sections(value))]
    for number, operand in enumerate(operands, 1):
        heading = f"operand {number} of {len(operands)}: {operand['pattern']}" if len(operands) > 1 else ""
        found.append((heading, _operand_sections(operand, value)))
    return [(heading, [section for section in sections if section.rows]) for heading, sections in found]


def _query_sections(value: Value) -> list[Section]:
    return [
        _section("strategy", _strategy_rows(value)),
        _section("folded", [row for step in value.get("steps", ()) for row in _step_rows(step)]),
        _section("semantics", [(value["semantics"], value["semantics_means"])]),
        _section("partition", _partition_rows(value["partition"])),
        _section("group by", [_key_row(key) for key in value["group_by"]]),
        _section("window", _window_rows(value["window"])),
        _section("on Spark", _spark_rows(value["spark"])),
        _section("on streams", [tuple(value["stream"].values())] if value["stream"] else ()),
        *_sharing_sections(value["sharing"]),
        _section("together", [(line,) for line in value["together"]]),
        _section("combined", [("the product of the operands' counts; operands are matched independently",)])
        if len(value["operands"]) > 1
        else _section("combined", ()),
    ]


def _step_rows(step: Value) -> list[Row]:
    """One way in which the query is folded over the data, with whom, the rows, and what it took if it ran."""
    rows: list[Row] = [(step["way"], step["why"])]
    if step["with"]:
        shown = ", ".join(step["with"][:_MOST_NAMES]) + ", ..." * (len(step["with"]) > _MOST_NAMES)
        rows.append(("together with", f"{plural(len(step['with']), 'query', 'queries')}: {shown}"))
    if not step["seconds"]:
        return [*rows, ("reads", plural(step["rows"], "row"))]
    took = [plural(step["rows"], "row"), f"{step['seconds']:.3f} s"]
    took += [size_text(step["bytes"])] if step["bytes"] else []
    took += [plural(step["tasks"], "task")] if step["tasks"] > 1 else []
    took += [plural(n, what.removesuffix("s")) for what, n in step["counts"].items() if n]
    return [*rows, ("took", ", ".join(took))]


_MOST_NAMES = 8


# ---------------------------------------------------------------- RETURN MATCHES


def _match_sections(value: Value) -> list[Section]:
    matches = value["matches"]
    return [
        _section("strategy", _strategy_rows(value)),
        _section("semantics", [(value["semantics"], value["semantics_means"])]),
        _section("partition", _partition_rows(value["partition"])),
        _section("group by", [_key_row(key) for key in value["group_by"]]),
        _section("window", _match_window_rows(value["window"])),
        _section("on Spark", [(r, FINDING_ROUTES[r].format(_keys(value))) for r in value["spark"]["routes"]]),
        _section("clauses", (_clause_row(k, c) for k, c in enumerate(matches["clauses"], 1))),
        _section("joins", _join_rows(matches)),
        _section("planned", [(matches["planned"],)] if matches["planned"] else []),
        _section("statistics", _statistic_rows(matches["statistics"]) if matches["is_measured"] else []),
    ]


def _statistic_rows(statistics: Value) -> list[Row]:
    """The measured or known rates and selectivities that the joins of a query were planned for."""
    units = (("rates", "per second"), ("shares", "of all events"), ("selectivities", "of pairs"))
    return [(f"{n:.3g} {unit}", name) for what, unit in units for name, n in statistics[what].items()]


FINDING_ROUTES = {
    "by partition": "shuffle key: {}",
    "overlapping in time": "time ranges that overlap by the longest window, one task each",
    "in one task": "no shuffle key: the query has no [attribute], no GROUP BY and no time window",
}


def _keys(value: Value) -> str:
    return ", ".join(value["spark"]["shuffle_by"])


def _match_window_rows(window: Value) -> list[Row]:
    if window["kind"] == "none":
        return [("none", "a match may span the whole input")]
    length = _length(window["length"], window["unit"])
    return [(length, f"a match spans less than {length} from its first event to its last")]


def _clause_row(number: int, clause: Value) -> Row:
    """The elements of a clause, and how each is found."""
    texts = []
    for element in clause["elements"]:
        names = ", ".join(element["names"])
        texts.append(names if element["how"] == "joined" else f"{names} ({element['how']})")
    source = "" if clause["node"] is None else f"from #{clause['node']}"
    return str(number), "; ".join(texts), source


def _join_rows(matches: Value) -> list[Row]:
    """The join trees of all clauses, each node below its parent; shared nodes are listed once."""
    nodes = {node["number"]: node for node in matches["nodes"]}
    rows: list[Row] = []
    drawn: set[int] = set()

    def visit(number: int, depth: int) -> None:
        node = nodes[number]
        again = number in drawn and node["joins"] is not None
        rows.append(_join_row(node, depth, matches["is_measured"], again))
        drawn.add(number)
        if node["joins"] is not None and not again:
            for child in node["joins"]:
                visit(child, depth + 1)

    for clause in matches["clauses"]:
        if clause["node"] is not None:
            visit(clause["node"], 0)
    return rows


def _join_row(node: Value, depth: int, is_measured: bool, again: bool) -> Row:
    name = "  " * depth + f"#{node['number']} " + ", ".join(node["names"])
    if again:
        return name, "see above", "", ""
    numbers = partial_matches(node, is_measured)
    held = "; ".join(held_between(node))
    others = node["shared_with"]
    shared = f"shared with {', '.join(others[:5])}" if others else ""
    shared += f" and {len(others) - 5:,} more" if len(others) > 5 else ""
    return name, numbers, held, shared


def partial_matches(node: Value, is_measured: bool) -> str:
    """A node's estimated number of partial matches, and the actual one."""
    made = f", {node['made']:,} made" if is_measured and node["made"] is not None else ""
    return f"{node['estimated']:,.0f} estimated{made}"


def held_between(node: Value) -> list[str]:
    """The conditions of a join on its two sides, as a query would write them."""
    orders = [f"{a} before {b}" for a, b in node["before"]]
    return [*orders, *node["asked"], *node["guards"]]


def _strategy_rows(value: Value) -> list[Row]:
    rows: list[Row] = [(value["strategy"], value["strategy_means"])]
    return [*rows, ("because", value["strategy_why"])] if value["strategy_why"] else rows


def _sharing_sections(sharing: Value) -> list[Section]:
    """What the query shares and with which queries, or why it shares nothing."""
    if "alone" in sharing:
        return [_section("alone", [(sharing["alone"],)])]
    if not sharing:
        return []
    if "path" in sharing:
        return _path_sections(sharing)
    pane = sharing["pane"]
    length = "the whole input" if pane is None else _length(pane, WindowUnit.MICROSECONDS)
    return [
        _section("shares", [_pair_row(pair) for pair in sharing["with"]]),
        _section("bursts", [_burst_row(each) for each in sharing["sub_patterns"]]),
        _section("panes", [(length, "gcd of all window lengths and slides; bursts end at pane boundaries")]),
        _section(
            "template", [(f"{t['from']} → {t['to']}", ", ".join(t["queries"])) for t in sharing["template"]]
        ),
    ]


def _path_sections(sharing: Value) -> list[Section]:
    """The path through GLORIA's graph: what each transition shares, and the alternatives."""
    return [
        _section("sharing", [gain_row(sharing)]),
        _section("path", [pool_row(pool) for pool in sharing["path"]]),
        _section("instead", [row for pool in sharing["path"] for row in other_rows(pool)]),
    ]


def _pair_row(pair: Value) -> Row:
    if not pair["types"]:
        return pair["query"], "nothing", pair["why_not"]
    return pair["query"], ", ".join(f"{name}+" for name in pair["types"]), ", ".join(pair["aggregates"])


def _burst_row(each: Value) -> Row:
    return f"of {each['type']}", f"{each['type']}+ of {', '.join(each['queries'])}"


def _partition_rows(partition: Value) -> list[Row]:
    if not partition["attributes"]:
        return []
    each = "value" if len(partition["attributes"]) == 1 else "combination of values"
    means = f"a separate stream per {each}; events with a null there are skipped"
    return [(", ".join(partition["attributes"]), means), ("from", " AND ".join(partition["from"]))]


def _key_row(key: Value) -> Row:
    if key["kind"] == "plain":
        return key["key"], "plain", "partitions all events; null is a group of its own"
    own = ", ".join(key["own_types"])
    copied = ", ".join([*key["copied_types"], *["all other types"] * key["copies_other_types"]])
    parts = ["a separate stream per value"]
    parts += [f"{own}: only in the stream of their value"] if own else []
    parts += [f"{copied}: copied to every stream"] if copied else []
    return key["key"], "qualified", "; ".join(parts)


ROUTES = {
    "stretches": "if the parts of the source are in time order: each is folded in place, and only matrices "
    "are shuffled",
    "by partition": "shuffle key: {}",
    "split in time": "if one key has more rows than a core's share: rows are shuffled by time",
}


def _spark_rows(spark: Value) -> list[Row]:
    keys = ", ".join(spark["shuffle_by"]) or "none; one task folds all rows"
    return [
        (spark["mode"], spark["why"]),
        *((route, ROUTES[route].format(keys)) for route in spark["routes"]),
    ]


def _window_rows(window: Value) -> list[Row]:
    if window["kind"] == "none":
        return [("none", "one window over the whole input")]
    length = _length(window["length"], window["unit"])
    if window["kind"] == "per-trend":
        period = _length(window["slide"], window["unit"]) if window["slide"] else ""
        where = f"in the period of {period} that holds its last event" if period else "in the only row"
        means = f"a trend shorter than {length} counts once, {where}"
        return [("per trend", means), *(("folded", FOLDED_BY_END[way]) for way in window.get("folded", ()))]
    if window["kind"] == "per-event":
        means = f"one window (t - {length}, t] for each time t at which a trend can end"
        overlap = ("overlap", f"one window per such time within {length}")
        return [("per-event", means), overlap, *_folded_rows(window)]
    slide, pane = _length(window["slide"], window["unit"]), _length(window["pane"], window["unit"])
    return [
        (window["kind"], f"{length} long, a new one every {slide}"),
        ("pane", f"{pane} = gcd(length, slide); {plural(window['panes_per_window'], 'pane')} per window"),
        ("overlap", _overlap(*window["windows_per_event"])),
        *_folded_rows(window),
    ]


FOLDED = {
    "stretches": "overlapping windows can share the stretches between their edges (two-stack aggregation): "
    "an event then costs the same in any number of windows; explain with data says whether that is cheaper",
    "trees": "overlapping windows can pass through the same trees in batches: neighbours are then looked up "
    "once per batch; explain with data says whether that is cheaper",
    "together": "every open window is a lane, next to the lanes of the other queries in its group",
    "nothing": "every window on its own: an event is folded once per window it is in",
}


FOLDED_BY_END = {
    "stretches": "by the moments at which trends may end: what ends at t is counted in (t - w, t]; these "
    "windows share their stretches (two-stack aggregation), except where a NOT at an end leaves out trends",
    "nothing": "by the moments at which trends may end, each on its own: an event is folded once per such "
    "moment within w; built trends are built once, from their first events",
}


def _folded_rows(window: Value) -> list[Row]:
    return [("folded", FOLDED[way]) for way in window.get("folded", ())]


def _overlap(least: int, most: int) -> str:
    if least == most:
        return f"every event is in {plural(most, 'window')}"
    if least == 0:
        return "an event is in 1 window, or in the gap between two"
    return f"every event is in {least:,} or {most:,} windows"


def _length(length: int, unit: str) -> str:
    """A window length in query syntax."""
    if unit == WindowUnit.EVENTS:
        return plural(length, "event")
    for word, microseconds in _UNITS_US.items():
        if length % microseconds == 0:
            return f"{length // microseconds} {word}"
    return f"{length // 1_000}.{length % 1_000:03d} ms"


def _operand_sections(operand: Value, value: Value) -> list[Section]:
    name = names_of(operand)
    return [
        _section("positions", map(_position_row, operand["positions"])),
        _section("edges", [_edge_row(edge, operand, name) for edge in operand["edges"]]),
        _section("predicates", _predicate_rows(operand["predicates"], name)),
        _section("found by", [_access_row(access, name) for access in operand["accesses"]]),
        _section("guards", _guard_rows(operand["guards"], name)),
        _section("grain", [(name[g["place"]], g["grain"], g["why"]) for g in operand["grains"]]),
        _section("carried", _carried_rows(operand["carried"], name)),
        _section("state", _state_rows(operand["state"], name)),
        _section("cost", _cost_rows(operand, value, name)),
    ]


Names = dict[int | str, str]


def names_of(operand: Value) -> Names:
    """Place names: number and alias, or type if there is no alias."""
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
        where = f"on {on}" if on else "never: these positions are never adjacent"
        where += "; without NEXT, because these are always neighbours" if pair["always"] else ""
        rows.append(("adjacency", pair["text"], where))
    for pair in predicates["cross"]:
        between = f"any {_at(pair['left'], name)} and any {_at(pair['right'], name)} of a trend"
        rows.append(("cross", pair["text"], between))
    rows += [("idle", pair["text"], "never: no trend has both") for pair in predicates["idle"]]
    for pair in predicates.get("beside_not", ()):
        between = f"an event at {_at(pair['negated'], name)} breaks only if it holds with the one next to it"
        rows.append(("beside NOT", pair["text"], between))
    return rows


def _access_row(access: Value, name: Names) -> Row:
    asked = " AND ".join(access["predicates"]) or "no predicate"
    if access["guard"] is not None:
        asked += f"; guard {access['guard']}"
    return name[access["place"]], asked, access["structure"], f"{access['bound']} per event", access["why"]


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
            return f"splits the counts at {where} by its progress"
        case "by binding time":
            return f"at {where}: {way['why']}"
    return str(way["why"])


def _carried_rows(carried: Value, name: Names) -> list[Row]:
    rows: list[Row] = []
    for sort, items in (("number", carried["numbers"]), ("extreme", carried["extremes"])):
        for item in items:
            where = f"at {_at(item['positions'], name)}" if item["positions"] else ""
            users = f"for {', '.join(item['for'])}" if item["for"] else "always: the other aggregates need it"
            rows.append((sort, item["what"], where, users))
    return rows


def _state_rows(state: Value | None, name: Names) -> list[Row]:
    if state is None:
        return [("every partial trend: grows with events, up to limits.trends",)]
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
    """The size of the state vectors, as a formula."""
    vector = f"{plural(state['numbers'], 'number')} × {NUMBER_BYTES} bytes"
    if state["extremes"]:
        vector = f"({vector} + {plural(state['extremes'], 'extreme')} × {EXTREME_BYTES} bytes)"
    return f"{plural(state['states'], 'state')} × {vector} = {state['bytes']:,} bytes"


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
        return "breaks adjacency" if is_contiguous else "skipped"
    guard = {p["index"]: p["guard"] for p in operand["positions"]}
    taken = [p for p in cost["takes"] if guard[p] is None]
    parts = [f"takes {_at(taken, name)}"] if taken else []
    for number in sorted({guard[p] for p in cost["takes"]} - {None}):
        how = operand["guards"][number]["judged"][0]["how"]
        acts = {"never": "breaks adjacency", "by moments": f"may break guard {number}"}
        parts.append(acts.get(how, f"advances guard {number}"))
    if cost["reads"]:
        which = "the last moment's bindings" if is_contiguous else "every binding"
        asks = f"scans {which} at" if cost["cost"] == "O(bindings)" else "looks up bindings by value at"
        parts.append(f"{asks} {_at(cost['reads'], name)}")
    return "; ".join(parts)
