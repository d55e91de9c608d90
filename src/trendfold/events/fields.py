"""Fields of nested columns as columns: `place.city` is the field city of the structs in the column place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

Paths = dict[str, tuple[str, ...]]
"""Where a column stands: its own name, or the names from the outermost column to a field."""


def with_fields(schema: pa.Schema) -> dict[str, pa.DataType]:
    """All columns and their types, then the fields inside them; a column wins over a field of its name."""
    found = dict(zip(schema.names, schema.types, strict=True))
    for path, type_ in _fields(schema):
        found.setdefault(".".join(path), type_)
    return found


def only_columns(known: Mapping[str, pa.DataType]) -> list[str]:
    """The names in `with_fields` that are columns, not fields."""
    inside = {
        f"{name}.{'.'.join(path)}"
        for name, type_ in known.items()
        if pa.types.is_struct(type_)
        for path, _ in _inside((), type_)
    }
    return [name for name in known if name not in inside]


def take_fields(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table with these columns and fields; a field is null where what holds it is null."""
    paths: Paths = {}
    for path, _ in _fields(table.schema):
        paths.setdefault(".".join(path), path)
    own = {name: i for i, name in reversed(list(enumerate(table.column_names)))}
    found = table.select([])
    for name in names:
        if name in own:
            column = table.column(own[name])
        else:
            outer, *inside = paths[name]
            column = pc.struct_field(table.column(outer), inside)
        found = found.append_column(name, column)
    return found


def outermost(names: Collection[str], columns: Collection[str]) -> set[str]:
    """The columns that must be read for some columns and fields; a name that is neither stays as it is."""
    return {_owner(name, columns) for name in names}


def _owner(name: str, columns: Collection[str]) -> str:
    rest = name
    while rest not in columns and "." in rest:
        rest = rest.rpartition(".")[0]
    return rest if rest in columns else name


def _fields(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    for column in schema:
        yield from _inside((column.name,), column.type)


def _inside(path: tuple[str, ...], type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """The fields of a struct, at any depth; none for other types."""
    for field in type_ if pa.types.is_struct(type_) else ():
        yield (*path, field.name), field.type
        yield from _inside((*path, field.name), field.type)
