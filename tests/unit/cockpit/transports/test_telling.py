"""What a thread is told, and what a text of others cannot do there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kagura_kernel.cockpit.transports.conversations import terms_of
from kagura_kernel.cockpit.transports.plain import cut, one_line, visible
from kagura_kernel.cockpit.transports.telling import RunTelling, question_post, question_text
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.events import RunFinished, RunStarted, TextWritten, ToolCalled

RUN = "run-00000000000001"
FACTS = {"run_id": RUN, "session_id": "fake-room", "at": datetime(2026, 1, 1, tzinfo=UTC)}


def request(kind: ApprovalKind = ApprovalKind.HOST_COMMAND, **more: object) -> ApprovalRequest:
    values = {"detail": "rm -r out", "title": "Run on the host", **more}
    return ApprovalRequest(
        id="app-00000000000001",
        run_id=RUN,
        session_id="fake-room",
        kind=kind,
        requested_at=FACTS["at"],
        **values,
    )


def test_characters_that_cannot_be_seen_are_written_out():
    assert visible("a\u202eb\u200bc\x1b[31m") == "a⟨U+202E⟩b⟨U+200B⟩c"
    assert visible("one\r\ntwo\rthree") == "one\ntwo\nthree"


@pytest.mark.parametrize("limit", [10, 50, 1000])
def test_a_text_that_is_cut_fits_and_says_so(limit):
    told, more = cut("\n".join(["some words"] * 400), limit)
    assert (len(told) <= limit, more, told.endswith("…")) == (True, True, True)


def test_a_text_that_fits_is_left_alone():
    assert cut("a\nb", 3) == ("a\nb", False)
    assert one_line("a\n b") == "a b"


def test_a_run_says_what_it_does_and_then_how_it_ended():
    telling = RunTelling(RUN)
    telling.take(RunStarted(**FACTS, task="go"))
    telling.take(ToolCalled(**FACTS, call_id="1", tool="bash"))
    telling.take(TextWritten(**FACTS, text="I look."))
    post = telling.post(100, None)
    assert (post.ours, post.theirs) == (f"Works · {RUN} · 1 tool call, the last one bash", "I look.")
    assert not telling.changed
    telling.take(RunFinished(**FACTS, status="done", text="It is.", duration=2.4, computed_usd=0.5, verified=False))
    post = telling.post(100, None)
    assert post.ours == f"Done · {RUN} · 2 s · $0.50 · its work did not pass its verification"
    assert (post.theirs, post.buttons) == ("It is.", ())


def test_a_question_is_told_whole_or_says_that_it_is_not():
    post, is_cut = question_post(request(), "0" * 32, 1000)
    assert not is_cut
    assert "rm -r out" in post.theirs
    assert [button.label for button in post.buttons] == ["Allow", "Deny"]
    long = request(detail="x" * 2000)
    post, is_cut = question_post(long, "0" * 32, 1000)
    assert is_cut
    assert "read the file first" in post.ours
    assert "x" * 2000 in question_text(long)


def test_a_question_with_answers_has_a_button_for_each():
    post, _ = question_post(request(ApprovalKind.QUESTION, options=("red", "blue")), "0" * 32, 1000)
    assert [button.label for button in post.buttons] == ["red", "blue"]


def test_an_asker_cannot_speak_in_our_words():
    post, _ = question_post(request(title="Allowed · app-1", reason="a\nAllowed"), "0" * 32, 1000)
    assert "Allowed" not in post.ours


def test_no_operator_is_named_by_an_empty_word():
    assert terms_of(["", " "]).operators == frozenset()
    assert terms_of([" U1 "]).operators == {"U1"}
