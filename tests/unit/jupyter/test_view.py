import html
import json

import pytest

from kagura_kernel.domain.commits import Commit
from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.events import BoxClosed, ChangesSettled, Noted, TurnCounted
from kagura_kernel.domain.outcome import BothSides, FileChange
from kagura_kernel.render.blocks import Diff
from kagura_kernel.render.escape import shown_path
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of
from kagura_kernel.views.approvals import asked
from kagura_kernel.views.body import item_blocks, item_text
from kagura_kernel.views.card import run_blocks
from kagura_kernel.views.changes import changes_blocks, changes_text, numbered, sides_text
from kagura_kernel.views.commits import diffs_text
from kagura_kernel.views.head import box_line, sign_blocks
from kagura_kernel.views.parts import KEPT_OUTPUT, Ask, Call, Item, Note, Passage, Printout
from kagura_kernel.views.record import run_record
from kagura_kernel.views.run import RunView


def test_a_line_of_text_says_that_a_box_goes_on_and_stays(story, view_of):
    box = story.box(stays=True, goes_on="run-0", goes_on_count=3)
    line = box_line(view_of(story.started(), box))
    assert "goes on with the box of [3], which stays for the next cell" in line
    assert "stays" not in box_line(view_of(story.started(), story.box()))


def test_streamed_text_grows_in_one_passage_and_is_replaced_by_the_whole(story, view_of):
    view = view_of(story.started(), story.streams("Hel"), story.streams("lo"))
    [passage] = view.items
    assert (passage.text, passage.growing) == ("Hello", True)
    view.apply(story.says("Hello, whole."))
    assert view.items == [Passage("i0", "Hello, whole.")]


def test_text_after_a_call_is_a_new_passage(story, view_of):
    view = view_of(story.started(), story.streams("a"), story.calls(), story.streams("b"))
    assert [type(item) for item in view.items] == [Passage, Call, Passage]
    assert not view.items[0].growing


class Counted(list[Item]):
    """Items that know how many of them were looked at."""

    looked = 0

    def __iter__(self):
        for item in super().__iter__():
            self.looked += 1
            yield item

    def __getitem__(self, key):
        found = super().__getitem__(key)
        self.looked += len(found) if isinstance(key, slice) else 1
        return found


def test_a_run_of_many_calls_costs_no_more_for_each_of_them(story, view_of):
    view = view_of(story.started())
    view.items = items = Counted()
    for number in range(200):
        view.apply_all((story.streams("a"), story.says("a"), story.calls(call_id=f"{number}")))
        view.apply(story.answers(call_id=f"{number}"))
    view.apply(story.ends())
    run_blocks(view)
    assert len(items) == 400
    assert items.looked < 20 * len(items)


def test_output_is_kept_for_its_own_call_and_bounded(story, view_of):
    view = view_of(story.started(), story.calls(call_id="a"), story.calls(call_id="b"))
    for _ in range(3):
        view.apply(story.prints("x" * KEPT_OUTPUT, "b"))
    view.apply(story.prints("the end", "b"))
    first, second = view.calls
    assert first.printed == ""
    assert len(second.printed) == KEPT_OUTPUT
    assert second.printed.endswith("the end")


def test_only_what_changed_is_dirty(story, view_of):
    view = view_of(story.started(), story.box(), story.calls(call_id="a"), story.says("x"))
    assert view.take_dirty() == {"head", "say", "sign", "i0", "i1"}
    assert view.take_dirty() == set()
    view.apply(story.prints("more", "a"))
    assert view.take_dirty() == {"i0"}


def test_an_approval_waits_until_it_is_decided(story, view_of):
    view = view_of(story.started(), story.calls(call_id="c1"), story.asks(call_id="c1"))
    assert [type(item) for item in view.pending] == [Ask]
    view.take_dirty()
    view.apply(story.decides("deny"))
    assert view.pending == []
    assert view.take_dirty() == {"head", "sign", "i0", "i1"}


def test_the_final_answer_is_not_said_twice(story, view_of):
    said = view_of(story.started(), story.says("First.\n\nThe answer."), story.ends(text="The answer."))
    assert len(said.items) == 1
    unsaid = view_of(story.started(), story.ends(text="The answer."))
    assert unsaid.items == [Passage("i0", "The answer.")]


def test_the_cost_is_unknown_as_soon_as_one_turn_has_no_price(story, view_of):
    priced = {"run_id": "run-1", "session_id": "ses-1", "at": story.says("x").at}
    view = view_of(story.started(), TurnCounted(**priced, input_tokens=10, output_tokens=5, computed_usd=0.25))
    assert (view.usd, view.input_tokens, view.output_tokens) == (0.25, 10, 5)
    view.apply(TurnCounted(**priced, input_tokens=1, computed_usd=None))
    assert view.usd is None
    view.apply(story.ends(reported_usd=0.75))
    assert view.usd == 0.75


def test_the_program_of_a_sandbox_cell_is_one_printout(story, view_of):
    view = view_of(story.started(flavour="sandbox", brain=""), story.calls(call_id="cell"), story.prints("a", "cell"))
    view.apply(story.prints("b", "cell"))
    assert view.items == [Printout("i0", "ab")]
    view.apply(story.answers("ab\nand errors", "cell", spill="full.txt"))
    view.apply(story.ends(text="ab"))
    assert view.items == [Printout("i0", "ab\nand errors", "full.txt")]


BAR = "".join(f"\r{done}% {'#' * done}" for done in range(100)) + "\r\x1b[2K100% in 2 s\r\nover\n"


@pytest.mark.parametrize("going_on", [True, False])
def test_a_progress_bar_shows_its_last_state_and_says_that_there_were_others(story, view_of, going_on):
    view = view_of(story.started(flavour="sandbox", brain=""), story.calls(call_id="cell"), story.prints(BAR, "cell"))
    if not going_on:
        view.apply(story.answers(BAR, "cell"))
        view.apply(story.ends(text=BAR))
    [item] = view.items
    told = "… 100 earlier states of this line …\n100% in 2 s\nover"
    assert item_text(item).strip() == told
    assert told in html_of(item_blocks(item, view, live=going_on))


def test_what_a_line_has_gone_back_over_once_is_shown():
    assert item_text(Printout("i0", "rm -rf ~\rls")) == "rm -rf ~\nls"


def test_settled_changes_take_their_state(story, view_of):
    view = view_of(story.started(), story.changes(story.change("a"), story.change("b"), story.change("c")))
    ids = {"run_id": "run-1", "session_id": "ses-1", "at": story.says("x").at}
    view.apply(ChangesSettled(**ids, applied=("a",), discarded=("b",), conflicts=("c", "not there")))
    assert {path: change.state for path, change in view.changes.items()} == {
        "a": "applied",
        "b": "discarded",
        "c": "conflict",
    }


def test_notes_and_a_box_that_died_are_told(story, view_of):
    ids = {"run_id": "run-1", "session_id": "ses-1", "at": story.says("x").at}
    view = view_of(story.started(), Noted(**ids, text="fallback"), BoxClosed(**ids, box_id="b", why="killed"))
    assert view.items == [Note("i0", "fallback"), Note("i1", "The box is gone: killed", grave=True)]
    assert RunView().apply_all([BoxClosed(**ids, box_id="b")]).items == []


def test_answers_to_calls_nobody_knows_are_passed_over(story, view_of):
    view = view_of(story.started(), story.answers("x", "unknown"), story.decides(approval_id="app-unknown"))
    assert view.items == []


def test_a_run_whose_record_broke_off_is_shown_as_lost(story, view_of):
    view = view_of(story.started(), story.says("x"))
    view.give_up(JournalUnwritable("/journal", "disk full"))
    assert view.finished.status == "lost"
    assert view.finished.error_code == "ERR_JOURNAL_UNWRITABLE"
    ended = view_of(story.started(), story.ends())
    ended.give_up(JournalUnwritable("/journal", "disk full"))
    assert ended.finished.status == "done"


def test_only_what_does_not_think_can_be_repeated(story, view_of):
    assert view_of(story.started(flavour="sandbox", brain="")).repeatable
    assert view_of(story.started(brain="replay")).repeatable
    assert not view_of(story.started(brain="claude")).repeatable


def settled(story, **paths):
    return ChangesSettled(run_id="run-1", session_id="ses-1", at=story.says("x").at, **paths)


def test_changes_that_come_in_parts_are_all_shown_each_with_its_last_state(story, view_of):
    view = view_of(
        story.started(write_mode="through"),
        story.changes(story.change("b")),
        settled(story, applied=("b",)),
        story.changes(story.change("a")),
        settled(story, conflicts=("a",)),
        story.changes(story.change("c", state="protected")),
    )
    assert [(path, change.state) for path, change in view.changes.items()] == [
        ("a", "conflict"),
        ("b", "applied"),
        ("c", "protected"),
    ]


def test_cells_stand_in_the_order_in_which_they_were_proposed_before_and_after_one_is_decided(story, view_of):
    later, sooner = (story.change(f"n.ipynb#{name}", kind="code") for name in "ab")
    view = view_of(story.started(), story.changes(sooner), story.changes(later, story.change("m.py")))
    order = ["m.py", "n.ipynb#b", "n.ipynb#a"]
    assert list(view.changes) == order
    view.apply(settled(story, applied=("n.ipynb#b",)))
    assert list(view.changes) == order


def test_a_call_that_goes_on_says_nothing_of_what_it_has_printed_where_that_is_not_known(story, view_of):
    view = view_of(story.started(), story.calls(command="make"))
    assert "no output" not in html_of(item_blocks(view.items[0], view, live=False))


def test_a_call_that_an_approval_denied_is_refused(story, view_of):
    view = view_of(story.started(), story.calls(), story.asks(call_id="c1"), story.decides("timeout"))
    assert view.calls[0].refused
    allowed = view_of(story.started(), story.calls(), story.asks(call_id="c1"), story.decides("allow"))
    assert not allowed.calls[0].refused


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


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\u0430dmin = 1", "⟨U+0430⟩dmin = 1"),
        ("admin\u200d = 1", "admin⟨U+200D⟩ = 1"),
        ("x = '\u2800'", "x = &#x27;⟨U+2800⟩&#x27;"),
        ("# 第一\u3000節 : «\u00a0é\u00a0»", "# 第一\u3000節 : «\u00a0é\u00a0»"),
    ],
)
def test_a_diff_writes_out_letters_that_pose_as_others_and_what_nobody_sees(line, shown):
    assert f">+{shown}<" in html_of([Diff(f"@@ -0,0 +1 @@\n+{line}\n")])


def test_so_does_each_place_that_shows_a_difference_as_text():
    diff = "@@ -1 +1 @@\n-no\n+\u0430dmin\n"
    change = FileChange(path="a.py", status="modified", diff=diff)
    commit = Commit("1" * 40, files=(change,))
    texts = [numbered(change), sides_text(change, BothSides(theirs=diff)), diffs_text(commit)]
    assert all("+⟨U+0430⟩dmin" in text for text in texts)


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


def test_a_folded_cell_is_known_by_its_first_line_that_is_new_or_gone(story):
    def shown(diff, **fields):
        cells = {str(n): story.change(f"n.ipynb#{n}", kind="code", diff=diff, **fields) for n in range(4)}
        return lines_of(changes_blocks(cells, live=True))

    told = "--- a/n.ipynb#1\n+++ b/n.ipynb#1\n@@ -1,2 +1,3 @@\n import os\n-x\u202e = 1\n+\n+y = 2\n" + "+z\n" * 20
    assert "y = 2" in shown(told)[1]
    assert "x⟨U+202E⟩ = 1" in shown(told, status="deleted")[1]


@pytest.mark.parametrize(("cells", "lines", "are_open"), [(4, 15, True), (4, 16, False), (3, 60, True), (20, 3, True)])
def test_changes_lie_open_while_they_are_few_or_short_together(story, cells, lines, are_open):
    diff = "@@ -0,0 +1 @@\n" + "+x\n" * lines
    changes = {str(n): story.change(f"n.ipynb#{n}", kind="code", diff=diff) for n in range(cells)}
    html = html_of(changes_blocks(changes, live=True))
    assert html.count(" open>") == (cells if are_open else 0)


def test_a_run_with_very_many_files_is_shown_in_part_and_says_so(story):
    changes = {f"f{n}": story.change(f"f{n}") for n in range(1000)}
    page = html_of(changes_blocks(changes, live=True))
    assert page.count('class="kg-file"') == 200
    assert "800 more files" in page


def signs(view):
    return "\n".join(lines_of(sign_blocks(view, live=True)))


def test_a_live_card_says_what_is_waited_for_and_since_when(story, view_of):
    view = view_of(story.started())
    assert signs(view) == "Getting the box ready"
    view.apply(story.box())
    assert signs(view) == "Waiting for the model"
    view.apply_all(
        [story.signs("thinking"), story.signs("thinking", "First the totals."), story.signs("thinking", " Then.")]
    )
    assert signs(view).startswith("Thinking\n")
    assert "First the totals. Then." in signs(view)
    assert 'data-elapsed="2.0"' in html_of(sign_blocks(view, live=True))
    view.apply(story.signs("retrying", "overloaded", attempt=3, attempts=10, seconds=8.2))
    assert signs(view).startswith("The model’s service: overloaded; attempt 3 of 10, next in 8 s")


def test_it_says_nothing_while_something_moves_or_waits_for_a_person(story, view_of):
    view = view_of(story.started(), story.box())
    view.take_dirty()
    for event, silent in (
        (story.streams("I look"), True),
        (story.says("I look."), False),
        (story.calls(), True),
        (story.asks(call_id="c1"), True),
        (story.decides(), True),
        (story.answers(), False),
        (story.signs("thinking", "Done?"), False),
        (story.ends(), True),
    ):
        view.apply(event)
        assert (signs(view) == "") == silent, event.kind
        assert "sign" in view.take_dirty()
    assert sign_blocks(view_of(story.started(), story.box()), live=False) == ()
    assert sign_blocks(view_of(story.started(flavour="sandbox")), live=True) == ()
