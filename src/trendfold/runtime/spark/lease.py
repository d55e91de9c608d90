"""One stream per checkpoint at a time: in this process, and on one machine across processes.

Spark would stop the first for the second, or let two drivers write one log until one of them fails.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from trendfold.errors import InputError
from trendfold.runtime.places import Place

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = "lock"

_guard = threading.Lock()
_leases: dict[str, Lease] = {}


class Lease:
    """The right to run a stream on a checkpoint."""

    def __init__(self, folder: Place, is_busy: Callable[[], bool]) -> None:
        self._folder, self._is_busy = folder, is_busy
        self._key = os.path.realpath(folder.path) if folder.is_local else folder.url.rstrip("/")
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Raise if a stream runs on the checkpoint; one that has ended hands it over."""
        with _guard:
            other = _leases.get(self._key)
        if other is not None and other._is_busy():  # asked without the guard: it may take a while
            raise InputError(
                f"a stream of this process runs on the checkpoint {self._folder.url!r}; stop it first, "
                f"or choose another checkpoint"
            )
        with _guard:
            if _leases.get(self._key) is not other:
                raise InputError(f"another stream has just started on the checkpoint {self._folder.url!r}")
            self._file = other._file if other is not None else _locked(self._folder)
            _leases[self._key] = self

    @property
    def is_held(self) -> bool:
        """Whether no other stream has gone on with the checkpoint."""
        return _leases.get(self._key) is self

    def release(self) -> None:
        """Let others have the checkpoint."""
        with _guard:
            if self.is_held:
                del _leases[self._key]
                if self._file is not None:
                    self._file.close()


def _locked(folder: Place) -> IO[str] | None:
    """A file that this process holds until it ends, however it ends; None where there are no locks."""
    if fcntl is None or not folder.is_local:
        return None
    folder.make()
    path = os.path.join(folder.path, LOCK)
    file = open(path, "a+")  # noqa: SIM115 - held as long as the lease
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.seek(0)
        told = file.read()
        file.close()
        raise InputError(
            f"a stream of another process{_whose(told)} runs on the checkpoint {folder.url!r}; stop it "
            f"first, or choose another checkpoint"
        ) from None
    except OSError:  # this file system has no locks
        file.close()
        return None
    file.truncate(0)
    file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}))
    file.flush()
    return file


def _whose(told: str) -> str:
    with suppress(ValueError, KeyError, TypeError):
        value = json.loads(told)
        return f" ({value['process']} on {value['host']})"
    return ""
