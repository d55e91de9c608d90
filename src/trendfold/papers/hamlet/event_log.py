"""The events of E in open windows, and the snapshots that their masses are expressed in.

The value of a snapshot is zero in windows that begin after it, so expressions outlive windows. Events and
snapshots are kept in order and dropped from the front (see papers.hamlet.edges).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import kernel
from trendfold.papers.hamlet.arrays import read_member

HEAD, TAIL, OLDEST, NEXT, USED, FAR, JUDGED, UNEVEN = range(8)
"""Places of `EventLog.k`: events [HEAD, TAIL), snapshots [OLDEST, NEXT), coefficients in use, whether any
number has an exponent, events judged, and how many of them differ between queries."""


class EventLog(NamedTuple):
    """Events and snapshots; N events, P coefficients, S snapshots, L lanes, M members.

    k          int64[8]   see HEAD
    row        int64[N]   per event its row
    low, at, size         its coefficients, at [at, at + size), are those of the snapshots from `low` on;
                          at is -1 if it is the snapshot `low` itself
    c, ce, mu  [1 + columns, P], [xcolumns, P]   counts, then σ per column, as wide numbers; least values
    born       int64[S]   per snapshot its row
    m, e, x    [L, W, S], [L, X, S]   its values per lane
    sum_m, sum_e, sum_x   [classes + 1, .., S]   sums of the coefficients of the events that an event may
                          follow, per class of edges; the last class are all events of a burst
    may        bool[classes, N]   which events the current one may follow
    edge_start, edge      per class of edges the numbers of its predicates
    edges_of   int64[M]   the class of a member
    opened     int64[M]   windows that lanes have been emptied for
    stack_f, stack_i, stack_n   scratch for predicates (see kernel.pairs)
    """

    k: NDArray[np.int64]
    row: NDArray[np.int64]
    low: NDArray[np.int64]
    at: NDArray[np.int64]
    size: NDArray[np.int64]
    c: NDArray[np.float64]
    ce: NDArray[np.int32]
    mu: NDArray[np.float64]
    born: NDArray[np.int64]
    m: NDArray[np.float64]
    e: NDArray[np.int32]
    x: NDArray[np.float64]
    sum_m: NDArray[np.float64]
    sum_e: NDArray[np.int32]
    sum_x: NDArray[np.float64]
    may: NDArray[np.bool_]
    edge_start: NDArray[np.int64]
    edge: NDArray[np.int64]
    edges_of: NDArray[np.int64]
    opened: NDArray[np.int64]
    stack_f: NDArray[np.float64]
    stack_i: NDArray[np.int64]
    stack_n: NDArray[np.int64]


@kernel
def empty_lanes(t, at, n, log):
    """Set all snapshots until now to zero in the lanes of windows that have just begun."""
    k = log.k
    for member in range(at.members):
        own = read_member(t, at, member)
        low, many = own.lane_low, own.lane_high - own.lane_low
        for item in range(log.opened[member], n[at.upto + member]):
            lane = low + (item - own.window_low) % many
            for s in range(k[OLDEST], k[NEXT]):
                for w in range(log.m.shape[1]):
                    log.m[lane, w, s], log.e[lane, w, s] = 0.0, 0
                for y in range(log.x.shape[1]):
                    log.x[lane, y, s] = np.inf
        log.opened[member] = n[at.upto + member]


@kernel
def forget(oldest, log):
    """Drop events and snapshots from before row `oldest`; compact once half of the room is used up."""
    k = log.k
    while k[HEAD] < k[TAIL] and log.row[k[HEAD]] < oldest:
        k[HEAD] += 1
    while k[OLDEST] < k[NEXT] and log.born[k[OLDEST]] < oldest:
        k[OLDEST] += 1
    head, tail, first = k[HEAD], k[TAIL], k[OLDEST]
    if head == tail:
        k[HEAD] = k[TAIL] = k[OLDEST] = k[NEXT] = k[USED] = k[FAR] = 0
        return
    if 2 * head < log.row.shape[0]:
        return
    used = k[USED]
    for j in range(head, tail):
        if log.at[j] >= 0:
            used = min(used, log.at[j])
    for j in range(head, tail):
        to = j - head
        log.row[to], log.size[to] = log.row[j], log.size[j]
        log.low[to] = log.low[j] - first
        log.at[to] = log.at[j] - used if log.at[j] >= 0 else -1
    for v in range(log.c.shape[0]):
        for p in range(used, k[USED]):
            log.c[v, p - used], log.ce[v, p - used] = log.c[v, p], log.ce[v, p]
    for v in range(log.mu.shape[0]):
        for p in range(used, k[USED]):
            log.mu[v, p - used] = log.mu[v, p]
    for s in range(first, k[NEXT]):
        log.born[s - first] = log.born[s]
    for lane in range(log.m.shape[0]):
        for w in range(log.m.shape[1]):
            for s in range(first, k[NEXT]):
                log.m[lane, w, s - first], log.e[lane, w, s - first] = log.m[lane, w, s], log.e[lane, w, s]
        for y in range(log.x.shape[1]):
            for s in range(first, k[NEXT]):
                log.x[lane, y, s - first] = log.x[lane, y, s]
    k[HEAD], k[TAIL], k[OLDEST], k[NEXT], k[USED] = 0, tail - head, 0, k[NEXT] - first, k[USED] - used
