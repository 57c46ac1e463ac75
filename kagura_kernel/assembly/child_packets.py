"""What travels to a worker and back: ids, words, figures and changed files. Never a credential, a key, a variable.

Everything is JSON and bytes, checked where it arrives; no object of ours is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.order import ChildOrder

T = TypeVar("T")

MOST_BYTES = 256 * 2**20
"""Bytes of changed files that travel with one task, or with its result."""

Contents = dict[str, bytes]
"""Contents of changed files by their SHA-256."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A part of the work on its way to a worker."""

    order: ChildOrder  # What to do
    journal: str = ""  # Which journal it belongs to; empty where that one has no row yet
    version: str = ""  # Of the package that hands it on


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of it."""

    outcome: RunOutcome | None = None  # How it ended; None when it did not begin
    code: str = ""  # Why it did not begin; empty when it did
    message: str = ""  # The same, for reading


BEGUN_BEFORE = "BEGUN_BEFORE"
"""The code of a packet that another worker had begun with: that one is gone."""


@cache
def our_version() -> str:
    """Of the package that is installed here."""
    return version("kagura-kernel")


_PACKET = TypeAdapter(Packet)
_REPORT = TypeAdapter(Report)


def packed(value: Packet | Report) -> str:
    """As text; names of files keep what is no character."""
    return json.dumps(asdict(value), default=str)


def packet_of(text: str) -> Packet:
    """The packet in a text.

    Raises:
        ValueError: it is none.
    """
    return _checked(_PACKET, text)


def report_of(text: str) -> Report:
    """The report in a text; raises like `packet_of`."""
    return _checked(_REPORT, text)


def _checked(form: TypeAdapter[T], text: str) -> T:
    try:
        return form.validate_python(json.loads(text))
    except ValidationError as error:
        raise ValueError(f"{error.error_count()} of its fields are wrong") from error


def journal_name(journal: Journal) -> str:
    """What tells one journal from all others, wherever it is opened from: the hash of its first row; empty without one.

    Raises:
        JournalUnreadable: it cannot be read.
    """
    rows = journal.events(limit=1)
    return rows[0].hash if rows else ""


def contents_of(changes: Iterable[FileChange], blobs: BlobStore) -> Contents:
    """What changed files hold, as far as it is still kept; blocks.

    Raises:
        ValueError: it is more than may travel.
    """
    found: Contents = {}
    size = 0
    for change in changes:
        if change.kind == "link" or not change.new_sha256 or change.new_sha256 in found:
            continue
        try:
            content = blobs.get(change.new_sha256)
        except OSError:
            continue
        size += len(content)
        if size > MOST_BYTES:
            raise ValueError(f"its changed files have more than {MOST_BYTES // 2**20} MiB, which do not travel")
        found[change.new_sha256] = content
    return found


async def keep(contents: Mapping[str, bytes], blobs: BlobStore) -> None:
    """Keep what has arrived, under the hash of what it is.

    Raises:
        JournalUnwritable: there is no room.
    """
    for content in contents.values():
        await blobs.put(_once(content))


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
