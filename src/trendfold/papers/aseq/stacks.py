"""E-Cube's stacks: which sequences are built, what shares them, and what is added up over them.

A *stack* holds the sequences built for a prefix of a piece, or for a piece joined with those before it.
Source: E-Cube (SIGMOD 2011), as A-Seq describes it in section 6.3: common substrings are built once for all
queries, and each query counts its own sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.kernel.lower import extreme_columns, value_columns
from trendfold.kernel.program import Ints
from trendfold.papers.aseq.lower import csr_starts, int32s, takes
from trendfold.papers.aseq.prefixes import CounterReading, ExpiryFamily
from trendfold.plan.carried import Carried


class StackProgram(NamedTuple):
    """The stacks of one family; those of joints follow those of nodes, which are numbered across all trees.

    take, take_start    per symbol: the nodes whose last step its events can take
    parent  int32[N]    the node of the prefix before, or -1
    join, join_start    per node: the joints that its sequences complete
    left    int32[J]    per joint the stack of the sequences before the node's
    stack   int32[R]    per reading the stack of its sequences
    width, extremes  int32[R]   its numbers, COUNT first, and its extremes
    length  int32[R]    its steps
    place   int32[R]    its first step in `use_start`
    use, use_start      per reading and step: (number, or -1 - extreme; column, -1 for one) of its event
    """

    take_start: Ints
    take: Ints
    parent: Ints
    join_start: Ints
    join: Ints
    left: Ints
    stack: Ints
    width: Ints
    extremes: Ints
    length: Ints
    place: Ints
    use_start: Ints
    use: Ints


class Built(NamedTuple):
    """The sequences in memory: a chain per stack, from the newest to the oldest; -1 ends a chain.

    row, begin  int64[n]   the rows of the last event and of the first
    left, right int64[n]   what it continues: a sequence one event shorter, or (if right is not -1) two joined
    below       int64[n]   the next older sequence of its stack; of a free place the next free one
    top, size   int64[S]   the newest sequence of each stack, and how many it holds
    counts      int64[3]   the first free place, how many places are free, and how many sequences were built
    """

    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    below: NDArray[np.int64]
    top: NDArray[np.int64]
    size: NDArray[np.int64]
    counts: NDArray[np.int64]


def lower_stacks(
    family: ExpiryFamily, carried: Sequence[Carried], columns: Carried, alphabet: Sequence[Sequence[Symbol]]
) -> StackProgram:
    """The program of a family; `carried` and each symbol are by member, `columns` is what events hold."""
    nodes = [(t, n) for t, tree in enumerate(family.trees) for n in range(len(tree.nodes))]
    at = {node: i for i, node in enumerate(nodes)}
    steps = [family.trees[t].nodes[n] for t, n in nodes]
    take = [
        [i for i, node in enumerate(steps) if takes(node.step.element, node.member, symbols)]
        for symbols in alphabet
    ]
    joints: dict[tuple[int, int], int] = {}

    def stack(before: int, node: tuple[int, int]) -> int:
        """The stack of the sequences that end at a node, with the pieces before it."""
        if before < 0:
            return at[node]
        link = family.links[before]
        key = stack(link.before, (link.tree, link.node)), at[node]
        return len(nodes) + joints.setdefault(key, len(joints))

    stacks = [stack(reading.link, (reading.tree, reading.node)) for reading in family.readings]
    completed = [[j for j, (_, node) in enumerate(joints) if node == i] for i in range(len(nodes))]
    uses = [step for reading in family.readings for step in _uses(reading, carried[reading.member], columns)]
    lengths = [len(reading.positions) for reading in family.readings]
    return StackProgram(
        csr_starts(take),
        int32s(node for found in take for node in found),
        int32s(
            -1 if node.parent < 0 else at[t, node.parent] for (t, _), node in zip(nodes, steps, strict=True)
        ),
        csr_starts(completed),
        int32s(joint for found in completed for joint in found),
        int32s(left for left, _ in joints),
        int32s(stacks),
        int32s(carried[reading.member].width for reading in family.readings),
        int32s(len(carried[reading.member].extremes) for reading in family.readings),
        int32s(lengths),
        csr_starts([range(length) for length in lengths])[:-1],
        csr_starts(uses),
        int32s(number for found in uses for use in found for number in use).reshape(-1, 2),
    )


def _uses(reading: CounterReading, carried: Carried, columns: Carried) -> list[list[tuple[int, int]]]:
    """Per step of a line what its event adds to the query's aggregates."""
    found: list[list[tuple[int, int]]] = [[] for _ in reading.positions]
    place = {position: i for i, position in enumerate(reading.positions)}
    for number, each in enumerate(carried.numbers):
        known = each.attribute is not None
        column = 1 + value_columns(columns).index((each.measure, each.attribute)) if known else -1
        for position in each.positions:
            found[place[position]].append((1 + number, column))
    for number, extreme in enumerate(carried.extremes):
        column = 1 + extreme_columns(columns).index((extreme.attribute, extreme.is_max))
        for position in extreme.positions:
            found[place[position]].append((-1 - number, column))
    return found


def no_sequences(program: StackProgram, room: int) -> Built:
    """Empty stacks with room for so many sequences."""
    stacks = len(program.parent) + len(program.left)
    row, begin, left, right = np.full((4, room), -1, np.int64)
    return Built(
        row,
        begin,
        left,
        right,
        np.append(np.arange(1, room), -1),
        np.full(stacks, -1, np.int64),
        np.zeros(stacks, np.int64),
        np.array([0, room, 0], np.int64),
    )
