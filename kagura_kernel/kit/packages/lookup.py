"""Asking package registries about a package: is it there, in which version, and where do its files lie?

Asked by the host, because a box has no network yet when it is decided what it may reach. What registries answer is
kept for a day.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.kit.definitions.fetching import Deadline, LeadsInside, NoClient, Redirects, http_client
from kagura_kernel.kit.packages.hosts import Asset, Found, LookUpFailed, is_for_linux, parse_sums
from kagura_kernel.kit.packages.lookup_answers import (
    NotFound,
    Published,
    ReleaseFile,
    Unreadable,
    read_crate,
    read_go,
    read_npm,
    read_release,
    read_simple,
)
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
                    headers={"Accept": accept} | self._shown(address),
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
        except (httpx.HTTPError, httpx.InvalidURL) as error:
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
        for part in response.iter_bytes():
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
        making = place.with_name(f"{place.name}.{secrets.token_hex(4)}")
        # A disk that is full costs the next run a question and no more.
        with contextlib.suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(text)
                making.replace(place)
            finally:
                making.unlink(missing_ok=True)
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
