import json
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.telemetry import logs
from kagura_kernel.telemetry.logs import LIBRARIES, StructuredLog, problem_with_place, refusal_of_place
from kagura_kernel.testing.patience import wait_until

log = logging.getLogger("kagura_kernel.somewhere")


def hiding() -> Callable[[str], str]:
    return lambda text: text.replace("hunter2", "[REDACTED]")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "kagura.log"


@pytest.fixture
def opened(place: Path) -> Iterator[Callable[..., StructuredLog]]:
    made: list[StructuredLog] = []

    def open_it(level: str = "warning", where: str | None = None) -> StructuredLog:
        one = StructuredLog(str(place) if where is None else where, level, hiding)
        one.open()
        made.append(one)
        return one

    yield open_it
    for one in made:
        one.close()


def lines(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.read_text("ascii").splitlines()]


def fail(error: Exception) -> None:
    raise error


def test_a_record_is_one_object_on_one_line(opened, place):
    one = opened()
    log.warning("%s rows\nof \x1b[31m%s", 3, "日本", extra={"run_id": "run-1", "other": "left out"})
    one.close()
    [line] = lines(place)
    assert (line["level"], line["logger"], line["run_id"]) == ("warning", "kagura_kernel.somewhere", "run-1")
    assert line["text"] == "3 rows\nof \x1b[31m日本"
    assert "\x1b" not in place.read_text("ascii")
    assert line["at"].endswith("+00:00")
    assert "other" not in line


def test_an_exception_is_told_with_its_code_and_where_it_came_from(opened, place):
    one = opened()
    try:
        fail(UsageError("Nobody can do that."))
    except UsageError:
        log.exception("it failed")
    one.close()
    [line] = lines(place)
    assert (line["error"]["type"], line["error"]["code"]) == ("UsageError", "ERR_USAGE")
    assert "Nobody can do that." in line["error"]["text"]
    assert "test_logs.py" in line["error"]["trace"]


def test_a_secret_in_a_message_an_argument_an_exception_or_its_cause_does_not_get_out(opened, place):
    one = opened()
    try:
        try:
            fail(ValueError("hunter2 was wrong"))
        except ValueError as error:
            raise RuntimeError("while hunter2 was tried") from error
    except RuntimeError:
        log.exception("a message with hunter2 and %s", {"key": "hunter2"})
    one.close()
    assert "hunter2" not in place.read_text("ascii")
    [line] = lines(place)
    assert "[REDACTED] was wrong" in line["error"]["trace"]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_secret_in_a_library_s_line_does_not_get_out(opened, place, name):
    one = opened()
    logging.getLogger(f"{name}.deep.inside").warning("POST with key hunter2")
    one.close()
    assert [(line["logger"], line["text"]) for line in lines(place)] == [
        (f"{name}.deep.inside", "POST with key [REDACTED]")
    ]


def test_what_an_exporter_tries_again_is_no_line_and_what_it_gives_up_is_one(opened, place):
    one = opened()
    exporter = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    exporter.warning("Transient error, retrying in 1 s.")
    exporter.error("Failed to export.")
    one.close()
    assert [line["text"] for line in lines(place)] == ["Failed to export."]


def test_other_handlers_of_the_program_get_nothing_of_ours(opened, caplog):
    opened()
    log.warning("hunter2")
    assert caplog.records == []


def test_the_level_decides_for_our_own_records_and_leaves_libraries_alone(opened, place):
    before = logging.getLogger("httpx").level
    one = opened("info")
    log.debug("no")
    log.info("yes")
    assert logging.getLogger("httpx").level == before
    one.close()
    assert [line["text"] for line in lines(place)] == ["yes"]


def test_off_means_nowhere(opened, place, capfd):
    one = opened(where="off")
    log.error("hunter2")
    one.close()
    assert not place.exists()
    assert capfd.readouterr().err == ""


def test_without_a_place_it_is_standard_error(opened, capsys):
    one = opened(where="")
    log.warning("a line")
    one.close()
    assert json.loads(capsys.readouterr().err)["text"] == "a line"


def test_closing_leaves_everything_as_it_was(opened):
    own = logging.getLogger("kagura_kernel")
    before = (own.level, own.propagate, list(own.handlers))
    one = opened("debug")
    one.close()
    one.close()
    assert (own.level, own.propagate, list(own.handlers)) == before


def test_a_log_file_is_for_its_owner_alone_and_never_a_link(opened, place, tmp_path):
    one = opened()
    log.warning("a line")
    one.close()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    target = tmp_path / "target"
    place.unlink()
    place.symlink_to(target)
    one = opened()
    log.warning("another line")
    one.close()
    assert not target.exists()


def test_a_file_that_was_moved_away_is_made_anew(opened, place, tmp_path):
    one = opened()
    log.warning("first")
    wait_until(lambda: place.exists() and "first" in place.read_text())
    place.rename(tmp_path / "kagura.log.1")
    log.warning("second")
    one.close()
    assert [line["text"] for line in lines(place)] == ["second"]


def test_a_full_disk_leaves_no_half_of_a_line(opened, place, monkeypatch):
    write, full = os.write, threading.Event()

    def tight(file: int, data: bytes) -> int:
        # As the system does it: what there is room for is written.
        return write(file, data[:20]) if full.is_set() and b"kagura_kernel.somewhere" in data else write(file, data)

    monkeypatch.setattr(logs.os, "write", tight)
    one = opened()
    log.warning("before")
    wait_until(lambda: place.exists() and "before" in place.read_text())
    full.set()
    for number in range(3):
        log.warning("meanwhile")
        wait_until(lambda many=number: one._writer._lost > many)
    assert [line["text"] for line in lines(place)] == ["before"]
    full.clear()
    log.warning("after")
    one.close()
    assert [(line["text"], line.get("lost_before", 0)) for line in lines(place)] == [("before", 0), ("after", 3)]


def test_a_flood_is_bounded_and_the_next_line_says_what_was_lost(place, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(logs, "MOST_WAITING", 2)
    one = StructuredLog(str(place), "warning", lambda: lambda text: gate.wait(60) and text)
    one.open()
    for number in range(10):
        log.warning("line %s", number)
    gate.set()
    wait_until(lambda: place.exists() and len(place.read_text().splitlines()) >= 2)
    log.warning("the next")
    one.close()
    told = lines(place)
    assert len(told) + sum(line.get("lost_before", 0) for line in told) == 11
    assert told[-1]["text"] == "the next"


def test_a_record_that_cannot_be_told_does_not_break_whoever_logs(opened, place):
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("odd")

    one = opened()
    log.warning("%s", Odd())
    log.warning("%d", "no number")
    log.warning("fine")
    one.close()
    [line] = lines(place)
    assert (line["text"], line["lost_before"]) == ("fine", 2)


def test_a_place_that_cannot_be_is_a_problem(tmp_path):
    assert [problem_with_place(place) for place in ("", "off", str(tmp_path / "x.log"))] == ["", "", ""]
    assert "whole path" in problem_with_place("x.log")
    assert "directory is not there" in problem_with_place(str(tmp_path / "none" / "x.log"))
    assert problem_with_place(str(tmp_path)) == "it is a directory"


def test_a_place_where_the_system_lets_no_line_be_written_is_told_and_nothing_is_made(tmp_path, monkeypatch):
    place = tmp_path / "x.log"
    assert [refusal_of_place(one) for one in ("", "off", str(place))] == ["", "", ""]
    assert not place.exists()
    monkeypatch.setattr("os.access", lambda path, mode: (path, mode) != (tmp_path, os.W_OK | os.X_OK))
    assert refusal_of_place(str(place)) == "no file can be made in its directory"
    (tmp_path / "link.log").symlink_to(place)
    assert refusal_of_place(str(tmp_path / "link.log")) == "it is a link"
    (tmp_path / "folder.log").mkdir()
    assert refusal_of_place(str(tmp_path / "folder.log")) == "is a directory"
