"""The variables of a namespace with what they are, in a few words; nobody's code is run for it."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any

from kagura_kernel.cockpit.lines.lookup import Name

MOST = 500
"""So many names are given."""

_LONG = 60
_SHAPED = frozenset({"DataFrame", "Series", "ndarray"})
_HOMES = frozenset({"numpy", "pandas", "polars"})
_COUNTED = (str, bytes, list, tuple, dict, set, frozenset)
_PLAIN = (bool, int, float, complex, type(None))
_NO_DATA = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


def variables(namespace: Mapping[str, Any], hidden: Collection[str] = ()) -> list[Name]:
    """Those that hold data and are the person's own, sorted by name."""
    names = [
        name
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in hidden and not isinstance(value, _NO_DATA)
    ]
    return [Name(name, summary_of(namespace[name])) for name in sorted(names)[:MOST] if name in namespace]


def summary_of(value: Any) -> str:
    """What a value is: its type, and its shape, length or itself where that is known to be cheap."""
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__}, {value!r}"[:_LONG] if value is not None else "None"
    if kind in _COUNTED:
        return f"{kind.__name__}, {len(value):,} long"
    if kind.__name__ in _SHAPED and kind.__module__.partition(".")[0] in _HOMES:
        return f"{kind.__name__}, {' × '.join(f'{size:,}' for size in value.shape)}"
    return kind.__name__
