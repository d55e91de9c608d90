"""Streams and pattern workloads as in MCEP's section 6.1, scaled to this machine.

From the paper: patterns are sequences or conjunctions of 5 event types on average, with about half as many
conditions as types, each comparing an attribute of two of them; one in five has a NOT or a Kleene closure;
100 patterns are a workload. Rates of stocks lie between 2 and 47 events/s, selectivities between 0.003 and
0.92. A stock update has the price difference to the previous update; a traffic observation has vehicles and
speed.

Our choices where the paper gives no details: three of four patterns are sequences. Half of these follow one
order of types, and the same two types are always compared in the same way: that is what patterns have in
common. There are 20 types instead of 2,100, and windows have 10 events of the mean type instead of thousands,
so that the trivial plan finishes within seconds; a note of the bench gives the density of the multi-pattern
graph. A pattern that would match often by its rates and selectivities is redrawn: all plans report the same
matches, and differ only in the work before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial, prod
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.csv

from trendfold.api import Workload, parse


@dataclass(frozen=True, slots=True)
class PatternStream:
    """Events, the attributes that patterns compare, and the rate of each type."""

    table: pa.Table
    types: tuple[str, ...]
    rates: tuple[float, ...]
    compared: tuple[str, ...]
    spread: dict[str, tuple[float, ...]]
    """The standard deviation by attribute and type, from which conditions get their selectivity."""
    centre: dict[str, tuple[float, ...]]
    """The mean by attribute and type."""
    unit_us: int
    """The time in which the mean type has one event."""

    @property
    def has_ties(self) -> bool:
        """Whether events share a time, so that windows of events are ambiguous."""
        times = self.table.column("ts").to_numpy()
        return bool((times[1:] == times[:-1]).any())


@dataclass(frozen=True, slots=True)
class PatternShape:
    """Parameters of a workload's patterns."""

    patterns: int = 100
    size: int = 5
    """The average number of event types in a pattern."""
    window: float = 4.0
    """WITHIN, in events of the mean type."""
    is_counted: bool = False
    """Whether windows count events."""
    types: int = 20
    """How many of the stream's types the patterns use; fewer types share more."""
    sequences: float = 0.75
    special: float = 0.2
    """The share of patterns with a NOT or a Kleene closure."""
    conditions: float = 0.5
    """Conditions per event type; a pair of types is always compared in the same way."""
    aligned: float = 0.5
    """The share of sequences that follow one common order of types; the others are random."""
    rarity: float = 0.5
    """The maximum expected matches of a pattern per window: patterns are alarms."""
    rate_difference: float = 1.0
    """How much rates within a pattern may differ, as a share of the maximum difference."""


def stock(events: int, seed: int, types: int = 20) -> PatternStream:
    """Stock updates with rates between 2 and 47, each with the difference to the previous price."""
    rng = np.random.default_rng([seed, 1])
    rates = np.exp(rng.uniform(np.log(2), np.log(47), types))
    code = rng.choice(types, size=events, p=rates / rates.sum())
    volatility = rng.uniform(0.5, 2.0, types)
    difference = rng.normal(0, volatility[code])
    names = tuple(f"S{i:02}" for i in range(types))
    return _stream(names, code, rates, {"diff": np.round(difference, 3)}, rng)


def traffic(events: int, seed: int, types: int = 20) -> PatternStream:
    """Road observations: rates differ little, and speed decreases with the number of vehicles."""
    rng = np.random.default_rng([seed, 2])
    rates = rng.uniform(5, 20, types)
    code = rng.choice(types, size=events, p=rates / rates.sum())
    vehicles = rng.poisson(rng.uniform(4, 30, types)[code])
    speed = 90 - 1.5 * vehicles + rng.normal(0, 8, events)
    names = tuple(f"P{i:02}" for i in range(types))
    columns = {"vehicles": vehicles.astype(float), "speed": np.round(speed, 1)}
    return _stream(names, code, rates, columns, rng)


def _stream(
    names: tuple[str, ...],
    code: np.ndarray,
    rates: np.ndarray,
    columns: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> PatternStream:
    """One event per millisecond on average, all types mixed."""
    time = np.cumsum(rng.exponential(1_000, len(code)).astype(np.int64) + 1)
    return _measured(names, code, time, rates, columns)


def aarhus(path: str, events: int) -> PatternStream:
    """Real sensor data (Aarhus, 2014): readings every five minutes, all at the same times."""
    table = pa.csv.read_csv(path).sort_by([("time", "ascending"), ("sensor", "ascending")]).slice(0, events)
    sensors, code = np.unique(table.column("sensor").to_numpy(), return_inverse=True)
    time = table.column("time").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    columns = {
        "vehicles": table.column("vehicle_count").to_numpy().astype(float),
        "speed": table.column("avg_speed").to_numpy().astype(float),
    }
    names = tuple(f"P{sensor}" for sensor in sensors)
    rates = np.bincount(code).astype(float)
    return _measured(names, code.astype(np.int32), time - time[0] + 1, rates, columns)


def _measured(
    names: tuple[str, ...],
    code: np.ndarray,
    time: np.ndarray,
    rates: np.ndarray,
    columns: dict[str, np.ndarray],
) -> PatternStream:
    """A stream with the statistics of its columns."""
    types = pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(names))
    table = pa.table({"type": types, "ts": pa.array(time), **columns})
    each = range(len(names))
    spread = {key: tuple(float(np.std(values[code == i])) for i in each) for key, values in columns.items()}
    centre = {key: tuple(float(np.mean(values[code == i])) for i in each) for key, values in columns.items()}
    unit_us = round(float(time[-1]) / len(code) * len(names)) if len(code) else 1
    return PatternStream(table, names, tuple(map(float, rates)), tuple(columns), spread, centre, unit_us)


def workload(stream: PatternStream, shape: PatternShape, seed: int) -> Workload:
    """Random patterns over a stream's types."""
    rng = np.random.default_rng([seed, 3])
    chosen = rng.choice(len(stream.types), size=min(shape.types, len(stream.types)), replace=False)
    conditions = _conditions(stream, shape, rng)
    found: list[str] = []
    tried = 0
    while len(found) < shape.patterns:
        tried += 1
        loosened = replace(shape, rarity=shape.rarity * 2 ** (tried // (20 * shape.patterns)))
        pattern = _pattern(stream, loosened, chosen, conditions, rng)
        found += [pattern] if pattern is not None else []
    return parse(";\n".join(found))


Conditions = dict[tuple[int, int], tuple[str, float]]
"""The condition and selectivity of each pair of types that is compared."""


def _conditions(stream: PatternStream, shape: PatternShape, rng: np.random.Generator) -> Conditions:
    """Conditions for some pairs of types, used wherever both occur; selectivities as in section 6.1."""
    found = {}
    share = 2 * shape.conditions / max(shape.size - 1, 1)
    for a, b in combinations(range(len(stream.types)), 2):
        if rng.random() >= share:
            continue
        attribute = str(rng.choice(stream.compared))
        selectivity = float(np.exp(rng.uniform(np.log(0.003), np.log(0.92))))
        spread, centre = stream.spread[attribute], stream.centre[attribute]
        offset = centre[b] - centre[a] - NormalDist().inv_cdf(selectivity) * np.hypot(spread[a], spread[b])
        side = f"{stream.types[a]}.{attribute} {'-' if offset < 0 else '+'} {abs(offset):.3f}"
        found[a, b] = f"{side} < {stream.types[b]}.{attribute}", selectivity
    return found


def _pattern(
    stream: PatternStream,
    shape: PatternShape,
    chosen: np.ndarray,
    conditions: Conditions,
    rng: np.random.Generator,
) -> str | None:
    """A random pattern; None if it would match too often or has no condition."""
    size = int(np.clip(shape.size + rng.integers(-1, 2), 2, len(chosen)))
    types = rng.permutation(_alike(stream, shape, chosen, rng))[:size]
    asked = [conditions[pair] for pair in combinations(sorted(types), 2) if pair in conditions]
    is_sequence = rng.random() < shape.sequences
    is_special = rng.random() < shape.special
    if is_sequence and rng.random() < shape.aligned:
        types = np.sort(types)
    mean = sum(stream.rates) / len(stream.rates)
    often = prod(shape.window * stream.rates[i] / mean for i in types) * prod(one for _, one in asked)
    if not asked or often / (factorial(size) if is_sequence or is_special else 1) > shape.rarity:
        return None
    elements = [stream.types[i] for i in types]
    if is_special:
        is_sequence = True
        at = int(rng.integers(1, size))
        others = sorted(set(range(len(stream.types))) - set(map(int, types)))
        if rng.random() < 0.5 and others:
            elements.insert(at, f"NOT {stream.types[rng.choice(others)]}")
        else:
            rarest = min(range(size), key=lambda k: stream.rates[types[k]])
            elements[rarest] += "+"
    where = " AND ".join(text for text, _ in asked)
    within = f"{max(1, round(shape.window * stream.unit_us / 1000))} ms"
    if shape.is_counted:
        within = f"{round(shape.window * len(stream.types))} events"
    operator = "SEQ" if is_sequence else "AND"
    return f"RETURN MATCHES PATTERN {operator}({', '.join(elements)}) WHERE {where} WITHIN {within}"


def _alike(
    stream: PatternStream, shape: PatternShape, chosen: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The types whose rates differ by no more than the shape allows."""
    if shape.rate_difference >= 1:
        return chosen
    rates = np.array([stream.rates[i] for i in chosen])
    reach = shape.rate_difference * (rates.max() - rates.min())
    centre = rates[rng.integers(len(rates))]
    near = np.argsort(np.abs(rates - centre))
    enough = max(shape.size + 1, int((np.abs(rates - centre) <= reach / 2).sum()))
    return np.asarray(chosen[near[:enough]])


def reshuffled(stream: PatternStream, every: int, types: int, seed: int) -> PatternStream:
    """The stream with some types swapped after every `every` events (section 6.2.3)."""
    rng = np.random.default_rng([seed, 4])
    code = stream.table.column("type").combine_chunks().indices.to_numpy().copy()
    swap = np.arange(len(stream.types), dtype=np.int32)
    for start in range(every, len(code), every):
        some = rng.choice(len(swap), size=types, replace=False)
        swap[some] = swap[rng.permutation(some)]
        code[start : start + every] = swap[code[start : start + every]]
    names = pa.DictionaryArray.from_arrays(pa.array(code), pa.array(stream.types))
    return replace(stream, table=stream.table.set_column(0, "type", names))
