"""Folders and files that trendfold writes itself: on this machine, or wherever pyarrow can reach by a URL."""

from __future__ import annotations

import os
from dataclasses import dataclass

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

    def make(self) -> None:
        """The folder, if it is not there."""
        try:
            self.system.create_dir(self.path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot make the folder {self.url!r}: {error}") from None

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
        """A file that appears whole or not at all."""
        beside = f"{self.path}.part"
        try:
            with self.system.open_output_stream(beside) as file:
                file.write(content)
            self.system.move(beside, self.path)
        except OSError as error:
            raise TrendfoldError(f"cannot write {self.url!r}: {error}") from None

    def remove(self) -> None:
        """A folder and all in it, if it is there."""
        if self.exists():
            self.system.delete_dir(self.path)

    def become(self, other: Place) -> None:
        """Take the place of another folder: what was there is gone."""
        other.remove()
        self.system.move(self.path, other.path)


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
