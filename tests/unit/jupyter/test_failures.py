from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import RunKilled
from kagura_kernel.views.card import run_text
from kagura_kernel.views.record import run_html
from kagura_kernel.views.status import OUT_OF_MEMORY, end_words, failure_reason, failure_word

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
