"""Cards as HTML: what stands on them, and that nothing gets out of them."""

import gc
import json
import re
import weakref
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt
from nbconvert import MarkdownExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kagura_kernel.domain.errors import RunKilled
from kagura_kernel.domain.events import NotebookShown
from kagura_kernel.domain.outcome import FileChange, seal_of
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter.slots import card_html, write_once
from kagura_kernel.jupyter.widgets.live_card import LiveCard
from kagura_kernel.membrane.changes import not_shown
from kagura_kernel.render.blocks import Diff
from kagura_kernel.render.diff import counts
from kagura_kernel.render.html import bare, drawn, html_of, style
from kagura_kernel.views.card import run_text
from kagura_kernel.views.changes import UNSEEN, changes_blocks, changes_text, summary
from kagura_kernel.views.record import CHANGES_MIME, RUN_MIME, changes_bundle, run_bundle, run_html
from kagura_kernel.views.run import INSIDE_MAGIC, RunView
from kagura_kernel.views.status import OUT_OF_MEMORY, end_words, failure_reason, failure_word
from tests.support.card_page import Page, live_parts
from tests.support.sample_run import SampleRun


def live(view: RunView) -> Page:
    return Page("".join(live_parts(view).values()))


def test_nothing_keeps_a_live_card_that_was_closed():
    card = LiveCard("a run", {"head": "<b>done</b>"}, pytest.fail)
    kept = weakref.ref(card)
    card.close()
    del card
    gc.collect()
    assert kept() is None


def test_a_remark_beside_a_button_has_what_is_typed_as_code_and_no_markup_of_its_own(monkeypatch):
    sent = []
    monkeypatch.setattr(LiveCard, "send", lambda _, content: sent.append(content))
    LiveCard("a run", {}, pytest.fail).tell("Sign in with `claude`, not <b>.", "app-1")
    assert sent == [{"kind": "told", "id": "app-1", "html": "Sign in with <code>claude</code>, not &lt;b&gt;."}]


def test_a_card_tells_where_the_thinking_and_the_doing_took_place_and_why(story, view_of):
    page = Page(run_html(view_of(story.started(), story.box(), story.ends())))
    assert "ANTHROPIC_API_KEY is set" in page.text
    assert "bubblewrap, namespace isolation — no Docker daemon" in page.text


def test_a_live_card_ticks_and_can_be_stopped_and_a_finished_one_cannot(story, view_of):
    view = view_of(story.started(), story.box())
    page = live(view)
    assert [button["data-act"] for button in page.buttons] == ["stop", "say"]
    assert "data-elapsed" in dict(page.attributes)
    view.apply(story.ends())
    assert live(view).buttons == []


def test_a_call_shows_its_route_and_exit_code_folded(story, view_of):
    view = view_of(story.started(), story.calls(command="ls -l"), story.answers("total 0\n", exit_code=2))
    html = run_html(view)
    page = Page(html)
    assert "details" in page.tags
    assert "open" not in dict(page.attributes)
    for part in ("ls -l", "sandbox", "exit 2", "0.2 s", "total 0"):
        assert part in page.text


def test_two_commands_on_two_lines_do_not_read_as_one_with_more_arguments(story, view_of):
    view = view_of(story.started(), story.calls(command="cd data\n\n  rm -rf *\n"), story.answers(""))
    assert "cd data ↵ rm -rf *" in Page(run_html(view)).text
    assert "> bash: cd data ↵ rm -rf *  (" in run_text(view)


def test_a_call_that_goes_on_shows_its_last_lines_below_its_own_and_one_that_is_done_does_not(story, view_of):
    view = view_of(story.started(), story.calls(command="train", call_id="a"))
    glimpse = re.compile(r'<pre class="kg-pre kg-glimpse">(.*?)</pre>', re.DOTALL)
    assert not glimpse.findall(live_parts(view)["i0"])
    long = "x" * 5000
    view.apply(story.prints(f"one\ntwo\n\nloss   0.25\r\n{long}\nthe last\n", "a"))
    [shown] = glimpse.findall(live_parts(view)["i0"])
    assert shown == f"loss   0.25\n{'x' * 199}…\nthe last"
    view.apply(story.answers("all of it", call_id="a"))
    assert not glimpse.findall(live_parts(view)["i0"])


def test_a_call_that_ran_on_the_host_stands_open(story, view_of):
    view = view_of(story.started(), story.calls(command="uname -n"), story.answers("ada-laptop\n", route="host"))
    page = Page(run_html(view))
    assert "open" in dict(page.attributes)
    for part in ("uname -n", "host", "exit 0", "ada-laptop"):
        assert part in page.text


def test_a_calls_time_is_without_that_in_which_it_waited_for_a_person(story, view_of):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    asked = [story.asks(call_id="c1", approval_id=f"app-{n}") for n in range(3)]
    waits = [(20.0, 20.0), (15.0, 5.0), (40.0, 10.0)]  # The second lies in the first
    decided = [
        story.decides(approval_id=f"app-{n}", waited=waited).model_copy(update={"at": now + timedelta(seconds=at)})
        for n, (at, waited) in enumerate(waits)
    ]
    answered = story.answers("ok", route="host", duration=33.2)
    view = view_of(story.started(), story.calls(call_id="c1"), *asked, *decided, answered)
    assert "exit 0 3.2 s" in " ".join(Page(run_html(view)).text.split())


def test_long_output_is_cut_with_a_word_about_the_rest(story, view_of):
    text = "\n".join(f"line {number}" for number in range(100))
    view = view_of(story.started(), story.calls(command="x"), story.answers(text, spill="c1.txt"))
    page = Page(run_html(view))
    assert "line 44\n… 40 more lines, full text in c1.txt …\nline 85\n" in page.text


def test_an_approval_card_shows_everything_and_whose_words_they_are(story, view_of):
    request = story.asks(
        "git push\n\nin /home/ada/p", reason="I want to", arguments={"command": "git push", "directory": "/home/ada/p"}
    )
    page = live(view_of(story.started(), request))
    assert "git push" in page.text
    assert "in /home/ada/p" in page.text
    assert "The agent’s own words: I want to" in page.text
    assert "no answer is a denial" in page.text
    acts = [button["data-act"] for button in page.buttons if button.get("data-id") == "app-1"]
    assert acts == ["allow", "deny", "abort"]


@pytest.mark.parametrize(
    ("verdict", "fields", "words"),
    [
        ("allow", {}, "Allowed by ada, in the cell"),
        ("deny", {"via": "command"}, "Denied by ada, by command"),
        ("deny", {"by": "policy", "via": "policy"}, "Denied by policy: nobody is here who could be asked"),
        ("timeout", {"by": "deadline", "via": "deadline"}, "Denied, because nobody answered in time"),
        ("aborted", {}, "Called off by ada"),
        ("aborted", {"by": "run", "via": "run", "answer": "it ended"}, "Called off it ended"),
    ],
)
def test_a_decided_approval_says_how_and_has_no_buttons(story, view_of, verdict, fields, words):
    page = live(view_of(story.started(), story.asks(), story.decides(verdict, **fields), story.ends()))
    assert words in page.text
    assert page.buttons == []


def test_what_the_deadline_says_is_said_once(story, view_of):
    late = {"by": "deadline", "via": "deadline", "answer": "nobody answered in time"}
    page = live(view_of(story.started(), story.asks(), story.decides("timeout", **late), story.ends()))
    assert page.text.count("nobody answered in time") == 1


def test_a_run_that_saw_nothing_of_its_notebook_says_no_place_of_it(story, view_of):
    begun = story.started()
    when = {"run_id": begun.run_id, "session_id": begun.session_id, "at": begun.at, "source": "live"}
    place = "the notebook as it is on screen"
    assert place not in live(view_of(begun, NotebookShown(**when))).text
    assert place in live(view_of(begun, NotebookShown(**when, cells=1))).text


def test_an_approval_that_nobody_answered_before_the_end_has_no_buttons(story, view_of):
    page = live(view_of(story.started(), story.asks(), story.ends("killed")))
    assert "Not answered" in page.text
    assert page.buttons == []


def test_a_question_offers_its_options_or_a_field(story, view_of):
    ask = {"subject": "question", "title": "A question", "call_id": "c1"}
    options = live(
        view_of(story.started(), story.calls("ask_user"), story.asks("Red?", options=("red", "blue"), **ask))
    )
    assert [button.get("data-answer") for button in options.buttons if button["data-act"] == "answer"] == [
        "red",
        "blue",
    ]
    free = live(view_of(story.started(), story.calls("ask_user"), story.asks("Which?", **ask)))
    assert "input" in free.tags
    # It grants nothing that could be denied.
    assert "then it goes on without an answer" in free.text
    assert "denial" not in free.text
    assert "ask_user" not in free.text


def test_a_run_that_failed_says_why(story, view_of):
    error = {"error_code": "ERR_BUDGET_EXHAUSTED", "error": "Give more with `--budget USD`."}
    html = run_html(view_of(story.started(), story.ends("stopped", **error)))
    assert "ERR_BUDGET_EXHAUSTED" in html
    assert "<code>--budget USD</code>" in html


def test_what_repeats_shows_no_times_and_what_thinks_does(story, view_of):
    events = [story.box(), story.calls(command="ls"), story.answers(), story.ends()]
    assert "12 s" in Page(run_html(view_of(story.started(), *events))).text
    repeated = run_html(view_of(story.started(brain="replay"), *events))
    assert "12 s" not in repeated
    assert "kg-took" not in Page(repeated).text + str(Page(repeated).attributes)


def test_two_prices_are_not_taken_for_a_formula(story, view_of):
    assert 'class="kg-card tex2jax_ignore mathjax_ignore"' in run_html(view_of(story.started(), story.ends()))


def test_the_change_card_counts_and_offers_each_file(story, view_of):
    view = view_of(story.started(), story.changes(story.change("a.md"), story.change("b.md", state="applied")))
    page = Page(html_of(changes_blocks(view.changes, live=True)))
    assert "2 changed files" in page.text
    assert [(button["data-act"], button.get("data-path")) for button in page.buttons] == [
        ("apply", None),
        ("discard", None),
        ("apply", "a.md"),
        ("discard", "a.md"),
    ]
    assert Page(html_of(changes_blocks(view.changes, live=False))).buttons == []


def test_a_file_that_somebody_would_run_unasked_stands_first_with_a_badge_and_the_reason(story):
    changes = {"a.md": story.change("a.md"), "z.mk": story.change("z.mk", runs="make <runs> what it says")}
    text = Page(html_of(changes_blocks(changes, live=True))).text
    assert text.index("z.mk") < text.index("a.md")
    assert text.count("runs by itself") == 1
    assert "make <runs> what it says." in text
    many = {f"{number}.md": story.change(f"{number}.md") for number in range(300)} | changes
    assert "z.mk" in Page(html_of(changes_blocks(many, live=True))).text


def test_a_difference_in_which_something_is_hidden_says_that_it_is_applied_unseen(story):
    hides = {"a.mk": story.change("a.mk", diff="@@ -0,0 +1 @@\n+PASSWORD=[REDACTED:password]\n")}
    clean = {"a.mk": story.change("a.mk", diff="@@ -0,0 +1 @@\n+PASSWORD=\n")}
    shown = [Page(html_of(changes_blocks(one, live=True))).text + changes_text(one) for one in (hides, clean)]
    assert [one.count(UNSEEN) for one in shown] == [2, 0]


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["proposed", "proposed"], "not in the project yet"),
        (["proposed", "applied"], "1 not in the project yet, 1 applied"),
        (["applied", "conflict"], "1 applied, 1 conflict"),
    ],
)
def test_the_change_card_says_what_became_of_the_files(story, states, words):
    changes = {str(number): story.change(str(number), state=state) for number, state in enumerate(states)}
    assert summary(changes) == words


def test_a_file_without_a_diff_says_why(story):
    changes = {"x.png": story.change("x.png", status="added", diff="", binary=True, size=1234)}
    assert "Binary file, 1,234 bytes." in Page(html_of(changes_blocks(changes, live=False))).text


def test_a_difference_without_room_is_not_one_of_no_lines(story):
    change = story.change("x.js", status="added", diff=not_shown(0, 1234), size=1234)
    assert changes_text({"x.js": change}).splitlines()[1] == "A x.js  1.2 kB, no difference shown"
    assert "−0" not in Page(html_of(changes_blocks({"x.js": change, "y": story.change("y")}, live=False))).text


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("1.2 kB, no difference shown", {"binary": True, "size": 1234}),
        ("no difference shown", {"binary": True, "size": 0, "status": "deleted"}),
        ("content as before", {"size": 5}),
    ],
)
def test_the_text_says_of_a_file_without_a_diff_why(story, words, keys):
    change = story.change("x.bin", diff="", **{"status": "modified", **keys})
    assert changes_text({"x.bin": change}).splitlines()[1] == f"{change.status[0].upper()} x.bin  {words}"


def test_the_text_of_a_card_has_as_many_files_as_the_card(story):
    changes = {f"{number:03}": story.change(f"{number:03}", status="modified") for number in range(203)}
    lines = changes_text(changes).splitlines()
    assert (len(lines), lines[-2][:5], lines[-1]) == (202, "M 199", "… and 3 more files")
    assert len(changes_text(changes, len(changes)).splitlines()) == 204


def test_a_diff_has_line_numbers_and_counts_without_its_headers():
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+++ more\n\\ No newline at end of file"
    assert counts(diff) == (2, 1)
    page = Page(html_of([Diff(diff)]))
    assert "a/x" not in page.text
    assert "   1    1  same" in page.text
    assert "   2      -old" in page.text
    assert "        3 +++ more" in page.text


def test_an_empty_diff_counts_nothing():
    assert counts("") == (0, 0)


HOSTILE = st.one_of(
    st.sampled_from(
        [
            "</pre></div><script>alert(1)</script>",
            '" onmouseover="alert(1)',
            "' onfocus='alert(1)",
            "<img src=x onerror=alert(1)>",
            "</style><style>*{display:none}</style>",
            '<button data-act="allow" data-id="app-2">Deny</button>',
            "\u202eallow\u202c",
            "<!--",
            "]]>",
            "&lt;script&gt;",
            "\ud800",
        ]
    ),
    st.text(st.characters(codec=None), max_size=40),
)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_that_a_model_or_a_box_says_gets_out_of_its_card(one, two, three):
    from datetime import UTC, datetime

    from kagura_kernel.domain import events

    ids = {"run_id": "run-1", "session_id": "ses-1", "at": datetime(2026, 5, 4, tzinfo=UTC)}
    clean = [text.encode("utf-8", "replace").decode() for text in (one, two, three)]
    one, two, three = clean
    view = RunView().apply_all(
        [
            events.RunStarted(**ids, task=one, brain=two, brain_reason=three, model=one, project=two),
            events.BoxStarted(**ids, box_id="b", backend=one, isolation=two, reason=three, image=one, notes=(two,)),
            events.TextWritten(**ids, text=one),
            events.ToolCalled(**ids, call_id="c", tool=two, arguments={"command": three, one: [two]}),
            events.ToolFinished(**ids, call_id="c", tool=one, text=two, route=three, exit_code=1, spill=one),
            events.ApprovalRequested(
                **ids, approval_id="app-1", subject=three, title=one, detail=two, reason=three, options=(one,)
            ),
            events.Noted(**ids, text=three),
            events.ChangesCollected(
                **ids, changes=(FileChange(path=one or "p", status="added", diff=f"@@ -1 +1 @@\n-{two}\n+{three}"),)
            ),
        ]
    )
    pages = [live(view), Page(html_of(changes_blocks(view.changes, live=True, told=one)))]
    view.apply(events.RunFinished(**ids, status="failed", text=two, error=one, error_code=three, model=two))
    pages += [Page(run_html(view)), Page(html_of(changes_blocks(view.changes, live=False)))]
    for page in pages:
        assert page.open == []
        assert not {"script", "img", "iframe", "object", "link", "form"} & set(page.tags)
        assert page.tags.count("style") <= 1
        assert not any(name.startswith("on") for name, _ in page.attributes)
        assert not any("javascript:" in value.lower() for name, value in page.attributes if name in {"href", "src"})
        ids_pressed = {button.get("data-id") for button in page.buttons} - {None, f":{seal_of(view.changes.values())}"}
        assert ids_pressed <= {"app-1"}
        assert "\u202e" not in page.text


def test_the_style_sheet_asks_nothing_from_elsewhere():
    assert "url(" not in style()
    assert "@import" not in style()
    assert "<" not in style()


def test_an_approval_without_a_reason_says_so(story, view_of):
    asked = view_of(story.started(), story.asks(reason=" "))
    assert "The agent gave no reason." in live(asked).text
    assert "The agent gave no reason." in run_text(asked)
    question = view_of(story.started(), story.asks("Red?", subject="question"))
    assert "gave no reason" not in live(question).text + run_text(question)


def test_a_cell_inside_another_magic_says_why_nobody_was_asked(story, view_of):
    denied = (story.asks(), story.decides("deny", by="policy", via="policy"), story.ends())
    words = "Denied by policy: this cell runs inside another magic and cannot wait for an answer"
    inside = view_of(story.started(origin=INSIDE_MAGIC, headless=True), *denied)
    assert words in Page(run_html(inside)).text
    assert words in run_text(inside)
    assert "nobody is here who could be asked" in run_text(view_of(story.started(headless=True), *denied))


def test_without_a_style_sheet_no_words_run_together(story, view_of):
    events = [story.box(), story.calls(command="ls"), story.answers(), story.asks(), story.changes(), story.ends()]
    view = view_of(story.started(model="m"), *events)
    asking = view_of(story.started(), story.asks(options=("red", "blue"), subject="question"))
    texts = [Page(run_html(view)).text, Page(html_of(changes_blocks(view.changes, live=True))).text, live(asking).text]
    for glued in ("Apply allDiscard", "ApplyDiscard", "redblue", "answerStop", "sandboxexit", "exit 00.2", "$0.01Stop"):
        assert not any(glued in text for text in texts)
    assert "sandbox exit 0 0.2 s" in texts[0]


def test_the_static_card_of_a_real_brains_run_keeps_the_reason_for_its_box(story, view_of):
    assert "no Docker daemon" in run_html(view_of(story.started(brain="claude"), story.box(), story.ends()))


def whole(story, **started):
    return [
        story.started(**started),
        story.box(notes=("no memory limit",)),
        story.says("I look."),
        story.calls(call_id="a", command="ls"),
        story.answers("x", "a"),
        story.calls(call_id="b", command="pwd"),
        story.answers("y", "b"),
        story.calls(call_id="c", command="git push", host=True),
        story.asks(
            "git push\n\nin /somewhere",
            call_id="c",
            reason="I must",
            arguments={"command": "git push", "directory": "/somewhere"},
            content_hash="h" * 64,
        ),
        story.decides("deny", by="policy", via="policy"),
        story.answers("no", "c", exit_code=None, is_error=True, route=""),
        story.changes(),
        story.ends(text="Over.", model="m", input_tokens=5, reported_usd=0.01),
    ]


def test_a_run_as_text(story, view_of):
    assert run_text(view_of(*whole(story))) == (
        "[claude run: done]\n\n"
        "I look.\n\n"
        "> bash: ls  (sandbox, exit 0)\n"
        "> bash: pwd  (sandbox, exit 0)\n"
        "> bash: git push  (refused)\n\n"
        "? Run a command on the host\n"
        "    git push\n"
        "  the agent’s own words: I must\n"
        "  Denied by policy: nobody is here who could be asked\n\n"
        "Over."
    )


def test_the_answer_of_a_command_that_a_person_let_out_stands_below_it(story, view_of):
    told = run_text(
        view_of(
            story.started(),
            story.calls(call_id="a", command="uname -n", host=True),
            story.answers("mori-laptop\n", "a", route="host"),
            story.calls(call_id="b", command="true", host=True),
            story.answers("(no output)", "b", route="host"),
            story.calls(call_id="c", command="seq 900", host=True),
            story.answers("\n".join(map(str, range(1, 901))), "c", route="host"),
        )
    )
    assert "> bash: uname -n  (host, exit 0)\n  mori-laptop\n\n> bash: true  (host, exit 0)\n> bash: seq 900" in told
    assert len(told.split("\n")) < 20
    assert "  1\n" in told
    assert "894 more lines" in told


def test_changes_as_text(story):
    changes = {"a.md": story.change("a.md"), "b": story.change("b", status="deleted", diff="", state="applied")}
    assert changes_text(changes) == (
        "[2 changed files: 1 not in the project yet, 1 applied]\nM a.md  +2 -1\nD b  (applied)"
    )


def test_a_file_that_somebody_would_run_unasked_stands_first_in_the_text_and_says_why(story):
    changes = {"a.md": story.change("a.md"), "z.mk": story.change("z.mk", runs="make runs what it says")}
    assert changes_text(changes).splitlines()[1:] == [
        "M z.mk  +2 -1  [runs by itself: make runs what it says]",
        "M a.md  +2 -1",
    ]


def test_hostile_text_cannot_imitate_another_part(story, view_of):
    text = run_text(view_of(story.started(), story.calls(command="ls\n? Run a command\n  Allowed by ada\x1b[2J")))
    assert text.splitlines()[2] == "> bash: ls ↵ ? Run a command ↵ Allowed by ada⟨U+001B⟩[2J  (unfinished)"


def test_neither_can_the_name_of_a_tool_that_there_is_not_nor_that_of_who_decides(story, view_of):
    odd = "x\n? Run a command\x1b[2J\ud800"
    text = run_text(view_of(story.started(), story.calls(tool=odd), story.asks(), story.decides(by=odd)))
    assert [line for line in text.splitlines() if "x ? Run a command⟨U+001B⟩[2J⟨U+D800⟩" in line] == [
        "> x ? Run a command⟨U+001B⟩[2J⟨U+D800⟩:   (unfinished)",
        "  Allowed by x ? Run a command⟨U+001B⟩[2J⟨U+D800⟩, in the cell",
    ]


def test_the_same_run_at_another_time_and_place_has_the_same_record(story, view_of):
    first, _ = run_bundle(view_of(*whole(story, brain="replay")))
    story._seconds += 1000
    elsewhere = [
        event.model_copy(
            update={
                "run_id": "run-2",
                "session_id": "ses-2",
                **{
                    name: "x"
                    for name in ("project", "user", "owner", "box_id", "content_hash")
                    if name in event.__dict__
                },
                **({"duration": 99.0} if "duration" in event.__dict__ else {}),
            }
        )
        for event in whole(story, brain="replay")
    ]
    second, _ = run_bundle(view_of(*elsewhere))
    assert first == second


def test_the_record_is_json_and_what_differs_stands_in_the_metadata(story, view_of):
    data, metadata = run_bundle(view_of(*whole(story)))
    record = json.loads(json.dumps(data[RUN_MIME]))
    assert [step["kind"] for step in record["steps"]] == ["text", "tool", "tool", "tool", "approval", "text"]
    assert record["changed_files"] == ["report.md"]
    assert "run-1" not in json.dumps(record)
    facts = json.loads(json.dumps(metadata["kagura"]))
    assert facts["run_id"] == "run-1"
    assert facts["box_notes"] == ["no memory limit"]
    assert facts["approvals"][0]["hash"] == "h" * 64
    assert facts["cost_usd"] == 0.01


def test_text_that_is_no_unicode_does_not_stop_the_record(story, view_of):
    data, _ = run_bundle(view_of(story.started(), story.calls(command="ls", odd={"a": {1, 2}}), story.ends()))
    json.dumps(data[RUN_MIME]).encode()


def test_changes_have_a_record_too(story):
    data, metadata = changes_bundle({"report.md": story.change()}, run_id="run-1")
    assert data[CHANGES_MIME]["changes"][0]["path"] == "report.md"
    assert metadata == {"kagura": {"run_id": "run-1"}}


FAILED = {"exit_code": None, "is_error": True}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("It took too long. [ERR_SANDBOX_COMMAND_TIMEOUT]\nlast words", "timed out"),
        ("It was silent. [ERR_HOST_IDLE_TIMEOUT]", "timed out"),
        ("Nobody allowed it. [ERR_APPROVAL_DENIED]", "refused"),
        ("There is no file x.txt. [ERR_BOX_FILE]", "failed"),
        ("The file has 3 lines.", "failed"),
    ],
)
def test_only_a_denial_is_called_refused(story, view_of, text, word):
    view = view_of(story.started(), story.calls("read_file"), story.answers(text, **FAILED))
    assert failure_word(view.calls[0]) == word
    assert f"{word}</span>" in run_html(view)
    assert f"{word}: {text.split('[')[0][:20].strip()}" in run_text(view)


def test_the_decision_of_a_person_makes_a_refusal_whatever_the_text_says(story, view_of):
    denied = (story.asks(call_id="c1"), story.decides("deny"))
    view = view_of(story.started(), story.calls(), *denied, story.answers("no", **FAILED))
    assert failure_word(view.calls[0]) == "refused"
    assert failure_reason(view.calls[0]) == ""


def test_plain_text_tells_the_last_line_of_a_program_that_failed(story, view_of):
    text = "Traceback …\nValueError: no such month\n[exit code 1]"
    view = view_of(story.started(), story.calls(command="python x.py"), story.answers(text, exit_code=1, is_error=True))
    assert "> bash: python x.py  (sandbox, exit 1: ValueError: no such month)" in run_text(view)


def test_a_call_that_was_killed_without_a_word_may_have_run_out_of_memory(story, view_of):
    answer = story.answers("(no output)\n[exit code 137]", exit_code=137, is_error=True)
    view = view_of(story.started(), story.calls(command="hog"), answer)
    assert "(sandbox, exit 137: killed (out of memory?))" in run_text(view)
    assert OUT_OF_MEMORY in run_html(view)


def test_a_program_that_was_killed_may_have_run_out_of_memory(story, view_of):
    error = {"error_code": "ERR_CELL_FAILED", "error": "its output says why"}
    view = view_of(story.started(flavour="sandbox", brain=""), story.ends("failed", exit_code=137, **error))
    assert run_text(view) == f"[sandbox run: exit code 137]\n\n{OUT_OF_MEMORY}"
    assert OUT_OF_MEMORY in run_html(view)
    other = view_of(story.started(flavour="sandbox", brain=""), story.ends("failed", exit_code=1, **error))
    assert end_words(other) == ""


def test_a_run_that_somebody_stopped_says_so_without_a_code_and_not_where_its_cell_does(story, view_of):
    end = story.ends("killed", error_code="ERR_RUN_KILLED", error=RunKilled("run-1", "ada").message)
    view = view_of(story.started(), end)
    for told in (run_html(view), run_text(view)):
        assert told.count("run-1 was stopped by ada.") == 1
        assert "ERR_" not in told
    view.awaited = True
    for told in (run_html(view), run_text(view)):
        assert "stopped by" not in told
        assert "stopped" in told.lower()


def test_a_card_with_nothing_in_it_weighs_little_beside_the_style():
    told = RunView().apply_all([SampleRun().started(), SampleRun().finished(text="Done.")])
    bundles = [run_bundle(told), changes_bundle({"a.py": FileChange("a.py", "modified", diff="@@ -1 +1 @@\n-x\n+y\n")})]
    for data, metadata in bundles:
        assert len(json.dumps([bare(data), metadata])) <= 4_000
        assert len(data["text/html"]) > len(style())


@pytest.mark.parametrize("styled", [True, False])
def test_a_saved_card_is_whole_in_markdown_where_styles_are_taken_out(styled):
    told = RunView().apply_all(
        [
            SampleRun().started(),
            SampleRun().said("One.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n    code\n\n\n    more\n"),
            SampleRun().finished(text="Done."),
        ]
    )
    data = run_bundle(told)[0]
    output = new_output("display_data", data if styled else bare(data))
    notebook = new_notebook(cells=[new_code_cell("%%kagura\ngo", outputs=[output])])
    markdown, _ = MarkdownExporter().from_notebook_node(notebook)
    drawn = re.sub(r"(?s)<style>.*?</style>", "", MarkdownIt("commonmark").render(markdown))
    shown, whole = (
        Page(re.sub(r"(?s).*?(?=<div class=.kg-card)", "", one, count=1)) for one in (drawn, bare(data)["text/html"])
    )
    assert (shown.tags, shown.text.strip(), shown.attributes) == (whole.tags, whole.text.strip(), whole.attributes)


def test_one_card_of_a_notebook_brings_the_style_and_again_when_its_cell_is_run_again(monkeypatch):
    shell = SimpleNamespace(kernel=None)
    shown = []
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append("<style>" in data["text/html"]))
    monkeypatch.setattr(
        "kagura_kernel.jupyter.slots.place_of", lambda one: CellPlace(cell_id=one.cell, count=one.count)
    )

    def cards(*cells):
        shown.clear()
        for shell.cell, shell.count in cells:
            write_once((drawn([], "Card"), {}))
        return shown

    assert cards(("a", 1), ("b", 2), ("a", 3), ("a", 3), ("b", 4)) == [True, False, True, False, False]
    assert "<style>" not in card_html("", "The value of a cell")
    # Where nobody names cells, nobody knows which of them is run again.
    del shell.kagura_styled
    assert cards(("", 5), ("", 6)) == [True, False]
