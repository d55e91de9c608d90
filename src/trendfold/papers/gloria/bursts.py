"""Bursts of equal events are one step of papers.gloria.kernel, where no event of a burst can follow another.

Then k events do what one does, k times: counts and coefficients are multiplied by k, the values that SUM adds
are added up, and extremes are the least. Events of one moment, and of consecutive moments that have no other
events, are a burst, unless a window begins or ends between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.kernel.program import Events
from trendfold.kernel.rows import mark_bursts
from trendfold.papers.gloria.lower import Alphabet
from trendfold.papers.gloria.network import Network, NetworkNode

WORTH = 0.7
"""Bursts are stepped if they are at most this fraction of the events."""


class Bursts(NamedTuple):
    """Rows as bursts: how many events each has, and the burst of each row, with one past the last."""

    events: Events
    many: NDArray[np.float64]
    first: NDArray[np.int64]


def each_by_itself(events: Events) -> Bursts:
    """Every event is a burst of one."""
    rows = len(events.symbol)
    return Bursts(events, np.ones(rows), np.arange(rows + 1))


def bursts_of(events: Events, network: Network, alphabet: Alphabet, edges: NDArray[np.int64]) -> Bursts:
    """The bursts of rows, none across the `edges` of windows; events by themselves if bursts are short."""
    rows = len(events.symbol)
    if network.conditions or not rows:
        return each_by_itself(events)
    steady = np.array([_is_steady(network, symbols) for symbols in alphabet], np.bool_)
    begins = np.zeros(rows + 1, np.bool_)
    begins[edges] = True
    mark_bursts(events.symbol, events.moment, steady, begins)
    first = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins[:-1])
    if len(starts) > WORTH * rows:
        return each_by_itself(events)
    values, extremes = events.values, events.extremes
    if values.shape[1]:
        values = np.add.reduceat(values, starts, axis=0)
    if extremes.shape[1]:
        extremes = np.minimum.reduceat(extremes, starts, axis=0)
    many = np.diff(np.append(starts, rows)).astype(np.float64)
    burst = events._replace(
        symbol=events.symbol[starts], moment=events.moment[starts], values=values, extremes=extremes
    )
    return Bursts(burst, many, first)


def _is_steady(network: Network, symbols: tuple[Symbol, ...]) -> bool:
    """Whether nothing that such an event writes is read by another one."""
    positions = network.plan.positions
    taken = {(positions[q][p], q) for q, symbol in enumerate(symbols) for p in symbol}
    nodes = [node for node in network.nodes if any((node.state, q) in taken for q in node.queries)]
    states, read = {node.state for node in nodes}, {r.row for node in nodes for r in node.reads.values()}
    return not any(states & node.pushes.keys() or read & _written(network, node) for node in nodes)


def _written(network: Network, node: NetworkNode) -> set[int]:
    """The rows to which an event at a node adds coefficients."""
    rows = {row for ring in node.pours for row in network.fed[ring]}
    return rows.union(*(network.bundles[b].targets for b in node.bundles.values()))
