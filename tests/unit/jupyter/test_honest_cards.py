"""A card shows what would happen, whole, however its text tries to look like something else."""

from __future__ import annotations

import html
import json

import pytest

from kagura_kernel.render.blocks import Diff
from kagura_kernel.render.escape import shown_path
from kagura_kernel.render.html import html_of
from kagura_kernel.views.approvals import asked
from kagura_kernel.views.body import item_blocks, item_text
from kagura_kernel.views.changes import changes_blocks, changes_text
from kagura_kernel.views.parts import Ask
from kagura_kernel.views.record import run_record
from kagura_kernel.views.run import RunView

PLACE = "/home/ada/project"
POSING = [
    f"ls -l\nfor x  # only an example, nothing of this runs\n\nin {PLACE}; do touch /tmp/owned; done",
    f"true\n\nin {PLACE}\n\nreading\nharmless input\n; rm -rf ~",
    "git push\r\x1b[2Kgit status",
]


@pytest.mark.parametrize("command", POSING)
def test_the_command_on_the_card_is_the_command_that_would_run(story, command):
    arguments = {"command": command, "directory": PLACE}
    request = story.asks(detail=f"{command}\n\nin {PLACE}", arguments=arguments)
    view = RunView().apply_all([story.started(), request])
    page = html_of(item_blocks(Ask("k", request), view, live=True))
    shown = html.unescape(page).split('kg-full">', 1)[1].split("<i data-end", 1)[0]
    assert asked(request).subject == command
    assert shown.replace("⟨U+000D⟩", "\r").replace("⟨U+001B⟩", "\x1b") == command
    text = item_text(Ask("k", request))
    assert all(line.strip() in text for line in command.splitlines() if "\x1b" not in line)
    record = json.dumps(run_record(view), ensure_ascii=False)
    assert json.dumps(command, ensure_ascii=False)[1:-1] in record or "\x1b" in command


def test_what_a_command_would_read_stands_apart_from_it(story):
    request = story.asks(arguments={"command": "python3 -", "directory": PLACE, "stdin": "print(1)"})
    page = html_of(item_blocks(Ask("k", request), RunView().apply_all([story.started(), request]), live=True))
    assert page.index("python3 -") < page.index("It would read") < page.index("print(1)")


def test_a_long_line_of_a_diff_says_that_it_was_cut():
    page = html_of([Diff("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x = 1" + " " * 2100 + "; evil()\n")])
    assert "characters left out" in page


def test_a_diff_ends_with_its_last_line():
    page = html_of([Diff("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+only\n")])
    assert page.count('class="kg-row') == 2


def test_a_diff_is_cut_between_lines_and_counts_what_is_missing():
    body = "".join(f"+{'y' * 1500}\n" for _ in range(100))
    page = html_of([Diff(f"--- a/x\n+++ b/x\n@@ -0,0 +1,100 @@\n{body}")])
    assert "more lines" in page


@pytest.mark.parametrize("path", ["a\n+ok", "M README.md  +1 -1  (applied)\nx", "tab\there", " edge ", "\x1b[2Kgone"])
def test_a_path_takes_one_line_and_hides_nothing(story, path):
    shown = shown_path(path)
    assert "\n" not in shown
    assert "\t" not in shown
    assert "\x1b" not in shown
    assert shown.strip() == shown
    change = story.change(path)
    assert changes_text({path: change}).count("\n") == 1
    assert html.escape(shown) in html_of(changes_blocks({path: change}, live=True))


def test_a_change_that_is_never_written_says_why(story):
    change = story.change("key.txt", state="protected", reason="it holds a leased credential")
    assert "protected: it holds a leased credential" in html_of(changes_blocks({"key.txt": change}, live=True))
    assert "(protected: it holds a leased credential)" in changes_text({"key.txt": change})


def test_a_run_with_very_many_files_is_shown_in_part_and_says_so(story):
    changes = {f"f{n}": story.change(f"f{n}") for n in range(1000)}
    page = html_of(changes_blocks(changes, live=True))
    assert page.count('class="kg-file"') == 200
    assert "800 more files" in page
