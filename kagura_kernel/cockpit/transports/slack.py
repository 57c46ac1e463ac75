"""Slack by way of Bolt, over Socket Mode: a connection that goes out, so that no address of ours has to be public."""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.transports.plain import visible
from kagura_kernel.cockpit.transports.transport import Clicked, Hear, Heard, Post, Said, SentFile, TransportError
from kagura_kernel.membrane.credentials.secret import Secret

if TYPE_CHECKING:
    from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
    from slack_bolt.async_app import AsyncApp

API = "https://slack.com/api/"
FILES = "https://files.slack.com/"
CONNECT_SECONDS = 30.0

# The library tells of every request at lower levels; what matters comes to us as an error.
_log = logging.getLogger(__name__)
_MENTION = re.compile(r"\s*<@[UW][A-Z0-9]+(?:\|[^>]*)?>[:,]?\s*")
_LINK = re.compile(r"<((?:https?|mailto):[^>|]+)(?:\|[^>]*)?>")
_STYLES = {"good": "primary", "bad": "danger"}


@dataclass(frozen=True, slots=True)
class SlackTokens:
    """What we sign in with; neither is ever shown.

    Attributes:
        bot: `xoxb-…`, the app's own in one workspace.
        app: `xapp-…`, for the connection.
    """

    bot: Secret
    app: Secret


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

    async def open(self, hear: Hear) -> None:
        """Sign in and connect."""
        from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
        from slack_bolt.async_app import AsyncApp
        from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
        from slack_sdk.web.async_client import AsyncWebClient

        _log.setLevel(logging.ERROR)
        token = self._tokens.bot.reveal()
        client = AsyncWebClient(token=token, base_url=self._api, logger=_log)
        client.retry_handlers.append(AsyncRateLimitErrorRetryHandler(max_retry_count=2))
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
        self._app = app
        self._handler = AsyncSocketModeHandler(app, self._tokens.app.reveal(), logger=_log)

        async def connect() -> None:
            await client.auth_test()
            if self._handler is not None:
                await self._handler.client.connect()

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._try("let us in", connect)
        except TimeoutError:
            await self.close()
            raise TransportError(self.name, "let us in", f"no answer within {CONNECT_SECONDS:g} s") from None
        except BaseException:
            await self.close()
            raise

    async def post(self, thread: str, post: Post) -> str:
        """Say something."""
        channel, ts = _place(thread)
        client = self._client()
        answer = await self._try(
            "take a post",
            lambda: client.chat_postMessage(
                channel=channel,
                thread_ts=ts,
                text=_escaped(post.ours),
                blocks=_blocks(post),
                mrkdwn=False,
                parse="none",
                link_names=False,
                unfurl_links=False,
                unfurl_media=False,
            ),
        )
        return str(answer["ts"])

    async def edit(self, thread: str, post_id: str, post: Post) -> None:
        """Put something in the place of what was said."""
        channel, _ = _place(thread)
        client = self._client()
        await self._try(
            "take an edit",
            lambda: client.chat_update(
                channel=channel,
                ts=post_id,
                text=_escaped(post.ours),
                blocks=_blocks(post),
                parse="none",
                link_names=False,
            ),
        )

    async def upload(self, thread: str, name: str, content: bytes) -> None:
        """Put a file into the thread."""
        channel, ts = _place(thread)
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
            raise TransportError(self.name, what, _word(error.response)) from None
        except (SlackClientError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise TransportError(self.name, what, f"it cannot be reached ({type(error).__name__})") from None

    # ------------------------------------------------------------ what is heard

    def _heard(self, body: Mapping[str, Any]) -> Heard | None:
        match body.get("type"):
            case "event_callback":
                return self._said(body.get("event") or {})
            case "block_actions":
                return _clicked(body)
            case _:
                return None

    def _said(self, event: Mapping[str, Any]) -> Said | None:
        is_ours = event.get("type") == "app_mention" or event.get("channel_type") == "im"
        is_plain = event.get("subtype") in (None, "file_share", "thread_broadcast")
        if not (is_ours and is_plain) or event.get("bot_id") or not event.get("user"):
            return None
        channel, ts = str(event["channel"]), str(event["ts"])
        text = _MENTION.sub("", str(event.get("text") or ""), count=1)
        # A mention and the message that it stands in are two events of the same thing.
        return Said(
            f"{channel}:{ts}",
            f"{channel}:{event.get('thread_ts') or ts}",
            str(event["user"]),
            html.unescape(_LINK.sub(r"\1", text)).strip(),
            tuple(self._file(file) for file in event.get("files") or ()),
        )

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
            if answer.status != 200:  # noqa: PLR2004 - HTTP's word for well
                raise TransportError(self.name, "hand out a file", f"it answers {answer.status}")
            data = bytearray()
            async for part in answer.content.iter_chunked(65536):
                data += part
                if len(data) >= limit:
                    break
            return bytes(data[:limit])


def _clicked(body: Mapping[str, Any]) -> Clicked | None:
    actions: Sequence[Mapping[str, Any]] = body.get("actions") or ()
    message: Mapping[str, Any] = body.get("message") or {}
    channel = (body.get("channel") or {}).get("id")
    user = (body.get("user") or {}).get("id")
    if not actions or not channel or not user or not body.get("trigger_id"):
        return None
    ts = str(message.get("ts") or "")
    return Clicked(
        f"click:{body['trigger_id']}",
        f"{channel}:{message.get('thread_ts') or ts}",
        str(user),
        str(actions[0].get("value") or actions[0].get("action_id") or ""),
        ts,
    )


def _word(response: Any) -> str:
    """What the service says is wrong, `not_in_channel` or the like; from a broken service anything may come."""
    data = getattr(response, "data", response)
    word = data.get("error") if isinstance(data, Mapping) else None
    return word if isinstance(word, str) and re.fullmatch(r"[a-z_]{1,60}", word) else "it says no"


def _place(thread: str) -> tuple[str, str]:
    channel, _, ts = thread.partition(":")
    return channel, ts


def _escaped(text: str) -> str:
    """For Slack's own markup: then nothing in it is a mention or a link."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(post: Post) -> list[dict[str, Any]]:
    """Blocks of plain text: in none of them a mention, a link or a format is looked for."""
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "plain_text", "text": visible(post.ours)[:2900] or " ", "emoji": False}}
    ]
    if post.theirs:
        quoted = {"type": "rich_text_quote", "elements": [{"type": "text", "text": visible(post.theirs)}]}
        blocks.append({"type": "rich_text", "elements": [quoted]})
    if post.buttons:
        blocks.append({"type": "actions", "elements": [_button(number, post) for number in range(len(post.buttons))]})
    return blocks


def _button(number: int, post: Post) -> dict[str, Any]:
    button = post.buttons[number]
    shown: dict[str, Any] = {
        "type": "button",
        "action_id": f"kagura-{number}",
        "text": {"type": "plain_text", "text": visible(button.label)[:75] or "…", "emoji": False},
        "value": button.action,
    }
    return shown | ({"style": _STYLES[button.look]} if button.look in _STYLES else {})
