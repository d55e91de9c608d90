"""A process beside the console that answers queries, so that a run ends the moment it is stopped.

A compiled loop cannot be interrupted from within, and it may hold much memory: ending its process ends both.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from trendfold import api
from trendfold.errors import TrendfoldError

_STARTED = get_context("spawn")
"""A forked process would have the locks of the console's threads, but not the threads."""


class StoppedError(Exception):
    """The user stopped a run."""


class Worker:
    """One process; it answers one run after the other."""

    def __init__(self) -> None:
        self._ours, theirs = _STARTED.Pipe()
        self._process = _STARTED.Process(target=_serve, args=(theirs,), name="trendfold-worker", daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, *request: Any) -> None:
        """Send a request."""
        self._ours.send(request)

    def hear(self) -> tuple[Any, ...]:
        """The next thing it tells; raises EOFError if its process has ended."""
        told: tuple[Any, ...] = self._ours.recv()
        return told

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()


_idle: list[Worker] = []
"""At most one worker that waits for a run, started ahead so that its imports are done."""
_lending = threading.Lock()


def make_ready() -> None:
    """Have a worker for the next run."""
    with _lending:
        _idle[:] = [worker for worker in _idle if worker.is_alive] or [Worker()]


@dataclass
class Run:
    """A run of a workload: how far it is, and the end that a user may give it."""

    is_stopped: bool = False
    done: int = 0
    total: int = 0
    _worker: Worker | None = field(default=None, repr=False)

    def answer(self, text: str, path: Path, title: str, options: Mapping[str, Any]) -> str:
        """The report of the result; raises StoppedError as soon as the run is stopped."""
        make_ready()
        with _lending:
            worker = self._worker = _idle.pop() if _idle else Worker()
        is_gone = False
        try:
            if self.is_stopped:
                raise StoppedError
            worker.ask(text, path, title, dict(options))
            page = self._result_of(worker)
        except (EOFError, OSError):
            is_gone = True
            if self.is_stopped:
                raise StoppedError from None
            raise TrendfoldError(
                "the process that ran the queries has ended, as it does when memory is short; "
                "try fewer events or a smaller window"
            ) from None
        finally:
            with _lending:
                if is_gone or self.is_stopped or _idle:
                    worker.end()
                else:
                    _idle.append(worker)
        return page

    def stop(self) -> None:
        """End the run, also in the middle of a query."""
        self.is_stopped = True
        if self._worker is not None:
            self._worker.end()

    def _result_of(self, worker: Worker) -> str:
        while True:
            match worker.hear():
                case "progress", done, total:
                    self.done, self.total = done, total
                case "page", page:
                    return str(page)
                case "failed", told:
                    raise TrendfoldError(told)


def _serve(pipe: Connection) -> None:
    """Answer runs until the console has gone; Ctrl-C is the console's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_console, daemon=True).start()
    while True:
        try:
            pipe.send(("page", _answer(pipe, *pipe.recv())))
        except EOFError:
            return
        except MemoryError:
            pipe.send(("failed", "memory is short: try fewer events or a smaller window"))
        except Exception as error:
            pipe.send(("failed", _told(error)))


def _answer(pipe: Connection, text: str, path: Path, title: str, options: dict[str, Any]) -> str:
    from trendfold.report import report_page

    def progress(_: str, done: int, total: int) -> None:
        pipe.send(("progress", done, total))

    result = api.parse(text).run(path, engine="local", progress=progress, **options)
    return report_page(result, title)


def _told(error: Exception) -> str:
    expected = isinstance(error, (TrendfoldError, OSError))
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _end_with_console() -> None:
    console = parent_process()
    assert console is not None
    console.join()
    os._exit(1)
