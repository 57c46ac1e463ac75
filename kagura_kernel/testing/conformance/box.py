"""What every back-end's boxes promise, as a suite: subclass `BoxConformance`, give it the async fixture `backend`.

::

    class TestMyBoxes(BoxConformance):
        @pytest.fixture
        async def backend(self):
            backend = MyBackend()
            yield backend
            await backend.close()

The boxes need bash and the usual small programs; `image` chooses one that has them. Every test has a box of its own;
where starting one is dear, `lending.LendsBoxes` before `BoxWorkConformance` lets most of them share one.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import PathNotShown, SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import Box, BoxChange, BoxSpec, SandboxBackend
from kagura_kernel.testing.conformance.box_crowds import BoxCrowdsConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.box_fixtures import DESCRIPTORS, NO_LIMITS, BoxFixtures, begun, plain, sh
from kagura_kernel.testing.conformance.box_output import BoxLimitsConformance, BoxOutputConformance
from kagura_kernel.testing.conformance.box_residents import BoxKeepingConformance, BoxResidentsConformance
from kagura_kernel.testing.conformance.box_streams import BoxStreamsConformance
from kagura_kernel.testing.patience import eventually

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O


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


# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O


class BoxCommandConformance(BoxFixtures):
    """Commands and what comes of them."""

    async def test_a_command_prints_and_returns_its_exit_code(self, box: Box) -> None:
        """Both streams are kept apart."""
        result = await sh(box, "echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout.data, result.stderr.data) == (3, b"out\n", b"err\n")
        assert result.signal is None
        assert not result.ok

    async def test_a_program_that_does_not_exist_is_exit_127(self, box: Box) -> None:
        """As a shell says it."""
        result = await box.run(plain("no-such-program-anywhere", "x"))
        assert result.exit_code == 127
        assert b"no-such-program-anywhere" in result.stderr.data
        assert (await box.run(plain("/no/such/file"))).exit_code == 127

    async def test_a_file_that_is_not_executable_is_exit_126(self, box: Box) -> None:
        """As a shell says it; a directory likewise."""
        assert (await box.run(plain("./plain.sh"))).exit_code == 126
        assert (await box.run(plain("./sub"))).exit_code == 126

    async def test_a_directory_that_does_not_exist_is_exit_126_with_its_name(self, box: Box) -> None:
        """The box itself is unharmed."""
        result = await box.run(Command(("true",), cwd="no/such/dir"))
        assert result.exit_code == 126
        assert b"no/such/dir" in result.stderr.data
        assert (await sh(box, "true")).ok

    async def test_an_impossible_argument_is_a_result_too(self, box: Box) -> None:
        """A null byte, a lone surrogate, far too long a line: the box goes on."""
        assert (await box.run(plain("echo", "a\0b"))).exit_code == 126
        assert (await box.run(plain("echo", "\ud800"))).exit_code == 126
        assert (await box.run(plain("echo", "x" * 3_000_000))).exit_code == 126
        assert (await box.run(plain("echo", "x" * 6_000_000))).exit_code == 126
        assert (await sh(box, "echo on")).stdout.data == b"on\n"

    async def test_a_command_ended_by_a_signal_says_which(self, box: Box) -> None:
        """128 and the number, as a shell has it."""
        result = await sh(box, "kill -SEGV $$")
        assert (result.exit_code, result.signal) == (128 + 11, 11)

    async def test_signals_that_the_guest_ignores_are_not_ignored_by_commands(self, box: Box) -> None:
        """A pipe whose reader has gone ends its writer, and a terminate terminates."""
        piped = await sh(box, "yes | head -n 1; echo ${PIPESTATUS[0]}")
        assert piped.stdout.data == b"y\n141\n"
        assert (await sh(box, "kill -TERM $$")).signal == 15

    async def test_input_is_read_to_its_end(self, box: Box) -> None:
        """More than any buffer on the way."""
        data = bytes(range(256)) * 20_000
        result = await box.run(Command(("cat",), stdin=data, keep_bytes=16 * 2**20, limits=NO_LIMITS))
        assert result.stdout.data == data

    async def test_a_command_that_does_not_read_its_input_ends_all_the_same(self, box: Box) -> None:
        """However much is waiting for it."""
        result = await box.run(shell_command("exec <&-; echo done", stdin=b"x" * 5_000_000, limits=NO_LIMITS))
        assert result.stdout.data == b"done\n"
        result = await box.run(shell_command("sleep 0.1; echo done", stdin=b"x" * 5_000_000, limits=NO_LIMITS))
        assert result.stdout.data == b"done\n"

    async def test_a_command_without_input_sees_its_end_at_once(self, box: Box) -> None:
        """It does not wait for a keyboard."""
        assert (await box.run(plain("cat"))).ok

    async def test_arguments_and_names_may_be_any_bytes(self, box: Box) -> None:
        """Bytes that are no UTF-8 travel as lone surrogates."""
        name = b"\xff\xfe-\xe9".decode("utf-8", "surrogateescape")
        result = await box.run(plain("printf", "%s", name, "é€😀"))
        assert result.stdout.data == b"\xff\xfe-\xe9" + "é€😀".encode()

    async def test_commands_start_in_the_workspace_or_where_they_are_told(self, box: Box) -> None:
        """Relative to the workspace."""
        assert (await sh(box, "pwd")).stdout.text.strip() == box.files.root
        inner = await box.run(Command(("pwd",), cwd="sub"))
        assert inner.stdout.text.strip() == f"{box.files.root}/sub"
        assert (await box.run(Command(("pwd",), cwd="/"))).stdout.text == "/\n"

    async def test_a_command_sees_its_variables_and_none_of_the_hosts(self, box: Box) -> None:
        """The box's own are there, and the command's."""
        shown = (await box.run(Command(("env",), env={"COLOUR": "blau=grün"}))).stdout.text.splitlines()
        names = {line.partition("=")[0] for line in shown}
        assert "COLOUR=blau=grün" in shown
        assert {"PATH", "HOME"} <= names
        assert not [name for name in names if name.startswith(("PYTEST", "ANTHROPIC", "DOCKER", "SSH", "VIRTUAL"))]

    async def test_a_program_of_the_project_runs(self, box: Box) -> None:
        """By its path, and with its own first line."""
        assert (await box.run(plain("./tool.sh"))).stdout.data == b"tool\n"

    async def test_many_commands_run_at_once(self, box: Box) -> None:
        """Each gets its own output; a slow one keeps nobody waiting."""
        slow = asyncio.create_task(sh(box, "until test -e go; do sleep 0.05; done; echo slow"))
        results = await asyncio.gather(*(sh(box, f"echo {n}; exit {n}") for n in range(20)))
        assert [result.exit_code for result in results] == list(range(20))
        assert [result.stdout.text for result in results] == [f"{n}\n" for n in range(20)]
        assert not slow.done()
        await box.files.write("go", b"")
        assert (await slow).stdout.text == "slow\n"

    async def test_commands_follow_one_another_in_one_workspace(self, box: Box) -> None:
        """What one leaves, the next finds."""
        await sh(box, "echo kept > kept.txt")
        assert (await sh(box, "cat kept.txt")).stdout.text == "kept\n"

    async def test_a_background_child_does_not_hold_up_the_result_and_lives_on(self, box: Box) -> None:
        """Though it has the output pipe open and goes on printing."""
        started = await box.run(shell_command("(sleep 0.6; echo late; echo x > late.txt) & echo first"))
        assert started.stdout.data == b"first\n"
        assert started.duration < 20
        await sh(box, "for i in $(seq 100); do test -e late.txt && exit; sleep 0.05; done; exit 1")
        assert await box.files.read("late.txt") == b"x\n"


# ruff: noqa: S101 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O


class BoxLifeConformance(BoxFixtures):
    """Beginning and end."""

    async def test_the_probe_says_that_it_works(self, backend: SandboxBackend) -> None:
        """By having tried."""
        probe = await backend.probe(self.image)
        assert probe.ok
        assert probe.reason

    async def test_a_box_says_what_it_is(self, backend: SandboxBackend, box: Box) -> None:
        """The same as its back-end."""
        assert box.id.startswith("box-")
        assert (box.backend, box.isolation) == (backend.name, backend.isolation)

    async def test_two_boxes_of_one_project_do_not_see_each_other(
        self, backend: SandboxBackend, box: Box, project: Path
    ) -> None:
        """Neither files nor, where there are walls, processes."""
        other = await backend.start(self.spec(project))
        try:
            await sh(box, "echo mine > mine.txt")
            assert (await sh(other, "ls")).stdout.text.count("mine") == 0
            assert await other.changes() == []
            if backend.isolation is not IsolationClass.NONE:
                sleeper = asyncio.create_task(sh(box, "exec -a findme sleep 600", limits=NO_LIMITS))
                look = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^findme' "

                async def seen_at_home() -> bool:
                    return (await sh(box, look)).stdout.text.strip() == "1"

                await eventually(seen_at_home)
                assert (await sh(other, look)).stdout.text.strip() == "0"
                sleeper.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sleeper
        finally:
            await other.close()

    async def test_the_guest_is_hidden_from_commands(self, backend: SandboxBackend, box: Box) -> None:
        """They can open neither its descriptors nor its memory, and inherit nothing of it."""
        inherited = await sh(box, DESCRIPTORS)
        assert inherited.stdout.text.strip() == "4"
        if backend.isolation is IsolationClass.NONE:
            pytest.skip("a back-end without walls runs as whoever runs the tests")
        tried = await sh(box, "ls /proc/$PPID/fd; head -c1 /proc/$PPID/mem; cat /proc/$PPID/environ; echo end")
        assert tried.stdout.text == "end\n"

    async def test_closing_ends_every_process(self, box: Box) -> None:
        """And whoever waits for one hears that the box is closed; closing again does nothing."""
        running = await begun(box, "sleep 600")
        await box.close()
        with pytest.raises(SandboxUnavailable) as caught:
            await running
        assert not isinstance(caught.value, SandboxDied)
        await box.close()
        assert await box.wait_closed() == ""

    async def test_a_closed_box_does_nothing_more(self, box: Box) -> None:
        """It says so, and never as a result."""
        await box.close()
        for attempt in (
            lambda: sh(box, "true"),
            lambda: box.files.read("a.txt"),
            lambda: box.files.write("a.txt", b""),
            lambda: box.files.glob("*"),
            box.changes,
        ):
            with pytest.raises(SandboxUnavailable):
                await attempt()

    async def test_a_box_that_dies_says_so(self, box: Box) -> None:
        """To whoever waits for it and whoever runs something in it; later callers hear it too."""
        running = await begun(box, "sleep 600")
        watching = asyncio.create_task(box.wait_closed())
        try:
            await box.run(shell_command("kill -9 $PPID; sleep 1"))
        except SandboxDied:
            pass
        else:
            # Process 1 of a box is killed by nobody in it.
            await box.close()
            await asyncio.gather(running, watching, return_exceptions=True)
            pytest.skip("its guest cannot be killed from inside: replace this test by one in which the host kills it")
        assert await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied):
            await running
        with pytest.raises(SandboxDied):
            await sh(box, "true")
        await box.close()

    async def test_closing_the_back_end_closes_its_boxes(self, backend: SandboxBackend, project: Path) -> None:
        """All of them."""
        boxes = [await backend.start(self.spec(project)) for _ in range(2)]
        await backend.close()
        for box in boxes:
            with pytest.raises(SandboxUnavailable):
                await sh(box, "true")
        await backend.close()

    async def test_cancelling_a_start_leaves_nothing(self, backend: SandboxBackend, project: Path) -> None:
        """At whatever point; the next start works."""
        for pause in (0.0, 0.002, 0.01):
            task = asyncio.create_task(backend.start(self.spec(project)))
            await asyncio.sleep(pause)
            task.cancel()
            try:
                box = await task
            except asyncio.CancelledError:
                continue
            await box.close()
        box = await backend.start(self.spec(project))
        assert (await sh(box, "true")).ok
        await box.close()


# ruff: noqa: S101, D102 - pytest runs it: asserts are its words, a test's name is a sentence


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


class BoxRestConformance(
    BoxCommandConformance,
    BoxOutputConformance,
    BoxLimitsConformance,
    BoxFilesConformance,
    BoxResidentsConformance,
    BoxKeepingConformance,
    BoxStreamsConformance,
    BoxCrowdsConformance,
):
    """Commands, output, limits, files and connections: what a box does by its guest, however it was started."""


class BoxWorkConformance(BoxRestConformance, BoxFurtherConformance, BoxChangesConformance):
    """That, and further directories and changes: what a box does while it lives."""


class BoxConformance(BoxWorkConformance, BoxLifeConformance):
    """All that, and life and death of boxes."""
