"""Stretches of rows as matrices, for many queries in one pass: slots of the lane machine are start states.

Row s of a matrix is what mass 1 at state s becomes. So a stretch opens a slot for each state from which mass
can come in, and at its end all slots are saved. Queries that differ in semantics, NOTs, carried numbers and
conditions are folded side by side; their rows must be sorted and cut in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lower_machine_lanes import Block, LaneMember, Taken, blocks_of, lower_machine_lanes
from trendfold.kernel.machine_lanes import (
    LaneCuts,
    LaneSteps,
    LaneVectors,
    MachineProgram,
    fold_in_lanes,
    no_mass,
    no_vectors,
)
from trendfold.kernel.program import Events, Folded
from trendfold.plan.overlap import starts_of
from trendfold.runtime.folds.in_machine_lanes import step_rows


@dataclass(frozen=True)
class StretchFolder:
    """Queries and stretches of the rows that they share, lowered: only the fold is left.

    edges  int64[stretches, 2]  the steps [low, high) of each stretch
    """

    members: int
    blocks: tuple[StartSlots, ...]
    program: MachineProgram
    steps: LaneSteps
    edges: NDArray[np.int64]

    def fold(self, which: slice = slice(None)) -> tuple[Folded, ...]:
        """Per member, fold some of the stretches into a matrix each: [stretch, start, state, number].

        States are all those of the machine and an empty one; starts those of plan.overlap.starts_of.
        """
        found: dict[int, Folded] = {}
        many = len(self.edges[which])
        for block, part in zip(self.blocks, self.fold_vectors(which), strict=True):
            found |= zip(block.block.members, block.matrices(part, many), strict=True)
        return tuple(found[k] for k in range(self.members))

    def fold_vectors(self, which: slice = slice(None)) -> Iterator[LaneVectors]:
        """The same block by block, as they are folded: [stretch, state, number, start, query]."""
        edges = self.edges[which]
        at = _places([block.sizes(len(edges)) for block in self.blocks])
        saved, cuts, mass = no_vectors(*at[-1]), self._cuts(edges, at), no_mass(self.program)
        fold_in_lanes(self.steps, cuts, self.program, mass, self._units, saved, no_vectors())
        for (a, x), (b, y) in pairwise(at):
            yield LaneVectors(saved.mantissa[a:b], saved.exponent[a:b], saved.extreme[x:y])

    @cached_property
    def _units(self) -> LaneVectors:
        """What slots open with, block by block."""
        parts = zip(*(block.units() for block in self.blocks), strict=True)
        return LaneVectors(*map(np.concatenate, parts))

    def _cuts(self, edges: NDArray[np.int64], at: list[tuple[int, int]]) -> LaneCuts:
        """All slots of all blocks open and close together, as if they were one window."""
        given = _places([block.sizes(1) for block in self.blocks])
        parts = [(b, 0, block.lanes, 0, -1, -1, *given[b], *at[b]) for b, block in enumerate(self.blocks)]
        nowhere, number = np.zeros(edges.size, np.int64), np.arange(len(edges))
        return LaneCuts(
            step=edges.reshape(-1),
            is_open=np.tile([True, False], len(edges)),
            which=nowhere,
            slot=nowhere,
            item=np.repeat(number, 2),
            vector=np.stack([0 * number, number], axis=1).reshape(-1),
            part_start=np.array([0, len(parts)]),
            part=np.array(parts, np.int64),
        )


def fold_stretches(
    members: Sequence[LaneMember], events: Events, taken: Taken, bounds: NDArray[np.int64]
) -> tuple[Folded, ...]:
    """Per member, fold the rows [bounds[k], bounds[k+1]) into matrix k; see StretchFolder."""
    folder = stretch_folder(members, events, taken, bounds[:-1], bounds[1:])
    if folder is not None:
        return folder.fold()
    half = len(members) // 2
    parts = slice(0, half), slice(half, len(members))
    return tuple(m for part in parts for m in fold_stretches(members[part], events, taken.part(part), bounds))


def stretch_folder(
    members: Sequence[LaneMember],
    events: Events,
    taken: Taken,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    in_bursts: bool = False,
) -> StretchFolder | None:
    """Lower queries and the rows [low[k], high[k]), which are in order and do not overlap.

    None where moments of several events settle in too many ways for all members together.
    """
    slots = [replace(each, windows=len(starts_of(each.machine)), which=0) for each in members]
    rows = step_rows(slots, events, taken)
    if rows.obstacle and len(slots) > 1:
        return None
    blocks = blocks_of(slots, taken)
    program = lower_machine_lanes(blocks, taken, rows.settled, in_bursts and rows.is_usual)
    steps, edges = rows.steps(program, np.stack([low, high], axis=1).reshape(-1))
    return StretchFolder(len(slots), tuple(map(StartSlots, blocks)), program, steps, edges.reshape(-1, 2))


def _places(sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the numbers and extremes of each block begin, and where all end."""
    return [(int(a), int(x)) for a, x in np.cumsum([(0, 0), *sizes], axis=0)]


@dataclass(frozen=True)
class StartSlots:
    """A block whose slots are the start states of its machines. A vector is [state, number, start, query].

    A state from which no whole trend can be reached is not kept; as a start it leads nowhere.
    """

    block: Block

    @property
    def lanes(self) -> int:
        """The lanes of all slots."""
        return self.block.slots.windows * self.block.slots.stride

    def sizes(self, vectors: int) -> tuple[int, int]:
        """The numbers and extremes of so many vectors."""
        shape, cells = self.block.shape, vectors * len(self.block.shape.states) * self.lanes
        return cells * shape.carried.width, cells * len(shape.carried.extremes)

    def units(self) -> LaneVectors:
        """The vector with 1 where a slot and a state are the same."""
        shape, windows, stride = self.block.shape, *self.block.slots[:2]
        found = no_vectors(*self.sizes(1))
        mass = found.mantissa.reshape(len(shape.states), shape.carried.width, windows, stride)
        least = found.extreme.reshape(len(shape.states), len(shape.carried.extremes), windows, stride)
        states = [shape.machine.states[s] for s in starts_of(shape.machine)]
        for start, state in enumerate(states):
            if state in shape.number:
                mass[shape.number[state], 0, start, : len(self.block.members)] = 1.0
                least[shape.number[state], : shape.carried.added, start] = 0.0
        return found

    def matrices(self, vectors: LaneVectors, stretches: int) -> Iterator[Folded]:
        """The matrices of each query, from the vectors of all."""
        shape, windows, stride = self.block.shape, *self.block.slots[:2]
        queries, states = len(self.block.members), len(shape.machine.states)
        kept = [i for i, state in enumerate(shape.machine.states) if state in shape.number]
        # A slice is copied several times as fast as a list of places.
        into = slice(kept[0], kept[-1] + 1) if len(kept) == kept[-1] + 1 - kept[0] else kept
        found = []
        numbers = shape.carried.width, shape.carried.width, len(shape.carried.extremes)
        for of, each, nothing in zip(vectors, numbers, (0.0, 0, np.inf), strict=True):
            every = of.reshape(stretches, len(kept), each, windows, stride)[..., :queries]
            whole = np.full((queries, stretches, windows, states + 1, each), nothing, of.dtype)
            if nothing or every.any():  # most have no exponents
                whole[:, :, :, into] = every.transpose(4, 0, 3, 1, 2)
            found.append(whole)
        return (Folded(*(each[query] for each in found)) for query in range(queries))
