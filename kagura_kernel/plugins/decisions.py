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
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ConfigurationError, SignatureInvalid
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, PluginFinding, Risk, Severity
from kagura_kernel.journal.settings_text import replace_file
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.signature import SIGNATURE, Signature, check_author, check_key
from kagura_kernel.plugins.text import NotReadable, read_document, reason

MAX_BYTES = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value
    raise ValueError("it is no time")


def _public_key(text: str) -> str:
    try:
        check_key(text)
    except SignatureInvalid as error:
        raise ValueError(error.message) from error
    return text


# With its zone, as the journal has all times.
Moment = Annotated[AwareDatetime, BeforeValidator(_moment), PlainSerializer(datetime.isoformat)]
_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class BookEntry(BaseModel):
    """What a book holds under one name."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ApprovalRecord(BookEntry):
    """One approval."""

    content_hash: _Hash  # Of the files that are approved
    approved_at: Moment  # When, UTC
    risk: Annotated[Risk, Field(alias="auditRiskLevel")]  # What their audit said
    verdict: Annotated[AuditVerdict, Field(alias="auditVerdict")]  # What their audit advised


class _PutOff(BookEntry):
    content_hash: _Hash
    reason: str
    at: Moment


class _Trusted(BookEntry):
    public_key: Annotated[str, AfterValidator(_public_key)]
    trusted_at: Moment


E = TypeVar("E", bound=BookEntry)


class Unfit(Exception):
    """A file that does not count; the text says why, as a sentence without its end."""


class Book(Generic[E]):
    """Entries by name, in a JSON file of mode 0600 in a directory of mode 0700; any thread may use it.

    An entry that is none makes the whole file count as empty.
    """

    kind: ClassVar[type[BookEntry]]  # Of its entries

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._turn = threading.Lock()

    @property
    def problem(self) -> str:
        """Why the file counts as empty, one sentence; empty when it counts, and when there is none."""
        try:
            self._read()
        except Unfit as error:
            return f"{self._path} counts as empty: {error}. Mend it, or delete it and decide anew."
        return ""

    def entries(self) -> dict[str, E]:
        """What it holds; nothing when it does not count."""
        try:
            return self._read()
        except Unfit:
            return {}

    def change(self, change: Callable[[dict[str, E]], bool]) -> bool:
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
            raise ConfigurationError(str(self._path), [f"it cannot be written: {reason(error)}"]) from error

    def _keep(self, name: str, entry: E) -> None:
        """Keep an entry in place of the one of that name. Raises as `change`."""

        def put(entries: dict[str, E]) -> bool:
            entries[name] = entry
            return True

        self.change(put)

    def remove(self, name: str) -> bool:
        """Take an entry out: whether there was one. Raises as `change`."""
        return self.change(lambda entries: entries.pop(name, None) is not None)

    def _read(self) -> dict[str, E]:
        try:
            directory = self._path.parent.stat()
            handle = os.open(self._path, _FILE)
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = "it is a link" if self._path.is_symlink() else reason(error)
            raise Unfit(why) from error
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if why := _why_unfit(found) or _why_unfit(directory, "its directory"):
                raise Unfit(why)
            data = file.read(MAX_BYTES + 1)
        return self._entries(data)

    def _entries(self, data: bytes) -> dict[str, E]:
        try:
            document, problems = read_document(data, MAX_BYTES)
        except NotReadable as error:
            raise Unfit(f"it {error}") from error
        if problems:
            raise Unfit(problems[0])
        entries: dict[str, Any] = {}
        for name, entry in document.items():
            try:
                entries[name] = self.kind.model_validate(entry, by_alias=True, by_name=False)
            except ValidationError as error:
                raise Unfit(f"what it says of {name[:80]!r} is not what this version writes") from error
        return entries

    def _write(self, entries: dict[str, E]) -> None:
        if self.problem:
            with contextlib.suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(f"{self._path.name}.unfit"))
        told = {name: entry.model_dump(mode="json", by_alias=True) for name, entry in sorted(entries.items())}
        text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        replace_file(self._path, text.encode())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        directory = self._path.parent
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
        with locked(directory / f".{self._path.name}.lock"):
            yield


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have a file, made if need be, for oneself while the block lasts; waits for whoever has it. Raises OSError."""
    handle = os.open(path, _LOCK, 0o600)
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


class ApprovalBook(Book[ApprovalRecord]):
    """The approvals of this machine; a session's end does not end them."""

    kind = ApprovalRecord

    def approve(self, audit: PluginAudit) -> ApprovalRecord:
        """Keep the approval of what was audited; whether it may be approved was decided before. Raises as `change`."""
        record = ApprovalRecord(
            content_hash=audit.content_hash, approved_at=self._clock.now(), risk=audit.risk, verdict=audit.verdict
        )
        self._keep(audit.plugin, record)
        return record

    def record(self, name: str) -> ApprovalRecord | None:
        """The approval of a plugin, of whatever files."""
        return self.entries().get(name)

    def valid(self, name: str, content_hash: str) -> ApprovalRecord | None:
        """The approval of exactly these files."""
        record = self.record(name)
        return record if record is not None and record.content_hash == content_hash else None


class QuarantineBook(Book[_PutOff]):
    """The plugins of this machine that are off because they failed."""

    kind = _PutOff

    def put(self, name: str, content_hash: str, reason: str) -> None:
        """Put these files of a plugin off. Raises as `change`."""
        self._keep(_key(name, content_hash), _PutOff(content_hash=content_hash, reason=reason, at=self._clock.now()))

    def release(self, name: str, content_hash: str) -> bool:
        """Let these files of a plugin out: whether they were in. Raises as `change`."""
        return self.remove(_key(name, content_hash))

    def reason(self, name: str, content_hash: str) -> str:
        """Why exactly these files are off, half a sentence; empty when they are not."""
        entry = self.entries().get(_key(name, content_hash))
        return entry.reason if entry is not None and entry.content_hash == content_hash else ""


def _key(name: str, content_hash: str) -> str:
    # Two projects may have plugins of one name: what befalls the one lets the other neither in nor out.
    return f"{name} {content_hash}"


@dataclass(frozen=True, slots=True)
class TrustedAuthor:
    """One author."""

    name: str  # As the operator calls them
    key: str  # Their public key, `ed25519:…`
    since: datetime  # When they were trusted, UTC


class TrustBook(Book[_Trusted]):
    """Trusted authors, by name."""

    kind = _Trusted

    def add(self, name: str, key: str) -> TrustedAuthor:
        """Trust an author. Raises as `check`, and as `change`."""
        author = self.check(name, key)

        def put(entries: dict[str, _Trusted]) -> bool:
            _check_free(entries, author)
            entries[name] = _Trusted(public_key=author.key, trusted_at=author.since)
            return True

        self.change(put)
        return author

    def check(self, name: str, key: str) -> TrustedAuthor:
        """What `add` would add.

        Raises `SignatureInvalid`: the key is none, the name cannot be shown, or it is another author's, or the key is.
        """
        check_author(name)
        author = TrustedAuthor(name, check_key(key), self._clock.now())
        _check_free(self.entries(), author)
        return author

    def authors(self) -> tuple[TrustedAuthor, ...]:
        """All of them, by name."""
        return tuple(
            TrustedAuthor(name, one.public_key, one.trusted_at) for name, one in sorted(self.entries().items())
        )

    def signer(self, found: Found) -> str:
        """The trusted author whose signature a plugin has; empty for none."""
        signature = _signature_of(found.content)
        return "" if signature is None else self._name_of(signature.key)

    def findings(self, content: PluginContent) -> tuple[PluginFinding, ...]:
        """What there is to say about a plugin's signature, where it holds; one that does not is an oddity already."""
        signature = _signature_of(content)
        if signature is None:
            return ()
        message = (
            f"Signed by somebody who calls themselves {signature.author!r}, whose key {signature.key} you do not trust."
        )
        if name := self._name_of(signature.key):
            message = f"Signed by {name!r}, whom you trust."
        return (PluginFinding(Severity.INFO, "signature", message, SIGNATURE),)

    def _name_of(self, key: str) -> str:
        return next((author.name for author in self.authors() if author.key == key), "")


def _signature_of(content: PluginContent) -> Signature | None:
    """The signature of a plugin that holds."""
    try:
        return content.signature()
    except SignatureInvalid:
        return None


def _check_free(entries: dict[str, _Trusted], author: TrustedAuthor) -> None:
    """Refuse a name that has another key, and a key that has another name."""
    known = entries.get(author.name)
    if known is not None and known.public_key != author.key:
        raise SignatureInvalid(
            f"You trust {author.name!r} with another key ({known.public_key}). Where they have a new one, first run "
            f"`plugin trust {author.name!r} --remove`."
        )
    owner = next((one for one, entry in entries.items() if entry.public_key == author.key), author.name)
    if owner != author.name:
        raise SignatureInvalid(f"That is the key of {owner!r}, whom you trust already.")
