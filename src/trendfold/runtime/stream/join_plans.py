"""The join plans that a shard follows from one release of matches to the next, and open partial matches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import pyarrow as pa

from trendfold.detect.running_plan import RunningPlan
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.shard_state import OpenJoins, ShardIndex, Store


@dataclass
class JoinPlans:
    """The plans of one exchange, by the first of the queries that are joined together.

    Plans and partial matches change what a release costs, never its rows: a shard without them makes them.
    """

    store: Store
    index: ShardIndex
    exchange: int
    running: dict[str, RunningPlan] = field(default_factory=dict)
    _stored: dict[str, RunningPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.index.join_plans.get(self.exchange)
        if known is not None:
            value = json.loads(self.store.get(known[0]))
            self._stored = {name: RunningPlan.from_value(each) for name, each in value.items()}
            self.running = self._with_open(self._stored)

    def _with_open(self, plans: dict[str, RunningPlan]) -> dict[str, RunningPlan]:
        kept = self.index.open_joins.get(self.exchange)
        if kept is None:
            return dict(plans)
        sizes = [prod(shape) for shapes in kept.shapes.values() for shape in shapes]
        numbers = layout.from_bytes(self.store.get(kept.number)).column(0).to_numpy().astype(np.int64)
        parts = iter(np.split(numbers, np.cumsum(sizes)[:-1]))
        opened = {
            name: tuple(next(parts).reshape(shape) for shape in shapes)
            for name, shapes in kept.shapes.items()
        }
        return {name: replace(plan, open=opened.get(name), until=kept.until) for name, plan in plans.items()}

    def write(self) -> None:
        """Store what has changed."""
        if self.running != self._stored:
            self.index.forget_plans(self.store, self.exchange)
            value = {name: each.to_value() for name, each in self.running.items()}
            payload = json.dumps(value, separators=(",", ":")).encode()
            self.index.join_plans[self.exchange] = [self.index.put(self.store, payload), len(payload)]
        self.index.forget_open(self.store, self.exchange)
        until = max((plan.until for plan in self.running.values()), default=0)
        kept = {name: plan for name, plan in self.running.items() if plan.until == until}
        opened = {name: plan.open for name, plan in kept.items() if plan.open is not None}
        if opened:
            numbers = [table.reshape(-1) for tables in opened.values() for table in tables]
            none = np.zeros(0, np.int64)
            payload = layout.to_bytes(pa.table({"event": np.concatenate([none, *numbers])}))
            shapes = {name: [list(table.shape) for table in tables] for name, tables in opened.items()}
            number = self.index.put(self.store, payload)
            self.index.open_joins[self.exchange] = OpenJoins(number, len(payload), until, shapes)
