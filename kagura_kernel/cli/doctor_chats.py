"""The doctor's rows about chats: whether each could be opened, whether anybody is heard there, who serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.doctor_rows import FAIL, OK, TRANSPORT, WARN, Finding
from kagura_kernel.domain.errors import KaguraError, SecretUnavailable

if TYPE_CHECKING:
    from kagura_kernel.assembly.transports import CheckedChat
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.membrane.credentials.secret import SecretReference

SETUP = "`kagura-kernel setup transport`"
_SERVE = "`kagura-kernel serve`; docs/serving.md says how to keep it running"


def chats(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A row for each chat that the settings name, and one about the server; asks no service."""
    if not settings.transports:
        yield Finding("chats", OK, "none is set up", part=TRANSPORT)
        return
    from kagura_kernel.cockpit.served import server_of
    from kagura_kernel.journal.place import data_home

    server = server_of(data_home(environ))
    for name, table in settings.transports.items():
        yield _chat(name, table, environ, served=server is not None)
    if server is None:
        yield Finding("chat server", WARN, "none runs, so nobody is heard in any chat", _SERVE, TRANSPORT)
    else:
        yield Finding("chat server", OK, f"process {server}" if server else "it runs", part=TRANSPORT)


def _chat(name: str, table: Mapping[str, Any], environ: Mapping[str, str], *, served: bool) -> Finding:
    from kagura_kernel.assembly.transports import chat_kind, check_chat

    row = f"chat {name}"
    try:
        kind, _ = chat_kind(name)
        if command := kind.missing():
            return Finding(row, FAIL, "its library is not installed", command, TRANSPORT)
        chat = check_chat(name, table)
    except KaguraError as error:
        return Finding(row, FAIL, error.message, SETUP, TRANSPORT)
    missing = [why for one in chat.tokens.values() if (why := _not_there(one, environ, served=served))]
    if missing:
        return Finding(row, FAIL, "; ".join(missing), SETUP, TRANSPORT)
    if chat.homeless:
        return Finding(row, FAIL, chat.homeless, SETUP, TRANSPORT)
    if not chat.settings.operators:
        return Finding(row, WARN, "nobody is heard there, for its `operators` are empty", SETUP, TRANSPORT)
    return Finding(row, OK, _told(chat), part=TRANSPORT)


def _told(chat: CheckedChat) -> str:
    count = len(chat.settings.operators)
    heard = "1 operator is heard" if count == 1 else f"{count} operators are heard"
    return f"{heard}; runs in {chat.project or 'the directory in which the server is started'}"


def _not_there(reference: SecretReference, environ: Mapping[str, str], *, served: bool) -> str:
    """Why a token cannot be had here, as far as that is seen without unlocking a keychain; empty when it can."""
    from kagura_kernel.membrane.credentials.secret import KeychainUnusable, SecretReader, keychain_name

    token = reference.setting.rpartition(".")[2]
    # A variable may be set for the server alone, and one that runs has had it.
    if reference.source == "env" and served:
        return ""
    try:
        if reference.source == "keyring":
            keychain_name()
        else:
            asyncio.run(SecretReader(environ).read(reference))
    except (SecretUnavailable, KeychainUnusable) as error:
        return f"{token}: {error.why if isinstance(error, SecretUnavailable) else error}"
    return ""
