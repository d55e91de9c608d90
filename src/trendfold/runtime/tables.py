"""Folded window items -> the result table of a query (spec 7, 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import LimitError
from trendfold.events.batch import EventBatch
from trendfold.events.columns import Column, decoded, from_arrow, kind_of
from trendfold.events.schema import Kind
from trendfold.kernel import wide
from trendfold.kernel.program import Folded
from trendfold.kernel.rows import is_count_up, is_sorted
from trendfold.plan import QueryPlan
from trendfold.plan.carried import distinct_sets, extreme_of, numbers_of, positions_of
from trendfold.query.names import default_column, having_value, key_column
from trendfold.query.nodes import Aggregate, Attribute, Function, GroupKey, Matches, OfTrend, WindowUnit
from trendfold.runtime.distinct import count_distinct, values_of_segments
from trendfold.runtime.exact_values import Exact, digits_after_point, is_whole, to_decimal_text
from trendfold.runtime.expressions import Lookup
from trendfold.runtime.having import having
from trendfold.runtime.query_rows import Rows, group_count
from trendfold.runtime.sorting import numbered, numbered_pairs, row_numbers, sort_with_rows
from trendfold.runtime.values import at_rows, decode_extreme, in_unit, no_trends, rows_with_trends
from trendfold.runtime.windows import Items, bounds


@dataclass(frozen=True)
class Totals:
    """The aggregates of every window and group that has a trend, by operand.

    An operand's numbers and extremes are already multiplied by the other operands' counts.
    """

    index: NDArray[np.int64]
    group: NDArray[np.int64]
    operands: tuple[Folded, ...]
    of_item: NDArray[np.int64]
    """The row of each window item, -1 for none."""
    distinct: Mapping[tuple[str, ...], NDArray[np.int64]] = field(default_factory=dict)
    """COUNT(DISTINCT ...), by its attributes."""

    def __len__(self) -> int:
        return len(self.index)

    def at(self, some: NDArray[Any]) -> Totals:
        """Some of the rows, in this order."""
        parts = tuple(at_rows(part, some) for part in self.operands)
        distinct = {names: count[some] for names, count in self.distinct.items()}
        return Totals(self.index[some], self.group[some], parts, self.of_item, distinct)

    def with_empty(self, index: NDArray[np.int64], group: NDArray[np.int64]) -> Totals:
        """The same with rows without trends, where these windows and groups have none yet."""
        count = len(self)
        pairs = np.concatenate([self.index, index]), np.concatenate([self.group, group])
        every, owner, which = numbered_pairs(*pairs)
        if len(every) == count:
            return self
        place = which[:count]
        of_item = np.where(self.of_item >= 0, np.append(place, -1)[self.of_item], -1)
        parts = tuple(_placed(part, place, len(every)) for part in self.operands)
        distinct = {names: _spread(counted, place, len(every)) for names, counted in self.distinct.items()}
        return Totals(every, owner, parts, of_item, distinct)


def _placed(part: Folded, place: NDArray[np.int64], rows: int) -> Folded:
    """Aggregates as rows among others that have no trend."""
    found = no_trends(rows, part.mantissa.shape[1], part.extreme.shape[1])
    found.mantissa[place], found.exponent[place], found.extreme[place] = part
    return found


def _spread(values: NDArray[np.int64], place: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    found = np.zeros(rows, np.int64)
    found[place] = values
    return found


def total(
    plan: QueryPlan,
    rows: Rows,
    items: Items,
    folded: tuple[Folded, ...],
    batch: EventBatch,
    with_takers: Items | None = None,
) -> Totals:
    """Combine the operands of each item that has a trend, then sum over the partitions of each group.

    `with_takers` are items that have a row in any case, those of INCLUDE EMPTY.
    """
    found = _add_partitions(rows, items, folded)
    if names := distinct_sets(plan.query):
        some = found.of_item >= 0
        segment, row = items.segment[some], found.of_item[some]
        counts = (values_of_segments(rows, batch, each)[segment] for each in names)
        counted = {
            each: count_distinct(row, value, len(found)) for each, value in zip(names, counts, strict=True)
        }
        found = replace(found, distinct=counted)
    if with_takers is None:
        return found
    return found.with_empty(with_takers.index, rows.group[with_takers.segment])


def _add_partitions(rows: Rows, items: Items, folded: tuple[Folded, ...]) -> Totals:
    combined = multiply_operands(folded)
    some = rows_with_trends(combined[0])
    index, group, of_item = items.index, rows.group[items.segment], np.arange(len(some))
    if len(some) < len(index):
        index, group = index[some], group[some]
        combined = tuple(at_rows(part, some) for part in combined)
        of_item = np.full(len(items.low), -1, np.int64)
        of_item[some] = np.arange(len(some))
    is_single = items.spans is None and group_count(rows) == len(rows.group)
    if is_single:  # a group is one segment: no two items are of one row
        return Totals(index, group, combined, of_item)
    index, group, where = numbered_pairs(index, group)
    of_item[some] = where
    return Totals(index, group, tuple(add_up(part, where, len(index)) for part in combined), of_item)


def multiply_operands(folded: tuple[Folded, ...]) -> tuple[Folded, ...]:
    """AND: multiply each operand's aggregates by the counts of the others (spec 7)."""
    if len(folded) == 1:
        return folded
    found = []
    for i, part in enumerate(folded):
        mantissa, exponent, extreme = part
        for j, other in enumerate(folded):
            if i != j:
                mantissa, exponent = _times(mantissa, exponent, other.mantissa[:, :1], other.exponent[:, :1])
                extreme = np.where(other.mantissa[:, :1] > 0, extreme, np.inf)
        found.append(Folded(mantissa, exponent, extreme))
    return tuple(found)


def _times(
    m1: NDArray[np.float64], e1: NDArray[np.int32], m2: NDArray[np.float64], e2: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    product, exponent = m1 * m2, e1 + e2
    big = np.abs(product) >= wide.RADIX
    exponent = np.where(product == 0, 0, exponent + big).astype(np.int32)
    return np.where(big, product * wide.SHRINK, product), exponent


def add_up(part: Folded, where: NDArray[np.int64], count: int) -> Folded:
    """Sum the rows of a part: row i is added to row where[i]."""
    mantissa = np.zeros((count, part.mantissa.shape[1]))
    exponent = np.zeros(mantissa.shape, np.int32)
    extreme = np.full((count, part.extreme.shape[1]), np.inf)
    wide.add_at(where, part.mantissa, part.exponent, mantissa, exponent)
    np.minimum.at(extreme, where, part.extreme)
    return Folded(mantissa, exponent, extreme)


def build_table(totals: Totals, exact: Exact, origin: int, arithmetic: str = "auto") -> pa.Table:
    """Build the result of one query: window, group and aggregates, ordered by window, then group."""
    plan, rows, batch = exact.plan, exact.rows, exact.batch
    query = plan.query
    kept = np.ones(len(totals), np.bool_)
    if query.having is None:
        exact.limits.check_rows(query.name, len(totals))
    groups = Groups.of(totals.group)
    values_of = {key: groups.values(key, rows, batch) for key in query.group_by}
    if query.having is not None:
        keys = {key: named.take(pa.array(groups.of_row)) for key, named in values_of.items()}
        kept = having(exact, _having_lookup(plan, totals, keys, batch), is_strict=arithmetic == "exact")
        exact.limits.check_rows(query.name, int(kept.sum()))
    order = groups.order(totals.index, list(values_of.values()))
    order = order if query.having is None else order[kept[order]]
    shown = totals if is_count_up(order, len(totals)) else totals.at(order)
    columns: dict[str, pa.Array] = {}
    columns["window_start"], columns["window_end"] = window_columns(plan, shown, batch, origin)
    of_row = pa.array(groups.of_row[order])
    for key, named in values_of.items():
        columns[key_column(query, key)] = named.take(of_row)
    assert not isinstance(query.returns, Matches)
    returned = [(item.name, item.value) for item in query.returns if isinstance(item.value, Aggregate)]
    whole = _text_columns([value for _, value in returned], exact, kept) if arithmetic == "exact" else {}
    for name, value in returned:
        named = name or default_column(value)
        if value in whole:
            columns[named] = whole[value].take(pa.array(order))
        elif value.distinct:
            columns[named] = _distinct_column(value, shown.distinct[value.distinct], arithmetic)
        elif arithmetic == "integer" and is_whole(value, batch):
            columns[named] = _integer_column(named, value, totals, exact, kept, origin).take(pa.array(order))
        else:
            columns[named] = aggregate(value, plan, shown.operands, batch)
    return pa.table(columns)


def _text_columns(
    wanted: Iterable[Aggregate], exact: Exact, kept: NDArray[np.bool_]
) -> dict[Aggregate, pa.Array]:
    """The columns of arithmetic='exact', per row of the totals: whole numbers and decimals as text."""
    scale = {value: digits_after_point(value, exact.batch) for value in wanted}
    whole = [v for v in scale if (is_whole(v, exact.batch) or scale[v] is not None) and not v.distinct]
    return {
        value: _text_column(digits, scale[value] or 0, kept & ~exact.is_null(value), kept)
        for value, digits in exact.values(whole, kept).items()
    }


def _distinct_column(wanted: Aggregate, counts: NDArray[np.int64], arithmetic: str) -> pa.Array:
    """A column of COUNT(DISTINCT ...), or its LOG2."""
    if wanted.log2:
        return pa.array(np.log2(np.maximum(counts, 1)), mask=counts == 0)
    if arithmetic == "auto":
        return pa.array(counts.astype(np.float64))
    return pa.array(counts) if arithmetic == "integer" else pa.array(counts).cast(pa.string())


def _integer_column(
    name: str, wanted: Aggregate, totals: Totals, exact: Exact, kept: NDArray[np.bool_], origin: int
) -> pa.Array:
    """A column of arithmetic='integer', per row of the totals."""
    found, too_large = exact.integers(wanted, kept)
    if too_large is None:
        return pa.array(found, mask=exact.is_null(wanted))
    start = window_columns(exact.plan, totals.at(np.array([too_large])), exact.batch, origin)[0][0]
    window = f"the window that begins at {start}" if start.is_valid else "the only window"
    raise LimitError(
        f"query {exact.plan.query.name!r}: {name!r} of {window} does not fit the 64 bits of "
        f"arithmetic='integer'; use arithmetic='auto' for doubles, LOG2 of a COUNT, "
        f"or arithmetic='exact' for all digits"
    )


@dataclass(frozen=True)
class Groups:
    """The groups of a result's rows, so that keys are looked up and compared once per group.

    which   int64[g]  the groups that have a row
    of_row  int[n]    per row its group, into `which`
    """

    which: NDArray[np.int64]
    of_row: NDArray[Any]

    @classmethod
    def of(cls, group: NDArray[np.int64]) -> Groups:
        """From the group of each row."""
        return cls(*numbered(group))

    def values(self, key: GroupKey, rows: Rows, batch: EventBatch) -> pa.Array:
        """A key's value per group, taken from one of its rows."""
        return values_at(batch, key.attribute, rows.group_rows[key][self.which])

    def order(self, index: NDArray[np.int64], keys: list[pa.Array]) -> NDArray[Any]:
        """The rows sorted by window, then keys, null first; `keys` per group."""
        rank = np.zeros(len(self.which), np.int64)
        if keys:
            named = pa.table(keys, names=[str(i) for i in range(len(keys))])
            by = [(name, "ascending", "at_start") for name in named.column_names]
            rank[pc.sort_indices(named, sort_keys=by).to_numpy()] = np.arange(len(rank))
        code = index
        if len(rank) > 1:
            low, high = int(index.min()), int(index.max())
            is_dense = (high - low + 1) * len(rank) < 2**62
            place = index - low if is_dense else numbered(index)[1].astype(np.int64)
            code = place * len(rank) + rank[self.of_row]
        rows = row_numbers(len(code))
        return rows if is_sorted(code) else sort_with_rows(code, rows)[1]


def window_columns(
    plan: QueryPlan, totals: Totals, batch: EventBatch, origin: int
) -> tuple[pa.Array, pa.Array]:
    """The start and the end of every row's window."""
    window = plan.query.window
    type_ = time_type(batch)
    if window is None:
        return pa.nulls(len(totals), type_), pa.nulls(len(totals), type_)
    if window.unit is WindowUnit.EVENTS:
        start, end = bounds(window, totals.index, origin)
        return pa.array(start), pa.array(end)
    sizes = window.length, window.slide or window.length, origin
    if pa.types.is_int64(type_) and window.slide is not None and not any(s % batch.ticks for s in sizes):
        length, slide, origin = (size // batch.ticks for size in sizes)  # instead of a division per window
        start = totals.index * slide + origin
        return pa.array(start), pa.array(start + length)
    start, end = bounds(window, totals.index, origin)
    return times_column(start, batch), times_column(end, batch)


def time_type(batch: EventBatch) -> pa.DataType:
    """The type of a window's bounds: that of the time column; text becomes a UTC timestamp."""
    given = batch.table.schema.field(batch.time_column).type
    match kind_of(given):
        case Kind.STRING:
            return pa.timestamp("us", "UTC")
        case Kind.TIME if not pa.types.is_timestamp(given):
            return pa.timestamp("us")
        case Kind.INTEGER:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case _:
            return given


def times_column(micros: NDArray[np.int64], batch: EventBatch) -> pa.Array:
    """Convert microseconds to the time column's type and unit."""
    type_ = time_type(batch)
    if pa.types.is_int64(type_):
        return pa.array(micros // batch.ticks)
    if pa.types.is_float64(type_):
        return pa.array(micros / batch.ticks)
    zone = type_.tz if pa.types.is_timestamp(type_) else None
    return pa.array(micros).cast(pa.timestamp("us", zone)).cast(type_, safe=False)


def values_at(batch: EventBatch, attribute: str, at: NDArray[Any]) -> pa.Array:
    """An attribute of some rows in its input type; NaN and infinity become null."""
    data = decoded(batch.table.column(attribute).take(pa.array(at)))
    values = data.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], data.type)
    if kind_of(data.type) is Kind.FLOAT and pa.types.is_floating(data.type):
        column = batch.column(attribute).take(at)
        return pa.array(column.values, mask=~column.valid).cast(data.type)
    return values


def aggregate(
    wanted: Aggregate, plan: QueryPlan, operands: tuple[Folded, ...], batch: EventBatch
) -> pa.Array:
    """One aggregate as a column of the result."""
    for operand, folded in zip(plan.operands, operands, strict=True):
        positions = positions_of(wanted, operand.machine.automaton)
        if wanted.alias is not None and not positions:
            continue
        if (extreme := extreme_of(wanted, positions)) is not None:
            found = folded.extreme[:, operand.carried.extremes.index(extreme)]
            if extreme.of is not None:
                return _of_trend_column(found, extreme.of, extreme.is_max)
            return _extreme_column(found, extreme.attribute, extreme.is_max, batch)
        slots = [0]
        if positions:
            slots = [1 + operand.carried.numbers.index(n) for n in numbers_of(wanted, positions)]
        parts = [(folded.mantissa[:, s], folded.exponent[:, s]) for s in slots]
        if wanted.of is not None:  # every trend has a duration and a length
            parts = [
                (in_unit(parts[0][0], wanted.of), parts[0][1]),
                (folded.mantissa[:, 0], folded.exponent[:, 0]),
            ]
        return _number_column(wanted, parts)
    raise AssertionError(f"no operand has {wanted.alias!r}")


def _number_column(wanted: Aggregate, parts: list[tuple[NDArray[np.float64], NDArray[np.int32]]]) -> pa.Array:
    if wanted.log2:
        logarithm = wide.log2(*parts[0])
        return pa.array(logarithm, mask=np.isnan(logarithm))
    if wanted.function is Function.COUNT:
        return pa.array(wide.to_double(*parts[0]))
    value, present = parts
    none = present[0] == 0
    found = wide.ratio(*value, *present) if wanted.function is Function.AVG else wide.to_double(*value)
    return pa.array(np.where(none, 0.0, found), mask=none)


def _of_trend_column(extreme: NDArray[np.float64], of: OfTrend, is_max: bool) -> pa.Array:
    """The least or greatest duration or length."""
    none = ~np.isfinite(extreme)
    found = np.where(none, 0.0, -extreme if is_max else extreme) + 0.0
    if of is OfTrend.LENGTH:
        return pa.array(found.astype(np.int64), mask=none)
    return pa.array(in_unit(found, of), mask=none)


def _extreme_column(
    extreme: NDArray[np.float64], attribute: str, is_max: bool, batch: EventBatch
) -> pa.Array:
    column = batch.column(attribute)
    none = ~np.isfinite(extreme)
    values = decode_extreme(column, extreme, is_max)
    given = batch.table.schema.field(attribute).type
    given = given.value_type if pa.types.is_dictionary(given) else given
    if pa.types.is_decimal(given) or kind_of(given) is Kind.NULL:
        given = pa.float64()
    if column.kind is Kind.TIME:
        unit = "ns" if column.per_microsecond == 1000 else "us"
        return (
            pa.array(values, mask=none)
            .cast(pa.timestamp(unit))
            .cast(pa.timestamp(unit))
            .cast(given, safe=False)
        )
    return pa.array(values, mask=none).cast(given)


def _text_column(
    values: NDArray[np.object_], scale: int, valid: NDArray[np.bool_], kept: NDArray[np.bool_]
) -> pa.Array:
    """Exact integers of the kept rows as decimal text with `scale` decimal places."""
    found = np.full(len(kept), None, object)
    found[kept] = [to_decimal_text(value, scale) for value in values]
    found[~valid] = None
    return pa.array(found, pa.string())


def _having_lookup(
    plan: QueryPlan, totals: Totals, keys: dict[GroupKey, pa.Array], batch: EventBatch
) -> Lookup:
    """A lookup for the leaves of HAVING."""

    def lookup(node: Attribute | Aggregate) -> Column:
        value = having_value(plan.query, node) if isinstance(node, Attribute) else node
        assert value is not None
        if isinstance(value, GroupKey):
            return from_arrow(pa.chunked_array([keys[value]]))
        if value.distinct:
            data = _distinct_column(value, totals.distinct[value.distinct], "auto")
        else:
            data = aggregate(value, plan, totals.operands, batch)
        column = from_arrow(pa.chunked_array([data]))
        if column.kind is Kind.FLOAT:  # an infinite count is not null
            valid = pc.is_valid(data).to_numpy(zero_copy_only=False)
            return Column(Kind.FLOAT, pc.fill_null(data, 0.0).to_numpy(), valid)
        return column

    return lookup
