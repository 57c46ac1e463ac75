"""How a shell program sees variables: plain values as they are, everything else as the path of a file."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.runs.inbox import plain
from kagura_kernel.runs.inbox.frames import read_stream

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_WORD = 100_000
"""Bytes; a system takes no variable of more than 128 KiB."""

LARGEST_TABLE = 64 * 2**20
"""Bytes of a frame that is also written as CSV."""


def shell_word(packed: PackedVariable, path: str) -> str:
    """What `$NAME` is.

    Args:
        packed: The variable.
        path: Its file, in the box.
    """
    if packed.form == "text":
        word = packed.data.decode("utf-8", "surrogatepass")
    elif packed.form == "json":
        word = _plain_word(plain.decode(packed.data, PurePath))
    else:
        return path
    size = len(word.encode("utf-8", "surrogatepass"))
    return path if size > LONGEST_WORD or "\0" in word or not _is_whole(word) else word


def _is_whole(word: str) -> bool:
    """Whether a text has no half of a character, which no variable can hold."""
    return not any("\ud800" <= one <= "\udfff" for one in word)


def _plain_word(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case list() | dict():
            return json.dumps(_json(value), ensure_ascii=False, separators=(",", ":"))
        case _:
            return str(value)


def _json(value: Any) -> Any:
    """A plain value with what JSON has no word for as text, and as null where it is no number: what `jq` reads."""
    match value:
        case dict():
            return {key: _json(one) for key, one in value.items()}
        case list():
            return [_json(one) for one in value]
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case _:
            return _plain_word(value)


def csv_of(packed: PackedVariable) -> bytes | None:
    """A frame or series as CSV with a head line; an index that only counts is left out. None when it is too large."""
    if len(packed.data) > LARGEST_TABLE:
        return None
    import pyarrow as pa

    table = read_stream(packed.data)
    names = [_header(label) for label in _labels(packed)]
    columns = [_writable(column) for column in table.columns]
    levels = len(columns) - (len(packed.details["columns"]) if "columns" in packed.details else len(columns))
    if levels:
        # The index first, as pandas writes it.
        columns = columns[-levels:] + columns[:-levels]
    table = pa.table(columns, names=names)
    try:
        # Without quotes, which tools of a shell know nothing of, as long as no text needs them.
        return _written(table, "none")
    except pa.ArrowInvalid:
        return _written(table, "needed")


def _written(table: pa.Table, quotes: str) -> bytes:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    # Arrow puts every name of the head line into quotes.
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(table.column_names)
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(table, sink, arrow_csv.WriteOptions(include_header=False, quoting_style=quotes))
    return head.getvalue().encode("utf-8", "replace") + bytes(sink.getvalue())


def _labels(packed: PackedVariable) -> list[Any]:
    details = packed.details
    own = details["labels"] if packed.form == "frame" else [details["name"]]
    index = details.get("index", {})
    names = index["names"] if "levels" in index else []
    counted = [f"level_{number}" if len(names) > 1 else "index" for number in range(len(names))]
    levels = [one if name is None else name for name, one in zip(names, counted, strict=True)]
    return [*levels, *(["value" if one is None else one for one in own])]


def _header(label: Any) -> str:
    match label:
        case {"tuple": parts}:
            return "_".join(map(_header, parts))
        case {"time": text} | {"date": text}:
            return str(text)
        case _:
            return str(label)


def _writable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as CSV can hold it."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(column.type):
        return _writable(column.cast(column.type.value_type))
    if types.is_nested(column.type) or types.is_binary(column.type) or types.is_large_binary(column.type):
        texts = [None if one is None else _text(one) for one in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    if types.is_duration(column.type) or types.is_float16(column.type):
        return pa.chunked_array([pa.array([None if one is None else str(one) for one in column.to_pylist()])])
    return column


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else json.dumps(value, default=str, ensure_ascii=False)
