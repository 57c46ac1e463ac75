"""Further directories of the host in a box: their contents are there, whole and as they were at the start."""

# ruff: noqa: S101, D102 - pytest runs it: asserts are its words, a test's name is a sentence
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PathNotShown, SandboxUnsupported
from kagura_kernel.sandbox.backend import BoxSpec, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import BoxFixtures, sh

PLACE = "/kagura/further"
_LOOK = """
cd "$FURTHER" && find . -type f | LC_ALL=C sort && cat a.txt sub/b.txt link "sub/ein Wort – zwei.md"
./sub/tool.sh; sh ./sub/plain.sh; ./sub/plain.sh 2>/dev/null || echo "not a program"; cat "$OLDPWD/a.txt"
"""
_SEEN = """./a.txt
./sub/b.txt
./sub/ein Wort – zwei.md
./sub/plain.sh
./sub/tool.sh
first
second
first
third
tool
plain
not a program
alpha
"""


class BoxFurtherConformance(BoxFixtures):
    """What `BoxSpec.extra_read_only` promises; programs find the place by a variable."""

    @pytest.fixture
    def further(self, tmp_path: Path) -> Path:
        """A directory of the host, with what can be in one."""
        root = tmp_path.resolve() / "further"
        (root / "sub" / "empty").mkdir(parents=True)
        (root / "a.txt").write_text("first\n")
        (root / "sub" / "b.txt").write_text("second\n")
        (root / "sub" / "ein Wort – zwei.md").write_text("third\n")
        for name in ("tool", "plain"):
            (root / "sub" / f"{name}.sh").write_text(f"#!/bin/sh\necho {name}\n")
        (root / "sub" / "tool.sh").chmod(0o755)
        (root / "link").symlink_to("a.txt")
        for path in (root, root / "sub", root / "sub" / "empty"):
            path.chmod(0o755)
        return root

    def showing(self, project: Path | None, *pairs: tuple[Path, str]) -> BoxSpec:
        """The box that shows these, the first of them by the variable FURTHER."""
        return replace(self.spec(project), extra_read_only=pairs, env={"FURTHER": pairs[0][1]})

    async def test_a_further_directory_is_there_beside_the_project(
        self, backend: SandboxBackend, project: Path, further: Path
    ) -> None:
        box = await backend.start(self.showing(project, (further, PLACE)))
        try:
            assert (await sh(box, _LOOK)).stdout.text == _SEEN
            assert await box.changes() == []
        finally:
            await box.close()

    async def test_what_has_changed_since_another_box_was_started_is_seen(
        self, backend: SandboxBackend, further: Path
    ) -> None:
        spec = self.showing(None, (further, PLACE))
        await (await backend.start(spec)).close()
        (further / "a.txt").write_text("changed\n")
        box = await backend.start(spec)
        assert (await sh(box, "cat $FURTHER/a.txt")).stdout.text == "changed\n"
        await box.close()
        # Another directory by the same name: what waits for the next run still shows the one before.
        shutil.move(further, further.with_name("before"))
        shutil.copytree(further.with_name("before") / "sub", further)
        (further / "a.txt").write_text("replaced\n")
        box = await backend.start(spec)
        assert (await sh(box, "cat $FURTHER/a.txt")).stdout.text == "replaced\n"
        await box.close()
        shutil.rmtree(further)
        with pytest.raises(PathNotShown, match="further cannot be shown"):
            await backend.start(spec)

    async def test_only_a_directory_of_exactly_that_name_is_shown(self, backend: SandboxBackend, further: Path) -> None:
        (further.parent / "by-link").symlink_to(further)
        for source in (further / "a.txt", further / "missing", further.parent / "by-link"):
            with pytest.raises(PathNotShown, match=source.name):
                await backend.start(self.showing(None, (source, PLACE)))

    async def test_a_place_that_boxes_have_otherwise_is_refused(self, backend: SandboxBackend, further: Path) -> None:
        for place in ("/", "/workspace/further", "/usr", "/home", "relative", "/a/../b", "/a/", "/proc/self"):
            with pytest.raises(SandboxUnsupported):
                await backend.start(self.showing(None, (further, place)))
        with pytest.raises(SandboxUnsupported, match="/kagura already"):
            await backend.start(self.showing(None, (further, "/kagura"), (further, PLACE)))
