"""`trendfold demo`: three queries over generated rides, and a picture of what they count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from trendfold import api
from trendfold.cli.show import make_folder, print_table, progress, replacing, say
from trendfold.events.generate import Options, ridesharing

if TYPE_CHECKING:
    import pyarrow as pa


def demo(events: int, seed: int, folder: str) -> None:
    """Generate, run, print, and draw into `folder`."""
    make_folder(folder)
    text = files("trendfold").joinpath("demo.tql").read_text(encoding="utf-8")
    workload = api.parse(text)
    table = ridesharing(Options(events=events, seed=seed))
    print(f"{events:,} events of rides, generated with seed {seed}; the queries:\n\n{text}")
    say("compiling the loops, which takes up to a minute on the first run and nothing later")
    workload.run(table.slice(0, 1_000))
    with progress("queries") as tell:
        result = workload.run(table, progress=tell)
    for name in result:
        print_table(name, result[name].slice(0, 5))
    counts = {name: _per_window(result[name]) for name in result}
    for name, bars in counts.items():
        print(f"{name}: trends per window, log scale\n{_chart(bars)}\n")
    picture, queries = Path(folder, "trends.svg"), Path(folder, "demo.tql")
    with replacing([picture, queries]) as (picture_beside, queries_beside):
        picture_beside.write_text(_svg(counts), encoding="utf-8")
        queries_beside.write_text(text, encoding="utf-8")
    total = sum(count for bars in counts.values() for _, count in bars)
    seconds = result.summary.seconds
    windows = result.summary.windows
    print(f"{total:.3g} trends in {windows} windows were counted, and none built, in {seconds:.2f} s")
    print(f"the picture is in {picture}, the queries are in {queries}")
    say(str(result.summary))


Bars = Sequence[tuple[str, float]]
"""Windows, by the time they begin, and their counts."""


def _per_window(table: pa.Table) -> Bars:
    """Trends per window, over all groups."""
    totals: dict[datetime, float] = {}
    columns = (table.column(name).to_pylist() for name in ("window_start", "count"))
    for start, count in zip(*columns, strict=True):
        totals[start] = totals.get(start, 0.0) + count
    return [(f"{start:%H:%M}", totals[start]) for start in sorted(totals)]


def _chart(bars: Bars, height: int = 4) -> str:
    """Bars of eighths of a character, four lines high."""
    if not bars:
        return "(no rows)"
    top = max(1, math.ceil(max(math.log10(count + 1) for _, count in bars)))
    eighths = [round(math.log10(count + 1) / top * height * 8) for _, count in bars]
    lines = []
    for level in reversed(range(height)):
        label = f"1e{top}" if level == height - 1 else ""
        blocks = (" ▁▂▃▄▅▆▇█"[min(8, max(0, size - 8 * level))] for size in eighths)
        lines.append(f"{label:>6} │" + "".join(block * 2 for block in blocks))
    first, last = bars[0][0], bars[-1][0]
    return "\n".join([*lines, f"{'1':>6} └" + "─" * 2 * len(bars), f"{'':8}{first} … {last}"])


WIDTH, HEIGHT, LEFT, TOP = 860, 190, 70, 56
COLOURS = ("#2563eb", "#059669", "#d97706")


def _svg(counts: Mapping[str, Bars]) -> str:
    """One panel per query: a bar per window, its height the logarithm of the count."""
    from xml.sax.saxutils import escape

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + HEIGHT * len(counts)}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#334155">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="20" y="28" font-size="18" font-weight="600">Trends per window</text>',
        '<text x="20" y="46">counted, not built; logarithmic scale</text>',
    ]
    for i, (name, bars) in enumerate(counts.items()):
        parts.append(f'<g transform="translate(0 {TOP + i * HEIGHT})">')
        parts.append(f'<text x="{LEFT}" y="20" font-weight="600">{escape(name)}</text>')
        parts += _panel(bars, COLOURS[i % len(COLOURS)])
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(bars: Bars, colour: str) -> Iterable[str]:
    base, high = HEIGHT - 26, HEIGHT - 60
    decades = max(1, math.ceil(max((math.log10(count + 1) for _, count in bars), default=1)))
    step = (WIDTH - LEFT - 20) / max(1, len(bars))
    for power in range(0, decades + 1, -(-decades // 4)):
        y = base - high * power / decades
        yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e8f0"/>'
        yield (
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">10'
            f'<tspan dy="-5" font-size="9">{power}</tspan></text>'
        )
    every = max(1, len(bars) // 8)
    for i, (start, count) in enumerate(bars):
        x, tall = LEFT + i * step, high * math.log10(count + 1) / decades
        yield (
            f'<rect x="{x + 1:.1f}" y="{base - tall:.1f}" width="{max(1.0, step - 2):.1f}" '
            f'height="{tall:.1f}" fill="{colour}"><title>{start}: {count:,.0f}</title></rect>'
        )
        if i % every == 0:
            yield f'<text x="{x + step / 2:.1f}" y="{base + 16}" text-anchor="middle">{start}</text>'
