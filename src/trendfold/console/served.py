"""The console's page, and the server that shows it on this machine only."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from trendfold.console.colours import decorations
from trendfold.console.completion import offered, place_typed
from trendfold.console.desk import (
    DATA,
    Checked,
    Data,
    Folder,
    as_command,
    as_python,
    check_text,
    open_data,
    plan_html,
)
from trendfold.console.flow import Flow
from trendfold.console.gate import Gate
from trendfold.console.worker import Run, StoppedError, make_ready
from trendfold.errors import NOWHERE, TrendfoldError, UnsupportedError, plural
from trendfold.query.printer import quoted

try:
    from nicegui import app, run, ui
    from starlette.responses import HTMLResponse
except ModuleNotFoundError:
    raise UnsupportedError("the console needs NiceGUI; pip install 'trendfold[console]'") from None


def first_text(first: str = "A", second: str = "B") -> str:
    """A text to begin with."""
    pattern = f"PATTERN SEQ({quoted(first)}, {quoted(second)})"
    asked = "-- How often does one follow the other?\nQUERY first\nRETURN COUNT(*)\n"
    return f"{asked}{pattern}\nWITHIN 1 min SLIDE 1 min"


_PAGES: dict[str, str] = {}
"""Reports of the latest runs, by a name that cannot be guessed."""
_KEPT = 8
_NOTHING_RAN = "<p>Nothing has run yet. Open data on the left, and press <b>Run</b> or Ctrl-Enter.</p>"
_NO_STREAM = (
    "<p>No stream runs. Write queries with WITHIN, say where events come from, and press <b>Start</b>: it "
    "watches files that arrive in a folder, or generated events.</p>"
)


def serve(
    folder: str = ".", port: int = 0, is_shown: bool = True, tell: Callable[[str], None] = print
) -> None:
    """Serve the console for a folder until it is interrupted."""
    root = Folder(Path(folder).resolve())
    token, port = secrets.token_urlsafe(24), port or _free_port()
    app.add_middleware(Gate, token=token)
    app.add_api_route("/report/{name}", _report)

    @ui.page("/", title="trendfold console")
    def page() -> None:
        Console(root)

    address = f"http://127.0.0.1:{port}/?token={token}"
    tell(f"trendfold console: {address}\nfor the files in {root.root}; stop it with Ctrl-C")
    ui.run(
        host="127.0.0.1",
        port=port,
        title="trendfold console",
        dark=None,
        reload=False,
        show=False if not is_shown else f"/?token={token}",
        show_welcome_message=False,
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _report(name: str) -> HTMLResponse:
    """A report of a run, in its own frame."""
    return HTMLResponse(_PAGES.get(name, "<p>This result is gone; run the queries again.</p>"))


class Console:
    """One page: data on the left, queries and what comes of them on the right."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.data: Data | None = None
        self.checked = Checked(None)
        self.text = ""
        self.file = "queries.tql"
        self.run: Run | None = None
        self.flow: Flow | None = None
        self.is_watching = False
        ui.add_css(_CSS)
        ui.colors(primary="#1d5fd6")
        with ui.row().classes("w-full no-wrap items-start gap-6 tf-page"):
            with ui.column().classes("tf-side gap-3"):
                self._data_side()
            with ui.column().classes("tf-main gap-3"):
                self._query_side()

    # ------------------------------------------------------------ data

    def _data_side(self) -> None:
        ui.label("trendfold console").classes("text-h6").props("role=heading aria-level=1")
        files = self.folder.files(DATA)
        self.chosen = ui.select(files, label="Open data", with_input=True, on_change=self._open).classes(
            "w-full"
        )
        self.chosen.props('aria-label="Open data"')
        if not files:
            ui.label("There are no Parquet, CSV or JSON files in this folder.")
        self.about = ui.column().classes("w-full gap-2")

    async def _open(self, *_: object) -> None:
        if not self.chosen.value:
            return
        await self._read(self.chosen.value)

    async def _read(self, name: str, type_column: str = "", time_column: str = "") -> None:
        found = await self._try(lambda: open_data(self.folder, name, type_column, time_column))
        if found is None:
            return
        self.data = found
        await run.io_bound(make_ready)
        if self.text == first_text() and len(found.types) > 1:
            self.editor.set_value(first_text(found.types[0][0], found.types[1][0]))
        self.about.clear()
        with self.about:
            ui.label(plural(found.events, "event")).classes("text-subtitle1")
            names = [column for column, _ in found.columns]
            for label, value, option in (
                ("Type column", found.type_column, "type"),
                ("Time column", found.time_column, "time"),
            ):
                ui.select(names, label=label, value=value, on_change=self._columns_changed(option)).classes(
                    "w-full"
                )
            ui.label("Types").classes("text-subtitle2")
            with ui.row().classes("gap-1"):
                for kind, count in found.types[:40]:
                    ui.button(f"{kind} {count:,}", on_click=self._inserter(kind)).props(
                        "dense outline no-caps size=sm"
                    )
            ui.label("Columns").classes("text-subtitle2")
            with ui.row().classes("gap-1"):
                for column, kind in found.columns:
                    ui.button(column, on_click=self._inserter(column)).props(
                        "dense flat no-caps size=sm"
                    ).tooltip(kind)
            ui.label("The first rows").classes("text-subtitle2")
            heads = [{"name": c, "label": c, "field": c, "align": "left"} for c in names]
            ui.table(columns=heads, rows=list(found.preview), row_key=names[0]).classes(
                "w-full bg-transparent"
            ).props("dense flat")
        self._check()

    def _columns_changed(self, option: str) -> Callable[[Any], Any]:
        async def changed(event: Any) -> None:
            assert self.data is not None
            given = {"type": self.data.type_column, "time": self.data.time_column, option: event.value}
            await self._read(self.data.name, given["type"], given["time"])

        return changed

    # ------------------------------------------------------------ queries

    def _query_side(self) -> None:
        with ui.row().classes("w-full items-center gap-2"):
            self.run_button = ui.button("Run", icon="play_arrow", on_click=self._run, color=None)
            self.run_button.classes("tf-run").props("no-caps unelevated")
            self.stop_button = ui.button("Stop", icon="stop", on_click=self._stop).props("no-caps outline")
            self.stop_button.set_visibility(False)
            ui.button("Why no rows?", on_click=self._why).props("no-caps outline")
            with ui.button("More", icon="more_vert").props("no-caps flat"), ui.menu():
                ui.menu_item("Save ...", self._save)
                ui.menu_item("Open ...", self._load)
                ui.menu_item("Copy as Python", lambda: self._copy(as_python))
                ui.menu_item(
                    "Copy as command line", lambda: self._copy(lambda _, data: as_command(self.file, data))
                )
            self.elapsed = ui.label("")
            self.state = ui.label("").props("role=status aria-live=polite")
        self.editor = ui.codemirror(first_text(), on_change=self._typed, line_wrapping=True)
        self.editor.classes("w-full tf-editor").props('aria-label="Queries"')
        self.editor.map_key("Mod-Enter", self._run)
        self.editor.map_key("Ctrl-Space", self._complete)
        self.suggestions = (
            ui.row().classes("gap-1 tf-suggestions").props('role=group aria-label="Completions"')
        )
        self.problems = ui.html("", sanitize=False).classes("w-full").props("role=status aria-live=polite")
        self.progress = ui.linear_progress(0, show_value=False).classes("w-full")
        self.progress.set_visibility(False)
        ui.timer(0.2, self._show_progress)
        with ui.tabs().props("no-caps align=left") as tabs:
            self.result_tab = ui.tab("Result")
            self.plan_tab = ui.tab("Plan")
            self.why_tab = ui.tab("Why")
            self.stream_tab = ui.tab("Stream")
        self.tabs = tabs
        with ui.tab_panels(tabs, value=self.plan_tab).classes("w-full bg-transparent"):
            with ui.tab_panel(self.result_tab).classes("tf-flat"):
                self.result = ui.html(_NOTHING_RAN, sanitize=False).classes("w-full")
            with ui.tab_panel(self.plan_tab).classes("tf-flat"):
                self.plan = ui.html("", sanitize=False).classes("w-full")
            with ui.tab_panel(self.why_tab).classes("tf-flat"):
                self.why = ui.html("<p>Press <b>Why no rows?</b></p>", sanitize=False).classes("w-full")
            with ui.tab_panel(self.stream_tab).classes("tf-flat"):
                self._stream_side()
        self.text = first_text()
        self._check()

    def _typed(self, event: Any) -> None:
        before, self.text = self.text, event.value or ""
        self.place = place_typed(before, self.text)
        self._suggest()
        self._check()

    def _suggest(self) -> None:
        words = self.data.words if self.data is not None else ()
        self.begun, self.continued = offered(self.text, self.place, words)
        self.suggestions.clear()
        with self.suggestions:
            for word in self.continued:
                ui.button(word, on_click=self._inserter(word, len(self.begun))).props(
                    "dense flat no-caps size=sm"
                )

    def _complete(self) -> None:
        if getattr(self, "continued", ()):
            self._insert(self.continued[0], len(self.begun))

    def _inserter(self, word: str, instead: int = 0) -> Callable[[], None]:
        return lambda: self._insert(word, instead)

    def _insert(self, word: str, instead: int) -> None:
        """Write a word where the cursor is, instead of the characters before it."""
        ui.run_javascript(
            f"getElement({self.editor.id}).editorPromise.then((editor) => {{"
            "const at = editor.state.selection.main.head;"
            f"const word = {json.dumps(word)};"
            f"editor.dispatch({{changes: {{from: at - {instead}, to: at, insert: word}},"
            f"selection: {{anchor: at - {instead} + word.length}}}}); editor.focus(); }})"
        )

    def _check(self) -> None:
        """Check the text as it is, and show where it is wrong, or its plan."""
        self.checked = check_text(self.text, self.data)
        spans = [problem.span for problem in self.checked.problems if problem.span != NOWHERE]
        types = {name for name, _ in self.data.types} if self.data is not None else set()
        self.editor.decorations = decorations(self.text, types, spans)
        self.state.set_text(self.checked.summary if self.text.strip() else "")
        self.problems.set_content(
            f"<pre class='tf-told'>{escape(self.checked.told)}</pre>" if self.checked.told else ""
        )
        self.run_button.set_enabled(self.checked.workload is not None and self.data is not None)
        if self.checked.workload is not None:
            self.plan.set_content(plan_html(self.checked.workload))

    # ------------------------------------------------------------ running

    async def _run(self) -> None:
        workload, data = self.checked.workload, self.data
        if workload is None or data is None or self.run is not None:
            return
        self.run, self.since = Run(), time.monotonic()
        self._show_running(True)
        try:
            answered = await run.io_bound(self.run.answer, self.text, data.path, data.name, data.options)
            page = answered or ""
        except StoppedError:
            ui.notify("Stopped")
            return
        except TrendfoldError as error:
            from trendfold.report import failure_page

            page = failure_page(workload.queries, error, data.name)
        finally:
            self.run = None
            self._show_running(False)
        name = secrets.token_urlsafe(12)
        _PAGES[name] = page
        while len(_PAGES) > _KEPT:
            del _PAGES[next(iter(_PAGES))]
        self.result.set_content(f'<iframe class="tf-report" title="Result" src="/report/{name}"></iframe>')
        self.tabs.set_value(self.result_tab)

    def _stop(self) -> None:
        if self.run is not None:
            self.run.stop()

    def _show_running(self, is_running: bool) -> None:
        self.stop_button.set_visibility(is_running)
        self.elapsed.set_visibility(is_running)
        self.progress.set_visibility(is_running)
        self.run_button.set_enabled(not is_running)
        self.progress.set_value(0)
        self._show_progress()
        self.state.set_text("" if is_running else self.checked.summary)

    def _show_progress(self) -> None:
        """How far a run is; before its first query is done, that it runs."""
        if self.run is None:
            return
        done, total = self.run.done, self.run.total
        self.progress.props("indeterminate" if not done else "", remove="" if not done else "indeterminate")
        self.progress.set_value(done / total if total else 0)
        told = f", {done:,} of {plural(total, 'query', 'queries')} done" if total else ""
        self.elapsed.set_text(f"{time.monotonic() - self.since:.0f} s{told}")

    async def _why(self) -> None:
        workload, data = self.checked.workload, self.data
        if workload is None or data is None:
            ui.notify("Open data and write a query first")
            return
        names = [query.name for query in workload]
        found = await self._try(
            lambda: "".join(
                workload.why_not(data.path, name, **data.options)._repr_html_() for name in names[:10]
            )
        )
        if found is not None:
            self.why.set_content(found)
            self.tabs.set_value(self.why_tab)

    # ------------------------------------------------------------ a stream

    def _stream_side(self) -> None:
        with ui.row().classes("items-end gap-3"):
            self.source = ui.input("Source", value="rate:100").tooltip(
                "parquet:FOLDER, csv:FOLDER, json:FOLDER, rate:N"
            )
            self.kinds = ui.input("Types, of rate:N", value="A, B")
            self.watermark = ui.input("Watermark", value="1 s")
            self.start_button = ui.button("Start", on_click=self._start, color=None)
            self.start_button.classes("tf-start").props("no-caps unelevated")
        with ui.row().classes("items-center gap-3") as self.steering:
            ui.button("Stop the stream", icon="stop", on_click=self._end).props("no-caps outline")
            ui.button("Add the editor's queries", icon="add", on_click=self._add).props("no-caps outline")
            self.removers = (
                ui.row().classes("items-center gap-1 tf-removers").props('role=group aria-label="Queries"')
            )
        self.watched = ui.html(_NO_STREAM, sanitize=False).classes("w-full")
        self._show_queries()
        ui.timer(2.0, self._watch)

    async def _start(self) -> None:
        workload = self.checked.workload
        if workload is None or self.flow is not None:
            ui.notify("Write a query first" if workload is None else "A stream runs already")
            return
        columns = self.data.options if self.data is not None else {}
        given = self.source.value, self.kinds.value, self.watermark.value
        if given[0].startswith("rate:"):
            columns = {}
        self.watched.set_content("<p>Starting Spark ...</p>")
        self.start_button.set_enabled(False)
        self.flow = await self._try(lambda: Flow(self.folder, workload, *given, **columns))
        if self.flow is None:
            self.watched.set_content(_NO_STREAM)
        self._show_queries()
        await self._watch()

    def _show_queries(self) -> None:
        """The queries that run, each with a button to remove it; what can be done with the stream at all."""
        names = self.flow.queries if self.flow is not None else ()
        self.start_button.set_enabled(self.flow is None)
        self.steering.set_visibility(self.flow is not None)
        self.removers.clear()
        with self.removers:
            for name in names if len(names) > 1 else ():
                ui.button(name, icon="close", on_click=self._remover(name)).props(
                    f'dense outline no-caps size=sm aria-label="Remove {escape(name)}"'
                )

    def _remover(self, name: str) -> Callable[[], Any]:
        return lambda: self._change(lambda flow: flow.remove(name))

    async def _add(self) -> None:
        workload = self.checked.workload
        if workload is None:
            ui.notify("Write a query first")
            return
        await self._change(lambda flow: flow.add(workload))

    async def _change(self, change: Callable[[Flow], str]) -> None:
        """Change the queries of the stream, which restarts it, and tell what changed."""
        flow = self.flow
        if flow is None:
            return
        for each in self.steering.descendants():
            if isinstance(each, ui.button):
                each.disable()
        told = await self._try(lambda: change(flow))
        for each in self.steering.descendants():
            if isinstance(each, ui.button):
                each.enable()
        if told:
            ui.notify(told)
        self._show_queries()
        await self._watch()

    async def _watch(self) -> None:
        flow = self.flow
        if flow is None or self.is_watching:
            return
        self.is_watching = True
        try:
            told = await self._try(flow.html)
            if told is not None and self.flow is flow:
                self.watched.set_content(told)
        finally:
            self.is_watching = False

    async def _end(self) -> None:
        flow, self.flow = self.flow, None
        if flow is not None:
            self._show_queries()
            await self._try(flow.stop)
            self.watched.set_content("<p>The stream is stopped.</p>")

    # ------------------------------------------------------------ files

    def _save(self) -> None:
        with ui.dialog() as dialog, ui.card():
            name = ui.input("File name", value=self.file).props("autofocus")

            async def save() -> None:
                path = await self._try(lambda: self.folder.save_text(name.value, self.text))
                if path is not None:
                    self.file = path.relative_to(self.folder.root).as_posix()
                    ui.notify(f"Saved {self.file}")
                    dialog.close()

            ui.button("Save", on_click=save).props("no-caps")
        dialog.open()

    def _load(self) -> None:
        with ui.dialog() as dialog, ui.card():
            files = self.folder.files((".tql",))

            async def load(event: Any) -> None:
                text = await self._try(lambda: self.folder.open_text(event.value))
                if text is not None:
                    self.file = event.value
                    self.editor.set_value(text)
                    dialog.close()

            ui.select(files, label="Query file", on_change=load).classes("w-64")
        dialog.open()

    def _copy(self, text_of: Callable[[str, Data], str]) -> None:
        if self.data is None:
            ui.notify("Open data first")
            return
        ui.clipboard.write(text_of(self.text, self.data))
        ui.notify("Copied")

    async def _try(self, work: Callable[[], Any]) -> Any:
        """Do something that takes a while; tell what went wrong."""
        try:
            return await run.io_bound(work)
        except (TrendfoldError, OSError, UnicodeDecodeError) as error:
            ui.notify(str(error), type="negative", multi_line=True, close_button="Close", timeout=0)
            return None


_CSS = """
.tf-page{max-width:100rem;margin:0 auto}
.tf-side{width:22rem;flex:none}
.tf-main{flex:1;min-width:0}
.tf-side .q-table__container{overflow-x:auto;max-width:22rem}
.body--dark{--q-primary:#7ab2ff!important}
.tf-run,.tf-start{background:#1d5fd6;color:#fff}
.tf-editor{border:1px solid #8885;border-radius:8px;overflow:hidden;min-height:11rem}
.tf-wrong{text-decoration:underline wavy #d92d20;text-underline-offset:3px}
.tf-clause{color:#1d5fd6;font-weight:600}
.tf-function{color:#6d3fd1}
.tf-type{color:#0a7d5a;font-weight:600}
.tf-string,.tf-number{color:#b54708}
.tf-comment{color:#6b7280;font-style:italic}
.body--dark .tf-clause{color:#7ab2ff}
.body--dark .tf-function{color:#b79cff}
.body--dark .tf-type{color:#4fd3a5}
.body--dark .tf-string,.body--dark .tf-number{color:#fb9f5a}
.body--dark .tf-comment{color:#9aa6b8}
.body--dark .cm-editor{background:#161d28;color:#e7ebf2}
.body--dark .cm-gutters{background:#1d2531;color:#9aa6b8}
.body--dark .cm-activeLine,.body--dark .cm-activeLineGutter{background:#ffffff12}
.body--dark .cm-cursor{border-left-color:#e7ebf2}
.tf-suggestions{min-height:1.8rem}
.tf-told{white-space:pre-wrap;margin:0;padding:.6rem 1rem;border-radius:8px;background:#d92d2014;
font-size:13px}
.tf-report{width:100%;height:75vh;border:1px solid #8885;border-radius:8px}
.tf-flat{padding:0}
.tf-flat p{margin:.6rem 0}
.tf-side .q-btn,.tf-suggestions .q-btn,.tf-removers .q-btn{min-height:1.75rem;padding:.15rem .45rem;
font-size:.8rem}
.tf-side .q-table th,.tf-side .q-table td{padding:2px 10px 2px 0}
.tf-flat .trendfold{border-radius:8px}
@media (max-width:48rem){.tf-page{flex-wrap:wrap!important}
.tf-side,.tf-side .q-table__container{width:100%;max-width:100%}}
"""
