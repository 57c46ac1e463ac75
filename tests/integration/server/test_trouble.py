"""Whatever is wrong with the journal is a coded sentence, and over as soon as it is mended: nothing is restarted."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from kagura_kernel.testing.patience import wait_until
from tests.support.jupyter_server import API, stop
from tests.support.plugin_events import PLUGIN_BODIES
from tests.support.sample_run import SampleRun

GETS = sorted(path.lstrip("/") for path, methods in API["paths"].items() if "get" in methods)
POSTS = sorted(path.lstrip("/") for path, methods in API["paths"].items() if "post" in methods)
DELETES = sorted(path.lstrip("/") for path, methods in API["paths"].items() if "delete" in methods)
EVERY = [(method, path) for method, paths in (("GET", GETS), ("POST", POSTS), ("DELETE", DELETES)) for path in paths]
BODIES = {"approvals/{approval_id}/decision": {"verdict": "allow"}} | PLUGIN_BODIES


@pytest.fixture(scope="module")
def bare(start_server):
    """A server that nobody has used yet."""
    return start_server()


@pytest.fixture
def empty(bare):
    """The server without its journal."""
    shutil.rmtree(bare.home, ignore_errors=True)
    return bare


def filled(path):
    return path.format(run_id="run-1", approval_id="app-1", lease_id="lea-1", name="greeter", memory_id="mem-1")


def write_a_run(server):
    with closing(server.journal()) as journal:
        journal.append(SampleRun().started())


def has_runs(server):
    answer = server.ask("GET", "runs")
    return answer.status == 200 and answer.json["items"]


def code_of(server, path="runs"):
    answer = server.ask("GET", path)
    assert answer.status in {200, 503}
    return answer.json["code"] if answer.status == 503 else ""


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for method, path in EVERY if method != "GET" and path != "settings"]
)
def test_before_the_first_run_there_is_nothing_to_act_on(empty, method, path):
    answer = empty.ask(method, filled(path), BODIES.get(path))
    assert (answer.status, answer.json["code"]) == (503, "ERR_JOURNAL_MISSING")
    assert "The first run makes one." in answer.json["message"]
    assert not empty.home.exists()


@pytest.mark.parametrize("path", GETS)
def test_before_the_first_run_every_list_is_empty_and_nothing_is_a_fault(empty, path):
    answer = empty.ask("GET", filled(path))
    assert answer.status == (404 if "{" in path else 200)
    if path != "openapi.yaml":
        assert not answer.json.get("items")
    assert not empty.home.exists()
    assert f"503 GET /kagura/api/v1/{filled(path)} " not in empty.log.read_text()


def test_the_first_run_is_seen_without_a_restart(empty):
    assert empty.get("runs") == {"items": [], "next": None}
    write_a_run(empty)
    wait_until(lambda: [item["run_id"] for item in empty.get("runs")["items"]] == ["run-1"])


def test_a_journal_that_was_deleted_is_not_shown_any_more_and_its_follower_is(empty):
    write_a_run(empty)
    wait_until(lambda: has_runs(empty))
    shutil.rmtree(empty.home)
    assert empty.get("runs")["items"] == []
    with closing(empty.journal()) as journal:
        journal.append(SampleRun("run-2").started())
    wait_until(lambda: [item["run_id"] for item in empty.get("runs")["items"]] == ["run-2"])


def test_a_journal_that_another_one_is_moved_over_is_not_mistaken_for_it(empty, tmp_path):
    write_a_run(empty)
    wait_until(lambda: has_runs(empty))
    shutil.move(empty.home, tmp_path / "old")
    with closing(empty.journal()) as journal:
        journal.append(SampleRun("run-2").started())
    assert [item["run_id"] for item in empty.get("runs")["items"]] == ["run-2"]


def test_a_journal_of_a_newer_version_is_left_alone(empty):
    write_a_run(empty)
    with closing(sqlite3.connect(empty.home / "journal.db")) as file, file:
        file.execute("INSERT INTO journal_version VALUES (99, 'later')")
    wait_until(lambda: code_of(empty) == "ERR_JOURNAL_TOO_NEW")
    with closing(sqlite3.connect(empty.home / "journal.db")) as file, file:
        file.execute("DELETE FROM journal_version WHERE version = 99")
    wait_until(lambda: not code_of(empty))


def test_what_is_no_journal_is_said_to_be_none(empty):
    empty.home.mkdir(mode=0o700)
    (empty.home / "journal.db").write_bytes(b"this is a text and no database" * 100)
    wait_until(lambda: code_of(empty) == "ERR_JOURNAL_UNREADABLE")
    (empty.home / "journal.db").unlink()
    write_a_run(empty)
    wait_until(lambda: has_runs(empty))


def test_a_row_that_is_no_json_is_told_without_a_trace(empty):
    write_a_run(empty)
    with closing(sqlite3.connect(empty.home / "journal.db")) as file, file:
        file.execute("UPDATE journal_events SET body = 'nothing'")
    wait_until(lambda: not code_of(empty))
    answer = empty.ask("GET", "runs/run-1/events")
    assert (answer.status, answer.json["code"]) == (503, "ERR_JOURNAL_UNREADABLE")
    assert "row 1" in answer.json["message"]


def test_settings_that_are_wrong_are_told(start_server, tmp_path):
    settings = tmp_path / "config.toml"
    settings.write_text("pool_size = 'many'\n")
    server = start_server(KAGURA_CONFIG=str(settings))
    answer = server.ask("GET", "status")
    assert (answer.status, answer.json["code"]) == (503, "ERR_CONFIGURATION")
    assert "pool_size" in answer.json["message"]
    settings.write_text("pool_size = 2\n")
    wait_until(lambda: server.ask("GET", "status").status == 200)


def test_no_trace_was_logged(bare):
    assert "Traceback" not in bare.log.read_text()


@pytest.mark.parametrize("used", [False, True])
def test_the_server_stops_at_once_whatever_is_with_the_journal(start_server, used):
    server = start_server()
    if used:
        write_a_run(server)
        assert not code_of(server)
    stop(server)
    assert server.process.returncode == 0
    assert "Traceback" not in server.log.read_text()
