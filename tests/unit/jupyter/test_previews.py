"""Previews of changed files: images, first rows, kinds; and nothing that a hostile file could do with one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.render.html import html_of
from kagura_kernel.views.changes import IMAGE_BYTES, TABLE_BYTES, changes_blocks, preview_blocks, wanted
from tests.support.card_page import Page
from tests.support.gallery import png


def row(path: str, size: int, **fields: object) -> FileChange:
    return FileChange(**{"path": path, "status": "added", "size": size} | fields)


def page(path: str, data: bytes, *, size: int | None = None, **fields: object) -> Page:
    change = row(path, len(data) if size is None else size, **fields)
    return Page(html_of(changes_blocks({path: change}, live=False, previews={path: data})))


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (row("a.png", 1000, binary=True), 1000),
        (row("a.png", IMAGE_BYTES + 1, binary=True), 64),
        (row("a.csv", 10_000_000), TABLE_BYTES),
        (row("a.bin", 5000, binary=True), 64),
        (row("a.py", 5000), 0),
        (row("a.png", 1000, status="deleted"), 0),
        (row("a.png", 1000, kind="link"), 0),
    ],
)
def test_only_as_much_is_read_as_a_preview_takes(change, count):
    assert wanted(change) == count


def test_an_image_is_small_and_says_its_size():
    shown = page("plot.PNG", png(64, 48), binary=True)
    assert ("width", "64") in shown.attributes
    assert "64 × 48" in shown.text


def test_a_file_that_only_calls_itself_an_image_is_not_shown():
    assert "No preview: its bytes are no image." in page("a.png", b"<script>x", binary=True).text


def test_the_first_rows_of_a_table_are_shown_and_the_diff_stays():
    data = b"day;amount\n" + b"".join(b"%d;<b>%d</b>\n" % (n, n) for n in range(50))
    shown = page("a.csv", data, diff="@@ -0,0 +1 @@\n+day;amount\n")
    assert shown.tags.count("tr") == 9
    assert "<b>0</b>" in shown.text
    assert "+day;amount" in shown.text


def test_the_beginning_of_a_long_table_ends_with_a_whole_row():
    data = "a,b\n1,é\n2,ende".encode()
    shown = page("a.csv", data[:-1], size=10_000)
    assert shown.tags.count("td") == 2


def test_records_are_a_table_too():
    data = json.dumps([{"a": 1, "b": {"c": 2}}, {"a": None, "d": "x\u202e"}]).encode()
    shown = page("a.json", data)
    assert [tag for tag in shown.tags if tag in {"th", "td"}] == ["th"] * 3 + ["td"] * 6
    assert "⟨U+202E⟩" in shown.text
    assert page("a.jsonl", b'{"a": 1}\n{"a": 2}\n').tags.count("td") == 2


def test_a_binary_file_says_what_it_is():
    assert "Binary file, 48,213 bytes: PDF document." in page("a.pdf", b"%PDF-1.7", size=48_213, binary=True).text
    assert "runs code when it is loaded" in page("a.pkl", b"\x80\x04\x95...", binary=True).text


@given(st.sampled_from(["a.csv", "a.tsv", "a.json", "a.jsonl", "a.png", "a.svg", "a.bin"]), st.binary(max_size=300))
def test_whatever_a_file_holds_its_preview_is_harmless(path, data):
    shown = Page(html_of(preview_blocks(row(path, len(data), binary=True), data)))
    assert not shown.open
    assert set(shown.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "img"}


@pytest.mark.parametrize("text", ["[" * 100_000, "[" + "9" * 5000 + "]", '[{"a": NaN}]', '[{"a": ' + "[" * 5000])
def test_hostile_json_is_no_table(text):
    assert "Traceback" not in html_of(preview_blocks(row("a.json", len(text)), text.encode()))
