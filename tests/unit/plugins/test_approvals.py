import json
import os
import stat
import threading
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.plugins import AuditVerdict, PluginAudit, Risk
from kagura_kernel.plugins.decisions import ApprovalBook, ApprovalRecord, QuarantineBook
from kagura_kernel.testing.clock import FakeClock

HASH, OTHER = "a" * 64, "b" * 64


def audit(name: str = "greeter", content_hash: str = HASH, risk: Risk = Risk.LOW) -> PluginAudit:
    return PluginAudit(name, "1.0.0", content_hash, risk, AuditVerdict.APPROVE, "It greets")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ours" / "approved-plugins.json"


@pytest.fixture
def book(path: Path) -> ApprovalBook:
    return ApprovalBook(path, FakeClock())


def test_an_approval_is_of_exactly_these_files_and_is_there_for_the_next_process(book, path):
    record = book.approve(audit())
    again = ApprovalBook(path)
    assert again.valid("greeter", HASH) == record
    assert again.valid("greeter", OTHER) is None
    assert again.valid("other", HASH) is None
    assert again.record("greeter") == record


def test_the_file_holds_four_facts_and_nobody_else_reads_it(book, path):
    book.approve(audit(risk=Risk.UNKNOWN))
    assert json.loads(path.read_text("utf-8")) == {
        "greeter": {
            "contentHash": HASH,
            "approvedAt": FakeClock().now().isoformat(),
            "auditRiskLevel": "UNKNOWN",
            "auditVerdict": "approve",
        }
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_directory_that_others_may_look_into_is_closed_when_something_is_kept(book, path):
    path.parent.mkdir(mode=0o755)
    book.approve(audit())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_approval_is_taken_back_once(book):
    book.approve(audit())
    assert book.remove("greeter")
    assert not book.remove("greeter")
    assert book.valid("greeter", HASH) is None


def test_a_later_approval_takes_the_place_of_the_earlier_one(book):
    book.approve(audit())
    book.approve(audit(content_hash=OTHER, risk=Risk.MEDIUM))
    assert book.valid("greeter", HASH) is None
    assert book.valid("greeter", OTHER).risk is Risk.MEDIUM


def test_no_file_is_no_problem(book):
    assert book.problem == ""
    assert book.valid("greeter", HASH) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"not json", "not JSON"),
        (b"[]", "no JSON object"),
        (b'{"greeter": 5}', "not what this version writes"),
        (b'{"greeter": {"contentHash": "x"}}', "not what this version writes"),
        (b'{"greeter": {}, "greeter": {}}', "more than once"),
        (b"\xff", "not UTF-8"),
        (b" " * (1 << 21), "at most"),
    ],
)
def test_a_broken_file_counts_as_empty_and_says_so(book, path, content, why):
    book.approve(audit())
    path.write_bytes(content)
    assert book.valid("greeter", HASH) is None
    assert why in book.problem
    assert str(path) in book.problem


@pytest.mark.parametrize(
    "changes",
    [
        {"contentHash": "A" * 64},
        {"approvedAt": "yesterday"},
        {"approvedAt": "2026-01-01T00:00:00"},
        {"approvedAt": 5},
        {"auditRiskLevel": "NONE"},
        {"auditRiskLevel": ["LOW"]},
        {"auditVerdict": "yes"},
        {"more": "x"},
    ],
)
def test_an_entry_that_nobody_wrote_like_this_counts_for_nothing(book, path, changes):
    book.approve(audit())
    document = json.loads(path.read_text("utf-8"))
    document["greeter"] |= changes
    path.write_text(json.dumps(document), "utf-8")
    assert book.valid("greeter", HASH) is None
    assert "greeter" in book.problem


def test_a_file_that_others_may_write_counts_as_empty(book, path):
    book.approve(audit())
    path.chmod(0o620)
    assert book.valid("greeter", HASH) is None
    assert "others may write it" in book.problem


def test_a_file_in_a_directory_that_others_may_write_into_counts_as_empty(book, path):
    book.approve(audit())
    path.parent.chmod(0o777)
    assert book.valid("greeter", HASH) is None
    assert "others may write into its directory" in book.problem


def test_a_link_in_its_place_counts_as_empty(book, path, tmp_path):
    book.approve(audit())
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert book.valid("greeter", HASH) is None
    assert "it is a link" in book.problem


def test_a_pipe_in_its_place_is_not_waited_for(book, path):
    path.parent.mkdir()
    os.mkfifo(path, 0o600)
    assert book.valid("greeter", HASH) is None
    assert "no plain file" in book.problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_counts_as_empty(book, path):
    book.approve(audit())
    os.chown(path, 12345, -1)
    assert "belongs to somebody else" in book.problem
    assert book.valid("greeter", HASH) is None


def test_a_file_that_does_not_count_is_kept_beside_the_new_one(book, path):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"not json")
    book.approve(audit())
    assert book.problem == ""
    assert path.with_name(f"{path.name}.unfit").read_bytes() == b"not json"


def test_a_link_in_its_place_is_not_written_through(book, path, tmp_path):
    path.parent.mkdir(mode=0o700)
    (tmp_path / "victim").write_text("precious")
    path.symlink_to(tmp_path / "victim")
    book.approve(audit())
    assert (tmp_path / "victim").read_text() == "precious"
    assert book.valid("greeter", HASH) is not None


def test_a_place_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        ApprovalBook(tmp_path / "file" / "book.json").approve(audit())


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(book, path, monkeypatch):
    record = book.approve(audit())

    def fail(_self, _target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(ConfigurationError, match="no space left"):
            book.approve(audit(content_hash=OTHER))
    assert book.record("greeter") == record
    assert {one.name for one in path.parent.iterdir()} == {path.name, f".{path.name}.lock"}


def test_approvals_at_the_same_moment_are_all_kept(path):
    books = [ApprovalBook(path) for _ in range(8)]
    threads = [
        threading.Thread(target=book.approve, args=(audit(f"plugin-{number}"),)) for number, book in enumerate(books)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(path.read_text("utf-8"))) == 8


def test_quarantine_holds_for_the_files_that_failed_until_somebody_lets_them_out(tmp_path):
    path = tmp_path / "ours" / "quarantine.json"
    book = QuarantineBook(path, FakeClock())
    book.put("greeter", HASH, "it died three times")
    again = QuarantineBook(path)
    assert again.reason("greeter", HASH) == "it died three times"
    assert json.loads(path.read_text("utf-8"))[f"greeter {HASH}"]["at"] == FakeClock().now().isoformat()
    assert again.reason("greeter", OTHER) == ""
    assert again.release("greeter", HASH)
    assert not again.release("greeter", HASH)
    assert book.reason("greeter", HASH) == ""


def test_quarantine_of_another_plugin_of_the_same_name_lets_nothing_out(tmp_path):
    book = QuarantineBook(tmp_path / "ours" / "quarantine.json", FakeClock())
    book.put("greeter", HASH, "it died three times")
    book.put("greeter", OTHER, "it spoke out of turn")
    assert book.reason("greeter", HASH) == "it died three times"
    assert book.release("greeter", OTHER)
    assert book.reason("greeter", HASH) == "it died three times"


def test_a_record_is_a_value(book):
    assert book.approve(audit()) == ApprovalRecord(
        content_hash=HASH, approved_at=FakeClock().now(), risk=Risk.LOW, verdict=AuditVerdict.APPROVE
    )
