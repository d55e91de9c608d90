"""Ownership of result folders: a small file in each names its owner, and only the owner replaces files."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from glob import has_magic
from typing import Any
from urllib.parse import unquote

from trendfold.errors import InputError
from trendfold.runtime.places import Place

OWNER_FILE = "_trendfold.json"
"""Starts with an underscore, so that Spark, pyarrow and trendfold skip it when reading data."""


@dataclass(frozen=True)
class Owner:
    """The run or stream that owns the files of a folder."""

    kind: str
    """`run` or `stream`."""
    id: str
    """Identifies one run, or one stream for the lifetime of its checkpoint."""
    workload: str = ""
    """The name of the query file, if there is one."""
    queries: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The files of a run, relative to the folder; a stream owns a folder per query instead."""

    @property
    def content(self) -> bytes:
        """The content of the owner file."""
        return json.dumps(asdict(self), indent=2).encode()

    def write(self, folder: Place) -> None:
        """Claim a folder."""
        (folder / OWNER_FILE).write(self.content)

    def is_of(self, workload: str, queries: Collection[str]) -> bool:
        """Whether this is a run of the same workload: same query file name, or a query in common."""
        return self.kind == "run" and (self.workload == workload or bool(set(self.queries) & set(queries)))


def owner_of(folder: Place) -> Owner | None:
    """The owner of a folder; None if nobody has claimed it."""
    try:
        content = (folder / OWNER_FILE).read()
    except OSError as error:
        raise InputError(f"cannot read {(folder / OWNER_FILE).url!r}: {error.strerror or error}") from None
    return None if content is None else read_owner(content, repr((folder / OWNER_FILE).url))


def read_owner(content: bytes, where: str) -> Owner:
    """Parse an owner file; `where` names it in errors."""
    try:
        value = json.loads(content)
        kept: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return Owner(**kept)
    except (ValueError, TypeError, AttributeError):
        raise InputError(
            f"{where} is damaged, so the owner of these results is unknown; move them away, or choose "
            f"another place"
        ) from None


def require_apart(output: tuple[str, str], others: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Raise if an output overlaps a place that something else is read from or written to.

    `output` is (its name in errors, its path); `others` maps names to paths, folders, globs or URLs.
    """
    name, written = output
    for other, path in others.items():
        if path is None:
            continue
        how = relation(written, os.fspath(path))
        if how:
            raise InputError(
                f"{name} {written!r} {how} {other} {os.fspath(path)!r}: one would overwrite or read the "
                f"other; choose another folder"
            )


def relation(written: str, other: str) -> str:
    """The relation of a folder to a file, folder or glob: `is`, `holds`, `lies in`, or empty."""
    fixed, pattern = _split_glob(other)
    mine, theirs = _standing(written), _standing(fixed)
    if _steps(mine, theirs) is not None:
        return "is" if not pattern and _is_same(mine, theirs) else "holds"
    inner = _steps(theirs, mine)
    if inner is None:
        return ""
    return "lies in" if not pattern or _reaches(pattern, inner) else ""


def _standing(path: str) -> str:
    """A canonical path: links, `..` and a trailing slash resolved."""
    if not is_url(path):
        return os.path.realpath(local_path(path))
    scheme, rest = path.split("://", 1)
    host, _, inner = rest.partition("/")
    return f"{_SCHEMES.get(scheme, scheme)}://{host}{posixpath.normpath(f'/{inner}')}".rstrip("/")


_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""Spark's URL schemes, and pyarrow's names for them."""


def local_path(path: str) -> str:
    """A local path; converts a `file:` URL."""
    if not path.startswith("file:"):
        return path
    rest = path.removeprefix("file:")
    return unquote(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)


def is_url(path: str) -> bool:
    """Whether a path is a URL outside of this machine's file system."""
    return "://" in path and not path.startswith("file:")


def _split_glob(path: str) -> tuple[str, tuple[str, ...]]:
    """Split a path at its first component with a wildcard."""
    if not is_url(path) and os.path.lexists(local_path(path)):
        return path, ()
    has_wildcard = (lambda part: has_magic(part) or "{" in part) if is_url(path) else has_magic
    parts = path.split("/")
    first = next((i for i, part in enumerate(parts) if has_wildcard(part)), None)
    if first is None:
        return path, ()
    return "/".join(parts[:first]) or ("/" if first else "."), tuple(p for p in parts[first:] if p)


def _reaches(pattern: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    """Whether a glob can match a folder, one of its parents, or something in it."""
    for part, step in zip(pattern, steps, strict=False):
        if part == "**":
            return True
        if step.startswith(".") and not part.startswith("."):
            return False
        if "{" not in part and not fnmatch(step, part):
            return False
    return True


def _steps(folder: str, path: str) -> tuple[str, ...] | None:
    """The path components from a folder to something in it; None if it lies elsewhere."""
    found: list[str] = []
    while not _is_same(folder, path):
        above, name = os.path.split(path)
        if above == path or not above:
            return None
        found.insert(0, name)
        path = above
    return tuple(found)


def _is_same(one: str, other: str) -> bool:
    """Whether two paths are the same place, even across mounts or on case-insensitive file systems."""
    if one == other:
        return True
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
