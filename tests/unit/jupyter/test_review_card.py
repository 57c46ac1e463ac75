"""The card of many files, and of files that are compared as what they are."""

import html
import json
from dataclasses import replace

import pytest
from hypothesis import example, given, strategies as st

from kagura_kernel.domain.outcome import FileChange, Written, by_path
from kagura_kernel.jupyter.live_run import settle
from kagura_kernel.render.escape import escaped
from kagura_kernel.render.html import html_of
from kagura_kernel.views.changes import Beside, changes_blocks, folder_of, path_of, path_word
from kagura_kernel.views.previews import TABLE_BYTES, notebook_text, wanted, wanted_before
from kagura_kernel.views.record import changes_bundle
from tests.support.card_page import Page
from tests.support.gallery import png


def named(*paths: str, **more: str) -> dict[str, FileChange]:
    return {path: FileChange(path, "added", diff="@@ -0,0 +1 @@\n+x\n", **more) for path in paths}  # type: ignore[arg-type]


def labels(changes: dict[str, FileChange]) -> list[str]:
    page = Page(html_of(changes_blocks(changes, live=True)))
    return [str(one.get("aria-label")) for one in page.buttons]


MANY = [f"src/{folder}/{number}.py" for folder in ("a", "b/deep") for number in range(12)]


def test_more_than_twenty_files_fold_by_folder_each_with_its_buttons():
    found = labels(named(*MANY, "README.md"))
    assert {"Apply src/", "Discard src/", "Apply README.md", "Apply all changes"} <= set(found)
    inside = labels(named(*MANY))
    assert {"Apply src/a/", "Discard src/a/", "Apply src/b/", "Apply src/b/deep/3.py"} <= set(inside)
    assert "Apply src/" not in inside


def test_few_files_stand_as_they_are():
    assert not any(label.endswith("/") for label in labels(named(*MANY[:20])))


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["a/x", "a/y"], ""),
        (["a/b/x", "a/b/y"], "a/"),
        (["a/b/x", "a/c/y"], "a/"),
        (["a/x", "a/c/y"], "a/"),
        (["x", "a/y"], ""),
        (["x", "y"], ""),
    ],
)
def test_files_are_folded_by_the_folders_of_what_holds_them_all(paths, folder):
    assert folder_of(list(named(*paths).values())) == folder


def test_a_folder_with_a_file_that_runs_by_itself_says_so_stands_first_and_is_open():
    changes = named(*MANY) | named("src/z/Makefile", runs="make runs what it says")
    html = html_of(changes_blocks(changes, live=False))
    assert html.index("src/z/") < html.index("src/a/")
    assert html.count("<details open") + html.count(" open>") == 1


def test_buttons_that_are_about_files_beyond_what_is_shown_say_so():
    changes = named(*(f"{number:03}.txt" for number in range(203)))
    assert "… and 3 more files, which the buttons above are about too:" in html_of(changes_blocks(changes, live=True))
    assert "… and 3 more files:" in html_of(changes_blocks(changes, live=False))


def table(before: bytes, after: bytes) -> str:
    change = FileChange("t.csv", "modified", size=len(after), old_sha256="a" * 64, diff="@@ -1 +1 @@\n-x\n+y\n")
    shown = changes_blocks({"t.csv": change}, live=False, beside=Beside({"t.csv": after}, {"t.csv": before}))
    return Page(html_of(shown)).text


def test_a_table_is_compared_by_its_rows():
    before = b"name,n\na,1\nb,2\nc,3\nd,4\n"
    after = b"name,n\na,1\nb,20\nd,4\ne,5\nf,6\n"
    text = table(before, after)
    assert "2 → 20" in text
    assert "Rows: 2 added, 1 removed, 1 changed" in text
    assert "As text" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"name,n\na,1\n", b"name,m\na,1\n"),
        (b"name,n\n" + b"a,1\n" * 1200, b"name,n\n" + b"a,2\n" * 1200),
        (b"name,n\n" + b"a,1\n" * 900, b"name,n\n" + b"a,1\nb,2\n" * 450),
        (b"x" * (TABLE_BYTES + 1), b"name,n\na,1\n"),
        (b"\xff\xfe", b"name,n\na,1\n"),
    ],
)
def test_what_cannot_be_compared_so_stays_a_text(before, after):
    assert "Rows:" not in table(before, after)


def test_an_image_stands_beside_the_one_it_takes_the_place_of():
    before, after = png(10, 20), png(30, 40)
    change = FileChange("p.png", "modified", size=len(after), old_sha256="a" * 64, binary=True)
    shown = changes_blocks({"p.png": change}, live=False, beside=Beside({"p.png": after}, {"p.png": before}))
    page = html_of(shown)
    assert page.count("<img") == 2
    text = Page(page).text
    assert text.index("Before: 10 × 20") < text.index("Afterwards: 30 × 40")
    assert wanted_before(change)


def test_what_is_no_image_before_is_said_and_never_shown():
    after = png(30, 40)
    change = FileChange("p.png", "modified", size=len(after), old_sha256="a" * 64, binary=True)
    shown = changes_blocks({"p.png": change}, live=False, beside=Beside({"p.png": after}, {"p.png": b"<script>"}))
    page = html_of(shown)
    assert page.count("<img") == 1
    assert "script" not in page


def test_a_new_notebook_is_its_cells_with_its_text_below():
    cells = [
        {"kind": "markdown", "id": "intro", "source": "# Sales\n", "outputs": False},
        {"kind": "code", "id": "", "source": "total = 1\nprint(total)", "outputs": True},
    ]
    data = json.dumps({"cells": cells, "count": 70}).encode()
    change = FileChange("n.ipynb", "added", size=900, diff="@@ -0,0 +1 @@\n+{}\n", runs="it runs when it is opened")
    assert wanted(change) == 900
    text = Page(html_of(changes_blocks({"n.ipynb": change}, live=True, beside=Beside({"n.ipynb": data})))).text
    parts = ("markdown cell intro", "# Sales", "code cell 2, with outputs", "print(total)", "68 more cells", "As text")
    assert sorted(parts, key=text.index) == list(parts)


def test_of_a_new_notebook_a_comment_does_not_look_like_code():
    cells = [{"kind": "code", "id": "", "source": "pass  # then:\u2028check()\r\ngo()\n", "outputs": False}]
    data = json.dumps({"cells": cells, "count": 1}).encode()
    told = notebook_text(FileChange("n.ipynb", "added", size=90), data)
    assert told.splitlines() == ["code cell 1", "+pass  # then:⟨U+2028⟩check()", "+go()"]


def test_a_table_with_a_secret_is_shown_by_its_redacted_difference_alone():
    change = FileChange("t.csv", "added", size=90, diff="@@ -0,0 +1 @@\n+key,[REDACTED:openai]\n")
    assert wanted(change) == 0
    assert wanted_before(replace(change, status="modified", old_sha256="a" * 64)) == 0


def test_undo_is_offered_while_every_file_is_what_was_applied():
    wrote = {path: (Written(path, "a" * 64, "b" * 64, "file"),) for path in ("d/a", "d/b", "c")}
    changes = by_path(FileChange(path, "modified", state="applied", written=one) for path, one in wrote.items())

    def undone(stuck: dict[str, str]) -> set[str]:
        page = Page(html_of(changes_blocks(changes, live=True, beside=Beside(stuck=stuck))))
        assert all(f"any more: {why}." in page.text for why in stuck.values())
        return {str(one["aria-label"]) for one in page.buttons}

    assert undone({}) == {"Undo all changes", "Undo d/a", "Undo d/b", "Undo c"}
    assert undone({"d/a": "it has changed"}) == {"Undo d/b", "Undo c"}


def test_a_saved_card_says_what_to_type_while_something_waits():
    how = "`%kagura apply run-1` brings it into the project"
    waiting = changes_bundle(named("a"), how=how)[0]
    assert "%kagura apply run-1" in Page(waiting["text/html"]).text
    assert "%kagura apply run-1" in waiting["text/plain"]
    over = changes_bundle(named("a", state="applied"), how=how)[0]
    assert "%kagura apply" not in over["text/html"] + over["text/plain"]


# One name written with a sign that turns what follows, and one that has in letters what is shown of the other.
TURNED = ("a\u202egpj.py", "a⟨U+202E⟩gpj.py")


def test_a_button_bears_the_very_path_of_its_row_however_that_is_shown():
    page = Page(html_of(changes_blocks(named(*TURNED), live=True)))
    applies = [one for one in page.buttons if one["data-act"] == "apply" and "data-path" in one]
    assert [path_of(str(one["data-path"])) for one in applies] == sorted(TURNED)
    assert [one["aria-label"] for one in applies] == ["Apply a⟨U+202E⟩gpj.py", "Apply a⟨U+27E8⟩U+202E⟩gpj.py"]


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
@example('a\udcff/é%41\n \r\t"<b>&amp;\\')
def test_a_path_comes_back_from_a_page_as_it_was(path):
    word = path_word(path)
    assert path_of(word) == path
    # Nothing of it is shown otherwise in an attribute, or read otherwise by a page.
    assert html.unescape(escaped(word)) == word
    assert word.isascii()
    assert word.isprintable()


@pytest.mark.parametrize("word", ["%ff", "a%c3", "%"])
def test_a_word_that_no_button_bears_is_a_path_that_nothing_has(word):
    assert path_of(word) == word


def test_the_number_of_a_part_may_be_of_any_length(cockpit):
    assert "There is no run" in settle(cockpit, "run-0", "apply", ["a.py"], None, "9" * 5000)
