"""`plugin list`, `disable`, `approve`, `unapprove`, `config` and `logs`."""

import json
import sys
from typing import Any

import pytest

from kagura_kernel.assembly import kits
from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.plugin_talk import EnablePlugin
from kagura_kernel.domain.plugins import PluginState, Risk
from tests.support.plugin_rig import SOURCE, write_plugin
from tests.support.redactors import shared_redactor

from .conftest import said

pytestmark = pytest.mark.usefixtures("plugins")

Capture = pytest.CaptureFixture[str]
LONG = "greets whoever asks, by name, in the words that it was given, and keeps nothing at all of it afterwards"


def data(capsys: Capture, *words: str) -> Any:
    """What a command prints for programs: one line, and nothing beside it."""
    out = said(capsys, *words, "--json")
    assert out.count("\n") == 1
    return json.loads(out)


def row(capsys: Capture, name: str, *words: str) -> dict[str, Any]:
    """A plugin's row."""
    (found,) = [row for row in data(capsys, "list", *words) if row["name"] == name]
    return dict(found)


def test_all_plugins_are_listed_with_their_state_and_what_is_wrong_with_them(plugins, capsys):
    write_plugin(plugins, "talker", description=LONG)
    (plugins / "talker" / "extra.pyc").write_bytes(b"")
    broken = write_plugin(plugins, "broken")
    (broken / "plugin.json").write_text("{")
    out = said(capsys, "list")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "discovered" in lines["greeter"]
    assert "not audited" in lines["greeter"]
    assert LONG in lines["talker"]
    assert "not usable" in out
    assert lines["broken:"].startswith("broken: ")
    assert row(capsys, "greeter")["state"] == "discovered"
    assert row(capsys, "broken")["problem"]


def test_the_list_says_what_keeps_a_plugin_out(plugins, tmp_path, capsys):
    write_plugin(plugins, "bad", source=f"import subprocess\n{SOURCE}")
    assert row(capsys, "bad")["danger"] == ""
    main(["plugin", "audit", "bad"])
    capsys.readouterr()
    danger = row(capsys, "bad")["danger"]
    assert "(plugin.py:1)" in danger
    assert f"bad: kept out: {danger}" in said(capsys, "list").splitlines()
    sign = ["plugin", "sign", str(plugins / "greeter"), "--key", str(tmp_path / "my.key"), "--author"]
    assert main([*sign, ""]) == 2
    assert not (tmp_path / "my.key").exists()
    assert [main([*sign, "Ada"]), "with a new key" in capsys.readouterr().out] == [0, True]
    assert [main([*sign, "Ada"]), "with a new key" in capsys.readouterr().out] == [0, False]
    assert row(capsys, "greeter")["danger"] == ""
    (plugins / "greeter" / "README.md").write_text("other")
    assert "ignature" in row(capsys, "greeter")["danger"]
    assert "greeter: kept out: " in said(capsys, "list")


def test_the_list_says_what_was_decided_and_counts_for_nothing(tmp_path, capsys):
    said(capsys, "list")
    book = tmp_path / "books" / "approved-plugins.json"
    book.write_text("{")
    book.chmod(0o600)
    assert f"{book} counts as empty: it is not JSON" in said(capsys, "list")


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_the_list_fits_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert max(map(len, said(capsys, "list").splitlines())) <= int(columns)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("unaporove", "greeter"), "Did you mean 'plugin unapprove'?"),
        (("enabel", "greeter"), "Did you mean 'plugin enable'?"),
        (("approve", "greter"), "Did you mean 'greeter'?"),
        (("unapprove", "greeterxx"), "Did you mean 'greeter'?"),
        (("disable", "geeter", "--session", "S"), "Did you mean 'greeter'?"),
        (("enable", "greetre"), "Did you mean 'greeter'?"),
        (("audit", "gretter"), "Did you mean 'greeter'?"),
        (("config", "greeterr"), "Did you mean 'greeter'?"),
        (("logs", "reeter"), "Did you mean 'greeter'?"),
        (("logs", "greeter", "--limt", "3"), "Did you mean --limit?"),
    ],
)
def test_a_slip_of_the_fingers_is_answered_with_what_was_meant(words, hint, capsys):
    out = said(capsys, *words, code=2)
    assert out.startswith("ERR_")
    assert hint in out


def test_a_secret_names_no_session_and_is_not_repeated(capsys, monkeypatch):
    monkeypatch.setattr(kits, "redactor_of", lambda _home: shared_redactor())
    token = "ghp_" + "aB3dE5gH7jQ2mN4pR6tV8xY1zC0fK9wS5uL3"
    out = said(capsys, "disable", "greeter", "--session", token, code=2)
    assert out.startswith("ERR_USAGE")
    assert "looks like a secret" in out
    assert token not in out


def test_what_is_like_nothing_gets_no_hint(capsys):
    out = said(capsys, "approve", "weather-report", code=2)
    assert "There is no plugin 'weather-report'." in out
    assert "Did you mean" not in out


def test_approving_needs_an_audit_and_holds_until_it_is_taken_back(capsys):
    assert said(capsys, "approve", "greeter", code=2).startswith("ERR_PLUGIN_REFUSED: ")
    assert said(capsys, "unapprove", "greeter") == "greeter was not approved.\n"
    main(["plugin", "audit", "greeter"])
    capsys.readouterr()
    assert "greeter 1.0.0 is approved for later sessions" in said(capsys, "approve", "greeter")
    assert row(capsys, "greeter")["approved"] is True
    assert data(capsys, "unapprove", "greeter") == {"plugin": "greeter", "was_approved": True}
    assert data(capsys, "unapprove", "greeter") == {"plugin": "greeter", "was_approved": False}
    assert data(capsys, "approve", "greeter")["approved"] is True
    assert said(capsys, "unapprove", "greeter") == "greeter is approved no longer.\n"
    assert row(capsys, "greeter")["approved"] is False


def test_an_approval_of_what_was_deleted_by_hand_can_be_taken_back(plugins, capsys):
    main(["plugin", "audit", "greeter"])
    main(["plugin", "approve", "greeter"])
    (plugins / "greeter").rename(plugins.parent / "gone")
    capsys.readouterr()
    assert said(capsys, "unapprove", "greeter") == "greeter is approved no longer.\n"
    assert said(capsys, "unapprove", "greeter", code=2).startswith("ERR_UNKNOWN_NAME")


def test_what_can_be_configured_is_listed_with_its_default(plugins, capsys):
    out = said(capsys, "config", "greeter")
    assert out.splitlines()[1].split() == ["greeting", "string", "hello", "-", "What", "it", "says", "first"]
    (field,) = data(capsys, "config", "greeter")
    assert (field["field"], field["default"], field["asked_for"], field["configured"]) == (
        "greeting",
        "hello",
        False,
        None,
    )
    write_plugin(
        plugins, "mute", source="SCHEMA = {}\n\n\ndef create_host_functions(config):\n    return {MODULE: {'f': len}}\n"
    )
    assert said(capsys, "config", "mute") == "mute has nothing to configure.\n"


def test_a_notebook_s_session_is_seen_and_its_plugin_taken_away(notebook, capsys):
    assert row(capsys, "other")["state"] == "enabled"
    assert row(capsys, "other", "--session", "S")["config"] == {"greeting": "hello"}
    assert row(capsys, "other", "--session", "T")["state"] == "audited"
    (field,) = data(capsys, "config", "other", "--session", "S")
    assert field["configured"] == "hello"
    assert said(capsys, "disable", "other") == "other is disabled in the session S.\n"
    assert notebook.plugins.row("other", "S").state is PluginState.DISABLED
    assert data(capsys, "disable", "other", "--session", "S") == {
        "plugin": "other",
        "session": "S",
        "was_enabled": False,
        "disabled": True,
    }
    assert said(capsys, "disable", "other", "--session", "T") == "other is not enabled in the session T.\n"


def test_which_session_is_meant_has_to_be_said_when_there_are_several_or_none(notebook, capsys):
    second = EnablePlugin(name="other", session="T", static=True, accept=Risk.MEDIUM, headless=True, by="ada")
    notebook.plugins.enable(second).result(60)
    out = said(capsys, "disable", "other", code=2)
    assert out.startswith("ERR_USAGE: Several sessions go on: ")
    last = said(capsys, "list").splitlines()[-1]
    assert last.startswith("2 sessions go on; `--session NAME` tells what is enabled in one: ")
    notebook.close()
    out = said(capsys, "disable", "other", code=2)
    assert out.startswith("ERR_USAGE: No session goes on that this could be about. Name one with `--session NAME`")
    assert "so it has no last session" in said(capsys, "disable", "other", "--session", "last", code=2)


def test_the_log_says_what_happened_when_who_did_it_and_in_which_session(notebook, capsys):
    notebook.plugins.disable("other", by="bob", via="test", session="S")
    head, *lines = said(capsys, "logs", "other").splitlines()
    assert head.split() == ["when", "what", "by"]
    told = {line.split()[2]: line for line in lines}
    assert list(told) == ["seen", "audited", "configured", "enabled", "disabled"]
    assert told["audited"].endswith("by the scan alone")
    assert "ada" in told["enabled"]
    assert told["enabled"].endswith("(session S)")
    assert " bob " in told["disabled"]
    assert "No more than the newest 5 are shown" in said(capsys, "logs", "other", "--limit", "5")
    (last,) = data(capsys, "logs", "other", "--limit", "1")
    assert (last["what"], last["by"], last["session_id"], last["ok"]) == ("disabled", "bob", "S", True)


def test_a_narrow_terminal_shows_all_of_a_log(plugins, capsys, monkeypatch):
    (plugins / "greeter" / "plugin.json").write_text("{" + '"a": 1, ' * 20)
    said(capsys, "list")
    whole = said(capsys, "logs", "greeter").splitlines()[1].split("seen", 1)[1].split(None, 1)[1]
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = said(capsys, "logs", "greeter").splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines[2:]).split()) == " ".join(whole.split())
    assert lines[1].startswith("!")


def test_words_of_a_plugin_cannot_pose_as_a_log(plugins, capsys):
    (plugins / "greeter" / "plugin.json").write_text(json.dumps({"na\x1b[2Jme": 1, "x\ny": 2}))
    for words in (("list",), ("logs", "greeter"), ("logs", "greeter", "--json")):
        out = said(capsys, *words)
        assert "\x1b" not in out
