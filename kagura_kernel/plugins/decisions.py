"""What a person decided about plugins for good: approvals, quarantine, and whose authors are trusted.

Two processes that change it at once wait for each other. A file that is broken, or that somebody else could have
written, counts as empty: what it would grant has to be granted again.

Approvals and quarantine hold for exactly the bytes that they were decided about; a changed plugin has neither.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ConfigurationError, SignatureInvalid
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, PluginFinding, Risk, Severity
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.signature import SIGNATURE, check_author, check_key
from kagura_kernel.plugins.text import NotReadable, read_document

MAX_BYTES = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH

Entry = dict[str, Any]
Entries = dict[str, Entry]


class Unfit(Exception):
    """A file that does not count; the text says why, as a sentence without its end."""


class Book:
    """Entries by name, in a JSON file of mode 0600 in a directory of mode 0700; any thread may use it.

    An entry that `check` says no to makes the whole file count as empty.
    """

    def __init__(self, path: Path, check: Callable[[Entry], bool]) -> None:
        self._path = path
        self._check = check
        self._turn = threading.Lock()

    @property
    def problem(self) -> str:
        """Why the file counts as empty, one sentence; empty when it counts, and when there is none."""
        try:
            self._read()
        except Unfit as error:
            return f"{self._path} counts as empty: {error}."
        return ""

    def entries(self) -> Entries:
        """What it holds; nothing when it does not count."""
        try:
            return self._read()
        except Unfit:
            return {}

    def change(self, change: Callable[[Entries], bool]) -> bool:
        """Let `change` alter the entries, and keep them where it says that it has: what it said.

        A file that does not count is kept beside the new one, with `.unfit` at its end. Raises `ConfigurationError`:
        the file cannot be written.
        """
        try:
            with self._turn, self._locked():
                entries = self.entries()
                changed = change(entries)
                if changed:
                    self._write(entries)
                return changed
        except OSError as error:
            why = (error.strerror or "unknown reason").lower()
            raise ConfigurationError(str(self._path), [f"it cannot be written: {why}"]) from error

    def _read(self) -> Entries:
        try:
            directory = self._path.parent.stat()
            handle = os.open(self._path, _FILE)
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = "it is a link" if self._path.is_symlink() else (error.strerror or "it cannot be read").lower()
            raise Unfit(why) from error
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if why := _why_unfit(found) or _why_unfit(directory, "its directory"):
                raise Unfit(why)
            data = file.read(MAX_BYTES + 1)
        return self._entries(data)

    def _entries(self, data: bytes) -> Entries:
        try:
            document, problems = read_document(data, MAX_BYTES)
        except NotReadable as error:
            raise Unfit(f"it {error}") from error
        if problems:
            raise Unfit(problems[0])
        for name, entry in document.items():
            if not isinstance(entry, dict) or not self._check(entry):
                raise Unfit(f"what it says of {name[:80]!r} is not what this version writes")
        return document

    def _write(self, entries: Mapping[str, Entry]) -> None:
        if self.problem:
            with contextlib.suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(f"{self._path.name}.unfit"))
        text = json.dumps(dict(sorted(entries.items())), indent=2, ensure_ascii=False) + "\n"
        temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o600), "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        directory = self._path.parent
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
        handle = os.open(directory / f".{self._path.name}.lock", _LOCK, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _why_unfit(found: os.stat_result, what: str = "it") -> str:
    if found.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to somebody else"
    if found.st_mode & _OTHERS:
        return f"others may write {'into ' if what != 'it' else ''}{what}"
    if what == "it" and not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    return ""


_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_APPROVAL = frozenset({"contentHash", "approvedAt", "auditRiskLevel", "auditVerdict"})
_QUARANTINE = frozenset({"contentHash", "reason", "at"})


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """One approval."""

    content_hash: str  # Of the files that are approved
    approved_at: datetime  # When, UTC
    risk: Risk  # What their audit said
    verdict: AuditVerdict  # What their audit advised


class ApprovalBook(Book):
    """The approvals of this machine; a session's end does not end them."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_approval)
        self._clock = clock or SystemClock()

    def approve(self, audit: PluginAudit) -> ApprovalRecord:
        """Keep the approval of what was audited; whether it may be approved was decided before.

        Raises `ConfigurationError`: it cannot be kept.
        """
        record = ApprovalRecord(audit.content_hash, self._clock.now(), audit.risk, audit.verdict)
        entry = {
            "contentHash": record.content_hash,
            "approvedAt": record.approved_at.isoformat(),
            "auditRiskLevel": record.risk.value,
            "auditVerdict": record.verdict.value,
        }

        def put(entries: Entries) -> bool:
            entries[audit.plugin] = entry
            return True

        self.change(put)
        return record

    def unapprove(self, name: str) -> bool:
        """Take an approval back, of whatever files: whether there was one.

        Raises `ConfigurationError`: it cannot be taken back.
        """
        return self.change(lambda entries: entries.pop(name, None) is not None)

    def record(self, name: str) -> ApprovalRecord | None:
        """The approval of a plugin, of whatever files."""
        entry = self.entries().get(name)
        if entry is None:
            return None
        return ApprovalRecord(
            entry["contentHash"],
            datetime.fromisoformat(entry["approvedAt"]),
            Risk(entry["auditRiskLevel"]),
            AuditVerdict(entry["auditVerdict"]),
        )

    def valid(self, name: str, content_hash: str) -> ApprovalRecord | None:
        """The approval of exactly these files."""
        record = self.record(name)
        return record if record is not None and record.content_hash == content_hash else None


class QuarantineBook(Book):
    """The plugins of this machine that are off because they failed."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_quarantine)
        self._clock = clock or SystemClock()

    def put(self, name: str, content_hash: str, reason: str) -> None:
        """Put these files of a plugin off. Raises `ConfigurationError`: it cannot be kept."""
        entry = {"contentHash": content_hash, "reason": reason, "at": self._clock.now().isoformat()}

        def put(entries: Entries) -> bool:
            entries[_key(name, content_hash)] = entry
            return True

        self.change(put)

    def release(self, name: str, content_hash: str) -> bool:
        """Let these files of a plugin out: whether they were in. Raises `ConfigurationError`: it cannot be kept."""
        return self.change(lambda entries: entries.pop(_key(name, content_hash), None) is not None)

    def reason(self, name: str, content_hash: str) -> str:
        """Why exactly these files are off, half a sentence; empty when they are not."""
        entry = self.entries().get(_key(name, content_hash))
        return str(entry["reason"]) if entry is not None and entry["contentHash"] == content_hash else ""


def _key(name: str, content_hash: str) -> str:
    # Two projects may have plugins of one name: what befalls the one lets the other neither in nor out.
    return f"{name} {content_hash}"


def _is_approval(entry: Entry) -> bool:
    return (
        set(entry) == _APPROVAL
        and _is_hash(entry["contentHash"])
        and _is_time(entry["approvedAt"])
        and entry["auditRiskLevel"] in list(Risk)
        and entry["auditVerdict"] in list(AuditVerdict)
    )


def _is_quarantine(entry: Entry) -> bool:
    known = set(entry) == _QUARANTINE and _is_hash(entry["contentHash"]) and _is_time(entry["at"])
    return known and isinstance(entry["reason"], str)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    """Whether it is a time with its zone, as the journal has them all."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_KEYS = frozenset({"publicKey", "trustedAt"})


@dataclass(frozen=True, slots=True)
class TrustedAuthor:
    """One author."""

    name: str  # As the operator calls them
    key: str  # Their public key, `ed25519:…`
    since: datetime  # When they were trusted, UTC


class TrustBook(Book):
    """Trusted authors, by name."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, _is_author)
        self._clock = clock or SystemClock()

    def add(self, name: str, key: str) -> TrustedAuthor:
        """Trust an author.

        Raises `SignatureInvalid`: the key is none, the name cannot be shown, or it is another author's, or the key is;
        `ConfigurationError`: it cannot be kept.
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
        """Trust an author no longer: whether they were trusted. Raises `ConfigurationError`: it cannot be kept."""
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
