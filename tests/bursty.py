"""Random workloads that have much to share, over streams that come in bursts."""

from __future__ import annotations

import random
from typing import NamedTuple

TYPES = "ABCDE"


class Workload(NamedTuple):
    """Queries, each as text of its own, and the events that all of them are asked about."""

    queries: list[str]
    events: list[dict]
    order_column: str | None

    @property
    def text(self) -> str:
        """All queries as one workload."""
        return ";\n".join(self.queries)


SHAPES = (
    "SEQ({0}, {1}+)",
    "SEQ({0}, {1}+, {2})",
    "SEQ({0}, {1}, {2})",
    "{1}+",
    "SEQ({1}+, {2})",
    "SEQ({0}+, {1}+)",
    "SEQ({0}, {1}+, {2})+",
    "OR(SEQ({0}, {1}+), SEQ({2}, {3}))",
    "SEQ({0}, {1}?, {2})",
    "SEQ({1}, {1}+)",
)


def random_workload(rng: random.Random, most: int = 12) -> Workload:
    """2 to `most` queries; most of them agree in what rows they need, and many in their Kleene part."""
    kleene = rng.choice(TYPES)
    where = rng.choice(["", "", "[u]"])
    group = rng.choice(["", "", "g", f"{kleene}.g"])
    count = rng.randint(2, most)
    queries = [_query(rng, i, kleene, where, group) for i in range(count)]
    order = rng.choice([None, None, "seq"])
    return Workload(queries, _events(rng, kleene), order)


def _query(rng: random.Random, number: int, kleene: str, where: str, group: str) -> str:
    others = rng.sample([t for t in TYPES if t != kleene], 3)
    types = [others[0], kleene, others[1], others[2]]
    shape = rng.choice(SHAPES[:3] if rng.random() < 0.6 else SHAPES)
    used = [type_ for i, type_ in enumerate(types) if f"{{{i}}}" in shape]
    conditions = [where] if where and rng.random() < 0.9 else []
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        conditions.append(f"{rng.choice(used)}.x {rng.choice(['<', '>', '!='])} {rng.randint(0, 4)}")
    returned = ["COUNT(*)"] + [_aggregate(rng, rng.choice(used)) for _ in range(rng.choice([0, 0, 1, 2]))]
    may_be_absent = "OR" in shape or "?" in shape  # then nothing can be grouped by it
    key = group if group and rng.random() < 0.9 and not (may_be_absent and group != "g") else ""
    return " ".join(
        part
        for part in [
            f"QUERY w{number} RETURN {', '.join(dict.fromkeys([*([key] if key else []), *returned]))}",
            f"PATTERN {shape.format(*types)}",
            f"WHERE {' AND '.join(conditions)}" if conditions else "",
            f"GROUP BY {key}" if key else "",
            _window(rng),
        ]
        if part
    )


def _aggregate(rng: random.Random, type_: str) -> str:
    function = rng.choice(["COUNT", "SUM", "AVG", "MIN", "MAX"])
    return f"COUNT({type_})" if function == "COUNT" else f"{function}({type_}.{rng.choice('xy')})"


def _window(rng: random.Random) -> str:
    slide = rng.choice([2, 5])
    return rng.choice(
        [
            "",
            f"WITHIN {slide} s SLIDE {slide} s",
            f"WITHIN {2 * slide} s SLIDE {slide} s",
            "WITHIN 7 s SLIDE 3 s",
        ]
    )


def _events(rng: random.Random, kleene: str) -> list[dict]:
    """Bursts of one type; times may be equal, values null."""
    found: list[dict] = []
    time = rng.randint(-5, 5)
    while len(found) < rng.randint(4, 18):
        type_ = kleene if rng.random() < 0.5 else rng.choice(TYPES + "Z")
        for _ in range(rng.choice([1, 1, 2, 3, 5]) if type_ == kleene else rng.choice([1, 1, 2])):
            time += rng.choice([0, 1, 1, 1, 2])
            found.append(
                {
                    "type": type_,
                    "ts": time,
                    "seq": rng.randint(0, 3),
                    "u": rng.choice([1, 1, 2, None]),
                    "g": rng.choice(["a", "a", "b", None]),
                    "x": rng.choice([0, 1, 2, 3, 4, None]),
                    "y": rng.choice([-1.5, 0.25, 2.0, None]),
                }
            )
    return rng.sample(found, len(found))
