"""Output folders of runs: claimed before anything is read, and updated atomically.

A run's folder holds its files and OWNER_FILE, which names their owner. The next run writes its files next to
them, then a journal of the files to rename and remove, and then applies the journal. If it is killed before
the journal exists, nothing has changed; if it is killed later, the run after it completes the journal. Every
file is complete at any time, and from one run or the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from trendfold import interrupt
from trendfold.errors import InputError
from trendfold.events.sources import named_format
from trendfold.runtime.locks import acquire
from trendfold.runtime.ownership import OWNER_FILE, Owner, is_url, local_path, owner_of
from trendfold.runtime.places import place
from trendfold.runtime.staging import Write, make_folder, part_names, remove_parts, staged, sync

_JOURNAL = f"{OWNER_FILE}.next"
_SHOWN = 3
"""The most files named in a message."""


@dataclass
class OwnFolder:
    """A folder that one run may write into."""

    folder: Path
    owner: Owner
    earlier: tuple[str, ...]
    """Files of the previous owner, removed unless they are written again."""
    written: list[str] = field(default_factory=list)


@contextmanager
def claimed(folder: str, owner: Owner, overwrite: bool = False) -> Iterator[OwnFolder]:
    """Claim a folder for `owner`, who will write `owner.files`; raises if it belongs to another."""
    path = local_folder(folder)
    is_new = not path.exists()
    make_folder(path)
    try:
        with _locked(path) as is_ours_alone:
            _recover(path, is_ours_alone)
            before = owner_of(place(path))
            if not overwrite:
                _require_own(path, owner, before)
            _require_files(path, owner.files)
            yield OwnFolder(path, owner, before.files if before else ())
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def write_together(writes: Sequence[tuple[OwnFolder, Mapping[str, Write]]]) -> None:
    """Write files into claimed folders, and remove the previous owner's other files.

    No file appears before all are written.
    """
    with ExitStack() as stack:
        journals = [(claim, _stage(claim, files, stack)) for claim, files in writes]
        with interrupt.uninterrupted():
            for claim, part in journals:
                os.replace(part, claim.folder / _JOURNAL)
                sync(claim.folder)
                _follow(claim.folder)
    for claim, files in writes:
        claim.written += files


def _stage(claim: OwnFolder, files: Mapping[str, Write], stack: ExitStack) -> Path:
    """Write all files under temporary names; returns the path of the journal that moves them into place."""
    written = [*claim.written, *(name for name in files if name not in claim.written)]
    owner = replace(claim.owner, files=tuple(written))
    moved = dict(zip(part_names(len(files) + 1), [*files, OWNER_FILE], strict=True))
    removed = [name for name in claim.earlier if name not in written]
    journal = json.dumps({"moved": moved, "removed": removed}).encode()
    contents: dict[Path, Write] = {claim.folder / name: write for name, write in files.items()}
    contents[claim.folder / OWNER_FILE] = lambda file: file.write(owner.content)
    contents[claim.folder / _JOURNAL] = lambda file: file.write(journal)
    return stack.enter_context(staged(contents, claim.folder))[-1]


def _follow(folder: Path) -> None:
    """Apply the journal, or the rest of it; the owner file is renamed last."""
    journal = json.loads((folder / _JOURNAL).read_bytes())
    for name in journal["removed"]:
        if _is_inside(folder, name):
            (folder / name).unlink(missing_ok=True)
    for part, name in journal["moved"].items():
        if (folder / part).exists() and _is_inside(folder, name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder / part, folder / name)
    sync(folder)
    (folder / _JOURNAL).unlink()


def _is_inside(folder: Path, name: str) -> bool:
    """Whether a name read from the journal stays inside the folder."""
    parent = (folder / name).parent.resolve()
    return ".." not in Path(name).parts and parent.is_relative_to(folder.resolve())


def _recover(folder: Path, is_ours_alone: bool) -> None:
    """Complete or undo the writes of a killed run."""
    try:
        if (folder / _JOURNAL).exists():
            _follow(folder)
        remove_parts(folder, is_ours_alone)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(
            f"cannot complete the writes of an earlier run in {str(folder)!r}: {error}; move the folder "
            f"away, or choose another"
        ) from None


# ---------------------------------------------------------------- ownership


def local_folder(folder: str) -> Path:
    """A folder by path or `file:` URL; raises if it is not on this machine."""
    if not folder:
        raise InputError("the name of the output folder is empty; pass a folder")
    if is_url(folder):
        raise InputError(
            f"cannot write to {folder!r}: a run writes files on this machine; choose a local folder, and "
            f"copy them from there"
        )
    return Path(local_path(folder))


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder against other runs; yields whether it is locked, which not every file system can do."""
    try:
        handle = acquire(folder)
    except BlockingIOError:
        raise InputError(
            f"another run is writing into {str(folder)!r}; wait for it, or choose another folder"
        ) from None
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _require_own(folder: Path, owner: Owner, before: Owner | None) -> None:
    """Raise if a folder holds the results of another owner, or unclaimed data."""
    if before is not None and before.kind == "run" and not _there(folder, before.files):
        before = None  # all of its files are gone
    if before is None:
        foreign = list(islice(_data_in(folder, owner.files), _SHOWN + 1))
    elif before.is_of(owner.workload, owner.queries):
        foreign = _there(folder, [name for name in owner.files if name not in before.files])
    elif before.kind == "run":
        raise _refusal(folder, f"the results of another run, of {before.workload!r}", before.files)
    else:
        raise _refusal(folder, f"the results of a {before.kind}", before.queries)
    if foreign:
        raise _refusal(folder, "files that no earlier run of these queries wrote", foreign)


def _refusal(folder: Path, what: str, names: Sequence[str]) -> InputError:
    shown = ", ".join([*map(repr, names[:_SHOWN]), *["..."] * (len(names) > _SHOWN)])
    return InputError(
        f"the folder {str(folder)!r} holds {what}{f' ({shown})' if shown else ''}; choose another folder, or "
        f"pass --overwrite to take it over, which replaces files of the same name"
    )


def _there(folder: Path, names: Collection[str]) -> list[str]:
    return [name for name in names if os.path.lexists(folder / name)]


def _data_in(folder: Path, names: Collection[str]) -> Iterator[str]:
    """Data files (judged by name), and files that would be replaced."""
    yield from _there(folder, names)
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(files):
            inner = os.path.relpath(os.path.join(above, name), folder)
            if name[0] not in "._" and inner not in names and named_format(name) is not None:
                yield inner


def _require_files(folder: Path, names: Collection[str]) -> None:
    """Raise if a folder has the name of a file to be written."""
    for name in names:
        if (folder / name).is_dir():
            raise InputError(
                f"{str(folder / name)!r} is a folder, but a file is to be written there; move it away, or "
                f"choose another folder"
            )
