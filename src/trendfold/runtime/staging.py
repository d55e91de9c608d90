"""Write files atomically: under temporary names first, then renamed together."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from trendfold import interrupt
from trendfold.errors import InputError, TrendfoldError

Write = Callable[[IO[bytes]], object]
"""Writes the content of one file."""

_PART = re.compile(r"\.(\d+)-\d+\.part")
"""Temporary names: the number of the writing process, and of the file."""


def make_folder(folder: str | Path) -> None:
    """Create an output folder before the work, so that a run does not fail at its end."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write into the folder {str(folder)!r}; choose another")


def write_files(files: Mapping[Path, Write]) -> None:
    """Write all files, or none if one cannot be written; existing files are replaced."""
    for folder in {path.parent for path in files}:
        remove_parts(folder)
    with staged(files) as parts, interrupt.uninterrupted():
        for path, part in zip(files, parts, strict=True):
            os.replace(part, path)


@contextmanager
def staged(files: Mapping[Path, Write], folder: Path | None = None) -> Iterator[list[Path]]:
    """Write every file under a temporary name, next to it or in `folder`; removes leftovers at the end."""
    parts = [(folder or path.parent) / name for path, name in zip(files, part_names(len(files)), strict=True)]
    at = next(iter(files), folder)
    try:
        for at, part in zip(files, parts, strict=True):
            _write(part, files[at])
        yield parts
    except OSError as error:
        told = error.strerror or error
        raise TrendfoldError(f"cannot write {str(error.filename or at)!r}: {told}") from None
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
        interrupt.temporary.difference_update(parts)


def part_names(count: int) -> list[str]:
    """Temporary names for `count` files."""
    return [f".{os.getpid()}-{number}.part" for number in range(count)]


def _write(part: Path, write: Write) -> None:
    with interrupt.uninterrupted():
        file = part.open("wb")
        interrupt.temporary.add(part)
    with file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def remove_parts(folder: Path, is_ours_alone: bool = False) -> None:
    """Remove temporary files of processes that no longer run; of any process if the folder is locked."""
    for path in folder.iterdir():
        found = _PART.fullmatch(path.name)
        if found and (is_ours_alone or not _is_running(int(found[1]))):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Whether a process with this number is running on this machine."""
    if sys.platform == "win32":
        return True  # on Windows, os.kill would end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return process != os.getpid()


def sync(folder: Path) -> None:
    """Flush a folder's entries to disk, so that renames survive a power loss."""
    with suppress(OSError):  # not every file system can sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
