"""Chats by name: who may speak there, and where their tokens are kept.

Tokens are read when a chat is opened, by reference like every secret, and a variable that held one is taken out of the
environment then: what is started later, a brain's program for one, cannot inherit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import ConfigurationError, NotThisTime, UnknownName

if TYPE_CHECKING:
    from kagura_kernel.cockpit.transports.conversations import ChatTerms
    from kagura_kernel.cockpit.transports.transport import Transport
    from kagura_kernel.membrane.credentials.secret import Secret

_TOKENS = {"slack": ("bot_token", "app_token"), "discord": ("bot_token",)}
_LIBRARIES = {"slack": ("slack_bolt", "aiohttp"), "discord": ("discord",)}
TRANSPORTS = tuple(_TOKENS)
"""Chats that there are."""

_OTHERS = frozenset({"operators", "project", "brain"})


async def make_transport(
    name: str,
    table: Mapping[str, Any],
    environ: MutableMapping[str, str],
    keyring: Callable[[str, str], str | None] | None = None,
) -> tuple[Transport, ChatTerms]:
    """A chat, not open yet, and what holds there.

    Args:
        name: One of `TRANSPORTS`.
        table: `operators`: ids of those who may say anything, nobody when there are none; `project` and `brain` of its
            runs; and for each token one of `…_env`, `…_file` and `…_keyring`: `bot_token`, and for Slack `app_token`.
        environ: For tokens in variables, which are taken out of it.
        keyring: Reads the keychain; None is this machine's.

    Raises:
        UnknownName: there is no such chat.
        NotThisTime: its library is not installed.
        ConfigurationError: the table is wrong; every problem is told, and no value is repeated.
        SecretUnavailable: a token is not where it should be.
    """
    from kagura_kernel.cockpit.transports.conversations import terms_of
    from kagura_kernel.membrane.credentials.secret_reference import SOURCES, SecretReader, read_reference

    if name not in _TOKENS:
        raise UnknownName("chat", name, TRANSPORTS)
    if any(find_spec(library) is None for library in _LIBRARIES[name]):
        raise NotThisTime(
            f"{name} needs a library that is not installed: `pip install 'kagura-kernel[{name}]'`, then try again."
        )
    references = []
    problems: list[str] = []
    for token in _TOKENS[name]:
        reference, wrong = read_reference(table, token, f"transports.{name}.{token}")
        problems += wrong
        if reference is not None:
            references.append(reference)
    known = _OTHERS | {f"{token}_{source}" for token in _TOKENS[name] for source in SOURCES} | set(_TOKENS[name])
    problems += [f"transports.{name}: there is no such field as {field!r}" for field in sorted(set(table) - known)]
    problems += _wrong_values(name, table)
    if problems:
        raise ConfigurationError(f"The settings of {name}", problems)
    reader = SecretReader(environ, keyring)
    tokens = [await reader.read(reference) for reference in references]
    for reference in references:
        if reference.source == "env":
            environ.pop(reference.place, None)
    project = table.get("project")
    terms = terms_of(table.get("operators", ()), None if project is None else Path(project), table.get("brain"))
    return _transport(name, tokens), terms


def _wrong_values(name: str, table: Mapping[str, Any]) -> list[str]:
    problems = []
    operators = table.get("operators", [])
    if not isinstance(operators, list | tuple) or not all(isinstance(one, str) for one in operators):
        problems.append(f"transports.{name}.operators: it must be a list of ids, each a text")
    problems += [
        f"transports.{name}.{field}: it must be a text"
        for field in ("project", "brain")
        if field in table and not isinstance(table[field], str)
    ]
    return problems


def _transport(name: str, tokens: list[Secret]) -> Transport:
    if name == "slack":
        from kagura_kernel.cockpit.transports.slack import SlackTokens, SlackTransport

        return SlackTransport(SlackTokens(*tokens))
    from kagura_kernel.cockpit.transports.discord import DiscordTransport

    return DiscordTransport(*tokens)
