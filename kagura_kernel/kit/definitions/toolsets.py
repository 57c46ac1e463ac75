"""The toolsets that a definition or `--mcp-config FILE` names: MCP and language servers, and what starts them."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from kagura_kernel.domain.errors import HostNotUnderstood, McpConfigInvalid
from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.kit.definitions.document import MAX_BYTES, one_line, problems_of, shown_key, unseen
from kagura_kernel.membrane.egress.hosts import Target, parse_url

_KEYS = ("args", "env", "headers", "url")


class Given(NamedTuple):
    """One text."""

    place: str  # `env.TOKEN`, `args[1]`
    name: str  # What its value is called, `TOKEN`; of an argument and a URL nothing better than the key
    text: str  # The value


def given_texts(toolset: Mapping[str, Any]) -> Iterator[Given]:
    """The texts in a toolset's fields; what is of another kind than it should be is passed over."""
    for key in _KEYS:
        value = toolset.get(key)
        if isinstance(value, Mapping):
            for name, text in value.items():
                if isinstance(text, str):
                    yield Given(f"{key}.{shown_key(str(name))}", str(name), text)
        elif isinstance(value, list | tuple):
            for at, text in enumerate(value):
                if isinstance(text, str):
                    yield Given(f"{key}[{at}]", key, text)
        elif isinstance(value, str):
            yield Given(key, key, value)


Installer = Literal["pip", "npm", "go", "cargo", "github"]

MAX_NAME = 64
MAX_TOOLSETS = 32
MAX_ARGUMENTS = 128
MAX_ARGUMENT = 4096
"""Characters of one argument, of one variable's value, of one header's value."""
MAX_PATTERNS = 128
MAX_URL = 2048
_OFF = ("off", "false")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9_.*?/:-]{1,128}", re.ASCII)
_LANGUAGE = re.compile(r"[a-z][a-z0-9+#.-]{0,63}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_!~-]{0,99}", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_/-]{0,99}", re.ASCII)
_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_PACKAGES: dict[str, re.Pattern[str]] = {
    "pip": re.compile(rf"{_WORD}(?:\[[A-Za-z0-9][A-Za-z0-9._,-]{{0,99}}\])?", re.ASCII),
    "npm": re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]{0,99}/)?[a-z0-9~][a-z0-9._~-]{0,99}", re.ASCII),
    "go": re.compile(rf"{_WORD}\.[A-Za-z]{{2,63}}(?:/{_WORD}){{1,12}}", re.ASCII),
    "cargo": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII),
    "github": re.compile(rf"{_WORD}/{_WORD}", re.ASCII),
}
# What carries a message is the client's own business.
_OWN_HEADERS = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "mcp-protocol-version", "mcp-session-id"}
    | {"proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)


@dataclass(frozen=True, slots=True)
class Pin:
    """What a toolset's `version` says."""

    installer: Installer | Literal[""] = ""  # What installs it; empty for the one that the registry knows
    package: str = ""  # In the installer's words, `OWNER/REPO` for github; empty for the one that the registry knows
    version: str = ""  # Exactly this one; empty for the newest
    off: bool = False  # It is never installed: its command must be in the box already


def parse_pin(text: str) -> Pin:
    """What `version` means: empty, `off`, a bare version, or `INSTALLER:PACKAGE[@VERSION]`.

    Raises:
        ValueError: it is none of these; the text is half a sentence that does not repeat it.
    """
    if not text:
        return Pin()
    if text in _OFF:
        return Pin(off=True)
    installer, colon, rest = text.partition(":")
    if not colon:
        if not _VERSION.fullmatch(text):
            raise ValueError(
                "must be `off`, a version, or INSTALLER:PACKAGE[@VERSION], as in pip:mcp-server-time@2026.10.19"
            )
        return Pin(version=text)
    if installer not in _PACKAGES:
        raise ValueError(f"its installer must be one of {', '.join(_PACKAGES)}")
    at = rest.rfind("@")
    package, version = (rest[:at], rest[at + 1 :]) if at > 0 else (rest, "")
    if not _PACKAGES[installer].fullmatch(package):
        raise ValueError(f"what stands behind `{installer}:` must be the name of a package of {installer}")
    if at > 0 and not (_TAG if installer == "github" else _VERSION).fullmatch(version):
        raise ValueError("what stands behind the last @ must be a version")
    return Pin(installer, package, version)  # type: ignore[arg-type]  # one of the keys of _PACKAGES


def _as_version(value: Any) -> Any:
    # YAML reads `off` as a boolean.
    return "off" if value is False else value


def as_tuple(value: Any) -> Any:
    """A list as a tuple, and whatever else as it is: documents have lists, and what is frozen has tuples."""
    # A text alone is a list of one for nobody but Python.
    return tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]
"""A list of texts, each exactly a text."""


class _Toolset(BaseModel):
    """What every toolset has."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    name: str  # Kebab-case, unique in its definition; the brain sees it before the names of its tools
    # What is started in the box: a bare name that is looked for there, or an absolute path in the box
    command: str = ""
    args: Texts = Field(default=(), max_length=MAX_ARGUMENTS)  # Its arguments; no shell reads them
    # Variables that it sees beside those of the box
    env: dict[str, str] = Field(default_factory=dict, max_length=MAX_ARGUMENTS)
    # What is installed if the command is not there; see `pin`
    version: Annotated[str, BeforeValidator(_as_version)] = ""
    timeout: float = Field(default=60.0, gt=0, le=3600, allow_inf_nan=False)  # Seconds that one call may take

    @property
    def pin(self) -> Pin:
        """What its version means."""
        return parse_pin(self.version)

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        return agent_name(name)

    @field_validator("command")
    @classmethod
    def _command(cls, command: str) -> str:
        if command and (one_line(command) or command.startswith("-") or len(command) > MAX_ARGUMENT):
            raise ValueError(
                "must be one program, a name or an absolute path in the box; its arguments stand in `args`"
            )
        if sign := unseen(command):
            raise ValueError(f"must not hold {sign}, which nobody would see")
        if " " in command and not command.startswith("/"):
            raise ValueError("must be the program alone; its arguments stand in `args`")
        if "/" in command and (not command.startswith("/") or ".." in command.split("/")):
            raise ValueError("a path must be one in the box, and absolute")
        return command

    @field_validator("args")
    @classmethod
    def _arguments(cls, args: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in one or len(one) > MAX_ARGUMENT for one in args):
            raise ValueError(f"an argument must have at most {MAX_ARGUMENT:,} characters, none of them NUL")
        return args

    @field_validator("env")
    @classmethod
    def _variables(cls, env: dict[str, str]) -> dict[str, str]:
        if not all(_VARIABLE.fullmatch(name) for name in env):
            raise ValueError("a variable's name must be made of letters, digits and _, and must not begin with a digit")
        if any(name.startswith("KAGURA_") for name in env):
            raise ValueError("a name must not begin with KAGURA_: such variables are set by kagura itself")
        if any("\0" in value or len(value) > MAX_ARGUMENT for value in env.values()):
            raise ValueError(f"a value must have at most {MAX_ARGUMENT:,} characters, none of them NUL")
        return env

    @field_validator("version")
    @classmethod
    def _version(cls, version: str) -> str:
        parse_pin(version)
        return "off" if version in _OFF else version


class McpToolset(_Toolset):
    """An MCP server: started in the box (`command`), or reached through its egress (`url`)."""

    type: Literal["mcp"]
    url: str = ""  # Of a remote one, `https://…`
    headers: dict[str, str] = Field(default_factory=dict, max_length=MAX_TOOLSETS)  # What every request to it carries
    tools: Texts = Field(default=(), max_length=MAX_PATTERNS)  # Patterns of the tools that are offered; empty for all
    # Patterns of those that a person is asked about before each call; None is all of a remote server and none of one in
    # the box. See `asks`.
    ask: Texts | None = Field(default=None, max_length=MAX_PATTERNS)
    deny: Texts = Field(default=(), max_length=MAX_PATTERNS)  # Patterns of those that are not offered

    @property
    def remote(self) -> bool:
        """Whether it is reached through egress."""
        return bool(self.url)

    @property
    def asks(self) -> tuple[str, ...]:
        """Patterns of the tools that a person is asked about."""
        if self.ask is None:
            return ("*",) if self.remote else ()
        return self.ask

    @property
    def target(self) -> Target | None:
        """Where a remote one is; None for one in the box."""
        return parse_url(self.url) if self.url else None

    @field_validator("tools", "ask", "deny")
    @classmethod
    def _patterns(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if not all(_PATTERN.fullmatch(one) for one in patterns or ()):
            raise ValueError("a tool's name must be made of letters, digits and _ . / : -, and may hold * and ?")
        return patterns

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        if not url:
            return url
        if not url.startswith("https://") or len(url) > MAX_URL or not url.isascii() or not url.isprintable():
            raise ValueError(f"must be an https:// URL of at most {MAX_URL:,} plain characters")
        if " " in url or "#" in url:
            raise ValueError("must hold no space and no fragment")
        try:
            parse_url(url)
        except HostNotUnderstood as error:
            raise ValueError("must name a host that can be reached, and no user") from error
        return url

    @field_validator("headers")
    @classmethod
    def _headers(cls, headers: dict[str, str]) -> dict[str, str]:
        if not all(_HEADER.fullmatch(name) for name in headers):
            raise ValueError("a header's name must be made of letters, digits and -")
        if any(name.lower() in _OWN_HEADERS for name in headers):
            raise ValueError(
                "headers that carry the messages themselves (Host, Content-Type, Mcp-Session-Id, …) must be left out"
            )
        if any(
            not value.isascii() or not value.isprintable() or len(value) > MAX_ARGUMENT for value in headers.values()
        ):
            raise ValueError(f"a value must be one line of at most {MAX_ARGUMENT:,} plain characters")
        return headers

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        for why in mcp_conflicts(dict(self)):
            raise ValueError(why)
        return self


class LspToolset(_Toolset):
    """A language server, started in the box."""

    type: Literal["lsp"]
    # What it reads: the language's id to the patterns of its files
    languages: dict[str, Texts] = Field(min_length=1, max_length=MAX_TOOLSETS)

    @property
    def remote(self) -> bool:
        """Never: it reads the workspace."""
        return False

    @field_validator("languages")
    @classmethod
    def _languages(cls, languages: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if not all(_LANGUAGE.fullmatch(name) for name in languages):
            raise ValueError("a language must be written as language servers do: python, typescript, c++")
        for patterns in languages.values():
            if not patterns or len(patterns) > MAX_PATTERNS:
                raise ValueError(f"each language must have 1 to {MAX_PATTERNS} patterns of file names")
            if any(not one or one_line(one) or len(one) > MAX_NAME for one in patterns):
                raise ValueError('a pattern must be a file\'s name with * and ?, as in "*.py"')
        return languages

    @model_validator(mode="after")
    def _started(self) -> Self:
        for why in lsp_conflicts(dict(self)):
            raise ValueError(why)
        return self


Toolset = Annotated[McpToolset | LspToolset, Field(discriminator="type")]
"""One of the two, told by `type`."""


def mcp_conflicts(given: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the fields of an MCP server together, whatever is wrong with each of them."""
    if bool(given.get("command")) == bool(given.get("url")):
        yield "must have either a `command`, which is started in the box, or a `url`"
    if given.get("url"):
        if odd := [f"`{key}`" for key in ("args", "env", "version") if given.get(key)]:
            yield f"{' and '.join(odd)} must be left out, for there is a `url` and nothing to start"
    elif given.get("headers"):
        yield "`headers` must be left out, for there is no `url`"


def lsp_conflicts(given: Mapping[str, Any]) -> Iterator[str]:
    """Likewise of a language server."""
    if not given.get("command"):
        yield "must have a `command`, which is started in the box"


def agent_name(name: str) -> str:
    """A name of an agent or a toolset, checked.

    Raises:
        ValueError: it is not kebab-case, or too long.
    """
    if len(name) > MAX_NAME or not AGENT_NAME.fullmatch(name):
        raise ValueError(
            f"must be made of a-z, 0-9 and single dashes, begin with a letter, and have at most {MAX_NAME} characters"
        )
    return name


def plain_line(text: str, most: int) -> str:
    """One line that a person sees as it is.

    Raises:
        ValueError: it has several lines, is too long, or holds what nobody would see.
    """
    if one_line(text) or len(text) > most:
        raise ValueError(f"must be one line of at most {most:,} characters")
    if sign := unseen(text):
        raise ValueError(f"must not hold {sign}, which nobody would see")
    return text


MAX_SERVERS = 32

_SERVERS = "mcpServers"
_TYPES = ("stdio", "http", "streamable-http")
_OTHER = re.compile(r"[^a-z0-9]+")
# What other programs put into the same file, and means nothing for what a run is given.
_PASSED_OVER = frozenset({"type", "disabled", "description", "autoApprove", "alwaysAllow"})
_REFERS = re.compile(r"\$\{[^}]*\}|\$env:")

HoldsSecret = Callable[[str], bool]


def read_mcp_config(path: Path, *, holds_secret: HoldsSecret | None = None) -> tuple[McpToolset, ...]:
    """The toolsets of such a file, in its order; servers that are switched off there are left out.

    Args:
        path: The file; a link is followed, for a person typed it.
        holds_secret: Whether a text holds one; such a file is refused, for what is in it is shown and enters the box.

    Raises:
        McpConfigInvalid: it cannot be read or used; all problems at once, each without a value.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise McpConfigInvalid(str(path), [f"it cannot be read: {(error.strerror or str(error)).lower()}"]) from error
    return parse_mcp_config(data, str(path), holds_secret=holds_secret)


def parse_mcp_config(data: bytes, source: str, *, holds_secret: HoldsSecret | None = None) -> tuple[McpToolset, ...]:
    """The toolsets in such a text, in its order; `source` names it in errors.

    Raises:
        McpConfigInvalid: it cannot be used; all problems at once, each without a value.
    """
    problems: list[str] = []
    servers = _servers(data, source, problems)
    found: dict[str, McpToolset] = {}
    for number, (word, said) in enumerate(servers.items()):
        if number >= MAX_SERVERS:
            problems.append(f"{_SERVERS}: must have at most {MAX_SERVERS} entries")
            break
        place = f"{_SERVERS}.{shown_key(word)}"
        toolset = _toolset(word, said, place, problems, holds_secret)
        if toolset is None:
            continue
        if toolset.name in found:
            problems.append(f"{place}: it would be called {toolset.name}, and so is another one")
        found[toolset.name] = toolset
    if problems:
        raise McpConfigInvalid(source, problems)
    return tuple(found.values())


def with_mcp_config(own: Sequence[Toolset], added: Sequence[McpToolset], *, strict: bool) -> tuple[Toolset, ...]:
    """The toolsets of one run: a definition's own, and those of a file.

    A file's server takes the place of the definition's of the same name, and stands where that stood.

    Args:
        own: The definition's.
        added: The file's.
        strict: Whether the file's MCP servers are the only ones; language servers stay.
    """
    new = {one.name: one for one in added}
    kept = [new.pop(one.name, one) for one in own if one.name in new or one.type == "lsp" or not strict]
    return (*kept, *new.values())


def _read(path: Path) -> bytes:
    # Not blocking: what was named may be a pipe that nobody writes to.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        return file.read(MAX_BYTES + 1)


def _servers(data: bytes, source: str, problems: list[str]) -> Mapping[str, Any]:
    """What stands below `mcpServers`.

    Raises:
        McpConfigInvalid: nothing in it can be looked at.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            problems.append("a key stands twice in one object")
        return found

    if len(data) > MAX_BYTES:
        raise McpConfigInvalid(source, [f"it is larger than {MAX_BYTES >> 10} KiB"])
    try:
        said = json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise McpConfigInvalid(source, ["it is not UTF-8"]) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise McpConfigInvalid(source, [f"it is not JSON: {error.msg} ({where})"]) from error
    except (RecursionError, ValueError) as error:
        raise McpConfigInvalid(source, ["it is not JSON that can be used"]) from error
    servers = said.get(_SERVERS) if isinstance(said, dict) else None
    if not isinstance(servers, dict):
        raise McpConfigInvalid(
            source, [*problems, f'it has no object `{_SERVERS}`: {{"{_SERVERS}": {{"NAME": {{"command": …}}}}}}']
        )
    return servers


def _toolset(
    word: str, said: Any, place: str, problems: list[str], holds_secret: HoldsSecret | None
) -> McpToolset | None:
    """One server; None where it is switched off, or has problems, which are added."""
    if not isinstance(said, dict):
        problems.append(f"{place}: must be an object")
        return None
    if said.get("disabled") is True:
        return None
    kind = said.get("type", "stdio" if "command" in said else "http")
    wrong = [] if kind in _TYPES else [f"{place}: its `type` must be one of {', '.join(_TYPES)}"]
    if kind in _TYPES and (kind == "stdio") != ("command" in said):
        wrong.append(f"{place}: a server of type stdio must have a `command`, and any other a `url`")
    values = {key: value for key, value in said.items() if key not in _PASSED_OVER}
    for place_in_it, name, text in given_texts(values):
        if _REFERS.search(text):
            wrong.append(
                f"{place}.{place_in_it}: variables of this machine are not put in; write the value, or leave it out"
            )
        if holds_secret is not None and holds_secret(f"{name}={text}"):
            wrong.append(
                f"{place}.{place_in_it}: it holds a secret, and what stands here is shown and enters the box; grant a "
                "credential to the run instead (`--grant`)"
            )
    try:
        toolset = McpToolset.model_validate({**values, "type": "mcp", "name": _name(word)})
    except ValidationError as error:
        wrong += problems_of(error, [McpToolset], (_SERVERS, word))
        toolset = None
    problems += wrong
    return None if wrong else toolset


def _name(word: str) -> str:
    """A server's name as toolsets are called: `My_Server` is `my-server`."""
    return _OTHER.sub("-", word.lower()).strip("-")
