"""Repositories of plugins as a person handles them: trusted once, searched, installed from, published to."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import (
    PluginInvalid,
    PluginRefused,
    PluginRepositoryError,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import MAX_NAME, PLUGIN_NAME, Risk
from kagura_kernel.journal.place import expanded
from kagura_kernel.plugins.manifest import FOLDER
from kagura_kernel.render.figures import counted

if TYPE_CHECKING:
    from kagura_kernel.plugins.content import PluginContent
    from kagura_kernel.plugins.manager import PluginManager
    from kagura_kernel.plugins.manifest import Difference, Found
    from kagura_kernel.plugins.repositories.publish import Issue, Published
    from kagura_kernel.plugins.repositories.trusted import Offer, RepositoryBook, RepositoryClient, TrustedRepository


@dataclass(frozen=True, slots=True)
class Hit:
    """A plugin that a repository has, and what of it is installed."""

    offer: Offer  # The newest version
    installed: str  # The version that lies among the person's own plugins; empty for none


@dataclass(frozen=True, slots=True)
class Update:
    """A newer version of an installed plugin, fetched and not installed yet."""

    offer: Offer
    found: Found  # Its files
    difference: Difference  # To the installed version

    @property
    def text(self) -> str:
        """What would be other, for a person."""
        said = self.offer.entry
        head = f"{said.name} {said.version}, in the repository {self.offer.repository}: {said.description}"
        return "\n".join([head, *(f"  {line}" for line in self.difference.lines())])


def split_version(source: str) -> tuple[str, str] | None:
    """The name and the version of `NAME[@VERSION]`; None where it cannot be meant for a plugin of a repository."""
    name, _, version = source.partition("@")
    return (name, version) if PLUGIN_NAME.fullmatch(name) and len(name) <= MAX_NAME else None


def split_source(source: str | None) -> tuple[str, str]:
    """The same of a word that can only mean that. Raises `UsageError`: it cannot."""
    named = split_version(source or "")
    if source and named is None:
        raise UsageError(f"{source[:80]} is no plugin's name: it is NAME or NAME@VERSION.")
    return named or ("", "")


def trusted_text(trusted: TrustedRepository, count: int) -> str:
    """What became of trusting a repository."""
    return (
        f"The repository {trusted.name} is trusted: {trusted.url}, root {trusted.root_sha256[:16]}…, "
        f"{counted(count, 'plugin')}. Nothing is installed yet: `plugin search` lists what it has."
    )


class PluginRepositories:
    """From any thread, and blocks; nothing here enables anything.

    Args:
        manager: The process's plugins: they write down what is done.
        home: Our data directory.
        note: Writes down what was installed.
    """

    def __init__(self, manager: Callable[[], PluginManager], home: Path, note: Callable[..., None]) -> None:
        self._manager = manager
        self._note = note
        self._own = home / FOLDER
        self._home = home

    @property
    def _book(self) -> RepositoryBook:
        from kagura_kernel.plugins.repositories.trusted import RepositoryBook

        return RepositoryBook(self._home / "plugin-repositories.json")

    def _client(self, trusted: TrustedRepository) -> RepositoryClient:
        from kagura_kernel.plugins.repositories.trusted import RepositoryClient

        return RepositoryClient(trusted, self._home / "plugin-repositories")

    def trusted(self) -> tuple[TrustedRepository, ...]:
        """Those that are trusted, by name."""
        return self._book.repositories()

    def add(
        self, source: str, *, root: Path | None, sha256: str | None, name: str | None, by: str, via: str
    ) -> tuple[TrustedRepository, int]:
        """Trust a repository by its first root; it, and how many plugins it has.

        Raises:
            UsageError: there is no such place, its name is none or taken, or no root and no hash is named.
            PluginRepositoryError: it cannot be read, or its root is not the one that is meant.
            ConfigurationError: it cannot be kept.
        """
        from kagura_kernel.plugins.installation import pinned_hash
        from kagura_kernel.plugins.repositories.trusted import (
            MAX_ROOT_BYTES,
            TrustedRepository,
            first_root,
            name_for,
            place_of,
        )

        place = place_of(source)
        called = name or name_for(place)
        if split_version(called) != (called, ""):
            raise UsageError(f"A repository's name is in kebab-case, as in our-plugins, and {called[:80]!r} is not.")
        if called in {one.name for one in self.trusted()}:
            raise UsageError(f"There is a repository {called!r} already. Name this one otherwise: --name NAME.")
        if root is None and sha256 is None:
            raise UsageError(
                "Say which root you trust, as the repository's owner tells you: --root FILE, or --sha256 HASH of its "
                "metadata/1.root.json. Whoever could change it on the way could change all that comes after."
            )
        pinned = pinned_hash(sha256)
        first = first_root(called, place) if root is None else _file(root)
        if len(first) > MAX_ROOT_BYTES:
            raise PluginRepositoryError(called, f"shows a root that is larger than {MAX_ROOT_BYTES // 1000} kB")
        found = hashlib.sha256(first).hexdigest()
        if pinned and not hmac.compare_digest(found, pinned):
            why = f"shows another root than is meant: its SHA-256 is {found}"
            raise PluginRepositoryError(called, why, "Ask its owner which is right; nothing is trusted.")
        trusted = TrustedRepository(called, place, first, self._manager().now())
        client = self._client(trusted)
        # Whatever an earlier one of this name has shown is not about this one.
        client.forget()
        try:
            count = len({offer.name for offer in client.offers()})
        except PluginRepositoryError:
            client.forget()
            raise
        self._manager().note("trusted", called, by=by, via=via, why=f"the repository {place}")
        return self._book.add(called, place, first), count

    def remove(self, name: str, *, by: str, via: str) -> None:
        """Trust a repository no longer; what was installed from it stays. Raises `UnknownName`."""
        trusted = self._book.one(name)
        self._manager().note("distrusted", name, by=by, via=via, why=f"the repository {trusted.url}")
        self._book.remove(name)
        self._client(trusted).forget()

    def search(self, words: Sequence[str]) -> list[Hit]:
        """The plugins that the trusted repositories have now, and what of them is installed.

        Raises:
            UsageError: none is trusted.
            PluginRepositoryError: one cannot be read, or is not to be believed.
        """
        from kagura_kernel.plugins.repositories.trusted import matching

        installed = self._installed()
        return [
            Hit(offer, installed[offer.name].manifest.version if offer.name in installed else "")
            for offer in matching(self._offers(), words)
        ]

    def install(
        self, name: str, version: str = "", *, repository: str | None = None, replace: bool = False, by: str, via: str
    ) -> Found:
        """Install a plugin of a trusted repository; the newest version where none is named.

        Raises:
            UsageError: no repository is trusted, or several have it.
            UnknownName: none has it, or not this version.
            PluginRepositoryError: one cannot be read, or is not to be believed.
            PluginInvalid, PluginRefused: as `PluginShelf.install`.
        """
        from kagura_kernel.plugins.repositories.trusted import found

        offers = self._offers(repository)
        places = sorted({offer.repository for offer in offers if offer.name == name})
        if len(places) > 1:
            raise UsageError(f"Several repositories have {name}: {', '.join(places)}. Say which: --repository NAME.")
        offer = found(offers, name, version)
        return self._put(offer, self._fetched(offer), replace=replace, by=by, via=via)

    def updates(self, name: str = "", version: str = "") -> list[Update]:
        """Newer versions of what is installed from trusted repositories, with what is other about them.

        What was installed from elsewhere, or was changed since, is left alone. So is what several repositories have
        as it is here, unless all of them offer the same.

        Raises:
            UnknownName: nothing of this name is installed, or there is no such version.
            PluginRefused: it does not come from a trusted repository, or not as it is now.
            UsageError: as `search`; or several have what was named, and do not offer the same.
            PluginRepositoryError: as `search`.
        """
        from kagura_kernel.plugins.manifest import difference
        from kagura_kernel.plugins.repositories.trusted import found, newest, precedence

        installed = self._installed()
        if name and name not in installed:
            raise UnknownName("plugin of your own", name, sorted(installed), hint="See `plugin list`.")
        offers = self._offers()
        made = []
        for one in [installed[name]] if name else installed.values():
            origins = _origins(one, offers)
            if not origins and name:
                why = "is not, as it is now, what any repository has that you trust"
                raise PluginRefused(name, why, f"To take it from one: `plugin install {name} --replace`.")
            ours = [offer for offer in offers if offer.name == one.name and offer.repository in origins]
            latest = found(ours, name, version) if version else newest(ours)
            if latest is None or precedence(latest.version) <= precedence(one.manifest.version):
                continue
            self._manager().offered(one.name, latest.version, f"{latest.repository} has {latest.version}")
            if {offer.repository for offer in ours if _same(offer, latest)} != origins:
                # Whose it is nobody can tell, and another one may offer what its owner never made.
                if name:
                    raise UsageError(_doubt(latest, origins))
                continue
            fetched = self._fetched(latest)
            made.append(Update(latest, fetched, difference(one, fetched)))
        return made

    def update(self, update: Update, *, by: str, via: str) -> Found:
        """Put an update in the place of what is installed. Raises as `install`."""
        return self._put(update.offer, update.found, replace=True, by=by, via=via)

    def publish(self, folder: Path, sources: Sequence[Path], key: Path, *, days: int) -> Published:
        """Add plugins, directories or archives, to the repository in a folder, or sign its index anew without any.

        A folder that is not there is made, and with a new repository the key too where it is not there.

        Raises:
            UsageError: a source is neither, or there is no repository to be signed anew.
            PluginInvalid, PluginRefused: it is no plugin, nobody could enable it, or its version is there already.
            PluginRepositoryError, SignatureInvalid: as `publishing.publish`.
        """
        from kagura_kernel.plugins.repositories.publish import is_other, is_repository, publish
        from kagura_kernel.plugins.signature import make_key

        issues = [self._issue(source) for source in sources]
        folder = expanded(folder).absolute()
        if not is_repository(folder) and not is_other(folder):
            if not issues:
                raise UsageError(
                    f"There is no repository in {folder} to sign anew. Name its folder, or a plugin to begin one with."
                )
            if not key.exists():
                make_key(key)
        return publish(folder, issues, key, days=days, now=self._manager().now())

    def _issue(self, source: Path) -> Issue:
        from kagura_kernel.plugins.content import read_content
        from kagura_kernel.plugins.installation import NotUnpacked, unpack
        from kagura_kernel.plugins.repositories.publish import Issue, check_publishable, packed

        if source.is_dir():
            content = read_content(source.resolve())
            archive, ending = packed(content), ".tar.gz"
        else:
            archive = _file(source)
            ending = ".zip" if archive.startswith(b"PK") else ".tar.gz"
        try:
            # As whoever installs it will have it.
            content = unpack(archive, source.name)
        except NotUnpacked as error:
            raise PluginRefused(source.name, str(error)) from error
        found = _found(content)
        check_publishable(found)
        audit = self._manager().cached_audit(found.name, content.content_hash)
        return Issue(found, archive, ending, audit.risk if audit is not None else Risk.UNKNOWN)

    def _offers(self, repository: str | None = None) -> list[Offer]:
        trusted = self.trusted() if repository is None else (self._book.one(repository),)
        if not trusted:
            raise UsageError("You trust no repository yet: `plugin repository add SOURCE --root FILE` trusts one.")
        return [offer for one in trusted for offer in self._client(one).offers()]

    def _fetched(self, offer: Offer) -> Found:
        """Its files, once they are what the index says that they are."""
        from kagura_kernel.plugins.installation import NotUnpacked, unpack

        archive = self._client(self._book.one(offer.repository)).archive(offer)
        try:
            content = unpack(archive, f"{offer.name} {offer.version}")
        except NotUnpacked as error:
            raise PluginRefused(offer.name, str(error)) from error
        found = _found(content)
        manifest = found.manifest
        if (manifest.name, manifest.version, content.content_hash) != (
            offer.name,
            offer.version,
            offer.entry.content_hash,
        ) or manifest.permissions != offer.entry.permissions:
            raise PluginRepositoryError(offer.repository, f"says of {offer.name} what its archive does not hold")
        return found

    def _put(self, offer: Offer, found: Found, *, replace: bool, by: str, via: str) -> Found:
        from kagura_kernel.plugins.installation import put

        installed = put(found.content, self._own, replace=replace)
        self._note(installed, f"from the repository {offer.repository}", replace=replace, by=by, via=via)
        return installed

    def _installed(self) -> dict[str, Found]:
        from kagura_kernel.plugins.manifest import discover

        return dict(discover([("user", self._own)]).found)


def _origins(installed: Found, offers: Sequence[Offer]) -> set[str]:
    """The repositories that have exactly these files."""
    known = installed.content.content_hash
    return {offer.repository for offer in offers if offer.entry.content_hash == known}


def _same(one: Offer, other: Offer) -> bool:
    return (one.version, one.entry.content_hash) == (other.version, other.entry.content_hash)


def _doubt(latest: Offer, origins: set[str]) -> str:
    name, places = latest.name, ", ".join(sorted(origins))
    return (
        f"Several repositories have {name} as it is here ({places}), and not all of them offer the {latest.version} "
        f"of {latest.repository}. To take it from one: `plugin install {name} --repository NAME --replace`."
    )


def _found(content: PluginContent) -> Found:
    from kagura_kernel.plugins.content import MANIFEST
    from kagura_kernel.plugins.manifest import Found, parse_manifest

    if MANIFEST not in content.files:
        raise PluginInvalid(content.name, [f"there is no {MANIFEST}"])
    manifest = parse_manifest(content.files[MANIFEST], None)
    return Found(manifest.name, "user", content, manifest)


def _file(path: Path) -> bytes:
    from kagura_kernel.plugins.installation import MAX_ARCHIVE_BYTES

    try:
        with expanded(path).open("rb") as file:
            return file.read(MAX_ARCHIVE_BYTES + 1)
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise UsageError(f"{path} cannot be read: {why}.") from error
