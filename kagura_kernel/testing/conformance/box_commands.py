"""How commands run in a box: exit codes, signals, input, environment, many at once."""

# ruff: noqa: S101, PLR2004 - a suite asserts, and literal expectations are the point; pytest runs it, never python -O
from __future__ import annotations

import asyncio

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.conformance.box_fixtures import NO_LIMITS, BoxFixtures, plain, sh


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
