"""Repositories that a person trusts, and what comes from them: nothing that their keys have not signed.

Whoever can put files on a repository's server, or lies between it and here, can keep plugins away and nothing else:
what is not signed with its keys, older than what was seen before, expired, or put together from different times is
refused by the library. What an index says of plugins are its publisher's words, and read strictly.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, ValidationError

from kagura_kernel.domain.errors import PluginRepositoryError, UnknownName, UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import PLUGIN_NAME, Risk
from kagura_kernel.plugins.decisions import Book, BookEntry, Moment, locked
from kagura_kernel.plugins.installation import (
    LOOPBACK,
    MAX_ARCHIVE_BYTES,
    NotAnswered,
    NotUnpacked,
    fetch_archive,
    is_address,
)
from kagura_kernel.plugins.manifest import Manifest
from kagura_kernel.plugins.signature import MAX_AUTHOR
from kagura_kernel.plugins.text import reason, unseen

if TYPE_CHECKING:
    from tuf.ngclient import FetcherInterface, Updater


def _author(text: str) -> str:
    if unseen(text):
        raise ValueError("it holds what a reader would not see")
    return text


class Entry(Manifest):
    """One version of a plugin, as an index has it beside the archive's hash; keys that are not known are left out."""

    # Who has signed it; empty for nobody
    author: Annotated[str, Field(max_length=MAX_AUTHOR), AfterValidator(_author)] = ""
    risk: Risk = Risk.UNKNOWN  # What the publisher's own audit said
    content_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # Of the plugin's files


@dataclass(frozen=True, slots=True)
class Offer:
    """One version of a plugin that a repository has."""

    repository: str  # What the repository is called here
    path: str  # Its archive's, in the index
    entry: Entry

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.entry.name

    @property
    def version(self) -> str:
        """SemVer."""
        return self.entry.version


def custom(entry: Entry) -> dict[str, Any]:
    """What stands beside an archive's hash in the index."""
    return entry.model_dump(mode="json", by_alias=True, exclude={"hints"})


def read_offer(repository: str, path: str, custom: object) -> Offer | None:
    """The offer that stands beside an archive's hash; None where it is none that can be understood."""
    try:
        return Offer(repository, path, Entry.model_validate(custom))
    except ValidationError:
        return None


def precedence(version: str) -> tuple[object, ...]:
    """Sorts versions as SemVer has it."""
    core, _, before = version.partition("+")[0].partition("-")
    numbers = tuple(map(int, core.split(".")))
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in before.split(".")]
    # What has nothing behind its numbers comes after all that has.
    return (*numbers, *(parts if before else [(2, 0, "")]))


def newest(offers: Iterable[Offer]) -> Offer | None:
    """The newest of one plugin's; one that is a preview only where there is nothing else."""
    ordered = sorted(offers, key=lambda offer: precedence(offer.version))
    released = [offer for offer in ordered if "-" not in offer.version.partition("+")[0]]
    return next(reversed(released or ordered), None)


def found(offers: Sequence[Offer], name: str, version: str = "") -> Offer:
    """The version that is meant; without one the newest. Raises `UnknownName`."""
    ours = [offer for offer in offers if offer.name == name]
    if not ours:
        raise UnknownName("plugin in the repositories", name, sorted({offer.name for offer in offers}))
    meant = newest(offer for offer in ours if version in ("", offer.version))
    if meant is None:
        raise UnknownName(f"version of {name}", version, sorted({offer.version for offer in ours}))
    return meant


def matching(offers: Iterable[Offer], words: Sequence[str]) -> list[Offer]:
    """Of each plugin and repository the newest, where every word stands in its name, description or author; by name."""
    by_plugin: dict[tuple[str, str], list[Offer]] = {}
    for offer in offers:
        by_plugin.setdefault((offer.name, offer.repository), []).append(offer)
    latest: Mapping[tuple[str, str], Offer | None] = {key: newest(some) for key, some in sorted(by_plugin.items())}
    return [offer for offer in latest.values() if offer is not None and _matches(offer.entry, words)]


def _matches(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.name}\n{entry.description}\n{entry.author}".casefold()
    return all(word.casefold() in text for word in words)


INSTALL = "pip install 'kagura-kernel[repositories]'"
METADATA, TARGETS = "metadata", "targets"
FIRST_ROOT = "1.root.json"
MAX_ROOT_BYTES = 100_000
"""More than a root of a hundred keys; all of them lie in one book."""

_NOT_FOUND = 404


class _Trusted(BookEntry):
    url: str
    root: str
    trusted_at: Moment


@dataclass(frozen=True, slots=True)
class TrustedRepository:
    """One repository."""

    name: str  # What it is called here
    url: str  # Its address, or its folder
    root: bytes  # The first root: whose keys are trusted until they name others
    since: datetime  # When it was trusted, UTC

    @property
    def root_sha256(self) -> str:
        """Of the first root, in hexadecimal."""
        return hashlib.sha256(self.root).hexdigest()


class RepositoryBook(Book[_Trusted]):
    """Trusted repositories, by name."""

    kind = _Trusted

    def add(self, name: str, url: str, root: bytes) -> TrustedRepository:
        """Trust one from now on. Raises as `change`."""
        added = TrustedRepository(name, url, root, self._clock.now())
        self._keep(name, _Trusted(url=url, root=root.decode("utf-8"), trusted_at=added.since))
        return added

    def repositories(self) -> tuple[TrustedRepository, ...]:
        """All of them, by name."""
        return tuple(
            TrustedRepository(name, one.url, one.root.encode(), one.trusted_at)
            for name, one in sorted(self.entries().items())
        )

    def one(self, name: str) -> TrustedRepository:
        """One of them. Raises `UnknownName`."""
        known = {one.name: one for one in self.repositories()}
        if name not in known:
            raise UnknownName("plugin repository", name, sorted(known), hint="See `plugin repository list`.")
        return known[name]


def place_of(source: str) -> str:
    """An address as it is kept: with a slash at its end; a folder as a whole path.

    Raises `UsageError`: it is no folder, and nothing that is fetched from.
    """
    try:
        if not is_address(source):
            folder = Path(source).expanduser().resolve()
            if not folder.is_dir():
                raise UsageError(f"There is no repository at {folder}: no such folder.")
            return str(folder)
        parts = urlsplit(source)
    # A home that nobody has, a name that is too long, a bracket without its other half.
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"There can be no repository at {source}.") from error
    if parts.scheme not in ("https", "http") or (parts.scheme == "http" and parts.hostname not in LOOPBACK):
        raise UsageError("A repository is a folder, or an https:// address; http:// is for this machine alone.")
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError("A repository's address has no user name, and nothing behind a ? or a #.")
    return source.rstrip("/") + "/"


def name_for(place: str) -> str:
    """What a repository is called that nobody has named."""
    host = urlsplit(place).hostname or Path(place).name
    name = "-".join(part for part in "".join(one if one.isalnum() else "-" for one in host.lower()).split("-") if part)
    return name if PLUGIN_NAME.fullmatch(name) else "plugins"


def first_root(name: str, place: str) -> bytes:
    """The first root that a repository shows; whether it is the right one is for its hash to tell.

    Raises `PluginRepositoryError`: it cannot be had.
    """
    try:
        return _read(place, f"{_base(place)}{METADATA}/{FIRST_ROOT}")
    except NotUnpacked as error:
        raise PluginRepositoryError(name, f"shows no root: it {error}") from error


class RepositoryClient:
    """One trusted repository, asked for what it has.

    Args:
        trusted: It.
        home: Where what was seen of repositories is kept, so that nobody can show something older later.
    """

    def __init__(self, trusted: TrustedRepository, home: Path) -> None:
        self._trusted = trusted
        self._seen = home / trusted.name

    def offers(self) -> list[Offer]:
        """Everything that it has now.

        Raises `PluginRepositoryError`: it cannot be reached, or is not to be believed.
        """
        with self._asking() as updater:
            updater.refresh()
            return self._offers(updater)

    def archive(self, offer: Offer) -> bytes:
        """The archive of an offer. Raises as `offers`."""
        with self._asking() as updater:
            info = updater.get_targetinfo(offer.path)
            if info is None or read_offer(offer.repository, offer.path, info.custom) != offer:
                raise PluginRepositoryError(self._trusted.name, f"has no {offer.name} {offer.version} any more")
            if info.length > MAX_ARCHIVE_BYTES:
                why = f"has an archive of {offer.name} that is larger than {MAX_ARCHIVE_BYTES >> 20} MiB"
                raise PluginRepositoryError(self._trusted.name, why)
            # At one place, so that a process that is killed leaves no second one.
            kept = self._seen / "archive"
            try:
                return Path(updater.download_target(info, str(kept))).read_bytes()
            finally:
                kept.unlink(missing_ok=True)

    def forget(self) -> None:
        """Delete what was seen of it."""
        shutil.rmtree(self._seen, ignore_errors=True)

    def _offers(self, updater: Updater) -> list[Offer]:
        from tuf.api.metadata import Metadata, Targets

        # The library has just verified and kept this file; what counts of each is asked of the library.
        listed = Metadata[Targets].from_file(str(self._seen / "targets.json")).signed.targets
        infos = [updater.get_targetinfo(path) for path in sorted(listed)]
        offers = [read_offer(self._trusted.name, info.path, info.custom) for info in infos if info is not None]
        return [offer for offer in offers if offer is not None]

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Updater]:
        """The library at work; one process at a time, as it wants it."""
        name, base = self._trusted.name, _base(self._trusted.url)
        try:
            from tuf.api import exceptions
            from tuf.ngclient import Updater
        except ImportError as error:
            raise PluginRepositoryError(name, "needs one more package here", f"Install it: {INSTALL}") from error
        try:
            self._seen.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self._seen / ".lock"):
                yield Updater(
                    str(self._seen),
                    f"{base}{METADATA}/",
                    target_base_url=f"{base}{TARGETS}/",
                    fetcher=_fetcher(self._trusted.url),
                    bootstrap=self._trusted.root,
                )
        except (exceptions.RepositoryError, exceptions.DownloadError) as error:
            raise PluginRepositoryError(name, *_told(error)) from error
        except OSError as error:
            raise PluginRepositoryError(name, f"cannot be kept track of in {self._seen}: {reason(error)}") from error


def _told(error: Exception) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    from tuf.api import exceptions

    owner = "Ask its owner; nothing was taken from it."
    match error:
        case exceptions.ExpiredMetadataError():
            return (
                "has an index that has expired: its owner has not renewed it, or somebody keeps a newer one back",
                owner,
            )
        case exceptions.BadVersionNumberError():
            return "shows an older index than it did before, or parts of different ones", owner
        case exceptions.UnsignedMetadataError():
            return "has an index that is not signed with the keys that you trust", owner
        case exceptions.LengthOrHashMismatchError() | exceptions.DownloadLengthMismatchError():
            return "has files that are not those that its index names", owner
        case exceptions.DownloadError():
            return f"cannot be read: it {error}", "Try again later."
        case _:
            # Some of the library's errors say nothing.
            why = (str(error).splitlines() or [type(error).__name__])[0][:200]
            return f"has no index that can be used: {why}", owner


def _base(place: str) -> str:
    return place if is_address(place) else f"{Path(place).as_uri()}/"


def _fetcher(place: str) -> FetcherInterface:
    from tuf.api.exceptions import DownloadError, DownloadHTTPError
    from tuf.ngclient import FetcherInterface

    class Fetcher(FetcherInterface):
        def _fetch(self, url: str) -> Iterator[bytes]:
            try:
                return iter([_read(place, url)])
            except NotAnswered as error:
                raise DownloadHTTPError(str(error), error.status) from error
            except NotUnpacked as error:
                raise DownloadError(str(error)) from error

    return Fetcher()


def _read(place: str, url: str) -> bytes:
    if is_address(place):
        return fetch_archive(url, loopback=urlsplit(place).hostname in LOOPBACK)
    root, path = Path(place).resolve(), Path(unquote(urlsplit(url).path)).resolve()
    if not path.is_relative_to(root):
        raise NotUnpacked("names a file that lies outside of its folder")
    if path.exists() and not path.is_file():
        # A pipe would never end.
        raise NotUnpacked(f"has something else than a file as {path.name}")
    try:
        with path.open("rb") as file:
            return file.read(MAX_ARCHIVE_BYTES + 1)
    except FileNotFoundError as error:
        raise NotAnswered(f"has no file {path.name}", _NOT_FOUND) from error
    except OSError as error:
        raise NotUnpacked(f"cannot be read: {reason(error)}") from error
