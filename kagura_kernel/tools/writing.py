"""Changing files: `write_file`, `edit_file`. Both change the copy-on-write workspace, never the project itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.errors import BoxFileError, UsageError
from kagura_kernel.domain.kit import MARKER
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.editing import replace_passage
from kagura_kernel.tools.paths import workspace_path
from kagura_kernel.tools.text_file import decode_text, is_binary
from kagura_kernel.tools.toolbox import CallContext

LARGEST_EDIT = 16 << 20

_MARKED = (
    "[REDACTED:…] stands for a secret that you are not shown; the file holds the secret itself. Leave such lines out "
    "of what you change, and use edit_file for the others."
)


class WriteFileTool:
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

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:  # noqa: ARG002 - a tool's shape
        """Write it."""
        files = self._runtime.files
        path = workspace_path(files.root, arguments["path"])
        data = arguments["content"].encode("utf-8")
        try:
            existed = (await files.stat(path)).kind == "file"
        except BoxFileError as error:
            if error.reason not in ("ENOENT", "ENOTDIR"):
                raise
            existed = False
        if existed and MARKER.search(arguments["content"]):
            _keep_secrets(path, arguments["content"], await files.read(path, limit=LARGEST_EDIT + 1))
        await files.write(path, data)
        return ToolResult(f"{'Replaced' if existed else 'Created'} {path}: {len(data)} bytes.")


class EditFileTool:
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

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

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


def _keep_secrets(path: str, content: str, before: bytes) -> None:
    """Refuse to replace a secret by the marker that a reader of the file was shown in its place.

    Raises:
        UsageError: the content holds markers that the file does not.
    """
    there = before.decode("utf-8", "replace")
    if any(found[0] not in there for found in MARKER.finditer(content)):
        raise UsageError(f"{path} was not written: its secrets would be lost. {_MARKED}")
