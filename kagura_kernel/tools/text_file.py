"""Files as text: read, written and edited by tools."""

from __future__ import annotations

import codecs
import contextlib
import posixpath
from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.errors import BoxFileError, UsageError
from kagura_kernel.domain.kit import KIT_DIR, MARKER
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.tools import FileSystem, ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.toolbox import CallContext

SCRATCH = "/tmp"  # noqa: S108 - the box's own, private scratch space


def workspace_path(root: str, path: str) -> str:
    """A path as the box's files take it: relative to the workspace, or absolute below its scratch space.

    Raises:
        BoxFileError: it lies outside of both.
    """
    if "\0" in path:
        raise BoxFileError(path.replace("\0", "\\0"), "EINVAL", "a path cannot hold NUL")
    absolute = posixpath.normpath(posixpath.join(root, path))
    if absolute.startswith("//"):
        absolute = absolute[1:]
    if absolute == root:
        return "."
    if absolute.startswith(root.rstrip("/") + "/"):
        return absolute[len(root.rstrip("/")) + 1 :]
    if absolute == SCRATCH or absolute.startswith(SCRATCH + "/"):
        return absolute
    raise BoxFileError(path, "EACCES", f"lies outside of the workspace; file tools see {root} and {SCRATCH}")


def readable_path(root: str, path: str) -> str:
    """A path as the box's files take it for reading: like `workspace_path`, or absolute in the kit.

    Raises:
        BoxFileError: it lies outside of all three.
    """
    absolute = posixpath.normpath(posixpath.join(root, path)) if "\0" not in path else ""
    if absolute == KIT_DIR or absolute.startswith(KIT_DIR + "/"):
        return absolute
    return workspace_path(root, path)


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text and how it was written."""

    text: str  # Its text; bytes that are not valid stand as lone surrogates and become the same bytes again
    encoding: str = "utf-8"  # How it is written
    mark: bytes = b""  # The byte order mark before it, or nothing

    @property
    def clean(self) -> bool:
        """Whether every byte was valid."""
        return not any("\udc80" <= char <= "\udcff" for char in self.text)

    @property
    def lines(self) -> list[str]:
        """Its lines without their ends, as `cat -n` counts them: a form feed ends none."""
        lines = self.text.split("\n")
        return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]

    @property
    def crlf(self) -> bool:
        """Whether every line ends in CR LF."""
        return "\r\n" in self.text and self.text.count("\r\n") == self.text.count("\n")

    def encoded(self) -> bytes:
        """The bytes of the file."""
        return self.mark + self.text.encode(self.encoding, _errors(self.encoding))


def decode_text(data: bytes) -> TextFile:
    """Text of a file; never fails."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            # Half a character at the end of UTF-16 is an error that no handler mends; it is read as bytes then.
            with contextlib.suppress(UnicodeDecodeError):
                return TextFile(data[len(mark) :].decode(encoding, _errors(encoding)), encoding, mark)
    return TextFile(data.decode("utf-8", "surrogateescape"))


def is_binary(data: bytes) -> bool:
    """Whether the beginning of a file looks like no text."""
    return b"\0" in data[:8192] and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _errors(encoding: str) -> str:
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"


def replace_passage(file: TextFile, old: str, new: str, *, everywhere: bool = False) -> tuple[TextFile, int]:
    """The file with `old` replaced by `new`, and how often.

    In a file whose lines end in CR LF a passage written with LF is found as well, and what comes in gets CR LF.

    Raises:
        UsageError: `old` is not there, is there more than once, equals `new`, or `new` cannot be written in the
            file's encoding.
    """
    if old == new:
        raise UsageError("'old' and 'new' are the same: nothing to change.")
    if not file.clean and not new.isascii():
        raise UsageError("The file is not valid UTF-8, so only plain ASCII can be put in; convert it first.")
    if file.crlf:
        new = _with_crlf(new)
        if old not in file.text:
            old = _with_crlf(old)
    count = file.text.count(old)
    if count == 0:
        raise UsageError(f"'old' does not occur in the file{_nearly(file, old)}. It has to match exactly.")
    if count > 1 and not everywhere:
        lines = _line_numbers(file.text, old)
        raise UsageError(
            f"'old' occurs {count} times (lines {lines}). Add lines around it until it is unique, or set replace_all."
        )
    return replace(file, text=file.text.replace(old, new)), count


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _nearly(file: TextFile, old: str) -> str:
    """What a near miss looks like, so that the next try can be right."""
    flat = " ".join(old.split())
    if flat and flat in " ".join(file.text.split()):
        return " (it does with other blanks or line breaks)"
    first = old.strip().splitlines()[0].strip() if old.strip() else ""
    for number, line in enumerate(file.lines, 1):
        if first and first in line:
            return f" (its first line does, in line {number})"
    return ""


_MOST_NUMBERS = 10


def _line_numbers(text: str, old: str) -> str:
    numbers: list[str] = []
    position = text.find(old)
    while position >= 0 and len(numbers) < _MOST_NUMBERS:
        numbers.append(str(text.count("\n", 0, position) + 1))
        position = text.find(old, position + len(old))
    return ", ".join(numbers) + (", …" if position >= 0 else "")


LARGEST_EDIT = 16 << 20

_MARKED = (
    "[REDACTED:…] stands for a secret that you are not shown; the file holds the secret itself. Leave such lines out "
    "of what you change, and use edit_file for the others."
)


class FileTool:
    """A tool that works with the files of a run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime


class WriteFileTool(FileTool):
    """Writes a whole file."""

    spec = ToolSpec(
        "write_file",
        "Write a text file of the workspace as a whole (UTF-8), replacing what was there; directories above it are "
        "made. To change a part of a file use edit_file.",
        schema.arguments(
            "path",
            "content",
            path=schema.text("Path in the workspace."),
            content=schema.text("All of its text.", empty=True),
        ),
    )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Write it."""
        files, content = self._runtime.files, arguments["content"]
        path = workspace_path(files.root, arguments["path"])
        existed = await _is_there(files, path)
        if existed and MARKER.search(content):
            _keep_secrets(path, content, await files.read(path, limit=LARGEST_EDIT + 1))
        data = content.encode("utf-8")
        await files.write(path, data)
        return ToolResult(f"{'Replaced' if existed else 'Created'} {path}: {len(data)} bytes.")


class EditFileTool(FileTool):
    """Replaces one passage."""

    spec = ToolSpec(
        "edit_file",
        "Replace a passage of a text file of the workspace. 'old' has to match exactly, with blanks and indentation "
        "and without line numbers, and has to occur once; replace_all replaces every occurrence. Encoding and line "
        "ends of the file are kept. Binary files are refused.",
        schema.arguments(
            "path",
            "old",
            "new",
            path=schema.text("Path in the workspace."),
            old=schema.text("The passage as it is."),
            new=schema.text("The passage as it should be.", empty=True),
            replace_all=schema.flag("Replace every occurrence."),
        ),
    )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Read, replace, write."""
        files = self._runtime.files
        path = workspace_path(files.root, arguments["path"])
        data = await files.read(path, limit=LARGEST_EDIT + 1)
        if len(data) > LARGEST_EDIT:
            raise UsageError(f"{path} is larger than {LARGEST_EDIT >> 20} MiB; change it with a program.")
        if is_binary(data):
            raise UsageError(f"{path} is a binary file; change it with a program.")
        everywhere = bool(arguments.get("replace_all"))
        try:
            file, count = replace_passage(decode_text(data), arguments["old"], arguments["new"], everywhere=everywhere)
        except UsageError as error:
            hint = f" {_MARKED}" if MARKER.search(arguments["old"]) else ""
            raise UsageError(f"{path} was not changed: {error.message}{hint}") from None
        await files.write(path, file.encoded())
        return ToolResult(f"Changed {path}: {count} {'passage' if count == 1 else 'passages'}.")


async def _is_there(files: FileSystem, path: str) -> bool:
    """Whether a file is there, or a link that leads to one: what is written goes where that leads."""
    try:
        kind = (await files.stat(path)).kind
        if kind == "link":
            await files.read(path, limit=0)
    except BoxFileError as error:
        if error.reason not in ("ENOENT", "ENOTDIR"):
            raise
        return False
    return kind in ("file", "link")


def _keep_secrets(path: str, content: str, before: bytes) -> None:
    """Refuse to replace a secret by the marker that a reader of the file was shown in its place.

    Raises:
        UsageError: the content holds markers that the file does not.
    """
    there = before.decode("utf-8", "replace")
    if any(found[0] not in there for found in MARKER.finditer(content)):
        raise UsageError(f"{path} was not written: its secrets would be lost. {_MARKED}")
