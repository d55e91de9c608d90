"""Who a folder of results belongs to: a small file in it says so, and nobody else replaces what is there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

from trendfold.errors import InputError
from trendfold.runtime.places import Place

OWNER_FILE = "_trendfold.json"
"""Begins with an underscore, so that Spark, pyarrow and trendfold take it for no data."""


@dataclass(frozen=True)
class Owner:
    """The run or the stream that wrote what is in a folder."""

    kind: str
    """`run` or `stream`."""
    id: str
    """Of one run, or of one stream for as long as its checkpoint lives."""
    workload: str = ""
    """The name of the query file, where there is one."""
    queries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """What a run wrote, relative to the folder; a stream owns a folder per query instead."""

    def write(self, folder: Place) -> None:
        """Claim a folder."""
        (folder / OWNER_FILE).write(json.dumps(asdict(self), indent=2).encode())


def owner_of(folder: Place) -> Owner | None:
    """The owner of a folder, or None where nobody has claimed it."""
    content = (folder / OWNER_FILE).read()
    return None if content is None else read_owner(content, repr((folder / OWNER_FILE).url))


def read_owner(content: bytes, where: str) -> Owner:
    """The owner as it was written; `where` is what to call the place."""
    try:
        value = json.loads(content)
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return Owner(**kept)
    except (ValueError, TypeError, AttributeError):
        raise InputError(
            f"{where} is damaged, so nobody can tell whose results these are; move them away, or choose "
            f"another place"
        ) from None


def require_apart(output: tuple[str, str], others: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Raise if an output is, holds or lies in a place that something else is read from or written to.

    `output` is (what to call it, its path); `others` maps names to paths, folders, globs or URLs.
    """
    name, written = output
    for other, path in others.items():
        if path is None:
            continue
        how = _relation(_standing(written), _standing(os.fspath(path)))
        if how:
            raise InputError(
                f"{name} {written!r} {how} {other} {os.fspath(path)!r}: one would overwrite or read the "
                f"other; choose a folder apart from it"
            )


def _standing(path: str) -> str:
    """One spelling for one place: links followed, and a glob as the folder that it looks into."""
    if "://" in path and not path.startswith("file:"):
        return path.rstrip("/")
    plain = Path(path.removeprefix("file://").removeprefix("file:"))
    fixed = []
    for part in plain.parts:
        if has_magic(part) and not plain.exists():
            break
        fixed.append(part)
    return os.path.realpath(os.path.join(*fixed) if fixed else ".")


def _relation(written: str, other: str) -> str:
    if written == other:
        return "is"
    if _holds(written, other):
        return "holds"
    return "lies in" if _holds(other, written) else ""


def _holds(folder: str, inner: str) -> bool:
    return inner.startswith(folder.rstrip("/") + "/")
