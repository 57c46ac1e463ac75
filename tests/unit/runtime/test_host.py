import asyncio
import contextlib
import subprocess
import sys
import textwrap
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import HostCommandTimeout, HostError, HostIdleTimeout
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.runtime.host import HostRunner, minimal_environment
from kagura_kernel.sandbox.guest import processes
from kagura_kernel.testing.patience import eventually


def login(line: str, **more) -> Command:
    return Command(("bash", "-lc", line), **more)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


LONGER_AND_LONGER = (0.6, 5.0, 30.0)
"""Seconds: a slow machine may not even have begun with a command when the first limit is reached."""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def kernel_running(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])


async def gone(pid: int) -> None:
    await eventually(lambda: not is_alive(pid))


async def pid_in(path: Path) -> int:
    await eventually(lambda: read(path))
    return int(read(path))


@pytest.fixture
async def host(tmp_path):
    runner = HostRunner(tmp_path, grace=0.2)
    yield runner
    await runner.close()


async def test_output_exit_code_and_directory_are_told(host, tmp_path):
    result = await host.run(login("pwd; echo no >&2; exit 3"))
    assert (result.exit_code, result.stdout.text, result.stderr.text) == (3, f"{tmp_path}\n", "no\n")
    assert result.signal is None


async def test_output_is_heard_as_it_comes(host):
    chunks = []
    await host.run(login("echo a; echo b >&2"), chunks.append)
    assert sorted((chunk.stream, chunk.data) for chunk in chunks) == [("stderr", b"b\n"), ("stdout", b"a\n")]


async def test_standard_input_arrives_whole_and_ends(host):
    data = bytes(range(256)) * 5000
    result = await host.run(Command(("cat",), stdin=data, keep_bytes=1 << 22))
    assert result.stdout.data == data


async def test_a_command_that_reads_nothing_is_no_trouble(host):
    assert (await host.run(Command(("true",), stdin=b"x" * 1_000_000))).ok
    assert (await host.run(Command(("cat",)))).stdout.data == b""


async def test_a_signal_is_an_exit_code_of_128_and_more(host):
    result = await host.run(login("kill -KILL $$"))
    assert (result.exit_code, result.signal) == (137, 9)


async def test_a_program_that_does_not_exist_is_a_result(host):
    result = await host.run(Command(("no-such-program",)))
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr.data


async def test_a_directory_that_does_not_exist_is_an_error_that_says_so(host):
    with pytest.raises(HostError, match="no directory"):
        await host.run(login("ls", cwd="gone"))


async def test_no_key_of_this_process_reaches_a_command(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    runner = HostRunner(tmp_path)
    result = await runner.run(Command(("env",)))
    await runner.close()
    names = {line.split("=")[0] for line in result.stdout.text.splitlines()}
    assert names == {
        "CI", "GIT_TERMINAL_PROMPT", "HOME", "KAGURA_HOST_COMMAND", "LANG", "LOGNAME", "NO_COLOR", "PAGER", "PATH",
        "TERM", "USER"
    }  # fmt: skip
    assert "CI=1" in result.stdout.text
    assert "TERM=dumb" in result.stdout.text


def test_the_minimal_environment_has_no_relative_path_entries():
    environ = {"PATH": ".:/usr/bin::bin:/bin", "HOME": "/h", "USER": "u", "TOKEN": "t"}
    made = minimal_environment(environ, Path("/project"))
    assert (made["PATH"], made["HOME"], made["USER"]) == ("/usr/bin:/bin", "/h", "u")
    assert "TOKEN" not in made


def test_nor_entries_that_lead_into_the_project(tmp_path):
    programs = tmp_path / "project" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "link").symlink_to(programs)
    entries = [str(programs), "/usr/bin", str(tmp_path / "link"), f"{tmp_path}/other/../project/bin", f"{tmp_path}/bin"]
    made = minimal_environment({"PATH": ":".join(entries)}, tmp_path / "project")
    assert made["PATH"] == f"/usr/bin:{tmp_path}/bin"
    assert minimal_environment({"PATH": str(programs)}, tmp_path / "project")["PATH"] == "/usr/local/bin:/usr/bin:/bin"


async def test_programs_that_a_box_put_into_the_project_do_not_run_in_place_of_the_system_s(monkeypatch, tmp_path):
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("bash", "cat", "env"):
        (programs / name).write_text(f"#!/bin/sh\necho planted > {tmp_path}/ran\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    runner = HostRunner(tmp_path)
    # A start-up file of the person's may set the path for itself; which shell reads it is settled before.
    given = HostRunner(tmp_path, environment={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)})
    for command in (login("cat /dev/null; env"), Command(("bash", "-c", "cat /dev/null")), Command(("cat",))):
        assert (await runner.run(command)).ok
    assert (await given.run(Command(("bash", "-c", "echo fine")))).stdout.text == "fine\n"
    await runner.close()
    await given.close()
    assert not (tmp_path / "ran").exists()


async def test_nothing_is_imported_from_where_commands_run(tmp_path, monkeypatch):
    (tmp_path / "zipapp.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = HostRunner(tmp_path)
    await runner.close()
    spec = find_spec("zipapp")
    assert spec is None or not str(spec.origin).startswith(str(tmp_path))


async def test_long_output_is_bounded_and_kept_whole_in_a_file(host, tmp_path):
    result = await host.run(login("seq 1 100000", keep_bytes=1000, spill_dir=tmp_path))
    assert result.stdout.truncated
    assert len(result.stdout.data) <= 1000
    assert result.stdout.spill is not None
    assert result.stdout.spill.read_text().split()[-1] == "100000"


async def test_a_command_that_takes_too_long_is_stopped_and_its_children_too(host, tmp_path):
    line = "trap '' TERM; (trap '' TERM; echo $BASHPID > child; sleep 60) & while :; do echo .; sleep 0.05; done"
    for seconds in LONGER_AND_LONGER:
        with pytest.raises(HostCommandTimeout) as caught:
            await host.run(login(line, limits=CommandLimits(seconds, 60)))
        assert caught.value.seconds == seconds
        if read(tmp_path / "child"):
            break
    await gone(int((tmp_path / "child").read_text()))


async def test_a_silent_command_is_stopped(host):
    with pytest.raises(HostIdleTimeout):
        await host.run(login("echo once; sleep 60", limits=CommandLimits(60, 0.4)))


async def test_a_command_that_keeps_talking_is_not_idle(host):
    line = "for i in {1..20}; do echo $i; sleep 0.15; done"
    assert (await host.run(login(line, limits=CommandLimits(None, 2.0)))).ok


async def test_a_polite_command_may_clean_up_before_it_goes(tmp_path):
    host = HostRunner(tmp_path, grace=60)
    line = "trap 'echo bye > farewell; exit' TERM; echo x > ready; while :; do sleep 0.02; done"
    for seconds in LONGER_AND_LONGER:
        with pytest.raises(HostCommandTimeout):
            await host.run(login(line, limits=CommandLimits(seconds, None)))
        if (tmp_path / "ready").exists():
            break
    assert (tmp_path / "farewell").exists()
    await host.close()


async def test_what_was_left_in_the_background_ends_with_the_command(host, tmp_path):
    line = "(echo $BASHPID > child; exec sleep 60) & until [ -s child ]; do sleep 0.02; done; echo done"
    result = await host.run(login(line))
    assert result.stdout.text == "done\n"
    await gone(int((tmp_path / "child").read_text()))


async def test_a_child_in_a_session_of_its_own_ends_with_the_command_too(host, tmp_path):
    line = "setsid bash -c 'echo $$ > child; exec sleep 60' & until [ -s child ]; do sleep 0.02; done; echo done"
    result = await host.run(login(line))
    assert result.ok
    await gone(int((tmp_path / "child").read_text()))


async def test_cancelling_stops_the_whole_family(host, tmp_path):
    task = asyncio.create_task(host.run(login("(echo $BASHPID > child; exec sleep 60); true")))
    child = await pid_in(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(child)


async def test_closing_stops_what_runs_and_refuses_what_comes_later(host, tmp_path):
    task = asyncio.create_task(host.run(login("echo $$ > child; exec sleep 60")))
    child = await pid_in(tmp_path / "child")
    await host.close()
    await host.close()
    with pytest.raises(HostError, match="the run is over"):
        await task
    await gone(child)
    with pytest.raises(HostError):
        await host.run(login("true"))


async def test_nothing_is_left_open(host):
    await host.run(Command(("true",)))
    before = open_files()
    await host.run(login("echo x; echo y >&2", stdin=b"z"))
    await host.run(Command(("no-such-program",)))
    with contextlib.suppress(HostIdleTimeout):
        await host.run(login("sleep 60", limits=CommandLimits(None, 0.1)))
    await eventually(lambda: open_files() == before)


async def test_a_killed_kernel_leaves_no_host_command_behind(tmp_path):
    program = f"""
        import asyncio
        from pathlib import Path
        from kagura_kernel.domain.commands import Command
        from kagura_kernel.runtime.host import HostRunner
        line = "(echo $BASHPID > child.new; mv child.new child; exec sleep 60); true"
        asyncio.run(HostRunner(Path({str(tmp_path)!r})).run(Command(("bash", "-c", line))))
    """
    kernel = kernel_running(program)
    try:
        child = await pid_in(tmp_path / "child")
        # A kernel that dies before its keeper is there is not promised anything.
        await eventually(lambda: sum(process.parent == kernel.pid for process in processes.listing()) == 2)
        assert is_alive(child)
    finally:
        kernel.kill()
        kernel.wait()
    await gone(child)


async def test_twenty_commands_at_once_all_finish(host):
    results = await asyncio.gather(*(host.run(login(f"sleep 0.2; echo {number}")) for number in range(20)))
    assert [result.stdout.text for result in results] == [f"{number}\n" for number in range(20)]


class Upper:
    """Holds the last byte back until the end."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> bytes:
        whole, self.held = self.held + data, data[-1:] if data else self.held
        return whole[:-1].upper()

    async def ready(self) -> None:
        pass

    def finish(self) -> bytes:
        return self.held.upper()


async def test_output_goes_through_the_filter_before_anybody_sees_it(host, tmp_path):
    heard: list[bytes] = []
    command = login("printf one; printf two >&2; seq 1 2000 | tr 0-9 a-j", keep_bytes=100, spill_dir=tmp_path)
    result = await host.run(replace(command, output_filter=Upper), lambda chunk: heard.append(chunk.data))
    assert result.stderr.text == "TWO"
    assert result.stdout.spill is not None
    written = result.stdout.spill.read_bytes()
    assert written == written.upper()
    assert (written[:5], len(written)) == (b"ONEB\n", result.stdout.total)
    assert len(b"".join(heard)) == result.stdout.total + 3


async def test_a_runners_own_filter_comes_after_that_of_the_command(tmp_path):
    class Answered:
        """Says what it has seen."""

        def feed(self, data: bytes) -> bytes:
            return b"<" + data + b">" if data else b""

        async def ready(self) -> None:
            pass

        def finish(self) -> bytes:
            return b"."

    host = HostRunner(tmp_path, after=Answered)
    try:
        plain = await host.run(login("printf one"))
        both = await host.run(replace(login("printf one"), output_filter=Upper))
    finally:
        await host.close()
    assert plain.stdout.text == "<one>."
    assert both.stdout.text == "<ON><E>."


async def test_what_a_filter_held_back_is_heard_before_a_time_limit_is_told(host):
    heard: list[bytes] = []
    for seconds in LONGER_AND_LONGER:
        command = login("printf begun; sleep 600", limits=CommandLimits(seconds, None), output_filter=Upper)
        with pytest.raises(HostCommandTimeout):
            await host.run(command, lambda chunk: heard.append(chunk.data))
        if heard:
            break
    assert b"".join(heard) == b"BEGUN"
