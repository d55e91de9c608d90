"""The types of rows by conditions (`type_expr`), as a column in the place of `type_column`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from trendfold.events.batch import schema_of
from trendfold.events.columns import from_arrow
from trendfold.events.options import Options
from trendfold.query.row_types import check_type_conditions, columns_of_types
from trendfold.runtime.expressions import attribute_lookup, evaluate, is_true


def columns_to_read(columns: Collection[str], options: Options) -> frozenset[str]:
    """The columns of the input that are needed: conditions take the place of the type column."""
    if not options.type_conditions:
        return frozenset(columns)
    return (frozenset(columns) - {options.type_column}) | columns_of_types(options.type_conditions)


def with_types(table: pa.Table, options: Options) -> pa.Table:
    """The table with the types of its rows: the first condition that holds, null where none does."""
    if not options.type_conditions:
        return table
    check_type_conditions(options.type_conditions, schema_of(table.schema))
    lookup = attribute_lookup(lambda name: from_arrow(table.column(name)))
    code = np.full(table.num_rows, -1, np.int32)
    for k, each in reversed(list(enumerate(options.type_conditions))):
        code[np.broadcast_to(is_true(evaluate(each.condition, lookup)), code.shape)] = k
    names = pa.array([each.type for each in options.type_conditions], pa.string())
    found = names.take(pa.array(code, mask=code < 0))
    if options.type_column in table.column_names:
        table = table.drop_columns([options.type_column])
    return table.append_column(options.type_column, found)


def typed(schema: pa.Schema, options: Options) -> pa.Schema:
    """The columns with that of types."""
    return with_types(schema.empty_table(), options).schema
