"""Asking package registries about a package: is it there, in which version, and where do its files lie?

Asked by the host, because a box has no network yet when it is decided what it may reach. What registries answer is
kept for a day.

Nothing that they say is believed further. Each function that reads an answer takes it and the version that was asked
for, empty for the newest, and gives the exact version with the addresses of its files. A newest version is never one
that was taken back, and a pre-release only where there is nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, urljoin, urlsplit

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.domain.late_dataclass import asdict, dataclass
from kagura_kernel.journal.settings_text import replace_file
from kagura_kernel.kit.definitions.fetcher import Deadline, LeadsInside, NoClient, Redirects, http_client
from kagura_kernel.kit.packages.hosts import Asset, Found, LookUpFailed, is_for_linux, parse_sums
from kagura_kernel.kit.packages.registry import Package, Sources, may_ask, word_of
from kagura_kernel.membrane.egress.hosts import parse_url

if TYPE_CHECKING:
    import httpx


MAX_BYTES = 32 * 2**20
MAX_REDIRECTS = 4
SECONDS = 5.0
"""How long one look-up may take in all, however many questions it takes."""

_OK = 200
_NOT_THERE = frozenset({404, 410})


class NoAnswer(Exception):
    """Nobody could be asked, or not within what is allowed; the text is half a sentence, without an address."""


class Asker:
    """Asks the questions of one look-up; a context manager.

    Args:
        url: Whom the person's settings have asked; beside its host only public ones are asked.
        transport: What carries the requests; None is the network, by the proxy that the process's variables name.
        seconds: How long all of it may take.
        login: What that host is shown, and no other; empty for nothing.

    Raises:
        NoAnswer: this process cannot ask anybody.
    """

    def __init__(
        self,
        url: str,
        transport: httpx.BaseTransport | None = None,
        seconds: float = SECONDS,
        login: str = "",
    ) -> None:
        self._host = urlsplit(url).hostname or ""
        self._redirects = Redirects(self._host)
        self._login = login
        # Made anew for each look-up: nothing is remembered from one registry to the next, cookies included.
        try:
            self._client = http_client(transport, seconds)
        except NoClient as error:
            raise NoAnswer(f"it could not be asked: {error}") from error
        self._deadline = Deadline(seconds)
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._deadline.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline.__exit__()
        self._client.close()

    def ask(self, url: str, accept: str = "application/json", limit: int = MAX_BYTES) -> tuple[bytes, str, str]:
        """An answer, its media type, and the address that gave it.

        Raises:
            NotFound: there is nothing at that address.
            NoAnswer: it could not be asked, or answers too much, too late or with a failure.
        """
        import httpx

        try:
            address = httpx.URL(url)
            for _ in range(MAX_REDIRECTS + 1):
                if not may_ask(str(address)):
                    raise NoAnswer("it is asked over HTTPS alone, and not with a user name")
                self._redirects.check(address.host)
                self._in_time()
                request = self._client.build_request(
                    "GET",
                    address,
                    headers={"Accept": accept, "Accept-Encoding": "identity"} | self._shown(address),
                    timeout=self._seconds,
                    extensions=self._deadline.extensions(self._redirects.watch(address.host)),
                )
                response = self._client.send(request, stream=True)
                try:
                    if response.next_request is None:
                        return self._body(response, limit), response.headers.get("content-type", ""), str(address)
                    address = response.next_request.url
                finally:
                    response.close()
        except LeadsInside as error:
            raise NoAnswer(str(error)) from error
        # The last of them for a host whose xn-- part stands for no name, and for half a character.
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            self._in_time()
            raise NoAnswer(_why(error)) from error
        raise NoAnswer(f"it leads on more than {MAX_REDIRECTS} times")

    def _shown(self, address: httpx.URL) -> dict[str, str]:
        to_host = self._login and address.scheme == "https" and address.host == self._host
        return {"Authorization": self._login} if to_host else {}

    def _body(self, response: httpx.Response, limit: int) -> bytes:
        if response.status_code in _NOT_THERE:
            raise NotFound("there is no such package")
        if response.status_code != _OK:
            raise NoAnswer(f"it answers {response.status_code}")
        data = bytearray()
        # As it came: unpacked, a few bytes may be more than there is memory for.
        for part in response.iter_raw():
            data += part
            if len(data) > limit:
                raise NoAnswer(f"it answers with more than {limit >> 20 or 1} MiB")
            self._in_time()
        # An answer without a length looks whole wherever it was ended.
        self._in_time()
        return bytes(data)

    def _in_time(self) -> None:
        if self._deadline.over:
            raise NoAnswer(f"it takes longer than {self._seconds:g} s")


def _why(error: Exception) -> str:
    """In words of ours: the library's may hold an address."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return "the registry does not answer in time"
    if isinstance(error, httpx.ProxyError):
        return "the proxy does not let the registry be asked"
    if isinstance(error, httpx.ConnectError):
        return "the registry cannot be reached"
    return f"the registry could not be asked ({type(error).__name__})"


KEPT = timedelta(days=1)
MAX_KEPT = 1000
"""Answers in the cache; beyond that the oldest go."""

_SIMPLE = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_NPM = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"
_SUMS = re.compile(r"(?:^|[._-])(?:checksums?|sha256sums?)(?:[._-].*)?(?:\.txt)?$", re.IGNORECASE)
_SUMS_BYTES = 2**20
_MAX_SUMS = 6
_FORM = 1


class PackageLookUp:
    """A `LookUp`, bounded in time and size, whose answers are kept for a day.

    May be called from several threads at once.

    Args:
        sources: Where to ask.
        cache: Directory for answers, `<data home>/tool-registry`; None keeps none.
        clock: The time, for how old an answer is.
        transport: What carries the requests; None is the network.
        seconds: How long one look-up may take.
        login: A host to what it is shown; GitHub answers more often whoever shows a token.
    """

    def __init__(
        self,
        sources: Sources,
        cache: Path | None,
        clock: Clock,
        transport: httpx.BaseTransport | None = None,
        seconds: float = SECONDS,
        login: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._login = login
        self._sources = sources
        self._cache = cache
        self._clock = clock
        self._transport = transport
        self._seconds = seconds

    def __call__(self, package: Package) -> Found:
        """What is known of this package; blocks for a few seconds at most.

        Raises:
            LookUpFailed: it is not there, or nobody could be asked.
        """
        url = self._sources[package.installer].url
        if not url:
            if package.installer == "github":
                raise LookUpFailed("where its releases are told of is not known: github has a mirror")
            # Whoever has a mirror has said which hosts it takes.
            return Found(package.version)
        kept = self._kept(package, url)
        if kept is not None:
            return kept
        try:
            with Asker(url, self._transport, self._seconds, self._login(urlsplit(url).netloc)) as asker:
                found = _ask(asker, url, package)
        except (NotFound, NoAnswer) as problem:
            raise LookUpFailed(str(problem)) from problem
        except Unreadable as problem:
            raise LookUpFailed("the registry answers with what cannot be read") from problem
        self._keep(package, url, found)
        return found

    # -------------------------------------------------------------------- cache

    def _place(self, package: Package, url: str) -> Path | None:
        if self._cache is None:
            return None
        key = hashlib.sha256(f"{_FORM}\n{url}\n{package}".encode()).hexdigest()[:32]
        return self._cache / f"{key}.json"

    def _kept(self, package: Package, url: str) -> Found | None:
        place = self._place(package, url)
        if place is None:
            return None
        # Whatever is wrong with it, it can be asked for again.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            kept = json.loads(place.read_bytes())
            age = self._clock.now() - datetime.fromisoformat(kept["at"])
            if timedelta(0) <= age < KEPT and kept["package"] == str(package):
                found = kept["found"]
                return Found(
                    str(found["version"]),
                    tuple(map(str, found["hosts"])),
                    tuple(Asset(**one) for one in found["assets"]),
                )
        return None

    def _keep(self, package: Package, url: str, found: Found) -> None:
        place = self._place(package, url)
        if place is None:
            return
        text = json.dumps({"at": self._clock.now().isoformat(), "package": str(package), "found": asdict(found)})
        # A disk that is full costs the next run a question and no more.
        with contextlib.suppress(OSError):
            replace_file(place, text.encode())
            self._bound(place.parent)

    def _bound(self, folder: Path) -> None:
        kept = sorted(folder.iterdir(), key=lambda one: one.lstat().st_mtime)
        old = time.time() - 7 * KEPT.total_seconds()
        for number, one in enumerate(kept):
            if number < len(kept) - MAX_KEPT or one.lstat().st_mtime < old:
                one.unlink(missing_ok=True)


# ------------------------------------------------------------------- questions


def _ask(asker: Asker, url: str, package: Package) -> Found:
    match package.installer:
        case "pip":
            project = package.name.partition("[")[0]
            address = f"{url}/{re.sub(r'[-_.]+', '-', project).lower()}/"
            data, kind, where = asker.ask(address, _SIMPLE)
            return _found(read_simple(data, kind, where, project, package.version), url)
        case "npm":
            data, _, _ = asker.ask(f"{url}/{quote(package.name, safe='@')}", _NPM)
            return _found(read_npm(data, package.name, package.version), url)
        case "go":
            return _found(_ask_go(asker, url, package), url)
        case "cargo":
            data, _, _ = asker.ask(f"{url}/{_crate_path(package.name.lower())}", "text/plain")
            return _found(read_crate(data, package.name, package.version), url)
        case "github":
            return _ask_github(asker, url, package)


def _ask_go(asker: Asker, url: str, package: Package) -> Published:
    """The module is the package's path, or what it begins with."""
    parts = package.name.split("/")
    # An address of a forge has three parts at least; other hosts may be modules by themselves.
    least = 3 if parts[0] in ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org") else 1
    for length in range(len(parts), least - 1, -1):
        module = re.sub(r"[A-Z]", lambda found: f"!{found[0].lower()}", "/".join(parts[:length]))
        version = re.sub(r"[A-Z]", lambda found: f"!{found[0].lower()}", package.version)
        last = f"@v/{quote(version, safe='!+')}.info" if version else "@latest"
        with contextlib.suppress(NotFound):
            return read_go(asker.ask(f"{url}/{quote(module, safe='/!~')}/{last}")[0])
    raise NotFound("there is no such module")


def _crate_path(name: str) -> str:
    match len(name):
        case 1 | 2:
            return f"{len(name)}/{name}"
        case 3:
            return f"3/{name[0]}/{name}"
        case _:
            return f"{name[:2]}/{name[2:4]}/{name}"


def _ask_github(asker: Asker, url: str, package: Package) -> Found:
    which = f"tags/{quote(package.version, safe='')}" if package.version else "latest"
    data, _, _ = asker.ask(f"{url}/repos/{package.name}/releases/{which}", "application/vnd.github+json")
    tag, files = read_release(data)
    wanted = [one for one in files if is_for_linux(one.name)]
    sums = {one.name: one.sha256 for one in wanted if one.sha256}
    if len(sums) < len(wanted):
        sums |= _published_sums(asker, files, [one.name for one in wanted if not one.sha256])
    assets = tuple(
        Asset(one.name, one.url, sums[one.name], one.size) for one in wanted if one.name in sums and may_ask(one.url)
    )
    if not assets:
        why = "none of its files has a checksum" if wanted else "none of its files is for Linux"
        raise NotFound(f"its release {tag} cannot be used: {why}")
    return Found(tag, _hosts([one.url for one in assets], url), assets)


def _published_sums(asker: Asker, files: Sequence[ReleaseFile], names: Sequence[str]) -> dict[str, str]:
    """Checksums that a release keeps in files of their own, for these of its files."""
    found: dict[str, str] = {}
    singles = {f"{name}.sha256": name for name in names} | {f"{name}.sha256sum": name for name in names}
    listing = [one for one in files if _SUMS.search(one.name) or one.name in singles]
    listing.sort(key=lambda one: one.name in singles)
    for one in listing[:_MAX_SUMS]:
        if all(name in found for name in names):
            break
        with contextlib.suppress(NotFound, NoAnswer):
            data, _, _ = asker.ask(one.url, "*/*", _SUMS_BYTES)
            found |= parse_sums(data.decode("utf-8", "replace"), singles.get(one.name, ""))
    return found


def _found(published: Published, url: str) -> Found:
    return Found(published.version, _hosts(published.files, url))


def _hosts(addresses: Sequence[str], url: str) -> tuple[str, ...]:
    """Where files lie, by name: no answer opens an address of this network, except that of whoever gave it."""
    asked = parse_url(url).host
    found = set()
    for address in addresses:
        # A file that lies where nothing may be fetched from is not fetched.
        with contextlib.suppress(HostNotUnderstood):
            target = parse_url(address)
            if target.address is None or target.host == asked:
                found.add(word_of(target))
    return tuple(sorted(found))


class NotFound(Exception):
    """The package, or this version of it, is not there; the text is half a sentence."""


class Unreadable(Exception):
    """An answer is not what such a registry answers."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is there."""

    version: str  # The exact one
    files: tuple[str, ...] = ()  # Addresses of its files


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release, as its forge tells of it."""

    name: str
    url: str  # Its address
    size: int  # Bytes
    sha256: str  # Its checksum in hex; empty where the forge does not say it


def read_simple(data: bytes, kind: str, address: str, name: str, asked: str) -> Published:
    """An index's page of one project (PEP 503 and 691).

    Args:
        data: The page.
        kind: Its media type.
        address: Where it came from; links may be relative to it.
        name: The project.
        asked: The version.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such page.
    """
    from packaging.version import InvalidVersion, Version

    files = _simple_json(data) if "json" in kind else _simple_html(data)
    versions: dict[Version, list[str]] = {}
    for filename, href, yanked in files:
        version = _version_of(filename)
        if version is not None and (not yanked or asked):
            versions.setdefault(version, []).extend(_joined(address, href))
    try:
        wanted = Version(asked) if asked else None
    except InvalidVersion:
        wanted = None
        versions = {}
    if wanted is None:
        wanted = max(versions, key=lambda one: (not one.is_prerelease, one), default=None)
    if wanted is None or wanted not in versions:
        raise NotFound(_missing(name, asked))
    return Published(str(wanted), tuple(versions[wanted]))


def read_npm(data: bytes, name: str, asked: str) -> Published:
    """An npm registry's document of one package.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such document.
    """
    document = _object(data)
    tags, versions = _table(document, "dist-tags"), _table(document, "versions")
    version = asked or "latest"
    version = str(tags.get(version, version))
    entry = versions.get(version)
    if not isinstance(entry, dict):
        raise NotFound(_missing(name, asked))
    tarball = _table(entry, "dist").get("tarball")
    return Published(version, (tarball,) if isinstance(tarball, str) else ())


def read_go(data: bytes) -> Published:
    """What a module proxy says of a version.

    Raises:
        Unreadable: it is no such answer.
    """
    version = _object(data).get("Version")
    if not isinstance(version, str) or not re.fullmatch(r"v[0-9][A-Za-z0-9.+-]{0,127}", version):
        raise Unreadable("no version in it")
    return Published(version)


def read_crate(data: bytes, name: str, asked: str) -> Published:
    """A crate's lines of a sparse index.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such file.
    """
    entries = [_object(line) for line in data.splitlines() if line.strip()]
    versions = [str(one.get("vers")) for one in entries if asked or not one.get("yanked")]
    if asked and asked not in versions:
        raise NotFound(_missing(name, asked))
    ordered = [(_semantic(one), one) for one in versions]
    newest = max(((order, one) for order, one in ordered if order is not None), default=None)
    if not asked and newest is None:
        raise NotFound(_missing(name, asked))
    return Published(asked or (newest[1] if newest else ""))


def read_release(data: bytes) -> tuple[str, tuple[ReleaseFile, ...]]:
    """A release: its tag and its files.

    Raises:
        Unreadable: it is no such answer.
    """
    document = _object(data)
    tag, listed = document.get("tag_name"), document.get("assets")
    if not isinstance(tag, str) or not isinstance(listed, list):
        raise Unreadable("no tag and no files in it")
    return tag, tuple(_release_files(listed))


def _release_files(listed: Sequence[Any]) -> Iterable[ReleaseFile]:
    for one in listed[:1000]:
        name, url = (one.get("name"), one.get("browser_download_url")) if isinstance(one, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(url, str) or not re.fullmatch(r"[A-Za-z0-9._+~@-]{1,200}", name):
            continue
        kind, _, digest = str(one.get("digest") or "").partition(":")
        known = kind == "sha256" and re.fullmatch(r"[0-9a-f]{64}", digest)
        size = one.get("size")
        yield ReleaseFile(name, url, size if isinstance(size, int) else 0, digest if known else "")


class _Anchors(HTMLParser):
    """The links of a page: their text, their address, and whether what they lead to was taken back."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            given = dict(attrs)
            href = given.get("href") or ""
            path = href.partition("#")[0].partition("?")[0]
            self.found.append((path.rpartition("/")[2], href, "data-yanked" in given))


def _simple_html(data: bytes) -> list[tuple[str, str, bool]]:
    anchors = _Anchors()
    # The parser gives up with this on some malformed declarations; what came before them counts.
    with contextlib.suppress(AssertionError):
        anchors.feed(data.decode("utf-8", "replace"))
    return [(unquote(name), href, yanked) for name, href, yanked in anchors.found]


def _simple_json(data: bytes) -> list[tuple[str, str, bool]]:
    files = _object(data).get("files")
    if not isinstance(files, list):
        raise Unreadable("no list of files in it")
    return [
        (one["filename"], one["url"], bool(one.get("yanked")))
        for one in files
        if isinstance(one, dict) and isinstance(one.get("filename"), str) and isinstance(one.get("url"), str)
    ]


def _joined(address: str, href: str) -> Iterable[str]:
    """The address that a link leads to; nothing for a link that leads nowhere."""
    try:
        return [urljoin(address, href)]
    except ValueError:
        return []


def _version_of(filename: str) -> Any:
    from packaging.utils import parse_sdist_filename, parse_wheel_filename

    try:
        return parse_wheel_filename(filename)[1] if filename.endswith(".whl") else parse_sdist_filename(filename)[1]
    except ValueError:
        return None


def _semantic(text: str) -> tuple[bool, tuple[int, ...], str] | None:
    """What versions are compared by, pre-releases before all others; None for what is no version."""
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", text, re.ASCII)
    if found is None:
        return None
    return found[4] is None, (int(found[1]), int(found[2]), int(found[3])), found[4] or ""


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable("no JSON") from error
    if not isinstance(found, dict):
        raise Unreadable("no object")
    return found


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _missing(name: str, asked: str) -> str:
    return f"there is no version {asked} of {name}" if asked else f"there is no version of {name} that can be used"
