"""The doctor on whole machines: with nothing, with Docker alone, with a broken journal, with an expired login."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.cli import doctor_rows
from kagura_kernel.cli.doctor_rows import LITTLE, TOO_LITTLE
from kagura_kernel.cli.main import main
from kagura_kernel.domain.settings import SandboxPolicyType
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter import installed
from tests.support.journals import touch
from tests.support.sample_run import SampleRun

Rows = dict[str, dict[str, Any]]
ROWS = {
    *("brain", "memory", "shared deployment", "box docker", "box bubblewrap", "box gvisor", "settings", "egress rules"),
    *("credential providers", "secret back-ends", "jupyter kernelspec", "clock", "disk", "journal"),
}


@pytest.fixture
def machine(books: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rows]:
    """A machine without any program of its own, as the doctor sees it."""
    del books
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    # The programs of boxes are looked for where the system keeps them, too.
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)

    def look(capsys: pytest.CaptureFixture[str]) -> tuple[int, Rows]:
        code = main(["doctor", "--json"])
        told = json.loads(capsys.readouterr().out)
        return code, {row["name"]: row for row in told["findings"]}

    return look


def states(rows: Rows, state: str) -> set[str]:
    return {name for name, row in rows.items() if row["state"] == state}


def test_a_machine_with_nothing_is_told_what_to_do_about_each_thing(machine, capsys):
    code, rows = machine(capsys)
    assert code == 4
    assert rows.keys() >= ROWS
    assert rows["boxes"]["state"] == "fail"
    assert rows["boxes"]["then"] == rows["box bubblewrap"]["then"]
    assert states(rows, "warn") >= {"brain", "box docker", "box bubblewrap", "box gvisor"}
    assert rows["brain"]["then"] == "`kagura-kernel setup brain`"
    assert "bubblewrap" in rows["box bubblewrap"]["then"]
    assert states(rows, "ok") >= {"memory", "shared deployment", "egress rules", "credential providers", "journal"}
    assert all(row["then"] for row in rows.values() if row["state"] != "ok")


def test_settings_that_a_variable_names_and_that_are_not_there_are_told(machine, capsys, monkeypatch, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text("")
    monkeypatch.setenv("KAGURA_CONFIG", str(config))
    assert machine(capsys)[1]["settings"] | {"part": ""} == {
        "name": "settings", "state": "ok", "said": str(config), "then": "", "part": "",
    }  # fmt: skip
    config.unlink()
    row = machine(capsys)[1]["settings"]
    assert (row["state"], row["said"]) == ("warn", f"KAGURA_CONFIG names {config}, which is not there: defaults hold")


def test_an_expired_login_is_a_failure_and_says_how_to_sign_in_again(machine, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    ends = datetime.now(UTC) - timedelta(days=2)

    def signed_in(**more: Any) -> dict[str, Any]:
        kept = {"accessToken": "sk-ant-oat-x", "expiresAt": ends.timestamp() * 1000, **more}
        (tmp_path / ".credentials.json").write_text(json.dumps({"claudeAiOauth": kept}))
        return machine(capsys)[1]["brain"]

    row = signed_in()
    assert (row["state"], row["then"]) == ("fail", "`kagura-kernel setup brain`")
    assert f"the sign-in ran out on {ends:%Y-%m-%d}" in row["said"]
    assert "sk-ant" not in json.dumps(row)
    # The program renews by itself what it has the means to renew.
    assert signed_in(refreshToken="r")["state"] == "ok"
    assert signed_in(expiresAt=(ends + timedelta(days=4)).timestamp() * 1000)["state"] == "ok"


def test_a_brain_that_the_settings_name_and_that_cannot_think_is_a_failure(machine, capsys, monkeypatch):
    monkeypatch.setenv("KAGURA_BRAIN", "claude")
    assert machine(capsys)[1]["brain"]["state"] == "fail"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    row = machine(capsys)[1]["brain"]
    assert (row["state"], row["said"]) == ("ok", "claude, as the settings say: ANTHROPIC_API_KEY is set")


def test_a_broken_journal_is_a_failure_and_all_else_is_told_too(machine, capsys, books):
    journal = Journal.open(books)
    for number in range(3):
        journal.append(SampleRun().noted(str(number)))
    journal.close()
    touch(books / "journal.db", "DELETE FROM journal_events WHERE seq = 2")
    code, rows = machine(capsys)
    assert (code, rows["journal"]["state"]) == (4, "fail")
    assert "kagura-kernel journal" in rows["journal"]["then"]
    assert rows.keys() >= ROWS
    (books / "journal.db").write_bytes(b"no database" * 1000)
    code, rows = machine(capsys)
    assert (code, rows["journal"]["state"]) == (4, "fail")
    assert rows.keys() >= ROWS


def test_a_clock_that_went_back_behind_the_journal_is_a_failure(machine, capsys, books):
    journal = Journal.open(books)
    journal.append(SampleRun(at=datetime.now(UTC) + timedelta(days=3)).started())
    # What was written since does not hide it.
    journal.append(SampleRun(run_id="run-2", at=datetime.now(UTC)).started())
    journal.close()
    row = machine(capsys)[1]["clock"]
    assert (row["state"], row["then"]) == ("fail", "set it: `timedatectl set-ntp true`")


@pytest.mark.parametrize(
    ("mode", "state"), [(0o700, "ok"), (0o750, "warn"), (0o755, "warn"), (0o770, "fail"), (0o777, "fail")]
)
def test_a_data_directory_that_others_may_use_is_told_with_what_closes_it(machine, capsys, books, mode, state):
    books.mkdir()
    books.chmod(mode)
    row = machine(capsys)[1]["data directory"]
    assert (row["state"], row["then"]) == (state, "" if state == "ok" else f"`chmod 700 {books}`")


@pytest.mark.parametrize(
    ("mode", "state"), [(0o755, "ok"), (0o1777, "ok"), (0o777, "fail"), (0o757, "fail"), (0o1757, "ok")]
)
@pytest.mark.parametrize("by", ["itself", "a link"])
def test_a_data_directory_that_others_could_replace_is_told_with_what_prevents_it(
    machine, capsys, tmp_path, monkeypatch, mode, state, by
):
    above = tmp_path / "shared"
    (above / "between" / "books").mkdir(parents=True)
    (above / "between" / "books").chmod(0o700)
    (tmp_path / "link").symlink_to(above / "between" / "books")
    monkeypatch.setenv("KAGURA_HOME", str(above / "between" / "books" if by == "itself" else tmp_path / "link"))
    above.chmod(mode)
    row = machine(capsys)[1]["data directory"]
    assert row["state"] == state
    assert row["then"].startswith("" if state == "ok" else f"`chmod go-w {above}`, or ")
    assert ("yours alone" in row["said"]) == (state == "ok")


def test_a_data_directory_of_somebody_else_is_told(machine, capsys, books, monkeypatch):
    books.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 12345)
    row = machine(capsys)[1]["data directory"]
    assert (row["state"], "belongs to" in row["said"]) == ("fail", True)
    assert row["then"].startswith(f"`sudo chown -R {os.getuid() + 12345} {books}`")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_data_directory_in_a_folder_of_somebody_else_is_told(machine, capsys, tmp_path, monkeypatch):
    home = tmp_path / "theirs" / "books"
    home.mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    os.chown(home.parent, 12345, 12345)
    monkeypatch.setenv("KAGURA_HOME", str(home))
    row = machine(capsys)[1]["data directory"]
    assert (row["state"], f"{home.parent} belongs to user 12345" in row["said"]) == ("fail", True)
    assert "KAGURA_HOME" in row["then"]


@pytest.mark.parametrize(("free", "state"), [(LITTLE, "ok"), (LITTLE - 1, "warn"), (TOO_LITTLE - 1, "fail")])
def test_a_disk_that_fills_is_warned_of_before_it_is_full(machine, capsys, monkeypatch, free, state):
    monkeypatch.setattr(doctor_rows.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert machine(capsys)[1]["disk"]["state"] == state


def test_a_keychain_of_plain_text_counts_as_none(machine, capsys, monkeypatch):
    import keyring
    from keyrings.alt.file import PlaintextKeyring

    monkeypatch.setattr(keyring, "get_keyring", PlaintextKeyring)
    row = machine(capsys)[1]["secret back-ends"]
    assert (row["state"], "a file of plain text" in row["said"]) == ("warn", True)


def test_secrets_that_the_settings_keep_in_a_keychain_need_one(machine, capsys, monkeypatch, tmp_path):
    import keyring
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    assert machine(capsys)[1]["secret back-ends"]["state"] == "warn"
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    (folder / "credentials.toml").write_text('[providers.x]\nkind = "static"\ntoken_keyring = "a/b"\n')
    row = machine(capsys)[1]["secret back-ends"]
    assert (row["state"], "credentials.toml keeps secrets in one" in row["said"]) == ("fail", True)
    (folder / "config.toml").write_text('claude_key_keyring = "a/b"\n')
    assert "config.toml and credentials.toml keep secrets in one" in machine(capsys)[1]["secret back-ends"]["said"]


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one place where Jupyter looks."""
    from jupyter_core import paths

    monkeypatch.setattr(paths, "jupyter_path", lambda *words: [str(tmp_path.joinpath("share", *words))])
    monkeypatch.setattr(paths, "jupyter_config_path", lambda: [str(tmp_path / "etc")])
    return tmp_path


def write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def test_what_jupyter_does_not_find_is_warned_of_and_what_is_switched_off_too(share):
    assert [(part.name, part.ok, part.there) for part in installed.look()] == [
        ("kernelspec", False, False),
        ("sidebar", False, False),
        ("server extension", False, False),
    ]
    write(share / "share/kernels/kagura/kernel.json", {"argv": ["/bin/sh"]})
    write(share / "share/labextensions/kagura-kernel/package.json", {"version": installed.__version__})
    server = share / "etc/jupyter_server_config.d/kagura_kernel.json"
    write(server, {"ServerApp": {"jpserver_extensions": {installed.SERVER_EXTENSION: True}}})
    assert all(part.ok for part in installed.look())
    write(share / "etc/labconfig/page_config.json", {"disabledExtensions": {"kagura-kernel": True}})
    write(server, {"ServerApp": {"jpserver_extensions": {installed.SERVER_EXTENSION: False}}})
    write(share / "share/kernels/kagura/kernel.json", {"argv": ["/nowhere/python"]})
    kernel, sidebar, extension = installed.look()
    assert (kernel.ok, sidebar.ok, extension.ok) == (False, False, False)
    assert "/nowhere/python" in kernel.said
    assert sidebar.there
    assert extension.there
    write(share / "share/labextensions/kagura-kernel/package.json", {"version": "0.0.1"})
    assert "0.0.1" in list(installed.look())[1].said


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_with_docker_alone_runs_can_start_and_what_weakens_it_is_said(machine, capsys, monkeypatch, docker_daemon):
    docker_host = docker_daemon.host
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    code, rows = machine(capsys)
    assert rows["box docker"]["state"] in ("ok", "warn")
    assert "boxes" not in rows
    assert rows["box bubblewrap"]["state"] == "warn"
    assert code == (4 if states(rows, "fail") else 0)
    if rows["box docker"]["state"] == "warn":
        assert "userns-remap" in rows["box docker"]["then"]


def test_variables_of_kagura_agent_are_told_with_the_name_that_counts(machine, capsys, monkeypatch):
    monkeypatch.setenv("KAGURA_AGENT_BRAIN", "a-secret-word")
    row = machine(capsys)[1]["former name"]
    assert (row["state"], "set KAGURA_BRAIN" in row["said"]) == ("warn", True)
    assert "a-secret-word" not in str(row)


def test_a_variable_that_is_nearly_the_one_of_a_setting_is_told(machine, capsys, monkeypatch):
    monkeypatch.setenv("KAGURA_BUDGET_US", "0.5")
    monkeypatch.setenv("KAGURA_CONTEXT_ID", "of the memory")
    row = machine(capsys)[1]["variable"]
    assert (row["state"], row["said"]) == ("warn", "KAGURA_BUDGET_US counts for nothing: there is KAGURA_BUDGET_USD.")


def test_without_a_box_it_tells_what_surrounds_the_machine_and_what_runs_reach(tmp_path):
    policy, environ = SandboxPolicyType.EXTERNAL, {"HOME": str(tmp_path / "home")}
    bare = doctor_rows.without_box(policy, environ, tmp_path)
    assert "Nothing here looks like a sandbox" in bare.said
    assert "workspace_write" in bare.then
    (tmp_path / ".dockerenv").touch()
    inside = doctor_rows.without_box(policy, environ, tmp_path)
    assert "It looks like a Docker container" in inside.said
    assert inside.then == ""
    for path in ("home/.ssh/id_rsa", "var/run/docker.sock"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    reached = doctor_rows.without_box(policy, environ, tmp_path)
    assert "/var/run/docker.sock, ~/.ssh/id_rsa" in reached.said
    assert reached.then
    assert {one.state for one in (bare, inside, reached)} == {"warn"}


def test_a_machine_without_boxes_is_no_failure_where_its_owner_does_without(machine, capsys, monkeypatch):
    monkeypatch.setenv("KAGURA_POLICY", "danger_full_access")
    code, rows = machine(capsys)
    assert (code, rows["policy"]["state"]) == (0, "warn")
    assert "boxes" not in rows
    monkeypatch.delenv("KAGURA_POLICY")
    monkeypatch.setenv("KAGURA_FALLBACK_TO_HOST", "true")
    code, rows = machine(capsys)
    assert (code, rows["boxes"]["state"]) == (0, "warn")
    assert "asks for each of its commands" in rows["boxes"]["said"]
