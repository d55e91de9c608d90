"""Files and folders on this machine, or wherever pyarrow can reach by URL."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from trendfold.errors import InputError, TrendfoldError


@dataclass(frozen=True)
class Place:
    """A file or folder, by path or URL."""

    url: str
    system: fs.FileSystem
    path: str

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.url}/{name}", self.system, f"{self.path}/{name}")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return isinstance(self.system, fs.LocalFileSystem)

    def make(self) -> None:
        """Create the folder if it does not exist."""
        here = Path(self.path)
        missing = [folder for folder in (here, *here.parents) if self.is_local and not folder.exists()]
        try:
            self.system.create_dir(self.path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot make the folder {self.url!r}: {error}") from None
        for folder in missing:
            _sync(folder.parent)

    def names(self) -> list[str]:
        """The names in a folder; empty if it does not exist."""
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def exists(self) -> bool:
        """Whether the file or folder exists."""
        return bool(self.system.get_file_info(self.path).type != fs.FileType.NotFound)

    def read(self) -> bytes | None:
        """The content of a file; None if it does not exist."""
        if not self.exists():
            return None
        with self.system.open_input_file(self.path) as file:
            found: bytes = file.read()
            return found

    def write(self, content: bytes) -> None:
        """Write a file atomically; once this returns, it survives a power loss."""
        beside = Place(f"{self.url}.part", self.system, f"{self.path}.part")
        try:
            with self.system.open_output_stream(beside.path) as file:
                file.write(content)
            beside.sync()
            self.system.move(beside.path, self.path)
            self._sync_parent()
        except OSError as error:
            raise TrendfoldError(f"cannot write {self.url!r}: {error}") from None

    def sync(self) -> None:
        """Flush a file or folder to disk; does nothing for a URL, where writes are durable."""
        if self.is_local:
            _sync(Path(self.path))

    def _sync_parent(self) -> None:
        if self.is_local:
            _sync(Path(self.path).parent)

    def remove(self) -> None:
        """Remove the folder and its content, if it exists."""
        if self.exists():
            self.system.delete_dir(self.path)

    def remove_file(self) -> None:
        """Remove the file, if it exists."""
        if self.exists():
            self.system.delete_file(self.path)

    def become(self, other: Place) -> None:
        """Rename this folder to another, replacing what was there."""
        self.sync()
        other.remove()
        self.system.move(self.path, other.path)
        other._sync_parent()


def _sync(path: Path) -> None:
    """Flush to disk; some systems cannot do that for folders, which is ignored."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def place(path: str | os.PathLike[str]) -> Place:
    """A place by path or URL."""
    text = os.fspath(path)
    if "://" not in text and not text.startswith("file:"):
        text = os.path.abspath(text)
        return Place(text, fs.LocalFileSystem(), text)
    try:
        system, inner = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot use {text!r}: {error}") from None
    return Place(text, system, inner)
