"""The physical plan of a run as a plain value: a step per query or group, with its way, reason and cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any

from trendfold.errors import plural
from trendfold.plan.logical import Group, QueryPlan
from trendfold.plan.physical import NAMES, Combined, Fold, SharedPlan
from trendfold.plan.stream_statistics import NamedStatistics

WIDTH = 100
_WAYS: dict[str, type[Fold]] = {way.__name__: way for way in NAMES}


@dataclass(frozen=True, slots=True)
class FoldStep:
    """One fold: its queries, its way, and the resources it used.

    rows     rows folded
    seconds  time to read, choose and fold, summed over tasks
    bytes    state held by the fold, the maximum over tasks
    tasks    number of Spark tasks that ran this step
    counts   counters of the fold: bursts, snapshots, partial matches, ...
    statistics  of matches: the rates and selectivities that were measured
    """

    queries: tuple[str, ...]
    way: Fold
    rows: int = 0
    seconds: float = 0.0
    bytes: int = 0
    tasks: int = 1
    counts: Mapping[str, int] = field(default_factory=dict)
    statistics: NamedStatistics = field(default_factory=NamedStatistics)

    def __str__(self) -> str:
        took = [plural(self.rows, "row"), f"{self.seconds:.3f} s", size_text(self.bytes)]
        if self.tasks > 1:
            took.append(plural(self.tasks, "task"))
        took += [plural(n, what.removesuffix("s")) for what, n in self.counts.items() if n]
        names = textwrap.shorten(", ".join(self.queries), WIDTH - 20, placeholder=" ...")
        if len(self.queries) > 1:
            names = f"{names} ({len(self.queries)})"
        lines = [f"{names}: {way_name(self.way)}", f"    {', '.join(took)}", f"    because {self.way.why}"]
        if isinstance(self.way, Combined):
            lines += [f"    operand {i}: {way_name(w)}: {w.why}" for i, w in enumerate(self.way.operands)]
        return "\n".join(lines)

    def plus(self, other: FoldStep) -> FoldStep:
        """Merge the same step of two tasks."""
        counts = {k: self.counts.get(k, 0) + other.counts.get(k, 0) for k in {**self.counts, **other.counts}}
        return replace(
            self,
            rows=self.rows + other.rows,
            seconds=self.seconds + other.seconds,
            bytes=max(self.bytes, other.bytes),
            tasks=self.tasks + other.tasks,
            counts=counts,
            statistics=self.statistics.plus(other.statistics, other.rows / max(self.rows + other.rows, 1)),
        )


def way_name(way: Fold) -> str:
    """The name of a way, with its parameters."""
    name = NAMES[type(way)]
    if isinstance(way, SharedPlan):
        return f"{name} of {way.method}"
    windows = getattr(way, "windows", 1)
    return f"{name}, {windows} windows at once" if windows > 1 else name


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """The steps of a run, in execution order."""

    steps: tuple[FoldStep, ...] = ()

    def __iter__(self) -> Iterator[FoldStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def _repr_html_(self) -> str:
        heads = "".join(
            f'<th scope="col">{name}</th>' for name in ("queries", "way", "why", "rows", "s", "state")
        )
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(step))}</tr>" for step in self.steps
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"

    @property
    def statistics(self) -> NamedStatistics:
        """The rates and selectivities that joins measured."""
        found, rows = NamedStatistics(), 0
        for step in self.steps:
            rows += step.rows
            found = found.plus(step.statistics, step.rows / max(rows, 1))
        return found

    def of(self, query: str) -> tuple[FoldStep, ...]:
        """The steps of one query."""
        return tuple(step for step in self.steps if query in step.queries)

    def applied_to(self, plans: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
        """Plans of a workload, with the shared plans that these steps chose for their groups."""
        chosen = {step.queries[0]: step.way for step in self.steps if isinstance(step.way, SharedPlan)}
        return tuple(p if p.group is None else _as_chosen(p, p.group, chosen.get(p.group.key)) for p in plans)

    def with_details(self, plans: Sequence[QueryPlan]) -> PhysicalPlan:
        """Steps that tasks told of, with the shared plans that were made before them."""
        made = {p.group.key: p.group.details for p in plans if p.group is not None and p.group.fitted_by}
        return PhysicalPlan(
            tuple(
                replace(step, way=replace(step.way, details=made[step.queries[0]]))
                if isinstance(step.way, SharedPlan) and step.queries[0] in made
                else step
                for step in self.steps
            )
        )

    @property
    def counts(self) -> dict[str, int]:
        """The counters of all steps, summed."""
        total: dict[str, int] = {}
        for step in self.steps:
            for what, count in step.counts.items():
                total[what] = total.get(what, 0) + count
        return total


def _as_chosen(plan: QueryPlan, group: Group, way: SharedPlan | None) -> QueryPlan:
    if way is None or way.details is None:
        return plan
    return replace(plan, group=replace(group, method=way.method, details=way.details))


def _cells(step: FoldStep) -> tuple[str, ...]:
    names = textwrap.shorten(", ".join(step.queries), WIDTH // 2, placeholder=" ...")
    took = f"{step.rows:,}", f"{step.seconds:.3f}", size_text(step.bytes)
    return names, way_name(step.way), step.way.why, *took


def merged(steps: Iterable[FoldStep]) -> PhysicalPlan:
    """Merge the steps of many tasks, adding up equal ones."""
    found: dict[tuple[tuple[str, ...], str, str], FoldStep] = {}
    for step in steps:
        key = step.queries, way_name(step.way), step.way.why
        found[key] = found[key].plus(step) if key in found else step
    return PhysicalPlan(tuple(found.values()))


# ---------------------------------------------------------------- as JSON, from tasks to the driver


def to_value(step: FoldStep) -> dict[str, Any]:
    """A step as a JSON value; the details of a shared plan are left out."""
    return {
        "queries": list(step.queries),
        "way": _way_value(step.way),
        "rows": step.rows,
        "seconds": step.seconds,
        "bytes": step.bytes,
        "tasks": step.tasks,
        "counts": dict(step.counts),
        "statistics": step.statistics.to_value() if step.statistics else None,
    }


def from_value(value: Mapping[str, Any]) -> FoldStep:
    """Read a step from its JSON value."""
    known = NamedStatistics(**(value.get("statistics") or {}))
    given = {"queries": tuple(value["queries"]), "way": _way(value["way"]), "statistics": known}
    return FoldStep(**{**value, **given})


def _way_value(way: Fold) -> dict[str, Any]:
    found: dict[str, Any] = {each.name: getattr(way, each.name) for each in fields(way)}
    if isinstance(way, SharedPlan):
        found["details"] = found["running"] = None
    if isinstance(way, Combined):
        found["operands"] = [_way_value(each) for each in way.operands]
    return {"name": type(way).__name__, **found}


def _way(value: Mapping[str, Any]) -> Fold:
    given = {name: each for name, each in value.items() if name != "name"}
    if "operands" in given:
        given["operands"] = tuple(map(_way, given["operands"]))
    return _WAYS[value["name"]](**given)


def size_text(count: int) -> str:
    """A number of bytes in a readable unit."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return plural(count, "byte")
