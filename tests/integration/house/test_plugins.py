"""Plugins when something goes wrong around them: kernels that are killed, disks that are full, commands at once."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.cockpit.plugin_talk import AuditPlugin
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.false_home import FOLDER
from kagura_kernel.testing.guards import Process, descendants
from kagura_kernel.testing.patience import wait_until
from tests.support.effort import sample
from tests.support.kernel import kernel_environ
from tests.support.model_script import Silence
from tests.support.model_server import ModelServer
from tests.support.open_kernel import open_kernel
from tests.support.plugin_rig import write_plugin
from tests.support.served import Commands

pytestmark = [pytest.mark.timeout(240), pytest.mark.real_clock]

STAYS = """\
import threading
import time

SCHEMA = {"place": {"type": "string", "description": "Where to say that it has begun"}}


def create_host_functions(config):
    def stay():
        with open(config["place"] + "/begun", "w", encoding="utf-8") as file:
            file.write("begun")
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        time.sleep(1000)

    return {MODULE: {"stay": stay}}
"""
CALLS = "%%sandbox --session S\nfrom kagura_host import greeter\ngreeter.stay()\n"
FULL = """
set -e
cp -a {kept}/. {home}/
head -c 100000000 /dev/zero > {home}/filler || true
{less}
set +e
"$@" >&2
echo "code $?"
rm {home}/filler
cp -a {home}/. {kept}/
"""

Terminal = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    (found / "data").mkdir(parents=True)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return kernel_environ(home, JUPYTER_PREFER_ENV_PATH="1")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with Commands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands


@pytest.fixture
def terminal(environ: dict[str, str], project: Path, commands: Commands) -> Terminal:
    def run(*words: str, before: tuple[str, ...] = (), code: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = [*before, sys.executable, "-m", "kagura_kernel.cli.main", *words]
        if before:
            done = subprocess.run(
                command, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=100
            )
        else:
            done = commands.told(environ, project, *words)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def journal(environ: dict[str, str]) -> Iterator[Journal]:
    found = Journal.open(Path(environ["KAGURA_HOME"]))
    yield found
    found.close()


def listed(terminal: Terminal, name: str = "greeter") -> dict[str, object]:
    """A plugin's row, as `plugin list --json` has it."""
    (row,) = [row for row in json.loads(terminal("plugin", "list", "--json").stdout) if row["name"] == name]
    return row


def check_gone(below: list[Process]) -> None:
    assert below
    wait_until(lambda: not [one for one in below if _command(one.pid) == one.command])


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")
    except OSError:
        return b""


def check_nothing_is_open(journal: Journal) -> None:
    assert Mailbox(journal).pending() == []
    assert LeaseLedger(journal).open_rows() == []
    assert views.unfinished(journal) == []


def test_a_kernel_killed_in_the_middle_of_a_call_leaves_no_jail_and_nothing_enabled(
    environ, project, terminal, journal
):
    write_plugin(project / "plugins", source=STAYS, permissions={"write": ["{place}"]})
    with open_kernel(environ, project) as kernel:
        kernel.run("%%sandbox --session S\nprint(1)")
        said = kernel.run("%kagura plugin enable greeter place=./data --static --accept-risk medium --session S")
        assert not said.failed, said.text
        terminal("plugin", "approve", "greeter")
        pid = int(kernel.run("import os; print(os.getpid())").text)
        kernel.send(CALLS)
        wait_until((project / "data" / "begun").exists)
        assert listed(terminal)["state"] == "enabled"
        below = descendants(pid)
        kernel.kill()
        check_gone(below)
    cockpit = make_cockpit(environ)
    try:
        (lost,) = cockpit.status().lost
        row = next(row for row in cockpit.runs() if row.run_id == lost)
        assert (row.status, row.error_code, row.session_id) == ("lost", "ERR_RUN_LOST", "S")
    finally:
        cockpit.close()
    check_nothing_is_open(journal)
    row = listed(terminal)
    assert (row["state"], row["approved"]) == ("audited", True)
    with open_kernel(environ, project) as kernel:
        # The same name is another session: nothing is enabled in it, and what is approved needs no audit.
        assert "kagura_host" in kernel.run(CALLS).text
        said = kernel.run("%kagura plugin enable greeter place=./data --session S")
        assert "no audit was needed" in said.text, said.text


def test_a_kernel_killed_in_the_middle_of_an_audit_leaves_no_auditor_and_no_question(
    environ, project, terminal, journal
):
    write_plugin(project / "plugins")
    with ModelServer([Silence()] * 9) as server:
        environ |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "not-a-key"}
        with open_kernel(environ, project) as kernel:
            pid = int(kernel.run("import os; print(os.getpid())").text)
            kernel.send("%kagura plugin audit greeter --brain claude")
            wait_until(lambda: any("greeter" in str(request.body) for request in server.requests), 60)
            below = descendants(pid)
            kernel.kill()
            check_gone(below)
    cockpit = make_cockpit(environ)
    try:
        (lost,) = cockpit.status().lost
        assert next(row.task for row in cockpit.runs() if row.run_id == lost) == "Audit the plugin greeter 1.0.0"
    finally:
        cockpit.close()
    check_nothing_is_open(journal)
    assert (listed(terminal)["state"], listed(terminal)["risk"]) == ("discovered", None)


def test_a_kernel_killed_while_changed_files_are_asked_about_leaves_no_question_and_no_jail(
    environ, project, terminal, journal
):
    write_plugin(project / "plugins")
    with open_kernel(environ, project) as kernel:
        kernel.run("%%sandbox --session S\nprint(1)")
        terminal("plugin", "enable", "greeter", "--static", "--accept-risk", "medium", "--session", "S")
        pid = int(kernel.run("import os; print(os.getpid())").text)
        (project / "plugins" / "greeter" / "README.md").write_text("changed")
        wait_until(lambda: bool(Mailbox(journal).pending()))
        (request,) = Mailbox(journal).pending()
        assert request.title == "Enable the plugin greeter 1.0.0 anew, risk UNKNOWN"
        below = descendants(pid)
        kernel.kill()
        check_gone(below)
    make_cockpit(environ).close()
    check_nothing_is_open(journal)
    assert listed(terminal)["state"] == "audited"


WRITING = {
    "approve": ("plugin", "approve", "greeter"),
    "unapprove": ("plugin", "unapprove", "other"),
    "audit": ("plugin", "audit", "greeter", "--static"),
    "enable": ("plugin", "enable", "greeter", "--session", "S", "--static", "--accept-risk", "medium"),
    "install": ("plugin", "install", "big"),
    "remove": ("plugin", "remove", "own"),
    "trust": ("plugin", "trust", "Ada", "ed25519:" + "A" * 43 + "="),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, and a home with an approval, two audits and a plugin of the person's own in it."""
    place = tmp_path_factory.mktemp("prepared")
    project = place / "project"
    for name in ("greeter", "other"):
        write_plugin(project / "plugins", name)
    write_plugin(project, "own")
    write_plugin(project, "big", files={"notes.txt": b"x" * 900_000})
    cockpit = make_cockpit(kernel_environ(place / "home"))
    try:
        plugins = cockpit.plugins
        for name in ("greeter", "other"):
            plugins.audit(AuditPlugin(name=name, project=project, static=True, headless=True)).result(60)
        plugins.approve("other", by="ada", via="test", project=project)
        plugins.shelf.install(str(project / "own"), None, by="ada", via="test")
    finally:
        cockpit.close()
    return place


@pytest.fixture
def settled(prepared: Path, project: Path, home: Path, environ: dict[str, str]) -> Path:
    """The data home of a copy of it, in use by the terminal."""
    del environ
    shutil.copytree(prepared / "project", project, dirs_exist_ok=True)
    # Compiled rules are shared by all tests, and so by both homes.
    shutil.copytree(prepared / "home", home, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FOLDER))
    return home / "kagura"


def books(place: Path) -> dict[str, bytes]:
    """Everything that stands in a data home, the journal apart."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.name.startswith(("journal.db", ".", "filler")) and path.stat().st_size
    }


FULL_DISKS = sample(
    [pytest.param(deed, left, id=f"{deed}-{left}") for deed in WRITING for left in (0, 40, 400)],
    8,
    "kagura_kernel/plugins/",
    "kagura_kernel/journal/",
    "tests/integration/house/test_plugins",
)
"""Deeds, and how many kilobytes are free for them: 24 pairs, or eight of them."""


@pytest.mark.parametrize("deed", WRITING)
def test_a_data_home_that_is_read_only_is_said_and_nothing_changes(deed, settled, terminal):
    before = books(settled)
    bound = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(settled), str(settled), "--")
    done = terminal(*WRITING[deed], before=bound, code=2)
    assert done.stderr.startswith("ERR_"), done.stderr
    assert "Traceback" not in done.stderr
    assert "read-only" in done.stderr
    assert books(settled) == before


@pytest.mark.parametrize(("deed", "left"), FULL_DISKS)
def test_a_full_disk_is_said_and_leaves_nothing_half_written(deed, left, settled, terminal, tmp_path):
    kept = tmp_path / "kept"
    settled.rename(kept)
    settled.mkdir(mode=0o700)
    before = books(kept)
    less = f"truncate -s -{left}K {settled}/filler" if left else ":"
    script = FULL.format(kept=kept, home=settled, less=less)
    room = str(sum(path.stat().st_size for path in kept.rglob("*")) + 1_000_000)
    bound = ("bwrap", "--dev-bind", "/", "/", "--size", room, "--tmpfs", str(settled), "--", "sh", "-c", script, "sh")
    done = terminal(*WRITING[deed], before=bound, code=None)
    assert "Traceback" not in done.stderr
    code = int(done.stdout.rpartition("code ")[2])
    settled.rmdir()
    kept.rename(settled)
    after = books(settled)
    if code:
        assert code == 2, done.stderr
        assert "ERR_" in done.stderr
        assert "full" in done.stderr or "no space" in done.stderr, done.stderr
        if deed == "unapprove":
            # Distrust holds even where it cannot be written down.
            for one in (before, after):
                one.pop("approved-plugins.json")
        assert after == before
    else:
        assert left
    # With room again, all of it can be read.
    assert "as they were written" in terminal("journal", "verify").stdout
