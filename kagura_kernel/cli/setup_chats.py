"""How a person at a terminal is asked while something is set up, and what is asked and written down to set up a chat.

A token goes into the keychain, or stays where it is.
"""

from __future__ import annotations

import asyncio
import getpass
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly import load_settings
from kagura_kernel.assembly.chats import CHATS
from kagura_kernel.assembly.settings_file import KEYCHAIN, write_settings
from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.cockpit.transports.transport import TransportError
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.journal.settings_text import Value
from kagura_kernel.membrane.credentials.secret import SOURCES, KeychainUnusable, keep_in_keychain, keychain_name

if TYPE_CHECKING:
    from kagura_kernel.cockpit.transports.transport import Heard
    from kagura_kernel.domain.settings import Settings


@dataclass(frozen=True, slots=True)
class Talk:
    """A talk with a person at a terminal."""

    ask: Callable[[str], str] = input  # Reads one answer; raises EOFError at the end of the input
    ask_secret: Callable[[str], str] = getpass.getpass  # Reads one that nobody sees
    say: Callable[[str], None] = print  # Prints

    def choose(self, question: str, ways: Sequence[str]) -> int:
        """Which of them; an empty answer is the first. What is none of them is asked again."""
        self.say(question)
        for number, way in enumerate(ways, 1):
            self.say(f"  {number}  {way}")
        while True:
            answer = self.ask(f"1 to {len(ways)} [1]: ").strip()
            if not answer:
                return 0
            if answer.isdecimal() and 1 <= int(answer) <= len(ways):
                return int(answer) - 1
            self.say("That is none of them.")

    def ask_until(self, question: str, problem: Callable[[str], str]) -> str:
        """An answer that has no problem; one that has is told, and asked for again. An empty answer is one."""
        while answer := self.ask(question).strip():
            if not (wrong := problem(answer)):
                return answer
            self.say(wrong)
        return ""


WITHOUT_ASKING = """\
A chat is a table of the settings; docs/transports.md says what app each of them needs.
  [transports.slack]
  bot_token_file = "~/.config/kagura-kernel/slack-bot-token"
  app_token_file = "~/.config/kagura-kernel/slack-app-token"
  operators = ["U0123456789"]
For Discord it is [transports.discord], with a bot token alone. `…_env` names a variable instead of a file, `…_keyring`
an entry of the keychain. `kagura-kernel setup transport` at a terminal asks for all of it."""

_SLACK = """\
Make an app at https://api.slack.com/apps, from scratch, and there:
  Socket Mode            on; it gives the app token, with the scope connections:write
  OAuth & Permissions    bot token scopes app_mentions:read, chat:write, commands, files:read, files:write, im:history;
                         for channels also channels:history and groups:history, which may be left out
  Event Subscriptions    on, with the bot events app_mention and message.im
  Slash Commands         /kagura
  Interactivity          on
  App Home               the messages tab, with messages from people allowed
Then install it to the workspace, which gives the bot token. docs/transports.md says what each of these is for."""

_DISCORD = """\
Make an application at https://discord.com/developers/applications, and there:
  Bot                    Reset Token gives the bot token; no privileged intent is needed
  OAuth2, URL Generator  scope bot, to send messages, also in threads, to create public threads and to attach files
Then open that URL to bring it into a server of yours. docs/transports.md says what each of these is for."""


@dataclass(frozen=True, slots=True)
class _Guide:
    title: str
    app: str
    tokens: Mapping[str, str]
    """What each of them looks like, by name."""
    found: str
    """Where the ids of people are found."""
    person: str
    """What such an id looks like."""


_GUIDES = {
    "slack": _Guide(
        "Slack",
        _SLACK,
        {"bot_token": "bot token, xoxb-…", "app_token": "app token, xapp-…"},
        "a person’s profile, ⋮, Copy member ID",
        r"[UW][A-Z0-9]+",
    ),
    "discord": _Guide(
        "Discord",
        _DISCORD,
        {"bot_token": "bot token"},
        "Developer Mode on in the advanced settings, then a right click on a person, Copy User ID",
        r"\d+",
    ),
}


def set_up_chat(talk: Talk, settings: Settings, environ: Mapping[str, str]) -> None:
    """Ask which chat, for its tokens and for who may speak there; write it down, and try it once.

    Raises:
        ConfigurationError: the settings cannot be written, or would be wrong; nothing was written then.
        EOFError: nobody answers any more.
    """
    ways = ["leave it as it is", *(guide.title for guide in _GUIDES.values())]
    number = talk.choose("Which chat should it be reached by?", ways)
    if not number:
        return
    name = list(_GUIDES)[number - 1]
    guide, table = _GUIDES[name], settings.transports.get(name, {})
    talk.say(guide.app)
    values: dict[str, Value] = {}
    keychain = _has_keychain(talk)
    for token, looks in guide.tokens.items():
        kept = _token(talk, f"{name}-{token}", token, looks, table, keychain=keychain)
        if kept is None:
            talk.say("Nothing was written: without its tokens a chat cannot be opened.")
            return
        values |= kept
    values |= _operators(talk, guide, table) | _project(talk, table)
    path = write_settings(environ, values, table=f"transports.{name}")
    talk.say(f"[transports.{name}] was written to {path}.")
    if command := CHATS[name].missing():
        talk.say(f"Its library is missing: {command}, and look again with `kagura-kernel doctor`.")
        return
    _try(talk, name, guide.title, environ)


def _token(
    talk: Talk, entry: str, token: str, looks: str, table: Mapping[str, Any], *, keychain: bool
) -> dict[str, Value] | None:
    """What is to be written about a token; None where nobody says where it is."""
    forms: dict[str, Value] = {f"{token}_{source}": None for source in SOURCES}
    is_there = any(form in table for form in forms)
    leave = "; empty to leave it where it is" if is_there else ""
    if keychain:
        otherwise = leave or "; empty if it is kept elsewhere"
        secret = talk.ask_secret(f"Its {looks} (goes into the keychain{otherwise}): ").strip()
        if secret and _keep(talk, entry, secret):
            return {**forms, f"{token}_keyring": f"{KEYCHAIN}/{entry}"}
        if not secret and is_there:
            return {}
    question = f"Where is its {looks}, kept? The path of a file that only you may read, or the name of a variable"
    place = talk.ask(f"{question}{leave}: ").strip()
    if not place:
        return {} if is_there else None
    return {**forms, f"{token}_file" if place.startswith(("/", "~/")) else f"{token}_env": place}


def _has_keychain(talk: Talk) -> bool:
    try:
        keychain_name()
    except KeychainUnusable as error:
        # Said before anybody types a secret in vain.
        talk.say(f"Tokens have to be in files or variables here: {error}.")
        return False
    return True


def _keep(talk: Talk, entry: str, secret: str) -> bool:
    try:
        keep_in_keychain(KEYCHAIN, entry, secret)
    except KeychainUnusable as error:
        talk.say(f"It was not kept: {error}.")
        return False
    return True


def _operators(talk: Talk, guide: _Guide, table: Mapping[str, Any]) -> dict[str, Value]:
    now = ", ".join(table.get("operators", ())) or "nobody"

    def problem(answer: str) -> str:
        wrong = [one for one in _words(answer) if not re.fullmatch(guide.person, one)]
        return f"{wrong[0]} is no id of {guide.title}, and names can be taken by anybody." if wrong else ""

    answer = talk.ask_until(f"Who may speak there? Nobody else is heard. Ids ({guide.found}) [{now}]: ", problem)
    if not answer and "operators" not in table:
        talk.say("Then nobody is heard there yet.")
    return {"operators": _words(answer)} if answer else {}


def _words(answer: str) -> list[str]:
    return list(dict.fromkeys(word for word in re.split(r"[\s,]+", answer) if word))


def _project(talk: Talk, table: Mapping[str, Any]) -> dict[str, Value]:
    now = table.get("project") or "where the server is started"

    def problem(answer: str) -> str:
        is_one = answer.startswith(("/", "~/")) and Path(answer).expanduser().is_dir()
        return "" if is_one else "That is no folder; its path begins with / or ~/."

    answer = talk.ask_until(f"The project of its runs, a folder [{now}]: ", problem)
    return {"project": answer} if answer else {}


def _try(talk: Talk, name: str, title: str, environ: Mapping[str, str]) -> None:
    try:
        asyncio.run(_let_in(name, load_settings(environ).transports[name], dict(environ)))
    except TransportError as error:
        talk.say(f"It does not work yet: {title} did not {error.what}: {error.why}.")
    except KaguraError as error:
        talk.say(f"It does not work yet. {error.message}")
    else:
        talk.say(f"{title} let us in. `kagura-kernel serve` opens it; docs/serving.md says how to keep it running.")


async def _let_in(name: str, table: Mapping[str, Any], environ: dict[str, str]) -> None:
    async def hear(_: Heard) -> None:
        # Never taken, so never acknowledged: it is for a server, which the chat delivers it to.
        await asyncio.Event().wait()

    transport, _ = await make_transport(name, table, environ)
    await transport.open(hear)
    await transport.close()
