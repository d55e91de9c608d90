"""Files that appear whole or not at all: written beside their places, then renamed together."""

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
"""The process that writes it, and the file's number."""


def make_folder(folder: str | Path) -> None:
    """Before the work, so that a run does not fail for want of a folder at its end."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write into the folder {str(folder)!r}; choose another")


def write_files(files: Mapping[Path, Write]) -> None:
    """All files or, when one cannot be written, none; they replace what was there."""
    for folder in {path.parent for path in files}:
        remove_parts(folder)
    with staged(files) as parts, interrupt.uninterrupted():
        for path, part in zip(files, parts, strict=True):
            os.replace(part, path)


@contextmanager
def staged(files: Mapping[Path, Write], folder: Path | None = None) -> Iterator[list[Path]]:
    """Write every file into a part beside its place, or into `folder`; parts that are left are removed."""
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
    """The names of the parts of as many files."""
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
    """Remove what a process that was killed has left, or, in a folder of ours alone, any process."""
    for path in folder.iterdir():
        found = _PART.fullmatch(path.name)
        if found and (is_ours_alone or not _is_running(int(found[1]))):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Whether another process of this number is running here."""
    if sys.platform == "win32":
        return True  # asking would end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return process != os.getpid()


def sync(folder: Path) -> None:
    """Make sure that the names in a folder survive a loss of power."""
    with suppress(OSError):  # not every file system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
