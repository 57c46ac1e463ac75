"""The authors that the operator of this machine trusts. Trust says who wrote a plugin, and lets nothing through."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import SignatureInvalid
from kagura_kernel.domain.plugins import PluginFinding, Severity
from kagura_kernel.plugins.book import Book, Entries, Entry
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.discovery import Found
from kagura_kernel.plugins.signature import SIGNATURE, check_author, check_key

_KEYS = frozenset({"publicKey", "trustedAt"})


@dataclass(frozen=True, slots=True)
class TrustedAuthor:
    """One author."""

    name: str  # As the operator calls them
    key: str  # Their public key, `ed25519:…`
    since: datetime  # When they were trusted, UTC


class TrustBook(Book):
    """Trusted authors, by name.

    Args:
        path: The file.
        clock: The time.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_author)
        self._clock = clock or SystemClock()

    def add(self, name: str, key: str) -> TrustedAuthor:
        """Trust an author.

        Raises:
            SignatureInvalid: the key is none, the name cannot be shown, or it is another author's, or the key is.
            ConfigurationError: it cannot be kept.
        """
        author = self.check(name, key)

        def put(entries: Entries) -> bool:
            _check_free(entries, author)
            entries[name] = {"publicKey": author.key, "trustedAt": author.since.isoformat()}
            return True

        self.change(put)
        return author

    def check(self, name: str, key: str) -> TrustedAuthor:
        """What `add` would add; raises `SignatureInvalid` like it."""
        check_author(name)
        author = TrustedAuthor(name, check_key(key), self._clock.now())
        _check_free(self.entries(), author)
        return author

    def remove(self, name: str) -> bool:
        """Trust an author no longer: whether they were trusted.

        Raises:
            ConfigurationError: it cannot be kept.
        """
        return self.change(lambda entries: entries.pop(name, None) is not None)

    def authors(self) -> tuple[TrustedAuthor, ...]:
        """All of them, by name."""
        return tuple(
            TrustedAuthor(name, entry["publicKey"], datetime.fromisoformat(entry["trustedAt"]))
            for name, entry in sorted(self.entries().items())
        )

    def signer(self, found: Found) -> str:
        """The trusted author whose signature a plugin has; empty for none."""
        try:
            signature = found.content.signature()
        except SignatureInvalid:
            return ""
        return "" if signature is None else self._name_of(signature.key)

    def findings(self, content: PluginContent) -> tuple[PluginFinding, ...]:
        """What there is to say about a plugin's signature, where it holds; one that does not is an oddity already."""
        try:
            signature = content.signature()
        except SignatureInvalid:
            return ()
        if signature is None:
            return ()
        name = self._name_of(signature.key)
        message = (
            f"Signed by {name!r}, whom you trust."
            if name
            else f"Signed by somebody who calls themselves {signature.author!r}, whose key {signature.key} you do not "
            "trust."
        )
        return (PluginFinding(Severity.INFO, "signature", message, SIGNATURE),)

    def _name_of(self, key: str) -> str:
        return next((author.name for author in self.authors() if author.key == key), "")


def _check_free(entries: Entries, author: TrustedAuthor) -> None:
    """Refuse a name that has another key, and a key that has another name."""
    other = entries.get(author.name, {}).get("publicKey", author.key)
    if other != author.key:
        raise SignatureInvalid(
            f"You trust {author.name!r} with another key ({other}). Where they have a new one, first run "
            f"`plugin trust {author.name!r} --remove`."
        )
    owner = next((one for one, entry in entries.items() if entry["publicKey"] == author.key), author.name)
    if owner != author.name:
        raise SignatureInvalid(f"That is the key of {owner!r}, whom you trust already.")


def _is_author(entry: Entry) -> bool:
    if set(entry) != _KEYS or not all(isinstance(value, str) for value in entry.values()):
        return False
    try:
        return check_key(entry["publicKey"]) != "" and datetime.fromisoformat(entry["trustedAt"]).tzinfo is not None
    except (SignatureInvalid, ValueError):
        return False
