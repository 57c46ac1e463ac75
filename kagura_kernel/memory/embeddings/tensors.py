"""Reads arrays of numbers from a file in the safetensors format; nothing in such a file is ever run."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 16 * 1024 * 1024
_TYPES = {"F32": "<f4", "F16": "<f2"}


def read_tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """The arrays of 16 or 32 bit floats in a file, by their names, as 32 bit; of other types there is none.

    Raises:
        ValueError: it is no such file.
        OSError: it cannot be read.
    """
    import numpy as np

    data = np.memmap(path, dtype=np.uint8, mode="r")
    if len(data) < _LENGTH.size:
        raise ValueError("it is too short")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size].tobytes())
    begin = _LENGTH.size + length
    if length > min(_MOST_HEADER, len(data) - _LENGTH.size):
        raise ValueError("its header is longer than the file")
    header = json.loads(data[_LENGTH.size : begin].tobytes())
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, entry in header.items():
        kind = _TYPES.get(entry.get("dtype", ""))
        if kind is None:
            continue
        first, last = entry["data_offsets"]
        if not 0 <= first <= last <= len(data) - begin:
            raise ValueError(f"{name} is said to lie outside of the file")
        values = np.frombuffer(data[begin + first : begin + last], dtype=kind).reshape(entry["shape"])
        tensors[name] = values.astype(np.float32, copy=False)
    return tensors
