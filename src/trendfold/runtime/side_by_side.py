"""Queries of a group as lanes, windows included, in one pass over their rows (see kernel.together)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lower_together import Member, lower_together, work_of
from trendfold.kernel.program import Events, Folded, Together, WindowCuts
from trendfold.kernel.together import fold_together, no_burst, no_mass, state_bytes
from trendfold.plan import Group
from trendfold.plan.carried import union
from trendfold.plan.costs import Costs
from trendfold.plan.workload import windows_at_once
from trendfold.runtime.limits import Limits
from trendfold.runtime.windows import Items

if TYPE_CHECKING:
    from trendfold.runtime.groups import GroupRows


COUNTED = "bursts", "shared bursts", "snapshots", "splits", "merges"
"""What kernel.together counts, in its order."""


def fold_lanes(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...] | None:
    """All members at once; a burst acts as one where the cost table says that it pays.

    None where values are so large that the coefficients of a burst might leave the range of doubles.
    """
    ready = make_ready(group, together)
    if not ready.events.is_small:
        return None
    limits.check_state(group.members[0].query.name, state_bytes(ready.program), _HELD)
    folded = ready.fold()
    for name, count in zip(COUNTED, ready.counts.tolist(), strict=True):
        together.counts[name] = together.counts.get(name, 0) + count
    return folded


_HELD = "the open windows of queries that are folded side by side"


@dataclass(frozen=True)
class Ready:
    """A group of which only the fold is left."""

    members: list[Member]
    sizes: list[int]
    events: Events
    cuts: WindowCuts
    program: Together
    counts: NDArray[np.int64]

    def fold(self) -> tuple[Folded, ...]:
        """Per member the whole trends of its items."""
        width = max(member.carried.width for member in self.members)
        extremes = max(len(member.carried.extremes) for member in self.members)
        shape = sum(self.sizes), width
        out = Folded(np.zeros(shape), np.zeros(shape, np.int32), np.full((shape[0], extremes), np.inf))
        self.counts[:] = 0
        mass, burst = no_mass(self.program), no_burst(self.program, self.events)
        fold_together(self.events, self.cuts, self.program, mass, burst, out, self.counts)
        return _apart(out, self.members, self.sizes)


def make_ready(group: Group, together: GroupRows, share_from: list[int] | None = None) -> Ready:
    """The arrays of a group; without `share_from`, bursts are shared by what the group's cost table says."""
    members = [
        Member(plan.operands[0].machine, plan.operands[0].carried, windows_at_once(plan))
        for plan in group.members
    ]
    costs = group.details if isinstance(group.details, Costs) else Costs()
    program = lower_together(members, together.alphabet)
    chosen = share_from or [costs.share_from(*work) for work in work_of(program)]
    return Ready(
        members,
        [len(items.low) for items in together.items],
        together.events(union(member.carried for member in members)),
        window_cuts(together.items, members),
        program._replace(share_from=np.array(chosen, np.int64)),
        np.zeros(len(COUNTED), np.int64),
    )


def _apart(out: Folded, members: list[Member], sizes: list[int]) -> tuple[Folded, ...]:
    found, at = [], 0
    for member, size in zip(members, sizes, strict=True):
        own, width = slice(at, at + size), member.carried.width
        found.append(
            Folded(
                out.mantissa[own, :width],
                out.exponent[own, :width],
                out.extreme[own, : len(member.carried.extremes)],
            )
        )
        at += size
    return tuple(found)


def window_cuts(items: tuple[Items, ...], members: list[Member]) -> WindowCuts:
    """Where windows close and open. Members with the same windows are cut together."""
    kinds: dict[int, list[int]] = {}
    for k, own in enumerate(items):
        kinds.setdefault(id(own), []).append(k)
    parts = [_cuts_of(items[ks[0]], members[ks[0]].windows, which) for which, ks in enumerate(kinds.values())]
    row, is_open, which, slot, item = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(2 * row + is_open, kind="stable")
    starts = np.concatenate([[0], np.cumsum([len(own.low) for own in items])])
    return WindowCuts(
        row[order],
        is_open[order].astype(np.bool_),
        which[order],
        slot[order],
        item[order],
        np.concatenate([[0], np.cumsum([len(ks) for ks in kinds.values()])]).astype(np.int64),
        np.array([k for ks in kinds.values() for k in ks], np.int64),
        starts[:-1].astype(np.int64),
    )


def _cuts_of(items: Items, windows: int, which: int) -> tuple[NDArray[np.int64], ...]:
    """Two cuts per item: the windows at once have different slots, and a later one takes a free slot."""
    count = len(items.low)
    row = np.concatenate([items.low, items.high]).astype(np.int64)
    is_open = np.repeat(np.array([1, 0], np.int64), count)
    slot = np.tile(np.mod(items.index, windows), 2).astype(np.int64)
    return row, is_open, np.full(2 * count, which, np.int64), slot, np.tile(np.arange(count), 2)
