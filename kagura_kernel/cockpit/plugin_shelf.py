"""A person's own plugins on this machine, and the authors whom they trust."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import JournalError, KaguraError, PluginInvalid
from kagura_kernel.plugins.manifest import FOLDER

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginChange
    from kagura_kernel.plugins.decisions import TrustedAuthor
    from kagura_kernel.plugins.manager import PluginManager
    from kagura_kernel.plugins.manifest import Found
    from kagura_kernel.plugins.signature import Signature


def installed_text(found: Found, barred: str, how: str) -> str:
    """What became of an installing, and what to do with it.

    Args:
        found: The plugin.
        barred: Why it cannot be enabled, as `PluginShelf.barred` says it.
        how: The command that enables it.
    """
    if barred:
        return f"{found.name} {found.manifest.version} is installed, and {barred}."
    return f"{found.name} {found.manifest.version} is installed. Nothing is enabled yet: `{how}`."


class PluginShelf:
    """Installs, removes, signs, trusts; from any thread. Nothing here enables anything.

    Args:
        manager: The process's plugins: they write down what is done, and know the authors whom this person trusts.
        home: Our data directory, with the person's own plugins in it.
    """

    def __init__(self, manager: Callable[[], PluginManager], home: Path) -> None:
        self._manager = manager
        self._own = home / FOLDER

    def install(self, source: str, sha256: str | None, *, replace: bool = False, by: str, via: str) -> Found:
        """Copy a plugin from a directory, an archive or an address.

        Raises:
            UsageError: there is no such source, or its hash is missing.
            PluginInvalid: it is no plugin.
            PluginRefused: its hash is another one, it holds what no plugin may hold, or its name is taken.
        """
        from kagura_kernel.plugins.installing import install, remove

        found = install(source, sha256, self._own, replace=replace)
        try:
            self._manager().note(
                "installed",
                found.name,
                by=by,
                via=via,
                why=f"from {Path(source).name or source}",
                version=found.manifest.version,
                content_hash=found.content.content_hash,
            )
        except JournalError:
            if not replace:
                remove(found.name, self._own)
            raise
        return found

    def barred(self, name: str) -> str:
        """Why one of the person's own plugins cannot be enabled, whatever they decide; empty when it can.

        Half a sentence that goes on from the plugin's name; takes as long as a scan.
        """
        manager = self._manager()
        try:
            return manager.barred(manager.examine(name, None), None)
        except PluginInvalid as error:
            return f"cannot be used: {'; '.join(error.problems)}"

    def remove(self, name: str, *, by: str, via: str) -> None:
        """Delete one of the person's own plugins; its approval goes with it.

        Raises:
            UnknownName: it is not one of theirs.
            PluginRefused: it cannot be deleted.
        """
        from kagura_kernel.plugins.installing import remove

        if name in self._names():
            # Before it is gone: what cannot be written down is not done.
            self._manager().unapprove("", name, by=by, via=via, why="it was removed")
            with self._told("removed", "installed", name, by=by, via=via):
                remove(name, self._own)
        else:
            remove(name, self._own)

    def sign(self, path: Path, key: Path, author: str, *, by: str, via: str) -> Signature:
        """Sign a plugin's directory; the key is made when its file is not there.

        Raises:
            PluginInvalid: it is no directory that can be read.
            PluginRefused: it holds what no plugin may hold, or cannot be written to.
            SignatureInvalid: the key is none, others may read it, or the author's name cannot be shown.
        """
        from kagura_kernel.plugins.content import read_content, sign
        from kagura_kernel.plugins.signature import make_key

        content = read_content(path.resolve())
        if not key.exists():
            make_key(key)
        signature = sign(content, key, author)
        self._manager().note("signed", content.name, by=by, via=via, why=f"by {author}")
        return signature

    def authors(self) -> tuple[TrustedAuthor, ...]:
        """Those that are trusted, by name."""
        return self._manager().trust.authors()

    def trust(self, author: str, key: str, *, by: str, via: str) -> TrustedAuthor:
        """Trust an author's key.

        Raises:
            SignatureInvalid: it is none, or the name or the key is another author's.
            ConfigurationError: it cannot be kept.
        """
        trusted = self._manager().trust.check(author, key)
        with self._told("trusted", "distrusted", author, by=by, via=via, why=trusted.key):
            return self._manager().trust.add(author, key)

    def distrust(self, author: str, *, by: str, via: str) -> bool:
        """Trust an author no longer; False when they were not trusted.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        if author not in {one.name for one in self.authors()}:
            return False
        with self._told("distrusted", "trusted", author, by=by, via=via):
            return self._manager().trust.remove(author)

    def _names(self) -> list[str]:
        try:
            return [entry.name for entry in self._own.iterdir()]
        except FileNotFoundError:
            return []

    @contextlib.contextmanager
    def _told(
        self, change: PluginChange, back: PluginChange, name: str, *, by: str, via: str, why: str = ""
    ) -> Iterator[None]:
        """Write a change down before it is made, and that it was not where it fails.

        Raises:
            JournalError: it cannot be written down; nothing is changed.
        """
        from kagura_kernel.plugins.sessions import ITSELF

        self._manager().note(change, name, by=by, via=via, why=why)
        try:
            yield
        except KaguraError as error:
            self._manager().note(back, name, by=ITSELF, via="", why=f"it could not be done: {error.message}")
            raise
