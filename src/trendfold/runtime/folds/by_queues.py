"""Bindings in queues, where neighbours are compared by time alone (see kernel.queues)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trendfold.events.buffers import empty
from trendfold.kernel import queues as kernels
from trendfold.kernel.bindings import longest_moment, most_kept
from trendfold.kernel.lower import list_numbers, lower_asked, lower_steps
from trendfold.kernel.program import BindingSteps, Folded, Frame, Ints
from trendfold.plan.neighbour import Access
from trendfold.plan.physical import Queues
from trendfold.plan.time_gaps import gap_of
from trendfold.runtime.folds.operand import OperandRows


def fold(here: OperandRows, way: Queues, material: object) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of all bindings of the largest."""
    machine, carried, items, out = here.operand.machine, here.operand.carried, here.items, here.nothing()
    steps, places = lower_steps(machine, here.alphabet, carried), list_numbers(machine)
    asked = lower_asked(machine, here.alphabet, here.operand.accesses, carried)
    queues = _queues(asked.accesses, asked.way, places)
    room = _room(here, steps, len(places), len(queues.here))
    size = sum(part.nbytes for part in (room.time, room.clock, *room.kept, *room.front))
    here.limits.check_state(here.plan.query.name, size, "bindings kept one by one")
    flat, frame = (
        Folded(out.mantissa.reshape(-1), out.exponent.reshape(-1), out.extreme.reshape(-1)),
        here.frame,
    )
    is_count = frame.width == 1 and frame.extremes == 0
    run = kernels.count_queued_windows if is_count else kernels.fold_queued_windows
    run(here.events, here.rows.time, items.low, items.high, steps, queues, frame, room, flat)
    return out, size


def _queues(accesses: Sequence[Access], way: Ints, places: dict[int, int]) -> kernels.QueueGaps:
    gaps = [gap for access in accesses if (gap := gap_of(access)) is not None]
    return kernels.QueueGaps(
        way,
        np.array([places[access.place] for access in accesses], np.int32),
        np.array([gap.least for gap in gaps], np.int64),
        np.array([gap.most for gap in gaps], np.int64),
    )


def _room(here: OperandRows, steps: BindingSteps, lists: int, queues: int) -> kernels.QueueRoom:
    frame, events, items = here.frame, here.events, here.items
    most = int(most_kept(events, items.low, items.high, steps, np.ones(lists, np.bool_)))
    tied = int(np.diff(steps.step_start).max(initial=0)) * int(longest_moment(events.moment))
    return kernels.QueueRoom(
        most,
        empty(lists * most, np.int64),
        empty(lists * most if frame.elapsed else 0, np.float64),
        _entries(lists * most, frame),
        np.zeros(lists, np.int64),
        np.zeros(lists, np.int64),
        np.zeros(3 * queues, np.int64),
        _entries(queues * most, frame),
        _entries(queues, frame),
        np.zeros(2 * queues),
        _entries(frame.states, frame),
        _entries(1, frame),
        _entries(max(1, tied), frame),
    )


def _entries(many: int, frame: Frame) -> Folded:
    """Room for so many vectors, flat."""
    return Folded(
        empty(many * frame.width, np.float64),
        empty(many * frame.width, np.int32),
        empty(many * frame.extremes, np.float64),
    )
