"""The manifest of a checkpoint: stored next to Spark's files, read when a stream restarts.

Spark's state does not know the queries. A workload that does not match the state would give wrong rows, so
the manifest records which queries were added when, how their events are stored, and the stream's progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from trendfold.errors import InputError, QueryError, TrendfoldError, nearest
from trendfold.query import expression_text, needed_columns, parse, to_text
from trendfold.query.nodes import Query
from trendfold.runtime.places import Place
from trendfold.runtime.release import ALWAYS, NEVER
from trendfold.runtime.spark.exchanges import Exchange
from trendfold.runtime.stream import layout

FILE, TALLY, SPARK = "workload.json", "tally.json", "spark"
_KEYS = {"exchanges": "families"}
"""Fields whose key in the file differs from their name: the format of checkpoints must not change."""


@dataclass(frozen=True)
class Entry:
    """A query of the stream and when it was added; queries added together share an `epoch`.

    until  of a replaced query: its last window begins by this time, and its successor's windows after it
    joins  whether its events travel with those of queries of earlier epochs, where they can
    """

    text: str
    epoch: int = 0
    since: int = ALWAYS
    is_removed: bool = False
    until: int = NEVER
    joins: bool = False

    @property
    def is_asked(self) -> bool:
        """Whether the query is neither removed nor replaced."""
        return not self.is_removed and self.until == NEVER

    @property
    def query(self) -> Query:
        """The query, parsed."""
        return _parsed(self.text)


@cache
def _parsed(text: str) -> Query:
    return parse(text)[0]


@dataclass(frozen=True)
class Manifest:
    """Everything a stream needs to resume from its checkpoint."""

    settings: Mapping[str, Any]
    """Settings that must not change: column options, origin, arithmetic, shards."""
    columns: Mapping[str, str]
    """The columns read so far, and their types."""
    entries: tuple[Entry, ...]
    exchanges: tuple[str, ...] = ()
    """How the events of each exchange are stored."""
    is_flushed: bool = False
    id: str = ""
    """The stream's id; empty if an earlier release made the checkpoint."""
    claimed: tuple[str, ...] | None = None
    """Which of output and rejects this stream owns; None until they are first checked."""
    version: int = layout.VERSION

    def to_json(self) -> bytes:
        """Serialize."""
        written = {_KEYS.get(name, name): value for name, value in asdict(self).items()}
        return json.dumps(written, indent=2).encode()

    @staticmethod
    def from_json(content: bytes, where: str = FILE) -> Manifest:
        """Deserialize; `where` names the file in errors."""
        with _whole(where):
            value = json.loads(content)
            layout.require_known(value["version"], "the checkpoint has")
            value["version"] = layout.VERSION
            entries = tuple(Entry(**entry) for entry in value.pop("entries"))
            claimed = None if value.get("claimed") is None else tuple(value["claimed"])
            exchanges = tuple(value.pop(_KEYS["exchanges"]))
            made = Manifest(**value | {"entries": entries, "exchanges": exchanges, "claimed": claimed})
            made.epochs()  # raises if a query cannot be parsed
            return made

    @staticmethod
    def read(folder: Place) -> Manifest | None:
        """The manifest of a checkpoint; None if there is none."""
        content = (folder / FILE).read()
        return None if content is None else Manifest.from_json(content, (folder / FILE).url)

    def write(self, folder: Place) -> None:
        """Write the manifest."""
        (folder / FILE).write(self.to_json())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all queries the stream ever had."""
        return tuple(dict.fromkeys(entry.query.name for entry in self.entries))

    @property
    def asked(self) -> dict[str, Entry]:
        """The queries that are neither removed nor replaced, by name."""
        return {entry.query.name: entry for entry in self.entries if entry.is_asked}

    def epochs(self) -> list[tuple[tuple[Query, ...], int, bool]]:
        """The queries of each epoch, removed ones included, when they were added, and whether they join."""
        found: dict[int, tuple[list[Query], int, bool]] = {}
        for entry in self.entries:
            found.setdefault(entry.epoch, ([], entry.since, entry.joins))[0].append(entry.query)
        return [(tuple(queries), since, joins) for queries, since, joins in found.values()]

    def with_queries(self, queries: Sequence[Query], since: int, joins: bool = True) -> Manifest:
        """Add queries, whose first windows begin after `since`."""
        for query in queries:
            if query.name in self.asked:
                raise InputError(
                    f"there is a query {query.name!r} already; remove it first, or choose another name"
                )
        epoch = max((entry.epoch for entry in self.entries), default=-1) + 1
        added = tuple(Entry(to_text(query), epoch, since, joins=joins) for query in queries)
        return replace(self, entries=(*self.entries, *added))

    def with_replaced(self, queries: Sequence[Query], since: int) -> Manifest:
        """Replace queries by others of the same names, whose first windows begin after `since`.

        Windows that began earlier are completed by the old queries, so every window is reported once. Their
        events are dropped once that is done, so new queries do not join them.
        """
        for query in queries:
            self._require(query.name)
        names = {query.name for query in queries}
        entries = [
            replace(entry, until=since, is_removed=since <= entry.since)
            if entry.is_asked and entry.query.name in names
            else entry
            for entry in self.entries
        ]
        return replace(self, entries=tuple(entries)).with_queries(queries, since, joins=False)

    def _require(self, name: str) -> None:
        if name not in self.asked:
            hint = nearest(name, self.asked) or f"queries are {', '.join(self.asked)}"
            raise InputError(f"there is no query {name!r}; {hint}")

    def without(self, name: str) -> Manifest:
        """Remove a query."""
        self._require(name)
        if len(self.asked) == 1:
            raise InputError(f"{name!r} is the only query left; stop the stream instead")
        return replace(
            self,
            entries=tuple(
                replace(entry, is_removed=entry.is_removed or entry.query.name == name)
                for entry in self.entries
            ),
        )


def carried_on(old: Manifest, new: Manifest, latest: int, on_change: str = "fail") -> Manifest:
    """The manifest for restarting a stream on a checkpoint; errors name the query.

    Queries added or removed while the stream ran stay so. Queries it never had are added. A query whose text
    has changed is an error, or is replaced with `on_change='replace'`.
    """
    if old.is_flushed:
        raise InputError(
            "this stream has ended: flush reported its open windows; start with a new checkpoint"
        )
    now = _LATER_SETTINGS | dict(new.settings)
    problems = [
        _difference(name, now.get(name), kept)
        for name, kept in (_LATER_SETTINGS | dict(old.settings)).items()
        if now.get(name) != kept
    ]
    known: dict[str, set[str]] = {}
    for entry in old.entries:
        known.setdefault(entry.query.name, set()).add(entry.text)
    added, changed = [], []
    for entry in new.entries:
        query = entry.query
        if query.name not in known:
            added.append(query)
        elif on_change == "replace":
            current = old.asked.get(query.name)
            changed += [query] if current is not None and current.text != entry.text else []
        elif entry.text not in known[query.name]:
            problems.append(
                f"query {query.name!r} differs from the one the checkpoint holds events for; pass "
                f"on_change='replace' to replace it from the next windows on, or give it another name"
            )
    for name, kind in old.columns.items():
        users = [n for n, entry in old.asked.items() if name in _columns(entry.query)] or list(old.asked)
        if name not in new.columns:
            problems.append(f"column {name!r} of query {users[0]!r} is gone")
        elif new.columns[name] != kind:
            problems.append(
                f"column {name!r} of query {users[0]!r} is {new.columns[name]}, but the checkpoint "
                f"holds {kind}"
            )
    if problems:
        more = "; or start with a new checkpoint"
        raise InputError("\n".join(problems) + more)
    merged = replace(old, columns={**new.columns, **old.columns})
    merged = merged.with_replaced(changed, latest) if changed else merged
    return merged.with_queries(added, latest) if added else merged


def _difference(setting: str, now: object, kept: object) -> str:
    if setting == "has_heartbeats":
        given, made = ("given", "without") if now else ("missing", "with")
        return f"idle_timeout is {given}, but the checkpoint was made {made} one"
    return f"{setting} is {now!r}, but the checkpoint was made with {kept!r}"


_LATER_SETTINGS = {"emit": "final", "time_format": None, "has_heartbeats": False, "type_expr": None}
"""Settings that checkpoints of earlier releases do not have, and what they were made with."""


def _columns(query: Query) -> frozenset[str]:
    return frozenset(needed_columns((query,), ()))


def require_same_exchanges(old: Sequence[str], new: Sequence[str], names: Sequence[Sequence[str]]) -> None:
    """Raise if stored events would be read differently from how they were written."""
    for before, after, queries in zip(old, new, names, strict=False):
        if before != after and not _has_grown(json.loads(before), json.loads(after)):
            raise TrendfoldError(
                f"query {queries[0]!r}: the checkpoint stores its events differently from this release; "
                f"use the release that wrote it, or start with a new checkpoint"
            )


def _has_grown(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether queries have joined an exchange, and nothing else has changed (exchanges.joined)."""
    count, known = len(before["queries"]), len(before["conditions"])
    is_more = after["types"] is None or set(before["types"] or "?") <= set(after["types"])
    return (
        len(after["queries"]) > count
        and after["queries"][:count] == before["queries"]
        and after["conditions"][:known] == before["conditions"]
        and set(before["columns"]) <= set(after["columns"])
        and is_more
        and all(before[name] == after[name] for name in ("mode", "key"))
    )


def describe(exchange: Exchange, names: Sequence[str]) -> str:
    """How the events of an exchange are stored, as text for comparison."""
    told = {
        "mode": exchange.mode == "complete",
        "key": exchange.key,
        "queries": names,
        "columns": exchange.columns,
        "conditions": [expression_text(condition) for condition in exchange.conditions],
        "types": None if exchange.types is None else sorted(exchange.types),
    }
    return json.dumps(told)


def column_types(schema: pa.Schema) -> dict[str, str]:
    """The columns that are read, and their types."""
    return {f.name: str(f.type) for f in schema}


# ---------------------------------------------------------------- how far


@dataclass(frozen=True)
class Tally:
    """What a stream has read and reported up to a batch, stored after each batch next to the checkpoint.

    A batch that is rerun starts from the tally before it.
    """

    batch: int = -1
    latest: int = ALWAYS
    events: int = 0
    rejects: int = 0
    late: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    """The size of each shard's state."""
    steps: Sequence[Mapping[str, Any]] = field(default_factory=list)
    """The steps of the last release, over all shards (plan.fold_steps.to_value)."""
    before: Mapping[str, Any] | None = None
    rows_read: int = 0
    """Raw events read from the state."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """The counters of all folds: bursts, snapshots, ..."""

    def after(
        self,
        batch: int,
        latest: int,
        events: int,
        rejects: int,
        late: int,
        rows: Mapping[str, int],
        state: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]] = (),
        read: int = 0,
        sharing: Mapping[str, int] = MappingProxyType({}),
    ) -> Tally:
        """The tally after one more batch, or after a rerun of the last one."""
        base = self
        if batch <= self.batch:
            base = Tally() if self.before is None else Tally(**self.before)
        total, counts = _summed(base.rows, rows), _summed(base.sharing, sharing)
        kept = {k: v for k, v in asdict(base).items() if k != "before"}
        return Tally(
            batch,
            max(base.latest, latest),
            base.events + events,
            base.rejects + rejects,
            base.late + late,
            total,
            {**base.state, **state},
            steps or base.steps,
            kept,
            base.rows_read + read,
            counts,
        )

    def write(self, folder: Place) -> None:
        """Write the tally."""
        (folder / TALLY).write(json.dumps(asdict(self)).encode())

    @staticmethod
    def read(folder: Place) -> Tally:
        """The stored tally, or an empty one."""
        content = (folder / TALLY).read()
        if content is None:
            return Tally()
        with _whole((folder / TALLY).url):
            return Tally(**json.loads(content))


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


@contextmanager
def _whole(where: str) -> Iterator[None]:
    """Turn a parse error into an error that names the damaged file and says what to do."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, QueryError):
        raise InputError(
            f"{where!r} is damaged, so the stream's progress is unknown; restore a copy of it, or "
            f"start with a new checkpoint and a new output"
        ) from None


def require_whole(folder: Place, tally: Tally) -> None:
    """Raise if Spark's part of a checkpoint does not match the tally next to it.

    The tally is written before Spark commits the batch it counts, so they differ by at most one.
    """
    batches = [int(name) for name in (folder / SPARK / "commits").names() if name.isdigit()]
    done = max(batches, default=-1)
    if not (folder / SPARK).exists() and tally.batch >= 0:
        missing = f"{(folder / SPARK).url!r} is missing, and with it the stream's state and read position"
    elif tally.batch < done:
        missing = (
            f"{(folder / TALLY).url!r} counts {tally.batch + 1} micro-batches, but Spark has done {done + 1}"
        )
    elif tally.batch > done + 1:
        missing = f"{(folder / SPARK).url!r} ends before micro-batch {tally.batch}, which was delivered"
    else:
        return
    raise InputError(
        f"{missing}; restore a copy of the whole checkpoint, or start with a new checkpoint and a new output"
    )
