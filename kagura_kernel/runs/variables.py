"""A run's variables: into the box before anything runs, out of it at the end, each recorded once in each direction."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import datetime as dt
import io
import json
import math
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, get_args

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import BoxFileError, SandboxCommandTimeout, SandboxIdleTimeout, VariableRefused
from kagura_kernel.domain.events import VariableCrossed
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.domain.tools import FileStat
from kagura_kernel.domain.variables import Form, PackedVariable
from kagura_kernel.domain.visible import is_whole, whole
from kagura_kernel.runs.box_runner import plain
from kagura_kernel.runs.box_runner.frames import read_stream
from kagura_kernel.runs.box_runner.pack import missing
from kagura_kernel.runs.box_runner.wire import MAX_HEAD, CannotCross, readable_size, too_large
from kagura_kernel.runs.checks import check_array, check_stream
from kagura_kernel.runs.context import RunContext
from kagura_kernel.runs.exchange import BOXED_PACKAGE, ExchangeDirectory, check_image

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
    return path if size > LONGEST_WORD or "\0" in word or not is_whole(word) else word


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
    names = [whole(_header(label)) for label in _labels(packed)]
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


PIECE = 32 * 2**20
LONGEST_SUMMARY = 500
CONVERT_SECONDS = 60.0
_SUFFIXES = {"frame": "arrow", "series": "arrow", "array": "npy", "json": "json", "image": "png", "text": "txt"}
_TABLES = (".parquet", ".arrow", ".feather")
_FORMS: frozenset[str] = frozenset(get_args(Form))
_NOT_UNDERSTOOD = "what came out of the box under its name cannot be understood"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


async def make_exchange(context: RunContext, *, for_shell: bool) -> ExchangeDirectory:
    """The run's exchange directory with its variables in it.

    Args:
        context: The run.
        for_shell: Whether shell programs are to find them as well.

    Raises:
        VariableRefused: the box has no room for one.
    """
    order = context.order
    names = tuple(one.name for one in order.request.inputs)
    # What the settings say about drawing stands.
    backend = "" if "MPLBACKEND" in order.spec.env else "Agg"
    cell = str(order.place.count or order.run_id) if order.keep_seconds else ""
    exchange = ExchangeDirectory(context.box, names, order.request.outputs, order.room, backend=backend, cell=cell)
    if context.kept is not None:
        await exchange.begin_cell()
        context.had_python = await exchange.had_session()
    index: dict[str, Any] = {}
    words: dict[str, str] = {}
    for packed in order.request.inputs:
        file = f"{packed.name}.{_SUFFIXES.get(packed.form, 'bin')}"
        words[packed.name] = await _put(exchange, packed, f"{exchange.root}/in/{file}", for_shell=for_shell)
        index[packed.name] = {
            "form": packed.form,
            "file": file,
            "details": packed.details,
            "summary": packed.summary,
            "shell": words[packed.name] if packed.form in ("frame", "series") and for_shell else "",
        }
        size = len(packed.data)
        await context.recorder.ready_for(packed.summary)
        context.recorder.record(
            VariableCrossed,
            name=packed.name,
            direction="in",
            form=packed.form,
            summary=packed.summary,
            bytes=size,
        )
    if index:
        await exchange.box.files.write(f"{exchange.root}/in/index.json", json.dumps(index).encode())
    if order.request.outputs and for_shell:
        # Programs that only write a file do not make the folder for it.
        await exchange.box.files.write(f"{exchange.out}/.here", b"")
    return replace(exchange, variables=words if for_shell else {})


async def _put(exchange: ExchangeDirectory, packed: PackedVariable, path: str, *, for_shell: bool) -> str:
    """Write one variable; the word by which a shell program knows it."""
    try:
        await exchange.box.files.write(path, packed.data)
        csv = await asyncio.to_thread(csv_of, packed) if for_shell and packed.form in ("frame", "series") else None
        if csv is not None:
            path = path.removesuffix("arrow") + "csv"
            await exchange.box.files.write(path, csv)
    except BoxFileError as error:
        size = readable_size(len(packed.data))
        raise VariableRefused(
            packed.name, f"{packed.name} ({size}) does not fit into the box: {error.message}"
        ) from error
    return shell_word(packed, path) if for_shell else path


@dataclass(frozen=True, slots=True)
class Brought:
    """What came out of a box."""

    outputs: tuple[PackedVariable, ...] = ()  # Variables, still packed
    missing: tuple[tuple[str, str], ...] = ()  # Names of those that did not come, each with the reason


async def collect_outputs(context: RunContext, exchange: ExchangeDirectory) -> Brought:
    """What the run leaves of what was asked for; each name is recorded, also where there is nothing.

    Raises:
        SandboxError: the box is gone, or broke the protocol.
    """
    if not exchange.outputs:
        return Brought()
    if await exchange.had_session():
        # What takes too long is missing, and said to be.
        with contextlib.suppress(SandboxCommandTimeout, SandboxIdleTimeout):
            await context.box.run(replace(await exchange.keeping(), limits=CommandLimits(CONVERT_SECONDS, None)))
    left = await _newest(exchange)
    found: list[PackedVariable] = []
    missing: list[tuple[str, str]] = []
    room = exchange.room
    for name in exchange.outputs:
        try:
            packed = await _take(context, exchange, name, left.get(name), room)
        except CannotCross as why:
            context.recorder.record(VariableCrossed, name=name, direction="out", error=str(why))
            missing.append((name, str(why)))
            continue
        room -= len(packed.data)
        found.append(packed)
        await context.recorder.ready_for(packed.summary)
        context.recorder.record(
            VariableCrossed,
            name=name,
            direction="out",
            form=packed.form,
            summary=packed.summary,
            bytes=len(packed.data),
        )
    return Brought(tuple(found), tuple(missing))


async def _newest(exchange: ExchangeDirectory) -> dict[str, FileStat]:
    """The latest file for each name that was asked for."""
    try:
        entries = await exchange.box.files.list_dir(exchange.out)
    except BoxFileError:
        return {}
    found: dict[str, FileStat] = {}
    for entry in sorted(entries, key=lambda one: (one.modified, one.path)):
        name = entry.path.rpartition("/")[2].partition(".")[0]
        if name in exchange.outputs and entry.kind == "file":
            found[name] = entry
    return found


async def _take(
    context: RunContext, exchange: ExchangeDirectory, name: str, entry: FileStat | None, room: int
) -> PackedVariable:
    if entry is None:
        raise CannotCross("nothing of that name was made")
    try:
        if entry.path.endswith(_TABLES):
            entry = await _converted(context, exchange, name, entry)
        data = await _read(exchange, entry, room + MAX_HEAD)
    except BoxFileError as error:
        raise CannotCross(f"its file cannot be read: {error.message}") from error
    packed = await asyncio.to_thread(_checked, name, entry.path, data, exchange.room)
    if len(packed.data) > room:
        raise too_large(len(packed.data), room)
    if context.membrane.scrubber.holds(data):
        raise CannotCross("it holds a secret that this run has leased, and secrets stay in the box")
    return packed


async def _read(exchange: ExchangeDirectory, entry: FileStat, most: int) -> bytes:
    """A file in pieces, never more than `most` bytes, whatever its size is said to be."""
    if entry.size > most:
        raise too_large(entry.size, exchange.room)
    body = bytearray()
    while True:
        piece = await exchange.box.files.read(entry.path, offset=len(body), limit=PIECE)
        body += piece
        if len(body) > most:
            raise too_large(len(body), exchange.room)
        if len(piece) < PIECE:
            return bytes(body)


async def _converted(context: RunContext, exchange: ExchangeDirectory, name: str, entry: FileStat) -> FileStat:
    """A table file of a format that only the box unpacks, as what crosses."""
    target = f"{exchange.out}/{name}.kagura"
    program = f"{exchange.root}/lib/{BOXED_PACKAGE}/convert.py"
    limits = CommandLimits(CONVERT_SECONDS, None)
    await exchange.lay_out()
    try:
        result = await context.box.run(
            Command(("python3", program, entry.path, target, str(exchange.room)), limits=limits)
        )
    except (SandboxCommandTimeout, SandboxIdleTimeout) as error:
        raise CannotCross("reading its table file took too long") from error
    if not result.ok:
        raise CannotCross("its table file cannot be read in this box, which needs Python with pandas for that")
    return await exchange.box.files.stat(target)


def _checked(name: str, path: str, data: bytes, room: int) -> PackedVariable:
    """What a file holds, after a look that believes nothing.

    Raises:
        CannotCross: it does not hold what it says, or says why there is nothing.
    """
    packed = _from_container(name, data) if path.endswith(".kagura") else _from_file(name, path, data)
    _check(packed, room)
    return packed


def _from_container(name: str, data: bytes) -> PackedVariable:
    end = data.find(b"\n", 0, MAX_HEAD)
    try:
        head = json.loads(data[: max(end, 0)])
        why = head.get("error")
        form, details, summary = (None, {}, "") if why else (head["form"], head["details"], head["summary"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CannotCross(_NOT_UNDERSTOOD) from error
    if why:
        raise CannotCross(_one_line(str(why)))
    if not isinstance(form, str) or form not in _FORMS or not isinstance(details, dict) or not isinstance(summary, str):
        raise CannotCross(_NOT_UNDERSTOOD)
    known: Any = form
    return PackedVariable(name, known, data[end + 1 :], details, _one_line(summary))


def _one_line(text: str) -> str:
    return _CONTROL.sub(" ", text)[:LONGEST_SUMMARY]


def _from_file(name: str, path: str, data: bytes) -> PackedVariable:
    """A file that a shell program has left, by the end of its name."""
    suffix = path.rpartition("/")[2].partition(".")[2].lower()
    size = readable_size(len(data))
    match suffix:
        case "json":
            return PackedVariable(name, "json", data, {}, f"JSON, {size}")
        case "csv":
            return PackedVariable(name, "file", data, {"kind": "csv"}, f"CSV, {size}")
        case "npy":
            return PackedVariable(name, "array", data, {}, f"ndarray, {size}")
        case "png":
            return PackedVariable(name, "image", data, {}, f"PNG, {size}")
        case "txt" | "":
            text = data.decode("utf-8", "replace")
            return PackedVariable(name, "text", text.encode(), {}, f"str, {len(text):,} characters")
        case _:
            return PackedVariable(name, "file", data, {"kind": "bytes"}, f"bytes, {size}")


def _check(packed: PackedVariable, room: int) -> None:
    match packed.form:
        case "frame" | "series":
            _check_frame(packed, room)
        case "array":
            check_array(packed.data)
        case "json":
            plain.decode(packed.data, str)
        case "image":
            check_image("image/png", packed.data)
        case "text":
            try:
                packed.data.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise CannotCross("it is not text in UTF-8") from error
        case "file":
            if packed.details.get("kind") not in ("bytes", "csv"):
                raise CannotCross("it is of no known kind")


def _check_frame(packed: PackedVariable, room: int) -> None:
    if ("labels" in packed.details) != (packed.form == "frame"):
        raise CannotCross("what is told about its columns does not fit them")
    try:
        check_stream(packed.data, packed.details, room)
    except ModuleNotFoundError as error:
        raise CannotCross(missing(packed.form, "pyarrow")) from error
