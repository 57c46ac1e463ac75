"""Whether bytes that come out of a box are what they say they are, found out without running or believing them.

The header of an `.npy` file is read as text under a short leash, and its length has to be exact. An Arrow stream is
read only when its parts, its types and its cost in memory are known to be harmless.
"""

from __future__ import annotations

import io
import math
import re
import struct
from collections.abc import Iterator, Mapping
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from kagura_kernel.runs.box_runner.frames import KEPT_BY_NAME, MAX_COLUMNS, read_stream
from kagura_kernel.runs.box_runner.wire import CannotCross, readable_size

if TYPE_CHECKING:
    import pyarrow as pa

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
_NO_ARRAY = "it is not the file of a NumPy array"

MAX_MESSAGES = 100_000
MAX_TYPE_DEPTH = 8
MAX_FIELDS = 40_000
MAX_ROWS = 2**31
MEMORY_FACTOR = 8
"""How many times the room of a value it may take as Python objects."""

SPARE = 64 * 2**20
_BEGIN = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_TIME_ZONE = re.compile(r"[A-Za-z0-9_+:/-]{1,64}")
_FREQ = re.compile(r"[A-Za-z0-9-]{1,20}")
_NO_STREAM = "it is not a whole Arrow stream"


def check_array(data: bytes) -> None:
    """Whether a file may be read as an array.

    Raises:
        CannotCross: it is broken, holds objects, or is not as long as its header says.
    """
    import numpy as np

    if not data.startswith(_MAGIC) or len(data) < len(_MAGIC) + 4:
        raise CannotCross(_NO_ARRAY)
    version = (data[6], data[7])
    wide = version != (1, 0)
    size = int.from_bytes(data[8 : 12 if wide else 10], "little")
    begin = 12 if wide else 10
    header = data[begin : begin + size].decode("latin-1")
    if version not in ((1, 0), (2, 0), (3, 0)) or size > MAX_HEADER or len(header) != size or not _is_calm(header):
        raise CannotCross(_NO_ARRAY)
    read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    try:
        shape, _, dtype = read(io.BytesIO(data[8 : begin + size]), max_header_size=MAX_HEADER)
    except (*_FAILURES, TokenError) as error:
        raise CannotCross(_NO_ARRAY) from error
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise CannotCross(f"it is an array of {str(dtype)[:80]}, which does not travel")
    count = math.prod(shape)
    if len(shape) > MAX_AXES or any(axis < 0 or axis >= 2**62 for axis in shape) or (count and not dtype.itemsize):
        raise CannotCross(_NO_ARRAY)
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


def check_stream(data: bytes, details: Mapping[str, Any], room: int) -> None:
    """Whether a stream and its details may be made into a frame.

    Args:
        data: The stream.
        details: What was told beside it.
        room: Bytes that one value may have; bounds the memory of the whole frame too.

    Raises:
        CannotCross: it is broken, compressed, of types that do not travel, or too large in memory.
    """
    import pyarrow as pa

    for kind, is_plain in _messages(data):
        if not is_plain:
            raise CannotCross("its Arrow stream is compressed or changes as it goes, which is not read")
        if kind not in (_SCHEMA, _DICTIONARY, _BATCH):
            raise CannotCross(_NO_STREAM)
    try:
        table = read_stream(data)
        table.validate(full=True)
        # A name in it may be no text.
        _check_types(table)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise CannotCross(_NO_STREAM) from error
    _check_details(table, details)
    cost = sum(_cost(chunk) for column in table.columns for chunk in column.chunks)
    if cost > MEMORY_FACTOR * room + SPARE:
        raise CannotCross(f"as a frame it would take about {readable_size(cost)} of memory")


# ------------------------------------------------------------------ messages


def _messages(data: bytes) -> Iterator[tuple[int, bool]]:
    """The kind of each message of a stream, and whether it is neither compressed nor a change of an earlier one."""
    position = count = 0
    try:
        while position < len(data):
            mark, size = struct.unpack_from("<II", data, position)
            position += 8
            if mark != _BEGIN:
                raise CannotCross(_NO_STREAM)
            if size == 0:
                return
            count += 1
            if size > len(data) - position or count > MAX_MESSAGES:
                raise CannotCross(_NO_STREAM)
            message = _Fields.root(data[position : position + size])
            kind, length = message.number("<B", 1), message.number("<q", 3)
            position += size
            if not 0 <= length <= len(data) - position:
                raise CannotCross(_NO_STREAM)
            position += length
            yield kind, _is_plain(kind, message)
    except (struct.error, IndexError) as error:
        raise CannotCross(_NO_STREAM) from error


def _is_plain(kind: int, message: _Fields) -> bool:
    if kind == _SCHEMA:
        return True
    header = message.table(2)
    if kind == _DICTIONARY:
        return not header.number("<B", 2) and not header.table(1).has(3)
    return not header.has(3)


class _Fields:
    """One table of a flatbuffer; whatever leads out of the buffer is a `struct.error`."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        (back,) = self._read("<i", position)
        self._slots = position - back
        self._size, _ = self._read("<HH", self._slots)

    @classmethod
    def root(cls, data: bytes) -> _Fields:
        """The outermost table."""
        (position,) = struct.unpack_from("<I", data, 0)
        return cls(data, position)

    def has(self, number: int) -> bool:
        """Whether a field is given."""
        return self._place(number) > 0

    def number(self, form: str, number: int) -> int:
        """A scalar field; 0 where it is left out."""
        place = self._place(number)
        return int(self._read(form, place)[0]) if place else 0

    def table(self, number: int) -> _Fields:
        """A field that is a table."""
        place = self._place(number)
        if not place:
            raise IndexError(number)
        return _Fields(self._data, place + int(self._read("<I", place)[0]))

    def _place(self, number: int) -> int:
        slot = 4 + 2 * number
        if slot + 2 > self._size:
            return 0
        (offset,) = self._read("<H", self._slots + slot)
        return self._position + int(offset) if offset else 0

    def _read(self, form: str, position: int) -> tuple[Any, ...]:
        if position < 0:
            # Python would count from the end.
            raise IndexError(position)
        return struct.unpack_from(form, self._data, position)


# --------------------------------------------------------------------- types


def _check_types(table: pa.Table) -> None:
    if table.num_columns > MAX_COLUMNS or table.num_rows > MAX_ROWS:
        raise CannotCross(f"it has {table.num_columns:,} columns and {table.num_rows:,} rows")
    left = MAX_FIELDS
    for field in table.schema:
        left -= _count_fields(field.type, 0)
        if left < 0:
            raise CannotCross("its types are nested too widely")


def _count_fields(kind: pa.DataType, depth: int) -> int:
    """How many types a type is made of.

    Raises:
        CannotCross: one of them does not travel, or they are nested too deeply.
    """
    import pyarrow as pa

    types = pa.types
    if depth > MAX_TYPE_DEPTH:
        raise CannotCross(f"its types are nested more than {MAX_TYPE_DEPTH} levels deep")
    if isinstance(kind, pa.BaseExtensionType):
        raise CannotCross(f"it has a column of the extension type {str(kind)[:80]}")
    if types.is_dictionary(kind):
        if types.is_nested(kind.value_type) or types.is_dictionary(kind.value_type):
            raise CannotCross("it has a category of lists")
        return 1 + _count_fields(kind.value_type, depth + 1)
    if types.is_struct(kind):
        return 1 + sum(_count_fields(kind.field(number).type, depth + 1) for number in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind) or (types.is_fixed_size_list(kind) and kind.list_size > 0):
        return 1 + _count_fields(kind.value_type, depth + 1)
    if types.is_timestamp(kind) and kind.tz is not None and not _TIME_ZONE.fullmatch(kind.tz):
        raise CannotCross("it has a time zone that is none")
    if not _travels(kind):
        raise CannotCross(f"it has a column of type {str(kind)[:80]}, which does not travel")
    return 1


def _travels(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    checks = (
        *(types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_temporal, types.is_decimal),
        *(types.is_string, types.is_large_string, types.is_binary, types.is_large_binary),
    )
    if types.is_fixed_size_binary(kind):
        return bool(kind.byte_width > 0)
    return any(check(kind) for check in checks) and not types.is_interval(kind)


def _cost(array: pa.Array) -> int:
    """About how many bytes an array takes as Python objects, which is where most columns end."""
    import pyarrow as pa

    types, kind, count = pa.types, array.type, len(array)
    if types.is_dictionary(kind):
        return 8 * count + _cost(array.dictionary)
    if types.is_struct(kind):
        fields = int(kind.num_fields)
        return count * (64 + 16 * fields) + sum(_cost(array.field(number)) for number in range(fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return 64 * count + _cost(array.values)
    if types.is_boolean(kind):
        return count
    if types.is_integer(kind) or types.is_floating(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        width = int(kind.bit_width)
        return count * width // 8
    return 8 * count if types.is_null(kind) else 64 * count + int(array.nbytes)


# ------------------------------------------------------------------- details


def _check_details(table: pa.Table, details: Mapping[str, Any]) -> None:
    try:
        fit = _details_fit(table, details)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CannotCross("what is told about its columns cannot be understood") from error
    if not fit:
        raise CannotCross("what is told about its columns does not fit them")


def _details_fit(table: pa.Table, details: Mapping[str, Any]) -> bool:
    if details["library"] == "pyarrow":
        return _are(str, details["labels"]) and len(details["labels"]) == table.num_columns
    if details["library"] != "pandas":
        return False
    told, index = details["columns"], details["index"]
    levels = index.get("levels", [])
    if len(told) + len(levels) != table.num_columns or not all(map(_is_type_told, [*told, *levels])):
        return False
    if "labels" in details and not (_are(list, [details["labels"], details["names"]]) and details["names"]):
        return False
    if "labels" in details and (len(details["labels"]) != len(told) or type(details["multi"]) is not bool):
        return False
    return _index_fits(table, index, with_columns=bool(told))


def _is_type_told(told: Any) -> bool:
    return (
        KEPT_BY_NAME.fullmatch(told["dtype"]) is not None
        and told.get("missing", "none") in ("none", "nan")
        and set(told) <= {"dtype", "missing"}
    )


def _index_fits(table: pa.Table, index: Mapping[str, Any], *, with_columns: bool) -> bool:
    names = index["names"]
    if not isinstance(names, list) or not _FREQ.fullmatch(index.get("freq", "D")):
        return False
    if "range" not in index:
        levels = len(index["levels"])
        return len(names) == levels > 0 and type(index["multi"]) is bool and (index["multi"] or levels == 1)
    start, stop, step = index["range"]
    if not _are(int, [start, stop, step]) or max(map(abs, (start, stop, step))) >= 2**62 or len(names) != 1:
        return False
    rows = len(range(start, stop, step))
    return rows == table.num_rows if with_columns else rows <= MAX_ROWS


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(one) is kind for one in values)
