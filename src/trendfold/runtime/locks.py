"""Exclusive locks on files and folders: held by one process, released when it ends, however it ends."""

from __future__ import annotations

import os
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None


def acquire(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int | None:
    """Open a file or folder and lock it; None if it cannot be locked on this system.

    Returns the descriptor: the lock lasts until it is closed. Raises BlockingIOError if the lock is taken,
    also by another descriptor of this process. flock and not lockf, because a lock of the latter ends when
    any descriptor of the file is closed, and cannot be taken on folders.
    """
    if fcntl is None:
        return None
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # this file system has no locks
        os.close(handle)
        return None
    return handle
