"""`kagura-kernel serve`, as far as it comes without a chat; tests/integration/serve serves some."""

import errno

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.served import LOCK, only_server

SLACK = '[transports.slack]\noperators = ["U1"]\nbot_token_env = "NO_BOT"\napp_token_env = "NO_APP"\n'


def test_without_a_chat_there_is_nothing_to_serve_and_nothing_is_made(books, refuses):
    assert "ERR_UNSUPPORTED: No chat is set up" in refuses("serve")
    assert not books.exists()


def test_where_another_process_serves_its_number_is_told(books, file, capsys):
    file.write_text(SLACK)
    with only_server(books):
        assert main(["serve"]) == 2
    assert "ERR_SERVED_ALREADY" in capsys.readouterr().err
    assert [path.name for path in books.iterdir()] == [LOCK]


def test_a_token_that_is_not_there_is_told_before_anything_is_opened(books, file, monkeypatch, refuses):
    pytest.importorskip("slack_bolt")
    monkeypatch.delenv("NO_BOT", raising=False)
    file.write_text(SLACK)
    assert "ERR_SECRET_UNAVAILABLE" in refuses("serve")
    assert not (books / "journal.db").exists()
    with only_server(books):
        pass


def test_a_journal_that_is_away_ends_it_with_the_code_of_what_may_pass(books, file, tmp_path, monkeypatch, refuses):
    pytest.importorskip("slack_bolt")
    pytest.importorskip("psycopg")
    file.write_text(f'{SLACK}project = "{tmp_path}"\n')
    monkeypatch.setenv("NO_BOT", "xoxb-x")
    monkeypatch.setenv("NO_APP", "xapp-x")
    monkeypatch.setenv("KAGURA_JOURNAL_URL", "postgresql://nobody@127.0.0.1:9/kagura")
    told = refuses("serve", code=75)
    assert told.count("ERR_JOURNAL_") == 1
    assert "Traceback" not in told
    with only_server(books):
        pass


def test_a_full_disk_ends_it_likewise(books, file, monkeypatch, refuses):
    file.write_text(SLACK)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kagura_kernel.cockpit.served.os.pwrite", full)
    assert "no space left" in refuses("serve", code=75)
    assert books.exists()


def test_a_project_that_is_not_there_is_told_before_anything_is_opened(books, file, monkeypatch, refuses):
    pytest.importorskip("slack_bolt")
    monkeypatch.setenv("NO_BOT", "xoxb-x")
    monkeypatch.setenv("NO_APP", "xapp-x")
    file.write_text(f'{SLACK}project = "/nowhere/at/all"\n')
    assert "transports.slack.project: its project /nowhere/at/all is no folder" in refuses("serve")
    assert not (books / "journal.db").exists()


@pytest.mark.parametrize("drain", ["soon", "-1"])
def test_a_drain_is_a_number_of_seconds(drain, refuses):
    assert "--drain" in refuses("serve", "--drain", drain)


def test_a_library_that_is_missing_is_no_wrong_setting_but_something_to_set_up(books, file, monkeypatch, refuses):
    monkeypatch.setattr("kagura_kernel.assembly.chats.find_spec", lambda _: None)
    file.write_text(SLACK)
    assert "ERR_NOT_INSTALLED" in refuses("serve", code=3)
    assert not (books / "journal.db").exists()
