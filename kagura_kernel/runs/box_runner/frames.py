"""DataFrames, Series and Arrow tables as one uncompressed Arrow stream, and back.

The stream's columns are numbered and its schema has no metadata: labels, index and pandas' own types travel as plain
details, which can be checked one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from .plain import short
from .wire import CannotCross, Packed, too_large

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


# ------------------------------------- one column, of which what Arrow can keep is kept


KEPT_BY_NAME = re.compile(
    r"object|str|category|bool|boolean|string|u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)"
    r"|(datetime64|timedelta64)\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), [A-Za-z0-9_+:/-]{1,64}\]"
    r"|[A-Za-z0-9_\[\], /:+()<>=-]{1,200}\[pyarrow\]"
)
"""pandas' names of the types that come back as they were."""

_INSTEAD = {
    "period": "make it times by `.dt.to_timestamp()`, an index by `.to_timestamp()`, or text by `.astype(str)`",
    "interval": "turn it into text with `.astype(str)`",
    "Sparse": "make it dense with `.sparse.to_dense()`",
    "complex": "pass its real and imaginary parts as two columns",
    "geometry": "turn it into text with `.to_wkt()`",
}


def to_arrow(series: Any, what: str) -> tuple[Any, dict[str, Any]]:
    """A column and what has to be told beside it: pandas' name of its type, and what stood for a missing value.

    Raises:
        CannotCross: Arrow cannot hold it; the text names the column.
    """
    import pyarrow as pa

    name = str(series.dtype)
    inner = str(series.cat.categories.dtype) if name == "category" else name
    for word, instead in _INSTEAD.items():
        if inner.startswith(word):
            raise CannotCross(f"{what} holds {inner} values: {instead}")
    if not KEPT_BY_NAME.fullmatch(name):
        raise CannotCross(f"{what} holds {name} values, which do not travel: turn it into text with `.astype(str)`")
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CannotCross(f"{what} {_mixture(series)}: turn it into one kind, or text with `.astype(str)`") from error
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array.type, pa.BaseExtensionType):
        raise CannotCross(f"{what} holds {array.type} values, which do not travel: turn it into text")
    told: dict[str, Any] = {"dtype": name}
    if name == "object" and array.null_count:
        told["missing"] = _missing(series)
    return array, told


def _mixture(series: Any) -> str:
    """What a column that Arrow refuses consists of."""
    kinds = sorted({type(one).__name__ for one in series.iloc[:10_000] if one is not None})
    if len(kinds) > 1:
        return f"mixes {', '.join(kinds[:4])}"
    return f"holds {kinds[0] if kinds else 'values'} that do not travel"


def _missing(series: Any) -> str:
    """What stands for a missing value in a column of objects: `nan` where it is always that, otherwise None."""
    gone = series[series.isna().to_numpy()]
    return "nan" if all(isinstance(one, float) for one in gone) else "none"


def from_arrow(array: Any, told: dict[str, Any]) -> Any:
    """The column as it was.

    Raises:
        ValueError, TypeError: its type is not what was told.
    """
    import pandas as pd
    import pyarrow as pa

    name = told["dtype"]
    if name == "object":
        values = array.to_pylist()
        if told.get("missing") == "nan":
            values = [float("nan") if one is None else one for one in values]
        return pd.Series(values, dtype=object)
    if name == "str" and int(pd.__version__.partition(".")[0]) < 3:  # noqa: PLR2004 - the first that has it
        values = [float("nan") if one is None else one for one in array.to_pylist()]
        return pd.Series(values, dtype=object)
    if name.endswith("[pyarrow]") and name != "string[pyarrow]":
        return pd.Series(pd.arrays.ArrowExtensionArray(array))
    if pa.types.is_dictionary(array.type) != (name == "category"):
        raise ValueError(short(name))
    if name == "category":
        return array.to_pandas()
    dtype: Any = pd.api.types.pandas_dtype(name)
    if hasattr(dtype, "__from_arrow__") and not name.startswith("datetime64"):
        return pd.Series(dtype.__from_arrow__(array))
    series = array.to_pandas()
    return series if str(series.dtype) == name else series.astype(dtype)


# -------------- labels of columns and names of indexes, as JSON and back


def label_out(label: Any) -> Any:
    """A label as JSON.

    Raises:
        CannotCross: it is no text, number, time, or tuple of these.
    """
    if type(label).__module__ == "numpy" and hasattr(label, "item"):
        label = label.item()
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    if isinstance(label, tuple):
        return {"tuple": [label_out(one) for one in label]}
    if isinstance(label, dt.datetime) and label == label:  # noqa: PLR0124 - NaT is unlike itself
        return {"time": label.isoformat()}
    if type(label) is dt.date:
        return {"date": label.isoformat()}
    raise CannotCross(
        f"the label {short(label)} is a {type(label).__name__}, and labels have to be text, numbers or times. "
        "Rename the columns: `df.columns = df.columns.map(str)`"
    )


def label_in(label: Any, depth: int = 0) -> Any:
    """What was given out; nothing in it is believed.

    Raises:
        ValueError: it is no label.
    """
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    if not isinstance(label, dict) or len(label) != 1 or depth > 1:
        raise ValueError("label")
    [(kind, value)] = label.items()
    if kind == "tuple" and isinstance(value, list):
        return tuple(label_in(one, depth + 1) for one in value)
    if kind == "date" and isinstance(value, str):
        return dt.date.fromisoformat(value)
    if kind == "time" and isinstance(value, str):
        import pandas as pd

        return pd.Timestamp(value)
    raise ValueError("label")


def columns_in(labels: list[Any], names: list[Any], *, multi: bool) -> Any:
    """A frame's columns from labels.

    Raises:
        ValueError: they do not fit together.
    """
    import pandas as pd

    found = [label_in(one) for one in labels]
    of_levels = [label_in(one) for one in names]
    if multi:
        if not found:
            return pd.MultiIndex.from_arrays([[] for _ in of_levels], names=of_levels)
        return pd.MultiIndex.from_tuples(found, names=of_levels)
    if any(isinstance(one, tuple) for one in found):
        return pd.Index(found, tupleize_cols=False, name=of_levels[0])
    if found and all(type(one) is str for one in found):
        return pd.Index(found, name=of_levels[0])
    return pd.Index(found, name=of_levels[0]) if found else pd.RangeIndex(0, name=of_levels[0])
