from __future__ import annotations

import pytest

from kagura_kernel.cockpit.understanding import (
    AnswerSaid,
    CommandSaid,
    Standing,
    StatusAsked,
    StopSaid,
    TaskSaid,
    Unclear,
    understand,
    waits_for_nobody,
)
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from tests.support.sample_run import SampleRun

RUN = SampleRun()
IDLE, NEW = Standing(ran=True), Standing()


def power(number: int = 1) -> ApprovalRequest:
    return RUN.request(f"app-{number}")


def question(number: int = 9, *options: str) -> ApprovalRequest:
    return RUN.request(f"app-{number}", kind=ApprovalKind.QUESTION, options=options)


def going(*waiting: ApprovalRequest) -> Standing:
    return Standing("run-1", waiting, ran=True)


def test_a_first_message_is_a_task_and_a_later_one_goes_on_from_it():
    assert understand(" Count the rows. ", NEW) == TaskSaid("Count the rows.", goes_on=False)
    assert understand("And the columns?", IDLE) == TaskSaid("And the columns?", goes_on=True)


@pytest.mark.parametrize("text", ["/kill last", "/status", "  /approve app-1 this session"])
def test_a_slash_is_a_command_whatever_runs(text):
    for standing in (NEW, IDLE, going(power())):
        assert understand(text, standing) == CommandSaid(text.strip()[1:])


@pytest.mark.parametrize("text", ["/", "/ what", "//", "/1"])
def test_a_slash_alone_is_no_command(text):
    assert isinstance(understand(text, NEW), TaskSaid)


@pytest.mark.parametrize("text", ["status", "Status", "STATUS!"])
def test_status_alone_asks_for_it(text):
    assert understand(text, going()) == StatusAsked()
    assert isinstance(understand(f"{text} of the orchids", IDLE), TaskSaid)


@pytest.mark.parametrize("text", ["stop", "Kill.", "abort"])
def test_stop_is_about_the_run_that_goes_on(text):
    assert understand(text, going(power())) == StopSaid("run-1")
    assert understand(text, IDLE) == Unclear(text, "nothing runs")


@pytest.mark.parametrize(
    ("text", "allow"), [("yes", True), ("OK!", True), ("allow", True), ("no", False), ("Deny.", False)]
)
def test_a_bare_yes_or_no_answers_the_only_approval_that_waits(text, allow):
    assert understand(text, going(power())) == AnswerSaid("app-1", allow)


def test_where_several_wait_a_yes_is_for_none_of_them():
    assert understand("yes", going(power(1), power(2))) == Unclear("yes", "which approval", ("app-1", "app-2"))


@pytest.mark.parametrize("text", ["yes", "No.", "ok", "/approve", "/deny"])
@pytest.mark.parametrize("standing", [NEW, IDLE, going()])
def test_where_none_waits_a_yes_or_a_no_is_no_task(text, standing):
    assert understand(text, standing) == Unclear(text, "nothing waits")


@pytest.mark.parametrize("text", ["yes", "no", "/approve", "/deny", "the blue one"])
def test_a_word_does_not_answer_what_was_asked_after_it(text):
    later = question() if text == "the blue one" else power()
    assert understand(text, Standing("run-1", unseen=[later], ran=True)) == Unclear(text, "asked later", (later.id,))


def test_a_word_is_about_what_was_asked_before_it_whatever_was_asked_since():
    standing = Standing("run-1", [power(1)], [power(2), question()], ran=True)
    assert understand("yes", standing) == AnswerSaid("app-1", allow=True)


@pytest.mark.parametrize(("text", "allow"), [("/approve", True), ("/Deny", False)])
def test_a_command_alone_decides_the_only_approval_that_waits(text, allow):
    assert understand(text, going(power())) == AnswerSaid("app-1", allow)
    assert understand(text, going(power(), question())) == AnswerSaid("app-1", allow)
    assert understand(text, going(power(1), power(2))) == Unclear(text, "which approval", ("app-1", "app-2"))


def test_a_question_is_denied_by_a_command_alone_and_never_approved_without_an_answer():
    assert understand("/deny", going(question())) == AnswerSaid("app-9", allow=False)
    assert understand("/approve", going(question())) == Unclear("/approve", "which option", ("app-9",))


@pytest.mark.parametrize(
    ("text", "answer"), [("2", "blue"), ("BLUE", "blue"), ("3", "4"), ("4", "4"), ("mauve", "mauve")]
)
def test_an_answer_is_an_option_by_its_words_or_its_number_or_a_text(text, answer):
    said = understand(text, going(question(9, "red", "blue", "4")))
    assert said == AnswerSaid("app-9", allow=True, text=answer)


@pytest.mark.parametrize("text", ["0", "5", "9" * 5000])
def test_a_number_that_no_option_bears_is_no_answer(text):
    assert understand(text, going(question(9, "red", "blue", "4"))) == Unclear(text, "which option", ("app-9",))


def test_a_number_is_a_text_where_no_options_were_given():
    assert understand("7", going(question())) == AnswerSaid("app-9", allow=True, text="7")


@pytest.mark.parametrize("text", ["/etc/hosts is broken, fix it", "/tmp is full", "/etc/hosts", "/home/ann/x"])
def test_a_path_begins_a_task(text):
    assert understand(text, NEW) == TaskSaid(text, goes_on=False)
    assert not waits_for_nobody(text)


@pytest.mark.parametrize("text", ["/stauts", "/aply all of it", "/runs", "/kill\nrun-1"])
def test_a_slip_and_a_word_alone_are_commands(text):
    assert understand(text, NEW) == CommandSaid(text[1:])


@pytest.mark.parametrize(
    "text", ["yes please, and then push it", "I would say yes", "approve everything", "no idea", "yes\nyes", "да"]
)
def test_prose_that_sounds_like_a_yes_gives_no_power(text):
    assert not isinstance(understand(text, going(power())), AnswerSaid)


def test_a_text_answers_the_only_question_and_is_never_an_approval():
    assert understand("The blue one.", going(question())) == AnswerSaid("app-9", allow=True, text="The blue one.")
    assert understand("The blue one.", going(question(), power())) == AnswerSaid(
        "app-9", allow=True, text="The blue one."
    )
    assert understand("Blue.", going(question(8), question(9))) == Unclear(
        "Blue.", "which approval", ("app-8", "app-9")
    )


def test_a_no_is_a_word_to_a_question_and_a_denial_of_what_gives_power():
    assert understand("no", going(question())) == AnswerSaid("app-9", allow=True, text="no")
    assert understand("no", going(question(), power())) == AnswerSaid("app-1", allow=False)


def test_a_text_while_a_run_goes_on_is_left_to_whoever_can_tell():
    assert understand("Use tabs.", going()) == Unclear("Use tabs.", "while it runs", ("run-1",))
    assert understand("Use tabs.", going(power())) == Unclear("Use tabs.", "while it runs", ("run-1",))


def test_nothing_means_nothing():
    assert understand(" \n", IDLE) == Unclear(" \n", "nothing said")


@pytest.mark.parametrize(
    "text", ["stop", " Yes! ", "no", "STATUS", "/kill", "/Kill run-1", "/approve app-1 once", "/deny app-1"]
)
def test_what_is_about_what_goes_on_waits_for_nobody(text):
    assert waits_for_nobody(text)


@pytest.mark.parametrize("text", ["", "stop the clock", "/apply", "/resume", "/killer", "resume", "blue", "/"])
def test_what_may_begin_or_change_something_waits_for_its_turn(text):
    assert not waits_for_nobody(text)


def test_resume_alone_is_a_command_unless_something_runs():
    assert understand("Resume", IDLE) == CommandSaid("resume")
    assert understand("resume the count", IDLE) == TaskSaid("resume the count", goes_on=True)
    assert understand("resume", going()) == Unclear("resume", "while it runs", ("run-1",))
    assert understand("resume", going(question())) == AnswerSaid("app-9", allow=True, text="resume")
