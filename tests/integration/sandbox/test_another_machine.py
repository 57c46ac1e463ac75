"""Boxes on another machine: what a person is told when there can be none, and that nothing is left of them there."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import PathNotShown, SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.ssh import connection
from kagura_kernel.sandbox.ssh.backend import SshBackend
from kagura_kernel.testing.conformance.box_fixtures import begun, project_in, sh
from kagura_kernel.testing.patience import eventually, wait_until
from tests.support.sshd import OtherMachine, other_machine, program

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(program() is None, reason="needs sshd: dev/setup.sh test unpacks it"),
]

SEED = 21
MOMENTS = 20


@pytest.fixture(scope="module")
def shared() -> Iterator[OtherMachine]:
    with other_machine() as found:
        yield found


@pytest.fixture
def machine(shared: OtherMachine) -> Iterator[OtherMachine]:
    """One on which nothing runs, before and after."""
    yield shared
    wait_until(lambda: not shared.pids())


async def refused(backend: SshBackend, spec: BoxSpec | None = None) -> SandboxUnavailable:
    with pytest.raises(SandboxUnavailable) as caught:
        await backend.start(spec or BoxSpec())
    probe = await backend.probe()
    await backend.close()
    assert not probe.ok
    assert probe.reason
    return caught.value


class TestWhatAPersonIsTold:
    async def test_a_machine_whose_key_is_not_known(self, machine: OtherMachine) -> None:
        error = await refused(SshBackend("unknown", config=machine.config))
        assert "the key of unknown is not known here" in error.message
        assert "`ssh unknown`" in error.message

    async def test_a_machine_whose_key_has_changed(self, machine: OtherMachine) -> None:
        folder = Path(machine.config).parent
        known = folder / "known"
        before = known.read_text()
        other = (folder / "other.pub").read_text().split()[1]
        known.write_text(f"{before.split()[0]} ssh-ed25519 {other}\n")
        try:
            error = await refused(SshBackend(machine.host, config=machine.config))
        finally:
            known.write_text(before)
        assert "the key of box has changed" in error.message

    async def test_an_account_that_a_key_does_not_open(self, machine: OtherMachine) -> None:
        error = await refused(SshBackend("stranger", config=machine.config))
        assert "does not let you in without a question" in error.message
        assert "ssh-add" in error.message

    async def test_nobody_answers(self, machine: OtherMachine, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text(machine.text.replace(f"Port {machine.delay.port}", "Port 9"))
        error = await refused(SshBackend(machine.host, config=str(config)))
        assert "Connection refused" in error.message

    async def test_no_such_python(self, machine: OtherMachine) -> None:
        error = await refused(SshBackend(machine.host, config=machine.config, python="/opt/none/python3"))
        assert "has no such Python" in error.message
        assert "ssh_python" in error.message

    async def test_a_python_that_is_too_old(self, machine: OtherMachine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "_LOADER", connection._LOADER.replace("(3, 10)", "(99, 0)"))
        error = await refused(SshBackend(machine.host, config=machine.config))
        assert "the Python of box is 3." in error.message
        assert "which is too old" in error.message

    async def test_no_bubblewrap(self, machine: OtherMachine, monkeypatch: pytest.MonkeyPatch) -> None:
        modules = connection._modules(same_python=False)
        name = "kagura_kernel.sandbox.ssh.remote"
        changed = [(one, text.replace('"bwrap"', '"bwrap-is-not-there"'), code) for one, text, code in modules]
        assert name in [one for one, _, _ in changed]
        monkeypatch.setattr(connection, "_modules", lambda **_: changed)
        error = await refused(SshBackend(machine.host, config=machine.config))
        assert "box: bubblewrap is not installed there" in error.message
        assert "sudo apt install bubblewrap" in error.message

    async def test_no_machine_is_named(self) -> None:
        assert "ssh_host" in (await refused(SshBackend(""))).message
        assert "is no name of a machine" in (await refused(SshBackend("-oProxyCommand=true"))).message

    async def test_what_it_cannot_do(self, machine: OtherMachine, tmp_path: Path) -> None:
        backend = SshBackend(machine.host, config=machine.config)
        for spec in (BoxSpec(writable_root=True), BoxSpec(shown=(ShownPath(tmp_path, "/kagura/shown"),))):
            with pytest.raises(SandboxUnsupported):
                await backend.start(spec)
        with pytest.raises(PathNotShown):
            await backend.start(BoxSpec(extra_read_only=((tmp_path / "none", "/kagura/x"),)))
        await backend.close()

    async def test_a_login_that_talks(self, machine: OtherMachine) -> None:
        """Whatever the account's own start-up file prints."""
        (machine.home / ".bashrc").write_text("echo Welcome; echo Warning >&2\n")
        backend = SshBackend(machine.host, config=machine.config)
        try:
            box = await backend.start(BoxSpec())
            assert (await sh(box, "echo fine")).stdout.text == "fine\n"
        finally:
            (machine.home / ".bashrc").unlink()
            await backend.close()

    @pytest.mark.parametrize("line", ['{"level": "info"}', "[]", '{"op": 3}', "{" * 5000, "[" * 50000])
    async def test_an_account_that_says_something_like_us(self, machine: OtherMachine, line: str) -> None:
        (machine.home / ".bashrc").write_text(f"echo '{line}' >&2\n")
        backend = SshBackend(machine.host, config=machine.config)
        try:
            assert (await sh(await backend.start(BoxSpec()), "echo fine")).stdout.text == "fine\n"
        finally:
            (machine.home / ".bashrc").unlink()
            await backend.close()

    @pytest.mark.parametrize("line", ['{"op": "ready"}', '{"op": "old"}', '{"op": "gone"}', '{"op": "x"}'])
    async def test_an_account_that_speaks_in_our_place(self, machine: OtherMachine, line: str) -> None:
        (machine.home / ".bashrc").write_text(f"for i in $(seq 1000); do echo '{line}' >&2; done\n")
        backend = SshBackend(machine.host, config=machine.config)
        try:
            with pytest.raises(SandboxUnavailable):
                await backend.start(BoxSpec())
        finally:
            (machine.home / ".bashrc").unlink()
            await backend.close()


class TestNothingOfThisMachineIsLent:
    async def test_whatever_the_persons_own_configuration_says(self, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text(
            "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  GSSAPIDelegateCredentials yes\n  LocalForward 9 a:9\n"
            "  RemoteForward 9 a:9\n  Tunnel yes\n  StrictHostKeyChecking no\n  SessionType none\n  StdinNull yes\n"
            "  RemoteCommand sh\n  RequestTTY yes\n  ForkAfterAuthentication yes\n"
        )
        one = connection.Connection("box", "python3", str(config))
        one._folder = tmp_path / "with a blank"
        words = [*one._words(), "-G", "--", "box"]
        asked = await asyncio.create_subprocess_exec(*words, stdout=PIPE)
        told = dict(line.split(" ", 1) for line in (await asked.communicate())[0].decode().splitlines())
        assert asked.returncode == 0
        for name in ("forwardagent", "forwardx11", "gssapidelegatecredentials", "requesttty", "stdinnull"):
            # A newer one may be without what would lend a ticket.
            assert told.get(name, "no") in ("no", "false")
        assert told["stricthostkeychecking"] == "true"
        assert told["tunnel"] == "false"
        assert told["forkafterauthentication"] == "no"
        assert told["sessiontype"] == "default"
        assert not told.keys() & {"localforward", "remoteforward", "remotecommand"}
        assert told["controlpath"] == f"{tmp_path}/with a blank/c"


class TestWithoutCopyOnWriteViews:
    async def test_the_project_is_copied(self, machine: OtherMachine, tmp_path: Path) -> None:
        backend = SshBackend(machine.host, config=machine.config)
        backend._no_overlay = "no copy-on-write view"
        box = await backend.start(BoxSpec(workspace=project_in(tmp_path)))
        assert "the project was copied into the box: no copy-on-write view" in box.notes
        await sh(box, "echo more >> a.txt; rm plain.sh")
        assert {change.path: change.status for change in await box.changes()} == {
            "a.txt": "modified",
            "plain.sh": "deleted",
        }
        await backend.close()


def clients() -> list[str]:
    """Clients of OpenSSH that this process has started and that are still there."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [pid for task in tasks for pid in task.read_text().split()]
    return [pid for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "ssh"]


STUBBORN = """#!/bin/sh
case "$*" in
*"kagura is connected"*) echo kagura is connected; exec cat >/dev/null ;;
*) echo '{"op": "x"}' >&2; exec sleep 600 ;;
esac
"""


class TestNothingIsLeft:
    async def test_a_session_that_does_not_end_there_holds_nobody_up_here(
        self, machine: OtherMachine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "_END_SECONDS", 0.5)
        stubborn = machine.home / "stubborn"
        stubborn.write_text(STUBBORN)
        stubborn.chmod(0o755)
        backend = SshBackend(machine.host, config=machine.config, python=str(stubborn))
        # Far less than the session there would last, and enough for a machine that is busy.
        async with asyncio.timeout(120):
            with pytest.raises(SandboxUnavailable):
                await backend.start(BoxSpec())
            await backend.close()
        assert not clients()
        for pid in machine.pids():
            os.kill(pid, signal.SIGKILL)

    @pytest.mark.parametrize("pause", [0.0, 0.05, 0.2, 0.4, 0.6])
    async def test_closing_while_a_box_is_being_started(self, machine: OtherMachine, pause: float) -> None:
        backend = SshBackend(machine.host, config=machine.config)
        starting = asyncio.create_task(backend.start(BoxSpec()))
        await asyncio.sleep(pause)
        await backend.close()
        # It may have been ready just before; then it is closed.
        with contextlib.suppress(SandboxUnavailable):
            await starting
        await eventually(lambda: not clients())
        others = {task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()}
        assert not [task for task in others if "ssh" in repr(task.get_coro())]

    async def test_a_line_that_goes_silent_ends_the_box_there(self) -> None:
        with other_machine() as machine:
            backend = SshBackend(machine.host, config=machine.config, silence=3.0)
            box = await backend.start(BoxSpec())
            # Longer than the silence that it bears: it is told that this side is there.
            await asyncio.sleep(4.0)
            assert (await sh(box, "echo on")).ok
            machine.delay.go_silent()
            assert "connection to box was lost" in await asyncio.wait_for(box.wait_closed(), 60)
            await eventually(lambda: not machine.pids())
            await backend.close()

    async def test_killing_what_serves_a_session_ends_its_box_and_says_so(self, machine: OtherMachine) -> None:
        backend = SshBackend(machine.host, config=machine.config)
        box = await backend.start(BoxSpec())
        running = await begun(box, "sleep 600")
        for pid in machine.sessions():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxDied, match="connection to box was lost"):
            await running
        await eventually(lambda: not machine.pids())
        # The next one has a new connection.
        other = await backend.start(BoxSpec())
        assert (await sh(other, "echo again")).stdout.text == "again\n"
        await backend.close()

    async def test_at_whatever_moment_something_is_killed_nothing_stays(
        self, shared: OtherMachine, tmp_path: Path
    ) -> None:
        """The kernel, or what serves its sessions there; while a box begins, works and ends."""
        chance = random.Random(SEED)
        project = project_in(tmp_path)
        script = (
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from kagura_kernel.domain.commands import shell_command\n"
            "from kagura_kernel.sandbox.backend import BoxSpec\n"
            "from kagura_kernel.sandbox.ssh.backend import SshBackend\n"
            "async def go():\n"
            "    backend = SshBackend(sys.argv[1], config=sys.argv[2])\n"
            "    while True:\n"
            "        box = await backend.start(BoxSpec(workspace=Path(sys.argv[3])))\n"
            "        print('box', flush=True)\n"
            "        await box.run(shell_command('sleep 0.2; (setsid sleep 900 &)'))\n"
            "        await box.close()\n"
            "asyncio.run(go())\n"
        )
        for moment in range(MOMENTS):
            words = [sys.executable, "-c", script, shared.host, shared.config, str(project)]
            kernel = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=DEVNULL)
            if moment % 4 and kernel.stdout is not None:
                await kernel.stdout.readline()
            await asyncio.sleep(chance.uniform(0.0, 0.8))
            victims = [kernel.pid] if moment % 2 else shared.sessions()
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            if not moment % 2:
                await eventually(lambda: not shared.pids())
                kernel.kill()
            await kernel.communicate()
            await eventually(lambda: not shared.pids() and not shared.sessions())

    async def test_a_folder_of_a_process_that_was_killed_goes(self, machine: OtherMachine) -> None:
        """With the next connection; that of one that lives stays."""
        left = Path(connection.tempfile.gettempdir()) / "kagura-ssh-999999999-1-abcd"
        left.mkdir(mode=0o700)
        backend = SshBackend(machine.host, config=machine.config)
        box = await backend.start(BoxSpec())
        assert not left.exists()
        own = backend._connection._folder
        assert own is not None
        assert own.exists()
        assert (await box.run(shell_command("true"))).ok
        await backend.close()
        assert not own.exists()
