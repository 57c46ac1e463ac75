"""An `.npy` file from a box: its header is read as text under a short leash, and its length has to be exact."""

from __future__ import annotations

import io
import math
import re
from tokenize import TokenError

from kagura_kernel.runs.box_runner.wire import CannotCross

MAX_HEADER = 8192
_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_REST = re.compile(r"\{[A-Za-z0-9_\s'(){}\[\],:]*\}\s*")
MAX_AXES = 32
MAX_NESTING = 24
_MAGIC = b"\x93NUMPY"
_KINDS = frozenset("biufcmMSUV")
_FAILURES = (
    ValueError,
    TypeError,
    SyntaxError,
    RecursionError,
    MemoryError,
    OverflowError,
    LookupError,
    AttributeError,
)
_BROKEN = "it is not the file of a NumPy array"


def check_array(data: bytes) -> None:
    """Whether a file may be read as an array.

    Raises:
        CannotCross: it is broken, holds objects, or is not as long as its header says.
    """
    import numpy as np

    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + 4:
        raise CannotCross(_BROKEN)
    version = (data[6], data[7])
    wide = version != (1, 0)
    size = int.from_bytes(data[8 : 12 if wide else 10], "little")
    begin = 12 if wide else 10
    header = data[begin : begin + size].decode("latin-1")
    if version not in ((1, 0), (2, 0), (3, 0)) or size > MAX_HEADER or len(header) != size or not _is_calm(header):
        raise CannotCross(_BROKEN)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    try:
        shape, _, dtype = read(io.BytesIO(data[8 : begin + size]), max_header_size=MAX_HEADER)
    except (*_FAILURES, TokenError) as error:
        raise CannotCross(_BROKEN) from error
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise CannotCross(f"it is an array of {str(dtype)[:80]}, which does not travel")
    count = math.prod(shape)
    if len(shape) > MAX_AXES or any(axis < 0 or axis >= 2**62 for axis in shape) or (count and not dtype.itemsize):
        raise CannotCross(_BROKEN)
    if count * dtype.itemsize != len(data) - begin - size:
        raise CannotCross("it is not as long as its header says")


def _is_calm(header: str) -> bool:
    """Whether a header is a plain literal (words, numbers, brackets), and is not nested deeply."""
    header = _QUOTED.sub("''", header)
    if not _REST.fullmatch(header):
        return False
    depth = deepest = 0
    for one in header:
        depth += (one in "([{") - (one in ")]}")
        deepest = max(deepest, depth)
    return deepest <= MAX_NESTING
