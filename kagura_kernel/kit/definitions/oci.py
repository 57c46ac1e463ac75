"""A definition out of an OCI registry: pinned by its digest, every part checked against it.

What a person has to show to hosts that do not give a definition to everybody is never told to any other host. GitHub's
hosts take the token in `GITHUB_TOKEN` or `GH_TOKEN`; any host the entry of its name in `~/.netrc`; a registry what
`docker login` or `podman login` has left, kept in a file or by their helper program.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import netrc
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import AgentUnavailable, HostNotUnderstood
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.settings_text import replace_file
from kagura_kernel.kit.definitions.document import MAX_BYTES
from kagura_kernel.kit.definitions.fetcher import Answer, Fetcher, NotFetched, is_loopback
from kagura_kernel.membrane.egress.hosts import HTTPS, Target, parse_target

_GITHUB = frozenset({"github.com", "api.github.com", "raw.githubusercontent.com", "codeload.github.com"})
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
# Docker's own registry goes by other names, in files and where it gives tokens out.
_DOCKER = "registry-1.docker.io"
_ALIASES = {_DOCKER: ("https://index.docker.io/v1/", "index.docker.io", "docker.io")}
_TOKEN_SERVICES = {_DOCKER: "auth.docker.io"}
_HELPER_SECONDS = 10.0
_OF_HELPERS = ("PATH", "HOME", "DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class Logins:
    """Looks a login up when it is needed; nothing is kept.

    Args:
        environ: Variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def of_host(self, host: str) -> str:
        """The value of `Authorization` for a host, `HOST[:PORT]`; empty where there is none."""
        name = host.partition(":")[0]
        if is_github(host):
            for variable in _TOKENS:
                if (token := self._environ.get(variable, "").strip()) and token.isascii() and token.isprintable():
                    return f"Bearer {token}"
        return self._netrc(name)

    def of_registry(self, host: str) -> str:
        """The value of `Authorization` for a registry, or its token service; empty where there is none."""
        for path in self._registry_files():
            found = _read(path)
            for name in (host, f"https://{host}", *_ALIASES.get(host, ())):
                if login := self._stored(found, name):
                    return login
        return self._netrc(host.partition(":")[0])

    def _netrc(self, name: str) -> str:
        path = Path(self._environ.get("NETRC") or self._home() / ".netrc")
        try:
            # The entry for every other host is not looked at: it would be told to whoever is asked.
            entry = netrc.netrc(str(path)).hosts.get(name)
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            return ""
        return _basic(entry[0], entry[2] or "") if entry is not None else ""

    def _registry_files(self) -> Iterator[Path]:
        if named := self._environ.get("REGISTRY_AUTH_FILE"):
            yield Path(named)
        yield Path(self._environ.get("DOCKER_CONFIG") or self._home() / ".docker") / "config.json"
        yield Path(self._environ.get("XDG_CONFIG_HOME") or self._home() / ".config") / "containers" / "auth.json"

    def _stored(self, found: Mapping[str, Any], name: str) -> str:
        helper = _table(found, "credHelpers").get(name) or found.get("credsStore")
        entry = _table(found, "auths").get(name)
        if isinstance(entry, dict) and isinstance(entry.get("auth"), str) and entry["auth"]:
            return f"Basic {entry['auth'].strip()}"
        known = name in _table(found, "credHelpers") or entry is not None
        return self._helped(helper, name) if known and isinstance(helper, str) else ""

    def _helped(self, helper: str, name: str) -> str:
        if not helper.replace("-", "").replace("_", "").isalnum():
            return ""
        environ = {key: self._environ[key] for key in _OF_HELPERS if key in self._environ}
        try:
            told = subprocess.run(  # noqa: S603 - the program that the person's own configuration names
                [f"docker-credential-{helper}", "get"],
                input=name.encode(),
                capture_output=True,
                check=True,
                timeout=_HELPER_SECONDS,
                env=environ,
            )
            answer = json.loads(told.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return ""
        secret = answer.get("Secret") if isinstance(answer, dict) else None
        return _basic(str(answer.get("Username", "")), secret) if isinstance(secret, str) else ""

    def _home(self) -> Path:
        return Path(self._environ.get("HOME") or "/nowhere")


def is_github(host: str) -> bool:
    """Whether a host, `HOST[:PORT]`, is one of GitHub's that give files out."""
    return host.removesuffix(":443") in _GITHUB


def serves(registry: str, service: str) -> bool:
    """Whether a registry's login may be told to the host that gives its tokens out."""
    return service in (registry, _TOKEN_SERVICES.get(registry))


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}


_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def sha256(data: bytes) -> str:
    """SHA-256 as hex."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text is SHA-256 as hex."""
    return _DIGEST.fullmatch(text) is not None


class PinnedDocuments:
    """A folder of documents by digest. What cannot be written is not kept; what does not match is not there.

    Args:
        folder: Need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> bytes | None:
        """The document of this digest; None where it is not kept or no longer what it was."""
        try:
            with (self._folder / digest).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        return data if sha256(data) == digest else None

    def keep(self, data: bytes) -> None:
        """Keep a document under its digest; whoever reads meanwhile sees all of it or nothing."""
        # A full disk or a folder of somebody else costs the next fetch, not this one.
        with contextlib.suppress(OSError):
            replace_file(self._folder / sha256(data), data)


SCHEME = "oci://"

MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
"""What an artifact's manifest is; a list of manifests for several machines is none."""

FORMS: Mapping[str, str] = {
    "application/vnd.kagura.agent.v1+yaml": "agent.yaml",
    "application/vnd.kagura.agent.v1+toml": "agent.toml",
    "application/yaml": "agent.yaml",
    "application/x-yaml": "agent.yaml",
    "text/yaml": "agent.yaml",
    "application/toml": "agent.toml",
}
"""Media types of a layer that is a definition, and what such a document is called."""

_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII)
_TAG = re.compile(r":[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_PARAMETER = re.compile(r'(?<![a-z])([a-z]+)="([^"]*)"', re.ASCII | re.IGNORECASE)
_MAX_NAME = 255
_UNAUTHORISED = 401


@dataclass(frozen=True, slots=True)
class OciReference:
    """`oci://HOST[:PORT]/NAME@sha256:DIGEST`."""

    registry: Target  # Where it is
    name: str  # Of the repository there
    digest: str  # SHA-256 of the manifest, as hex

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}/{self.name}@sha256:{self.digest}"

    @property
    def host(self) -> str:
        """The registry as it is written: without the port that it usually has."""
        text = str(self.registry)
        return text.removesuffix(f":{HTTPS}") if self.registry.port == HTTPS else text

    @property
    def base(self) -> str:
        """Where its repository begins: HTTPS, or plain HTTP to a registry on this machine itself."""
        scheme = "http" if is_loopback(self.registry.host) else "https"
        return f"{scheme}://{self.host}/v2/{self.name}"


def parse_oci(reference: str) -> OciReference:
    """What an `oci://` reference says. A tag before the digest is allowed and means nothing.

    Raises:
        AgentUnavailable: it is none, or has no digest: a tag alone may lead to something else tomorrow.
    """
    host, slash, rest = reference.removeprefix(SCHEME).partition("/")
    path, at, pin = rest.partition("@")
    name = _TAG.sub("", path) if ":" in path else path
    if not slash or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise AgentUnavailable(reference, "it is not of the form oci://HOST/NAME@sha256:DIGEST")
    if not at:
        raise AgentUnavailable(
            reference, "it is not pinned", "Write @sha256: and the digest of its manifest behind the name."
        )
    algorithm, _, digest = pin.partition(":")
    if algorithm != "sha256" or not is_digest(digest):
        raise AgentUnavailable(reference, "its digest is not sha256: and 64 digits of 0-9 and a-f")
    try:
        return OciReference(parse_target(host, HTTPS), name, digest)
    except HostNotUnderstood as error:
        raise AgentUnavailable(reference, "its registry is no host") from error


def fetch_artifact(
    reference: OciReference, fetch: Fetcher, kept: PinnedDocuments, logins: Logins | None = None
) -> tuple[bytes, str]:
    """The definition's document, and what it is called; without `logins` as anybody gets it.

    Nobody but the registry and the token service that it names is asked; a blob may be handed over by another host,
    since its digest is known.

    Raises:
        AgentUnavailable: it is not there, not for this person, no definition, or not what its digest says.
    """
    try:
        return _Pull(reference, fetch, kept, logins).document()
    except NotFetched as error:
        raise AgentUnavailable(str(reference), str(error)) from error


class _Pull:
    def __init__(self, reference: OciReference, fetch: Fetcher, kept: PinnedDocuments, logins: Logins | None) -> None:
        self._reference = reference
        self._fetch = fetch
        self._kept = kept
        self._logins = logins
        self._authorization = ""

    def document(self) -> tuple[bytes, str]:
        manifest = _manifest(
            self._piece(f"manifests/sha256:{self._reference.digest}", self._reference.digest, MANIFESTS)
        )
        media, digest, size = _layer(manifest)
        data = self._piece(f"blobs/sha256:{digest}", digest, ("application/octet-stream", "*/*"))
        if len(data) != size:
            raise NotFetched("its layer does not have the size that its manifest says")
        return data, FORMS[media]

    def _piece(self, path: str, digest: str, media: tuple[str, ...]) -> bytes:
        """One part by its digest: the kept one, else the registry's.

        Raises:
            NotFetched: it cannot be had, or is another.
        """
        if (data := self._kept.find(digest)) is not None:
            return data
        answer = self._ask(f"{self._reference.base}/{path}", ", ".join(media))
        if answer.status in (_UNAUTHORISED, 403):
            raise NotFetched(
                f"the registry answers {answer.status}: it gives this to some only; log in with `docker login "
                f"{self._reference.host}`, or check that login"
            )
        if not answer.ok:
            raise NotFetched(f"the registry answers {answer.status}")
        if sha256(answer.body) != digest:
            raise NotFetched("what the registry gives is not what the digest says")
        self._kept.keep(answer.body)
        return answer.body

    def _ask(self, url: str, accept: str) -> Answer:
        answer = self._fetch.get(url, self._headers(accept))
        if answer.status == _UNAUTHORISED and not self._authorization:
            self._authorization = self._authorized(answer.headers.get("www-authenticate", ""))
            answer = self._fetch.get(url, self._headers(accept))
        return answer

    def _headers(self, accept: str) -> dict[str, str]:
        return {"accept": accept} | ({"authorization": self._authorization} if self._authorization else {})

    def _authorized(self, challenge: str) -> str:
        """What the registry is shown: the person's login, or a token of its service, for them or for anybody.

        Raises:
            NotFetched: it wants something that nobody has, or the service gives no token.
        """
        login = self._logins.of_registry(self._reference.host) if self._logins is not None else ""
        scheme, _, rest = challenge.partition(" ")
        asked = {name.lower(): value for name, value in _PARAMETER.findall(rest)}
        realm = asked.get("realm", "")
        if scheme.lower() == "basic" and login:
            return login
        if scheme.lower() != "bearer" or not realm:
            raise NotFetched(f"the registry asks for a login: `docker login {self._reference.host}` leaves one")
        if not realm.startswith("https://") and not is_loopback(self._reference.registry.host):
            # Plain HTTP is for this machine itself, and only whoever runs here may send anybody there.
            raise NotFetched("the registry's token service is not asked over HTTPS")
        query = {"scope": f"repository:{self._reference.name}:pull"}
        if service := asked.get("service"):
            query["service"] = service
        named_by = self._reference.registry.host
        headers = {"accept": "application/json"}
        if login and serves(self._reference.host, realm.partition("://")[2].partition("/")[0].lower()):
            headers["authorization"] = login
        answer = self._fetch.get(realm, headers, query=query, named_by=named_by)
        found = _json(answer.body) if answer.ok else {}
        token = found.get("token") or found.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            whom = "for this login" if "authorization" in headers else "to a stranger"
            raise NotFetched(f"the registry's token service gives no token {whom} (it answers {answer.status})")
        return f"Bearer {token}"


def _manifest(data: bytes) -> dict[str, Any]:
    manifest = _json(data)
    if manifest.get("schemaVersion") != 2 or manifest.get("mediaType", MANIFESTS[0]) not in MANIFESTS:  # noqa: PLR2004 - the format's
        raise NotFetched("it is no manifest of one artifact")
    return manifest


def _layer(manifest: dict[str, Any]) -> tuple[str, str, int]:
    """Media type, digest and size of the one layer that is a definition.

    Raises:
        NotFetched: there is none, there are several, or its entry cannot be understood.
    """
    layers = manifest.get("layers")
    entries = [one for one in layers if isinstance(one, dict)] if isinstance(layers, list) else []
    found = [one for one in entries if str(one.get("mediaType")) in FORMS]
    if len(found) != 1:
        raise NotFetched(
            f"it has {len(found)} layers that are an agent definition; it has to have one, as {next(iter(FORMS))}"
        )
    digest, size = str(found[0].get("digest", "")), found[0].get("size")
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or not is_digest(value) or not isinstance(size, int):
        raise NotFetched("its layer has no digest or no size that can be checked")
    if size > MAX_BYTES:
        raise NotFetched(f"it is larger than {MAX_BYTES >> 10} KiB")
    return str(found[0]["mediaType"]), value, size


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotFetched("what came is no JSON") from error
    return found if isinstance(found, dict) else {}
