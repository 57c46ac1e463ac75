"""Each chat of the settings has a row that says whether it could be opened; nobody is asked for it."""

from pathlib import Path

import pytest

from kagura_kernel.cli.doctor_rows import Finding, chats
from kagura_kernel.cockpit.served import only_server
from kagura_kernel.domain.settings import Settings

pytest.importorskip("slack_bolt")

SECRET = "xoxb-very-secret"
VARIABLES = {"bot_token_env": "BOT", "app_token_env": "APP", "operators": ["U1"]}


def look(home: Path, tables: dict[str, dict[str, object]], **environ: str) -> dict[str, Finding]:
    """The rows by name."""
    found = list(chats(Settings(transports=tables), {"KAGURA_HOME": str(home), **environ}))
    assert SECRET not in str(found)
    assert {row.part for row in found} == {"transport"}
    assert len({row.name for row in found}) == len(found)
    return {row.name: row for row in found}


def test_where_no_chat_is_set_up_one_row_says_so(tmp_path):
    rows = look(tmp_path, {})
    assert [(row.name, row.state) for row in rows.values()] == [("chats", "ok")]


def test_a_chat_that_can_be_opened_is_ok_and_says_who_is_heard(tmp_path):
    table = VARIABLES | {"operators": ["U1", "U2"], "project": str(tmp_path)}
    row = look(tmp_path, {"slack": table}, BOT=SECRET, APP=SECRET)["chat slack"]
    assert (row.state, row.said) == ("ok", f"2 operators are heard; runs in {tmp_path}")


@pytest.mark.parametrize(
    ("more", "state", "said"),
    [
        ({"operators": []}, "warn", "nobody is heard"),
        ({"project": "/nowhere/at/all"}, "fail", "is no folder"),
        ({"app_token_env": "NONE"}, "fail", "app_token: no such environment variable is set"),
        ({"operators": ["@alice"]}, "fail", "transports.slack.operators.0: it must be a member id of Slack"),
        ({"operators": "U1"}, "fail", "transports.slack.operators: it must be a list of ids"),
        (
            {"brain": "nobrain"},
            "fail",
            "transports.slack.brain: there is no such brain; it must be one of auto, claude",
        ),
        ({"colour": SECRET}, "fail", "transports.slack.colour: there is no such setting"),
    ],
)
def test_what_keeps_a_chat_from_being_heard_is_told_with_what_mends_it(tmp_path, more, state, said):
    row = look(tmp_path, {"slack": VARIABLES | more}, BOT=SECRET, APP=SECRET)["chat slack"]
    assert row.state == state
    assert said in row.said
    assert row.then == "`kagura-kernel setup transport`"


def test_a_token_in_a_file_that_others_may_read_is_a_failure(tmp_path):
    file = tmp_path / "token"
    file.write_text(SECRET)
    table = {"bot_token_file": str(file), "app_token_env": "APP"}
    file.chmod(0o644)
    assert "others may read the file" in look(tmp_path, {"slack": table}, APP=SECRET)["chat slack"].said
    file.chmod(0o600)
    assert look(tmp_path, {"slack": table}, APP=SECRET)["chat slack"].state == "warn"


def test_a_keychain_is_asked_whether_it_is_there_and_for_nothing_that_is_in_it(tmp_path, monkeypatch):
    import keyring

    monkeypatch.setattr(keyring, "get_password", pytest.fail)
    table = {"discord": {"bot_token_keyring": "a/b", "operators": ["900"]}}
    monkeypatch.setattr("kagura_kernel.cli.doctor_rows.keychain_name", lambda: "a chain")
    assert look(tmp_path, table)["chat discord"].state == "ok"
    monkeypatch.undo()
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    row = look(tmp_path, table)["chat discord"]
    assert (row.state, row.said) == ("fail", "bot_token: this machine has no keychain that keyring can use")


def test_a_library_that_is_missing_is_a_failure_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kagura_kernel.assembly.chats.find_spec", lambda _: None)
    row = look(tmp_path, {"slack": VARIABLES})["chat slack"]
    assert (row.state, row.then) == ("fail", "`pip install 'kagura-kernel[slack]'`")


def test_the_server_has_a_row_and_one_that_runs_has_had_what_variables_hold(tmp_path):
    rows = look(tmp_path, {"slack": VARIABLES})
    assert (rows["chat slack"].state, rows["chat server"].state) == ("fail", "warn")
    assert "kagura-kernel serve" in rows["chat server"].then
    with only_server(tmp_path):
        rows = look(tmp_path, {"slack": VARIABLES})
    assert (rows["chat slack"].state, rows["chat server"].state) == ("ok", "ok")
    assert "process " in rows["chat server"].said
