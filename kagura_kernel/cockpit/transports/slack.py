"""Slack by way of Bolt, over Socket Mode: a connection that goes out, so that no address of ours has to be public."""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kagura_kernel.cockpit.transports.transport import (
    GO_ON,
    LET_IN,
    Clicked,
    Hear,
    Heard,
    Post,
    PostRefused,
    Said,
    SentFile,
    TransportError,
    TransportRefused,
    connected,
)
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.visible import printed
from kagura_kernel.membrane.credentials.secret import Secret

if TYPE_CHECKING:
    from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
    from slack_bolt.async_app import AsyncApp


_STYLES = {"good": "primary", "bad": "danger"}


def escaped(text: str) -> str:
    """For Slack's own markup: then nothing in it is a mention or a link."""
    return printed(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def blocks(post: Post) -> list[dict[str, Any]]:
    """Blocks of plain text: in none of them a mention, a link or a format is looked for."""
    shown: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "plain_text", "text": printed(post.ours)[:2900] or " ", "emoji": False}}
    ]
    if post.mark:
        shown[0]["block_id"] = post.mark
    if post.theirs:
        quoted = {"type": "rich_text_quote", "elements": [{"type": "text", "text": printed(post.theirs)}]}
        shown.append({"type": "rich_text", "elements": [quoted]})
    if post.buttons:
        shown.append({"type": "actions", "elements": [_button(number, post) for number in range(len(post.buttons))]})
    return shown


def _button(number: int, post: Post) -> dict[str, Any]:
    button = post.buttons[number]
    shown: dict[str, Any] = {
        "type": "button",
        "action_id": f"kagura-{number}",
        "text": {"type": "plain_text", "text": printed(button.label)[:75] or "…", "emoji": False},
        "value": button.action,
    }
    return shown | ({"style": _STYLES[button.look]} if button.look in _STYLES else {})


ASIDE = "/"
"""In the place of a thread's stamp: what follows is a person, and nobody else sees what is said there."""

FOREIGN = "it comes from another workspace"

_STAMP = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
_LINK = re.compile(r"<((?:https?|mailto|tel):[^<>|]+)(?:\|([^<>]*))?>")
# What Slack puts before words of its own accord; `https://` it never does.
_ADDED = re.compile(r"(?:http://|mailto:|tel:)")

AFile = Callable[[Mapping[str, Any]], SentFile]
"""A file as Slack describes it, to one that can be read."""


@dataclass(frozen=True, slots=True)
class Us:
    """Who we are, as Slack says of our token."""

    team: str = ""  # The workspace that the app is installed in
    user: str = ""  # What mentions of us name


def heard_in(body: Mapping[str, Any], us: Us, file: AFile) -> Heard | None:
    """What one delivery says; what comes from another workspace is barred, for there ids may mean other people."""
    match body.get("type"):
        case "event_callback":
            return _said(body, us, file)
        case "block_actions":
            return _clicked(body, us)
        case _:
            return _ordered(body, us) if body.get("command") else None


def place_of(thread: str) -> tuple[str, str]:
    """The channel of a thread, and the stamp of its first message."""
    channel, _, ts = thread.partition(":")
    return channel, ts


def order_of(ts: str) -> int:
    """A stamp as a number, in millionths of a second; 0 for what is none."""
    return int(ts.replace(".", "")) if _STAMP.fullmatch(ts) else 0


def _barred(us: Us, team: object, *persons: object) -> str:
    """Why this is not heard: Slack always says in which workspace it was, and in shared channels whose a person is."""
    foreign = any(one != us.team for one in (team, *persons) if one is not None)
    return "" if us.team and team is not None and not foreign else FOREIGN


def _said(body: Mapping[str, Any], us: Us, file: AFile) -> Said | None:
    event: Mapping[str, Any] = body.get("event") or {}
    is_ours = event.get("type") == "app_mention" or event.get("channel_type") == "im"
    is_plain = event.get("subtype") in (None, "file_share", "thread_broadcast")
    # What was changed later is nothing that is said now: a mention may be put into words of long ago.
    is_said = is_plain and not event.get("edited")
    if not (is_ours and is_said) or event.get("bot_id") or not event.get("user"):
        return None
    channel, ts = str(event["channel"]), str(event["ts"])
    # A mention and the message that it stands in are two events of the same thing.
    return Said(
        f"{channel}:{ts}",
        f"{channel}:{event.get('thread_ts') or ts}",
        str(event["user"]),
        _written(str(event.get("text") or ""), us),
        tuple(file(one) for one in event.get("files") or ()),
        order=order_of(ts),
        barred=_barred(us, body.get("team_id"), *(event.get(fact) for fact in ("team", "user_team", "source_team"))),
    )


def _written(text: str, us: Us) -> str:
    """What was written, as it was: without Slack's links and escapes, and without a mention of us."""
    # Many blanks are looked at once, and not from each of them.
    mention = rf"(?:(?<![ \t])[ \t]+)?<@{re.escape(us.user)}(?:\|[^<>]*)?>[:,]?[ \t]*"
    return html.unescape(_LINK.sub(_link, re.sub(mention, " ", text) if us.user else text)).strip()


def _link(found: re.Match[str]) -> str:
    address, label = found[1], found[2]
    if not label or label == address:
        return address
    if label == _ADDED.sub("", address, count=1):
        return label
    return address if label == address.removeprefix("https://") else f"{label} ({address})"


def _ordered(body: Mapping[str, Any], us: Us) -> Said | None:
    """A slash command. It stands in no thread, for Slack takes none in threads."""
    channel, user, trigger = body.get("channel_id"), body.get("user_id"), body.get("trigger_id")
    if not channel or not user or not trigger:
        return None
    text = _written(str(body.get("text") or ""), us)
    barred = _barred(us, body.get("team_id"))
    return Said(f"command:{trigger}", f"{channel}:{ASIDE}{user}", str(user), text, in_thread=False, barred=barred)


def _clicked(body: Mapping[str, Any], us: Us) -> Clicked | None:
    actions: Sequence[Mapping[str, Any]] = body.get("actions") or ()
    message: Mapping[str, Any] = body.get("message") or {}
    channel = (body.get("channel") or {}).get("id")
    person: Mapping[str, Any] = body.get("user") or {}
    user = person.get("id")
    if not actions or not channel or not user or not body.get("trigger_id"):
        return None
    ts = str(message.get("ts") or "")
    return Clicked(
        str(body["trigger_id"]),
        f"{channel}:{message.get('thread_ts') or ts}",
        str(user),
        str(actions[0].get("value") or actions[0].get("action_id") or ""),
        ts,
        barred=_barred(us, (body.get("team") or {}).get("id"), person.get("team_id")),
    )


FOR_GOOD = frozenset(
    {
        "account_inactive",
        "app_uninstalled",
        "invalid_auth",
        "not_authed",
        "team_access_not_granted",
        "token_expired",
        "token_revoked",
    }
)
# What it says of one call that needs another right; where we sign in, there is nothing without that call.
_NO_RIGHT = frozenset({"missing_scope", "not_allowed_token_type"})
# What passes: everything else that it says of a post will be said of it again.
PASSES = frozenset(
    {"accesslimited", "fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable"}
)
_NO = "it says no"


def word_of(response: Any) -> str:
    """What the service says is wrong, `not_in_channel` or the like; from a broken service anything may come."""
    data = getattr(response, "data", response)
    word = data.get("error") if isinstance(data, Mapping) else None
    return word if isinstance(word, str) and re.fullmatch(r"[a-z_]{1,60}", word) else _NO


def kind_of(what: str, word: str) -> type[TransportError]:
    """What an answer with this word means, to what it was asked to do."""
    if word in FOR_GOOD or (what == LET_IN and word in _NO_RIGHT):
        return TransportRefused
    return TransportError if what == LET_IN or word in PASSES or word == _NO else PostRefused


API = "https://slack.com/api/"
FILES = "https://files.slack.com/"
_HOOKS = "hooks.slack.com"

# The library tells of every request at lower levels; what matters comes to us as an error.
_log = logging.getLogger(__name__)
_WELL = 200
_PAGES, _PAGE = 5, 200
_MOST_WAYS = 100

CHECK_SECONDS = 60.0
"""Between two questions whether our token is still one: a connection outlives it, and nobody tells us."""


@dataclass(frozen=True, slots=True)
class SlackTokens:
    """What we sign in with; neither is ever shown."""

    bot: Secret  # `xoxb-…`, the app's own in one workspace
    app: Secret  # `xapp-…`, for the connection


class SlackTransport:
    """One Slack workspace. A thread is `CHANNEL:TS`, where TS is that of its first message.

    In a direct message everything is for us; in a channel only what mentions us.

    Args:
        tokens: What we sign in with.
        api: Where the service is.
        files: Where files of its users are; the token is sent nowhere else.
    """

    name = "slack"
    limit = 2900

    def __init__(self, tokens: SlackTokens, *, api: str = API, files: str = FILES) -> None:
        self._tokens = tokens
        self._api = api
        self._files = files
        self._app: AsyncApp | None = None
        self._handler: AsyncSocketModeHandler | None = None
        # They let anybody answer for half an hour, so they are kept nowhere else.
        self._ways_back: dict[str, str] = {}
        self._us = Us()
        self._refusal: asyncio.Future[TransportRefused] | None = None

    async def open(self, hear: Hear) -> None:
        """Sign in and connect."""
        from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
        from slack_bolt.async_app import AsyncApp
        from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
        from slack_sdk.web.async_client import AsyncWebClient

        _log.setLevel(logging.ERROR)
        token = self._tokens.bot.reveal()
        # Its own handler for broken connections would say a second time what may be out already.
        client = AsyncWebClient(
            token=token,
            base_url=self._api,
            logger=_log,
            retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=2)],
        )
        app = AsyncApp(client=client, logger=_log, raise_error_for_unhandled_request=False)

        async def take(body: dict[str, Any], next_: Callable[[], Awaitable[Any]]) -> None:
            # Before the acknowledgement: what Slack does not deliver again has been kept.
            if (heard := self._heard(body)) is not None:
                await hear(heard)
            await next_()

        async def acknowledge(ack: Callable[[], Awaitable[Any]]) -> None:
            await ack()

        app.use(take)
        app.event(re.compile(r".*"))(acknowledge)
        app.action(re.compile(r".*", re.DOTALL))(acknowledge)
        app.command(re.compile(r".*"))(acknowledge)
        self._app = app
        self._handler = AsyncSocketModeHandler(app, self._tokens.app.reveal(), logger=_log)
        self._refusal = refusal = asyncio.get_running_loop().create_future()
        self._mind_reconnects(self._handler.client, refusal)

        async def connect() -> None:
            found = await client.auth_test()
            self._us = Us(str(found.get("team_id") or ""), str(found.get("user_id") or ""))
            if self._handler is not None:
                await self._unless_refused(self._handler.client.connect(), refusal)

        await connected(self.name, self._try(LET_IN, connect), self.close)

    async def ended(self) -> None:
        """Wait until one of our tokens is taken no more: asked now and then, and seen when it connects again."""
        refusal = self._refusal
        if refusal is None:
            raise TransportError(self.name, GO_ON, "the connection is not open")
        while not refusal.done():
            if (await asyncio.wait({refusal}, timeout=CHECK_SECONDS))[0]:
                break
            try:
                await self._try(GO_ON, self._client().auth_test)
            except TransportRefused:
                raise
            except TransportError:
                # It is away, which passes.
                continue
        raise refusal.result()

    async def _unless_refused(
        self, connect: Coroutine[Any, Any, None], refusal: asyncio.Future[TransportRefused]
    ) -> None:
        connecting = asyncio.ensure_future(connect)
        ends: set[asyncio.Future[Any]] = {connecting, refusal}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if refusal.done():
                raise TransportRefused(self.name, LET_IN, refusal.result().why)
            await connecting
        finally:
            connecting.cancel()

    def _mind_reconnects(self, client: Any, refusal: asyncio.Future[TransportRefused]) -> None:
        """The library asks for ever for a new connection, whatever it is told."""
        issue = client.issue_new_wss_url

        async def issue_minded() -> Any:
            from slack_sdk.errors import SlackApiError

            try:
                return await issue()
            except SlackApiError as error:
                if (word := word_of(error.response)) in FOR_GOOD | _NO_RIGHT and not refusal.done():
                    refusal.set_result(TransportRefused(self.name, GO_ON, word))
                raise

        client.issue_new_wss_url = issue_minded

    async def post(self, thread: str, post: Post) -> str:
        """Say something."""
        channel, ts = place_of(thread)
        if ts.startswith(ASIDE):
            return await self._say_aside(channel, ts.removeprefix(ASIDE), post)
        if post.may_be_out and (found := await self._found(channel, ts, post.mark)):
            return found
        client = self._client()
        answer = await self._try(
            "take a post",
            lambda: client.chat_postMessage(
                channel=channel,
                thread_ts=ts,
                text=escaped(post.ours),
                blocks=blocks(post),
                mrkdwn=False,
                parse="none",
                link_names=False,
                unfurl_links=False,
                unfurl_media=False,
            ),
        )
        return str(answer["ts"])

    async def _found(self, channel: str, ts: str, mark: str) -> str:
        """The name of a post that bears this mark; empty for none, and where we may not read."""
        from slack_sdk.errors import SlackApiError

        client, cursor = self._client(), None

        async def read() -> Any:
            try:
                return await client.conversations_replies(channel=channel, ts=ts, limit=_PAGE, cursor=cursor)
            except SlackApiError as error:
                if word_of(error.response) in PASSES:
                    raise
                return {}

        for _ in range(_PAGES):
            page = await self._try("show what was posted", read)
            for message in page.get("messages") or ():
                if any(block.get("block_id") == mark for block in message.get("blocks") or ()):
                    return str(message["ts"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return ""

    async def _say_aside(self, channel: str, user: str, post: Post) -> str:
        """Answer a slash command, so that only who gave it sees it; such an answer cannot be edited."""
        from slack_sdk.webhook.async_client import AsyncWebhookClient

        shown: dict[str, Any] = {"text": escaped(post.ours), "blocks": blocks(post)}
        if url := self._ways_back.pop(f"{channel}:{ASIDE}{user}", ""):
            way = AsyncWebhookClient(url, logger=_log)
            sent = await self._try("take an answer", lambda: way.send(**shown, response_type="ephemeral"))
            if sent.status_code == _WELL:
                return ASIDE
        client = self._client()
        answer = await self._try(
            "take an answer", lambda: client.chat_postEphemeral(channel=channel, user=user, **shown)
        )
        return str(answer["message_ts"])

    def order(self, post_id: str) -> int:
        """By Slack's stamps, which name messages and posts alike."""
        return order_of(post_id)

    async def edit(self, thread: str, post_id: str, post: Post) -> None:
        """Put something in the place of what was said."""
        channel, _ = place_of(thread)
        client = self._client()
        await self._try(
            "take an edit",
            lambda: client.chat_update(
                channel=channel,
                ts=post_id,
                text=escaped(post.ours),
                blocks=blocks(post),
                parse="none",
                link_names=False,
            ),
        )

    async def upload(self, thread: str, name: str, content: bytes) -> None:
        """Put a file into the thread."""
        channel, ts = place_of(thread)
        client = self._client()
        await self._try(
            "take a file",
            lambda: client.files_upload_v2(channel=channel, thread_ts=ts, filename=name, title=name, content=content),
        )

    async def close(self) -> None:
        """Disconnect."""
        handler, self._handler = self._handler, None
        if handler is not None:
            # What is gone already needs no good-bye.
            with contextlib.suppress(Exception):
                await handler.client.close()

    def _client(self) -> Any:
        if self._app is None or self._handler is None:
            raise TransportError(self.name, "take anything", "the connection is not open")
        return self._app.client

    async def _try(self, what: str, work: Callable[[], Awaitable[Any]]) -> Any:
        import aiohttp
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            return await work()
        except SlackApiError as error:
            # The answer's own word alone: the text of the error holds what was sent.
            word = word_of(error.response)
            raise kind_of(what, word)(self.name, what, word) from None
        except (SlackClientError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(self.name, what, f"it cannot be reached ({type(error).__name__})") from None

    def _heard(self, body: Mapping[str, Any]) -> Heard | None:
        heard = heard_in(body, self._us, self._file)
        if isinstance(heard, Said) and not heard.in_thread:
            way = urlsplit(str(body.get("response_url") or ""))
            if way.netloc == urlsplit(self._api).netloc or (way.scheme == "https" and way.hostname == _HOOKS):
                self._ways_back[heard.thread] = way.geturl()
                # Those of people who are not heard are never used.
                while len(self._ways_back) > _MOST_WAYS:
                    del self._ways_back[next(iter(self._ways_back))]
        return heard

    def _file(self, file: Mapping[str, Any]) -> SentFile:
        url = str(file.get("url_private_download") or file.get("url_private") or "")

        async def read(limit: int) -> bytes:
            return await self._try("hand out a file", lambda: self._read(url, limit))  # type: ignore[no-any-return]

        return SentFile(str(file.get("name") or "file"), int(file.get("size") or 0), read)

    async def _read(self, url: str, limit: int) -> bytes:
        import aiohttp

        if not url.startswith(self._files):
            raise TransportError(self.name, "hand out a file", "it lies outside of Slack")
        headers = {"Authorization": f"Bearer {self._tokens.bot.reveal()}"}
        # Not followed: the token must not go along to wherever that leads.
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != _WELL:
                raise TransportError(self.name, "hand out a file", f"it answers {answer.status}")
            data = bytearray()
            async for part in answer.content.iter_chunked(65536):
                data += part
                if len(data) >= limit:
                    break
            return bytes(data[:limit])
