"""Restores changes that were collected earlier in a fresh box."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterator, Sequence

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import BoxFileError, WorkspaceError
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.project import UnsafePath, split_path
from kagura_kernel.sandbox.backend import Box

AT_ONCE = 8
"""Files that are on their way at the same time; each is in memory as a whole."""

LINE_BYTES = 64 * 1024
"""Bytes of names in one command line."""

LIMITS = CommandLimits(60.0, None)


async def restore_changes(box: Box, changes: Sequence[FileChange], blobs: BlobStore) -> int:
    """Bring a box's workspace to where these changes left another one; how many files were restored.

    What was protected is left out: it never leaves the box that it was made in. A file takes the place of whatever
    stands at its path, a directory too.

    Raises:
        BoxFileError: the box did not take one.
        WorkspaceError: what one of them holds is not kept any more, or a path leads out of the workspace.
    """
    wanted = [change for change in changes if change.state != "protected"]
    for change in wanted:
        _check(change.path)
    # Whatever stands in the way goes first, so that nothing is written through a link or into a file.
    await _on_paths(box, ("rm", "-rf"), [change.path for change in wanted])
    links = [change for change in wanted if change.kind == "link" and change.status != "deleted"]
    await _on_paths(box, ("mkdir", "-p"), sorted({posixpath.dirname(link.path) or "." for link in links}))
    for link in links:
        await _done(box, ("ln", "-s", "--", link.target, f"./{link.path}"), link.path)
    files = iter([change for change in wanted if change.kind == "file" and change.status != "deleted"])
    workers = [asyncio.ensure_future(_restore(box, files, blobs)) for _ in range(AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
    # A directory that nothing is left of goes as it goes from a project; the deepest first.
    emptied = {above for change in wanted if change.status == "deleted" for above in _above(change.path)}
    for some in _in_lines(sorted(emptied, key=lambda path: -path.count("/"))):
        await box.run(Command(("rmdir", "--", *(f"./{path}" for path in some)), limits=LIMITS))
    return len(wanted)


async def _restore(box: Box, files: Iterator[FileChange], blobs: BlobStore) -> None:
    for change in files:
        try:
            content = await asyncio.to_thread(blobs.get, change.new_sha256)
        except OSError as error:
            raise WorkspaceError(
                f"What was written to {change.path} is not kept any more, so that the work cannot be restored. "
                "Start from the project as it is now."
            ) from error
        await box.files.write(change.path, content, mode=change.mode)


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


async def _on_paths(box: Box, program: Sequence[str], paths: Sequence[str]) -> None:
    for some in _in_lines(paths):
        await _done(box, (*program, "--", *(f"./{path}" for path in some)), some[0])


async def _done(box: Box, argv: tuple[str, ...], path: str) -> None:
    result = await box.run(Command(argv, limits=LIMITS))
    if not result.ok:
        raise BoxFileError(path, "EIO", f"the box did not take it: {result.stderr.text.strip()[-300:]}")


def _in_lines(paths: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for path in paths:
        if some and size + len(path) > LINE_BYTES:
            yield some
            some, size = [], 0
        some.append(path)
        size += len(path.encode("utf-8", "surrogateescape")) + 3
    if some:
        yield some


def _check(path: str) -> None:
    try:
        split_path(path)
    except UnsafePath as error:
        raise WorkspaceError(f"{path!r} leads out of the workspace, and was not laid into the box.") from error
