"""What a person says to a run that goes on: stored, told to its brain, refused where nobody listens."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from kagura_kernel.cockpit import controls
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.cockpit.restart import going_on, stopped
from kagura_kernel.domain.errors import NotHeard, RunOver, RunUnknown, UsageError
from kagura_kernel.domain.events import PersonHeard, PersonSaid
from kagura_kernel.domain.sentences import LONGEST, Sentence
from kagura_kernel.journal import sentences
from kagura_kernel.journal.schema import messages
from kagura_kernel.jupyter.launch import successor, want
from kagura_kernel.jupyter.slots import press
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Listen
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.patience import wait_until
from kagura_kernel.views.body import item_text
from kagura_kernel.views.messages import ABOUT
from kagura_kernel.views.run import RunView
from tests.support.card_page import live_parts
from tests.support.redactors import shared_redactor

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LISTENING = [Listen(), "As you say."]


def begun(cockpit, project: Path, **fields) -> RunHandle:
    handle = cockpit.launch(RunRequest(task="go", project=project, **fields))
    handle.wait_begun()
    return handle


def said(cockpit, run_id: str) -> list[PersonSaid]:
    return [row.event for row in cockpit.journal.events(run_id=run_id, kinds=("person.said",))]


def test_it_is_stored_before_the_brain_hears_it_and_says_who_spoke_where(cockpit_with, project):
    cockpit = cockpit_with(LISTENING)
    handle = begun(cockpit, project)
    cockpit.say(handle.run_id, Sentence("the second sheet", "ann", "cell"))
    assert handle.result(60).text == "As you say."
    rows = cockpit.journal.events(run_id=handle.run_id, kinds=("person.said", "person.heard"))
    told, heard = (row.event for row in rows)
    assert isinstance(told, PersonSaid)
    assert isinstance(heard, PersonHeard)
    assert (told.text, told.by, told.via, told.refused) == ("the second sheet", "ann", "cell", "")
    assert heard.sentence_id == told.sentence_id


def test_another_process_says_it_and_nothing_of_it_stays_in_the_mailbox(cockpit_with, project, elsewhere):
    cockpit = cockpit_with(LISTENING)
    handle = begun(cockpit, project)
    sentences.say(elsewhere, handle.run_id, Sentence("the second sheet", "bob", "terminal"), str)
    assert handle.result(60).text == "As you say."
    assert [(one.text, one.by, one.via) for one in said(cockpit, handle.run_id)] == [
        ("the second sheet", "bob", "terminal")
    ]
    assert elsewhere.read(sentences.LEFT) == []


def test_a_secret_in_it_never_lies_in_the_mailbox(cockpit_with, project, elsewhere, monkeypatch):
    handle = begun(cockpit_with(LISTENING), project)
    lain = []

    def taken(journal, run_ids):
        if rows := journal.read(select(messages.c.word).where(messages.c.run_id.in_(run_ids))):
            lain.extend(row.word for row in rows)
        return sentences.take_sentences(journal, run_ids)

    monkeypatch.setattr(controls, "take_sentences", taken)
    redact = lambda text: shared_redactor().redact(text).text  # noqa: E731
    sentences.say(elsewhere, handle.run_id, Sentence(f"the token is {TOKEN}", "bob", "terminal"), redact)
    handle.result(60)
    assert "the token is [REDACTED:" in lain[0]
    assert TOKEN not in "".join(lain)


def test_a_secret_in_it_is_nowhere_but_in_the_hand_that_wrote_it(cockpit_with, project):
    brain = FakeBrain(LISTENING)
    cockpit = cockpit_with(brain, redactor=shared_redactor())
    handle = begun(cockpit, project)
    cockpit.say(handle.run_id, Sentence(f"the token is {TOKEN}", "ann", "cell"))
    handle.result(60)
    assert TOKEN not in said(cockpit, handle.run_id)[0].text


def test_a_recorded_sentence_stands_in_the_card_of_every_replay_in_its_place(cockpit_with, project, tmp_path):
    tape = tmp_path / "run.jsonl"
    cockpit = cockpit_with(["Which?", Listen(), "As you say."])
    handle = begun(cockpit, project, record=tape)
    cockpit.say(handle.run_id, Sentence("the second sheet", "ann", "cell"))
    handle.result(60)
    texts = []
    for _ in range(2):
        played = begun(cockpit, project, replay=tape)
        played.result(60)
        view = RunView().apply_all(row.event for row in cockpit.journal.events(run_id=played.run_id))
        texts.append([item_text(item) for item in view.items])
    assert texts[0] == texts[1] == ["Which?", "< the second sheet  (said when this was recorded; heard)", "As you say."]


def test_a_brain_that_cannot_take_it_says_so_in_the_record_and_to_whoever_spoke(cockpit_with, project, elsewhere):
    cockpit = cockpit_with([Hang()])
    handle = begun(cockpit, project)
    with pytest.raises(NotHeard, match="the fake brain takes nothing while it works"):
        cockpit.say(handle.run_id, Sentence("stop that", "ann", "cell"))
    with pytest.raises(NotHeard, match="the fake brain takes nothing while it works"):
        sentences.say(elsewhere, handle.run_id, Sentence("stop that", "bob", "terminal"), str)
    assert [one.refused != "" for one in said(cockpit, handle.run_id)] == [True, True]


def test_after_the_end_it_is_told_what_to_do_instead(cockpit, project):
    handle = begun(cockpit, project)
    handle.result(60)
    with pytest.raises(RunOver, match=r"already ended: done\. Say it as a task of its own"):
        cockpit.say(handle.run_id, Sentence("one more thing", "ann", "command"))
    with pytest.raises(RunUnknown):
        cockpit.say("run-nothing", Sentence("one more thing", "ann", "command"))


def test_what_nobody_takes_in_time_is_not_told_and_taken_back(cockpit_with, project, elsewhere, monkeypatch):
    cockpit = cockpit_with(LISTENING)
    handle = begun(cockpit, project)
    monkeypatch.setattr(RunHandle, "say", lambda *_: pytest.fail("it was taken back"))
    monkeypatch.setattr("kagura_kernel.cockpit.controls.take_sentences", lambda *_: [])
    with pytest.raises(NotHeard, match="its process has not answered"):
        sentences.say(elsewhere, handle.run_id, Sentence("hello?", "bob", "terminal"), str, seconds=0.1)
    assert elsewhere.read(sentences.LEFT) == []

    def interrupted(_seconds: float) -> None:
        assert elsewhere.read(sentences.LEFT) != []
        raise KeyboardInterrupt

    monkeypatch.setattr(sentences, "time", SimpleNamespace(sleep=interrupted, monotonic=time.monotonic))
    with pytest.raises(KeyboardInterrupt):
        sentences.say(elsewhere, handle.run_id, Sentence("hello?", "bob", "terminal"), str)
    assert elsewhere.read(sentences.LEFT) == []
    handle.kill("the end of the test")


def test_nothing_and_too_much_are_refused_before_they_go_anywhere():
    with pytest.raises(UsageError, match="Nothing was said"):
        Sentence("  ")
    with pytest.raises(UsageError, match="into a file"):
        Sentence("x" * (LONGEST + 1))
    assert Sentence("x" * LONGEST).id.startswith("say-")


# ------------------------------------------------------------------ stop and go on with this


async def test_what_goes_on_instead_goes_on_in_the_same_session_with_what_was_asked_for_before(cockpit_with, project):
    cockpit = cockpit_with([Hang()])
    asked = RunRequest(task="go", project=project, outputs=("table",), max_turns=7)
    handle = cockpit.launch(asked)
    handle.wait_begun()
    await stopped(cockpit, handle.run_id, by="ann")
    await stopped(cockpit, handle.run_id, by="ann")
    request = going_on(cockpit.journal, handle.run_id, "the second sheet", asked)
    assert (request.task, request.session, request.resume) == ("the second sheet", handle.session_id, None)
    assert (request.project, request.outputs, request.max_turns) == (project, ("table",), 7)
    assert cockpit.runs()[0].status == "killed"


def test_where_it_is_kept_how_far_a_run_had_come_it_goes_on_from_there(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "echo half > half.txt"}), Hang()], memory=FakeMemory())
    handle = begun(cockpit, project)
    wait_until(lambda: "tool.finished" in [row.event.kind for row in cockpit.journal.events(run_id=handle.run_id)])
    want(cockpit, handle.run_id, "the second sheet")
    assert handle.result(60).status == "killed"
    after = successor(cockpit, handle.run_id, Surface.NOTEBOOK, None)
    assert after is not None
    after.wait_begun()
    (began,) = cockpit.journal.events(run_id=after.run_id, kinds=("run.started",))
    assert began.event.resumes == handle.run_id
    assert began.event.session_id == handle.session_id
    assert began.event.task.endswith("the second sheet")
    assert successor(cockpit, handle.run_id, Surface.NOTEBOOK, None) is None
    after.kill("the end of the test")


def test_nothing_goes_on_in_the_place_of_a_run_that_had_ended_by_itself(cockpit, project):
    handle = begun(cockpit, project)
    handle.result(60)
    with pytest.raises(RunOver):
        want(cockpit, handle.run_id, "the second sheet")
    assert successor(cockpit, handle.run_id, Surface.NOTEBOOK, None) is None


def test_the_card_offers_it_below_what_the_brain_is_not_told_as_long_as_the_run_goes_on(cockpit_with, project):
    cockpit = cockpit_with([Hang()])
    handle = begun(cockpit, project)
    told: list[tuple[str, str]] = []
    press(cockpit, handle.run_id, {"act": "say", "answer": "stop that"}, lambda *what: told.append(what))
    wait_until(lambda: bool(told))
    assert told == [("", ABOUT)]
    view = RunView().apply_all(row.event for row in cockpit.journal.events(run_id=handle.run_id))
    assert 'data-act="instead"' in live_parts(view)["i0"]
    press(cockpit, handle.run_id, {"act": "say", "answer": " "}, lambda *what: told.append(what))
    wait_until(lambda: len(told) > 1)
    assert told[1][0].startswith("Nothing was said")
    handle.kill("the end of the test")
    handle.result(60)
    view = RunView().apply_all(row.event for row in cockpit.journal.events(run_id=handle.run_id))
    assert "data-act" not in "".join(live_parts(view).values())
