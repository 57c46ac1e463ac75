import base64
import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kagura_kernel.domain.errors import PluginRefused, SignatureInvalid
from kagura_kernel.plugins.content import read_content, sign
from kagura_kernel.plugins.signature import check_key, make_key
from tests.support.plugin_files import write_plugin


def public_key(path):
    """The public half of a key in a file, as one prints it."""
    key = load_pem_private_key(path.read_bytes(), None).public_key()
    return "ed25519:" + base64.b64encode(key.public_bytes_raw()).decode()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "my.key")
    return tmp_path / "my.key"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_plugin(tmp_path / "plugins")


def rules(root: Path) -> list[str]:
    return [finding.rule for finding in read_content(root).oddities]


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path):
    public = make_key(tmp_path / "my.key")
    assert public.startswith("ed25519:")
    assert public_key(tmp_path / "my.key") == public == check_key(public)
    assert stat.S_IMODE((tmp_path / "my.key").stat().st_mode) == 0o600
    with pytest.raises(SignatureInvalid, match="never overwritten"):
        make_key(tmp_path / "my.key")


def test_a_signature_holds_and_says_who(root, key):
    signed = sign(read_content(root), key, "Ada L.")
    content = read_content(root)
    assert content.signature() == signed
    assert (signed.author, signed.key, signed.signed_hash) == ("Ada L.", public_key(key), content.signed_hash)
    assert content.oddities == ()


def test_without_a_signature_there_is_none(root):
    assert read_content(root).signature() is None


def test_a_plugin_can_be_signed_again(root, key):
    sign(read_content(root), key, "Ada")
    (root / "README.md").write_text("more")
    assert rules(root) == ["broken-signature"]
    sign(read_content(root), key, "Ada")
    assert read_content(root).signature().author == "Ada"


@pytest.mark.parametrize("path", ["plugin.py", "plugin.json", "README.md"])
def test_one_changed_character_breaks_the_signature_and_is_a_danger(root, key, path):
    sign(read_content(root), key, "Ada")
    data = bytearray((root / path).read_bytes())
    data[-2] ^= 1
    (root / path).write_bytes(data)
    content = read_content(root)
    with pytest.raises(SignatureInvalid, match="not those that were signed"):
        content.signature()
    assert rules(root) == ["broken-signature"]


def test_a_file_that_is_added_breaks_the_signature(root, key):
    sign(read_content(root), key, "Ada")
    (root / "more.py").write_text("x = 1\n")
    assert rules(root) == ["broken-signature"]


@pytest.mark.parametrize("field", ["author", "hash", "publicKey", "signature"])
def test_nothing_in_the_signature_can_be_exchanged(root, key, tmp_path, field):
    sign(read_content(root), key, "Ada")
    document = json.loads((root / "plugin.sig").read_text("utf-8"))
    make_key(tmp_path / "other.key")
    other = {
        "author": "Grace",
        "hash": "0" * 64,
        "publicKey": public_key(tmp_path / "other.key"),
        "signature": "A" * 86 + "==",
    }
    document[field] = other[field]
    (root / "plugin.sig").write_text(json.dumps(document), "utf-8")
    assert rules(root) == ["broken-signature"]


@pytest.mark.parametrize("field", ["publicKey", "signature"])
@pytest.mark.parametrize("value", ["", "é", "A", "\n"])
def test_what_is_not_written_as_keys_and_signatures_are_is_a_danger(root, key, field, value):
    sign(read_content(root), key, "Ada")
    document = json.loads((root / "plugin.sig").read_text("utf-8"))
    (root / "plugin.sig").write_text(json.dumps({**document, field: value}), "utf-8")
    assert rules(root) == ["broken-signature"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"author": "A", "publicKey": "x", "hash": "y", "signature": "z"}',
        b'{"author": 1, "publicKey": 2, "hash": 3, "signature": 4}',
        b" " * 5000,
    ],
)
def test_a_file_that_is_no_signature_is_a_danger(root, data):
    (root / "plugin.sig").write_bytes(data)
    assert rules(root) == ["broken-signature"]


def test_a_broken_signature_is_told_in_words_without_a_trace(root, key):
    sign(read_content(root), key, "Ada")
    document = json.loads((root / "plugin.sig").read_text("utf-8")) | {"author": "Ada\u202e"}
    (root / "plugin.sig").write_text(json.dumps(document), "utf-8")
    [finding] = read_content(root).oddities
    assert "U+202E" in finding.message
    assert finding.message.isprintable()


def test_what_no_plugin_may_hold_is_not_signed(root, key):
    (root / "link").symlink_to("README.md")
    with pytest.raises(PluginRefused, match="cannot be signed: link is a link"):
        sign(read_content(root), key, "Ada")
    assert not (root / "plugin.sig").exists()


@pytest.mark.parametrize("author", ["", "  ", "x" * 101, "two\nlines", "turned\u202e"])
def test_an_authors_name_can_be_shown(root, key, author):
    with pytest.raises(SignatureInvalid, match="author's name"):
        sign(read_content(root), key, author)


def test_a_key_that_others_may_read_is_not_used(root, key):
    key.chmod(0o640)
    with pytest.raises(SignatureInvalid, match="chmod 600"):
        sign(read_content(root), key, "Ada")


def test_what_is_no_key_says_so(root, tmp_path):
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    (tmp_path / "bad.key").write_text("hello")
    (tmp_path / "bad.key").chmod(0o600)
    with pytest.raises(SignatureInvalid, match="holds no key"):
        sign(read_content(root), tmp_path / "bad.key", "Ada")
    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "bad.key").write_bytes(other)
    with pytest.raises(SignatureInvalid, match="another kind"):
        sign(read_content(root), tmp_path / "bad.key", "Ada")
    with pytest.raises(SignatureInvalid, match="cannot be read"):
        sign(read_content(root), tmp_path / "none.key", "Ada")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SignatureInvalid, match="no plain file"):
        sign(read_content(root), tmp_path / "pipe", "Ada")


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "x" * 44, "ed25519:\u00e9"])
def test_what_is_no_public_key_says_so(text):
    with pytest.raises(SignatureInvalid, match="no public key"):
        check_key(text)


def test_a_link_in_the_signatures_place_is_replaced_and_not_written_through(root, key, tmp_path):
    (tmp_path / "victim").write_text("precious")
    content = read_content(root)
    (root / "plugin.sig").symlink_to(tmp_path / "victim")
    sign(content, key, "Ada")
    assert (tmp_path / "victim").read_text() == "precious"
    assert read_content(root).signature().author == "Ada"
