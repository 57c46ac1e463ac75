"""From a terminal into a running notebook's session: enabled there, called there, taken away again."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import Ran, kernel_environ
from tests.support.open_kernel import OpenKernel, open_kernel
from tests.support.plugin_rig import write_plugin
from tests.support.served import Commands

pytestmark = [pytest.mark.timeout(240), pytest.mark.real_clock]

READS = """%%sandbox --session S
from kagura_host import fs_read
print("READ", fs_read.read_text("a.txt")["text"])
"""
SAYS = """\
SCHEMA = {}


def create_host_functions(config):
    def say():
        return "WORD"

    return {MODULE: {"say": say}}
"""
DIES = """\
SCHEMA = {}


def create_host_functions(config):
    def say():
        kept = []
        while True:
            kept.append("x" * 100_000_000)

    return {MODULE: {"say": say}}
"""
CALLS = """%%sandbox
try:
    from kagura_host import PluginError, greeter
except ImportError as error:
    print("NONE", error)
else:
    try:
        print("SAID", greeter.say())
    except PluginError as error:
        print("FAILED", error.code)
"""

Terminal = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    (found / "data").mkdir(parents=True)
    (found / "data" / "a.txt").write_text("what a.txt says")
    return found


@pytest.fixture
def environ(private_home: Path) -> dict[str, str]:
    return kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1")


@pytest.fixture
def kernel(environ: dict[str, str], project: Path) -> Iterator[OpenKernel]:
    with open_kernel(environ, project) as found:
        yield found


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with Commands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands


@pytest.fixture
def terminal(environ: dict[str, str], project: Path, commands: Commands) -> Terminal:
    def run(*words: str, cwd: Path = project, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = commands.told(environ, cwd, *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def listed(terminal: Terminal, name: str, *words: str) -> dict[str, object]:
    """A plugin's row, as `plugin list --json` has it."""
    rows = json.loads(terminal("plugin", "list", *words, "--json").stdout)
    (row,) = [row for row in rows if row["name"] == name]
    return row


def test_a_terminal_enables_a_plugin_in_a_running_notebook_and_takes_it_away(kernel, terminal, project):
    kernel.run("%%sandbox --session S\nprint(1)")
    # The terminal works elsewhere than the notebook: the path is the one that its person means.
    enable = ("plugin", "enable", "fs-read", "base_dir=data", "--session", "S", "--accept-risk", "medium")
    said = terminal(*enable, cwd=project).stdout
    assert "fs-read 1.0.0 is enabled in the session S. " in said
    row = listed(terminal, "fs-read", "--session", "S")
    assert (row["state"], row["config"]["base_dir"]) == ("enabled", str(project / "data"))
    told = json.loads(terminal("plugin", "config", "fs-read", "--session", "S", "--json").stdout)
    assert {one["field"]: one["configured"] for one in told}["base_dir"] == str(project / "data")
    # The only session that goes on need not be named.
    assert listed(terminal, "fs-read")["state"] == "enabled"
    assert "READ what a.txt says" in kernel.run(READS).text
    assert "disabled in the session S." in terminal("plugin", "disable", "fs-read").stdout
    gone = kernel.run(READS)
    assert "READ" not in gone.text
    assert "fs_read" in gone.text
    assert listed(terminal, "fs-read")["state"] == "disabled"
    said = terminal("plugin", "disable", "fs-read", "--session", "S").stdout
    assert said == "fs-read is not enabled in the session S.\n"


def test_a_notebook_installs_removes_and_completes_plugins(kernel, terminal, project):
    write_plugin(project, "mine")
    assert "mine 1.0.0 is installed." in kernel.run("%kagura plugin install ./mine").text
    assert listed(terminal, "mine")["place"] == "user"
    assert "mine is removed." in kernel.run("%kagura plugin remove mine").text
    refused = kernel.run("%kagura plugin install http://example.org/mine.zip --sha256 " + "0" * 64)
    assert "is fetched over HTTPS alone" in refused.text


def test_relative_paths_are_those_of_the_terminal(kernel, terminal, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    (elsewhere / "data" / "a.txt").write_text("another a.txt")
    kernel.run("%%sandbox --session S\nprint(1)")
    enable = ("plugin", "enable", "fs-read", "base_dir=./data", "--accept-risk", "medium", "--json")
    row = json.loads(terminal(*enable, cwd=elsewhere).stdout)
    assert (row["state"], row["session"], row["opens"]["read"]) == ("enabled", "S", [str(elsewhere / "data")])
    assert "READ another a.txt" in kernel.run(READS).text


def test_a_password_is_not_handed_to_a_notebook_and_that_is_said(kernel, terminal, environ):
    kernel.run("%%sandbox --session S\nprint(1)")
    url = "url=postgresql://ada:hunter2@localhost/db"
    done = terminal("plugin", "enable", "sql-read", url, "--session", "S", "--accept-risk", "high", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("ERR_USAGE: url of sql-read holds a password, and none is handed")
    assert "hunter2" not in done.stderr
    assert listed(terminal, "sql-read", "--session", "S")["state"] == "discovered"
    books = Path(environ["KAGURA_HOME"])
    assert not [path for path in books.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_a_changed_file_takes_a_plugin_off_at_the_next_run_until_it_is_audited_again(kernel, terminal, project):
    root = write_plugin(project / "plugins", source=SAYS.replace("WORD", "hello"))
    enable = "%kagura plugin enable greeter --static --accept-risk medium"
    assert not kernel.run(enable).failed
    terminal("plugin", "approve", "greeter")
    assert "SAID hello" in kernel.run(CALLS).text
    readme = root / "README.md"
    readme.write_text(readme.read_text().replace("greeter", "greeteR"))
    next_run = kernel.run(CALLS).text
    assert "greeter is off: its files have changed" in next_run
    assert "NONE" in next_run
    assert listed(terminal, "greeter")["approved"] is False
    assert "ERR_PLUGIN_CHANGED" in terminal("plugin", "approve", "greeter", code=2).stderr
    terminal("plugin", "audit", "greeter", "--static")
    assert not kernel.run(enable).failed
    assert "SAID hello" in kernel.run(CALLS).text
    log = terminal("plugin", "logs", "greeter").stdout
    changed = next(line for line in log.splitlines() if " changed " in line)
    assert changed.startswith("!")
    assert "its files have changed" in changed


def test_changed_source_is_off_at_once_and_answers_again_once_a_terminal_says_yes(kernel, terminal, project):
    calls = CALLS.replace("%%sandbox", "%%sandbox --session S")
    write_plugin(project / "plugins", source=SAYS.replace("WORD", "hello"))
    assert "NONE" in kernel.run(calls).text
    terminal("plugin", "enable", "greeter", "--static", "--accept-risk", "medium", "--session", "S")
    assert "SAID hello" in kernel.run(calls).text
    write_plugin(project / "plugins", source=SAYS.replace("WORD", "good day"), version="1.1.0")
    waiting: list[dict[str, str]] = []

    def asked() -> bool:
        waiting[:] = json.loads(terminal("approvals", "--pending", "--json").stdout)
        return bool(waiting)

    wait_until(asked)
    assert listed(terminal, "greeter", "--session", "S")["state"] == "audited"
    off = kernel.run(calls).text
    assert "greeter is off: its files have changed" in off
    assert "NONE" in off
    terminal("approve", waiting[0]["id"])
    wait_until(lambda: listed(terminal, "greeter", "--session", "S")["state"] == "enabled")
    assert "SAID good day" in kernel.run(calls).text


def test_a_plugin_that_dies_three_times_is_off_with_the_reason_and_an_audit_lets_it_out(kernel, terminal, project):
    write_plugin(project / "plugins", source=DIES)
    enable = "%kagura plugin enable greeter --static --accept-risk medium"
    assert not kernel.run(enable).failed
    said: list[Ran] = [kernel.run(CALLS) for _ in range(3)]
    assert ["FAILED ERR_PLUGIN_JAIL" in ran.text for ran in said] == [True] * 3, [ran.text for ran in said]
    wait_until(lambda: listed(terminal, "greeter")["state"] == "quarantined")
    row = listed(terminal, "greeter")
    assert "3 times in a row" in row["quarantine"]
    assert "NONE" in kernel.run(CALLS).text
    refused = kernel.run(enable)
    assert "is in quarantine" in refused.text
    terminal("plugin", "audit", "greeter", "--static")
    assert listed(terminal, "greeter")["quarantine"] == ""
    assert not kernel.run(enable).failed
    assert "FAILED" in kernel.run(CALLS).text


class Screen:
    """A command in a pseudo-terminal, with somebody in front of it."""

    def __init__(self, words: tuple[str, ...], cwd: Path, environ: dict[str, str], columns: int) -> None:
        self.text = self._last = self._seen = ""
        self.over = False
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(sys.executable, [sys.executable, "-m", "kagura_kernel.cli.main", *words], environ)
        fcntl.ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def until(self, word: str) -> None:
        """Read until this stands at the end; whatever comes when it is empty.

        A Ctrl-C that comes between a prompt and its read is lost by Python, a Ctrl-D by a terminal that changes mode.
        A person presses it again, and so does this.
        """
        while not word or not self.text.endswith(word):
            if not select.select([self._handle], [], [], AGAIN_SECONDS)[0]:
                if self.text.endswith("^C"):
                    self.type(CTRL_C)
                elif self._last == CTRL_D and not self.text.removeprefix(self._seen).strip("^D\b"):
                    self.type(CTRL_D)
                continue
            try:
                data = os.read(self._handle, 4096)
            except OSError:
                data = b""
            if not data:
                break
            self.text += data.decode("utf-8", "replace").replace("\r\n", "\n")
        assert self.text.endswith(word), self.text

    def type(self, keys: str) -> None:
        self._last, self._seen = keys, self.text
        os.write(self._handle, keys.encode())

    def end(self) -> int:
        """Read the rest; the exit code."""
        self.until("")
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.over = True
        return code

    def close(self) -> None:
        """End it, whatever it waits for."""
        if not self.over:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._handle)


CTRL_C, CTRL_D = "\x03", "\x04"
AGAIN_SECONDS = 2.0
QUESTION = "(r)eject [r]: "


@pytest.mark.parametrize(
    ("keys", "code", "last"),
    [
        (("e\n", "./data\n"), 0, "NAME=VALUE sets another."),
        ((CTRL_C,), 130, "Called off: nothing was decided about fs-read."),
        (("e\n", CTRL_C), 130, "Called off: nothing was decided about fs-read."),
        ((CTRL_D,), 2, "said no."),
        (("e\n", CTRL_D), 2, "said no."),
    ],
    ids=["yes", "ctrl-c", "ctrl-c in the form", "end", "end in the form"],
)
def test_a_person_at_a_narrow_terminal(keys, code, last, environ, project, terminal):
    words = ("plugin", "enable", "fs-read", "--session", "S", "--static")
    screen = Screen(words, project, environ | {"TERM": "xterm"}, 64)
    try:
        for prompt, key in zip((QUESTION, "base_dir: "), keys, strict=False):
            screen.until(prompt)
            screen.type(key)
        assert screen.end() == code, screen.text
    finally:
        screen.close()
    *_, said = screen.text.strip().splitlines()
    assert said.endswith(last), screen.text
    assert "Traceback" not in screen.text
    report = screen.text.partition("Enable fs-read?")[0]
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in report.splitlines()) <= 64
    assert terminal("approvals", "--pending").stdout.startswith("No approval waits: ")
