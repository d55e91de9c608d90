"""A stream's places are its own: what others wrote there is not replaced, unless it is asked for (ADR 20).

Micro-batches are numbered from 0 in every checkpoint, and a sink replaces a batch by its number. So a stream
has an id, in its checkpoint and wherever its rows are kept, and writes only where it finds its own.
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
    """A place that a stream claims; `what` is `output` or `rejects`."""

    what: str
    sink: FolderSink | TableSink
    stream: str
    """The stream's id."""

    def is_held_by(self, owner: Owner | None) -> bool:
        """Whether the place is this stream's."""
        return owner is not None and (owner.kind, owner.id) == (STREAM, self.stream)

    def require(self, spark: SparkSession, queries: Sequence[str], claimed: Sequence[str] | None) -> None:
        """Raise where rows of others are, or where the stream's own rows should be and are not.

        `claimed` tells the places that have rows of this stream; None for a checkpoint of a release that
        did not write it down, whose places are taken as they are found.
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
        """Make the place this stream's; rows of a run or stream that had it are removed, and nothing else."""
        owner = self.sink.owner(spark)
        if not self.is_held_by(owner) and (owner is not None or claimed is not None):
            theirs = owner.queries if owner is not None and owner.kind == STREAM else ()
            files = owner.files if owner is not None else ()
            self.sink.clear(spark, dict.fromkeys((*theirs, *queries)), files)
        self.sink.own(spark, Owner(STREAM, self.stream, queries=tuple(queries)))

    def require_held(self, spark: SparkSession) -> None:
        """Raise if somebody has taken the place over in the meantime."""
        if isinstance(self.sink, FolderSink) and not self.is_held_by(self.sink.owner(spark)):
            raise TrendfoldError(
                f"{self.sink} is no longer this stream's {self.what}: another has taken it over, or its mark "
                f"was removed; start again with another {self.what}"
            )


def claims(stream: str, output: Sink, rejects: Sink | None) -> tuple[SinkClaim, ...]:
    """The places that can say whose they are; a function or a terminal cannot."""
    places = {"output": output, "rejects": rejects}
    return tuple(
        SinkClaim(what, sink, stream)
        for what, sink in places.items()
        if isinstance(sink, FolderSink | TableSink)
    )


def require_query_names(sink: Sink, names: Sequence[str]) -> None:
    """Raise for names of queries that a sink cannot keep apart."""
    if isinstance(sink, FolderSink | TableSink):
        sink.require_names(dict.fromkeys(names))


def _foreign(claim: SinkClaim, owner: Owner) -> str:
    whose = "another stream" if owner.kind == STREAM else "a batch run"
    back = "go on with the checkpoint of that stream, " if owner.kind == STREAM else ""
    return (
        f"{claim.sink} ({claim.what}) holds the rows of {whose}, and this stream's would replace them; "
        f"{back}choose another {claim.what}, or pass overwrite=True (--overwrite) to remove them"
    )


def _missing(claim: SinkClaim) -> str:
    return (
        f"{claim.sink} ({claim.what}) does not hold the rows that this stream has delivered so far, and they "
        f"do not come again; bring them back, begin with a new checkpoint, or pass overwrite=True "
        f"(--overwrite) to go on here with the rows to come"
    )


def _unclaimed(claim: SinkClaim) -> str:
    return (
        f"{claim.sink} ({claim.what}) is not empty, and nothing there says that a stream of trendfold may "
        f"write to it; choose another {claim.what}, or pass overwrite=True (--overwrite) to write there: "
        f"micro-batches of queries of the same names are removed, and nothing else"
    )
