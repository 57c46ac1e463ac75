"""Labels of columns and names of indexes, as JSON and back."""

from __future__ import annotations

import datetime as dt
from typing import Any

from .crossing import CannotCross
from .plain import short


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
