"""DataFrames, Series and Arrow tables as one uncompressed Arrow stream, and back.

The stream's columns are numbered and its schema has no metadata: labels, index and pandas' own types travel as plain
details, which can be checked one by one.
"""

from __future__ import annotations

from typing import Any

from .columns import from_arrow, to_arrow
from .crossing import CannotCross, Packed, too_large
from .labels import columns_in, label_in, label_out
from .plain import short

SHOWN_COLUMNS = 12
MAX_COLUMNS = 20_000


def pack_frame(frame: Any, room: int) -> Packed:
    """A DataFrame.

    Raises:
        CannotCross: it is too large, or a column cannot travel.
    """
    import pandas as pd

    if frame.shape[1] > MAX_COLUMNS:
        raise CannotCross(f"it has {frame.shape[1]:,} columns, and {MAX_COLUMNS:,} may cross. Pass a NumPy array")
    _refuse_at_a_glance(frame.memory_usage(index=False), frame.dtypes, room)
    arrays, told = [], []
    for number in range(frame.shape[1]):
        array, one = to_arrow(frame.iloc[:, number], f"column {short(frame.columns[number])}")
        arrays.append(array)
        told.append(one)
    index, levels = _index_out(frame.index)
    details = {
        "library": "pandas",
        "labels": [label_out(label) for label in frame.columns],
        "names": [label_out(name) for name in frame.columns.names],
        "multi": isinstance(frame.columns, pd.MultiIndex),
        "columns": told,
        "index": index,
    }
    kinds = [f"{label} ({one['dtype']})" for label, one in zip(frame.columns[:SHOWN_COLUMNS], told)]  # noqa: B905 - not in every Python that a box may have
    return Packed("frame", _stream(arrays + levels, room), details, _summary("DataFrame", frame.shape, kinds))


def pack_series(series: Any, room: int) -> Packed:
    """A Series.

    Raises:
        CannotCross: it is too large, or cannot travel.
    """
    array, told = to_arrow(series, "it")
    index, levels = _index_out(series.index)
    details = {"library": "pandas", "name": label_out(series.name), "columns": [told], "index": index}
    name = "" if series.name is None else f" {series.name!r}"
    summary = f"Series{name}, {len(series):,} × {told['dtype']}"
    return Packed("series", _stream([array, *levels], room), details, summary)


def pack_table(table: Any, room: int) -> Packed:
    """An Arrow table; its metadata stays.

    Raises:
        CannotCross: it is too large, or a column cannot travel.
    """
    import pyarrow as pa

    for field in table.schema:
        if isinstance(field.type, pa.BaseExtensionType):
            raise CannotCross(f"column {short(field.name)} is of the extension type {field.type}: cast it first")
    details = {"library": "pyarrow", "labels": list(table.schema.names)}
    kinds = [f"{field.name} ({field.type})" for field in list(table.schema)[:SHOWN_COLUMNS]]
    arrays = [column.combine_chunks() for column in table.columns]
    return Packed("frame", _stream(arrays, room), details, _summary("Table", table.shape, kinds))


def unpack(form: str, table: Any, details: dict[str, Any]) -> Any:
    """The value of a stream that was read already.

    Raises:
        ValueError, TypeError, KeyError, IndexError: stream and details do not fit.
    """
    import pandas as pd

    if details["library"] == "pyarrow":
        return table.rename_columns([str(label) for label in details["labels"]])
    told = details["columns"]
    index = _index_in(table, details["index"], len(told))
    columns = [from_arrow(table.column(number), one) for number, one in enumerate(told)]
    for column in columns:
        column.index = index
    if form == "series":
        [series] = columns
        series.name = label_in(details["name"])
        return series
    labels = columns_in(details["labels"], details["names"], multi=details["multi"])
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=index)
    frame.columns = labels
    return frame


def read_stream(data: bytes) -> Any:
    """The table of a stream that is trusted; a box's has to be checked first."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def _refuse_at_a_glance(sizes: Any, dtypes: Any, room: int) -> None:
    # What is larger in any packing; flags shrink to an eighth, and objects may be anything.
    certain = sum(int(size) for size, dtype in zip(sizes, dtypes) if getattr(dtype, "kind", "O") in "iufcmM")  # noqa: B905 - not in every Python that a box may have
    if certain > room:
        raise too_large(certain, room)


def _index_out(index: Any) -> tuple[dict[str, Any], list[Any]]:
    import pandas as pd
    import pyarrow as pa

    names = [label_out(name) for name in index.names]
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "names": names}, []
    levels, told = [], []
    for number in range(index.nlevels):
        level = pd.Series(index.get_level_values(number))
        where = "the index" if index.nlevels == 1 else f"level {number} of the index"
        array, one = to_arrow(level, where)
        if pa.types.is_nested(array.type):
            raise CannotCross(f"{where} holds lists or tuples, which no index can hold on the other side: reset it")
        levels.append(array)
        told.append(one)
    return {"levels": told, "names": names, "multi": isinstance(index, pd.MultiIndex), **_freq(index)}, levels


def _freq(index: Any) -> dict[str, str]:
    text = getattr(index, "freqstr", None)
    return {"freq": text} if text else {}


def _index_in(table: Any, told: dict[str, Any], before: int) -> Any:
    import pandas as pd

    names = [label_in(name) for name in told["names"]]
    if "range" in told:
        start, stop, step = told["range"]
        return pd.RangeIndex(start, stop, step, name=names[0])
    levels = [from_arrow(table.column(before + number), one) for number, one in enumerate(told["levels"])]
    if told["multi"]:
        return pd.MultiIndex.from_arrays(levels, names=names)
    index = pd.Index(levels[0]).rename(names[0])
    if freq := told.get("freq"):
        try:
            index.freq = freq
        except (ValueError, AttributeError):
            return index
    return index


def _stream(arrays: list[Any], room: int) -> bytes:
    import pyarrow as pa

    table = pa.table(arrays, names=[str(number) for number in range(len(arrays))])
    if table.nbytes > room:
        raise too_large(table.nbytes, room)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    buffer = sink.getvalue()
    if buffer.size > room:
        raise too_large(buffer.size, room)
    return bytes(buffer)


def _summary(what: str, shape: tuple[int, int], kinds: list[str]) -> str:
    rows, columns = shape
    more = f", and {columns - len(kinds):,} more" if columns > len(kinds) else ""
    named = f": {', '.join(kinds)}{more}" if kinds else ""
    return f"{what}, {rows:,} row{'' if rows == 1 else 's'} × {columns:,} column{'' if columns == 1 else 's'}{named}"
