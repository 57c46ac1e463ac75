"""The API of a brain that thinks in its box: a loopback URL there, the key added here, every answer counted here.

The box has a placeholder where the program insists on a key; the URL is an `Endpoint` like a lease's. What an answer
cost is read from the service's own words (`usage`), and the key is covered in whatever comes back.

A box may use the Messages API to think, and for nothing that would be a way out past its proxy. The service can fetch
pages, search, run code and speak to MCP servers by itself, and reads files of the account. Each of these would carry
the box's words to places that nobody was asked about, so a request that wants one is refused before a byte of it is
sent. Requests are read strictly: what could be read in two ways is refused too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.events import ModelCalled
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.membrane.credentials.injection.caller import BadRequest, InjectedRequest, InjectionLimits, Summing
from kagura_kernel.membrane.credentials.injection.endpoint import Endpoint
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection
from kagura_kernel.membrane.credentials.injection.upstream import GateFor, Headers
from kagura_kernel.membrane.credentials.lease import Budget, Lease
from kagura_kernel.membrane.credentials.provider import Scope
from kagura_kernel.membrane.credentials.secret import Credential, Secret
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.membrane.model_usage import Counted, UsageReader
from kagura_kernel.sandbox.backend import Box, Failed, Listener

MESSAGES = b"/v1/messages"
COUNT = b"/v1/messages/count_tokens"

LONGEST = 32 * 2**20
"""Bytes of one request; the service takes no more either."""

_LOOKS = frozenset({(b"HEAD", b"/"), (b"GET", b"/v1/models")})
_QUERIES = frozenset({b"", b"beta=true"})

# A header that is not here stays in the box: another account's key, say, with which the box's words could be sent to
# somebody who is not the person that runs it.
_HEADERS = frozenset(
    (
        b"accept accept-language anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version "
        b"content-length content-type transfer-encoding user-agent x-app x-claude-code-session-id"
    ).split()
)
_HEADER_BEGINNINGS = (b"x-stainless-",)

# What a request may ask to be read in another way; the header loses every other name, so a newer program still runs.
# Nothing here makes the service reach out, run code, or read the files of an account.
_KNOWN = """
    advanced-tool-use-2025-11-20 cache-keepalive-2026-09-03 claude-code-20250219 computer-use-2025-01-24
    computer-use-2025-11-24 context-1m-2025-08-07 context-management-2025-06-27 effort-2025-11-24
    extended-cache-ttl-2025-04-11 fine-grained-tool-streaming-2025-05-14 inline-tools-2026-09-15
    interleaved-thinking-2025-05-14 mid-conversation-system-2026-04-07 mid-conversation-system-clear-at-2026-08-21
    mid-conversation-tool-changes-2026-07-01 oauth-2025-04-20 per-turn-control-2026-07-01
    prompt-caching-evict-2026-05-12 prompt-caching-scope-2026-01-05 redact-thinking-2026-02-12
    structured-outputs-2025-11-13 structured-outputs-2025-12-15 task-budgets-2026-03-13
    thinking-binding-controls-2026-08-01 thinking-display-updates-2026-08-18 thinking-resumption-2026-07-17
    thinking-token-count-2026-05-13 timing-2026-09-09 token-counting-2024-11-01 tool-search-tool-2025-10-19
"""
_BETAS = frozenset(_KNOWN.split())

_REMOTE = ("mcp_servers", "container")
_ADVICE = "use a tool in the box, where its egress is decided"


def check_head(method: bytes, target: bytes) -> None:
    """Refuse what is not the API that a brain thinks with.

    Raises:
        BadRequest: another path, method or query.
    """
    path, _, query = target.partition(b"?")
    known = (method == b"POST" and path in (MESSAGES, COUNT)) or (method, path) in _LOOKS
    if not known or query not in _QUERIES:
        shown = b"%b %b" % (method[:10], target[:80])
        raise BadRequest(404, f"{shown.decode('ascii', 'replace')} is no part of what a sealed brain uses.")


def kept_headers(headers: Headers) -> Headers:
    """Those of a request's headers that may leave the box, and of its betas those that are known."""
    kept = [(name, value) for name, value in headers if name in _HEADERS or name.startswith(_HEADER_BEGINNINGS)]
    told = [(name, _known_betas(value) if name == b"anthropic-beta" else value) for name, value in kept]
    return [(name, value) for name, value in told if value or name != b"anthropic-beta"]


def _known_betas(value: bytes) -> bytes:
    named = (name.strip() for name in value.split(b","))
    return b",".join(name for name in named if name.decode("ascii", "replace") in _BETAS)


def check_body(body: bytes) -> str:
    """Refuse what would make the service reach out; the model that is asked for.

    Raises:
        BadRequest: it is no JSON object, says a thing twice, or wants what is the service's own.
    """
    try:
        asked = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise BadRequest(400, "The request is no JSON, or says a thing twice.") from None
    if not isinstance(asked, dict) or not isinstance(model := asked.get("model"), str):
        raise BadRequest(400, "The request names no model.")
    for name in _REMOTE:
        if asked.get(name):
            raise BadRequest(400, f"`{name}` makes the service itself reach out: {_ADVICE}.")
    if asked.get("speed") not in (None, "standard"):
        raise BadRequest(400, "`speed` has a price that no budget knows: leave it out.")
    _REQUEST({name: value for name, value in asked.items() if name not in _REMOTE}, "")
    return model


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name twice")
    return found


# ------------------------------------------------------------ the shape of a request
#
# Whatever the service learns to do for a name or a sort that is not here, somebody has to look at first.

_Rule = Callable[[Any, str], None]
"""Refuses a value at a place of a request."""


def _wrong(where: str, why: str = "is no part of what a sealed brain asks for") -> BadRequest:
    return BadRequest(400, f"`{where[:120]}` {why}: {_ADVICE}.")


def _free(_value: Any, _where: str) -> None:
    """What a model calls a tool with, and what a tool's arguments look like, may say anything."""


def _plain(value: Any, where: str) -> None:
    """A text, a number, or a list of such."""
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict | list) for part in value)):
        raise _wrong(where)


def _keys(plain: str = "", /, **rules: _Rule) -> _Rule:
    """An object with no other names than these: the plain ones, and those with a rule."""
    known = dict.fromkeys(plain.split(), _plain) | rules

    def check(value: Any, where: str) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            raise _wrong(where)
        for name, part in value.items():
            at = f"{where}.{name[:60]}" if where else name[:60]
            if name not in known:
                raise _wrong(at)
            known[name](part, at)

    return check


def _sorts(known: Mapping[str, _Rule], usual: str | None = None) -> _Rule:
    """An object whose `type` is one of these."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where)
        sort = value.get("type")
        sort = usual if sort is None else sort
        if not isinstance(sort, str) or sort not in known:
            raise _wrong(where, f"is of the sort {str(sort)[:60]!r}, which is the service's own or not known")
        known[sort](value, where)

    return check


def _each(rule: _Rule, *, or_text: bool = False) -> _Rule:
    """A list of these; where it says so, or a text."""

    def check(value: Any, where: str) -> None:
        if value is None or (or_text and isinstance(value, str)):
            return
        if not isinstance(value, list):
            raise _wrong(where)
        for number, part in enumerate(value):
            rule(part, f"{where}[{number}]")

    return check


def _either(text: _Rule, inner: _Rule) -> _Rule:
    return lambda value, where: (inner if isinstance(value, dict) else text)(value, where)


_CACHE = _keys("type ttl scope evict_on_complete")
_AMOUNT = _keys("type value")
_FORMAT = _keys("type name", schema=_free)

# Sorts of tools that the program carries out itself, in the box; every other sort is the service's own.
_TOOL = _sorts(
    dict.fromkeys(
        (
            "custom",
            *("bash_20241022", "bash_20250124"),
            *("text_editor_20241022", "text_editor_20250124", "text_editor_20250429", "text_editor_20250728"),
            *("computer_20241022", "computer_20250124", "computer_20251124"),
            "memory_20250818",
        ),
        _keys(
            "type name description defer_loading eager_input_streaming strict max_characters"
            " display_width_px display_height_px display_number enable_zoom",
            cache_control=_CACHE,
            input_schema=_free,
            input_examples=_free,
        ),
    ),
    usual="custom",
)
_NAMED_TOOL = _sorts(
    {"tool_reference": _keys("type name tool_name"), "tool_definition": _keys("type", definition=_TOOL)}
)

# Where a text says that it has something from: words alone, which nobody fetches.
_CITATION = _keys(
    "type cited_text document_index document_title start_char_index end_char_index start_page_number end_page_number"
    " start_block_index end_block_index search_result_index source title"
)
_TEXT: dict[str, _Rule] = {
    "text": _keys("type text", cache_control=_CACHE, citations=_either(_each(_CITATION), _keys("enabled")))
}

# Where what a message shows comes from: the request itself.
_DATA = _keys("type media_type data")
_IMAGE: dict[str, _Rule] = {
    "image": _keys("type", source=_sorts({"base64": _DATA}), cache_control=_CACHE),
}
_SHOWN: dict[str, _Rule] = {
    **_TEXT,
    **_IMAGE,
    "document": _keys(
        "type title context",
        source=_sorts(
            {
                "base64": _DATA,
                "text": _DATA,
                "content": _keys("type", content=_each(_sorts({**_TEXT, **_IMAGE}), or_text=True)),
            }
        ),
        citations=_keys("enabled"),
        cache_control=_CACHE,
    ),
    "search_result": _keys(
        "type source title", content=_each(_sorts(_TEXT)), citations=_keys("enabled"), cache_control=_CACHE
    ),
    "tool_reference": _keys("type tool_name", cache_control=_CACHE),
}
_BLOCK = _sorts(
    {
        **_SHOWN,
        "thinking": _keys("type thinking signature"),
        "redacted_thinking": _keys("type data"),
        "tool_use": _keys("type id name", input=_free, caller=_sorts({"direct": _keys("type")}), cache_control=_CACHE),
        "tool_result": _keys(
            "type tool_use_id is_error", content=_each(_sorts(_SHOWN), or_text=True), cache_control=_CACHE
        ),
        "tool_addition": _keys("type", tool=_NAMED_TOOL, cache_control=_CACHE),
        "tool_removal": _keys("type", tool=_NAMED_TOOL, cache_control=_CACHE),
    }
)

_OUTPUT = _keys("effort", format=_FORMAT, task_budget=_keys("type total remaining"), timing=_keys("type now"))
_EDITS: dict[str, _Rule] = {
    "clear_thinking_20251015": _keys("type", keep=_either(_plain, _AMOUNT)),
    "clear_tool_uses_20250919": _keys(
        "type exclude_tools clear_tool_inputs", trigger=_AMOUNT, keep=_AMOUNT, clear_at_least=_AMOUNT
    ),
}
_REQUEST = _keys(
    "model max_tokens stream temperature top_p top_k stop_sequences speed",
    messages=_each(_keys("role clear_at", content=_each(_BLOCK, or_text=True), output_config=_OUTPUT)),
    system=_each(_sorts(_TEXT), or_text=True),
    metadata=_keys("user_id"),
    tools=_each(_TOOL),
    tool_choice=_keys("type name disable_parallel_tool_use"),
    thinking=_keys("type budget_tokens display", block_binding=_keys("prefix_mismatch_behavior")),
    cache_control=_CACHE,
    context_management=_keys(edits=_each(_sorts(_EDITS))),
    output_config=_OUTPUT,
    output_format=_FORMAT,
)


MOST_AT_ONCE = 8
"""Answers that may be under way at once: so many may pass a budget before anybody knows what they cost."""

_LIMITS = InjectionLimits(connections=64, bytes_out=LONGEST + 2**20, idle=600.0)
_NAME = "model"
_IN_A_THREAD = 64 * 1024
_FINE = range(200, 300)


@dataclass(frozen=True, slots=True)
class ModelApi:
    """Where a brain thinks."""

    url: str  # Base URL of the service
    header: str  # The header that carries the key: `x-api-key`, or `authorization` for a token
    key: Secret = field(repr=False)  # What is added to each request

    @property
    def injection(self) -> HeaderInjection:
        """How the key is added.

        Raises:
            BrainNotConfigured: a key must not be sent to such a URL.
        """
        try:
            return HeaderInjection(upstream=self.url, header=self.header)
        except ValidationError as error:
            why = "; ".join(detail["msg"].removeprefix("Value error, ") for detail in error.errors(include_input=False))
            message = f"A sealed brain cannot use the base URL that is set: {why}. Correct ANTHROPIC_BASE_URL."
            raise BrainNotConfigured(message) from None


@dataclass(frozen=True, slots=True)
class Counting:
    """Who keeps the books of what a model is asked."""

    # Told of each answer of the service as soon as it is over; None where it told of no tokens
    counted: Callable[[Counted | None], None]
    refused: Callable[[], str] = lambda: ""  # Why nothing more may be asked, a sentence; empty while something may
    # Why a model may not be asked, a sentence; empty where it may
    refused_model: Callable[[str], str] = lambda _model: ""


@dataclass(eq=False, repr=False)
class ModelAccess:
    """The API of one run; belongs to the loop of its box."""

    api: ModelApi  # Where it is, and the key
    gate_for: GateFor  # Makes the gate of the upstream from a policy that grants only it
    record: RecordFact  # Where every request is written down
    counting: Counting  # Keeps the books
    _: KW_ONLY
    clock: Clock  # Measures requests

    def __post_init__(self) -> None:
        self.under_way = 0  # Answers that were asked for and have not ended
        self._calls = Summing(self._called)
        credential = Credential({"token": self.api.key})
        self._endpoint = Endpoint(
            self.api.injection,
            lambda _lease_id: credential,
            self.gate_for,
            self._calls.add,
            limits=_LIMITS,
            clock=self.clock,
            watch=lambda: _Request(self),
        )

    @property
    def url(self) -> str:
        """The base URL in the box, without a slash at its end."""
        return self._endpoint.base

    async def open(self, box: Box, failed: Failed) -> None:
        """Let programs in the box ask.

        Raises:
            SandboxUnavailable: there is no port to be had, or the box is gone.
        """
        self._endpoint.port = await box.listen(Listener(0, "raw", _NAME), self._endpoint.serve, failed)
        # The key is the person's own, is not minted, and has no end.
        self._endpoint.open(Lease(_NAME, Scope("messages"), Budget(), id=_NAME))

    async def close(self) -> None:
        """From now on nothing is asked; what is under way is cut. May be called twice.

        Raises:
            JournalError: not every request could be written down.
        """
        try:
            await self._endpoint.close()
        finally:
            self._calls.end()

    def _called(self, request: InjectedRequest, times: int) -> None:
        self.record(ModelCalled, times=times, **request.facts())


class _Request:
    """Looks into one request, and counts its answer where that costs something."""

    longest = LONGEST

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._counting = access.counting
        self._reader: UsageReader | None = None
        self._asks = False
        self._posts = False

    def admit(self, method: bytes, target: bytes) -> None:
        """Only the API's own paths, and only while something may be asked."""
        check_head(method, target)
        self._posts = method == b"POST"
        if target.partition(b"?")[0] != MESSAGES:
            return
        if why := self._counting.refused():
            raise BadRequest(400, why)
        if self._access.under_way >= MOST_AT_ONCE:
            raise BadRequest(429, f"{MOST_AT_ONCE} answers are under way already: wait for one of them.")
        self._access.under_way += 1
        self._asks = True

    def headers(self, headers: Headers) -> Headers:
        """Those that are known."""
        return kept_headers(headers)

    async def body(self, body: bytes) -> None:
        """Only what the service answers without reaching out, of a model of which somebody could say what it costs."""
        if not self._posts:
            if body:
                raise BadRequest(400, "Such a request has no body.")
            return
        long = len(body) > _IN_A_THREAD
        model = await asyncio.to_thread(check_body, body) if long else check_body(body)
        if why := self._counting.refused_model(model):
            raise BadRequest(400, why)

    def answer(self, status: int) -> None:
        """Count what costs something."""
        if self._asks and status in _FINE:
            self._reader = UsageReader()

    def heard(self, piece: bytes) -> None:
        """A piece of it."""
        if self._reader is not None:
            self._reader.feed(piece)

    def heard_all(self) -> None:
        """Tell the books."""
        if self._reader is not None:
            self._counting.counted(self._reader.finish())

    def ended(self) -> None:
        """Make room for the next."""
        if self._asks:
            self._asks = False
            self._access.under_way -= 1
