"""One language server of a run: begun, shown the files that are asked about as they are, and asked.

A brain counts lines and columns from 1 and characters as Python does; a server counts from 0, and columns in halves of
UTF-16.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from kagura_kernel.domain.errors import BoxFileError, ToolsetError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.tools.toolsets.foreign_tools import Breach, Headed, word
from kagura_kernel.tools.toolsets.server import Client, Failed, Unanswered

_WORD = re.compile(r"\w+")
_LONGEST_LINE = 300


class NoSuchPlace(ValueError):
    """A place that the file does not have; the text says so in words for a brain."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is."""

    path: str  # In the box, absolute; of what is no file, its URI
    line: int  # From 0
    column: int  # From 0, in halves of UTF-16


def uri_of(path: str) -> str:
    """A path in the box as a URI."""
    return "file://" + quote(path)


def path_of(uri: Any) -> str:
    """The path that a server's URI names; the URI itself where it is no file's, as some are of what lies in archives.

    Raises:
        Breach: it is no text.
    """
    if not isinstance(uri, str):
        raise Breach("it named a place that is none")
    try:
        parts = urlsplit(uri)
    except ValueError:
        return word(uri)
    if parts.scheme == "file" and parts.path.startswith("/"):
        return posixpath.normpath(unquote(parts.path))
    return word(uri)


def place_of(said: Any) -> Place:
    """A `Location` or a `LocationLink`.

    Raises:
        Breach: it is neither.
    """
    match said:
        case {"uri": uri, "range": {"start": {"line": int() as line, "character": int() as column}}}:
            return Place(path_of(uri), max(0, line), max(0, column))
        case {
            "targetUri": uri,
            "targetSelectionRange": {"start": {"line": int() as line, "character": int() as column}},
        }:
            return Place(path_of(uri), max(0, line), max(0, column))
    raise Breach("it answered with a place that is none")


def position(text: str, line: int, symbol: str, column: int | None) -> dict[str, int]:
    """The position that a brain means, in a server's words.

    Line and column count from 1; without a column the symbol on that line is meant, and without both its first word.

    Raises:
        NoSuchPlace: the file has no such line, or the line no such text.
    """
    lines = text.split("\n")
    if line > len(lines):
        raise NoSuchPlace(f"the file has {len(lines)} lines; there is no line {line}")
    row = lines[line - 1].rstrip("\r")
    if column is not None:
        at = min(column - 1, len(row))
    elif symbol:
        found = re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", row)
        at = found.start() if found else row.find(symbol)
        if at < 0:
            raise NoSuchPlace(f"there is no {symbol!r} on line {line}, which is: {shortened(row)}")
        # Of a dotted name the last part is meant.
        at += symbol.rfind(".") + 1
    else:
        first = _WORD.search(row)
        at = first.start() if first else 0
    return {"line": line - 1, "character": len(row[:at].encode("utf-16-le", "surrogatepass")) // 2}


def shown_place(place: Place, root: str, lines: list[str] | None) -> str:
    """`path:line:column: the line`, as a brain counts; paths of the workspace without its root."""
    path = place.path.removeprefix(root.rstrip("/") + "/")
    row = lines[place.line] if lines is not None and place.line < len(lines) else ""
    column = len(row.encode("utf-16-le", "surrogatepass")[: place.column * 2].decode("utf-16-le", "ignore"))
    if lines is None:
        column = place.column
    told = f"{path}:{place.line + 1}:{column + 1}"
    return f"{told}: {shortened(row)}" if row.strip() else told


def shortened(row: str) -> str:
    """A line without its indentation, at most so long."""
    row = row.strip()
    return row if len(row) <= _LONGEST_LINE else f"{row[: _LONGEST_LINE - 1]}…"


MAX_FILE = 2 * 2**20
MAX_OPEN = 16
DIAGNOSTIC_SECONDS = 10.0
"""How long a server that publishes diagnostics by itself may take for those of one file."""

_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {"workspaceFolders": True, "configuration": True},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "definition": {"linkSupport": True},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
    },
}


@dataclass
class _Open:
    """A file that the server was shown."""

    text: str
    version: int
    diagnostics: list[Any] | None = None


@dataclass(eq=False, repr=False)
class LspClient(Client):
    """A server and the files that it has been shown.

    Whatever asks it raises `ToolsetError` when it is gone, too busy, not for such files, cannot do this, or did not
    answer in time, and `BoxFileError` when the file cannot be read.
    """

    cutter = Headed

    languages: Mapping[str, Sequence[str]]  # A language's id to the patterns of its files' names

    def __post_init__(self) -> None:
        super().__post_init__()
        self.root = self.box.files.root  # Of the workspace, in the box
        self._folders = [{"uri": uri_of(self.root), "name": "workspace"}]
        self._can: Mapping[str, Any] = {}
        self._open: dict[str, _Open] = {}
        self._published = asyncio.Event()
        self._turn = asyncio.Lock()

    def can(self, what: str) -> bool:
        """Whether it says that it does this, by its word for it: `hoverProvider`."""
        return self._can.get(what) not in (None, False)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """The answer to a question about one file, which the server sees as it is now."""
        await self.show(path)
        try:
            return await self._call(method, {"textDocument": {"uri": uri_of(path)}, **more})
        except Failed as error:
            raise ToolsetError(self.name, f"answered with an error ({error.code}): {error}") from error

    async def diagnostics(self, path: str) -> list[Any] | None:
        """What the server says is wrong in a file as it is now; None when it does not say in time."""
        if self.can("diagnosticProvider"):
            answer = await self.ask("textDocument/diagnostic", path)
            items = answer.get("items", []) if isinstance(answer, dict) else None
            if not isinstance(items, list):
                raise self._cut_off(Breach("its diagnostics are none"))
            return items
        await self.show(path)
        deadline = asyncio.ensure_future(self.clock.sleep(DIAGNOSTIC_SECONDS))
        try:
            while (shown := self._open.get(path)) is not None and shown.diagnostics is None:
                if self.ending or deadline.done():
                    return None
                self._published.clear()
                published = asyncio.ensure_future(self._published.wait())
                await asyncio.wait({published, deadline}, return_when=asyncio.FIRST_COMPLETED)
                published.cancel()
            return shown.diagnostics if shown is not None else None
        finally:
            deadline.cancel()

    async def show(self, path: str) -> str:
        """Let the server see a file, and all others that it has open, as they are now: the file's text."""
        language = self._language(path)
        async with self._turn:
            for known in list(self._open):
                if known != path:
                    await self._refresh(known)
            text = await self._text(path)
            await self._give(path, text, language)
            return text

    async def lines(self, path: str) -> list[str] | None:
        """The lines of any file in the box; None when it cannot be read, or is none."""
        if not path.startswith("/"):
            return None
        try:
            return (await self._text(path)).split("\n")
        except (BoxFileError, ToolsetError):
            return None

    # ------------------------------------------------------------------ within

    async def _get_ready(self) -> None:
        hello = {
            "processId": None,
            "clientInfo": {"name": "kagura-kernel"},
            "rootUri": uri_of(self.root),
            "rootPath": self.root,
            "workspaceFolders": self._folders,
            "capabilities": _CAPABILITIES,
        }
        answer = await self._request("initialize", hello, self.limits.start_seconds)
        match answer:
            case {"capabilities": dict() as capabilities}:
                self._can = capabilities
            case _:
                raise Breach("its first answer is no beginning")
        info = answer.get("serverInfo")
        if isinstance(info, dict):
            self.server = " ".join(word(info[key]) for key in ("name", "version") if info.get(key))
        await self._notify("initialized", {})

    def _language(self, path: str) -> str:
        name = posixpath.basename(path)
        for language, patterns in self.languages.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return language
        known = ", ".join(pattern for patterns in self.languages.values() for pattern in patterns)
        raise ToolsetError(self.name, f"is not for {name}", f"It is for {known}.")

    async def _text(self, path: str) -> str:
        data = await self.box.files.read(path, limit=MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ToolsetError(self.name, f"is not shown {path}: it is larger than {MAX_FILE // 2**20} MiB")
        return data.decode("utf-8", "replace")

    async def _refresh(self, path: str) -> None:
        try:
            text = await self._text(path)
        except (BoxFileError, ToolsetError):
            await self._forget(path)
        else:
            await self._give(path, text, self._language(path))

    async def _give(self, path: str, text: str, language: str) -> None:
        known = self._open.get(path)
        if known is not None and known.text == text:
            return
        uri = uri_of(path)
        if known is None:
            if len(self._open) >= MAX_OPEN:
                await self._forget(next(iter(self._open)))
            self._open[path] = _Open(text, 1)
            document = {"uri": uri, "languageId": language, "version": 1, "text": text}
            await self._notify("textDocument/didOpen", {"textDocument": document})
            return
        changed = self._open[path] = _Open(text, known.version + 1)
        document = {"uri": uri, "version": changed.version}
        await self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        # Some check a file only when it was saved.
        await self._notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    async def _forget(self, path: str) -> None:
        if self._open.pop(path, None) is not None:
            await self._notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def _told(self, method: str, params: Any) -> None:
        if method != "textDocument/publishDiagnostics":
            return
        match params:
            case {"uri": uri, "diagnostics": list() as items}:
                shown = self._open.get(path_of(uri))
                # Those of an earlier version say nothing of the file as it is.
                if shown is not None and params.get("version") in (None, shown.version):
                    shown.diagnostics = items
                    self._published.set()
            case _:
                raise Breach("its diagnostics are none")

    async def _give_up(self, number: int) -> None:
        await self._notify("$/cancelRequest", {"id": number})

    async def _is_alive(self) -> bool:
        # The protocol has no sign of life: one that lets a call run out is gone.
        return False

    def _asked(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, dict) else None
                return [None] * min(len(items), 1000) if isinstance(items, list) else []
            case "workspace/workspaceFolders":
                return self._folders
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "Nothing is edited by language servers here."}
            case (
                "client/registerCapability"
                | "client/unregisterCapability"
                | "window/workDoneProgress/create"
                | "window/showMessageRequest"
            ):
                return None
        raise Unanswered("This is not offered.")
