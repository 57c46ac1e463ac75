"""One column of a frame as an Arrow array and back: what Arrow can keep is kept, anything else is refused."""

from __future__ import annotations

import re
from typing import Any

from .crossing import CannotCross
from .plain import short

KEPT_BY_NAME = re.compile(
    r"object|str|category|bool|boolean|string|u?int(8|16|32|64)|U?Int(8|16|32|64)|float(16|32|64)|Float(32|64)"
    r"|(datetime64|timedelta64)\[(s|ms|us|ns)\]|datetime64\[(s|ms|us|ns), [A-Za-z0-9_+:/-]{1,64}\]"
    r"|[A-Za-z0-9_\[\], /:+()<>=-]{1,200}\[pyarrow\]"
)
"""pandas' names of the types that come back as they were."""

_INSTEAD = {
    "period": "turn it into times with `.dt.to_timestamp()`, or into text with `.astype(str)`",
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
