"""The queries of a stream whose events are folded as they become final (ADR 25)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from trendfold.plan import Group, QueryPlan
from trendfold.plan.logical import LANES
from trendfold.plan.spread import compared_attributes, segment_attributes
from trendfold.plan.workload import rows_key, windows_at_once
from trendfold.query.nodes import GroupKey, Semantics, TypeSet, Window
from trendfold.runtime.folds.continued_lanes import Family, families
from trendfold.runtime.folds.continued_neighbours import binding_families
from trendfold.runtime.workspace import Partitioning, partitioning


@dataclass(frozen=True)
class OnlineGroup:
    """Queries of an exchange with the same segments: lanes of one machine, with one state.

    name     the same as long as any of its queries is asked
    queries  their indices in the workload
    since    their first windows begin after this time, those of some that were added perhaps later
    """

    name: str
    queries: tuple[int, ...]
    plans: tuple[QueryPlan, ...]
    since: int

    @cached_property
    def group(self) -> Group:
        """The queries as a group that is folded together."""
        return Group("auto", LANES, self.plans)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """Queries of one shape with the same windows: their vectors lie side by side."""
        return binding_families(self.group) if self.compares else families(self.group)

    @cached_property
    def compares(self) -> bool:
        """Whether it is a query that compares neighbours; each is a group of its own."""
        return self.plans[0].compares_neighbours

    def of_kind(self, kind: int) -> tuple[Family, ...]:
        """The families that have windows of one kind."""
        return tuple(family for family in self.families if family.which == kind)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The distinct windows of its queries. The index of one is its kind."""
        return tuple(dict.fromkeys(_window(plan) for plan in self.plans))

    def members(self, kind: int) -> tuple[int, ...]:
        """The members that have windows of one kind, ascending."""
        return tuple(k for k, plan in enumerate(self.plans) if plan.query.window == self.windows[kind])

    def including_empty(self, kind: int) -> tuple[int, ...]:
        """Those of them that have rows without trends, too (INCLUDE EMPTY)."""
        return tuple(k for k in self.members(kind) if self.plans[k].query.includes_empty)

    def operands(self, kind: int) -> tuple[int, ...]:
        """The operands of these members, ascending; families number operands, not members."""
        return tuple(operand for member in self.members(kind) for operand in self.operands_of(member))

    def operands_of(self, member: int) -> range:
        """The numbers of a member's operands: several if its pattern is an AND."""
        return range(self._first_operand[member], self._first_operand[member + 1])

    def owner(self, operand: int) -> QueryPlan:
        """The query that has an operand."""
        return self.plans[bisect_right(self._first_operand, operand) - 1]

    @cached_property
    def _first_operand(self) -> tuple[int, ...]:
        return tuple(accumulate((len(plan.operands) for plan in self.plans), initial=0))

    @cached_property
    def operand_names(self) -> tuple[str, ...]:
        """What operands are called in the state: their query, and which one of an AND."""
        return tuple(
            f"{query}.{i}" if i else str(query)
            for query, plan in zip(self.queries, self.plans, strict=True)
            for i in range(len(plan.operands))
        )

    @property
    def partitioning(self) -> Partitioning:
        """The attributes whose values name a segment."""
        return partitioning(self.plans[0])

    @property
    def attributes(self) -> tuple[str, ...]:
        """The same, each once."""
        return segment_attributes(self.plans[0])

    @property
    def qualified(self) -> tuple[GroupKey, ...]:
        """The keys of GROUP BY T.g; their values split segments into streams."""
        return self.plans[0].qualified_keys

    @property
    def qualified_types(self) -> TypeSet:
        """The types of T's events; asked only where there is a T."""
        return self.plans[0].operands[0].machine.automaton.types_at(self.qualified[0].alias or "")

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The attributes of MIN and MAX."""
        return tuple(dict.fromkeys(name for plan in self.plans for name in compared_attributes(plan)))

    @cached_property
    def overlap(self) -> int:
        """The most windows of one query that hold an event."""
        return max(map(windows_at_once, self.plans))

    @cached_property
    def numbers(self) -> int:
        """How many numbers a segment takes while windows of all queries are open."""
        return sum(
            windows_at_once(self.plans[self.members(family.which)[0]])
            * sum(_product(size) for size in family.sizes(1))
            for family in self.families
        )


def _product(size: tuple[int, ...]) -> int:
    _, states, numbers, queries = size
    return states * numbers * queries


def _window(plan: QueryPlan) -> Window:
    assert plan.query.window is not None
    return plan.query.window


def _qualified(query: int, plan: QueryPlan) -> str:
    """What distinguishes queries with GROUP BY T.g; empty without."""
    if not plan.qualified_keys:
        return ""
    automaton = plan.operands[0].machine.automaton
    if rows_key(plan) is None:  # T's types stand elsewhere in the pattern too
        return f" of {query}"
    names = []
    for key in plan.query.group_by:
        types = automaton.types_at(key.alias).names if key.alias else None
        written = "ANY" if types is None else "|".join(sorted(types))
        names.append(f"{written}.{key.attribute}" if key.alias else key.attribute)
    return f" by {', '.join(names)}"


def online_groups(
    exchange: int, queries: Iterable[int], plans: Sequence[QueryPlan], since: Mapping[int, int]
) -> tuple[OnlineGroup, ...]:
    """The groups of some queries of an exchange: they have the same segments.

    Queries that compare neighbours are by themselves. *Contiguous* queries need all rows of a segment, so
    they are apart.
    """
    found: dict[str, list[int]] = {}
    for query in queries:
        strict, loose = partitioning(plans[query])
        kind = "all rows" if plans[query].query.semantics is Semantics.CONTIGUOUS else "own rows"
        kind += _qualified(query, plans[query])
        kind += f" neighbours of {query}" if plans[query].compares_neighbours else ""
        found.setdefault(f"{exchange} [{', '.join(strict)}] [{', '.join(loose)}] {kind}", []).append(query)
    return tuple(
        OnlineGroup(
            name,
            tuple(own),
            tuple(replace(plans[q], group=None, number=-1) for q in own),
            min(since[q] for q in own),
        )
        for name, own in found.items()
    )
