"""What all routes share: who asks, and that an answer is JSON that nobody keeps.

A handler authenticates, authorises, reads what was asked, has it answered in a thread, and sends that; nothing else.
"""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from http.client import responses
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from kagura_kernel.domain import errors
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryStoreError, MemoryUnknown
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.jupyter.server.parameters import Words
from kagura_kernel.jupyter.server.source import JournalSource, MemorySource

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal


SOURCE = "kagura_kernel_source"
"""The name of the `JournalSource` among the server's settings."""

MEMORY = "kagura_kernel_memory"
"""The name of the `MemorySource` there."""

BODY_BYTES = 65_536
"""More than any decision needs."""

_CODES = {400: "ERR_USAGE", 401: "ERR_UNAUTHENTICATED", 403: "ERR_FORBIDDEN", 404: "ERR_NOT_FOUND", 405: "ERR_METHOD"}
_LOGIN = "Nobody is logged in. Log in, or send the server's token."
_INTERNAL = "Something went wrong in the server; its log says more."
_FIRST_OF_ITS_OWN = 500


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address, and the function that answers it."""

    method: Literal["GET", "POST", "DELETE"]
    path: str  # Below the base; the names in braces are arguments of the function
    resource: str  # What the server's authorizer is asked about
    # `module:function`, beside this file, which is its operation in OpenAPI; imported when it is first asked for
    function: str
    status: int = 200  # What is answered when it was done
    conflict: str = ""  # Why it may be refused with 409, for OpenAPI

    @property
    def acts(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"

    @property
    def remembers(self) -> bool:
        """Whether it needs the memory, and so runs in a thread of its own."""
        return self.function.startswith("memory:")

    @property
    def needs_journal(self) -> bool:
        """Whether it needs the journal; settings that keep it from being opened can be mended without it."""
        return not self.function.startswith("settings:")


_loaded: dict[Route, tuple[Callable[..., Any], Words]] = {}


def answering(route: Route) -> tuple[Callable[..., Any], Words]:
    """The function of a route, with what it may be asked; its first call imports the database's library."""
    if route not in _loaded:
        module, name = route.function.split(":")
        function = getattr(import_module(f"kagura_kernel.jupyter.server.{module}"), name)
        _loaded[route] = function, Words.of(function)
    return _loaded[route]


def as_json(fields: Mapping[str, Any]) -> str:
    """JSON in ASCII, so that odd bytes of file names survive, and without a NaN, which browsers refuse."""
    return json.dumps(fields, allow_nan=False, separators=(",", ":"))


class JournalHandler(APIHandler):
    """Base of all routes."""

    auth_resource = "kagura"

    @property
    def source(self) -> JournalSource:
        """The journal."""
        source = self.settings[SOURCE]
        assert isinstance(source, JournalSource)  # noqa: S101 - set beside the routes
        return source

    @property
    def memory(self) -> MemorySource:
        """The memory."""
        source = self.settings[MEMORY]
        assert isinstance(source, MemorySource)  # noqa: S101 - set beside the routes
        return source

    @property
    def _track_activity(self) -> bool:  # type: ignore[override]
        # A sidebar that refreshes itself is no person at work, and keeps no idle server alive.
        return self.request.method not in {"GET", "HEAD"}

    def set_default_headers(self) -> None:
        """Nothing of the journal lies in a browser's cache; who keeps an answer asks with its ETag."""
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def who(self) -> str:
        """The name of the person who asks, for the record.

        A server with one token for its one user calls everybody Anonymous; that one user is who runs it.
        """
        user = self.current_user
        name = str(user.name or user.username)
        if name.startswith("Anonymous ") or not name:
            return _login_name()
        return name

    def body(self, known: Collection[str]) -> dict[str, Any]:
        """The object in the request's body; an empty body is an empty one.

        Raises:
            UsageError: it is too long, no JSON, no object, or holds a field that nobody knows.
        """
        raw = self.request.body
        if len(raw) > BODY_BYTES:
            raise errors.UsageError(f"The body has {len(raw)} bytes; at most {BODY_BYTES} are read.")
        try:
            found = json.loads(raw.decode("utf-8")) if raw.strip() else {}
        except (ValueError, RecursionError) as error:
            raise errors.UsageError("The body is no JSON.") from error
        if not isinstance(found, dict):
            raise errors.UsageError("The body is no JSON object.")
        if unknown := sorted(found.keys() - set(known)):
            raise errors.UsageError(f"The body holds {unknown[0][:40]!r}, which is not known here.")
        return found

    async def serve(self, route: Route, names: Mapping[str, str]) -> None:
        """Answer one route; before the first run there is nothing to look at, which is no fault."""
        if route not in _loaded:
            await asyncio.get_running_loop().run_in_executor(None, answering, route)
        function, words = answering(route)
        try:
            if route.acts:
                given = self.body(words.known if route.method == "POST" else ())
            if route.method != "POST":
                asked = words.known.keys() & self.request.query_arguments.keys()
                given = {name: self.get_query_argument(name) for name in asked}
            told = {**names, **words.read(given)}
            if route.acts:
                told |= {"by": self.who(), "contents": self.memory.contents}

            def answer(**parts: Any) -> str:
                # Written out in the thread as well: a long page keeps the server's loop for nobody.
                return as_json(function(**{name: part for name, part in (parts | told).items() if name in words.taken}))

            text = await self._ask(route, answer)
        except errors.KaguraError as error:
            raise refusal(error) from error
        self.set_status(route.status)
        self.finish(text)

    async def _ask(self, route: Route, answer: Callable[..., str]) -> str:
        def with_memory(journal: Journal) -> str:
            return self.memory.ask(lambda store: answer(journal=journal, store=store))

        if not route.needs_journal:
            environ = self.source.environ
            return await asyncio.get_running_loop().run_in_executor(None, lambda: answer(environ=environ))
        try:
            if route.remembers:
                return await self.memory.within(with_memory)
            ask = self.source.write if route.acts else self.source.read
            return await ask(lambda journal: answer(journal=journal))
        except errors.JournalMissing:
            if route.acts:
                raise
            return await self.source.read_nothing(lambda journal: answer(journal=journal, store=None))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A refusal is an answer and no fault; everything else goes to the server's log."""
        if not isinstance(value, Refused):
            super().log_exception(typ, value, tb)

    def _methods(self) -> list[str]:
        """The methods that this address takes."""
        return [
            method
            for method in self.SUPPORTED_METHODS
            if getattr(type(self), method.lower()) is not getattr(web.RequestHandler, method.lower())
        ]

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every refusal is `{"code", "message"}`; what went wrong inside is told to the log alone."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        more: Mapping[str, Any] = {}
        if isinstance(error, Refused):
            code, message, more = error.code, error.sentence, error.more
        elif status_code >= _FIRST_OF_ITS_OWN:
            code, message = "ERR_INTERNAL", _INTERNAL
        elif status_code in {401, 403} and not getattr(self, "_jupyter_current_user", None):
            code, message = "ERR_UNAUTHENTICATED", _LOGIN
        else:
            code = _CODES.get(status_code, f"ERR_HTTP_{status_code}")
            said = error.log_message if isinstance(error, web.HTTPError) else None
            message = f"{(said or responses.get(status_code, 'It was refused')).rstrip('.')}."
        self.clear_header("ETag")
        if status_code == 405:  # noqa: PLR2004 - wants its `Allow` (RFC 9110, 15.5.6)
            self.set_header("Allow", ", ".join(self._methods()))
        self.finish(json.dumps({"code": code, "message": message, **more}))


def handler(path: str, routes: Collection[Route]) -> type[JournalHandler]:
    """The handler of one address; none of its methods can be forgotten to be authenticated and authorised."""
    named = [part[1:-1] for part in path.split("/") if part.startswith("{")]

    def method(route: Route) -> Callable[..., Any]:
        return guarded(lambda self, *names: self.serve(route, dict(zip(named, names, strict=True))))

    methods = {route.method.lower(): method(route) for route in routes}
    if "get" in methods:
        # One for each method: `authorized` keeps the resource of the first handler that it meets.
        methods["head"] = method(next(route for route in routes if route.method == "GET"))
    (resource,) = {route.resource for route in routes}
    return type("RouteHandler", (JournalHandler,), {"auth_resource": resource, **methods})


def guarded(answer: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    """A method of a handler for those alone whom the server knows, and its authorizer lets."""

    @web.authenticated
    @authorized
    async def method(self: JournalHandler, *names: str) -> None:
        await answer(self, *names)

    return method


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # No name for this user id, as in many containers.
        return "user"


# The first that fits.
_STATUS: tuple[tuple[type[errors.KaguraError], int], ...] = (
    (errors.ApprovalUnknown, 404),
    (errors.RunUnknown, 404),
    (errors.UnknownName, 404),
    (MemoryUnknown, 404),
    (errors.ApprovalAlreadyDecided, 409),
    (errors.RunOver, 409),
    (errors.NotHeard, 409),
    (errors.LeaseEnded, 409),
    (errors.SettingsChanged, 409),
    (errors.SessionGone, 409),
    (errors.PluginError, 409),
    (errors.ApprovalExpired, 410),
    (errors.UsageError, 400),
    (MemoryInvalid, 400),
    (errors.JournalError, 503),
    (MemoryStoreError, 503),
    (errors.ConfigurationError, 503),
    (errors.RedactionUnavailable, 503),
)


class Refused(web.HTTPError):
    """An answer that says no."""

    def __init__(self, status: int, code: str, sentence: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(status)
        self.code = code  # Stable across releases
        self.sentence = sentence  # What happened and what to do next
        self.more = dict(more or {})  # Further fields of the answer


def refusal(error: errors.KaguraError, more: Mapping[str, Any] | None = None) -> Refused:
    """The answer that an error of ours becomes."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return Refused(status, error.code, error.message, more)
