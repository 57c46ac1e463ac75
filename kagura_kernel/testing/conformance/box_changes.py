"""What a box says of its changes, and that the project itself has none."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

from pathlib import Path

from kagura_kernel.sandbox.backend import Box, BoxChange, BoxSpec, SandboxBackend
from kagura_kernel.testing.conformance.box_fixtures import BoxFixtures, sh


def contents(root: Path) -> dict[str, bytes | str]:
    """Every file and link of a project, by path."""
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


async def changed(box: Box) -> dict[str, BoxChange]:
    """The box's changes by path."""
    found = await box.changes()
    assert [change.path for change in found] == sorted(change.path for change in found)
    return {change.path: change for change in found}


class BoxChangesConformance(BoxFixtures):
    """Changes, from a copy-on-write view or a copy alike."""

    async def test_an_untouched_workspace_has_no_changes(self, box: Box) -> None:
        """Reading changes nothing."""
        await sh(box, "cat a.txt sub/*.py; ls -laR")
        assert await box.changes() == []

    async def test_the_project_is_in_the_box_as_it_is(self, box: Box) -> None:
        """Content, modes and links."""
        assert (await sh(box, "cat link sub/deep/c.txt")).stdout.text == "alpha\ngamma\n"
        assert (await box.files.stat("link")).target == "a.txt"
        assert (await box.files.stat("tool.sh")).mode == 0o755

    async def test_additions_modifications_and_deletions_are_told(self, box: Box, project: Path) -> None:
        """Each file once; directories follow from them; the project stays as it was."""
        before = contents(project)
        await sh(box, "echo new > new.txt; mkdir -p x/y; echo deep > x/y/z; echo more >> a.txt; rm plain.sh")
        found = await changed(box)
        assert {path: change.status for path, change in found.items()} == {
            "new.txt": "added",
            "x/y/z": "added",
            "a.txt": "modified",
            "plain.sh": "deleted",
        }
        assert found["a.txt"].size == 11
        assert contents(project) == before

    async def test_a_directory_that_went_is_every_file_that_was_in_it(self, box: Box) -> None:
        """Also when another came in its place."""
        await sh(box, "rm -r sub")
        assert {p: c.status for p, c in (await changed(box)).items()} == {
            "sub/b.py": "deleted",
            "sub/deep/c.txt": "deleted",
        }
        await sh(box, "mkdir sub; echo other > sub/n.py")
        assert {p: c.status for p, c in (await changed(box)).items()} == {
            "sub/b.py": "deleted",
            "sub/deep/c.txt": "deleted",
            "sub/n.py": "added",
        }

    async def test_a_file_replaced_by_a_directory_and_the_other_way_round(self, box: Box) -> None:
        """The one went, the other came."""
        await sh(box, "rm a.txt; mkdir a.txt; echo in > a.txt/in; rm -r sub; echo file > sub")
        assert {p: c.status for p, c in (await changed(box)).items()} == {
            "a.txt": "deleted",
            "a.txt/in": "added",
            "sub": "added",
            "sub/b.py": "deleted",
            "sub/deep/c.txt": "deleted",
        }

    async def test_changes_are_told_as_deep_as_a_box_can_dig(self, box: Box) -> None:
        """Deeper than calls may be nested; and the box goes on."""
        deep = "d/" * 1500
        await sh(box, f"mkdir -p {deep}; echo x > {deep}new; echo x > e")
        assert {p: c.status for p, c in (await changed(box)).items()} == {f"{deep}new": "added", "e": "added"}
        await sh(box, "rm -r d")
        assert set(await changed(box)) == {"e"}

    async def test_links_are_told_with_their_targets(self, box: Box) -> None:
        """New ones, and ones that point elsewhere; they are not followed."""
        await sh(box, "ln -s /etc/passwd evil; ln -sfn tool.sh link")
        found = await changed(box)
        assert (found["evil"].status, found["evil"].kind, found["evil"].target) == ("added", "link", "/etc/passwd")
        assert (found["link"].status, found["link"].target) == ("modified", "tool.sh")

    async def test_a_changed_mode_is_a_modification(self, box: Box) -> None:
        """With the new mode."""
        await sh(box, "chmod 755 plain.sh")
        found = await changed(box)
        assert (found["plain.sh"].status, found["plain.sh"].mode) == ("modified", 0o755)

    async def test_a_renamed_file_went_and_came(self, box: Box) -> None:
        """There is no word for moving."""
        await sh(box, "mv a.txt moved.txt")
        assert {p: c.status for p, c in (await changed(box)).items()} == {"a.txt": "deleted", "moved.txt": "added"}

    async def test_other_kinds_of_files_are_not_told(self, box: Box) -> None:
        """A pipe has no content that a project could take over."""
        await sh(box, "mkfifo pipe; mkdir only; echo x > real")
        assert set(await changed(box)) == {"real"}

    async def test_protected_paths_are_never_told(self, box: Box) -> None:
        """Whether the box could change them or not."""
        await sh(box, "echo evil >> .git/config; mkdir -p .kagura; echo evil > .kagura/x; echo fine > .gitignore")
        assert set(await changed(box)) <= {".gitignore"}

    async def test_a_file_added_and_removed_again_is_no_change(self, box: Box) -> None:
        """Only the end counts."""
        await sh(box, "echo x > temp; rm temp")
        assert await box.changes() == []

    async def test_an_empty_workspace_has_only_additions(self, backend: SandboxBackend) -> None:
        """A box without a project."""
        box = await backend.start(BoxSpec(image=self.image))
        try:
            assert await box.changes() == []
            await sh(box, "echo x > only.txt")
            assert {p: c.status for p, c in (await changed(box)).items()} == {"only.txt": "added"}
        finally:
            await box.close()
