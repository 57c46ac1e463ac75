"""Discord by way of discord.py: its gateway is a connection that goes out, so no address of ours has to be public."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.transports import transport
from kagura_kernel.cockpit.transports.messages import one_line
from kagura_kernel.domain.visible import printed
from kagura_kernel.membrane.credentials.secret import Secret

if TYPE_CHECKING:
    import discord

GUILD_SECONDS = 0.25
"""Messages are heard as they come; nothing here needs the lists of all guilds beforehand."""

# A backslash before any of these makes it itself: no format, no mention, no link with another text.
_MARKUP = re.compile(r"([\\`*_~|\[\]()<>#@])")
_NO_SUCH_CHANNEL = 10003
_HAS_THREAD = 160004
_FAULTS, _FAULTS_OF_THEIRS = 400, 500
_PASSES = (408, 429)
_NOT_LET_IN = 401
# So many characters of a mark fit; within minutes a second message of the same is the first one.
_MARK = 25
# What the gateway says when it ends a connection for what we are: the token, or an intent.
_CLOSED_TO_US = frozenset({4004, 4010, 4011, 4012, 4013, 4014})

TITLE = "kagura"
"""What a thread is called whose first words are not known any more."""

_TITLE_LENGTH, _MOST_TITLES = 60, 100


class DiscordTransport:
    """One Discord application. A thread is `CHANNEL:THREAD`; in direct messages `CHANNEL:`.

    In a direct message everything is for us; elsewhere only what mentions us, which is answered in a thread of its own.

    Args:
        token: The bot's own; never shown.
        api: Where the service is, with its version; empty for the public one.
    """

    name = "discord"
    # A description may have 4096 characters, and each of these may need a backslash.
    limit = 1900

    def __init__(self, token: Secret, *, api: str = "") -> None:
        self._token = token
        self._api = api.rstrip("/")
        self._client: discord.Client | None = None
        self._connection: asyncio.Task[None] | None = None
        # By the messages whose threads are not made yet.
        self._titles: dict[str, str] = {}

    async def open(self, hear: transport.Hear) -> None:
        """Sign in and connect."""
        with warnings.catch_warnings():
            # It imports a module for voices that Python has given up; nobody speaks here.
            warnings.simplefilter("ignore", DeprecationWarning)
            import discord

        # No privileged intent: what mentions us, and direct messages, come with their text without one.
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
        # It tells of every connection at lower levels; what matters comes to us as an error.
        logging.getLogger("discord").setLevel(logging.ERROR)
        client = discord.Client(
            guild_ready_timeout=GUILD_SECONDS,
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
        )

        async def on_message(message: discord.Message) -> None:
            if (said := self._said(message)) is not None:
                await hear(said)

        async def on_interaction(interaction: discord.Interaction) -> None:
            if (clicked := _clicked(interaction)) is not None:
                await hear(clicked)
            # Whoever pressed it sees that it has arrived; when that fails, they see that it may not have.
            with contextlib.suppress(discord.HTTPException, discord.InteractionResponded):
                await interaction.response.defer()

        client.event(on_message)
        client.event(on_interaction)
        self._client = client

        async def connect() -> None:
            await self._sign_in(client)
            self._connection = asyncio.ensure_future(client.connect())
            await self._ready(client)

        await transport.connected(self.name, self._try(transport.LET_IN, connect), self.close)

    async def ended(self) -> None:
        """Wait until the gateway ends the connection for good: what passes the library sees to by itself."""
        import discord

        connection = self._connection
        why = "the connection is not open"
        if connection is not None:
            await asyncio.wait({connection})
            error = None if connection.cancelled() else connection.exception()
            closed = error.code if isinstance(error, discord.ConnectionClosed) else None
            if closed in _CLOSED_TO_US or isinstance(error, discord.PrivilegedIntentsRequired):
                raise transport.TransportRefused(
                    self.name, transport.GO_ON, f"it ends the connection for good (code {closed or 4014})"
                )
            why = f"the connection has ended ({closed or type(error).__name__})"
        raise transport.TransportError(self.name, transport.GO_ON, why)

    async def post(self, thread: str, post: transport.Post) -> str:
        """Say something."""
        marked = {"nonce": post.mark[:_MARK]} if post.mark else {}
        message = await self._send("take a post", thread, **_parts(post), **marked)
        return str(message.id)

    def order(self, post_id: str) -> int:
        """By Discord's ids, which begin with a time, for messages and posts alike."""
        return int(post_id) if post_id.isdecimal() else 0

    async def edit(self, thread: str, post_id: str, post: transport.Post) -> None:
        """Put something in the place of what was said."""
        parts = _parts(post)
        parts = {**parts, "embeds": parts.get("embeds", []), "view": parts.get("view")}
        message = self._place(thread).get_partial_message(int(post_id))
        await self._try("take an edit", lambda: message.edit(**parts))

    async def upload(self, thread: str, name: str, content: bytes) -> None:
        """Put a file into the thread."""
        import discord

        await self._send("take a file", thread, file=discord.File(io.BytesIO(content), filename=name))

    async def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        connection, self._connection = self._connection, None
        if client is not None:
            # What is gone already needs no good-bye.
            with contextlib.suppress(Exception):
                await client.close()
        if connection is not None:
            connection.cancel()
            await asyncio.gather(connection, return_exceptions=True)

    async def _sign_in(self, client: discord.Client) -> None:
        """Show the token; another service than the public one is asked where its gateway is."""
        import yarl
        from discord.gateway import DiscordWebSocket
        from discord.http import Route

        if self._api:
            # The library has one for the whole process.
            Route.BASE = self._api
        await client.login(self._token.reveal())
        if self._api:
            found = await client.http.request(Route("GET", "/gateway"))
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(found["url"])

    async def _ready(self, client: discord.Client) -> None:
        """Return once we are told who we are; raises what ended the connection before that."""
        ready = asyncio.ensure_future(client.wait_until_ready())
        connection = self._connection
        if connection is None:
            raise transport.TransportError(self.name, transport.LET_IN, "the connection is not open")
        try:
            await asyncio.wait({ready, connection}, return_when=asyncio.FIRST_COMPLETED)
            if connection.done():
                await connection
        finally:
            ready.cancel()

    async def _send(self, what: str, thread: str, **parts: Any) -> Any:
        import discord

        place = self._place(thread)

        async def send() -> Any:
            try:
                return await place.send(**parts)
            except discord.NotFound as error:
                channel, _, started = thread.partition(":")
                if error.code != _NO_SUCH_CHANNEL or not started:
                    raise
            # The thread below a message bears that message's id, and is made when there is something to say in it.
            client = self._connected()
            hall: Any = client.get_channel(int(channel)) or await client.fetch_channel(int(channel))
            try:
                title = self._titles.pop(started, TITLE)
                await hall.get_partial_message(int(started)).create_thread(name=title)
            except discord.HTTPException as error:
                # Two posts may be the first at the same time.
                if error.code != _HAS_THREAD:
                    raise
            return await place.send(**parts)

        return await self._try(what, send)

    def _connected(self) -> discord.Client:
        if self._client is None:
            raise transport.TransportError(self.name, "take anything", "the connection is not open")
        return self._client

    def _place(self, thread: str) -> discord.PartialMessageable:
        channel, _, started = thread.partition(":")
        return self._connected().get_partial_messageable(int(started or channel))

    async def _try(self, what: str, work: Callable[[], Awaitable[Any]]) -> Any:
        import aiohttp
        import discord

        try:
            return await work()
        except (discord.LoginFailure, discord.PrivilegedIntentsRequired) as error:
            raise transport.TransportRefused(
                self.name, what, f"it does not take the token ({type(error).__name__})"
            ) from None
        except discord.HTTPException as error:
            if error.status == _NOT_LET_IN:
                raise transport.TransportRefused(self.name, what, "it does not take the token any more") from None
            # What is a fault of the request is one the next time too; too many of them is none.
            is_ours = _FAULTS <= error.status < _FAULTS_OF_THEIRS and error.status not in _PASSES
            kind = transport.PostRefused if is_ours and what != transport.LET_IN else transport.TransportError
            # Its numbers alone: the text may hold what was sent.
            raise kind(self.name, what, f"it answers {error.status}, code {error.code}") from None
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            raise transport.TransportError(self.name, what, f"it cannot be used ({type(error).__name__})") from None

    def _said(self, message: discord.Message) -> transport.Said | None:
        import discord

        client = self._client
        if client is None or client.user is None or message.author.bot or message.webhook_id is not None:
            return None
        if message.guild is not None and not any(one.id == client.user.id for one in message.mentions):
            return None
        started = "" if message.guild is None else str(message.id)
        thread = _thread(message.channel, started)
        # An id is the same person in all of Discord, so that wherever it comes from an operator is that operator.
        text = re.sub(rf"[ \t]*<@!?{client.user.id}>[:,]?[ \t]*", " ", message.content).strip()
        if started and not isinstance(message.channel, discord.Thread):
            self._titles[started] = one_line(text, _TITLE_LENGTH) or TITLE
            while len(self._titles) > _MOST_TITLES:
                del self._titles[next(iter(self._titles))]
        files = tuple(self._file(one) for one in message.attachments)
        return transport.Said(str(message.id), thread, str(message.author.id), text, files, order=message.id)

    def _file(self, attachment: discord.Attachment) -> transport.SentFile:
        async def read(limit: int) -> bytes:
            # The library fetches it without our token.
            data: bytes = await self._try("hand out a file", attachment.read)
            return data[:limit]

        return transport.SentFile(attachment.filename, attachment.size, read)


def _clicked(interaction: discord.Interaction) -> transport.Heard | None:
    import discord

    if interaction.type is not discord.InteractionType.component or interaction.message is None:
        return None
    data: Any = interaction.data or {}
    action = str(data.get("custom_id") or "")
    thread = _thread(interaction.channel, "") if interaction.channel is not None else f"{interaction.channel_id}:"
    return transport.Clicked(str(interaction.id), thread, str(interaction.user.id), action, str(interaction.message.id))


def _thread(channel: Any, started: str) -> str:
    parent = getattr(channel, "parent_id", None)
    return f"{channel.id}:{started}" if parent is None else f"{parent}:{channel.id}"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", printed(text))


def _parts(post: transport.Post) -> dict[str, Any]:
    """What is sent: our words as the message, those of others in a box of their own below it."""
    import discord

    parts: dict[str, Any] = {"content": _escaped(post.ours)[:2000]}
    if post.theirs:
        parts["embeds"] = [discord.Embed(description=_escaped(post.theirs))]
    if post.buttons:
        styles = {"good": discord.ButtonStyle.success, "bad": discord.ButtonStyle.danger}
        view = discord.ui.View(timeout=None)
        for button in post.buttons:
            style = styles.get(button.look, discord.ButtonStyle.secondary)
            shown: discord.ui.Button[discord.ui.View] = discord.ui.Button(
                label=printed(button.label)[:80] or "…", custom_id=button.action, style=style
            )
            view.add_item(shown)
        # The library need not remember it: every click comes to us anyway.
        view.stop()
        parts["view"] = view
    return parts
