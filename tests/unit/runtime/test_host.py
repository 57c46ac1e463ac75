from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import HostCommandTimeout, HostError, HostIdleTimeout
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.runtime.host import HostRunner, minimal_environment


def login(line: str, **more) -> Command:
    return Command(("bash", "-lc", line), **more)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def kernel_running(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])


async def eventually_gone(pid: int) -> bool:
    for _ in range(200):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.05)
    return False


async def pid_in(path: Path) -> int:
    for _ in range(200):
        if text := read(path):
            return int(text)
        await asyncio.sleep(0.05)
    raise AssertionError("the command never started")


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
        "TERM", "USER",
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
    (tmp_path / "nntplib.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = HostRunner(tmp_path)
    await runner.close()
    spec = find_spec("nntplib")
    assert spec is None or not str(spec.origin).startswith(str(tmp_path))


async def test_long_output_is_bounded_and_kept_whole_in_a_file(host, tmp_path):
    result = await host.run(login("seq 1 100000", keep_bytes=1000, spill_dir=tmp_path))
    assert result.stdout.truncated
    assert len(result.stdout.data) <= 1000
    assert result.stdout.spill is not None
    assert result.stdout.spill.read_text().split()[-1] == "100000"


async def test_a_command_that_takes_too_long_is_stopped_and_its_children_too(host, tmp_path):
    line = "trap '' TERM; (trap '' TERM; echo $BASHPID > child; sleep 60) & while :; do echo .; sleep 0.05; done"
    with pytest.raises(HostCommandTimeout) as caught:
        await host.run(login(line, limits=CommandLimits(0.6, 60)))
    assert caught.value.seconds == 0.6
    assert await eventually_gone(int((tmp_path / "child").read_text()))


async def test_a_silent_command_is_stopped(host):
    with pytest.raises(HostIdleTimeout):
        await host.run(login("echo once; sleep 60", limits=CommandLimits(60, 0.4)))


async def test_a_command_that_keeps_talking_is_not_idle(host):
    line = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.15; done"
    assert (await host.run(login(line, limits=CommandLimits(None, 0.6)))).ok


async def test_a_polite_command_may_clean_up_before_it_goes(host, tmp_path):
    line = "trap 'echo bye > farewell; exit' TERM; echo x; while :; do sleep 0.02; done"
    with pytest.raises(HostCommandTimeout):
        await host.run(login(line, limits=CommandLimits(0.5, None)))
    assert (tmp_path / "farewell").exists()


async def test_what_was_left_in_the_background_ends_with_the_command(host, tmp_path):
    result = await host.run(login("(echo $BASHPID > child; exec sleep 60) & sleep 0.2; echo done"))
    assert result.stdout.text == "done\n"
    assert await eventually_gone(int((tmp_path / "child").read_text()))


async def test_a_child_in_a_session_of_its_own_ends_with_the_command_too(host, tmp_path):
    result = await host.run(login("setsid bash -c 'echo $$ > child; exec sleep 60' & sleep 0.3; echo done"))
    assert result.ok
    assert await eventually_gone(int((tmp_path / "child").read_text()))


async def test_cancelling_stops_the_whole_family(host, tmp_path):
    task = asyncio.create_task(host.run(login("(echo $BASHPID > child; exec sleep 60); true")))
    child = await pid_in(tmp_path / "child")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await eventually_gone(child)


async def test_closing_stops_what_runs_and_refuses_what_comes_later(host, tmp_path):
    task = asyncio.create_task(host.run(login("echo $$ > child; exec sleep 60")))
    child = await pid_in(tmp_path / "child")
    await host.close()
    await host.close()
    with pytest.raises(HostError, match="the run is over"):
        await task
    assert await eventually_gone(child)
    with pytest.raises(HostError):
        await host.run(login("true"))


async def test_nothing_is_left_open(host):
    await host.run(Command(("true",)))
    before = open_files()
    await host.run(login("echo x; echo y >&2", stdin=b"z"))
    await host.run(Command(("no-such-program",)))
    with contextlib.suppress(HostIdleTimeout):
        await host.run(login("sleep 60", limits=CommandLimits(None, 0.1)))
    assert open_files() == before


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
        # The keeper needs a moment to start; a kernel that dies within it is not promised anything.
        await asyncio.sleep(0.5)
        assert is_alive(child)
    finally:
        kernel.kill()
        kernel.wait()
    assert await eventually_gone(child)


async def test_twenty_commands_at_once_all_finish(host):
    began = time.monotonic()
    results = await asyncio.gather(*(host.run(login(f"sleep 0.2; echo {number}")) for number in range(20)))
    assert [result.stdout.text for result in results] == [f"{number}\n" for number in range(20)]
    assert time.monotonic() - began < 60
