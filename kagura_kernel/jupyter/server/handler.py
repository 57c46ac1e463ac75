"""What all routes share: who asks, what a refusal looks like, and that an answer is JSON that nobody keeps.

A handler authenticates, authorises, reads what was asked, asks the journal in a thread, and answers; nothing else.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Awaitable, Callable, Mapping
from http.client import responses
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from kagura_kernel.domain.errors import (
    ApprovalAlreadyDecided,
    ApprovalExpired,
    ApprovalUnknown,
    ConfigurationError,
    JournalError,
    JournalMissing,
    KaguraError,
    LeaseEnded,
    PluginError,
    RunOver,
    RunUnknown,
    SessionGone,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryStoreError, MemoryUnknown
from kagura_kernel.jupyter.server.source import JournalSource

if TYPE_CHECKING:
    from kagura_kernel.journal.store import Journal

    Question = Callable[[Journal], dict[str, Any]]

Answer = TypeVar("Answer")

SOURCE = "kagura_kernel_source"
"""The name of the `JournalSource` among the server's settings."""

MEMORY = "kagura_kernel_memory"
"""The name of the `MemorySource` there."""

BODY_BYTES = 65_536
"""More than any decision needs."""

# The first that fits.
_STATUS: tuple[tuple[type[KaguraError], int], ...] = (
    (ApprovalUnknown, 404),
    (RunUnknown, 404),
    (UnknownName, 404),
    (MemoryUnknown, 404),
    (ApprovalAlreadyDecided, 409),
    (RunOver, 409),
    (LeaseEnded, 409),
    (SessionGone, 409),
    (PluginError, 409),
    (ApprovalExpired, 410),
    (UsageError, 400),
    (MemoryInvalid, 400),
    (JournalError, 503),
    (MemoryStoreError, 503),
    (ConfigurationError, 503),
)
_CODES = {
    400: "ERR_USAGE",
    401: "ERR_UNAUTHENTICATED",
    403: "ERR_FORBIDDEN",
    404: "ERR_NOT_FOUND",
    405: "ERR_METHOD",
}
_LOGIN = "Nobody is logged in. Log in, or send the server's token."
_INTERNAL = "Something went wrong in the server; its log says more."
_FIRST_OF_ITS_OWN = 500


class Refusal(web.HTTPError):
    """An answer that says no, with its code and its sentence."""

    def __init__(self, status: int, code: str, sentence: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(status)
        self.code = code  # Stable across releases
        self.sentence = sentence  # What happened and what to do next
        self.more = dict(more or {})  # Further fields of the answer


def refusal(error: KaguraError, more: Mapping[str, Any] | None = None) -> Refusal:
    """The answer that an error of ours becomes."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return Refusal(status, error.code, error.message, more)


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

    def word(self, name: str, default: str = "") -> str:
        """A value of the query; the last one when it is given twice."""
        return self.get_query_argument(name, default)

    def body(self, known: frozenset[str]) -> dict[str, Any]:
        """The object in the request's body; an empty body is an empty one.

        Raises:
            UsageError: it is too long, no JSON, no object, or holds a field that nobody knows.
        """
        raw = self.request.body
        if len(raw) > BODY_BYTES:
            raise UsageError(f"The body has {len(raw)} bytes; at most {BODY_BYTES} are read.")
        try:
            found = json.loads(raw.decode("utf-8")) if raw.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UsageError("The body is no JSON.") from error
        if not isinstance(found, dict):
            raise UsageError("The body is no JSON object.")
        if unknown := sorted(found.keys() - known):
            raise UsageError(f"The body holds {unknown[0][:40]!r}, which is not known here.")
        return found

    async def look(self, question: Callable[[Journal], Answer]) -> Answer:
        """Ask in a thread; raises what the question raises."""
        return await self.source.read(question)

    async def change(self, deed: Callable[[Journal], Answer]) -> Answer:
        """Do something in a thread; raises what the deed raises."""
        return await self.source.write(deed)

    def answer(self, text: str, status: int = 200) -> None:
        """Answer with JSON; a GET whose ETag the asker has is answered without it."""
        self.set_status(status)
        self.finish(text)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A refusal is an answer and no fault; everything else goes to the server's log."""
        if not isinstance(value, Refusal):
            super().log_exception(typ, value, tb)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every refusal is `{"code", "message"}`; what went wrong inside is told to the log alone."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        more: Mapping[str, Any] = {}
        if isinstance(error, Refusal):
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
        self.finish(json.dumps({"code": code, "message": message, **more}))


class ReadingHandler(JournalHandler):
    """Base of the routes that read: GET, and HEAD, which is the same without the body.

    A subclass says which resource it belongs to and makes the question; that both methods stand under authentication
    and authorisation cannot be forgotten.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        """Give the class its two methods."""
        super().__init_subclass__(**more)
        # One pair for each class: `authorized` keeps the resource of the first handler that it meets.
        cls.get, cls.head = _guarded(cls.give), _guarded(cls.give)

    def question(self, *names: str) -> Question:
        """What to ask the journal, from the words of the request; `names` are those of the path.

        Raises:
            UsageError: they cannot be understood.
        """
        raise NotImplementedError

    def nothing(self, *names: str) -> Question:
        """What to ask an empty journal before the first run has made one; raises as `question`."""
        return self.question(*names)

    async def give(self, *names: str) -> None:
        """Ask, and answer with what is found. Before the first run there is nothing, which is no fault."""
        try:
            ask = self.question(*names)
            try:
                # Written out in the thread as well: a long page keeps the server's loop for nobody.
                text = await self.look(lambda journal: as_json(ask(journal)))
            except JournalMissing:
                ask_nothing = self.nothing(*names)
                text = await self.source.read_nothing(lambda journal: as_json(ask_nothing(journal)))
        except KaguraError as error:
            raise refusal(error) from error
        self.answer(text)


class ActingHandler(JournalHandler):
    """Base of the routes that change something, guarded as the reading ones are."""

    method: ClassVar[Literal["post", "delete"]] = "post"  # How it is asked for
    done_status: ClassVar[int] = 202  # What is answered when it was done

    def __init_subclass__(cls, **more: Any) -> None:
        """Give the class its method."""
        super().__init_subclass__(**more)
        setattr(cls, cls.method, _guarded(cls.act))

    def deed(self, name: str, by: str) -> Question:
        """What to do in the journal, from the words of the request.

        Args:
            name: The one that the path names.
            by: The person who asks.

        Raises:
            UsageError: they cannot be understood.
        """
        raise NotImplementedError

    async def refused(self, error: KaguraError) -> Refusal:
        """The answer when it could not be done."""
        return refusal(error)

    async def act(self, name: str) -> None:
        """Do it, and answer with what was done."""
        by = self.who()
        try:
            done = await self.change(self.deed(name, by))
        except KaguraError as error:
            raise await self.refused(error) from error
        self.answer(as_json(done), self.done_status)


def _guarded(answer: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
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
