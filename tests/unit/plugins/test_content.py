import json
from pathlib import Path

import pytest

from kagura_kernel.plugins.content import read_content
from tests.support.plugin_files import GREETER, write_plugin


def test_the_hash_is_of_everything_and_the_same_again(tmp_path):
    root = write_plugin(tmp_path, files={"data/words.json": b"[]"})
    content = read_content(root)
    assert content.content_hash == read_content(root).content_hash
    assert len(content.content_hash) == 64
    assert content.name == "greeter"
    assert content.source == GREETER
    assert list(content.python) == ["plugin.py"]


@pytest.mark.parametrize("path", ["plugin.py", "plugin.json", "README.md", "data/words.json"])
def test_one_changed_character_anywhere_changes_the_hash(tmp_path, path):
    root = write_plugin(tmp_path, files={"data/words.json": b"[]"})
    before = read_content(root).content_hash
    data = bytearray((root / path).read_bytes())
    data[0] ^= 1
    (root / path).write_bytes(data)
    assert read_content(root).content_hash != before


def test_a_new_file_another_name_and_an_execute_bit_change_the_hash(tmp_path):
    root = write_plugin(tmp_path)
    hashes = [read_content(root).content_hash]
    (root / "extra.txt").write_bytes(b"")
    hashes.append(read_content(root).content_hash)
    (root / "extra.txt").rename(root / "other.txt")
    hashes.append(read_content(root).content_hash)
    (root / "other.txt").chmod(0o755)
    hashes.append(read_content(root).content_hash)
    (root / "link").symlink_to("other.txt")
    hashes.append(read_content(root).content_hash)
    assert len(set(hashes)) == len(hashes)


def test_bytes_do_not_move_between_files_under_one_hash(tmp_path):
    one = write_plugin(tmp_path / "one", files={"a": b"12", "b": b"3"})
    two = write_plugin(tmp_path / "two", files={"a": b"1", "b": b"23"})
    assert read_content(one).content_hash != read_content(two).content_hash


def test_the_hash_does_not_depend_on_where_the_plugin_lies(tmp_path):
    one, two = write_plugin(tmp_path / "one"), write_plugin(tmp_path / "two")
    assert read_content(one).content_hash == read_content(two).content_hash


def test_the_signed_hash_leaves_out_the_signature_alone(tmp_path):
    root = write_plugin(tmp_path)
    before = read_content(root)
    (root / "plugin.sig").write_bytes(json.dumps({"author": "x"}).encode())
    after = read_content(root)
    assert after.signed_hash == before.signed_hash
    assert after.content_hash != before.content_hash
    assert [finding.rule for finding in after.oddities] == ["broken-signature"]


def test_content_does_not_change_with_the_directory(tmp_path):
    root = write_plugin(tmp_path)
    content = read_content(root)
    before = content.content_hash
    (root / "plugin.py").write_bytes(b"import os\n")
    assert content.source == GREETER
    assert content.content_hash == before
    with pytest.raises(TypeError):
        content.files["plugin.py"] = b""


def test_the_working_directory_has_its_own_name(tmp_path, monkeypatch):
    root = write_plugin(tmp_path)
    monkeypatch.chdir(root)
    assert read_content(Path()).name == "greeter"
