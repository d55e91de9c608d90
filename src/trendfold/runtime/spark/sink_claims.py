"""A stream owns its sinks: it does not replace rows of others unless told to overwrite (ADR 20).

Micro-batches are numbered from 0 in every checkpoint, and a sink replaces a batch by its number. So each
stream has an id, stored in its checkpoint and in its sinks, and writes only to sinks with its own id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from trendfold.errors import InputError, TrendfoldError
from trendfold.runtime.ownership import Owner
from trendfold.runtime.spark.sinks import FolderSink, Sink, TableSink

STREAM = "stream"


@dataclass(frozen=True)
class SinkClaim:
    """A stream's claim to a sink; `what` is `output` or `rejects`."""

    what: str
    sink: FolderSink | TableSink
    stream: str
    """The stream's id."""

    def is_held_by(self, owner: Owner | None) -> bool:
        """Whether the sink belongs to this stream."""
        return owner is not None and (owner.kind, owner.id) == (STREAM, self.stream)

    def require(self, spark: SparkSession, queries: Sequence[str], claimed: Sequence[str] | None) -> None:
        """Raise if the sink has rows of others, or lacks rows that this stream has written.

        `claimed` lists the sinks that have rows of this stream; None for a checkpoint of an earlier release
        that did not record it, whose sinks are accepted as they are.
        """
        owner = self.sink.owner(spark)
        if self.is_held_by(owner):
            return
        if owner is not None:
            raise InputError(_foreign(self, owner))
        if claimed is None:
            return
        if self.what in claimed:
            raise InputError(_missing(self))
        if self.sink.holds_any(spark, queries):
            raise InputError(_unclaimed(self))

    def take(self, spark: SparkSession, queries: Sequence[str], claimed: Sequence[str] | None) -> None:
        """Take ownership of the sink; removes the rows of its previous owner, and nothing else."""
        owner = self.sink.owner(spark)
        if not self.is_held_by(owner) and (owner is not None or claimed is not None):
            theirs = owner.queries if owner is not None and owner.kind == STREAM else ()
            files = owner.files if owner is not None else ()
            self.sink.clear(spark, dict.fromkeys((*theirs, *queries)), files)
        self.sink.own(spark, Owner(STREAM, self.stream, queries=tuple(queries)))

    def require_held(self, spark: SparkSession) -> None:
        """Raise if another stream or run has taken the sink over."""
        if isinstance(self.sink, FolderSink) and not self.is_held_by(self.sink.owner(spark)):
            raise TrendfoldError(
                f"{self.sink} is no longer this stream's {self.what}: another stream or run has taken it "
                f"over, or its owner file was removed; restart with another {self.what}"
            )


def claims(stream: str, output: Sink, rejects: Sink | None) -> tuple[SinkClaim, ...]:
    """Claims to the sinks that can have an owner; a function or a terminal cannot."""
    places = {"output": output, "rejects": rejects}
    return tuple(
        SinkClaim(what, sink, stream)
        for what, sink in places.items()
        if isinstance(sink, FolderSink | TableSink)
    )


def require_query_names(sink: Sink, names: Sequence[str]) -> None:
    """Raise for query names that a sink cannot distinguish."""
    if isinstance(sink, FolderSink | TableSink):
        sink.require_names(dict.fromkeys(names))


def _foreign(claim: SinkClaim, owner: Owner) -> str:
    whose = "another stream" if owner.kind == STREAM else "a batch run"
    back = "resume from the checkpoint of that stream, " if owner.kind == STREAM else ""
    return (
        f"{claim.sink} ({claim.what}) holds the rows of {whose}, which this stream would replace; "
        f"{back}choose another {claim.what}, or pass overwrite=True (--overwrite) to remove them"
    )


def _missing(claim: SinkClaim) -> str:
    return (
        f"{claim.sink} ({claim.what}) does not hold the rows that this stream has written so far, and they "
        f"will not be written again; restore them, start with a new checkpoint, or pass overwrite=True "
        f"(--overwrite) to continue here with new rows only"
    )


def _unclaimed(claim: SinkClaim) -> str:
    return (
        f"{claim.sink} ({claim.what}) is not empty, and nothing marks it as the output of a trendfold "
        f"stream; choose another {claim.what}, or pass overwrite=True (--overwrite) to write there: "
        f"micro-batches of queries with the same names are removed, and nothing else"
    )
