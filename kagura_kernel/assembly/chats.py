"""Sorts of chats: our own, and what another package has to name to bring one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from kagura_kernel.brain.openai_compatible import problem_with_url
from kagura_kernel.domain.extensions import TRANSPORTS, Extension, installed, load_instance
from kagura_kernel.domain.late_dataclass import dataclass

if TYPE_CHECKING:
    from kagura_kernel.cockpit.transports.transport import Transport
    from kagura_kernel.membrane.credentials.secret import Secret


def _folder(path: str) -> str:
    # A server is started from anywhere.
    if path and not path.startswith(("/", "~/")):
        raise ValueError("it must be a path from the root, or from ~/")
    return path


def _a_list(ids: object) -> object:
    if not isinstance(ids, list | tuple):
        raise ValueError('it must be a list of ids, ["ID"]')  # noqa: TRY004 - the library takes no other kind
    return ids


def _slack_id(name: str) -> str:
    if not re.fullmatch(r"[UW][A-Z0-9]+", name):
        raise ValueError("it must be a member id of Slack: U or W, then letters and digits, and no name")
    return name


def _discord_id(name: str) -> str:
    if not re.fullmatch(r"[0-9]+", name):
        raise ValueError("it must be a user id of Discord: digits alone, and no name")
    return name


def _address(url: str) -> str:
    if url and (problem := problem_with_url(url, keyed=True)):
        raise ValueError(problem)
    return url


Address = Annotated[str, AfterValidator(_address)]
"""Where a service is that a token is sent to: over https, unless it is on this machine; empty for the usual place."""


class ChatSettings(BaseModel):
    """What a table `[transports.NAME]` holds for every chat, beside its tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # Who may say anything, by the ids that the chat gives them; nobody when there are none
    operators: Annotated[tuple[str, ...], BeforeValidator(_a_list)] = ()
    # The project of its runs, a path; empty for the directory in which the server was started
    project: Annotated[str, AfterValidator(_folder)] = ""
    brain: str = ""  # Their brain; empty leaves it to the settings


class SlackSettings(ChatSettings):
    """Slack's table."""

    # Member ids
    operators: Annotated[tuple[Annotated[str, AfterValidator(_slack_id)], ...], BeforeValidator(_a_list)] = ()
    api: Address = ""  # The base URL of its web API, for another Slack than the public one
    files: Address = ""  # Where files of its users are then; empty for the same host


class DiscordSettings(ChatSettings):
    """Discord's table."""

    # User ids
    operators: Annotated[tuple[Annotated[str, AfterValidator(_discord_id)], ...], BeforeValidator(_a_list)] = ()
    api: Address = ""  # The base URL of its API, with the version, for another Discord than the public one


@dataclass(frozen=True, slots=True)
class ChatKind:
    """One sort of chat: what its table holds, and how it is made; an entry point of another package names one."""

    # Makes the transport, not open yet, of the table and its tokens by name
    make: Callable[[Any, Mapping[str, Secret]], Transport]
    settings: type[ChatSettings] = ChatSettings  # The table beside the tokens
    # What its tokens are called: for each the table has `NAME_env`, `NAME_file` or `NAME_keyring`
    tokens: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # Modules of vendors that it imports when it is opened,
    extra: str = ""  # and the extra of this package that brings them

    def missing(self) -> str:
        """What has to be installed first, a command; empty when all is there."""
        if all(find_spec(module) for module in self.modules):
            return ""
        return f"`pip install 'kagura-kernel[{self.extra}]'`"


def _slack(table: SlackSettings, tokens: Mapping[str, Secret]) -> Transport:
    from kagura_kernel.cockpit.transports.slack import API, FILES, SlackTokens, SlackTransport

    parts = urlsplit(table.api)
    files = table.files or (f"{parts.scheme}://{parts.netloc}" if table.api else FILES)
    signing = SlackTokens(tokens["bot_token"], tokens["app_token"])
    return SlackTransport(signing, api=_slashed(table.api or API), files=_slashed(files))


def _discord(table: DiscordSettings, tokens: Mapping[str, Secret]) -> Transport:
    from kagura_kernel.cockpit.transports.discord import DiscordTransport

    return DiscordTransport(tokens["bot_token"], api=table.api)


def _slashed(url: str) -> str:
    # What begins with this is on that host and below that path, and on no longer name that begins so.
    return f"{url.rstrip('/')}/"


CHATS: Mapping[str, ChatKind] = {
    "slack": ChatKind(_slack, SlackSettings, ("bot_token", "app_token"), ("slack_bolt", "aiohttp"), "slack"),
    "discord": ChatKind(_discord, DiscordSettings, ("bot_token",), ("discord",), "discord"),
}
"""Chats of our own."""


def chat_extensions() -> dict[str, Extension]:
    """Chats of other packages by name; nothing of them is run."""
    return installed(TRANSPORTS, tuple(CHATS))


def load_chat(extension: Extension) -> ChatKind:
    """A sort of chat of another package.

    Raises:
        ExtensionBroken: it is none.
    """
    return load_instance(extension, ChatKind)
