"""A file that a person and a run have both changed: what each side did, and whether both fit into one text."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from kagura_kernel.domain.errors import NotThisTime, RedactionUnavailable
from kagura_kernel.domain.outcome import BothSides, FileChange
from kagura_kernel.journal.place import data_home
from kagura_kernel.kit.redaction.redactor import redactor_in
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import MAX_DIFF_INPUT, is_text, unified_diff
from kagura_kernel.membrane.merging import can_merge, merged
from kagura_kernel.membrane.project import HostState, ProjectFiles, UnsafePath
from kagura_kernel.membrane.writing import OLD_HOLDS_LEASED

MOST_SIDES = 24
"""Conflicts of one run of which both sides are shown."""

_NOTHING = "-"


def without_secrets(text: str) -> str:
    """What redaction leaves of a text. Raises `RedactionUnavailable`."""
    return redactor_in(data_home(os.environ)).redact(text).text


def state_now(project: ProjectFiles, path: str) -> HostState:
    """What the project has at a path, and its content where that is short.

    Raises:
        NotThisTime: something stands there that is no file, or cannot be reached.
    """
    try:
        now = project.state(path, keep=MAX_DIFF_INPUT)
    except (OSError, UnsafePath) as error:
        raise NotThisTime(f"{path} cannot be reached in the project any more. Discard the change.") from error
    if now.kind == "other":
        raise NotThisTime(f"{path} is no file in the project any more. Discard the change.")
    return now


def seen_of(now: HostState) -> str:
    """What stands for this state in a button."""
    return now.sha256[:12] or _NOTHING


def texts_of(change: FileChange, now: HostState, blobs: BlobStore) -> tuple[bytes, bytes, bytes]:
    """What the run began with, what the project has, and what the run made.

    Raises:
        NotThisTime: one of them is no text of a file, too long, not known or not kept; the message says which.
    """
    base, mine, theirs = _contents(change, now, blobs)
    if change.status == "deleted" or not now.kind:
        raise NotThisTime(f"{change.path} cannot be merged: it is deleted on one side. Take one side.")
    if base is None:
        raise NotThisTime(f"{change.path} cannot be merged: what the run began with is not known. Take one side.")
    return base, mine, theirs


def sides_of(change: FileChange, project: ProjectFiles, blobs: BlobStore, redact: Callable[[str], str]) -> BothSides:
    """A conflict as it is shown; nothing of it is stored."""
    try:
        now = state_now(project, change.path)
    except NotThisTime as error:
        return BothSides(why=error.message)
    try:
        return _shown(change, now, blobs, redact)
    except (NotThisTime, RedactionUnavailable) as error:
        return BothSides(seen=seen_of(now), why=error.message)


def _shown(change: FileChange, now: HostState, blobs: BlobStore, redact: Callable[[str], str]) -> BothSides:
    if change.diff == OLD_HOLDS_LEASED:
        raise NotThisTime("The project’s own file held a leased credential.")
    base, mine, theirs = _contents(change, now, blobs)
    yours = redact(unified_diff(change.path, base, mine)) if base is not None else ""
    other = redact(unified_diff(change.path, mine if base is None else base, theirs))
    both = BothSides(yours, other, seen=seen_of(now))
    if base is None:
        return replace(both, why="What the run began with is not known.")
    if now.kind and change.status != "deleted" and can_merge():
        with suppress(NotThisTime):
            both = replace(both, can_merge=True, overlaps=merged(base, mine, theirs)[1])
    return both


def _contents(change: FileChange, now: HostState, blobs: BlobStore) -> tuple[bytes | None, bytes, bytes]:
    try:
        theirs = blobs.head(change.new_sha256, MAX_DIFF_INPUT + 1) if change.new_sha256 else b""
        mine = now.content if now.kind else b""
    except OSError as error:
        raise NotThisTime(f"What the run made of {change.path} is kept no more. Run the cell again.") from error
    is_plain = change.kind == "file" and now.kind != "link" and mine is not None and len(theirs) <= MAX_DIFF_INPUT
    if mine is None or not is_plain or not is_text(mine) or not is_text(theirs):
        raise NotThisTime(f"{change.path} is no text on both sides, or too long to be compared. Take one side.")
    return _base(change, blobs), mine, theirs


def _base(change: FileChange, blobs: BlobStore) -> bytes | None:
    wanted = change.base_sha256 or change.old_sha256
    try:
        base = b"" if not wanted else blobs.get(wanted)
    except OSError:
        return None
    return base if is_text(base) and len(base) <= MAX_DIFF_INPUT else None
