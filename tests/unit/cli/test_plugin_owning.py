"""`plugin install`, `remove`, `sign` and `trust`."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from tests.support.plugin_rig import SOURCE, write_plugin

pytestmark = pytest.mark.usefixtures("plugins")

Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str, code: int = 0) -> str:
    """What a command prints."""
    found = main(["plugin", *words])
    out, err = capsys.readouterr()
    assert (found, err if not code else "") == (code, "")
    return out or err


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
    assert said(capsys, "trust") == "You trust no author yet.\n"
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
