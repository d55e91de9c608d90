"""RETURN MATCHES explained: clauses, the multitree with what is shared, orders, and partial matches.

Before any event was seen, rates are taken to be equal; with data, estimates stand beside what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Predicates, between_names
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Query
from trendfold.query.printer import expression_text

if TYPE_CHECKING:
    from trendfold.detect.clauses import Clause
    from trendfold.detect.family import Family, Joins
    from trendfold.detect.multitree import Multitree, Node
    from trendfold.detect.plans import Workplan
    from trendfold.detect.statistics import Statistics

Value = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """A family's joins as they are planned; `made` has the partial matches of every node, if it was run."""

    family: Family
    joins: Joins
    workplan: Workplan
    statistics: Statistics
    made: Mapping[int, int] | None = None


def draw(plans: Iterable[QueryPlan]) -> list[Drawing]:
    """What would be joined, before any event was seen."""
    # Imported here: planning a search loads nothing that an aggregate query needs.
    from trendfold.detect.family import families, read_joins
    from trendfold.detect.plans import Search
    from trendfold.detect.statistics import assumed

    found = []
    for family in families(plans):
        joins = read_joins(family)
        statistics = assumed(joins.patterns, len(joins.leaves))
        found.append(Drawing(family, joins, Search(_SEARCH_S)(joins.patterns, statistics), statistics))
    return found


_SEARCH_S = 0.5


def match_values(drawings: Iterable[Drawing]) -> dict[str, Value]:
    """Per query: its clauses and its part of the multitree, as JSON can hold it."""
    found: dict[str, Value] = {}
    for drawing in drawings:
        tree, planned = drawing.workplan.lay_out(drawing.joins.patterns)
        users, costs = _users(drawing, planned), _estimates(drawing, tree)
        for q, plan in enumerate(drawing.family.plans):
            own = [i for i, (owner, _) in enumerate(drawing.joins.clauses) if owner == q]
            clauses = drawing.family.clauses[q]
            roots = {drawing.joins.clauses[i][1]: planned[i].root for i in own}
            columns: dict[int, tuple[int, ...]] = {}
            for i in own:
                _name_columns(tree, planned[i].root, _positions(drawing, i, planned[i].columns), columns)
            found[plan.query.name] = {
                "clauses": [_clause(drawing, clause, roots.get(k)) for k, clause in enumerate(clauses)],
                "nodes": [
                    _node(drawing, tree.nodes[n], columns[n], users[n] - {plan.query.name}, costs[n])
                    for n in sorted(columns)
                ],
                "is_measured": drawing.made is not None,
            }
    return found


def _positions(drawing: Drawing, number: int, columns: Sequence[int]) -> tuple[int, ...]:
    """The positions that the columns of a pattern's root are."""
    query, clause = drawing.joins.clauses[number]
    elements = drawing.family.clauses[query][clause]
    return tuple(min(elements.elements[elements.fixed[column]].positions) for column in columns)


def _name_columns(
    tree: Multitree, number: int, columns: tuple[int, ...], found: dict[int, tuple[int, ...]]
) -> None:
    """The positions of all columns under a node; those of the first clause that has it."""
    node = tree.nodes[number]
    found.setdefault(number, columns)
    if not node.is_leaf:
        cut = len(tree.nodes[node.left].leaves)
        _name_columns(tree, node.left, columns[:cut], found)
        _name_columns(tree, node.right, columns[cut:], found)


def _users(drawing: Drawing, planned: Sequence[Any]) -> dict[int, set[str]]:
    users: dict[int, set[str]] = {}
    for pattern, plan in zip(drawing.joins.patterns, planned, strict=True):
        for node in plan.nodes:
            users.setdefault(node, set()).add(pattern.name)
    return users


def _clause(drawing: Drawing, clause: Clause, root: int | None) -> Value:
    """One clause: its elements in the order written, what is walked, and the node it comes from."""
    positions = drawing.family.machine.automaton.positions
    elements = []
    for element in clause.elements:
        names = [positions[p].alias or positions[p].type for p in sorted(element.positions)]
        how = "first event joined, others walked" if element.is_kleene else "walked"
        elements.append({"names": list(dict.fromkeys(names)), "how": how if element.is_walked else "joined"})
    before = sorted(clause.before)
    return {"elements": elements, "before": [list(pair) for pair in before], "node": root}


def _node(drawing: Drawing, node: Node, columns: tuple[int, ...], others: set[str], estimate: float) -> Value:
    """One node as its query writes it: aliases, what must hold between them, and how many there are."""
    machine = drawing.family.machine
    positions = [machine.automaton.positions[p] for p in columns]
    names = [position.alias or position.type for position in positions]
    before = [(names[a], names[b]) for kind, _, a, b in node.between if kind == "before"]
    asked = [
        _condition(machine.predicates, number, names[a], names[b])
        for kind, number, a, b in node.between
        if kind == "asked"
    ]
    return {
        "number": node.number,
        "joins": None if node.is_leaf else [node.left, node.right],
        "names": names,
        "types": [position.type for position in positions],
        "before": [list(pair) for pair in before],
        "asked": asked,
        "guards": [_guard(machine, number) for kind, number, *_ in node.between if kind == "guard"],
        "shared_with": sorted(others),
        "estimated": round(estimate, 1),
        "made": None if drawing.made is None or node.is_leaf else drawing.made.get(node.number, 0),
    }


def _guard(machine: Machine, number: int) -> str:
    """A NOT by the types it is about."""
    automaton = machine.automaton
    return f"NOT {', '.join(automaton.positions[p].type for p in automaton.guards[number].positions)}"


def _condition(predicates: Predicates, number: int, left: str, right: str) -> str:
    is_adjacency = number < len(predicates.adjacency)
    pair = (*predicates.adjacency, *predicates.cross)[number]
    return expression_text(between_names(pair.condition, left, right, is_adjacency=is_adjacency))


def _estimates(drawing: Drawing, tree: Multitree) -> dict[int, float]:
    """Partial matches over all rows, per node.

    C(S) of k events are in a window; where windows are short, k times as many begin as long as one lasts.
    """
    from trendfold.detect.cost import Priced
    from trendfold.detect.search import PlanState

    statistics = drawing.statistics
    priced = [Priced(pattern, statistics, look=0.0) for pattern in drawing.joins.patterns]
    if not priced:
        return {}
    state = PlanState(priced, list(drawing.workplan.trees), type(tree)(drawing.workplan.shares))
    found = {}
    for node in tree.in_use():
        windows = statistics.span / statistics.window(tree.window(node.number))
        in_window = state.node_cost(node.number, tree.windows[node.number])
        begin = 1 + (len(node.leaves) - 1) * (1 - statistics.segments / windows)
        found[node.number] = in_window * windows * begin
        if node.is_leaf:
            found[node.number] = statistics.rates[node.leaves[0]] * statistics.span
    return found


@dataclass(frozen=True, slots=True)
class Traced:
    """A plan for matches, and what is known about how they are found."""

    plan: QueryPlan
    matches: Value

    @property
    def query(self) -> Query:
        """What is asked."""
        return self.plan.query


def traced(plans: Sequence[QueryPlan], drawings: Sequence[Drawing] | None = None) -> dict[str, Traced]:
    """The plans that find matches, by query; as drawn, or as they would be before any event was seen."""
    mine = [plan for plan in plans if plan.finds_matches]
    values = match_values(draw(mine) if drawings is None else drawings)
    return {plan.query.name: Traced(plan, values[plan.query.name]) for plan in mine}
