"""From a terminal into a running notebook's session: enabled there, called there, taken away again."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ
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
