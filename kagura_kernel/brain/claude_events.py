"""What the SDK's messages mean in our words. Reads messages, acts on nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from claude_agent_sdk import AssistantMessage, Message, ResultMessage, StreamEvent, SystemMessage, TextBlock

from kagura_kernel.brain.claude_auth import SIGN_IN_HINT, STOPPED, usage_of
from kagura_kernel.brain.provider import BrainDone, BrainEvent, BrainSession, BrainSign, BrainText, BrainUsage
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainError, BrainLost, BrainNotConfigured, BrainRefused

NAME = "claude"

# Trying again does not help with these, so the program's own retries are cut short.
_FINAL_STATUSES = {401, 403}

# A cut stream comes with the status of the answer that had begun well.
_FIRST_ERROR = 400

# How the program ends its sentence about a service that no request has reached.
_UNREACHED = re.compile(r"\((E[A-Z_]{4,})\)\W*\Z")
_NO_ADDRESS = "API Error: Invalid URL"

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_RETRIED = {"rate_limit": "too many requests"}


class Reader(Protocol):
    """Makes our events of what a program says."""

    @property
    def busy(self) -> bool:
        """Whether the program uses a tool of its own just now, which may be silent for long."""
        ...

    def read(self, message: Message) -> Iterator[BrainEvent]:
        """The events in one message; `BrainDone` is the last.

        Raises:
            BrainError: the program or its service fails.
        """
        ...


class Reading:
    """The messages of one run, read in their order."""

    def __init__(
        self, offered: Sequence[str] | None, session: str = "", secrets: Sequence[str] = (), *, name: str = NAME
    ) -> None:
        """A run that has said nothing.

        Args:
            offered: Full names of the only tools that the program may offer to the model; None for any.
            session: `Turn.resume` of this run.
            secrets: Texts that must not stand in an error.
            name: The brain's.
        """
        self._name = name
        self._secrets = secrets
        self._offered = None if offered is None else set(offered)
        self._spent_before = split_session(session)[1]
        self._usage = Usage()
        self._turns = 0
        self._model = ""
        self._text = ""
        self._open: dict[str, Any] | None = None  # the message being streamed: its id, model and usage so far
        self._counted: set[str] = set()
        self._cut = False  # the last message broke off, and none has come through since
        self._loose = False  # pieces were given whose whole has not come
        self._hushed = False  # the message is a second try at such pieces, which must not be read twice
        self._refusal = ""  # kind of the program's own error text, such as `authentication_failed`

    @property
    def busy(self) -> bool:
        """Never: on the host the program has no tools of its own."""
        return False

    def read(self, message: Message) -> Iterator[BrainEvent]:
        """The events in one message; `BrainDone` is the last.

        Raises:
            BrainNotConfigured: the program is not signed in.
            BrainRefused: the service said no.
            BrainLost: the program did not do what it was started for.
        """
        match message:
            case SystemMessage():
                yield from self._read_system(message)
            case StreamEvent(parent_tool_use_id=None):
                yield from self._read_stream(message.event)
            case AssistantMessage(parent_tool_use_id=None):
                yield from self._read_assistant(message)
            case ResultMessage():
                yield from self._count_open()
                yield self._read_result(message)
            case _:
                return

    def _read_system(self, message: SystemMessage) -> Iterator[BrainEvent]:
        data = message.data
        if message.subtype == "init":
            strange = set() if self._offered is None else set(data.get("tools") or ()) - self._offered
            if strange:
                raise BrainLost(
                    self._name, f"its program offers tools that are not ours ({', '.join(sorted(strange))})"
                )
            if isinstance(session := data.get("session_id"), str) and session:
                yield BrainSession(join_session(session, self._spent_before))
        elif message.subtype == "api_retry":
            if data.get("error_status") in _FINAL_STATUSES:
                raise refused(data["error_status"], "", self._name)
            yield retry_of(data)

    def _read_stream(self, event: Mapping[str, Any]) -> Iterator[BrainEvent]:
        kind = event.get("type")
        if kind == "message_start":
            yield from self._count_open()
            self._hushed = self._loose
            started = event["message"]
            self._open = {"id": started["id"], "model": started["model"], "usage": dict(started.get("usage") or {})}
        elif kind == "content_block_start" and event["content_block"].get("type") in _THOUGHTS:
            yield BrainSign("thinking")
        elif kind == "content_block_delta" and event["delta"].get("type") == "thinking_delta":
            yield BrainSign("thinking", str(event["delta"].get("thinking") or ""))
        elif kind == "content_block_delta" and event["delta"].get("type") == "text_delta":
            if not self._hushed:
                self._loose = True
                yield BrainText(event["delta"]["text"], partial=True)
        elif kind == "message_delta" and self._open is not None:
            self._open["ended"] = True  # sent once, when the model has said all
            figures = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self._open["usage"].update(figures)
        elif kind == "message_stop":
            yield from self._count_open()

    def _read_assistant(self, message: AssistantMessage) -> Iterator[BrainEvent]:
        if message.error is not None:
            self._refusal = message.error  # its text is the program's, not the model's
            return
        for block in message.content:
            if isinstance(block, TextBlock):
                self._text = block.text
                self._loose = self._hushed = False
                yield BrainText(block.text)
        # A message that was not streamed is counted here, once for all its blocks.
        streamed = self._open is not None and self._open["id"] == message.message_id
        if not streamed:
            self._cut = False
        if not streamed and message.message_id and message.usage:
            yield from self._count(message.message_id, message.model, message.usage)

    def _count_open(self) -> Iterator[BrainEvent]:
        """Count the streamed message, finished or broken off: it was paid for either way."""
        if self._open is not None:
            closed, self._open = self._open, None
            self._cut = "ended" not in closed
            yield from self._count(closed["id"], closed["model"], closed["usage"])

    def _count(self, message_id: str, model: str, figures: Mapping[str, Any]) -> Iterator[BrainEvent]:
        if message_id in self._counted:
            return
        self._counted.add(message_id)
        usage = usage_of(figures)
        self._usage += usage
        self._turns += 1
        self._model = model
        yield BrainUsage(usage, model)

    def _read_result(self, result: ResultMessage) -> BrainDone:
        stopped = STOPPED.get(result.subtype)
        if result.is_error and stopped is None:
            raise self._error(result)
        reported = None
        if result.total_cost_usd is not None:
            # The program counts a resumed session from its beginning; this run is what was added.
            reported = max(0.0, result.total_cost_usd - self._spent_before)
        return BrainDone(
            text=result.result or self._text,
            session=join_session(result.session_id, result.total_cost_usd or 0.0),
            reported_usd=reported,
            usage=self._usage,
            model=self._model,
            turns=self._turns,
            stopped=stopped or "",
        )

    def _error(self, result: ResultMessage) -> BrainError:
        said = without(self._secrets, result.result or "; ".join(result.errors or ()) or result.subtype)
        if result.api_error_status is not None and result.api_error_status >= _FIRST_ERROR:
            return refused(result.api_error_status, said, self._name)
        if missing := self._missing(said):
            return BrainNotConfigured(f"The {self._name} brain {missing}.")
        if self._cut:
            # What the program says then is long, and about its own last try at something else.
            return BrainLost(self._name, "the connection to its service was cut in the middle of an answer")
        if unreached := _UNREACHED.search(said):
            why = f"its service cannot be reached ({unreached[1]}). Look at the network, and at ANTHROPIC_BASE_URL"
            return BrainLost(self._name, f"{why} and HTTPS_PROXY where they are set")
        if self._refusal:
            return BrainRefused(self._name, said)
        return BrainLost(self._name, f"its program gave up ({said})")

    def _missing(self, said: str) -> str:
        """What has to be set up first, as the end of a sentence; empty when nothing has."""
        if self._refusal == "authentication_failed":
            return f"is not signed in: {SIGN_IN_HINT}"
        if _NO_ADDRESS in said:
            return (
                "cannot think: ANTHROPIC_BASE_URL is no address that its program can use. Write all of it, https:// "
                "included, or take it away"
            )
        return ""


def refused(status: int, said: str, name: str = NAME) -> BrainRefused:
    """The service's no, with what to do about it."""
    advice = {
        401: "the key or the sign-in is not accepted (401). Check ANTHROPIC_API_KEY, sign in again "
        "with `claude`, or give another key with `%kagura setup`.",
        403: "this key or account may not do that (403). Ask whoever gave it to you.",
        404: "there is no such model, or this account may not use it (404). Choose another with `--model`.",
        429: "too many requests, or the account's limit is reached (429). Wait a little and run the cell again.",
        529: "the service is overloaded (529). Wait a little and run the cell again.",
    }.get(status)
    return BrainRefused(name, advice or f"the service answered {status}: {said}", status)


def without(secrets: Sequence[str], text: str) -> str:
    """The text with `…` in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, "…") if secret else text
    return text


def join_session(session_id: str, spent_usd: float) -> str:
    """The program's session id and what the session has cost so far, as `BrainDone.session`."""
    return f"{session_id}${spent_usd:.8f}" if session_id else ""


def split_session(session: str) -> tuple[str, float]:
    """The two parts of `join_session`; a plain session id has cost nothing yet.

    Raises:
        BrainRefused: it is no session of this brain.
    """
    session_id, _, spent = session.partition("$")
    with suppress(ValueError):
        if all(letter.isalnum() or letter == "-" for letter in session_id):
            return session_id, float(spent or 0)
    raise BrainRefused(NAME, f"{session!r} is no session of its. Start afresh with `--new`.")


def retry_of(data: Mapping[str, Any]) -> BrainSign:
    """What the program says of a request that it will send again."""

    def number(name: str) -> float:
        value = data.get(name)
        return value if isinstance(value, int | float) else 0

    why = str(data.get("error") or "no answer")
    seconds = number("retry_delay_ms") / 1000
    words = _RETRIED.get(why, why.replace("_", " "))[:60]
    # The attempt that it counts is the one that has failed.
    return BrainSign("retrying", words, int(number("attempt")) + 1, int(number("max_retries")) + 1, seconds)
