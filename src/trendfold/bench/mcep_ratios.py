"""The headline ratios of MCEP's Figures 10 to 14, computed from our figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trendfold.bench.mcep_figures import Figure

Points = dict[float, float]


def headlines(figures: Mapping[str, Figure]) -> dict[str, float]:
    """Figures by title, from `mcep_figures.figures` -> ratios by name."""
    found = {}
    for title, figure in figures.items():
        which, stream = title.partition(":")[0].rsplit(", ", 1)
        for name, of in _HEADLINES.get(which, {}).items():
            found[name.format(stream)] = of(figure)
    return found


def _search(figure: Figure) -> Points:
    """The best search at each point."""
    return _best(figure, lambda name: name.startswith(("SA-", "TS-")))


def _best(figure: Figure, is_meant: Callable[[str], bool]) -> Points:
    found: Points = {}
    for curve in (points for name, points in figure.items() if is_meant(name)):
        for x, gain in curve:
            found[x] = max(gain, found.get(x, 0.0))
    return found


def _over(figure: Figure, ours: str, theirs: str) -> list[float]:
    return [one / other for (_, one), (_, other) in zip(figure[ours], figure[theirs], strict=True)]


def _over_rivals(figure: Figure) -> list[float]:
    """The best search over the better of sharing alone and reordering alone, at each point."""
    rivals = _best(figure, lambda name: name in ("SH", "RE"))
    return [gain / rivals[x] for x, gain in _search(figure).items()]


def _most_over_rivals(figure: Figure) -> float:
    return max(_over_rivals(figure))


def _least_over_rivals(figure: Figure) -> float:
    return min(_over_rivals(figure))


def _most(figure: Figure) -> float:
    return max(_search(figure).values())


def _last(figure: Figure) -> float:
    points = _search(figure)
    return points[max(points)]


def _growth(figure: Figure) -> float:
    """The gain at the last point over the gain at the first."""
    points = _search(figure)
    return points[max(points)] / points[min(points)]


def _over_prefixes(figure: Figure) -> float:
    return max(ratio for how in ("SA", "TS") for ratio in _over(figure, f"{how}-EDGE", f"{how}-EDGE-PREFIX"))


_HEADLINES: dict[str, dict[str, Callable[[Figure], float]]] = {
    "Figures 10, 12a": {
        "Figure 10, {}: the most gain over the trivial plan": _most,
        "Figure 10, {}: sharing any part over sharing prefixes, most": _over_prefixes,
        "Figure 12a, {}: over the better of SH and RE, most": _most_over_rivals,
    },
    "Figures 11a, 12b": {
        "Figure 11a, {}: gain with the longest patterns": _last,
        "Figure 12b, {}: over the better of SH and RE, most": _most_over_rivals,
    },
    "Figure 11b": {"Figure 11b, {}: gain after the longest search over the shortest": _growth},
    "Figures 11c, 12c": {
        "Figure 11c, {}: gain in the longest window over the shortest": _growth,
        "Figure 12c, {}: over the better of SH and RE, least": _least_over_rivals,
    },
    "Figures 11d, 12d": {
        "Figure 11d, {}: gain in the largest window of events over the smallest": _growth,
        "Figure 12d, {}: over the better of SH and RE, least": _least_over_rivals,
    },
    "Figure 13": {
        "Figure 13, {}: adaptive over trivial, least": lambda figure: min(y for _, y in figure["adaptive"]),
        "Figure 13, {}: adaptive over static, least": lambda figure: min(_over(figure, "adaptive", "static")),
    },
    "Figure 14ab": {
        "Figure 14, {}: over the better of SH and RE at any density, least": _least_over_rivals,
    },
    "Figure 14cd": {
        "Figure 14, {}: over the better of SH and RE at any difference of rates, least": _least_over_rivals,
    },
}
"""By the figure numbers of a title: ratios by name, with a placeholder for the stream."""
