"""Chats by name: who may speak there, and where their tokens are kept.

Tokens are read when a chat is opened, by reference like every secret, and a variable that held one is taken out of the
environment then: what is started later, a brain's program for one, cannot inherit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kagura_kernel.assembly.chats import CHATS, ChatKind, ChatSettings, chat_extensions, load_chat
from kagura_kernel.assembly.extensions import brain_names
from kagura_kernel.cockpit.transports.actions import terms_of
from kagura_kernel.domain.errors import ConfigurationError, ExtensionBroken, NotInstalled, UnknownName
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.settings import Problem, Settings
from kagura_kernel.domain.value_faults import value_fault
from kagura_kernel.journal.place import expanded
from kagura_kernel.membrane.credentials.secret import SOURCES, SecretReader, keep_standing, read_reference

if TYPE_CHECKING:
    from kagura_kernel.cockpit.transports.actions import ChatTerms
    from kagura_kernel.cockpit.transports.transport import Transport
    from kagura_kernel.membrane.credentials.secret import Secret, SecretReference

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class CheckedChat:
    """A chat whose table is right; no token has been read yet."""

    name: str  # What the settings call it
    kind: ChatKind  # Its sort
    settings: ChatSettings  # What its table holds
    tokens: Mapping[str, SecretReference]  # Where each of its tokens is kept, by name
    package: str = ""  # Of another package: which, and its version; empty for our own

    @property
    def project(self) -> Path | None:
        """The project of its runs; None for the directory in which the server was started."""
        return expanded(self.settings.project) if self.settings.project else None

    @property
    def homeless(self) -> str:
        """Why no run can begin in its project, a clause; empty where one can."""
        return f"its project {self.project} is no folder" if self.project and not self.project.is_dir() else ""


def check_transports(settings: Settings) -> list[Problem]:
    """What is wrong with the chats of the settings, each as the field and what it is; no value is repeated.

    A chat of another package is not loaded for it: of its table is seen what holds for every chat.
    """
    return [problem for name, table in settings.transports.items() for problem in _wrong_chat(name, table)]


def chat_kind(name: str) -> tuple[ChatKind, str]:
    """The sort of chat with this name, and the package that brings it, which is loaded; empty for our own.

    Raises:
        UnknownName: there is no such chat.
        ExtensionBroken: the package that brings it does not work.
    """
    if name in CHATS:
        return CHATS[name], ""
    others = chat_extensions()
    if name not in others:
        raise UnknownName("chat", name, [*CHATS, *others])
    return load_chat(others[name]), others[name].package


def check_chat(name: str, table: Mapping[str, Any]) -> CheckedChat:
    """A chat of the settings, as far as it can be seen without its tokens; one of another package is loaded.

    Raises:
        UnknownName: there is no such chat.
        ExtensionBroken: the package that brings it does not work.
        NotInstalled: its library is not installed.
        ConfigurationError: the table is wrong; every problem is told, and no value is repeated.
    """
    kind, package = chat_kind(name)
    if command := kind.missing():
        raise NotInstalled(name, [f"it needs a library that is not installed: {command}, then try again"])
    settings, tokens, problems = _read(name, table, kind.settings, kind.tokens)
    if settings is None or problems:
        raise ConfigurationError(f"The settings of {name}", [f"{field}: {why}" for field, why in problems])
    return CheckedChat(name, kind, settings, tokens, package)


async def make_transport(
    name: str,
    table: Mapping[str, Any],
    environ: MutableMapping[str, str],
    keyring: Callable[[str, str], str | None] | None = None,
) -> tuple[Transport, ChatTerms]:
    """A chat, not open yet, and what holds there.

    Args:
        name: One of `CHATS`, or what another package brings.
        table: As the settings have it: `operators`, `project` and `brain` of `ChatSettings`, what else the chat has,
            and for each of its tokens one of `…_env`, `…_file` and `…_keyring`.
        environ: For tokens in variables, which are taken out of it.
        keyring: Reads the keychain; None is this machine's.

    Raises:
        UnknownName: there is no such chat.
        ExtensionBroken: the package that brings it does not work.
        NotInstalled: its library is not installed.
        ConfigurationError: the table is wrong; every problem is told, and no value is repeated but the project that is
            not there.
        SecretUnavailable: a token is not where it should be.
    """
    chat = check_chat(name, table)
    if chat.homeless:
        raise ConfigurationError(f"The settings of {name}", [f"transports.{name}.project: {chat.homeless}"])
    reader = SecretReader(environ, keyring)
    tokens = {token: keep_standing(await reader.read(reference)) for token, reference in chat.tokens.items()}
    for reference in chat.tokens.values():
        if reference.source == "env":
            environ.pop(reference.place, None)
    terms = terms_of(chat.settings.operators, chat.project, chat.settings.brain or None)
    return _made(chat, tokens), terms


def _made(chat: CheckedChat, tokens: Mapping[str, Secret]) -> Transport:
    if not chat.package:
        return chat.kind.make(chat.settings, tokens)
    # Code of a stranger, which has the tokens: of whatever it raises the kind alone is told, and nothing is chained.
    try:
        transport = chat.kind.make(chat.settings, tokens)
        # What is missing shows here, and not in the middle of a conversation.
        _ = transport.limit, transport.open, transport.post, transport.edit, transport.upload, transport.close
        why = "" if transport.name == chat.name else "it calls itself otherwise"
    except Exception as error:  # noqa: BLE001 - fails closed, see above
        why = f"it cannot be made ({type(error).__name__})"
    if why:
        raise ExtensionBroken("transport", chat.name, chat.package, why)
    return transport


def _wrong_chat(name: str, table: Mapping[str, Any]) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield "transports", "the name of a chat is small letters, digits, - and _, and begins with a letter"
    elif name in CHATS:
        yield from _read(name, table, CHATS[name].settings, CHATS[name].tokens)[2]
    elif name in (others := chat_extensions()):
        shared = {field: value for field, value in table.items() if field in ChatSettings.model_fields}
        yield from _read(name, shared, ChatSettings, ())[2]
    else:
        yield f"transports.{name}", f"there is no such chat; it must be one of {', '.join([*CHATS, *others])}"


def _wrong_brain(field: str, brain: str) -> Iterator[Problem]:
    if brain and brain not in (known := brain_names()):
        yield field, f"there is no such brain; it must be one of {', '.join(known)}"


def _read(
    name: str, table: Mapping[str, Any], settings: type[ChatSettings], tokens: Sequence[str]
) -> tuple[ChatSettings | None, dict[str, SecretReference], list[Problem]]:
    where = f"transports.{name}"
    problems: list[Problem] = []
    kept: dict[str, SecretReference] = {}
    for token in tokens:
        reference, wrong = read_reference(table, token, f"{where}.{token}")
        for line in wrong:
            field, _, why = line.partition(": ")
            problems.append((field, why))
        if reference is not None:
            kept[token] = reference
    taken = {*tokens, *(f"{token}_{source}" for token in tokens for source in SOURCES)}
    rest = {field: value for field, value in table.items() if field not in taken}
    try:
        found_settings = settings.model_validate(rest)
    except ValidationError as error:
        # Not chained: a chained validation error could print what was given.
        found = error.errors(include_input=False, include_url=False)
    else:
        problems.extend(_wrong_brain(f"{where}.brain", found_settings.brain))
        return found_settings, kept, problems
    for one in found:
        field = ".".join([where, *map(str, one["loc"])])
        problems.append((field, value_fault(one)))
    return None, kept, problems
