"""One language server of a run: begun, shown the files that are asked about as they are, and asked."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import BoxFileError, ToolsetError
from kagura_kernel.tools.lsp.places import path_of, uri_of
from kagura_kernel.tools.toolsets.client import Client
from kagura_kernel.tools.toolsets.cutting import Breach, Headed
from kagura_kernel.tools.toolsets.peer import Failed, Unanswered
from kagura_kernel.tools.toolsets.server import Server, Speech
from kagura_kernel.tools.toolsets.words import word

if TYPE_CHECKING:
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.sandbox.backend import Box
    from kagura_kernel.tools.toolsets.limits import ToolsetLimits

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


class LspClient(Client):
    """A server and the files that it has been shown.

    Args:
        name: The toolset's.
        box: The run's.
        start: What the bridge is told.
        languages: A language's id to the patterns of its files' names.
        over: Told once when it is over, why, half a sentence; also when it was closed.
        clock: The time.
        limits: On all of it.

    Attributes:
        root: Of the workspace, in the box.
    """

    def __init__(
        self,
        name: str,
        box: Box,
        start: Mapping[str, Any],
        languages: Mapping[str, Sequence[str]],
        *,
        over: Callable[[str], None],
        clock: Clock,
        limits: ToolsetLimits,
    ) -> None:
        speech = Speech(Headed(limits.message_bytes), self._told, self._asked, _give_up, _proof)
        super().__init__(Server(name, box, start, speech, over=over, clock=clock, limits=limits))
        self.root = box.files.root
        self._folders = [{"uri": uri_of(self.root), "name": "workspace"}]
        self._box = box
        self._languages = languages
        self._clock = clock
        self._can: Mapping[str, Any] = {}
        self._open: dict[str, _Open] = {}
        self._published = asyncio.Event()
        self._turn = asyncio.Lock()

    def can(self, what: str) -> bool:
        """Whether it says that it does this, by its word for it: `hoverProvider`."""
        return self._can.get(what) not in (None, False)

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """The answer to a question about one file, which the server sees as it is now.

        Args:
            method: In the protocol's words.
            path: In the box, absolute.
            more: What goes with it.

        Raises:
            ToolsetError: it is gone, too busy, cannot do this, or did not answer in time.
            BoxFileError: the file cannot be read.
        """
        await self.show(path)
        try:
            return await self._server.call(method, {"textDocument": {"uri": uri_of(path)}, **more})
        except Failed as error:
            raise ToolsetError(self.name, f"answered with an error ({error.code}): {error}") from error

    async def diagnostics(self, path: str) -> list[Any] | None:
        """What the server says is wrong in a file as it is now; None when it does not say in time.

        Raises:
            ToolsetError: it is gone, or too busy.
            BoxFileError: the file cannot be read.
        """
        if self.can("diagnosticProvider"):
            answer = await self.ask("textDocument/diagnostic", path)
            items = answer.get("items", []) if isinstance(answer, dict) else None
            return self.require(lambda: _list(items))
        await self.show(path)
        deadline = asyncio.ensure_future(self._clock.sleep(DIAGNOSTIC_SECONDS))
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
        """Let the server see a file, and all others that it has open, as they are now: the file's text.

        Raises:
            ToolsetError: it is gone, or is not for such files.
            BoxFileError: the file cannot be read.
        """
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
        answer = await self._server.ask("initialize", hello, self._limits.start_seconds)
        match answer:
            case {"capabilities": dict() as capabilities}:
                self._can = capabilities
            case _:
                raise Breach("its first answer is no beginning")
        info = answer.get("serverInfo")
        if isinstance(info, dict):
            self.server = " ".join(word(info[key]) for key in ("name", "version") if info.get(key))
        await self._server.notify("initialized", {})

    def _language(self, path: str) -> str:
        name = posixpath.basename(path)
        for language, patterns in self._languages.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                return language
        known = ", ".join(pattern for patterns in self._languages.values() for pattern in patterns)
        raise ToolsetError(self.name, f"is not for {name}", f"It is for {known}.")

    async def _text(self, path: str) -> str:
        data = await self._box.files.read(path, limit=MAX_FILE + 1)
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
            await self._server.notify("textDocument/didOpen", {"textDocument": document})
            return
        changed = self._open[path] = _Open(text, known.version + 1)
        document = {"uri": uri, "version": changed.version}
        await self._server.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )
        # Some check a file only when it was saved.
        await self._server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    async def _forget(self, path: str) -> None:
        if self._open.pop(path, None) is not None:
            await self._server.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

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


def _list(items: Any) -> list[Any]:
    if isinstance(items, list):
        return items
    raise Breach("its diagnostics are none")


async def _give_up(server: Server, number: int) -> None:
    await server.notify("$/cancelRequest", {"id": number})


async def _proof(_server: Server) -> bool:
    """The protocol has no sign of life: one that lets a call run out is gone."""
    return False
