import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SignatureInvalid
from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.content import sign
from kagura_kernel.plugins.decisions import TrustBook
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.signature import make_key
from kagura_kernel.testing.clock import FakeClock
from tests.support.plugin_files import write_plugin


@pytest.fixture
def book(tmp_path: Path) -> TrustBook:
    return TrustBook(tmp_path / "ours" / "trusted-authors.json", FakeClock())


@pytest.fixture
def key(tmp_path: Path) -> str:
    return make_key(tmp_path / "my.key")


def signed(tmp_path: Path, author: str = "Ada"):
    root = write_plugin(tmp_path / "plugins")
    sign(load_found(root, "user").content, tmp_path / "my.key", author)
    return load_found(root, "user")


def test_an_author_is_trusted_until_no_longer(book, key):
    author = book.add("Ada L.", key)
    assert book.authors() == (author,)
    assert (author.name, author.key, author.since) == ("Ada L.", key, FakeClock().now())
    assert book.remove("Ada L.")
    assert not book.remove("Ada L.")
    assert book.authors() == ()


def test_who_signed_is_told_by_the_key_and_named_as_the_operator_names_them(book, key, tmp_path):
    found = signed(tmp_path, author="Grace")
    assert book.signer(found) == ""
    book.add("Ada", key)
    assert book.signer(found) == "Ada"


def test_a_name_alone_is_not_trusted(book, tmp_path):
    make_key(tmp_path / "my.key")
    found = signed(tmp_path, author="Ada")
    book.add("Ada", make_key(tmp_path / "other.key"))
    assert book.signer(found) == ""


def test_a_signature_that_does_not_hold_is_nobodys(book, key, tmp_path):
    root = signed(tmp_path).content.root
    book.add("Ada", key)
    (root / "README.md").write_text("changed")
    found = load_found(root, "user")
    assert book.signer(found) == ""
    assert book.findings(found.content) == ()
    assert [finding.severity for finding in found.content.oddities] == [Severity.DANGER]


def test_what_is_said_of_a_signature_is_information_alone(book, key, tmp_path):
    content = signed(tmp_path, author="Grace").content
    [stranger] = book.findings(content)
    book.add("Ada", key)
    [friend] = book.findings(content)
    assert {stranger.severity, friend.severity} == {Severity.INFO}
    assert "calls themselves 'Grace'" in stranger.message
    assert key in stranger.message
    assert friend.message == "Signed by 'Ada', whom you trust."
    assert book.findings(load_found(write_plugin(tmp_path / "plain"), "user").content) == ()


def test_another_key_for_the_same_author_is_not_taken_in_passing(book, key, tmp_path):
    book.add("Ada", key)
    assert book.add("Ada", key).key == key
    with pytest.raises(SignatureInvalid, match="with another key"):
        book.add("Ada", make_key(tmp_path / "other.key"))
    with pytest.raises(SignatureInvalid, match="the key of 'Ada'"):
        book.add("Grace", key)
    assert [author.key for author in book.authors()] == [key]


@pytest.mark.parametrize(("name", "text"), [("", None), ("a\u202eb", None), ("Ada", "no key")])
def test_a_name_and_a_key_that_cannot_be_are_refused(book, key, name, text):
    with pytest.raises(SignatureInvalid):
        book.add(name, text or key)
    assert book.authors() == ()


def test_a_file_that_others_may_write_trusts_nobody(book, key, tmp_path):
    book.add("Ada", key)
    (tmp_path / "ours" / "trusted-authors.json").chmod(0o666)
    assert book.authors() == ()
    assert "others may write it" in book.problem


def test_looking_at_plugins_without_signatures_loads_no_cryptography(tmp_path):
    write_plugin(tmp_path)
    script = (
        "import sys, pathlib; from kagura_kernel.plugins.manifest import discover;"
        "from kagura_kernel.plugins.decisions import TrustBook;"
        f"place = pathlib.Path({str(tmp_path)!r}); found = discover([('user', place)]).found['greeter'];"
        "print(TrustBook(place / 'x' / 'y').signer(found), 'cryptography' in sys.modules, 'httpx' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False", "False"]
