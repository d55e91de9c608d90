"""The folders a command writes into: separate from its input, and owned by it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from trendfold import api
from trendfold.cli.show import table_file, table_files
from trendfold.cli.spark_engine import is_elsewhere
from trendfold.errors import InputError
from trendfold.events.sources import list_files
from trendfold.runtime.outputs import OwnFolder, claimed, local_folder, write_together
from trendfold.runtime.ownership import Owner, relation, require_apart

if TYPE_CHECKING:
    from trendfold.runtime.result import Result

REJECTS = "rejects"
"""The name of the table of rejects."""


def require_input(args: Namespace) -> None:
    """Raise if there is no input, or if an output folder overlaps the input or the other output folder."""
    folders = {name: path for name in ("output", "rejects") if (path := getattr(args, name)) is not None}
    for name, folder in folders.items():
        local_folder(folder)
        for path in args.input:
            require_apart((f"--{name}", folder), {"--input": path})
    if len(folders) == 2:
        require_apart(("--rejects", args.rejects), {"--output": args.output})
    if any(is_elsewhere(path, args.master) for path in args.input):
        return
    real = _real_places(list_files(args.input))
    for name, folder in folders.items():
        for place, file in real.items():
            if relation(folder, place) in ("is", "holds"):
                raise InputError(
                    f"--{name} {folder!r} holds {os.path.realpath(file)!r}, which is also input, as "
                    f"{str(file)!r}; choose another folder"
                )


def _real_places(files: list[Path]) -> dict[str, Path]:
    """The real locations of files: their folders, and the target of each file that is a link."""
    return {os.path.realpath(file if file.is_symlink() else file.parent): file for file in files}


@contextmanager
def claim_folders(workload: api.Workload, args: Namespace) -> Iterator[dict[str, OwnFolder]]:
    """Claim the requested ones of `output` and `rejects`; raises if they hold files of others."""
    tables = {"output": [query.name for query in workload], REJECTS: [REJECTS]}
    with ExitStack() as stack:
        claims = {}
        for name, written in tables.items():
            if (folder := getattr(args, name)) is not None:
                files = [table_file(table, file_format(args)) for table in written]
                owner = owner_of_run(args.queries, workload, files)
                claims[name] = stack.enter_context(claimed(folder, owner, args.overwrite))
        yield claims


def owner_of_run(query_file: str, workload: api.Workload, files: list[str]) -> Owner:
    """The owner record of a new run of a workload that will write these files."""
    queries = tuple(query.name for query in workload)
    return Owner("run", uuid4().hex, os.path.basename(query_file), queries, tuple(files))


def write_results(result: Result, claims: dict[str, OwnFolder], args: Namespace) -> None:
    """Write into the claimed folders, all or nothing."""
    tables: dict[str, dict[str, Any]] = {"output": dict(result), REJECTS: {REJECTS: result.rejects}}
    form = file_format(args)
    write_together([(claim, table_files(tables[name], form)) for name, claim in claims.items()])


def file_format(args: Namespace) -> str:
    """The format of the files; Parquet unless asked otherwise."""
    return args.format or "parquet"
