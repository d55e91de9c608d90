"""A headless Chromium, driven by its DevTools protocol; tests that need it skip where there is none."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

_LOOKS = Path(__file__).with_name("looks.js")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium; on Debian: apt-get install chromium"
)


class Page:
    """One tab: what a person does with it, and what they see."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.requested: list[str] = []

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv())
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            self._hear(told)

    def _hear(self, told: dict[str, Any]) -> None:
        match told.get("method"):
            case "Runtime.exceptionThrown":
                details = told["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Network.requestWillBeSent":
                self.requested.append(told["params"]["request"]["url"])

    def look_like(
        self, width: int, height: int = 900, *, is_dark: bool = False, is_phone: bool = False
    ) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=scheme)

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def open_when_served(self, url: str) -> None:
        """Open a page of a server that is just starting."""
        for _ in range(300):
            try:
                urlopen(url).close()
                break
            except OSError:
                time.sleep(0.1)
        self.open(url)

    def js(self, expression: str) -> Any:
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait(self, condition: str, seconds: float = 30.0) -> None:
        until = time.monotonic() + seconds
        while not self.js(f"!!({condition})"):
            assert time.monotonic() < until, (
                f"{condition} did not come true; page says {self.text()[:2000]!r}"
            )
            time.sleep(0.1)

    def text(self) -> str:
        return str(self.js("document.body.innerText"))

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def complaints(self) -> list[str]:
        """What a person could not read: cut off, outside, on one another, too pale, without a name."""
        found: list[str] = self.js(_LOOKS.read_text(encoding="utf-8"))
        return found

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def press(self, key: str, code: int, modifiers: int = 0) -> None:
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                text=text if kind == "keyDown" and not modifiers else "",
            )

    def click(self, element: str) -> None:
        """Click the middle of the element that a JavaScript expression finds."""
        box = self.js(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center', behavior: 'instant'}}); "
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def drag(self, element: str, start: float, end: float) -> None:
        """Drag from one share of an element's width to another, as one selects a stretch of time."""
        x, y, width, height = self.js(
            f"(() => {{ const b = {element}.getBoundingClientRect(); "
            "return [b.x, b.y, b.width, b.height]; })()"
        )
        for kind, at in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x + at * width,
                y=y + height / 2,
                button="left",
                buttons=1,
                clickCount=1,
            )

    def shoot(self, path: Path, *, is_whole: bool = True) -> None:
        kind = path.suffix.removeprefix(".")
        told = self.ask("Page.captureScreenshot", format=kind, captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser with one page, and a profile of its own in `folder`."""
    words = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    words += [
        f"--user-data-dir={folder / 'profile'}",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "about:blank",
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(folder / "profile" / "DevToolsActivePort")
        with urlopen(f"http://127.0.0.1:{port}/json") as tabs:
            [tab, *_] = (each for each in json.load(tabs) if each["type"] == "page")
        page = Page(tab["webSocketDebuggerUrl"])
        try:
            yield page
        finally:
            page._socket.close()
    finally:
        process.terminate()
        process.wait(30)


def _port(file: Path) -> int:
    for _ in range(600):
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        time.sleep(0.1)
    raise AssertionError("Chromium did not start")
