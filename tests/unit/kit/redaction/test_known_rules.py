"""The rules for known formats: kept for the next process, read once in a process, compiled by one at a time."""

import threading
from typing import Any

import pytest

from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.kit.redaction import known_rules
from kagura_kernel.kit.redaction.engine import KnownFormats
from kagura_kernel.kit.redaction.known_rules import LOCK, begin, has_rules, is_taken, turn
from kagura_kernel.testing.patience import eventually
from tests.support.redactors import compiled_rules


async def test_they_are_read_ahead_by_one_thread_which_a_scan_waits_for(tmp_path, monkeypatch):
    asked: list[Any] = []
    let = threading.Event()

    def compiled(folder: object) -> object:
        asked.append(folder)
        assert let.wait(60)
        return "a scanner"

    monkeypatch.setattr(known_rules, "_kept", [])
    monkeypatch.setattr(known_rules, "_compiled", compiled)
    begin(tmp_path)
    await eventually(lambda: asked)
    begin(tmp_path)
    known = KnownFormats(tmp_path)
    known.warm()
    assert not known.ready
    let.set()
    await eventually(lambda: known.ready)
    begin(tmp_path)
    assert asked == [tmp_path]


async def test_what_stands_against_them_is_told_by_the_text_and_not_ahead(tmp_path, monkeypatch):
    tried: list[object] = []

    def broken(folder: object) -> object:
        tried.append(folder)
        raise OSError

    monkeypatch.setattr(known_rules, "_kept", [])
    monkeypatch.setattr(known_rules, "_compiled", broken)
    begin(tmp_path)
    await eventually(lambda: tried)
    with pytest.raises(RedactionUnavailable):
        KnownFormats(tmp_path).scan(b"")


def test_a_folder_has_rules_once_they_are_compiled(tmp_path):
    assert has_rules(compiled_rules())
    assert not has_rules(tmp_path / "missing")
    with turn(tmp_path, patience=0):
        assert not has_rules(tmp_path)


def test_rules_are_kept_for_the_next_process_also_behind_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(known_rules, "_kept", [])
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.mkdir(mode=0o700)
    link.symlink_to(kept)
    KnownFormats(link).scan(b"")
    assert [one.suffix for one in kept.iterdir() if not one.name.startswith(".")] == [".vscdb"]


def test_a_process_reads_its_rules_once_wherever_they_are_kept(tmp_path):
    known = KnownFormats(compiled_rules())
    known.scan(b"")
    another = KnownFormats(tmp_path / "another")
    another.scan(b"")
    assert another.warm().result() is known.warm().result()
    assert not (tmp_path / "another").exists()


def test_a_second_one_begins_when_the_first_has_ended(tmp_path):
    order: list[str] = []
    begun = threading.Event()

    def second():
        begun.set()
        with turn(tmp_path, patience=60):
            order.append("second")

    with turn(tmp_path, patience=0):
        assert is_taken(tmp_path)
        other = threading.Thread(target=second)
        other.start()
        assert begun.wait(60)
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert not is_taken(tmp_path)


def test_nobody_waits_longer_than_their_patience(tmp_path):
    with turn(tmp_path, patience=60), turn(tmp_path, patience=0.01):
        assert is_taken(tmp_path)


def test_a_folder_without_locks_is_used_without_one(tmp_path):
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with turn(tmp_path, patience=60):
        assert not is_taken(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
    assert not is_taken(tmp_path / "missing")
