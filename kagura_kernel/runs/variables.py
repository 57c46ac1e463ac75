"""A run's variables: into the box before anything runs, out of it at the end, each recorded once in each direction."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, replace
from typing import Any, get_args

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import BoxFileError, SandboxCommandTimeout, SandboxIdleTimeout, VariableRefused
from kagura_kernel.domain.events import VariableCrossed
from kagura_kernel.domain.files import FileStat
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.domain.variables import Form, PackedVariable
from kagura_kernel.runs.checks.array import check_array
from kagura_kernel.runs.checks.image import check_image
from kagura_kernel.runs.inbox import plain
from kagura_kernel.runs.inbox.crossing import MAX_HEAD, CannotCross, readable_size, too_large
from kagura_kernel.runs.shell_variables import csv_of, shell_word
from kagura_kernel.runs.stage import Stage
from kagura_kernel.runs.tray import BOXED_PACKAGE, Tray

PIECE = 32 * 2**20
LONGEST_SUMMARY = 500
CONVERT_SECONDS = 60.0
_SUFFIXES = {"frame": "arrow", "series": "arrow", "array": "npy", "json": "json", "image": "png", "text": "txt"}
_TABLES = (".parquet", ".arrow", ".feather")
_FORMS: frozenset[str] = frozenset(get_args(Form))
_NOT_UNDERSTOOD = "what came out of the box under its name cannot be understood"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


async def lay_tray(stage: Stage, *, for_shell: bool) -> Tray:
    """The run's tray with its variables in it.

    Args:
        stage: The run.
        for_shell: Whether shell programs are to find them as well.

    Raises:
        VariableRefused: the box has no room for one.
    """
    order = stage.order
    names = tuple(one.name for one in order.inputs)
    # What the settings say about drawing stands.
    backend = "" if "MPLBACKEND" in order.spec.env else "Agg"
    tray = Tray(stage.box, names, order.outputs, order.room, backend=backend)
    index: dict[str, Any] = {}
    words: dict[str, str] = {}
    await tray.lay_out()
    for packed in order.inputs:
        file = f"{packed.name}.{_SUFFIXES.get(packed.form, 'bin')}"
        words[packed.name] = await _put(tray, packed, f"{tray.root}/in/{file}", for_shell=for_shell)
        index[packed.name] = {
            "form": packed.form,
            "file": file,
            "details": packed.details,
            "summary": packed.summary,
            "shell": words[packed.name] if packed.form in ("frame", "series") and for_shell else "",
        }
        size = len(packed.data)
        stage.recorder.record(
            VariableCrossed,
            name=packed.name,
            direction="in",
            form=packed.form,
            summary=packed.summary,
            bytes=size,
        )
    if index:
        await tray.box.files.write(f"{tray.root}/in/index.json", json.dumps(index).encode())
    if order.outputs and for_shell:
        # Programs that only write a file do not make the folder for it.
        await tray.box.files.write(f"{tray.out}/.here", b"")
    return replace(tray, variables=words if for_shell else {})


async def _put(tray: Tray, packed: PackedVariable, path: str, *, for_shell: bool) -> str:
    """Write one variable; the word by which a shell program knows it."""
    try:
        await tray.box.files.write(path, packed.data)
        csv = await asyncio.to_thread(csv_of, packed) if for_shell and packed.form in ("frame", "series") else None
        if csv is not None:
            path = path.removesuffix("arrow") + "csv"
            await tray.box.files.write(path, csv)
    except BoxFileError as error:
        size = readable_size(len(packed.data))
        raise VariableRefused(
            packed.name, f"{packed.name} ({size}) does not fit into the box: {error.message}"
        ) from error
    return shell_word(packed, path) if for_shell else path


@dataclass(frozen=True, slots=True)
class Brought:
    """What came out of a box.

    Attributes:
        outputs: Variables, still packed.
        missing: Names of those that did not come, each with the reason.
    """

    outputs: tuple[PackedVariable, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


async def collect_outputs(stage: Stage, tray: Tray) -> Brought:
    """What the run leaves of what was asked for; each name is recorded, also where there is nothing.

    Raises:
        SandboxError: the box is gone, or broke the protocol.
    """
    if not tray.outputs:
        return Brought()
    left = await _newest(tray)
    found: list[PackedVariable] = []
    missing: list[tuple[str, str]] = []
    room = tray.room
    for name in tray.outputs:
        try:
            packed = await _take(stage, tray, name, left.get(name), room)
        except CannotCross as why:
            stage.recorder.record(VariableCrossed, name=name, direction="out", error=str(why))
            missing.append((name, str(why)))
            continue
        room -= len(packed.data)
        found.append(packed)
        stage.recorder.record(
            VariableCrossed,
            name=name,
            direction="out",
            form=packed.form,
            summary=packed.summary,
            bytes=len(packed.data),
        )
    return Brought(tuple(found), tuple(missing))


async def _newest(tray: Tray) -> dict[str, FileStat]:
    """The latest file for each name that was asked for."""
    try:
        entries = await tray.box.files.list_dir(tray.out)
    except BoxFileError:
        return {}
    found: dict[str, FileStat] = {}
    for entry in sorted(entries, key=lambda one: (one.modified, one.path)):
        name = entry.path.rpartition("/")[2].partition(".")[0]
        if name in tray.outputs and entry.kind == "file":
            found[name] = entry
    return found


async def _take(stage: Stage, tray: Tray, name: str, entry: FileStat | None, room: int) -> PackedVariable:
    if entry is None:
        raise CannotCross("nothing of that name was made")
    try:
        if entry.path.endswith(_TABLES):
            entry = await _converted(stage, tray, name, entry)
        data = await _read(tray, entry, room + MAX_HEAD)
    except BoxFileError as error:
        raise CannotCross(f"its file cannot be read: {error.message}") from error
    packed = await asyncio.to_thread(_checked, name, entry.path, data, tray.room)
    if len(packed.data) > room:
        raise too_large(len(packed.data), room)
    if stage.membrane.scrubber.holds(data):
        raise CannotCross("it holds a secret that this run has leased, and secrets stay in the box")
    return packed


async def _read(tray: Tray, entry: FileStat, most: int) -> bytes:
    """A file in pieces, never more than `most` bytes, whatever its size is said to be."""
    if entry.size > most:
        raise too_large(entry.size, tray.room)
    body = bytearray()
    while True:
        piece = await tray.box.files.read(entry.path, offset=len(body), limit=PIECE)
        body += piece
        if len(body) > most:
            raise too_large(len(body), tray.room)
        if len(piece) < PIECE:
            return bytes(body)


async def _converted(stage: Stage, tray: Tray, name: str, entry: FileStat) -> FileStat:
    """A table file of a format that only the box unpacks, as what crosses."""
    target = f"{tray.out}/{name}.kagura"
    program = f"{tray.root}/lib/{BOXED_PACKAGE}/converting.py"
    limits = CommandLimits(CONVERT_SECONDS, None)
    try:
        result = await stage.box.run(Command(("python3", program, entry.path, target, str(tray.room)), limits=limits))
    except (SandboxCommandTimeout, SandboxIdleTimeout) as error:
        raise CannotCross("reading its table file took too long") from error
    if not result.ok:
        raise CannotCross("its table file cannot be read in this box, which needs Python with pandas for that")
    return await tray.box.files.stat(target)


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
            from kagura_kernel.runs.checks.arrow import check_stream

            if ("labels" in packed.details) != (packed.form == "frame"):
                raise CannotCross("what is told about its columns does not fit them")
            check_stream(packed.data, packed.details, room)
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
