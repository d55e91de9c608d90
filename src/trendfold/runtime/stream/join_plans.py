"""The join plans that a shard follows from one release of matches to the next."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from trendfold.detect.running_plan import RunningPlan
from trendfold.runtime.stream.shard_state import ShardIndex, Store


@dataclass
class JoinPlans:
    """The plans of one exchange, by the first of the queries that are joined together.

    Plans change what a release costs, never its rows: a shard without one makes one.
    """

    store: Store
    index: ShardIndex
    exchange: int
    _stored: dict[str, RunningPlan] = field(default_factory=dict)
    running: dict[str, RunningPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.index.join_plans.get(self.exchange)
        if known is not None:
            value = json.loads(self.store.get(known[0]))
            self._stored = {name: RunningPlan.from_value(each) for name, each in value.items()}
            self.running = dict(self._stored)

    def write(self) -> None:
        """Store the plans that have changed."""
        if self.running != self._stored:
            self.index.forget_join_plans(self.store, self.exchange)
            value = {name: each.to_value() for name, each in self.running.items()}
            payload = json.dumps(value, separators=(",", ":")).encode()
            self.index.join_plans[self.exchange] = [self.index.put(self.store, payload), len(payload)]
