"""RETURN MATCHES through the public API, next to what the oracle says; and cases with AND inside patterns."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import trendfold
import workloads
from contract.engine import to_table
from trendfold.errors import QueryError, TrendfoldError
from trendfold.testing import oracle
from workloads import Case

Run = Callable[[trendfold.Workload, Case], Any]


def canonical(rows: list[dict]) -> list[str]:
    """Rows as a multiset: matches of equal start and end come in any order."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def run_with(strategy: str) -> Run:
    def run(workload: trendfold.Workload, case: Case) -> Any:
        return workload.run(to_table(case), order_column=case.order_column, strategy=strategy)

    return run


def wrong(case: Case, run: Run) -> str | None:
    """What is wrong with the matches found, or None."""
    expected = oracle.matches(*case)
    workload = trendfold.parse(case.query)
    (query,) = workload
    found = run(workload, case)[query.name].to_pylist()
    if canonical(found) != canonical(expected):
        return f"{len(found)} matches instead of {len(expected)}, or others"
    spans = [[(row["start"], row["end"]) for row in rows] for rows in (found, expected)]
    return None if spans[0] == spans[1] else "rows are not ordered by start and end"


def check(case: Case, run: Run, origin: str = "") -> None:
    """Fail unless the matches are the oracle's; show a smaller case."""

    def problem(one: Case) -> str | None:
        try:
            return wrong(one, run)
        except (TrendfoldError, ArithmeticError, AssertionError, LookupError, TypeError) as error:
            return f"{type(error).__name__}: {error}"

    found = problem(case)
    if found is None:
        return
    small = workloads.reduced(case, lambda one: problem(one) is not None)
    raise AssertionError(
        f"{found}\n{origin}\nreduced to: {problem(small)}\n{small.query}\nevents = {small.events!r}\n"
        f"order_column = {small.order_column!r}\noracle: {oracle.matches(*small)!r}"
    )


# ---- AND inside SEQ and around it ----------------------------------------------------------------


def nested_case(rng: random.Random) -> Case:
    """A valid case whose pattern has an AND somewhere, with operands that may share types."""
    while True:
        names: list[str] = []
        pattern = _part(rng, 2, names)
        if len(names) > 5 or "AND" not in pattern:
            continue
        text = "\n".join(["RETURN MATCHES(v)", f"PATTERN {pattern}", *_clauses(rng, names)])
        try:
            oracle.Meaning(text)
            trendfold.parse(text)
        except (oracle.OracleError, QueryError):
            continue
        return Case(text, _events(rng), None)


def beside_case(rng: random.Random) -> Case:
    """A valid case with an AND next to NOTs, and conditions between their events."""
    while True:
        names: list[str] = []
        operands = [_chain(rng, names) for _ in range(rng.choice([2, 2, 3]))]
        parts = [f"AND({', '.join(operands)})"]
        for at, odds in ((0, 0.5), (1, 0.5)):
            if rng.random() < odds:
                parts.insert(at * len(parts), _chain(rng, names))
        nots = [f"NOT {rng.choice('NM')} n{i}" for i in range(3)]
        gaps = [rng.random() < 0.6 for _ in range(len(parts) + 1)]
        mixed = [x for i, gap in enumerate(gaps) for x in (nots[i : i + 1] if gap else []) + parts[i : i + 1]]
        where = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            a, n = rng.choice(names), f"n{rng.randrange(3)}"
            where.append(f"{n}.{rng.choice('vw')} {rng.choice(['<', '>=', '!=', '='])} {a}.v")
        text = "\n".join(["RETURN MATCHES(v)", f"PATTERN SEQ({', '.join(mixed)})", *_clauses(rng, names)])
        for one in where:
            text = text.replace("WHERE ", f"WHERE {one} AND ") if "WHERE" in text else f"{text}\nWHERE {one}"
        try:
            oracle.Meaning(text)
            trendfold.parse(text)
        except (oracle.OracleError, QueryError):
            continue
        events = _events(rng)
        for event in events:
            event["type"] = rng.choice("NM") if rng.random() < 0.25 else event["type"]
        return Case(text, events, None)


def _chain(rng: random.Random, names: list[str]) -> str:
    """One to three events in order, each with an alias; some repeated."""
    parts = []
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.choice("ABC")
        names.append(f"{kind.lower()}{len(names)}")
        parts.append(f"{kind} {names[-1]}" + rng.choice(["", "", "", "+"]))
    return parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"


def _part(rng: random.Random, depth: int, names: list[str]) -> str:
    draw = rng.random()
    if depth == 0 or draw < 0.35:
        kind = rng.choice("ABC")
        names.append(f"{kind.lower()}{len(names)}")
        return f"{kind} {names[-1]}" + rng.choice(["", "", "", "+", "{1,2}"])
    if draw < 0.65:
        parts = [_part(rng, depth - 1, names) for _ in range(rng.choice([2, 2, 3]))]
        if rng.random() < 0.3:
            parts.insert(1, rng.choice(["NOT N", "NOT SEQ(N, M)"]))
        return f"SEQ({', '.join(parts)})"
    return f"AND({_part(rng, depth - 1, names)}, {_part(rng, depth - 1, names)})"


def _clauses(rng: random.Random, names: list[str]) -> list[str]:
    where = ["[k]"] if rng.random() < 0.15 else []
    for _ in range(rng.choice([0, 1, 2]) if len(names) > 1 else 0):
        a, b = rng.sample(names, 2)
        where.append(f"{a}.v {rng.choice(['<=', '<=', '!='])} {b}.v")
    if rng.random() < 0.3:
        where.append(f"{rng.choice(names)}.v > 1")
    found = [f"WHERE {' AND '.join(where)}"] if where else []
    found += ["GROUP BY g"] if rng.random() < 0.2 else []
    return found + ([f"WITHIN {rng.randint(4, 12)} s"] if rng.random() < 0.7 else [])


def _events(rng: random.Random) -> list[dict]:
    time, found = 0, []
    for _ in range(rng.randint(7, 10)):
        time += rng.choice([0, 1, 1, 2])
        found.append(
            {
                "type": rng.choice("AABBCC" if rng.random() < 0.9 else "NM"),
                "ts": time,
                "k": rng.choice([1, 1, 2]),
                "g": rng.choice("xy"),
                "v": rng.choice([0, 1, 2, 3, 3, 3, None]),
                "w": 1.0,
                "s": "x",
            }
        )
    return found
