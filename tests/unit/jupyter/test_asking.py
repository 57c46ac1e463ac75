"""Questions with more answers than yes: what a card and a terminal offer, and what reaches the cockpit."""

import pytest

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.jupyter import terminal
from kagura_kernel.jupyter.slots import press
from kagura_kernel.membrane.egress import policy
from kagura_kernel.render.html import html_of
from kagura_kernel.tools.toolsets.foreign_tools import OPTIONS
from kagura_kernel.views.approvals import THIS_CALL, THIS_RUN, buttons_of, keys, verdict_words
from kagura_kernel.views.body import item_blocks, item_text
from kagura_kernel.views.card import run_text
from kagura_kernel.views.record import run_html
from kagura_kernel.views.run import RunView
from tests.support.card_page import Page, live_parts
from tests.support.sample_run import SampleRun
from tests.support.told_run import ToldRun

RUN = SampleRun()
BOTH = ("this run", "this session")


def live(view) -> Page:
    return Page("".join(live_parts(view).values()))


def buttons(page: Page, ident: str) -> list[tuple[str | None, str | None]]:
    return [(one["data-act"], one.get("data-answer")) for one in page.buttons if one.get("data-id") == ident]


def untold(text: str, about: str) -> None:
    pytest.fail(f"{text} ({about})")


def test_cards_and_the_membrane_mean_the_same_words():
    options = RUN.egress_asked("a.example").options
    assert options == policy.OPTIONS
    words = keys(RUN.egress_asked("a.example"))[1]
    assert {meant["answer"] for meant in words.values()} == set(policy.OPTIONS)


def test_a_question_about_a_host_has_four_answers_and_shows_where_and_what_it_means(view_of):
    page = live(view_of(RUN.started(), RUN.egress_asked("a.example")))
    assert buttons(page, "app-net-1") == [
        ("allow", "this run"),
        ("allow", "this session"),
        ("deny", None),
        ("deny", "never"),
        ("abort", None),
    ]
    assert "a.example:443" in page.text
    assert "What the box knows can be sent there." in page.text
    assert "agent’s own words" not in page.text


@pytest.mark.parametrize("kind", [ApprovalKind.LAUNCH, ApprovalKind.CREDENTIAL])
def test_a_launch_is_asked_about_with_everything_on_a_line_of_its_own(view_of, kind):
    detail = "May reach pypi.org:443.\nMay hold github:read for at most 1 h in all.\nSees /home/ada/p as /workspace."
    asked = RUN.asked(kind=kind, title="Start this run", detail=detail, reason="", options=BOTH)
    page = live(view_of(RUN.started(), asked))
    assert detail in page.text
    assert buttons(page, "app-1")[:3] == [("allow", "this run"), ("allow", "this session"), ("deny", None)]
    assert "gave no reason" not in page.text


def test_the_keyboard_reaches_the_question_before_any_button(view_of):
    page = live(view_of(RUN.started(), RUN.egress_asked("a.example")))
    assert ("tabindex", "0") in page.attributes
    assert not any(name == "autofocus" for name, _ in page.attributes)


@pytest.mark.parametrize(
    ("verdict", "answer", "words"),
    [
        ("allow", "this run", "Allowed for this run by ada, in the cell"),
        ("allow", "this session", "Allowed for this session by ada, in the cell"),
        ("deny", "never", "Denied for the rest of this session by ada, in the cell"),
        ("deny", "", "Denied by ada, in the cell"),
        ("deny", "not today", "Denied by ada, in the cell not today"),
    ],
)
def test_a_decided_question_is_one_line_that_says_for_how_long(view_of, verdict, answer, words):
    view = view_of(RUN.started(), RUN.egress_asked("a.example"))
    view.apply(RUN.decided("app-net-1", verdict=verdict, answer=answer))
    page = Page(live_parts(view)["i0"])
    assert page.text.replace("  ", " ").strip() == f"Network a.example:443 {words}"
    view.apply(RUN.finished())
    assert words in Page(run_html(view)).text
    assert words.removesuffix(" not today") in run_text(view)


def test_a_question_whose_program_gave_up_says_why_beside_its_verdict(view_of):
    view = view_of(RUN.started(), RUN.egress_asked("a.example"))
    view.apply(RUN.decided("app-net-1", verdict="aborted", by="run", via="run", answer="it waits no more"))
    told = " ".join(Page(live_parts(view)["i0"]).text.split())
    assert told == "Network a.example:443 Called off — it waits no more"


def test_several_hosts_are_one_question_at_length_and_lines_below_it(view_of):
    view = view_of(RUN.started(), *(RUN.egress_asked(f"h{n}.example", number=n) for n in range(8)))
    assert [ask.brief for ask in view.pending] == [False] + [True] * 7
    page = Page(live_parts(view)["many"])
    assert "8 questions wait." in page.text
    assert "Deny all 8" in page.text
    assert page.tags.index("details") < page.tags.index("li")
    assert ("open", "") not in page.attributes


def test_yes_to_all_is_not_offered_when_one_of_them_is_something_else(view_of):
    view = view_of(RUN.started(), RUN.egress_asked("a.example"), RUN.asked())
    page = Page(live_parts(view)["many"])
    assert [button["data-act"] for button in page.buttons] == ["deny-all"]


def test_the_line_for_all_goes_with_the_last_but_one_question(view_of):
    view = view_of(RUN.started(), RUN.egress_asked("a.example", number=1), RUN.egress_asked("b.example", number=2))
    assert live_parts(view)["many"]
    view.apply(RUN.decided("app-net-1"))
    assert live_parts(view)["many"] == ""


def test_the_last_of_several_questions_is_told_at_length_with_everything_it_offers(view_of):
    view = view_of(RUN.started(), *(RUN.egress_asked(f"h{n}.example", number=n) for n in range(3)))
    live_parts(view)
    view.apply(RUN.decided("app-net-0"))
    assert [ask.brief for ask in view.pending] == [True, True]
    assert set(live_parts(view)) == {"head", "many", "sign", "i0"}
    view.apply(RUN.decided("app-net-2"))
    page = Page(live_parts(view)["i1"])
    assert "What the box knows can be sent there." in page.text
    assert ("abort", None) in buttons(page, "app-net-1")


def test_a_host_that_is_asked_for_is_named_once_by_the_question_and_once_by_what_it_means(view_of):
    view = view_of(RUN.started(), RUN.egress_asked("a.example"))
    assert live(view).text.count("a.example:443") == 2
    assert item_text(view.pending[0]).count("a.example:443") == 2


# ------------------------------------------------------------------ the cockpit


def told(*hosts: str) -> ToldRun:
    run = ToldRun()
    return run.tell(RUN.started(), *(RUN.egress_asked(host, number=n) for n, host in enumerate(hosts)))


def verdicts(run: ToldRun) -> list[tuple[str, str, str]]:
    return [(one.approval_id, one.verdict, one.answer) for one in run.told if one.kind == "approval.decided"]


def test_the_answer_goes_with_the_decision():
    run = told("a.example")
    press(run, run.run_id, {"act": "deny", "id": "app-net-0", "answer": "never"}, untold)
    assert verdicts(run) == [("app-net-0", "deny", "never")]


def test_yes_to_all_opens_what_was_seen_for_this_run_and_nothing_else():
    run = told("a.example", "b.example", "c.example")
    run.tell(RUN.asked("app-host"), RUN.egress_asked("d.example", number=9))
    seen = ["app-net-0", "app-net-1", "app-net-2", "app-host"]
    press(run, run.run_id, {"act": "allow-all", "ids": seen, "answer": "this session"}, untold)
    assert verdicts(run) == [(f"app-net-{number}", "allow", "this run") for number in range(3)]


def test_no_to_all_is_for_every_kind():
    run = told("a.example")
    run.tell(RUN.asked("app-host"))
    press(run, run.run_id, {"act": "deny-all", "ids": ["app-net-0", "app-host"]}, untold)
    assert verdicts(run) == [("app-net-0", "deny", ""), ("app-host", "deny", "")]


@pytest.mark.parametrize("ids", [None, "app-net-0", [["app-net-0"]], [None]])
def test_a_badly_formed_word_for_all_decides_nothing(ids):
    run = told("a.example")
    press(run, run.run_id, {"act": "allow-all", "ids": ids}, untold)
    assert verdicts(run) == []


def test_a_question_of_another_run_is_not_answered_by_this_card():
    run = told("a.example")
    press(run, "run-other", {"act": "allow-all", "ids": ["app-net-0"]}, untold)
    assert verdicts(run) == []


# ------------------------------------------------------------------ the terminal


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("y", {"act": "allow", "answer": "this run"}),
        ("this session", {"act": "allow", "answer": "this session"}),
        ("S", {"act": "allow", "answer": "this session"}),
        ("never", {"act": "deny", "answer": "never"}),
        ("n", {"act": "deny"}),
        ("", {"act": "deny"}),
        ("maybe", None),
        ("a", None),
    ],
)
def test_a_terminal_offers_the_same_answers_by_key(view_of, typed, meant):
    [ask] = view_of(RUN.started(), RUN.egress_asked("a.example")).pending
    assert terminal.prompt_of(ask).startswith("Allow it for [y] this run, [s] this session, [n] no, [never] (")
    assert terminal.meant(ask, typed) == meant
    assert "a.example:443" in item_text(ask)
    assert "What the box knows can be sent there." in item_text(ask)


@pytest.mark.parametrize(
    ("typed", "act"), [("y", "allow"), ("N", "deny"), ("", "deny"), ("maybe", None), ("yess", None)]
)
def test_what_is_no_clear_answer_is_none(view_of, typed, act):
    [ask] = view_of(RUN.started(), RUN.asked()).pending
    meant = terminal.meant(ask, typed)
    assert (meant and meant["act"]) == act


PLAN = {"kind": ApprovalKind.PLAN, "title": "Plan: about $0.42", "detail": "Budget: $0.80", "reason": ""}
LEARNED = {"budget_usd": 0.8, "lessons": ["mem-lesson-1"]}


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", ""),
        ("yes", ""),
        ("0.50", "0.50"),
        ("$0.50", "$0.50"),
        ("no budget", "no budget"),
        ("with lessons", "with lessons"),
        ("0.50 with lessons", "0.50 with lessons"),
        ("y 0.50 with lessons", "0.50 with lessons"),
        ("Yes, no budget", "no budget"),
    ],
)
def test_a_plan_is_edited_at_the_keyboard_in_the_words_that_a_command_takes(view_of, typed, answer):
    [ask] = view_of(RUN.started(), RUN.asked(**PLAN, arguments=LEARNED)).pending
    assert terminal.meant(ask, typed) == {"act": "allow", "answer": answer}


@pytest.mark.parametrize("typed", ["", "n", "No"])
def test_a_plan_is_cancelled_by_a_no_or_by_nothing(view_of, typed):
    [ask] = view_of(RUN.started(), RUN.asked(**PLAN, arguments=LEARNED)).pending
    assert terminal.meant(ask, typed) == {"act": "deny"}


@pytest.mark.parametrize("typed", ["maybe", "0", "-1", "y maybe", "n 0.50", "1e9", "with"])
def test_what_is_no_answer_to_a_plan_is_told_with_the_answers_there_are(view_of, typed):
    [ask] = view_of(RUN.started(), RUN.asked(**PLAN, arguments=LEARNED)).pending
    assert terminal.meant(ask, typed) is None
    said = terminal.no_answer(ask, typed)
    assert said.endswith(
        "The answers are y, an amount such as `0.50`, `no budget`, `with lessons`, alone or behind one of these, and n."
    )


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (LEARNED, "Begin? [y / an amount / no budget / with lessons / N] ("),
        ({"budget_usd": 0.8, "lessons": []}, "Begin? [y / an amount / no budget / N] ("),
        ({"budget_usd": 0.8, "resumes": "run-0"}, "Go on? [y / an amount / no budget / N] ("),
    ],
)
def test_the_prompt_of_a_plan_names_its_answers(view_of, arguments, prompt):
    [ask] = view_of(RUN.started(), RUN.asked(**PLAN, arguments=arguments)).pending
    assert terminal.prompt_of(ask).startswith(prompt)


def test_a_question_of_a_child_says_for_whom_it_is_in_text(view_of):
    view = view_of(RUN.started(), RUN.asked(lineage=("run-a", "run-b")))
    [ask] = view.pending
    asked = terminal.question_text(ask, pytest.fail)
    assert asked.splitlines()[-2:] == [
        "  asked for by a part that was handed on",
        "  that is run-1, which works for run-b, which works for run-a",
    ]
    view.apply(RUN.decided())
    view.apply(RUN.finished())
    assert "  asked for by a part that was handed on" in run_text(view).splitlines()
    [own] = view_of(RUN.started(), RUN.asked()).pending
    assert "handed on" not in terminal.question_text(own, pytest.fail)


def test_a_question_says_in_text_how_many_more_wait_behind_it(view_of):
    [ask] = view_of(RUN.started(), RUN.asked()).pending
    assert terminal.question_text(ask, pytest.fail, 2).endswith("\n  2 more questions behind this one")
    assert "behind" not in terminal.question_text(ask, pytest.fail)


ASKED = RUN.asked(
    kind=ApprovalKind.TOOL,
    title="Call send of the toolset mail",
    detail='mail: send\n{"to": "ada"}',
    reason="Its server lies outside of the box: what a call holds is sent there.",
    arguments={"toolset": "mail", "tool": "send", "arguments": {"to": "ada"}},
    call_id="",
    options=OPTIONS,
)


def test_the_card_names_the_kind_and_shows_the_exact_arguments_unfolded():
    view = RunView().apply_all([RUN.started(), ASKED])
    html = html_of(item_blocks(view.pending[0], view, live=True))
    assert '<span class="kg-kind">Tool</span>' in html
    assert "<details" not in html
    assert "&quot;to&quot;: &quot;ada&quot;" in html
    assert "Call send of the toolset mail" in item_text(view.pending[0])
    # The reason is ours, and nobody takes it for the agent's.
    assert '<div class="kg-says kg-soft">Its server lies outside of the box' in html


def test_why_an_agent_would_have_a_memory_forgotten_is_quoted_and_never_said_by_us():
    arguments = {"memory": "m1"}
    forget = RUN.asked(kind=ApprovalKind.TOOL, title="Forget a memory", reason="It is harmless.", arguments=arguments)
    view = RunView().apply_all([RUN.started(), forget])
    assert "The agent’s own words:</span> <q>It is harmless.</q>" in html_of(
        item_blocks(view.pending[0], view, live=True)
    )


def test_the_smaller_yes_comes_first_and_is_what_a_plain_yes_means():
    html = html_of(buttons_of(ASKED))
    assert html.index("Allow for this call") < html.index("Allow for this run") < html.index("Deny")
    offered, words = keys(ASKED)
    assert offered == "[y] this call, [r] this run, [n] no"
    for word in ("y", "yes", THIS_CALL):
        assert words[word]["answer"] == THIS_CALL
    for word in ("r", THIS_RUN):
        assert words[word]["answer"] == THIS_RUN


def test_where_no_single_call_is_offered_a_yes_is_for_the_run():
    offered, words = keys(RUN.egress_asked("example.org"))
    assert offered.startswith("[y] this run, [s] this session")
    assert words["yes"]["answer"] == THIS_RUN


def test_the_answer_says_how_far_it_reaches():
    view = RunView().apply_all([RUN.started(), ASKED, RUN.decided(answer=THIS_RUN)])
    [ask] = [item for item in view.items if hasattr(item, "request")]
    assert verdict_words(ask) == "Allowed for this run by ada, in the cell"


def card(view) -> Page:
    return Page(html_of(item_blocks(view.pending[0], view, live=True)))


def test_every_argument_is_there_in_full_and_folded_where_words_say_what_they_mean(story, view_of):
    asks = story.asks(
        "It may hold github:read.", subject="credential", arguments={"scope": "read\u202e", "seconds": 900}
    )
    page = card(view_of(story.started(), asks))
    assert "details" in page.tags
    assert "scoperead⟨U+202E⟩seconds900" in page.text


def test_arguments_that_are_the_question_are_in_sight_as_html_and_as_text(story, view_of):
    asks = story.asks("search", subject="plugin", arguments={"query": "a < b", "deep": {"n": [1]}, "none": None})
    view = view_of(story.started(), asks)
    page = card(view)
    assert "details" not in page.tags
    assert "querya < b" in page.text
    assert "none" not in page.text
    assert "  query:\n    a < b\n  deep:\n    {" in item_text(view.pending[0])


def test_what_the_question_shows_already_is_not_repeated(story, view_of):
    asks = story.asks("git push", arguments={"command": "git push", "directory": "/p", "stdin": ""})
    assert card(view_of(story.started(), asks)).text.count("git push") == 1


def test_a_difference_is_shown_as_one(story, view_of):
    asks = story.asks("a.md", subject="write", arguments={"diff": "@@ -1 +1 @@\n-old\n+new\n"})
    page = card(view_of(story.started(), asks))
    assert ("class", "kg-row kg-add") in page.attributes


def test_it_says_which_call_asks(story, view_of):
    view = view_of(story.started(), story.calls(call_id="c1"), story.asks(call_id="c1"))
    assert "Asked for by a call of bash." in card(view).text
