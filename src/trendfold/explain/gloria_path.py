"""Words for a query's path through GLORIA's graph."""

from __future__ import annotations

from trendfold.explain.value import Value

FEW = 6
"""So many queries are named, and so many alternatives told; of others only the number."""


def gain_row(sharing: Value) -> tuple[str, str]:
    """What a plan costs by its cost model, and what it gains."""
    cost, alone = sharing["cost"], sharing["cost_alone"]
    if cost == alone:
        gain = "as much as"
    else:
        gain = (
            f"{alone / cost:.2f} times cheaper than"
            if cost < alone
            else f"{cost / alone:.2f} times dearer than"
        )
    return f"cost {cost:,.0f}", f"{gain} {alone:,.0f}, with each of {sharing['queries']:,} queries alone"


def pool_row(pool: Value) -> tuple[str, str, str]:
    """A transition, what it shares, and its weight."""
    weight = f"weight {pool['weight']:,.0f}, from the start {pool['distance']:,.0f}"
    return transition_text(pool), sets_text(pool["sets"]), weight


def other_rows(pool: Value) -> list[tuple[str, str, str, str]]:
    """What else a transition could share, the nearest first."""
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
    """The nearest of the nodes that were not chosen."""
    return sorted(pool["others"], key=lambda other: float(other["distance"]))[:FEW]


def transition_text(pool: Value) -> str:
    """The transition of a pool; of a Kleene sub-pattern its states."""
    edges = pool["transitions"]
    if len(edges) == 1 and edges[0][0] != edges[0][1]:
        return f"{edges[0][0]} → {edges[0][1]}"
    return f"({', '.join(dict.fromkeys(state for edge in edges for state in edge))})+"


def sets_text(sets: list[Value]) -> str:
    """Q-sets as the paper writes them, with names."""
    shared = [f"({_named(own['queries'])})^{own['snapshot']}" for own in sets if own["snapshot"]]
    alone = [f"({own['queries'][0]})" for own in sets if not own["snapshot"]]
    return ", ".join([*shared, *([_named(alone)] if alone else [])])


def _named(names: list[str]) -> str:
    more = [f"and {len(names) - FEW:,} more"] if len(names) > FEW else []
    return ", ".join([*names[:FEW], *more])
