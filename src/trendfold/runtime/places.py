"""Folders and files that trendfold writes itself: on this machine, or wherever pyarrow can reach by a URL."""

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
    """A folder."""

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
        """The folder, if it is not there."""
        here = Path(self.path)
        missing = [folder for folder in (here, *here.parents) if self.is_local and not folder.exists()]
        try:
            self.system.create_dir(self.path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot make the folder {self.url!r}: {error}") from None
        for folder in missing:
            _sync(folder.parent)

    def names(self) -> list[str]:
        """What a folder holds, by name; nothing where there is no folder."""
        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found)

    def exists(self) -> bool:
        """Whether there is something under this name."""
        return bool(self.system.get_file_info(self.path).type != fs.FileType.NotFound)

    def read(self) -> bytes | None:
        """The content of a file, or None where there is none."""
        if not self.exists():
            return None
        with self.system.open_input_file(self.path) as file:
            found: bytes = file.read()
            return found

    def write(self, content: bytes) -> None:
        """A file that appears whole or not at all, and outlives a loss of power once this returns."""
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
        """Wait until a file or a folder's list of names is on disk; elsewhere it is already."""
        if self.is_local:
            _sync(Path(self.path))

    def _sync_parent(self) -> None:
        if self.is_local:
            _sync(Path(self.path).parent)

    def remove(self) -> None:
        """A folder and all in it, if it is there."""
        if self.exists():
            self.system.delete_dir(self.path)

    def remove_file(self) -> None:
        """A file, if it is there."""
        if self.exists():
            self.system.delete_file(self.path)

    def become(self, other: Place) -> None:
        """Take the place of another folder: what was there is gone."""
        self.sync()
        other.remove()
        self.system.move(self.path, other.path)
        other._sync_parent()


def _sync(path: Path) -> None:
    """Some systems cannot sync a folder, and say so."""
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def place(path: str | os.PathLike[str]) -> Place:
    """A folder by its path or URL."""
    text = os.fspath(path)
    if "://" not in text and not text.startswith("file:"):
        text = os.path.abspath(text)
        return Place(text, fs.LocalFileSystem(), text)
    try:
        system, inner = fs.FileSystem.from_uri(text)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot use {text!r}: {error}") from None
    return Place(text, system, inner)
