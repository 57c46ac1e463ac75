"""The first line of a `%%kagura` or `%%sandbox` cell as a value.

Pure: a line goes in, options or one clear `UsageError` with a short usage come out. What the options mean is decided
further down; here only their form is checked.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NoReturn

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.jupyter.usage import KAGURA_USAGE, SANDBOX_USAGE

LANGUAGES = ("python", "bash")
"""What `%%sandbox` runs."""


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What both kinds of cells take.

    Attributes:
        box: Back-end asked for; None leaves it to the settings, as everywhere below.
        image: Image for back-ends that have images.
        session: Name of the session; None is the notebook's own.
        new_session: Whether to start a fresh one.
        timeout: Seconds for one command; 0 lifts the limit.
        idle: Seconds a command may be silent; 0 lifts the limit.
        write: How changes reach the project.
        background: Whether the cell returns at once.
        net: Words that open hosts, in the order in which they were given.
        grants: Credentials it may hold, each as `provider:scope`.
        writable_root: Whether it may change its whole system.
    """

    box: str | None = None
    image: str | None = None
    session: str | None = None
    new_session: bool = False
    timeout: float | None = None
    idle: float | None = None
    write: WriteMode | None = None
    background: bool = False
    net: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    writable_root: bool = False


@dataclass(frozen=True, slots=True)
class KaguraOptions(CellOptions):
    """What `%%kagura` takes beside that.

    Attributes:
        brain: Brain asked for.
        model: Model asked for.
        budget_usd: The most it may cost, USD.
        max_turns: How often the brain may go round.
        record: Cassette to write.
        replay: Cassette to play.
    """

    brain: str | None = None
    model: str | None = None
    budget_usd: float | None = None
    max_turns: int | None = None
    record: Path | None = None
    replay: Path | None = None


@dataclass(frozen=True, slots=True)
class SandboxOptions(CellOptions):
    """What `%%sandbox` takes beside that: the language of the cell."""

    language: Literal["python", "bash"] = "python"


def parse_kagura(line: str) -> KaguraOptions:
    """Options of a `%%kagura` line.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    parser = _Parser("%%kagura", KAGURA_USAGE)
    _common(parser)
    parser.add_argument("--brain")
    parser.add_argument("--model")
    parser.add_argument("--budget", dest="budget_usd", type=_usd)
    parser.add_argument("--max-turns", type=_count)
    cassette = parser.add_mutually_exclusive_group()
    cassette.add_argument("--record", type=_path)
    cassette.add_argument("--replay", type=_path)
    return KaguraOptions(**vars(parser.parse_line(line)))


def parse_sandbox(line: str) -> SandboxOptions:
    """Options of a `%%sandbox` line; the language may stand anywhere in it, and is python when it is not named.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    parser = _Parser("%%sandbox", SANDBOX_USAGE)
    _common(parser)
    # Looked at last: the value of an option that is unknown here would be taken for a language.
    parser.add_argument("language", nargs="?", default="python")
    found = vars(parser.parse_line(line))
    try:
        _one_of(found["language"], LANGUAGES)
    except argparse.ArgumentTypeError as why:
        parser.error(str(why))
    return SandboxOptions(**found)


def split_line(line: str, where: str) -> list[str]:
    """Words of a line, quoted as in a shell.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return shlex.split(line)
    except ValueError as why:
        raise UsageError(f"{where} {line}: a quote is not closed.") from why


def _common(parser: _Parser) -> None:
    parser.add_argument("--box")
    parser.add_argument("--image")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", type=_name)
    which.add_argument("--new", dest="new_session", action="store_true")
    parser.add_argument("--timeout", type=_seconds)
    parser.add_argument("--idle", type=_seconds)
    parser.add_argument("--write", type=_write)
    parser.add_argument("--bg", dest="background", action="store_true")
    parser.add_argument("--net", action="extend", type=_nets)
    parser.add_argument("--grant", dest="grants", action="extend", type=_grants)
    parser.add_argument("--writable-root", action="store_true")


class _Parser(argparse.ArgumentParser):
    """argparse that raises our error, never exits, and knows what was meant."""

    def __init__(self, magic: str, usage: str) -> None:
        super().__init__(prog=magic, add_help=False, allow_abbrev=False)
        self.magic = magic
        self.short_usage = usage

    def parse_line(self, line: str) -> argparse.Namespace:
        namespace, rest = self.parse_known_args(split_line(line, self.magic))
        if rest:
            self.error(self._unknown(rest))
        # Given twice counts once.
        for name in ("net", "grants"):
            setattr(namespace, name, tuple(dict.fromkeys(getattr(namespace, name) or ())))
        return namespace

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith((".", "?")) else "."
        raise UsageError(f"{self.magic}: {message[:1].upper()}{message[1:]}{end}\n{self.short_usage}")

    def _unknown(self, words: Sequence[str]) -> str:
        word = words[0].split("=", 1)[0]
        known = [option for action in self._actions for option in action.option_strings]
        what = "option" if word.startswith("-") else "word"
        if what == "option":
            # Without the dashes, which all options share.
            near = [f"--{name}" for name in _near(word.lstrip("-"), [option.lstrip("-") for option in known])]
        else:
            near = _near(word, LANGUAGES)
        hint = f" Did you mean {near[0]}?" if near else ""
        task = "" if word.startswith("-") or self.magic == "%%sandbox" else " The task goes into the lines below."
        return f"there is no {what} {word!r} here.{hint}{task}"


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}") from why
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}")
    return value


def _seconds(text: str) -> float:
    return _number(text.removesuffix("s"), "number of seconds")


def _usd(text: str) -> float:
    value = _number(text.removeprefix("$"), "amount in USD")
    if value == 0:
        raise argparse.ArgumentTypeError("a budget of 0 USD buys nothing")
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from why
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of turns; it has to be 1 or more")
    return value


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return Path(text).expanduser()


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the session is empty")
    return text


def _write(text: str) -> WriteMode:
    return WriteMode(_one_of(text, [mode.value for mode in WriteMode]))


def _near(word: str, known: Sequence[str]) -> list[str]:
    """What was probably meant; only a name that is near."""
    return get_close_matches(word, known, n=1, cutoff=0.6)


def _words(text: str, what: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise argparse.ArgumentTypeError(f"a {what} is empty")
    return words


def _nets(text: str) -> tuple[str, ...]:
    words = _words(text, "word after --net")
    for word in words:
        # Whoever has sets of their own may name them after ours, and a single word may be a host of this network:
        # only what is nearly one of ours, and holds none of them, is taken for a slip.
        if "." in word or ":" in word or any(name in word for name in _net_words()):
            continue
        if near := get_close_matches(word, _net_words(), n=1, cutoff=0.8):
            hint = f"Did you mean {near[0]}? A host of this name is written {word}:443."
            raise argparse.ArgumentTypeError(f"{word!r} is no set of hosts. {hint}")
    return words


def _net_words() -> tuple[str, ...]:
    from kagura_kernel.membrane.egress.hostsets import HOST_SETS

    return ("ask", "none", *HOST_SETS)


def _grants(text: str) -> tuple[str, ...]:
    words = _words(text, "word after --grant")
    if not all(0 < word.find(":") < len(word) - 1 for word in words):
        # Not repeated: somebody may have pasted a secret here.
        raise argparse.ArgumentTypeError("a grant is written PROVIDER:SCOPE, as in `--grant github:read`")
    return words


def _one_of(text: str, known: Sequence[str]) -> str:
    if text in known:
        return text
    near = _near(text, known)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}.{hint}")
