"""Files of a box: read, written, described, listed, found, and every way in which they say no."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import BoxFixtures, begun, sh

CHAIN = """
import os
for n in range(1, 1501):
    os.symlink(f"link{n + 1}", f"link{n}")
"""


class BoxFilesConformance(BoxFixtures):
    """The file system that tools are handed."""

    async def test_a_file_is_read_whole_or_in_part(self, box: Box) -> None:
        """By offset and limit; beyond the end there is nothing."""
        assert await box.files.read("a.txt") == b"alpha\n"
        assert await box.files.read("a.txt", offset=2, limit=3) == b"pha"
        assert await box.files.read("a.txt", offset=100) == b""
        assert await box.files.read("a.txt", limit=0) == b""
        assert await box.files.read(f"{box.files.root}/sub/b.py") == b"print('b')\n"

    async def test_what_is_written_is_read_back(self, box: Box) -> None:
        """Any bytes, larger than any buffer, with new directories on the way; nothing is left beside it."""
        data = bytes(range(256)) * 16_000
        await box.files.write("new/dir/big.bin", data)
        assert await box.files.read("new/dir/big.bin") == data
        await box.files.write("new/dir/big.bin", b"")
        assert await box.files.read("new/dir/big.bin") == b""
        assert [entry.path for entry in await box.files.list_dir("new/dir")] == ["new/dir/big.bin"]

    async def test_writing_keeps_the_mode_or_sets_it(self, box: Box) -> None:
        """A script stays executable."""
        await box.files.write("tool.sh", b"#!/bin/sh\necho new\n")
        assert (await box.files.stat("tool.sh")).mode == 0o755
        await box.files.write("other.sh", b"#!/bin/sh\n", mode=0o700)
        assert (await box.files.stat("other.sh")).mode == 0o700

    async def test_writing_through_a_link_writes_its_target(self, box: Box) -> None:
        """The link stays one."""
        await box.files.write("link", b"through\n")
        assert await box.files.read("a.txt") == b"through\n"
        assert (await box.files.stat("link")).kind == "link"

    async def test_a_path_is_described(self, box: Box) -> None:
        """A link is not followed."""
        found = await box.files.stat("a.txt")
        assert (found.path, found.kind, found.size) == ("a.txt", "file", 6)
        link = await box.files.stat("link")
        assert (link.kind, link.target) == ("link", "a.txt")
        assert (await box.files.stat("sub")).kind == "directory"

    async def test_a_directory_is_listed_by_name(self, box: Box) -> None:
        """Hidden names too, each with the directory's path before it."""
        names = [entry.path for entry in await box.files.list_dir(".")]
        assert names == sorted(names)
        assert {"a.txt", "link", "sub", "tool.sh"} <= set(names)
        assert [entry.path for entry in await box.files.list_dir("sub")] == ["sub/b.py", "sub/deep"]

    async def test_names_that_are_no_utf8_are_files_like_others(self, box: Box) -> None:
        """As lone surrogates, there and back."""
        name = b"odd-\xff\n name".decode("utf-8", "surrogateescape")
        await box.files.write(name, b"odd")
        assert name in [entry.path for entry in await box.files.list_dir(".")]
        assert await box.files.read(name) == b"odd"
        assert await box.files.glob("odd*") == [name]

    async def test_every_refusal_names_the_systems_reason(self, box: Box) -> None:
        """And the path that was asked for."""
        await sh(box, "mkfifo pipe; mkdir -p empty; ln -s loop1 loop2; ln -s loop2 loop1; ln -s /no/where dangling")
        refused: dict[str, tuple[str, Callable[[str], Awaitable[object]]]] = {
            "missing.txt": ("ENOENT", box.files.read),
            "no/such/dir": ("ENOENT", box.files.list_dir),
            "gone": ("ENOENT", box.files.stat),
            "sub": ("EISDIR", box.files.read),
            "a.txt/x": ("ENOTDIR", box.files.read),
            "a.txt": ("ENOTDIR", box.files.list_dir),
            "pipe": ("EINVAL", box.files.read),
            "/dev/zero": ("EINVAL", box.files.read),
            "loop1": ("ELOOP", box.files.read),
            "dangling": ("ENOENT", box.files.read),
            "nul\0byte": ("EINVAL", box.files.stat),
        }
        for path, (reason, ask) in refused.items():
            with pytest.raises(BoxFileError) as caught:
                await ask(path)
            assert (caught.value.path, caught.value.reason) == (path, reason)

    async def test_what_cannot_be_written_is_refused_and_nothing_is_left(self, box: Box) -> None:
        """A directory, a path below a file, a pipe that nobody reads."""
        await sh(box, "mkfifo pipe")
        for path, reason in (("sub", "EISDIR"), ("a.txt/x", "ENOTDIR"), ("pipe", "EINVAL"), ("/proc/x", "ENOENT")):
            with pytest.raises(BoxFileError) as caught:
                await box.files.write(path, b"x" * 100_000)
            assert caught.value.reason in {reason, "EEXIST", "EACCES", "EROFS", "EPERM"}
        assert await box.files.glob(".kagura-*") == []

    async def test_patterns_find_paths_below_the_root(self, box: Box) -> None:
        """Two stars cross directories, hidden names need a dot, links are not followed."""
        await sh(box, "ln -s sub linked; echo x > .hidden.txt")
        assert await box.files.glob("*.txt") == ["a.txt"]
        assert await box.files.glob("**/*.txt") == ["a.txt", "sub/deep/c.txt"]
        assert await box.files.glob("sub/*") == ["sub/b.py", "sub/deep"]
        assert await box.files.glob("sub/**") == ["sub/b.py", "sub/deep", "sub/deep/c.txt"]
        assert await box.files.glob(".*.txt") == [".hidden.txt"]
        assert await box.files.glob("linked/**/*.py") == []
        assert await box.files.glob("[at]*.[ts]*") == ["a.txt", "tool.sh"]
        assert await box.files.glob("nothing*") == []

    async def test_patterns_are_bounded_and_cannot_go_up(self, box: Box) -> None:
        """At most as many as were asked for."""
        await sh(box, "mkdir many; cd many; touch $(seq 1 500)")
        assert len(await box.files.glob("many/*", limit=7)) == 7
        assert len(await box.files.glob("**/*", limit=1000)) > 500
        with pytest.raises(BoxFileError) as caught:
            await box.files.glob("../*")
        assert caught.value.reason == "EINVAL"

    async def test_patterns_reach_as_deep_as_a_box_can_dig(self, box: Box) -> None:
        """Deeper than calls may be nested."""
        deep = "d/" * 1500
        await sh(box, f"mkdir -p {deep}; echo x > {deep}found")
        assert await box.files.glob("**/found") == [f"{deep}found"]
        assert await box.files.glob(f"{deep}*") == [f"{deep}found"]
        await sh(box, "rm -r d")

    async def test_an_operation_that_comes_to_grief_is_not_the_end_of_the_box(self, box: Box) -> None:
        """Whatever it was that nobody had thought of; a newer Python of the guest may carry it out."""
        await box.run(Command(("python3", "-c", CHAIN)))
        await sh(box, "echo x > link1501")
        for path in ("link1", "made/" * 1500 + "new"):
            with contextlib.suppress(BoxFileError):
                await box.files.write(path, b"x")
        assert await box.files.read("a.txt") == b"alpha\n"

    async def test_files_are_served_beside_running_commands(self, box: Box) -> None:
        """Many at once."""
        running = await begun(box, "until [ -e go ]; do sleep 0.05; done")
        await asyncio.gather(*(box.files.write(f"f{n}", b"%d" % n) for n in range(30)))
        assert await asyncio.gather(*(box.files.read(f"f{n}") for n in range(30))) == [b"%d" % n for n in range(30)]
        assert not running.done()
        await box.files.write("go", b"")
        await running

    async def test_a_cancelled_write_changes_nothing(self, box: Box) -> None:
        """The old content stays, and no half of the new one."""
        task = asyncio.create_task(box.files.write("a.txt", b"x" * 200_000_000))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await box.files.read("a.txt") == b"alpha\n"
        assert await box.files.glob(".kagura-*") == []

    async def test_a_read_only_workspace_is_read_only(self, backend: SandboxBackend, project: Path) -> None:
        """Through the file interface at least; the walls of a real box see to the commands."""
        policy = SandboxPolicy(SandboxPolicyType.READ_ONLY)
        box = await backend.start(BoxSpec(workspace=project, image=self.image, policy=policy))
        try:
            assert await box.files.read("a.txt") == b"alpha\n"
            with pytest.raises(BoxFileError) as caught:
                await box.files.write("a.txt", b"no")
            assert caught.value.reason in {"EROFS", "EACCES"}
        finally:
            await box.close()
