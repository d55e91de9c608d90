"""The pictures of docs/cookbook.md. Run as a program, it draws them anew from what the recipes find."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pyarrow as pa
import vl_convert

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "cookbook.md").read_text(encoding="utf-8")
PICTURES = DOCS / "cookbook"

Rows = list[dict[str, Any]]
Drawing = Callable[[dict[str, Any], list[Any]], Any]
"""The names that the page has defined so far, and what the recipe prints -> a chart."""

INK, SOFT, BLUE, ORANGE, PALE = "#1a2230", "#5b6678", "#2563eb", "#e8590c", "#c3cedd"


def recipes() -> Iterator[tuple[int, dict[str, Any], list[Any]]]:
    """Run the page: the number of each recipe, all names, and what the recipe printed."""
    names: dict[str, Any] = {}
    for part in re.split(r"^## (?=\d+\. )", PAGE, flags=re.MULTILINE):
        shown: list[Any] = []
        names["print"] = lambda *what, shown=shown: shown.append(what[0] if len(what) == 1 else what)
        for code in re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL):
            exec(code, names)
        if part[:1].isdigit():
            yield int(part.partition(".")[0]), names, shown


def charts() -> Iterator[tuple[int, Any]]:
    """The picture of each recipe."""
    for number, names, shown in recipes():
        chart = DRAWINGS[number](names, shown)
        yield number, chart.properties(background="white", padding=10).configure(**LOOK)


def digest(chart: Any) -> str:
    """What a picture was drawn from, whatever the version of the software that draws it."""
    found = chart.to_dict()
    found.pop("$schema", None)
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:16]


LOOK: dict[str, Any] = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "fontSize": 14, "fontWeight": 600, "color": INK, "offset": 10}
    | {"subtitleColor": SOFT, "subtitleFontSize": 12, "subtitlePadding": 4},
    "axis": {"labelColor": SOFT, "titleColor": SOFT, "titleFontWeight": "normal", "labelFontSize": 11}
    | {"domain": False, "ticks": False, "gridColor": "#e8edf4", "labelPadding": 6},
    "legend": {
        "labelColor": INK,
        "titleColor": SOFT,
        "orient": "top",
        "title": None,
        "symbolType": "circle",
        "labelLimit": 0,
    },
}
WIDTH = 560


def _chart(rows: Rows) -> Any:
    return alt.Chart(alt.Data(values=rows))


def _title(text: str, note: str = "") -> Any:
    return alt.TitleParams(text, subtitle=[note] if note else [])


def _bars(
    rows: Rows, y: str, x: str, told: Callable[[Any], str], title: str, note: str = "", **more: Any
) -> Any:
    """A bar per row, with its number behind it."""
    data = [{y: str(row[y]), x: row[x], "told": told(row)} for row in rows]
    base = _chart(data).encode(
        alt.Y(f"{y}:N", sort=None, title=None, axis=alt.Axis(labelColor=INK, labelFontSize=12)),
        alt.X(f"{x}:Q", axis=None, scale=alt.Scale(domainMax=1.15 * max(row[x] for row in rows))),
    )
    bars = base.mark_bar(color=BLUE, cornerRadiusEnd=3, height={"band": 0.7}).encode(**more)
    texts = base.mark_text(align="left", dx=6, color=INK, fontSize=12).encode(text="told:N")
    return (bars + texts).properties(width=WIDTH - 120, height=30 * len(rows), title=_title(title, note))


def _pairs(both: dict[str, Rows], y: str, x: str, title: str, note: str = "") -> Any:
    """Two bars for each name, one per query."""
    rows = [{"which": which, y: row[y], x: row[x]} for which, found in both.items() for row in found]
    base = _chart(rows).encode(
        alt.Y(f"{y}:N", title=None, axis=alt.Axis(labelColor=INK, labelFontSize=12)),
        alt.X(f"{x}:Q", axis=None),
        yOffset=alt.YOffset("which:N", sort=list(both)),
    )
    colours = alt.Color("which:N", scale=alt.Scale(domain=list(both), range=[BLUE, PALE]))
    bars = base.mark_bar(cornerRadiusEnd=3, height={"band": 0.85}).encode(color=colours)
    texts = base.mark_text(align="left", dx=6, color=INK, fontSize=11).encode(text=f"{x}:Q")
    height = 44 * len({row[y] for row in rows})
    return (bars + texts).properties(width=WIDTH - 120, height=height, title=_title(title, note))


def _rows(result: Any, name: str = "q1") -> Rows:
    return list(result[name].to_pylist())


def _loans(_: dict[str, Any], shown: list[Any]) -> Any:
    days = "{applications:.0f} applications, {days:.1f} days on average"
    rows = [row | {"days": row["seconds"] / 86_400} for row in _rows(shown[0])]
    title = "Declined after work steps, within 30 days"
    return _bars(rows, "resource", "applications", lambda row: days.format(**row), title, "by resource")


def _rides(_: dict[str, Any], shown: list[Any]) -> Any:
    rows = [row | {"name": f"district {row['district']}"} for row in _rows(shown[0])]
    rows.sort(key=lambda row: -row["rides"])
    title = "Cancelled after the car got slower"
    return _bars(
        rows, "name", "rides", lambda row: f"{row['rides']:.0f} rides", title, "districts with seven or more"
    )


def _web(_: dict[str, Any], shown: list[Any]) -> Any:
    rows = shown[0].table.to_pylist()

    def told(row: dict[str, Any]) -> str:
        share = row["of_previous"]
        return f"{row['keys']:,}" + ("" if share is None else f" · {share:.0%} of the step before")

    return _bars(
        rows, "name", "keys", told, "Where visitors leave", "users who reach each step within an hour"
    )


def _fraud(names: dict[str, Any], _: list[Any]) -> Any:
    rows = []
    for match in _rows(names["found"])[:12]:
        label = f"{match['card']}, {match['start']:%-d Jan %H:%M}"
        for kind in ("test", "use"):
            rows += [
                {
                    "match": label,
                    "minutes": (each["time"] - match["start"]).total_seconds() / 60,
                    "payment": "a small payment" if kind == "test" else "a large one",
                }
                for each in match[kind]
            ]
    y = alt.Y("match:N", sort=None, title=None, axis=alt.Axis(labelColor=INK))
    x = alt.X("minutes:Q", title="minutes since the first payment", scale=alt.Scale(padding=12))
    base = _chart(rows).encode(y=y, x=x)
    colours = alt.Scale(domain=["a small payment", "a large one"], range=[BLUE, ORANGE])
    lines = base.mark_line(color=PALE, strokeWidth=2).encode(detail="match:N")
    dots = base.mark_circle(size=80, opacity=1).encode(color=alt.Color("payment:N", scale=colours))
    title = _title("Three small payments, then a large one", "a line for each match")
    return (lines + dots).properties(width=WIDTH - 120, height=alt.Step(30), title=title)


def _sensors(names: dict[str, Any], _: list[Any]) -> Any:
    rises = _longest_runs(names["sensors"].to_pylist(), "sensor", "celsius", 6)
    best = max(rises, key=lambda run: (len(run), run[-1]["celsius"] - run[0]["celsius"]))
    sensor, begin, end = best[0]["sensor"], best[0]["ts"], best[-1]["ts"]
    own = [row for row in names["sensors"].to_pylist() if row["sensor"] == sensor]
    here = next(i for i, row in enumerate(own) if row["ts"] == begin)
    rows = [
        {
            "hours": (row["ts"] - begin).total_seconds() / 3600,
            "celsius": row["celsius"],
            "rising": begin <= row["ts"] <= end,
        }
        for row in own[max(0, here - 30) : here + 40]
    ]
    x = alt.X("hours:Q", title="hours since the rise began", axis=alt.Axis(format="~g"))
    y = alt.Y("celsius:Q", title="°C", scale=alt.Scale(zero=False))
    base = _chart(rows).encode(x=x, y=y)
    rise = base.transform_filter("datum.rising")
    lines = base.mark_line(color=PALE, strokeWidth=1.5) + base.mark_circle(color=PALE, size=22, opacity=1)
    risen = rise.mark_line(color=ORANGE, strokeWidth=2.5) + rise.mark_circle(color=ORANGE, size=45, opacity=1)
    title = _title(
        "Rising without a pause", f"sensor {sensor}: {len(best)} readings, each above the one before"
    )
    return (lines + risen).properties(width=WIDTH, height=180, title=title)


def _longest_runs(rows: Rows, key: str, value: str, least: int) -> list[Rows]:
    """Rows of one key in which a value rises at least so often, with no more than 15 minutes between them."""
    runs: list[Rows] = []
    for name in dict.fromkeys(row[key] for row in rows):
        run: Rows = []
        for row in (row for row in rows if row[key] == name):
            is_next = (
                run and row[value] > run[-1][value] and (row["ts"] - run[-1]["ts"]).total_seconds() <= 900
            )
            run = [*run, row] if is_next else [row]
            if len(run) >= least:
                runs.append(run)
    return runs


def _trades(names: dict[str, Any], _: list[Any]) -> Any:
    rows = [row for row in names["rows"] if row["ticker"] == "ACME"]
    begin = min(range(5, len(rows) - 60), key=lambda i: rows[i]["price"])
    part = rows[max(0, begin - 45) : begin + 45]
    shapes = [at for at in range(2, len(part) - 2) if _is_low(part, at)]
    inside = {i for at in shapes for i in _shape(part, at)}
    points = [{"second": row["ts"], "price": row["price"]} for row in part]
    shaped = [
        {"second": part[i]["ts"], "price": part[i]["price"], "shape": at}
        for at in shapes
        for i in _shape(part, at)
    ]
    x = alt.X("second:Q", title="second", scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("price:Q", title="price", scale=alt.Scale(zero=False))
    line = _chart(points).mark_line(color=PALE, strokeWidth=1.8).encode(x=x, y=y)
    found = _chart(shaped).encode(x=x, y=y, detail="shape:N").mark_line(color=ORANGE, strokeWidth=2.4)
    told = f"ACME around its lowest price: {len(shapes)} shapes cover {len(inside)} of {len(part)} trades"
    return (line + found).properties(width=WIDTH, height=190, title=_title("V-shapes", told))


def _is_low(rows: Rows, at: int) -> bool:
    low = [rows[i]["price"] for i in range(at - 2, at + 3)]
    return low[0] > low[1] > low[2] < low[3] < low[4]


def _shape(rows: Rows, at: int) -> range:
    """The rows from the top through the lowest row to the end of the rise."""
    begin, end = at, at
    while begin > 0 and rows[begin - 1]["price"] > rows[begin]["price"]:
        begin -= 1
    while end < len(rows) - 1 and rows[end + 1]["price"] > rows[end]["price"]:
        end += 1
    return range(begin, end + 1)


def _clinic(_: dict[str, Any], shown: list[Any]) -> Any:
    both = {
        "no culture in the twelve hours before": _rows(shown[0], "not_lately"),
        "never a culture before": _rows(shown[0], "never"),
    }
    both = {name: [row | {"ward": f"ward {row['ward']}"} for row in rows] for name, rows in both.items()}
    return _pairs(both, "ward", "patients", "Antibiotics without a culture", "patients by ward")


def _builds(_: dict[str, Any], shown: list[Any]) -> Any:
    rows = sorted(_rows(shown[0]), key=lambda row: -row["flaky"])
    title = "Flaky builds: failed, then passed on the same commit"
    return _bars(rows, "job", "flaky", lambda row: f"{row['flaky']:.0f}", title)


def _logins(_: dict[str, Any], shown: list[Any]) -> Any:
    rows = [row | {"week": f"week from {row['window_start']:%-d %b}"} for row in _rows(shown[0], "guessed")]
    title, note = (
        "Guessed passwords",
        "accounts with five failed logins, then a successful one, within ten minutes",
    )
    return _bars(rows, "week", "accounts", lambda row: f"{row['accounts']:.0f} accounts", title, note)


def _churn(_: dict[str, Any], shown: list[Any]) -> Any:
    both = {
        "all who cancelled": _rows(shown[0], "all"),
        "after complaints that nobody resolved": _rows(shown[0], "ignored"),
    }
    return _pairs(both, "plan", "customers", "Who cancelled, and who was ignored before", "customers by plan")


def _parcels(names: dict[str, Any], _: list[Any]) -> Any:
    late = names["late"]["q1"]
    counts = pa.table({"depot": late["depot"]}).group_by("depot").aggregate([([], "count_all")]).to_pylist()
    handed = [row for row in names["parcels"].to_pylist() if row["type"] == "Handover"]
    rows = []
    for row in sorted(counts, key=lambda row: row["depot"]):
        every = sum(each["depot"] == row["depot"] for each in handed)
        rows.append({"depot": row["depot"], "late": row["count_all"], "every": every})
    title = "Parcels not delivered within two days"
    return _bars(rows, "depot", "late", lambda row: f"{row['late']} of {row['every']}", title, "by depot")


def _games(names: dict[str, Any], _: list[Any]) -> Any:
    rows = []
    for name, label in (("three", "three losses"), ("one", "a loss"), ("win", "a win")):
        every, quits = (names["result"][f"{name}_{end}"]["count"][0].as_py() for end in ("all", "quit"))
        rows.append({"after": f"after {label}", "share": quits / every, "of": every})
    return _bars(rows, "after", "share", _share_of, "Players who quit")


def _share_of(row: Any) -> str:
    return f"{row['share']:.1%} of {row['of']:,.0f}"


DRAWINGS: dict[int, Drawing] = dict(
    enumerate(
        [
            _loans,
            _rides,
            _web,
            _fraud,
            _sensors,
            _trades,
            _clinic,
            _builds,
            _logins,
            _churn,
            _parcels,
            _games,
        ],
        1,
    )
)


def main(_: Sequence[str] = ()) -> None:
    """Draw every picture."""
    PICTURES.mkdir(exist_ok=True)
    for number, chart in charts():
        svg = vl_convert.vegalite_to_svg(chart.to_dict())
        target = PICTURES / f"{number:02}.svg"
        target.write_text(f"{svg}\n<!-- drawn from {digest(chart)} -->\n", encoding="utf-8")
        print(target.relative_to(DOCS.parent), f"{len(svg):,} bytes")


if __name__ == "__main__":
    main()
