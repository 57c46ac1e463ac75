"""Reading and listing: pieces, text, caps."""

import base64
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from kagura_kernel.plugins.sdk import (
    AccessDenied,
    ArgumentRefused,
    ConfigRefused,
    NotFound,
    NotText,
    PluginFault,
    TooLarge,
)
from kagura_kernel.plugins.sdk.reading import MAX_CHUNK, MAX_ENTRIES, MAX_FILE, ReadJail


def read_all(read, path, **arguments) -> list[dict]:
    pieces = [read(path, **arguments)]
    while pieces[-1]["next_offset"] is not None:
        pieces.append(read(path, offset=pieces[-1]["next_offset"], **arguments))
    return pieces


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_small_file_is_read_at_once(base, fs_read):
    (base / "a").mkdir()
    (base / "a" / "b.txt").write_text("Grüße\n")
    answer = fs_read().read_text("a/b.txt")
    assert answer == {"path": "a/b.txt", "text": "Grüße\n", "size": 8, "offset": 0, "next_offset": None}


@pytest.mark.parametrize("limit", [4, 5, 7, 1000])
@pytest.mark.parametrize("text", ["plain words", "é" * 50, "日本語" * 20, "🦉x" * 30, "", "\t\n\r\x0b"])
def test_pieces_of_text_are_whole_characters_and_make_the_file(text, limit, base, fs_read):
    (base / "f").write_text(text, "utf-8", newline="")
    pieces = read_all(fs_read().read_text, "f", limit=limit)
    assert "".join(piece["text"] for piece in pieces) == text
    assert all(len(piece["text"].encode()) <= limit for piece in pieces)


def test_bytes_come_in_base64_and_make_the_file(base, fs_read):
    data = bytes(range(256)) * 10
    (base / "f").write_bytes(data)
    pieces = read_all(fs_read().read_bytes, "f", limit=1000)
    assert [piece["offset"] for piece in pieces] == [0, 1000, 2000]
    assert b"".join(base64.b64decode(piece["base64"]) for piece in pieces) == data


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", b"caf\xe9", b"\xed\xa0\x80", b"ok \xc3"])
def test_what_is_no_utf_8_text_is_named_so(data, base, fs_read):
    (base / "f").write_bytes(data)
    with pytest.raises(NotText):
        fs_read().read_text("f")
    assert base64.b64decode(fs_read().read_bytes("f")["base64"]) == data


def test_an_offset_within_a_character_is_told(base, fs_read):
    (base / "f").write_text("日本")
    with pytest.raises(NotText, match="offset"):
        fs_read().read_text("f", offset=1)


def test_one_call_reads_no_more_than_its_chunk(base, fs_read):
    (base / "f").write_bytes(b"x" * (MAX_CHUNK + 10))
    answer = fs_read().read_text("f")
    assert (len(answer["text"]), answer["next_offset"]) == (MAX_CHUNK, MAX_CHUNK)
    with pytest.raises(ArgumentRefused, match="limit"):
        fs_read().read_text("f", limit=MAX_CHUNK + 1)


def test_a_chunk_that_grows_in_json_is_cut_before_it_is_too_large_to_send(base, fs_read):
    (base / "f").write_bytes(b"\x01" * MAX_CHUNK)
    pieces = read_all(fs_read().read_text, "f")
    assert sum(len(piece["text"]) for piece in pieces) == MAX_CHUNK
    assert all(len(json.dumps(piece)) < 3.1 * 2**20 for piece in pieces)


def test_a_file_above_the_cap_is_not_read_at_all(base, fs_read):
    with (base / "f").open("wb") as file:
        file.truncate(MAX_FILE)
    assert fs_read().read_bytes("f", limit=1)["size"] == MAX_FILE
    with (base / "f").open("ab") as file:
        file.write(b"x")
    with pytest.raises(TooLarge, match="10,485,761"):
        fs_read().read_bytes("f", limit=1)
    assert fs_read().stat("f")["size"] == MAX_FILE + 1


def test_a_file_that_is_cut_while_it_is_read_ends(base, fs_read, monkeypatch):
    (base / "f").write_bytes(b"x" * 100)
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert fs_read().read_text("f", offset=50)["next_offset"] is None
    assert fs_read().read_bytes("f", offset=50)["next_offset"] is None


@pytest.mark.parametrize(
    "arguments", [{"offset": -1}, {"offset": "0"}, {"offset": 1.5}, {"offset": True}, {"limit": 0}, {"limit": [1]}]
)
def test_an_odd_offset_or_limit_is_refused(arguments, base, fs_read):
    (base / "f").write_text("x")
    for read in (fs_read().read_text, fs_read().read_bytes):
        with pytest.raises(ArgumentRefused):
            read("f", **arguments)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_numbers_that_are_none_are_refused(number, base, fs_read):
    (base / "f").write_text("x")
    with pytest.raises(ArgumentRefused):
        fs_read().read_text("f", offset=number)


def test_a_listing_is_sorted_and_says_when_it_is_not_complete(base, fs_read):
    for number in range(30):
        (base / f"{number:02}.txt").write_text("x" * number)
    whole = fs_read().list_dir()
    assert [entry["size"] for entry in whole["entries"]] == list(range(30))
    assert whole["complete"]
    part = fs_read().list_dir(".", limit=10)
    assert len(part["entries"]) == 10
    assert not part["complete"]
    assert len(fs_read(max_entries=5).list_dir()["entries"]) == 5
    assert fs_read().list_dir(limit=30)["complete"]


def test_a_listing_has_a_thousand_entries_at_most(base, fs_read):
    for number in range(MAX_ENTRIES + 1):
        (base / f"{number}").touch()
    found = fs_read().list_dir()
    assert len(found["entries"]) == MAX_ENTRIES
    assert not found["complete"]


def test_a_file_and_a_directory_are_looked_at(base, fs_read):
    (base / "d").mkdir()
    (base / "d" / "f").write_text("abc")
    os.utime(base / "d" / "f", (0, 86_400.9))
    expected = {"path": "d/f", "kind": "file", "size": 3, "modified": "1970-01-02T00:00:00+00:00"}
    assert fs_read().stat("d/f") == expected
    assert fs_read().stat("d")["kind"] == "directory"
    assert fs_read().stat(".")["kind"] == "directory"


@pytest.mark.parametrize("moment", [-1, 2**34, 2**62])
def test_a_moment_that_no_calendar_has_is_no_error(moment, base, fs_read):
    (base / "f").touch()
    try:
        os.utime(base / "f", ns=(0, moment * 10**9))
    except OverflowError:
        os.utime(base / "f", ns=(0, 2**63 - 1))
    assert fs_read().stat("f")["modified"][:4] >= "1970"


def test_what_is_missing_is_not_found(fs_read):
    for function in (fs_read().read_text, fs_read().list_dir, fs_read().stat):
        with pytest.raises(NotFound, match="'no/such'"):
            function("no/such")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_denied(base, fs_read):
    (base / "f").write_text("x")
    (base / "f").chmod(0)
    with pytest.raises(AccessDenied):
        fs_read().read_text("f")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_file_kib", 10241),
        ("max_chunk_kib", 1025),
        ("max_entries", 1001),
        ("max_entries", 0),
        ("max_entries", "many"),
        ("max_entries", 2.5),
    ],
)
def test_caps_can_be_lowered_and_never_raised(field, value, fs_read):
    with pytest.raises(ConfigRefused, match=field):
        fs_read(**{field: value})


def test_configured_caps_hold(base, fs_read):
    (base / "f").write_bytes(b"x" * 2049)
    module = fs_read(max_file_kib=2, max_chunk_kib=1)
    with pytest.raises(TooLarge):
        module.read_text("f")
    (base / "f").write_bytes(b"x" * 2048)
    assert module.read_text("f")["next_offset"] == 1024


def test_no_descriptor_is_left_open(base):
    (base / "a").mkdir()
    (base / "a" / "f").write_text("x")
    (base / "a" / "l").symlink_to("f")
    jail = ReadJail(str(base))
    before = open_descriptors()
    for path in ("a/f", "a/l", "a/x", "x/y", "a"):
        for function in (jail.text, jail.listing, jail.stat):
            with suppress(PluginFault):
                function(path)
    assert open_descriptors() == before
    jail.close()
    jail.close()
