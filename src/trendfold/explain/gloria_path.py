"""Table rows describing a query's path through GLORIA's graph."""

from __future__ import annotations

from trendfold.explain.value import Value

FEW = 6
"""The most queries named and alternatives listed; of the rest, only the number is given."""


def gain_row(sharing: Value) -> tuple[str, str]:
    """A plan's estimated cost, and its gain over not sharing."""
    cost, alone = sharing["cost"], sharing["cost_alone"]
    if cost == alone:
        gain = "the same as"
    else:
        gain = (
            f"{alone / cost:.2f} times cheaper than"
            if cost < alone
            else f"{cost / alone:.2f} times more expensive than"
        )
    return f"cost {cost:,.0f}", f"{gain} {alone:,.0f}, the cost of {sharing['queries']:,} queries alone"


def pool_row(pool: Value) -> tuple[str, str, str]:
    """A transition, its Q-sets, and its weight."""
    weight = f"weight {pool['weight']:,.0f}, from the start {pool['distance']:,.0f}"
    return transition_text(pool), sets_text(pool["sets"]), weight


def other_rows(pool: Value) -> list[tuple[str, str, str, str]]:
    """The alternatives to a transition's Q-sets, nearest first."""
    return [
        (
            transition_text(pool),
            sets_text(other["sets"]),
            f"from the start {other['distance']:,.0f}",
            "pruned" if other["pruned"] else "",
        )
        for other in nearest(pool)
    ]


def nearest(pool: Value) -> list[Value]:
    """The nodes nearest to the start among those not chosen."""
    return sorted(pool["others"], key=lambda other: float(other["distance"]))[:FEW]


def transition_text(pool: Value) -> str:
    """A pool's transition, or the states of its Kleene sub-pattern."""
    edges = pool["transitions"]
    if len(edges) == 1 and edges[0][0] != edges[0][1]:
        return f"{edges[0][0]} → {edges[0][1]}"
    return f"({', '.join(dict.fromkeys(state for edge in edges for state in edge))})+"


def sets_text(sets: list[Value]) -> str:
    """Q-sets in the paper's notation, with query names."""
    shared = [f"({_named(own['queries'])})^{own['snapshot']}" for own in sets if own["snapshot"]]
    alone = [f"({own['queries'][0]})" for own in sets if not own["snapshot"]]
    return ", ".join([*shared, *([_named(alone)] if alone else [])])


def _named(names: list[str]) -> str:
    more = [f"and {len(names) - FEW:,} more"] if len(names) > FEW else []
    return ", ".join([*names[:FEW], *more])
