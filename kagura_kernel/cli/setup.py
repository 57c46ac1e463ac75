"""`kagura-kernel setup`: walks through what the doctor finds, and writes down what a person chooses.

Without a terminal, or with `--yes`, nobody is asked: what cannot be right is set back to what always works, and the
rest is told. A key is never written into a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.assembly import brain_choice, brain_names, load_settings
from kagura_kernel.assembly.local_services import local_services, local_urls
from kagura_kernel.assembly.settings_file import KEYCHAIN, write_setting
from kagura_kernel.brain.openai_compatible import KNOWN
from kagura_kernel.cli import doctor
from kagura_kernel.cli.doctor_rows import BRAIN, FAIL, MEMORY, OK, SANDBOX, TRANSPORT, Finding, brains, chats, laid_out
from kagura_kernel.cli.setup_chats import WITHOUT_ASKING, Talk, set_up_chat
from kagura_kernel.cli.status import look_at_memory
from kagura_kernel.domain.errors import ConfigurationError, KaguraError
from kagura_kernel.journal.place import place_in_use
from kagura_kernel.membrane.credentials.secret import KeychainUnusable, keep_in_keychain
from kagura_kernel.sandbox.selection import AUTO, BUILT_IN

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Settings


READY, NOT_READY = 0, 3
PARTS = (BRAIN, MEMORY, SANDBOX, TRANSPORT)


def setup(arguments: SimpleNamespace) -> int:
    """Walk through one part, or all; 0 when runs can begin with them, 3 when something still has to be done.

    Raises:
        ConfigurationError: the settings are wrong, or cannot be written.
    """
    parts = [arguments.part] if arguments.part else list(PARTS)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.yes
    walk = Walk(os.environ, asks=asks, mend=arguments.yes)
    for part in parts:
        print(f"{part}\n")
        _show(rows_of(part, load_settings(os.environ)))
        try:
            walk.through(part, load_settings(os.environ))
        except (EOFError, KeyboardInterrupt):
            print("\nNothing more was changed.")
            break
        except KaguraError as error:
            from kagura_kernel.cli.main import told

            print(told(error), file=sys.stderr)
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
Sign in once by typing `claude` in a terminal, or set ANTHROPIC_API_KEY where kernels and shells start:
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
    mend: bool  # Whether what cannot be right is set back where nobody is asked
    talk: Talk = field(default_factory=Talk)  # How they are asked

    def through(self, part: str, settings: Settings) -> None:
        """Walk through one part.

        Raises:
            ConfigurationError: the settings cannot be written, or would be wrong.
            EOFError: nobody answers any more.
        """
        walks = {"brain": self._brain, "memory": self._memory, "sandbox": self._sandbox, "transport": self._transport}
        walks[part](settings)

    def _brain(self, settings: Settings) -> None:
        if not self.asks:
            if any(row.state != OK for row in brains(settings, self.environ) if row.name == "brain"):
                self.talk.say(f"{_SIGN_IN}\n{_SERVICE}")
            if self.mend and settings.brain not in ("auto", *brain_names()):
                self._write("brain", "auto")
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

    def _claude(self) -> None:
        self.talk.say(_SIGN_IN)
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
        model = self.talk.ask(f"Its model [{settings.model or 'none, each run names one'}]: ").strip()
        if model:
            self._write("model", model)
        self._write("brain", "pydantic_ai")
        variable = KNOWN[known].variable if known else ""
        if known and not variable:
            self.talk.say(f"It needs no key; {KNOWN[known].start}.")
            return
        place = f"the variable {variable} does, too" if variable else "empty where it needs none"
        secret = self.talk.ask_secret(f"Its key, which goes into the keychain ({place}; empty to skip): ").strip()
        if secret:
            self._keep(name, secret)

    def _keep(self, name: str, secret: str) -> None:
        try:
            keep_in_keychain(KEYCHAIN, name, secret)
        except KeychainUnusable as error:
            self.talk.say(
                f"It was not kept: {error}. Keep it in a variable, and name it in `key_env` of [endpoints.{name}]."
            )
            return
        self._write("key_keyring", f"{KEYCHAIN}/{name}", table=f"endpoints.{name}")

    def _memory(self, settings: Settings) -> None:
        if not self.asks:
            if self.mend and settings.memory and not look_at_memory(settings).ok:
                self._write("memory", "")
            return
        ways = ["leave it as it is", "a file in our data directory", "another file", "a PostgreSQL database"]
        match self.talk.choose("Where should memories be kept?", [*ways, "Kagura Memory Cloud"]):
            case 1:
                self._write("memory", "")
            case 2:
                self._write("memory", self.talk.ask("Its path; its folder has to be there: ").strip())
            case 3:
                self._write("memory", self._database())
            case 4:
                self._write("memory", "cloud")
                self.talk.say("Sign in as its documentation says, or set KAGURA_API_KEY.")

    def _database(self) -> str:
        from urllib.parse import urlsplit

        url = self.talk.ask("Its URL, postgresql://user@host/database, without a password: ").strip()
        if urlsplit(url).password:
            raise ConfigurationError(
                "that URL", ["it holds a password, which is never written into the settings; use ~/.pgpass"]
            )
        return url

    def _sandbox(self, settings: Settings) -> None:
        if not self.asks:
            if self.mend and settings.box != AUTO:
                self._write("box", AUTO)
            return
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
        path = write_setting(self.environ, name, value, table=table)
        shown = f"[{table}] {name}" if table else name
        self.talk.say(f"{shown} = {value!r} was written to {path}.")
        variable = f"KAGURA_{name.upper()}"
        if not table and variable in self.environ:
            self.talk.say(f"The variable {variable} overrides it: take it away, or change it.")
