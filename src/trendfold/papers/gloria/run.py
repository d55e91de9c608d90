"""Fold groups with GLORIA: the rows of several queries and a sharing plan -> complete trends per window."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lower_machine_lanes import LaneMember
from trendfold.kernel.program import Folded, Pairs
from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria import board as gloria_board
from trendfold.papers.gloria import kernel as gloria
from trendfold.papers.gloria.board import Board
from trendfold.papers.gloria.bursts import Bursts, bursts_of
from trendfold.papers.gloria.lower import GloriaWindows, LoweredNetwork, lower_network
from trendfold.papers.gloria.network import Network, connect
from trendfold.papers.gloria.valid import unshared, why_invalid
from trendfold.plan import Group
from trendfold.plan.carried import union
from trendfold.runtime.conditions import compile_pairs
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.limits import Limits
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import open_at_once


class Stack(NamedTuple):
    """Scratch space for evaluating a condition (see kernel.pairs)."""

    f: NDArray[np.float64]
    i: NDArray[np.int64]
    n: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GloriaTally:
    """The counters of a fold under GLORIA.

    snapshots     snapshots taken
    propagations  coefficients propagated
    evaluations   lanes for which an expression was evaluated
    foldings      rings that were compacted
    """

    snapshots: int = 0
    propagations: int = 0
    evaluations: int = 0
    foldings: int = 0


def fold_gloria(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...]:
    """Run the sharing plan of a group."""
    folded, tally = ready(group, together, limits).fold()
    together.counts.update(
        {
            "snapshots": tally.snapshots,
            "propagations": tally.propagations,
            "evaluations": tally.evaluations,
        }
    )
    return folded


def ready(group: Group, together: GroupRows, limits: Limits) -> GloriaReady:
    """All that the kernel reads."""
    plan: SharingPlan = group.details
    members = tuple(LaneMember(each.operands[0].machine, each.operands[0].carried) for each in group.members)
    problem = why_invalid(plan, [member.machine.automaton for member in members])
    assert not problem, problem
    carried = union(member.carried for member in members)
    events = together.events(carried)
    # Coefficients are doubles; their product with a value above 2^200 could overflow.
    network = connect(plan if events.is_small else unshared(plan), members)
    windows = _windows(together)
    edges = np.unique(np.concatenate([windows.low, windows.high]))
    bursts = bursts_of(events, network, together.alphabet, edges)
    low, high = bursts.first[windows.low], bursts.first[windows.high]
    lowered = lower_network(network, together.alphabet, carried, replace(windows, low=low, high=high))
    limits.check_state(group.members[0].query.name, lowered.size(), _HELD)
    rows = together.rows.row
    pairs = compile_pairs(network.conditions, lambda name: together.batch.column(name).take(rows), len(rows))
    return GloriaReady(
        members, network, lowered, bursts, pairs, tuple(len(each.low) for each in together.items)
    )


_HELD = "the windows and snapshots of queries that are folded together"


@dataclass(frozen=True)
class GloriaReady:
    """A group whose plan and rows are arrays: only the fold is left."""

    members: tuple[LaneMember, ...]
    network: Network
    lowered: LoweredNetwork
    bursts: Bursts
    pairs: Pairs
    sizes: tuple[int, ...]

    def steps(self) -> int:
        """How many times events are processed: once at every node where a query can take the event."""
        tables, rows = self.lowered.tables, np.bincount(self.bursts.events.symbol)
        begin = tables[gloria_board.STEPS]
        return int(np.diff(tables[begin : begin + len(rows) + 1]) @ rows)

    def fold(self) -> tuple[tuple[Folded, ...], GloriaTally]:
        """Per member the whole trends of its windows, and what happened on the way."""
        starts = np.cumsum([0, *self.sizes])
        width = max(member.carried.width for member in self.members)
        extremes = max(len(member.carried.extremes) for member in self.members)
        out, board = no_trends(int(starts[-1]), width, extremes), self._board(starts)
        depth = self.pairs.depth
        stack = Stack(np.zeros(depth), np.zeros(depth, np.int64), np.zeros(depth, np.int64))
        tally = board.i[gloria_board.TALLY]
        gloria.fold_plan(self.bursts.events, self.bursts.many, self.pairs, stack, board, out)
        found = []
        for k, member in enumerate(self.members):
            own = slice(starts[k], starts[k + 1])
            wide, low = slice(member.carried.width), slice(len(member.carried.extremes))
            found.append(Folded(out.mantissa[own, wide], out.exponent[own, wide], out.extreme[own, low]))
        return tuple(found), GloriaTally(*map(int, board.i[tally : tally + gloria_board.IS_FULL]))

    def _board(self, starts: NDArray[np.int64]) -> Board:
        board = self.lowered.board()
        first = board.i[gloria_board.FIRST]
        board.i[first : first + 2 * len(self.sizes)] = np.repeat(starts[:-1], 2)
        return board


def _windows(together: GroupRows) -> GloriaWindows:
    """All windows one member after the other, and how much there is in them."""
    items, symbol, moment = together.items, together.rows.symbols[0], together.moment

    def most(symbols: Collection[int], members: Collection[int]) -> int:
        wanted = np.zeros(len(together.alphabet), np.bool_)
        wanted[list(symbols)] = True
        seen = np.concatenate([[0], np.cumsum(wanted[symbol])])
        own = [together.windows[number] for number in {together.window_of[k] for k in members}]
        return max(int((seen[each.high] - seen[each.low]).max(initial=0)) for each in own)

    return GloriaWindows(
        np.cumsum([0, *(len(each.low) for each in items)]),
        np.concatenate([each.low for each in items]),
        np.concatenate([each.high for each in items]),
        np.array([open_at_once(each) for each in items]),
        most,
        int(np.bincount(moment).max(initial=1)) if len(moment) else 1,
    )


FOLDS = {"gloria": fold_gloria}
