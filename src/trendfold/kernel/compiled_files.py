"""Compiled kernels as one archive, so that what one process has compiled no other needs to compile.

numba keeps the machine code of a kernel in files beside the source, or in a cache folder. They are valid for
one source, one version of Python and numba, and one CPU. An archive names these; others are refused.

The files are pickles, so an archive is as trusted as the code that unpacks it: Spark carries it from the
driver to executors, like the functions of a job.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numba
from numba.core.caching import _CacheLocator
from numba.core.registry import cpu_target

from trendfold.kernel.fold import fold_windows

PACKAGE = Path(__file__).parents[1]
_IDENTITY = "identity.json"
_DATA, _INDEX = ".nbc", ".nbi"


def identity() -> dict[str, str]:
    """What compiled code depends on."""
    sources = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        sources.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return {
        "sources": sources.hexdigest(),
        "python": f"{sys.implementation.cache_tag}{sys.abiflags}",
        "numba": numba.__version__,
        "cpu": " ".join(map(str, cpu_target.target_context.codegen().magic_tuple())),
    }


def compiled() -> Iterator[tuple[str, Path]]:
    """The files of compiled code that this machine keeps: the name of each in an archive, and its path."""
    for folder in _folders():
        kept = _kept_in(folder)
        if kept is not None:
            room = folder.relative_to(PACKAGE).as_posix()
            yield from ((f"{room}/{path.name}", path) for path in sorted(kept.glob("*.nb[ic]")))


def pack(archive: Path) -> int:
    """Write an archive of all compiled code; returns the number of kernels in it."""
    files = list(compiled())
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=1) as target:
        target.writestr(_IDENTITY, json.dumps(identity()))
        for name, path in files:
            target.write(path, name)
    return sum(path.suffix == _INDEX for _, path in files)


def unpack(archive: Path) -> str:
    """Keep the kernels of an archive that are not compiled here; returns why it is refused, or nothing."""
    with ZipFile(archive) as source:
        theirs, ours = json.loads(source.read(_IDENTITY)), identity()
        if differ := [name for name in ours if theirs.get(name) != ours[name]]:
            return f"it was compiled for another {' and '.join(differ)}"
        for folder in _folders():
            kept = _kept_in(folder)
            if kept is not None:
                _unpack_room(source, folder.relative_to(PACKAGE).as_posix(), kept)
    return ""


def _unpack_room(source: ZipFile, room: str, kept: Path) -> None:
    """The index of a kernel comes last: a process that finds it finds its code."""
    found = [Path(name) for name in source.namelist() if Path(name).parent == Path(room)]
    missing = {path.stem for path in found if path.suffix == _INDEX and not (kept / path.name).exists()}
    for path in sorted(found, key=lambda path: path.suffix == _INDEX):
        stem = path.stem if path.suffix == _INDEX else path.stem.rpartition(".")[0]
        if path.suffix in (_DATA, _INDEX) and stem in missing:
            kept.mkdir(parents=True, exist_ok=True)
            _write(kept / path.name, source.read(path.as_posix()))


def _write(path: Path, content: bytes) -> None:
    """Files appear whole: other workers of the machine may be reading them."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as target:
        target.write(content)
    os.replace(name, path)


def _folders() -> list[Path]:
    """The folders that may have kernels."""
    return sorted({path.parent for path in PACKAGE.rglob("*.py")})


def _kept_in(folder: Path) -> Path | None:
    """Where numba keeps what is compiled from the sources of a folder; None where it keeps nothing."""
    known = fold_windows._cache.cache_path  # type: ignore[attr-defined]
    if known is None:
        return None
    if Path(known).name == "__pycache__":
        return folder / "__pycache__"
    return Path(known).parent / str(_CacheLocator.get_suitable_cache_subpath(str(folder / "_.py")))
