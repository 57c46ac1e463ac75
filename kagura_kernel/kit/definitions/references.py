"""From a reference to an agent: a file, a name, an https URL, or an OCI artifact that is pinned by its digest."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from kagura_kernel.domain.errors import AgentInvalid, AgentNotFound, AgentUnavailable, UnknownName, UsageError
from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal.place import data_home
from kagura_kernel.kit.definitions.definition import AgentDefinition, as_yaml, digest_of, parse_definition, said
from kagura_kernel.kit.definitions.document import MAX_BYTES
from kagura_kernel.kit.definitions.fetcher import Fetcher, NotFetched
from kagura_kernel.kit.definitions.oci import (
    Logins,
    PinnedDocuments,
    fetch_artifact,
    is_digest,
    is_github,
    parse_oci,
    sha256,
)

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor


Kind = Literal["file", "own", "built-in", "url", "oci", "inline"]

DEFAULT_AGENT = "default"
"""The agent of a cell that names none."""

SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_BUILT_IN = Path(__file__).parent / "agents"
_READY = Path(__file__).parent / "ready"
_PIN = "sha256="
_URLS = ("https://", "http://")
_OCI = "oci://"
_FOR_SOME = (401, 403)
_LOGIN = "If it is for some people only, set GITHUB_TOKEN for a host of GitHub, or write a login for it into ~/.netrc."


@dataclass(frozen=True, slots=True)
class AgentPlaces:
    """Where references are looked for."""

    cwd: Path  # What relative paths begin at
    own: Path  # The person's own definitions, `<data home>/agents`; need not exist
    cache: Path  # Where documents that are pinned by a digest are kept; need not exist
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """The document of a definition, and where it was found."""

    data: bytes  # Its bytes
    reference: str  # In its normal form
    shown: str  # What it is called in errors
    document_name: str  # The same with a suffix that tells its form
    kind: Kind  # What sort of reference it is
    base: Path | None = None  # What its own relative references begin at; None where there are none
    trusted: bool = False  # Whether the person wrote it for themselves, or we did
    host: str = ""  # Of a URL, which its own URLs may lead to


class Sources:
    """Finds documents.

    Args:
        places: Where references are looked for.
        fetch: What carries requests.
    """

    def __init__(self, places: AgentPlaces, fetch: Fetcher) -> None:
        self._places = places
        self._fetch = fetch
        self._kept = PinnedDocuments(places.cache)
        self._logins = Logins(places.environ)

    def find(self, reference: str, *, shows_login: bool = True) -> Source:
        """What a reference leads to; hosts that it names are shown the person's login where that is wanted.

        Raises:
            AgentNotFound: nothing.
            AgentUnavailable: to something that cannot be read, fetched, or is not what was pinned.
        """
        if reference.startswith(_OCI):
            return self._oci(reference, shows_login=shows_login)
        if reference.startswith(_URLS):
            return self._url(reference, shows_login=shows_login)
        if "://" in reference:
            raise AgentNotFound(reference)
        if is_path(reference):
            return self._file(reference, self._places.cwd)
        return self._named(reference)

    def find_from(self, reference: str, above: Source) -> Source:
        """What a reference in a definition leads to.

        A definition from elsewhere may name what we bring along and its own host, and no file of this machine.

        Raises:
            AgentNotFound: nothing.
            AgentUnavailable: likewise, or to what it must not name.
        """
        if above.base is None and above.kind != "built-in":
            return self._remote_from(reference, above)
        if is_path(reference) and "://" not in reference:
            if above.base is None:
                raise AgentNotFound(reference)
            return self._file(reference, above.base)
        if reference.startswith("http://"):
            raise AgentUnavailable(reference, "a definition names others over HTTPS alone")
        # A file that somebody else wrote does not say where a person's logins are shown.
        return self.find(reference, shows_login=above.trusted or above.kind == "built-in")

    def _remote_from(self, reference: str, above: Source) -> Source:
        if reference in built_in_names():
            return _built_in(reference)
        if not reference.startswith((*_URLS, _OCI)):
            raise AgentUnavailable(
                reference,
                f"{above.shown} was fetched, and what is fetched names no files and no agents of this machine",
            )
        if _host(reference) != above.host:
            raise AgentUnavailable(shown_url(reference), f"{above.shown} may name agents of its own host alone")
        return self.find(reference)

    def _named(self, name: str) -> Source:
        if name in own_names(self._places):
            path = next(path for suffix in SUFFIXES if (path := self._places.own / f"{name}{suffix}").exists())
            return self._read(path, name, "own")
        if name in built_in_names():
            return _built_in(name)
        raise AgentNotFound(name, known_agents(self._places))

    def _file(self, reference: str, base: Path) -> Source:
        home = self._places.environ.get("HOME", "")
        text = home + reference[1:] if reference.startswith("~/") and home else reference
        return self._read(Path(os.path.normpath(base / text)), reference, "file")

    def _read(self, path: Path, reference: str, kind: Kind) -> Source:
        data, info = _bytes_of(path, reference)
        real = path.resolve()
        return Source(
            data=data,
            reference=str(real),
            shown=reference,
            document_name=f"{reference}{path.suffix}" if kind == "own" else reference,
            kind=kind,
            base=real.parent,
            trusted=is_own(real, info, self._places.own),
        )

    def _url(self, reference: str, *, shows_login: bool) -> Source:
        url, _, fragment = reference.partition("#")
        shown = shown_url(url)
        pin = fragment.removeprefix(_PIN)
        if fragment and not (fragment.startswith(_PIN) and is_digest(pin)):
            raise AgentUnavailable(shown, "what stands behind # is not sha256= and 64 digits of 0-9 and a-f")
        try:
            data = (self._kept.find(pin) if pin else None) or self._fetched(url, shown, shows_login=shows_login)
        except NotFetched as error:
            raise AgentUnavailable(shown, str(error)) from error
        if pin and sha256(data) != pin:
            raise AgentUnavailable(
                shown, "it is not what was pinned", f"It now has sha256={sha256(data)}: look at what was changed first."
            )
        if pin:
            self._kept.keep(data)
        return Source(data, url, shown, shown, "url", host=_host(url))

    def _fetched(self, url: str, shown: str, *, shows_login: bool) -> bytes:
        headers = {"accept": "application/yaml, application/toml, text/*, */*;q=0.5"}
        login = self._logins.of_host(_host(url)) if shows_login else ""
        answer = self._fetch.get(url, headers | ({"authorization": login} if login else {}))
        # GitHub tells a stranger that what is private is not there.
        for_some = (*_FOR_SOME, 404) if is_github(_host(url)) else _FOR_SOME
        if answer.status in for_some and not login:
            raise AgentUnavailable(shown, f"the server answers {answer.status} to somebody without a login", _LOGIN)
        if answer.status == 404:  # noqa: PLR2004 - not found
            raise AgentNotFound(shown)
        if not answer.ok:
            raise AgentUnavailable(shown, f"the server answers {answer.status}")
        return answer.body

    def _oci(self, reference: str, *, shows_login: bool) -> Source:
        artifact = parse_oci(reference)
        logins = self._logins if shows_login else None
        data, name = fetch_artifact(artifact, self._fetch, self._kept, logins)
        return Source(data, str(artifact), str(artifact), name, "oci", host=_host(str(artifact)))


def is_path(reference: str) -> bool:
    """Whether a reference is a file's path, not a name."""
    return "/" in reference or reference.startswith((".", "~")) or reference.endswith(SUFFIXES)


def shown_url(url: str) -> str:
    """A URL as it may stand in messages: without a user name and parameters, where secrets may be."""
    scheme, separator, rest = url.partition("#")[0].partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _host(url: str) -> str:
    """Whom a URL asks, as it is written there."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].lower()


def add_ready(name: str, own: Path) -> tuple[Path, str]:
    """Write a definition that comes ready for a service into a person's own ones; where it is, and what it says.

    Raises:
        UnknownName: there is none of this name.
        UsageError: the person has one of this name, which is left as it is, or it cannot be written.
    """
    found = {path.stem: path for path in _READY.glob("*.yaml")}
    if name not in found:
        raise UnknownName("ready definition", name, sorted(found))
    if taken := next((path for suffix in SUFFIXES if (path := own / f"{name}{suffix}").exists()), None):
        raise UsageError(f"There is an agent {name} already, which is left as it is: {taken}.")
    text, path = found[name].read_text(), own / f"{name}.yaml"
    try:
        own.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
    return path, text


def built_in_names() -> tuple[str, ...]:
    """The agents that come along, sorted."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.yaml")))


def own_names(places: AgentPlaces) -> tuple[str, ...]:
    """The person's own agents, sorted; none where there is no folder."""
    try:
        found = [path.stem for path in places.own.iterdir() if path.suffix in SUFFIXES and path.is_file()]
    except OSError:
        return ()
    return tuple(sorted({name for name in found if AGENT_NAME.fullmatch(name)}))


def is_own(path: Path, info: os.stat_result, own: Path) -> bool:
    """Whether a file is one that only this person can have written, and lies in their folder; links resolved."""
    try:
        folder = own.resolve()
        about = folder.stat()
    except OSError:
        return False
    mine = all(one.st_uid == os.getuid() and not one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in (info, about))
    return mine and path.parent == folder


def _built_in(name: str) -> Source:
    path = _BUILT_IN / f"{name}.yaml"
    return Source(path.read_bytes(), name, name, f"{name}.yaml", "built-in", trusted=True)


def _bytes_of(path: Path, reference: str) -> tuple[bytes, os.stat_result]:
    """A regular file's bytes and what it is; links are followed, since a person named it.

    Raises:
        AgentNotFound: it is not there.
        AgentUnavailable: it is no regular file, too large, or cannot be read.
    """
    try:
        # Without O_NONBLOCK a FIFO would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise AgentUnavailable(reference, "it is no regular file")
            if info.st_size > MAX_BYTES:
                raise AgentUnavailable(reference, f"it is larger than {MAX_BYTES >> 10} KiB")
            return file.read(MAX_BYTES + 1), info
    except (FileNotFoundError, NotADirectoryError) as error:
        raise AgentNotFound(reference) from error
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        why = (
            "it is a directory"
            if number == errno.EISDIR
            else f"it cannot be read ({os.strerror(number)})"
            if number
            else "its path is none"
        )
        raise AgentUnavailable(reference, why) from error


MAX_SUB_DEPTH = 3
MAX_SUB_AGENTS = 16


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """A definition and where it comes from."""

    definition: AgentDefinition  # As it was read
    # In its normal form: an absolute path, a name, a URL without a pin, or `oci://…@sha256:…`. Holds places of the
    # host: never for a box, a brain, or a manifest.
    reference: str
    kind: Kind  # What sort of reference it is; `inline` for a sub-agent that its parent defines
    base: Path | None  # The directory that its own relative references begin at; None where there are none
    trusted: bool  # Whether the person wrote it for themselves, or we did: its grants are as if typed
    digest: str  # SHA-256 over what it and all its sub-agents say
    document: str = ""  # SHA-256 of the document's bytes: what a pin says; empty for an inline one
    # Its sub-agents, by the names under which it knows them
    agents: Mapping[str, ResolvedAgent] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """Its name, as it says itself."""
        return self.definition.name

    def to_yaml(self) -> str:
        """It and its sub-agents as one document without references and places."""
        return as_yaml(self.said())

    def said(self) -> dict[str, Any]:
        """What it and its sub-agents say, as plain values without references."""
        values = said(self.definition)
        return values | ({"agents": {key: agent.said() for key, agent in self.agents.items()}} if self.agents else {})


def usual_places(environ: Mapping[str, str], cwd: Path) -> AgentPlaces:
    """The places of one person on this machine; nothing is made."""
    home = data_home(environ)
    return AgentPlaces(cwd=cwd, own=home / "agents", cache=home / "agent-cache", environ=environ)


def resolve_agent(
    reference: str, places: AgentPlaces, *, fetch: Fetcher | None = None, redactor: Redactor | None = None
) -> ResolvedAgent:
    """The agent that a reference leads to, with its sub-agents. Blocks: not for a loop.

    Args:
        reference: As a person wrote it; empty is the usual agent.
        places: Where it is looked for.
        fetch: What carries requests; None is the network.
        redactor: Looks for secrets in what definitions hand to toolsets; None looks for none.

    Raises:
        AgentNotFound: there is nothing at its end.
        AgentUnavailable: it cannot be fetched or read, or is not what was pinned.
        AgentInvalid: what is there is no definition, holds a secret, or its sub-agents go round in a circle.
        RedactionUnavailable: secrets cannot be looked for.
    """
    return _Resolving(places, fetch or Fetcher(), redactor).agent(reference.strip() or DEFAULT_AGENT)


def known_agents(places: AgentPlaces) -> tuple[str, ...]:
    """Names that lead to an agent, sorted: built-in ones and the person's own."""
    return tuple(sorted({*built_in_names(), *own_names(places)}))


class _Resolving:
    """One walk from a reference down to the last sub-agent."""

    def __init__(self, places: AgentPlaces, fetch: Fetcher, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._sources = Sources(places, fetch)
        self._count = 0

    def agent(self, reference: str) -> ResolvedAgent:
        return self._resolve(self._sources.find(reference), ())

    def _resolve(self, source: Source, above: tuple[str, ...]) -> ResolvedAgent:
        if source.reference in above:
            raise AgentInvalid(source.shown, ["its sub-agents lead back to it: a definition cannot hold itself"])
        definition = parse_definition(source.data, source.document_name, self._redactor)
        return self._whole(definition, source, (*above, source.reference), sha256(source.data))

    def _whole(
        self, definition: AgentDefinition, source: Source, above: tuple[str, ...], document: str = ""
    ) -> ResolvedAgent:
        if definition.agents and len(above) > MAX_SUB_DEPTH:
            raise AgentInvalid(source.shown, [f"sub-agents lie at most {MAX_SUB_DEPTH} deep in one another"])
        self._count += len(definition.agents)
        if self._count > MAX_SUB_AGENTS:
            raise AgentInvalid(source.shown, [f"an agent has at most {MAX_SUB_AGENTS} sub-agents, theirs counted too"])
        agents = {key: self._sub(key, agent, source, above) for key, agent in definition.agents.items()}
        return ResolvedAgent(
            definition,
            source.reference,
            source.kind if document else "inline",
            source.base,
            source.trusted,
            _digest(definition, agents),
            document,
            MappingProxyType(agents),
        )

    def _sub(self, key: str, agent: str | AgentDefinition, source: Source, above: tuple[str, ...]) -> ResolvedAgent:
        if not isinstance(agent, str):
            return self._whole(agent, source, (*above, f"{above[-1]}#{key}"))
        try:
            found = self._sources.find_from(agent, source)
        except AgentNotFound as error:
            raise AgentInvalid(source.shown, [f"agents.{key}: there is no agent {error.reference!r}"]) from error
        return self._resolve(found, above)


def _digest(definition: AgentDefinition, agents: Mapping[str, ResolvedAgent]) -> str:
    """SHA-256 over what a definition says, each sub-agent by its own digest, wherever it was written."""
    return digest_of(said(definition) | {"agents": {key: agent.digest for key, agent in agents.items()}})
