"""`kagura-kernel setup`: walks through what the doctor finds, and writes down what a person chooses.

Without a terminal, or with `--yes`, nobody is asked, and what does not work is told. With `--yes` a setting that
nothing could make right is set back to what always works; one that only does not work now (a server that is down, no
Docker yet) is somebody's choice, and stays. A key is never written into a file, and neither is a chat's token: it goes
into the keychain, or stays where it is.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly import brain_choice, brain_names, load_settings
from kagura_kernel.assembly.chats import CHATS
from kagura_kernel.assembly.local_services import local_services, local_urls
from kagura_kernel.assembly.memories import check_memory
from kagura_kernel.assembly.settings_file import KEYCHAIN, write_setting, write_settings
from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.brain.openai_compatible import KNOWN
from kagura_kernel.cli import doctor
from kagura_kernel.cli.doctor_rows import BRAIN, FAIL, MEMORY, OK, SANDBOX, TRANSPORT, Finding, brains, chats, laid_out
from kagura_kernel.cockpit.transports.transport import TransportError
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field, replace
from kagura_kernel.journal.place import expanded, place_in_use
from kagura_kernel.journal.settings_text import Value
from kagura_kernel.membrane.credentials.secret import SOURCES, KeychainUnusable, keep_in_keychain, keychain_name
from kagura_kernel.sandbox.selection import AUTO, BUILT_IN, registered

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


def _keep(talk: Talk, entry: str, secret: str, advice: str = "") -> bool:
    try:
        keep_in_keychain(KEYCHAIN, entry, secret)
    except KeychainUnusable as error:
        talk.say(f"It was not kept: {error}.{advice}")
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
        is_one = answer.startswith(("/", "~/")) and expanded(answer).is_dir()
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


def _no_file(path: str) -> str:
    """Why no memory can be kept there; empty where one can."""
    is_one = path.startswith(("/", "~/")) and expanded(path).parent.is_dir()
    return "" if is_one else "That is no file in a folder that is there; its path begins with / or ~/."


def _no_database(url: str) -> str:
    """Likewise, for a database. Nothing of it is repeated, since it may hold a password."""
    if ":" in url.partition("://")[2].rpartition("@")[0]:
        return "It holds a password, which is never written into the settings; use ~/.pgpass."
    return "" if url.startswith("postgresql://") else "That is no URL of a database; it begins with postgresql://."


READY, NOT_READY = 0, 3
PARTS = (BRAIN, MEMORY, SANDBOX, TRANSPORT)


def setup(arguments: SimpleNamespace) -> int:
    """Walk through one part, or all; 0 when runs can begin with them, 3 when something still has to be done.

    Raises:
        ConfigurationError: the settings are wrong, or cannot be written.
    """
    parts = [arguments.part] if arguments.part else list(PARTS)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.yes
    walk = Walk(os.environ, asks=asks)
    if arguments.yes:
        walk.set_back(parts, load_settings(os.environ))
    for part in parts:
        print(f"{part}\n")
        before = load_settings(os.environ)
        _show(rows_of(part, before))
        try:
            walk.through(part, before)
        except (EOFError, KeyboardInterrupt):
            print("\nNothing more was changed.")
            break
        except KaguraError as error:
            from kagura_kernel.cli.main import told

            print(told(error), file=sys.stderr)
        now = load_settings(os.environ)
        if asks and now != before and (failed := [row for row in rows_of(part, now) if row.state == FAIL]):
            print("\nIt does not work yet:")
            _show(failed)
        print()
    if not arguments.part:
        _show_rest()
    return READY if _is_ready(parts) else NOT_READY


def rows_of(part: str, settings: Settings) -> list[Finding]:
    """The doctor's rows about one part."""
    match part:
        case "brain":
            return list(brains(settings, os.environ))
        case "memory":
            return [doctor.memory(settings)]
        case "transport":
            return list(chats(settings, os.environ))
        case _:
            return list(doctor.boxes(settings))


def _is_ready(parts: Sequence[str]) -> bool:
    """Whether nothing of these failed, and whoever set up a brain has one."""
    rows = [row for part in parts for row in rows_of(part, load_settings(os.environ))]
    no_brain = any(row.name == "brain" and row.state != OK for row in rows)
    return not no_brain and not any(row.state == FAIL for row in rows)


def _show_rest() -> None:
    """The other rows that are not well: each says for itself what mends it."""
    settings = load_settings(os.environ)
    rest = doctor.beside_boxes(settings, place_in_use(os.environ), datetime.now(UTC))
    print("the machine\n")
    _show([row for row in rest if row.state != OK] or [Finding("all else", OK, "well")])


def _show(rows: Sequence[Finding]) -> None:
    """Print them, without the advice to do what is being done."""
    print(laid_out([replace(row, then="") if row.then.startswith("`kagura-kernel setup") else row for row in rows]))


_SIGN_IN = """\
Sign in once by typing `{program}` in a terminal, or set ANTHROPIC_API_KEY where kernels and shells start:
  export ANTHROPIC_API_KEY=…
Nothing has to be written into the settings for either."""
_SERVICE = """\
Any service with an OpenAI-compatible API does: name one in the settings (`endpoint = "ollama"`), and its model
(`model = "…"`). `kagura-kernel setup brain` at a terminal asks for both, and keeps a key in the keychain."""


@dataclass(frozen=True)
class Walk:
    """Asks a person about one part after the other."""

    environ: Mapping[str, str]  # Variables
    _: KW_ONLY
    asks: bool  # Whether somebody can be asked
    talk: Talk = field(default_factory=Talk)  # How they are asked

    def through(self, part: str, settings: Settings) -> None:
        """Walk through one part.

        Raises:
            ConfigurationError: the settings cannot be written, or would be wrong.
            EOFError: nobody answers any more.
        """
        match part:
            case "brain":
                self._brain(settings)
            case "transport":
                self._transport(settings)
            case "memory" if self.asks:
                self._memory()
            case "sandbox" if self.asks:
                self._sandbox()

    def set_back(self, parts: Sequence[str], settings: Settings) -> None:
        """Set back what nothing could make right: all of it at once, since a file with the rest of it is not written.

        Raises:
            ConfigurationError: the settings cannot be written, or would still be wrong.
        """
        third = registered()
        boxes = (AUTO, *BUILT_IN, *third.backends, *third.broken)
        wrong = {
            BRAIN: ("brain", "auto", settings.brain not in ("auto", *brain_names())),
            MEMORY: ("memory", "", bool(check_memory(settings))),
            SANDBOX: ("box", AUTO, settings.box not in boxes),
        }
        values = {name: value for part, (name, value, is_wrong) in wrong.items() if is_wrong and part in parts}
        if values:
            path = write_settings(self.environ, values)
            for name, value in values.items():
                self._say_written(name, value, path)
            self.talk.say("")

    def _brain(self, settings: Settings) -> None:
        if not self.asks:
            if any(row.state != OK for row in brains(settings, self.environ) if row.name == "brain"):
                self.talk.say(f"{self._sign_in}\n{_SERVICE}")
            return
        ways = ["leave it as it is", "Claude, by a sign-in or a key"]
        ways += ["a service with an OpenAI-compatible API, or a model on this machine"]
        self.talk.say("Looking for models on this machine …")
        found = [(one.name, model) for one in local_services(local_urls(settings)) for model in one.models]
        here = [f"{model}, which {name} has on this machine" for name, model in found]
        number = self.talk.choose("Which brain should think?", [*ways, *here])
        if number == 0:
            return
        if number == 1:
            self._claude()
            return
        if number >= len(ways):
            self._use(*found[number - len(ways)])
            return
        names = list(KNOWN)
        number = self.talk.choose("Which service?", [*names, "another one, by its URL"])
        self._service(names[number] if number < len(names) else "", settings)

    @property
    def _sign_in(self) -> str:
        # The program that comes with our library is on nobody's PATH.
        return _SIGN_IN.format(program=brain_choice.sign_in_command(self.environ) or "claude")

    def _claude(self) -> None:
        self.talk.say(self._sign_in)
        key = self.talk.ask_secret("Or a key of Anthropic's, which goes into the keychain (empty to skip): ").strip()
        try:
            brain_choice.use_claude(self.environ, key)
        except KeychainUnusable as error:
            self.talk.say(f"It was not kept: {error}. Keep it in the variable ANTHROPIC_API_KEY.")
            return
        if key:
            self.talk.say("It was kept in the keychain, and `claude_key_keyring` of your settings says so.")
        self._say_missing(brain_choice.missing_claude(self.environ))
        self._say_overridden()

    def _use(self, name: str, model: str) -> None:
        """A model that was found."""
        brain_choice.use_service(self.environ, name, model)
        self.talk.say(f"Your settings name {model} of {name} now.")
        self._say_missing(brain_choice.missing_library())
        self._say_overridden()

    def _say_missing(self, install: str) -> None:
        if install:
            self.talk.say(f"It needs one more package: {install}.")

    def _say_overridden(self) -> None:
        for variable in brain_choice.overriding(self.environ):
            self.talk.say(f"The variable {variable} overrides it: take it away, or change it.")

    def _service(self, known: str, settings: Settings) -> None:
        name = known or self.talk.ask("A short name for it: ").strip()
        if not known:
            url = self.talk.ask("Its base URL, with the /v1 that most have: ").strip()
            self._write("url", url, table=f"endpoints.{name}")
            here = {one: at for one, at in local_urls(load_settings(self.environ)).items() if one == name}
            if models := [model for one in local_services(here) for model in one.models]:
                self._use(name, models[self.talk.choose("Which of its models?", models)])
                return
        self._write("endpoint", name)
        # What another service calls its model means nothing to this one.
        kept = settings.model if name == settings.endpoint else ""
        model = self.talk.ask(f"Its model [{kept or 'none, each run names one'}]: ").strip() or kept
        if model != settings.model:
            self._write("model", model)
        self._write("brain", "pydantic_ai")
        variable = KNOWN[known].variable if known else ""
        if known and not variable:
            self.talk.say(f"It needs no key; {KNOWN[known].start}.")
            return
        place = f"the variable {variable} does, too" if variable else "empty where it needs none"
        secret = self.talk.ask_secret(f"Its key, which goes into the keychain ({place}; empty to skip): ").strip()
        advice = f" Keep it in a variable, and name it in `key_env` of [endpoints.{name}]."
        if secret and _keep(self.talk, name, secret, advice):
            self._write("key_keyring", f"{KEYCHAIN}/{name}", table=f"endpoints.{name}")

    def _memory(self) -> None:
        ways = ["leave it as it is", "a file in our data directory", "another file", "a PostgreSQL database"]
        match self.talk.choose("Where should memories be kept?", [*ways, "Kagura Memory Cloud"]):
            case 1:
                self._write("memory", "")
            case 2:
                self._keep_at(self.talk.ask_until("Its path; its folder has to be there: ", _no_file))
            case 3:
                asked = "Its URL, postgresql://user@host/database, without a password: "
                self._keep_at(self.talk.ask_until(asked, _no_database))
            case 4:
                self._write("memory", "cloud")
                self.talk.say("Sign in with `kagura auth login` or set KAGURA_API_KEY, and set KAGURA_CONTEXT_ID.")

    def _keep_at(self, place: str) -> None:
        if place:
            self._write("memory", place)

    def _sandbox(self) -> None:
        names = [AUTO, *BUILT_IN]
        ways = ["leave it as it is", "auto: Docker where its image is built, else bubblewrap", *BUILT_IN]
        number = self.talk.choose("Which box should runs have?", ways)
        if number:
            self._write("box", names[number - 1])

    def _transport(self, settings: Settings) -> None:
        if self.asks:
            set_up_chat(self.talk, settings, self.environ)
        elif not settings.transports:
            self.talk.say(WITHOUT_ASKING)

    def _write(self, name: str, value: str, *, table: str = "") -> None:
        self._say_written(name, value, write_setting(self.environ, name, value, table=table), table)

    def _say_written(self, name: str, value: str, path: Path, table: str = "") -> None:
        shown = f"[{table}] {name}" if table else name
        self.talk.say(f"{shown} = {value!r} was written to {path}.")
        variable = f"KAGURA_{name.upper()}"
        if not table and variable in self.environ:
            self.talk.say(f"The variable {variable} overrides it: take it away, or change it.")
