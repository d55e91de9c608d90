"""RETURN MATCHES explained: clauses, the multitree with its shared nodes, orders, and partial matches.

Without data, all rates are assumed to be equal; with data, estimates are shown beside measured numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Predicates, between_names
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Query
from trendfold.query.printer import expression_text

if TYPE_CHECKING:
    from trendfold.detect.clauses import Clause
    from trendfold.detect.join_statistics import JoinStatistics
    from trendfold.detect.joint_queries import ClauseJoins, JointQueries
    from trendfold.detect.multitree import JoinNode, Multitree, Planned
    from trendfold.detect.named_statistics import StatisticNames
    from trendfold.detect.workplan import Workplan

Value = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """The planned joins of joint queries."""

    joint: JointQueries
    joins: ClauseJoins
    workplan: Workplan
    statistics: JoinStatistics
    names: StatisticNames
    made: Mapping[int, int] | None = None
    """The partial matches that every node made, if the plan was run."""


def draw(plans: Iterable[QueryPlan]) -> list[Drawing]:
    """The joins as they are planned without data."""
    # Imported here: explaining an aggregate query needs neither numpy nor numba.
    from trendfold.detect.join_statistics import assumed_statistics
    from trendfold.detect.joint_queries import joint_queries, read_joins
    from trendfold.detect.named_statistics import statistic_names
    from trendfold.papers.mcep.plan import PlanSearch

    found = []
    for joint in joint_queries(plans):
        joins = read_joins(joint)
        statistics = assumed_statistics(joins.patterns, len(joins.leaves))
        workplan = PlanSearch(_SEARCH_S)(joins.patterns, statistics)
        found.append(Drawing(joint, joins, workplan, statistics, statistic_names(joint, joins)))
    return found


_SEARCH_S = 0.5


def match_values(drawings: Iterable[Drawing]) -> dict[str, Value]:
    """Per query: its clauses and its part of the multitree, as JSON can hold it."""
    found: dict[str, Value] = {}
    for drawing in drawings:
        tree, planned = drawing.workplan.lay_out(drawing.joins.patterns)
        users, costs = _users(drawing, planned), _estimates(drawing, tree)
        for q, plan in enumerate(drawing.joint.plans):
            name = plan.query.name
            columns = _columns(drawing, tree, planned, q)
            nodes = [
                _node(drawing, tree.nodes[n], columns[n], users[n] - {name}, costs[n])
                for n in sorted(columns)
            ]
            found[name] = {
                "clauses": _clauses(drawing, planned, q),
                "nodes": nodes,
                "is_measured": drawing.made is not None,
                "planned": drawing.workplan.tried if nodes else "",
                "statistics": drawing.names.named(drawing.statistics, name).to_value(),
            }
    return found


def _clauses(drawing: Drawing, planned: Sequence[Planned], query: int) -> list[Value]:
    """The clauses of a query, each with the root of its joins."""
    roots = {clause: planned[i].root for i, (q, clause) in enumerate(drawing.joins.clauses) if q == query}
    clauses = drawing.joint.clauses[query]
    return [_clause(drawing, clause, roots.get(k)) for k, clause in enumerate(clauses)]


def _columns(
    drawing: Drawing, tree: Multitree, planned: Sequence[Planned], query: int
) -> dict[int, tuple[int, ...]]:
    """Per node of a query, the positions of its columns."""
    found: dict[int, tuple[int, ...]] = {}
    for i, (q, _) in enumerate(drawing.joins.clauses):
        if q == query:
            _name_columns(tree, planned[i].root, _positions(drawing, i, planned[i].columns), found)
    return found


def _positions(drawing: Drawing, number: int, columns: Sequence[int]) -> tuple[int, ...]:
    """The positions of the columns of a pattern's root."""
    query, clause = drawing.joins.clauses[number]
    elements = drawing.joint.clauses[query][clause]
    return tuple(min(elements.elements[elements.fixed[column]].positions) for column in columns)


def _name_columns(
    tree: Multitree, number: int, columns: tuple[int, ...], found: dict[int, tuple[int, ...]]
) -> None:
    """Add the positions of the columns of a node and of all nodes under it; the first clause's win."""
    node = tree.nodes[number]
    found.setdefault(number, columns)
    if not node.is_leaf:
        cut = len(tree.nodes[node.left].leaves)
        _name_columns(tree, node.left, columns[:cut], found)
        _name_columns(tree, node.right, columns[cut:], found)


def _users(drawing: Drawing, planned: Sequence[Planned]) -> dict[int, set[str]]:
    """Per node the queries that use it."""
    users: dict[int, set[str]] = {}
    for pattern, plan in zip(drawing.joins.patterns, planned, strict=True):
        for node in plan.nodes:
            users.setdefault(node, set()).add(pattern.name)
    return users


def _clause(drawing: Drawing, clause: Clause, root: int | None) -> Value:
    """One clause: its elements in the order written, how each is found, and the root of its joins."""
    positions = drawing.joint.machine.automaton.positions
    elements = []
    for element in clause.elements:
        names = [positions[p].alias or positions[p].label for p in sorted(element.positions)]
        how = "first event joined, others walked" if element.is_kleene else "walked"
        elements.append({"names": list(dict.fromkeys(names)), "how": how if element.is_walked else "joined"})
    before = sorted(clause.before)
    return {"elements": elements, "before": [list(pair) for pair in before], "node": root}


def _node(
    drawing: Drawing, node: JoinNode, columns: tuple[int, ...], others: set[str], estimate: float
) -> Value:
    """One node with the names of its query: aliases, the conditions between them, and partial matches."""
    machine = drawing.joint.machine
    positions = [machine.automaton.positions[p] for p in columns]
    names = [position.alias or position.label for position in positions]
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
        "types": [position.label for position in positions],
        "before": [list(pair) for pair in before],
        "asked": asked,
        "guards": [_guard(machine, number) for kind, number, *_ in node.between if kind == "guard"],
        "shared_with": sorted(others),
        "estimated": round(estimate, 1),
        "made": None if drawing.made is None or node.is_leaf else drawing.made.get(node.number, 0),
    }


def _guard(machine: Machine, number: int) -> str:
    """A NOT with the types of its events."""
    automaton = machine.automaton
    return f"NOT {', '.join(automaton.positions[p].label for p in automaton.guards[number].positions)}"


def _condition(predicates: Predicates, number: int, left: str, right: str) -> str:
    is_adjacency = number < len(predicates.adjacency)
    pair = (*predicates.adjacency, *predicates.cross)[number]
    if isinstance(pair.condition, NoneBetween) or pair.text:
        return pair.text
    return expression_text(between_names(pair.condition, left, right, is_adjacency=is_adjacency))


def _estimates(drawing: Drawing, tree: Multitree) -> dict[int, float]:
    """Expected partial matches over all rows, per node.

    C(S) is the number in one window; where windows are short, k times C(S) partial matches of k events begin
    in the time of one window.
    """
    from trendfold.detect.join_cost import price
    from trendfold.detect.plan_state import plan_state

    statistics = drawing.statistics
    priced = [price(pattern, statistics, look=0.0) for pattern in drawing.joins.patterns]
    if not priced:
        return {}
    state = plan_state(priced, drawing.workplan.trees, shares=drawing.workplan.shares)
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
    """A plan that returns matches, and its joins as `match_values` gives them."""

    plan: QueryPlan
    matches: Value

    @property
    def query(self) -> Query:
        """The query of the plan."""
        return self.plan.query


def traced(plans: Sequence[QueryPlan], drawings: Sequence[Drawing] | None = None) -> dict[str, Traced]:
    """The plans that return matches, by query; with their drawn joins, or those planned without data."""
    mine = [plan for plan in plans if plan.finds_matches]
    values = match_values(draw(mine) if drawings is None else drawings)
    return {plan.query.name: Traced(plan, values[plan.query.name]) for plan in mine}
