"""Folds that go on: windows that are open when the rows end are saved, and later rows continue them.

Usage, for a stream that folds the events between two watermarks and keeps open windows in its state:

    group = ...                                     # linear queries with the same rows: plan.workload
    kinds = families(group)                         # what is saved together, in what layout; needs no rows
    together, known = read_lane_rows(group, workspace, request)
    carry = [CarriedOver(loaded, saved) for items in together.windows]
    found, why = fold_on(group, together, given, carry)

`together.windows[k]` are the windows of one WITHIN and SLIDE that hold a row, per segment; family f has those
of k = kinds[f].which. A window (segment, index) that the state knows gets in `loaded` the place of its vector
in given[f]; all other windows get -1 and begin here. `saved` is true for the windows that go on after these
rows. Then found.vectors[f] are the vectors of the saved windows, in the order of the items, and
found.results[member] the aggregates of all items so far. Windows without rows need no fold: their vectors
stay, and when they close `whole_trends` has their aggregates. `found` is None where the machine of lanes does
not take these rows; `why` says so.

Rows are cut between two moments, never within one. A window without a vector is a window in which nothing has
come yet; a vector equal to `fresh(family)` need not be kept. *Contiguous* queries need all rows of a segment,
as read_lane_rows has them. Nothing but the vector is carried over, so a fold may be cut at any moment; only
durations that are added up go on growing until the next row, so a vector says until when they have.

Layout: float64 mantissas and int32 exponents (kernel.wide: m · 2^(256 e)) of shape [window, state, number,
query], and extremes [window, state, extreme, query]. States are those of LaneFamily.states, numbers those of
the plan's `carried` (number 0 is COUNT(*)), queries LaneFamily.members. A MAX is the MIN of the values with
their signs turned; +inf is no value. LaneFamily.fingerprints has a digest of all that for each query:
vectors saved under other fingerprints mean something else, and are refused (StaleVectorsError).

MIN and MAX of integers and times are carried over as codes (runtime.values); values without a code would be
ranks among the rows of one batch, so the caller must refuse them (require_codes).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import Position
from trendfold.automaton.machine import Machine, State
from trendfold.errors import TrendfoldError
from trendfold.kernel.lane_shapes import Shape, ShapeKey, shape_of
from trendfold.kernel.lower_machine_lanes import LaneMember, shape_key
from trendfold.kernel.machine_lanes import LaneVectors
from trendfold.kernel.program import Folded
from trendfold.kernel.stretch import pass_time_between
from trendfold.kernel.wide import add_at
from trendfold.plan import Group
from trendfold.plan.carried import Carried, union
from trendfold.runtime.folds.in_machine_lanes import (
    CarriedOver,
    LaneMaterial,
    LanePart,
    ReadyMachineLanes,
    lane_material,
    lane_members,
)
from trendfold.runtime.lane_rows import LaneRows
from trendfold.runtime.values import starting_at
from trendfold.runtime.windows import Items

LAYOUT = 1
"""Part of every fingerprint; changes with the layout of vectors."""


class StaleVectorsError(TrendfoldError):
    """Saved vectors belong to other queries, or to another version of the layout."""


class Family(Protocol):
    """Queries whose windows are saved together: lanes of one shape, or one query that compares neighbours."""

    @property
    def members(self) -> tuple[int, ...]:
        """The numbers of their operands in the group, ascending."""

    @property
    def which(self) -> int:
        """The kind of their windows."""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Per operand a digest of what its vectors mean."""

    @property
    def carried(self) -> Carried:
        """The numbers and extremes of a vector."""

    @property
    def start(self) -> int:
        """The state that holds 1 when a window begins."""

    @property
    def whole(self) -> tuple[int, ...]:
        """The states whose mass is that of whole trends."""

    def sizes(self, windows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the mantissas, or exponents, and of the extremes of so many windows."""


@dataclass(frozen=True)
class LaneFamily:
    """Operands of one shape with the same windows: their vectors are saved together.

    members       numbers of the operands of the group's members, ascending
    which         their windows: the index into LaneRows.windows
    fingerprints  per operand, of its machine, states and carried numbers
    """

    members: tuple[int, ...]
    which: int
    shape: Shape
    fingerprints: tuple[str, ...]

    @property
    def states(self) -> tuple[State, ...]:
        """The states from which a whole trend can be reached, and ⊥, in the order of a vector."""
        return self.shape.states

    @property
    def carried(self) -> Carried:
        """The numbers and extremes of a vector."""
        return self.shape.carried

    @property
    def start(self) -> int:
        """The state that holds 1 when a window begins."""
        return self.shape.start

    @property
    def whole(self) -> tuple[int, ...]:
        """The states whose mass is that of whole trends."""
        return tuple(self.shape.whole)

    def sizes(self, windows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the mantissas, or exponents, and of the extremes of so many windows."""
        carried, queries, states = self.shape.carried, len(self.members), len(self.states)
        return (windows, states, carried.width, queries), (windows, states, len(carried.extremes), queries)


@dataclass(frozen=True)
class WindowVectors:
    """The vectors of some open windows of one family; see the module.

    time  int64[windows]  until when durations have grown, in microseconds
    """

    fingerprints: tuple[str, ...]
    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int32]
    extreme: NDArray[np.float64]
    time: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.mantissa)

    @property
    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Mantissas and exponents."""
        return self.mantissa, self.exponent

    def take(self, windows: NDArray[Any]) -> WindowVectors:
        """The vectors of some windows: their places, or a mask."""
        parts = self.mantissa[windows], self.exponent[windows], self.extreme[windows], self.time[windows]
        return WindowVectors(self.fingerprints, *parts)

    def put(self, windows: NDArray[np.int64], other: WindowVectors) -> None:
        """Replace the vectors of some windows, in place."""
        self.mantissa[windows], self.exponent[windows] = other.mantissa, other.exponent
        self.extreme[windows], self.time[windows] = other.extreme, other.time


@dataclass(frozen=True)
class FoldedOn:
    """What rows make of windows: per operand the aggregates of every item, per family what is saved."""

    results: tuple[Folded, ...]
    vectors: tuple[WindowVectors, ...]
    bytes: int


def families(group: Group) -> tuple[LaneFamily, ...]:
    """What the members of a group save together."""
    kinds = {window: k for k, window in enumerate(dict.fromkeys(p.query.window for p in group.members))}
    members = lane_members(group, [kinds[plan.query.window] for plan in group.members])
    together: dict[tuple[ShapeKey, int], list[int]] = {}
    for k, member in enumerate(members):
        together.setdefault((shape_key(member, member.carried), member.which), []).append(k)
    return tuple(_family(tuple(own), members, shape_of(key), which) for (key, which), own in together.items())


def _family(own: tuple[int, ...], members: list[LaneMember], shape: Shape, which: int) -> LaneFamily:
    return LaneFamily(own, which, shape, tuple(_fingerprint(members[k], shape) for k in own))


def fold_on(
    group: Group,
    together: LaneRows,
    given: Sequence[WindowVectors | None],
    carry: Sequence[CarriedOver],
) -> tuple[FoldedOn | None, str]:
    """Fold rows into windows of which some are open already; or why the machine of lanes cannot.

    given  per family the vectors of windows that go on, None for none
    carry  per kind of window (LaneRows.windows) which items those are, and which to save in the end
    """
    kinds = families(group)
    _check(kinds, given)
    material = lane_material(group, together)
    if material.obstacle:
        return None, material.obstacle
    since = _latest(kinds, given, carry)
    material = _from_then(material, together, since)
    given = [_by_then(vectors, kind, since) for vectors, kind in zip(given, kinds, strict=True)]
    ready = material.lower(in_bursts=False, carry=carry)
    part_of = {frozenset(part.members): part for part in ready.parts}
    found = {frozenset(kind.members): f for f, kind in enumerate(kinds)}
    order = [found[own] for own in part_of]
    results, saved = ready.continue_from(_loaded(ready.parts, [given[f] for f in order]))
    cut = _split(ready, saved)
    windows = zip(together.windows, carry, strict=True)
    last = [_last_times(together, items, since)[each.saved] for items, each in windows]
    vectors = (
        _saved(kind, part_of[own], cut[own], last[kind.which]) for own, kind in zip(found, kinds, strict=True)
    )
    return FoldedOn(results, tuple(vectors), ready.bytes), ""


def fresh(family: Family, windows: int = 1) -> WindowVectors:
    """The vectors of windows in which nothing has come yet: ⊥ holds 1."""
    size, xsize = family.sizes(windows)
    mantissa = np.zeros(size)
    mantissa[:, family.start, 0] = 1.0
    extreme = np.full(xsize, np.inf)
    extreme[:, family.start, : family.carried.added] = 0.0
    exponent, time = np.zeros(size, np.int32), np.zeros(windows, np.int64)
    return WindowVectors(family.fingerprints, mantissa, exponent, extreme, time)


def whole_trends(family: Family, vectors: WindowVectors) -> tuple[Folded, ...]:
    """Per member of a family the aggregates of windows that close with these vectors."""
    whole, windows, columns = list(family.whole), len(vectors), prod(vectors.mantissa.shape[2:])
    first, *more = ([part[:, s].reshape(windows, columns) for part in vectors.numbers] for s in whole)
    mantissa, exponent = (part.copy() for part in first)
    for more_m, more_e in more:
        add_at(np.arange(windows), more_m, more_e, mantissa, exponent)
    size = windows, *vectors.mantissa.shape[2:]
    parts = mantissa.reshape(size), exponent.reshape(size), vectors.extreme[:, whole].min(axis=1)
    return tuple(Folded(*(part[:, :, lane] for part in parts)) for lane in range(len(family.members)))


# ---- Families and parts of a machine ------------------------------------------------------------------


def _check(kinds: Sequence[LaneFamily], given: Sequence[WindowVectors | None]) -> None:
    for kind, vectors in zip(kinds, given, strict=True):
        if vectors is not None and vectors.fingerprints != kind.fingerprints:
            raise StaleVectorsError(
                "the saved state of open windows belongs to other queries or another version of trendfold; "
                "start the stream anew, or go back to the queries and the version that wrote it"
            )


def _lanes_of(part: LanePart) -> NDArray[np.int64]:
    """For each query of a family its lane in the part: lanes are sorted for each batch of rows anew."""
    return np.argsort(np.array(part.members), kind="stable")


def _loaded(parts: Sequence[LanePart], given: Sequence[WindowVectors | None]) -> LaneVectors:
    """The given vectors in the order of parts and lanes, as far as they are needed."""
    arrays = []
    for part, vectors in zip(parts, given, strict=True):
        if vectors is not None and part.given:
            lanes = np.argsort(_lanes_of(part), kind="stable")
            every = vectors.mantissa, vectors.exponent, vectors.extreme
            arrays.append([each[: part.given, ..., lanes].reshape(-1) for each in every])
    empty = [np.zeros(0), np.zeros(0, np.int32), np.zeros(0)]
    return LaneVectors(*(np.concatenate(each) for each in zip(empty, *arrays, strict=True)))


def _split(ready: ReadyMachineLanes, saved: LaneVectors) -> dict[frozenset[int], LaneVectors]:
    """The saved vectors of each part."""
    edges = pairwise(ready.saved_at)
    return {
        frozenset(part.members): LaneVectors(saved.mantissa[a:b], saved.exponent[a:b], saved.extreme[x:y])
        for part, ((a, x), (b, y)) in zip(ready.parts, edges, strict=True)
    }


def _saved(
    family: LaneFamily, part: LanePart, vectors: LaneVectors, time: NDArray[np.int64]
) -> WindowVectors:
    size, xsize = family.sizes(part.saved)
    lanes = _lanes_of(part)
    arrays = zip(vectors, (size, size, xsize), strict=True)
    mantissa, exponent, extreme = (each.reshape(shape)[..., lanes] for each, shape in arrays)
    return WindowVectors(family.fingerprints, mantissa, exponent, extreme, time)


# ---- The time between rows ----------------------------------------------------------------------------


def _latest(
    kinds: Sequence[LaneFamily], given: Sequence[WindowVectors | None], carry: Sequence[CarriedOver]
) -> int:
    """The time from which all vectors go on: no row of a window that has one is earlier."""
    times = [
        each.time[carry[kind.which].places]
        for kind, each in zip(kinds, given, strict=True)
        if kind.shape.carried.elapsed and each is not None
    ]
    return max((int(time.max()) for time in times if len(time)), default=0)


def _by_then(vectors: WindowVectors | None, family: LaneFamily, since: int) -> WindowVectors | None:
    """Vectors after the time until `since` has passed."""
    carried = family.shape.carried
    if vectors is None or not carried.elapsed:
        return vectors
    mantissa, exponent = vectors.mantissa.copy(), vectors.exponent.copy()
    passed = np.maximum(since - vectors.time, 0).astype(np.float64)
    wide = mantissa[:, np.newaxis], exponent[:, np.newaxis]
    pass_time_between(*wide, passed, family.shape.open_states, carried.elapsed)
    return replace(vectors, mantissa=mantissa, exponent=exponent)


def _from_then(material: LaneMaterial, together: LaneRows, since: int) -> LaneMaterial:
    """Rows before which time passes from `since` on, in every segment."""
    carried, rows = union(member.carried for member in material.members), together.rows
    if not carried.elapsed:
        return material
    first = rows.segment[:-1][rows.segment[:-1] < rows.segment[1:]]
    passed = np.maximum(rows.time[first] - since, 0)
    events = starting_at(material.rows.events, carried, first, passed)
    return replace(material, rows=replace(material.rows, events=events))


def _last_times(together: LaneRows, items: Items, since: int) -> NDArray[np.int64]:
    """Until when time has passed for each item at its end."""
    last = together.rows.time[np.maximum(items.high, 1) - 1] if len(together.rows.time) else items.high
    return np.where(items.high > items.low, last, since).astype(np.int64)


# ---- Fingerprints -------------------------------------------------------------------------------------


def _fingerprint(member: LaneMember, shape: Shape) -> str:
    """A digest of what a vector means. Conditions on events are not part of it: they do not change that."""
    states = [(state.place, state.cls) for state in shape.states]
    meaning = [LAYOUT, states, meaning_of(member.machine, member.carried)]
    return sha256(json.dumps(meaning).encode()).hexdigest()[:16]


def meaning_of(machine: Machine, carried: Carried) -> list[object]:
    """What states and numbers stand for, as a JSON value."""
    automaton = machine.automaton
    return [
        machine.semantics.value,
        [_types(position) for position in automaton.positions],
        sorted(automaton.edges),
        [[g.positions, sorted(g.first), sorted(g.last), sorted(g.edges)] for g in automaton.guards],
        sorted(automaton.guard_of.items()),
        [[number.measure.value, sorted(number.positions), number.attribute] for number in carried.numbers],
        [
            [extreme.of.value if extreme.of else extreme.attribute, sorted(extreme.positions), extreme.is_max]
            + ["added"] * (extreme.of is not None)
            for extreme in carried.extremes
        ],
    ]


def _types(position: Position) -> str | list[str]:
    """A position's type, or for a set of types ANY and their names."""
    if isinstance(position.type, str):
        return position.type
    return ["ANY", *sorted(position.type.names or ())]
