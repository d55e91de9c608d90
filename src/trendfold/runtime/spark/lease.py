"""A lease on a checkpoint: one stream at a time, within this process and across processes of one machine.

Otherwise Spark would stop the first stream for the second, or let two drivers write one log until one fails.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from trendfold.errors import InputError
from trendfold.runtime.locks import acquire
from trendfold.runtime.places import Place

LOCK = "lock"

_guard = threading.Lock()
_leases: dict[str, Lease] = {}


class Lease:
    """The right to run a stream on a checkpoint."""

    def __init__(self, folder: Place, is_busy: Callable[[], bool]) -> None:
        self._folder, self._is_busy = folder, is_busy
        self._key = os.path.realpath(folder.path) if folder.is_local else folder.url.rstrip("/")
        self._lock: int | None = None

    def take(self) -> None:
        """Raise if a stream is running on the checkpoint; a stream that has ended hands its lease over."""
        with _guard:
            other = _leases.get(self._key)
        if other is not None and other._is_busy():  # not under the guard: it may take a while
            raise InputError(
                f"a stream of this process is running on the checkpoint {self._folder.url!r}; stop it first, "
                f"or choose another checkpoint"
            )
        with _guard:
            if _leases.get(self._key) is not other:
                raise InputError(f"another stream has just started on the checkpoint {self._folder.url!r}")
            self._lock = other._lock if other is not None else _locked(self._folder)
            _leases[self._key] = self

    @property
    def is_held(self) -> bool:
        """Whether no other stream has taken the checkpoint over."""
        return _leases.get(self._key) is self

    def release(self) -> None:
        """Free the checkpoint for others."""
        with _guard:
            if self.is_held:
                del _leases[self._key]
                if self._lock is not None:
                    os.close(self._lock)


def _locked(folder: Place) -> int | None:
    """Lock the checkpoint's lock file, and write this process into it; None if it cannot be locked."""
    if not folder.is_local:
        return None
    folder.make()
    path = os.path.join(folder.path, LOCK)
    try:
        handle = acquire(path, os.O_RDWR | os.O_CREAT)
    except BlockingIOError:
        raise InputError(
            f"a stream of another process{_holder(path)} is running on the checkpoint {folder.url!r}; "
            f"stop it first, or choose another checkpoint"
        ) from None
    if handle is not None:
        os.truncate(handle, 0)
        os.write(handle, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
    return handle


def _holder(path: str) -> str:
    """The process that holds a lock file, for messages; empty if the file does not tell."""
    with suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        value = json.load(file)
        return f" ({value['process']} on {value['host']})"
    return ""
