"""`kagura-kernel kit redact`."""

import io
import json
from types import SimpleNamespace

import pytest

import kagura_kernel
from kagura_kernel.assembly import kits
from kagura_kernel.cli.kit import kit_redact
from kagura_kernel.domain.errors import UsageError
from tests.support.redactors import shared_redactor

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


@pytest.fixture(autouse=True)
def _one_redactor(monkeypatch):
    # Compiled rules are kept for each data directory, and each test has its own.
    monkeypatch.setattr(kits, "redactor_of", lambda _home: shared_redactor())


def test_a_file_is_printed_without_its_secrets_and_stays_as_it_is(tmp_path, capfdbinary):
    path = tmp_path / "notes.txt"
    path.write_bytes(f"Grüße\r\ntoken {TOKEN}\r\n".encode("latin-1"))
    before = path.read_bytes()
    assert kit_redact(SimpleNamespace(file=str(path), json=False)) == 0
    told = capfdbinary.readouterr().out
    assert told.startswith("Grüße\r\ntoken [REDACTED:".encode("latin-1"))
    assert TOKEN.encode() not in told
    assert path.read_bytes() == before


def test_json_tells_what_was_found_and_where_and_never_the_secret(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text(f"one\ntoken {TOKEN}\n")
    assert kit_redact(SimpleNamespace(file=str(path), json=True)) == 0
    told = capsys.readouterr().out
    assert TOKEN not in told
    [found] = json.loads(told)["findings"]
    assert (found["line"], found["start"]) == (2, 10)
    assert set(found) == {"kind", "line", "start", "end"}


def test_what_comes_in_is_redacted_too(monkeypatch, capfdbinary):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(f"export GH_TOKEN={TOKEN}\n".encode())))
    assert kit_redact(SimpleNamespace(file="-", json=False)) == 0
    assert capfdbinary.readouterr().out.startswith(b"export GH_TOKEN=[REDACTED:")


def test_what_a_kit_would_leave_out_and_what_cannot_be_read_is_said(tmp_path):
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"PK\x03\x04" + bytes(64))
    for path, why in ((archive, "A kit leaves"), (tmp_path / "gone", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(UsageError, match=why):
            kit_redact(SimpleNamespace(file=str(path), json=False))


def test_a_text_is_redacted_by_one_call():
    text = kagura_kernel.redact(f"Use {TOKEN} for it.")
    assert text.startswith("Use [REDACTED:")
    assert text.endswith("] for it.")
    assert kagura_kernel.redact(text) == text
