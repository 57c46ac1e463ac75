"""`plugin enable` and `plugin audit`: the report, the decision, the form, and what a session of a notebook hears."""

import hashlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.cli.plugin_enable import absolute
from kagura_kernel.domain.errors import PluginJailBroken
from kagura_kernel.domain.plugins import PluginPermissions, PluginState
from kagura_kernel.journal.mailbox import Mailbox, take_plugin_words
from kagura_kernel.journal.store import Journal
from tests.support.plugin_rig import SOURCE, write_plugin

from .conftest import said

pytestmark = pytest.mark.usefixtures("plugins")

Capture = pytest.CaptureFixture[str]
ENABLE = ("plugin", "enable", "greeter", "--session", "S")
ASKING = """\
SCHEMA = {
    "greeting": {"type": "string", "description": "What it says first"},
    "times": {"type": "number", "description": "How often", "minimum": 1, "maximum": 9, "promptKey": True},
}


def create_host_functions(config):
    return {MODULE: {"greet": lambda name: config["greeting"] + name}}
"""
HOSTILE = "import os\n\nSCHEMA = {}\n\n\ndef create_host_functions(config):\n    return {MODULE: {'f': os.system}}\n"
WAITING = """\
SCHEMA = {"url": {"type": "string", "description": "A database"}}


def create_host_functions(config):
    return {MODULE: {"f": len}}
"""


class Typist(io.StringIO):
    """A terminal's input: lines, and a key that ends it."""

    def __init__(self, lines: tuple[str, ...], end: type[BaseException] | None) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self._end = end

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        line = super().readline(-1 if size is None else size)
        if not line and self._end is not None:
            raise self._end
        return line


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sits somebody down at a terminal who types these lines."""

    def type_(*lines: str, end: type[BaseException] | None = None) -> None:
        monkeypatch.setattr(sys, "stdin", Typist(lines, end))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return type_


def words(journal: Journal) -> list[tuple[str, str, tuple[str, ...]]]:
    """What a session would hear."""
    return [(word.deed, word.plugin, word.words) for word in take_plugin_words(journal, ["S"])]


def test_a_person_reads_the_report_says_yes_and_the_session_is_told(typing, journal, jails, capsys):
    typing("e")
    assert main([*ENABLE, "greeting=hi there"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Audit of greeter 1.0.0" in out
    assert "Enable greeter? (e)nable for this session, (a)pprove" in out
    assert "is enabled in the session S once a run uses that name, if it does so within 5 minutes." in out
    assert "`from kagura_host import greeter`" in out
    assert words(journal) == [("enable", "greeter", ("greeting=hi there",))]
    # It was tried out with that configuration, and is not left running here.
    assert [jail.order.plan.config for jail in jails.started] == [{"greeting": "hi there"}]
    assert jails.open == []


@pytest.mark.parametrize(("typed", "approved"), [("y", False), ("Enable", False), ("a", True), ("APPROVE", True)])
def test_every_way_to_say_yes(typed, approved, typing, journal, prints):
    typing(typed)
    assert ("It is approved for later sessions" in prints(*ENABLE)) is approved
    assert len(words(journal)) == 1


@pytest.mark.parametrize(
    ("lines", "end"), [(("r",), None), (("no",), None), (("",), None), ((), None)], ids=["r", "no", "enter", "end"]
)
def test_every_way_to_say_no(lines, end, typing, journal, jails, capsys):
    typing(*lines, end=end)
    assert main([*ENABLE]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("ERR_PLUGIN_REFUSED: The plugin 'greeter' was not enabled: ")
    # An error begins on a line of its own, whatever the prompt left.
    assert not lines[0:1] or "\n" in out
    assert words(journal) == []
    assert jails.started == []
    assert Mailbox(journal).pending() == []


@pytest.mark.parametrize("lines", [(), ("e",)], ids=["decision", "form"])
def test_ctrl_c_calls_it_off_and_leaves_nothing_open(lines, typing, plugins, journal, jails, prints, refuses):
    write_plugin(plugins, source=ASKING)
    typing(*lines, end=KeyboardInterrupt)
    assert refuses(*ENABLE, code=130) == "Called off: nothing was decided about greeter.\n"
    assert words(journal) == []
    assert jails.started == []
    assert Mailbox(journal).pending() == []
    assert prints("approvals", "--pending").startswith("No approval waits: ")


def test_a_path_that_no_jail_can_open_is_asked_for_again(plugins, tmp_path, typing, journal, prints):
    write_plugin(plugins, source=WAITING, permissions={"read": ["{url}"]})
    (tmp_path / "data").mkdir()
    typing("a", "./nowhere", "/", str(tmp_path / "data"))
    out = prints(*ENABLE)
    assert "there is no file or directory" in out
    assert "/ is shown to no plugin" in out
    assert out.count("Enable greeter?") == 1
    assert words(journal) == [("enable", "greeter", (f"url={tmp_path}/data",))]


def test_where_nobody_can_be_asked_it_takes_an_accepted_risk(journal, capsys):
    assert main([*ENABLE, "--static"]) == 2
    out, err = capsys.readouterr()
    assert "nobody can be asked here, so the policy says no. Say `--accept-risk medium`, or" in err
    assert "Audit of greeter 1.0.0" in out
    # What no brain has looked at counts as medium.
    assert main([*ENABLE, "--static", "--accept-risk", "low"]) == 2
    err = capsys.readouterr().err
    assert "UNKNOWN, which counts as MEDIUM, is above the LOW accepted: say `--accept-risk medium`" in err
    assert words(journal) == []
    assert main([*ENABLE, "--static", "--accept-risk", "medium"]) == 0
    assert len(words(journal)) == 1


def test_where_nobody_can_be_asked_what_is_missing_is_said_before_an_audit(plugins, capsys, prints):
    write_plugin(plugins, source=ASKING)
    assert main([*ENABLE, "--accept-risk", "medium"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "greeting: it needs a value (What it says first)" in err
    assert "Audit" not in prints("runs")


def test_json_is_data_alone_and_people_s_words_go_beside_it(journal, capsys):
    assert main([*ENABLE, "--accept-risk", "low", "--json"]) == 0
    out, _ = capsys.readouterr()
    row = json.loads(out)
    assert (row["name"], row["session"], row["state"], row["config"]) == (
        "greeter",
        "S",
        "configured",
        {"greeting": "hello"},
    )
    assert len(words(journal)) == 1
    assert main(["plugin", "audit", "greeter", "--json"]) == 0
    out, _ = capsys.readouterr()
    assert (json.loads(out)["risk"], out.count("\n")) == ("LOW", 1)
    assert main(["plugin", "enable", "greeter", "gretting=x", "--session", "S", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ERR_PLUGIN_CONFIG")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("greting=x",), "there is no field 'greting', did you mean 'greeting'?"),
        (("greeting",), "'greeting' has no value"),
        (("greeting=a", "times=ten"), "times: 'ten' is no number"),
        (("--accept-risk", "lwo"), "Did you mean low?"),
        (("--brain", "none-such"), "There is no brain 'none-such'."),
        (("--static", "--brain", "fake"), "do not go together"),
        (("--session",), "--session needs a value"),
    ],
)
def test_wrong_words_are_answered_before_anything_is_audited(typed, message, plugins, journal, capsys, prints):
    write_plugin(plugins, source=ASKING)
    assert main([*ENABLE, *typed]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert words(journal) == []
    assert "Audit" not in prints("runs")


def test_a_notebook_hears_of_it_and_the_terminal_says_so(notebook, prints):
    assert "greeter 1.0.0 is enabled in the session S. Code in its boxes" in prints(
        *ENABLE, "greeting=hi", "--accept-risk", "low"
    )
    row = notebook.plugins.row("greeter", "S")
    assert (row.state, row.config) == (PluginState.ENABLED, {"greeting": "hi"})


def test_a_notebook_that_cannot_enable_it_is_a_failure_here_too(notebook, jails, refuses):
    async def second_fails(order: object) -> None:
        del order
        if len([jail for jail in jails.started if jail.order.found.name == "greeter"]) == 1:
            jails.failing.append(PluginJailBroken("greeter", "there is no room for it"))

    jails.before = second_fails
    err = refuses(*ENABLE, "--accept-risk", "low")
    assert err.startswith("ERR_PLUGIN_REFUSED: The plugin 'greeter' works here and was not enabled in the session S: ")
    assert "there is no room for it" in err
    assert notebook.plugins.row("greeter", "S").state is not PluginState.ENABLED


@pytest.mark.parametrize("typed", [True, False], ids=["in the command", "in the form"])
def test_a_password_is_not_handed_over(typed, plugins, typing, books, journal, capsys):
    write_plugin(plugins, source=WAITING, permissions={"net": ["{url}"]})
    url = "postgresql://ada:hunter2@localhost/db"
    typing("e", url)
    assert main([*ENABLE, f"url={url}"] if typed else [*ENABLE]) == 2
    out, err = capsys.readouterr()
    assert "url of greeter holds a password, and none is handed from a terminal to a notebook." in err
    assert "hunter2" not in out + err
    assert words(journal) == []
    assert not [path for path in books.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_paths_are_handed_over_as_the_terminal_means_them(tmp_path):
    row = SimpleNamespace(permissions=PluginPermissions(read=("{base}", "/etc/x"), write=("{more}",), net=("{hosts}",)))
    given = ("base=./data", 'more=["a", "/b", "~/c"]', "hosts=./not-a-path", "greeting=./neither")
    assert absolute(given, row, tmp_path) == (
        f"base={tmp_path}/data",
        f'more=["{tmp_path}/a", "/b", "~/c"]',
        "hosts=./not-a-path",
        "greeting=./neither",
    )
    assert absolute(("base=sqlite:///x.db",), row, tmp_path) == (f"base=sqlite:///{tmp_path}/x.db",)
    assert absolute(("base=sqlite:////x.db", "more=postgresql://h/d"), row, tmp_path) == (
        "base=sqlite:////x.db",
        "more=postgresql://h/d",
    )


def test_an_audit_says_by_its_exit_code_whether_it_found_a_danger(plugins, prints, refuses):
    assert "Audit of greeter 1.0.0" in prints("plugin", "audit", "greeter")
    write_plugin(plugins, "bad", source=HOSTILE)
    assert "Danger" in prints("plugin", "audit", "bad", "--static", code=1)
    assert refuses("plugin", "enable", "bad", "--session", "S", "--accept-risk", "high").startswith(
        "ERR_PLUGIN_REFUSED: The plugin 'bad' "
    )


def row(capsys: Capture, name: str) -> dict[str, Any] | None:
    """A plugin's row; None when there is none."""
    rows = json.loads(said(capsys, "list", "--json"))
    return next((row for row in rows if row["name"] == name), None)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A plugin that lies somewhere."""
    return write_plugin(tmp_path / "elsewhere", "mine")


def test_a_directory_is_installed_and_nothing_is_enabled(mine, books, capsys):
    out = said(capsys, "install", str(mine))
    assert out == ("mine 1.0.0 is installed. Nothing is enabled yet: `kagura-kernel plugin enable mine`.\n")
    found = row(capsys, "mine")
    assert found is not None
    assert (found["place"], found["state"], found["approved"]) == ("user", "discovered", False)
    assert (books / "plugins" / "mine" / "plugin.py").read_bytes() == (mine / "plugin.py").read_bytes()
    assert said(capsys, "install", str(mine), code=2).startswith("ERR_PLUGIN_REFUSED: ")
    assert json.loads(said(capsys, "install", str(mine), "--replace", "--json"))["name"] == "mine"


def test_a_plugin_with_a_danger_is_installed_and_the_line_says_that_it_is_kept_out(tmp_path, capsys):
    source = f"import subprocess\n{SOURCE}"
    bad = write_plugin(tmp_path / "elsewhere", "bad", source=source)
    out = said(capsys, "install", str(bad))
    assert out.startswith("bad 1.0.0 is installed, and may not be loaded: ")
    assert out.endswith("(plugin.py:1).\n")
    assert "Nothing is enabled yet" not in out
    assert "may not be loaded" in json.loads(said(capsys, "install", str(bad), "--replace", "--json"))["barred"]
    write_plugin(tmp_path / "elsewhere", "bad", source=SOURCE.replace("SCHEMA = ", "SCHEMA = [], "))
    assert "is installed, and cannot be used: SCHEMA is missing" in said(capsys, "install", str(bad), "--replace")


def test_an_archive_needs_its_hash(mine, tmp_path, capsys):
    archive = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", mine.parent, "mine"))
    assert "name its SHA-256 with --sha256 HASH" in said(capsys, "install", str(archive), code=2)
    pinned = hashlib.sha256(archive.read_bytes()).hexdigest()
    other = "0" * 64
    assert "is not what was pinned" in said(capsys, "install", str(archive), "--sha256", other, code=2)
    assert row(capsys, "mine") is None
    assert "mine 1.0.0 is installed." in said(capsys, "install", str(archive), "--sha256", pinned)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("install", "./nowhere"), "There is nothing to install at nowhere: no such file or directory."),
        (("install",), "It needs a SOURCE"),
        (("install", "http://example.org/x.zip", "--sha256", "0" * 64), "is fetched over HTTPS alone"),
        (("install", "./greeter", "--sha256", "abc"), "64 hexadecimal digits"),
        (("remove", "greeter"), "There is no plugin of your own 'greeter'."),
        (("remove", "../books"), "There is no plugin of your own '../books'."),
        (("sign", "."), "Say with which key and as whom"),
        (("trust", "Ada"), "Say which key is Ada’s: `plugin trust Ada KEY`"),
        (("trust", "Ada L.", "no-key"), "That is no public key"),
    ],
)
def test_what_is_missing_or_wrong_is_said(words, message, capsys):
    out = said(capsys, *words, code=2)
    assert out.startswith("ERR_")
    assert message in out


def test_removing_a_plugin_takes_its_approval_along(mine, books, capsys):
    said(capsys, "install", str(mine))
    said(capsys, "audit", "mine")
    said(capsys, "approve", "mine")
    assert said(capsys, "remove", "mine") == "mine is removed.\n"
    assert row(capsys, "mine") is None
    assert not (books / "plugins" / "mine").exists()
    said(capsys, "install", str(mine))
    found = row(capsys, "mine")
    assert found is not None
    assert found["approved"] is False
    assert json.loads(said(capsys, "remove", "mine", "--json")) == {"removed": "mine"}
    told = [line["what"] for line in json.loads(said(capsys, "logs", "mine", "--json"))]
    assert told.count("installed") == told.count("removed") == 2


def test_a_signature_is_shown_once_its_author_is_trusted(plugins, tmp_path, capsys):
    key = tmp_path / "my.key"
    out = said(capsys, "sign", str(plugins / "greeter"), "--key", str(key), "--author", "Ada L.")
    assert key.stat().st_mode & 0o077 == 0
    advice = out.splitlines()[-1].strip()
    assert advice.startswith("kagura-kernel plugin trust 'Ada L.' ed25519:")
    public = advice.rpartition(" ")[2]
    found = row(capsys, "greeter")
    assert found is not None
    assert found["signed_by"] == ""
    assert said(capsys, "trust").startswith("You trust no author yet: `kagura-kernel plugin trust ")
    assert said(capsys, "trust", "Ada L.", public) == "Ada L. is trusted.\n"
    found = row(capsys, "greeter")
    assert found is not None
    assert found["signed_by"] == "Ada L."
    assert "signed by Ada L." in said(capsys, "list")
    (author,) = json.loads(said(capsys, "trust", "--json"))
    assert (author["name"], author["key"]) == ("Ada L.", public)
    assert "That is the key of 'Ada L.'" in said(capsys, "trust", "Bob", public, code=2)
    assert said(capsys, "trust", "Ada L.", "--remove") == "Ada L. is trusted no longer.\n"
    assert said(capsys, "trust", "Ada L.", "--remove") == "Ada L. was not trusted.\n"
    again = json.loads(
        said(capsys, "sign", str(plugins / "greeter"), "--key", str(key), "--author", "Ada L.", "--json")
    )
    assert again["key"] == public
