"""Statistics of joins by name, so that one run's can be given to the next, whatever its numbers mean there.

A leaf is named like a pattern of one event, `Transfer WHERE [user] AND Transfer.amount > 100`, a pair of
leaves like a pattern of two, `SEQ(Login a, Login b) WHERE a.place = b.place`. Windows are no part of a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.predicates import between_names
from trendfold.detect.join_statistics import JoinStatistics, LeafPair
from trendfold.detect.joint_queries import ClauseJoins, JointQueries, leaf_pairs
from trendfold.detect.pattern import Relation
from trendfold.plan.join_planning import JoinPlanning
from trendfold.plan.stream_statistics import NamedStatistics
from trendfold.query.nodes import WindowUnit
from trendfold.query.printer import expression_text


@dataclass(frozen=True)
class StatisticNames:
    """Names the leaves of joint queries and their pairs."""

    joint: JointQueries
    joins: ClauseJoins
    is_counted: bool
    """Whether windows count events."""

    def named(self, found: JoinStatistics, query: str | None = None) -> NamedStatistics:
        """Measured statistics by name: all, or those of one query."""
        own = [pattern for pattern in self.joins.patterns if query in (None, pattern.name)]
        leaves = dict.fromkeys(leaf for pattern in own for leaf in pattern.leaves)
        rates = {self._leaf(leaf): found.rates[leaf] / self._unit for leaf in leaves}
        asked = (pair for pair in leaf_pairs(own) if _asks(pair[2]))
        pairs = {self._pair(pair): found.selectivity[pair] for pair in asked}
        return NamedStatistics({}, rates, pairs) if self.is_counted else NamedStatistics(rates, {}, pairs)

    def with_rates(self, measured: JoinStatistics, planning: JoinPlanning) -> JoinStatistics:
        """The statistics with the rates that are known: those of a type, or those of a leaf's name."""
        named = planning.known.shares if self.is_counted else planning.known.rates
        of_type = dict(planning.rates)
        if not named and not of_type:
            return measured

        def known(leaf: int, rate: float) -> float:
            rate = named.get(self._leaf(leaf), rate / self._unit)
            return of_type.get(self._label(leaf), rate) * self._unit

        return replace(measured, rates=tuple(known(*each) for each in enumerate(measured.rates)))

    def known_pairs(self, known: NamedStatistics) -> dict[LeafPair, float]:
        """The selectivities that are known."""
        if not known.selectivities:
            return {}
        named = ((pair, self._pair(pair)) for pair in leaf_pairs(self.joins.patterns) if _asks(pair[2]))
        return {pair: known.selectivities[name] for pair, name in named if name in known.selectivities}

    @property
    def _unit(self) -> float:
        return 1.0 if self.is_counted else _PER_SECOND

    def _label(self, leaf: int) -> str:
        return self.joint.machine.automaton.positions[self.joins.leaves[leaf]].label

    def _leaf(self, leaf: int) -> str:
        label = self._label(leaf)
        return f"{label}{_where([*self._keys, *self._local(leaf, label)])}"

    @property
    def _keys(self) -> list[str]:
        return [f"[{', '.join(self.joint.merged.partition)}]"] if self.joint.merged.partition else []

    def _local(self, leaf: int, name: str) -> list[str]:
        return self._wanted(self.joins.leaves[leaf], name)

    def _wanted(self, position: int, name: str) -> list[str]:
        """The conditions on an event at a position, of which it is said by this name."""
        asked = self.joint.machine.predicates.wanted_at(position)
        return [expression_text(between_names(each, name, name, is_adjacency=False)) for each in asked]

    def _pair(self, pair: LeafPair) -> str:
        a, b, relation = pair
        if not relation.order and (self._leaf(b), b) < (self._leaf(a), a):
            a, b, relation = b, a, relation.flipped()
        labels = self._label(a), self._label(b)
        x, y = labels if labels[0] != labels[1] else ("a", "b")
        shown = [
            label if label == name else f"{label} {name}" for label, name in zip(labels, (x, y), strict=True)
        ]
        nots, of_nots = self._nots(relation)
        asked = [self._condition(number, *((y, x) if back else (x, y))) for number, back in relation.asked]
        parts = ", ".join([shown[0], *nots, shown[1]])
        own = [*self._keys, *self._local(a, x), *self._local(b, y), *of_nots, *asked]
        return f"{'SEQ' if relation.order else 'AND'}({parts}){_where(own)}"

    def _nots(self, relation: Relation) -> tuple[list[str], list[str]]:
        """The NOTs between two leaves, and the conditions on their events."""
        automaton, nots, asked = self.joint.machine.automaton, [], []
        for number, _ in relation.guards:
            positions = automaton.guards[number].positions
            labels = [automaton.positions[p].label for p in positions]
            nots.append(f"NOT {labels[0]}" if len(labels) == 1 else f"NOT SEQ({', '.join(labels)})")
            asked += [
                text for p, label in zip(positions, labels, strict=True) for text in self._wanted(p, label)
            ]
        return nots, asked

    def _condition(self, number: int, left: str, right: str) -> str:
        predicates = self.joint.machine.predicates
        pair = (*predicates.adjacency, *predicates.cross)[number]
        if isinstance(pair.condition, NoneBetween) or pair.text:
            return pair.text
        return expression_text(between_names(pair.condition, left, right, is_adjacency=False))


def statistic_names(joint: JointQueries, joins: ClauseJoins) -> StatisticNames:
    """The names for joint queries: all of them have windows of time, or all have windows of events."""
    window = joint.plans[0].query.window
    is_counted = window is not None and window.unit is WindowUnit.EVENTS
    return StatisticNames(joint, joins, is_counted)


_PER_SECOND = 1e-6
"""Times are microseconds."""


def _asks(relation: Relation) -> bool:
    return bool(relation.asked or relation.guards)


def _where(conditions: Iterable[str]) -> str:
    found = " AND ".join(conditions)
    return f" WHERE {found}" if found else ""
