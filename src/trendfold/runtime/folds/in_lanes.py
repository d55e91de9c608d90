"""Queries in lanes: one lane per query and open window, in one pass over the rows (see kernel.together)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lower_together import Member, lower_together, work_of
from trendfold.kernel.program import Events, Folded, Together, WindowCuts
from trendfold.kernel.together import fold_together, no_burst, no_mass, state_bytes
from trendfold.plan import Group
from trendfold.plan.carried import union
from trendfold.plan.statistics import Work
from trendfold.plan.workload import windows_at_once
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import Items

COUNTED = "bursts", "shared bursts", "snapshots", "splits", "merges"
"""The counters of kernel.together, in its order."""
HELD = "the open windows of queries that are folded together"


@dataclass(frozen=True)
class ReadyLanes:
    """A group of queries lowered to arrays of lanes, ready to fold."""

    members: list[Member]
    sizes: list[int]
    events: Events
    cuts: WindowCuts
    program: Together
    counts: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        """The state of all lanes."""
        return int(state_bytes(self.program))

    def fold(self) -> tuple[Folded, ...]:
        """Per member the aggregates of its items; also fills in `counts`."""
        width = max(member.carried.width for member in self.members)
        extremes = max(len(member.carried.extremes) for member in self.members)
        out = no_trends(sum(self.sizes), width, extremes)
        self.counts[:] = 0
        mass, burst = no_mass(self.program), no_burst(self.program, self.events)
        fold_together(self.events, self.cuts, self.program, mass, burst, out, self.counts)
        return _apart(out, self.members, self.sizes)

    def work(self, symbol: NDArray[np.int32]) -> tuple[Work, ...]:
        """The work of lanes for every kind of row, given the symbols of the rows."""
        kinds = len(self.program.share_from)
        events = np.bincount(symbol, minlength=kinds)
        changes = np.concatenate([symbol[:1], symbol[1:][symbol[1:] != symbol[:-1]]])
        bursts = np.bincount(changes, minlength=kinds)
        touched = work_of(self.program)
        return tuple(Work(int(events[a]), int(bursts[a]), *each) for a, each in enumerate(touched))


def make_ready(group: Group, together: GroupRows, share_from: int = 2) -> ReadyLanes:
    """Lower a group to arrays; bursts of `share_from` events or more are applied once.

    In lanes, a burst costs each query as much as one event, so two events are enough (ADR 13).
    """
    members = [
        Member(plan.operands[0].machine, plan.operands[0].carried, windows_at_once(plan))
        for plan in group.members
    ]
    program = lower_together(members, together.alphabet)
    return ReadyLanes(
        members,
        [len(items.low) for items in together.items],
        together.events(union(member.carried for member in members)),
        window_cuts(together, members),
        program._replace(share_from=np.full(len(together.alphabet), share_from, np.int64)),
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


def window_cuts(together: GroupRows, members: list[Member]) -> WindowCuts:
    """The rows at which windows close and open; members with the same windows share their cuts."""
    parts = []
    for number, items in enumerate(together.windows):
        member = members[together.window_of.index(number)]
        parts.append(_cuts_of(items, member.windows, number))
    row, is_open, which, slot, item = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(2 * row + is_open, kind="stable")
    starts = np.concatenate([[0], np.cumsum([len(own.low) for own in together.items])])
    owners = np.array(together.window_of, np.int64)
    counts = np.bincount(owners, minlength=len(together.windows))
    return WindowCuts(
        row[order],
        is_open[order].astype(np.bool_),
        which[order],
        slot[order],
        item[order],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.argsort(owners, kind="stable"),
        starts[:-1].astype(np.int64),
    )


def _cuts_of(items: Items, windows: int, which: int) -> tuple[NDArray[np.int64], ...]:
    """Two cuts per item; windows open at once have different slots, and a later window reuses a free slot."""
    count = len(items.low)
    row = np.concatenate([items.low, items.high]).astype(np.int64)
    is_open = np.repeat(np.array([1, 0], np.int64), count)
    slot = np.tile(np.mod(items.index, windows), 2).astype(np.int64)
    return row, is_open, np.full(2 * count, which, np.int64), slot, np.tile(np.arange(count), 2)
