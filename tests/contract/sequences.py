"""Random workloads of sequences that have prefixes and infixes in common, for A-Seq.

    random_workload(rng)    queries, events and an order column: Workload(queries, events, order_column)

Pieces are drawn first and put together to queries, so that several queries have the same prefix, or the
same sub-pattern at different places; conditions and NOTs come from small pools, so that some are equal and
some not.
"""

from __future__ import annotations

import random
from typing import NamedTuple

TYPES = "ABCD"
STRANGERS = "NM"
CONDITIONS = ("v > 1", "v > 1", "w <= 1.5", "v IS NOT NULL", "k = 1")
ATTRIBUTES = ("v", "w")


class Workload(NamedTuple):
    queries: list[str]
    events: list[dict]
    order_column: str | None


class _Element(NamedTuple):
    type: str
    condition: str | None = None
    barred: str | None = None
    barred_condition: str | None = None
    barred_too: str | None = None


def random_workload(rng: random.Random) -> Workload:
    pieces = [[_element(rng) for _ in range(rng.choice([1, 2, 2, 3]))] for _ in range(3)]
    ends = rng.choice(_MOVES)
    alike = [window for window in _WINDOWS if window.endswith(ends)]
    is_alike = rng.random() < 0.35  # lines in several windows that share marks
    windows = rng.sample(alike, 2) if is_alike else rng.sample(_WINDOWS, rng.choice([1, 1, 2]))
    wheres = rng.sample(["", "", "", "", "[k]", "[g]"], 1 if is_alike else rng.choice([1, 1, 1, 2]))
    keys = rng.sample(["", "", "", "", "", "g", "k", "first", "last"], rng.choice([1, 1, 1, 2]))
    lines = [_steps(rng, pieces) for _ in range(rng.choice([1, 2, 2, 3, 4, 6, 12]))]
    lines += lines[:3] if is_alike else []
    queries = [
        _query(rng, f"q{i}", steps, rng.choice(windows), rng.choice(wheres), rng.choice(keys))
        for i, steps in enumerate(lines)
    ]
    order_column = "seq" if rng.random() < 0.2 else None
    may_tie = not any("events" in window for window in windows)
    return Workload(queries, _events(rng, lines, order_column, may_tie), order_column)


_WINDOWS = [
    "",
    "WITHIN 9 s",
    "WITHIN 16 s",
    "WITHIN 25 s",
    "WITHIN 4 s",
    "WITHIN 8 s SLIDE 4 s",
    "WITHIN 15 s SLIDE 4 s",
    "WITHIN 20 s SLIDE 3 s",
    "WITHIN 14 s SLIDE 14 s",
    "WITHIN 8 s SLIDE 9 s",
    "WITHIN 7 events SLIDE 2 events",
    "WITHIN 12 events SLIDE 2 events",
    "WITHIN 5 events SLIDE 5 events",
]
_MOVES = (("16 s", "9 s", "25 s", "WITHIN 4 s"), ("SLIDE 4 s",), ("SLIDE 2 events",))


def _element(rng: random.Random) -> _Element:
    condition = rng.choice(CONDITIONS) if rng.random() < 0.15 else None
    if rng.random() > 0.2:
        return _Element(rng.choice(TYPES), condition)
    barred = rng.choice(STRANGERS + STRANGERS + TYPES)
    barred_condition = rng.choice(CONDITIONS) if rng.random() < 0.3 else None
    barred_too = rng.choice(STRANGERS + TYPES) if rng.random() < 0.3 else None
    return _Element(rng.choice(TYPES), condition, barred, barred_condition, barred_too)


def _steps(rng: random.Random, pieces: list[list[_Element]]) -> list[_Element]:
    """Pieces in some order, cut off somewhere; sometimes with an element of its own in front."""
    order = rng.sample(pieces, rng.choice([1, 2, 2, 3]))
    found = [element for piece in order for element in piece]
    if rng.random() < 0.3:
        found.insert(0, _element(rng))
    return found[: rng.choice([2, 3, 4, 5])]


def _query(rng: random.Random, name: str, steps: list[_Element], window: str, where: str, key: str) -> str:
    names = [f"{step.type.lower()}{i}" for i, step in enumerate(steps)]
    for i in range(len(steps)):  # one alias on several positions of one type
        same = [names[j] for j in range(i) if steps[j].type == steps[i].type and steps[j][1] == steps[i][1]]
        if same and rng.random() < 0.3:
            names[i] = same[-1]
    pattern, conditions = [], [where] if where else []
    if rng.random() < 0.12:
        barred = rng.choice(STRANGERS + TYPES)
        pattern.append(
            f"NOT {_any_of(f'{barred} start', rng.choice(STRANGERS), 'early', rng.random() < 0.3)}"
        )
        if rng.random() < 0.3:
            conditions.append(f"start.{rng.choice(CONDITIONS)}")
    for i, (step, alias) in enumerate(zip(steps, names, strict=True)):
        pattern.append(f"{step.type} {alias}")
        if step.condition:
            conditions.append(f"{alias}.{step.condition}")
        if step.barred and (i + 1 < len(steps) or rng.random() < 0.6):
            too = step.barred_too
            pattern.append(f"NOT {_any_of(f'{step.barred} n{i}', too, f'm{i}', too is not None)}")
            if step.barred_condition:
                conditions.append(f"n{i}.{step.barred_condition}")
    text = f"SEQ({', '.join(pattern)})" if len(pattern) > 1 else pattern[0]
    grouped = {"": None, "first": f"{names[0]}.g", "last": f"{names[-1]}.g"}.get(key, key)
    returned = ([grouped] if grouped else []) + [
        f"{aggregate} AS r{i}" for i, aggregate in enumerate(_aggregates(rng, names))
    ]
    lines = [f"QUERY {name}", f"RETURN {', '.join(returned)}", f"PATTERN {text}"]
    if conditions:
        lines.append("WHERE " + " AND ".join(dict.fromkeys(conditions)))
    if grouped:
        lines.append(f"GROUP BY {grouped}")
    return "\n".join([*lines, window] if window else lines)


def _any_of(one: str, type_: str | None, alias: str, is_or: bool) -> str:
    return f"({one} | {type_} {alias})" if is_or else one


def _aggregates(rng: random.Random, names: list[str]) -> list[str]:
    if rng.random() < 0.35:
        return ["COUNT(*)"]
    found = []
    for _ in range(rng.choice([1, 2, 3])):
        alias, attribute = rng.choice(names), rng.choice(ATTRIBUTES)
        whole = [f"{function}({alias}.{attribute})" for function in ("SUM", "AVG", "MIN", "MAX")]
        found.append(rng.choice(["COUNT(*)", f"COUNT({alias})", "LOG2(COUNT(*))", *whole, *whole]))
    return found


def _events(
    rng: random.Random, lines: list[list[_Element]], order_column: str | None, may_tie: bool
) -> list[dict]:
    """Types in the order of some lines, with others between them."""
    size = rng.choice([0, 4, 12, 16, 20, 24])
    ties = rng.choice([0.0, 0.15, 0.5]) if may_tie else 0.0
    time, events, sown = rng.randint(-5, 5), [], []
    while len(sown) < size:
        sown += [step.type for step in rng.choice(lines)] + rng.choices(
            TYPES + STRANGERS, k=rng.choice([0, 0, 1, 2])
        )
    for i in range(size):
        if rng.random() >= ties:
            time += rng.choice([1, 1, 1, 1, 2, 3])
        event = {
            "type": sown[i],
            "ts": time,
            "k": rng.choice([1, 1, 1, 1, 2, None]),
            "g": rng.choice(["x", "x", "x", "y", None]),
            "v": rng.choice([0, 2, 2, 3, 5, -4, None]),
            "w": rng.choice([0.5, 1.5, 2.25, -1.0, None]),
        }
        events.append(event | ({"seq": rng.choice([i, i, 0])} if order_column else {}))
    rng.shuffle(events)
    return events
