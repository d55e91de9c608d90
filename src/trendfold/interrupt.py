"""Ctrl-C ends a command at once, with exit code 130, and leaves nothing half written.

KeyboardInterrupt alone cannot guarantee that: Python raises it wherever the main thread happens to be. In a
finalizer or a callback it is printed and swallowed, and during a compiled loop it is not raised at all.
So a dedicated thread waits for the signal and ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXIT_CODE = 130

temporary: set[Path] = set()
"""Files to remove when the process is interrupted; add to this set inside `uninterrupted`."""

_PATIENCE_S = 2.0
"""How long an interrupt waits for files that are being moved into place."""

_finishing = threading.Lock()
_asked = threading.Event()
_is_listening = False
_grace_s: float | None = 0.0


def listen() -> None:
    """Listen for Ctrl-C from now on. Only for the command line's own process, not when used as a library."""
    global _is_listening
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a shell's background job
    if _is_listening or is_ignored or threading.current_thread() is not threading.main_thread():
        return
    _is_listening = True
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(receiver,), name="interrupts", daemon=True).start()
    signal.signal(signal.SIGINT, _raise_where_asked)


def is_asked() -> bool:
    """Whether Ctrl-C was pressed."""
    return _asked.is_set()


@contextmanager
def gracefully(seconds: float | None) -> Iterator[None]:
    """Inside this block Ctrl-C raises KeyboardInterrupt; the process has `seconds` (None: no limit) to end.

    A second Ctrl-C ends it at once.
    """
    global _grace_s
    before, _grace_s = _grace_s, seconds
    try:
        yield
    finally:
        _grace_s = before
        if _is_listening:  # Spark may have replaced the handler
            signal.signal(signal.SIGINT, _raise_where_asked)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """An interrupt takes effect only after this block has finished."""
    with _deferred(), _finishing:
        if is_asked():
            raise KeyboardInterrupt
        yield


@contextmanager
def _deferred() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    heard: list[object] = []
    signal.signal(signal.SIGINT, lambda *args: heard.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if heard:
        signal.raise_signal(signal.SIGINT)


def _raise_where_asked(*_: object) -> None:
    if _grace_s != 0.0:
        raise KeyboardInterrupt


def _wait(receiver: int) -> None:
    _next_interrupt(receiver)
    _asked.set()
    if _grace_s is not None:
        ending = threading.Timer(_grace_s, _end)
        ending.daemon = True
        ending.start()
    _next_interrupt(receiver)
    _end()


def _next_interrupt(receiver: int) -> None:
    """Block until SIGINT arrives: Python writes each signal's number into the pipe as one byte."""
    while os.read(receiver, 1) != bytes([signal.SIGINT]):
        pass


def _end() -> None:
    if _finishing.acquire(timeout=_PATIENCE_S):
        for path in list(temporary):
            path.unlink(missing_ok=True)
    if os.isatty(2):
        os.write(2, b"\r\x1b[2K\x1b[?25h")  # a progress bar hides the cursor
    os.write(2, b"interrupted\n")
    os._exit(EXIT_CODE)
