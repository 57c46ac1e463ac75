import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    CassetteMissing,
    ChangeConflict,
    JournalUnwritable,
    RunOver,
    RunUnknown,
    SessionBusy,
    UnknownName,
    UsageError,
    WorkspaceUnreadable,
)
from kagura_kernel.domain.events import AnyEvent, Event, RunStarted
from kagura_kernel.domain.memory import Query
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.status import status_text
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Together
from kagura_kernel.testing.memory import FakeMemory
from tests.support.redactors import shared_redactor

HOST = Ask("bash", {"command": "echo from the host", "host": True, "reason": "to see it"})


def task(project: Path, **options: object) -> RunRequest:
    return RunRequest(task="do it", project=project, **options)  # type: ignore[arg-type]


def kinds(events: list[AnyEvent]) -> list[str]:
    return [event.kind for event in events]


def test_a_run_goes_from_start_to_finish_and_every_step_is_an_event(cockpit_with, project):
    cockpit = cockpit_with(["I look.", Ask("bash", {"command": "cat data.csv"}), "It holds two columns."])
    heard: list[AnyEvent] = []
    handle = cockpit.launch(task(project))
    handle.subscribe(heard.append)
    outcome = handle.result(60)
    assert (outcome.status, outcome.text) == ("done", "It holds two columns.")
    assert [event.kind for event in heard if event.durable] == [
        "run.started",
        "run.granted",
        "box.started",
        "text.written",
        "turn.counted",
        "tool.called",
        "tool.finished",
        "text.written",
        "turn.counted",
        "box.closed",
        "run.finished",
    ]
    finished = next(event for event in heard if event.kind == "tool.finished")
    assert "1,2" in finished.text  # type: ignore[union-attr]
    row = cockpit.runs()[0]
    assert (row.run_id, row.status, row.tool_calls, row.box) == (outcome.run_id, "done", 1, "fake")


def test_a_late_listener_hears_all_durable_events_once_and_in_order(cockpit_with, project):
    handle = cockpit_with(["Hello.", Ask("bash", {"command": "true"}), "Bye."]).launch(task(project))
    first: list[AnyEvent] = []
    handle.subscribe(first.append)
    handle.result(60)
    second: list[AnyEvent] = []
    handle.subscribe(second.append)
    assert kinds(second) == [event.kind for event in first if event.durable]


def test_an_allowed_host_command_runs_and_the_approval_is_a_row(cockpit_with, project, await_question):
    cockpit = cockpit_with([HOST, lambda results: results[-1].text])
    handle = cockpit.launch(task(project))
    question = await_question(cockpit)
    assert question.run_id == handle.run_id
    assert "echo from the host" in question.detail
    cockpit.decide(question.id, allow=True, by="ann", via="cell")
    assert "from the host" in handle.result(60).text
    row = cockpit.approvals()[0]
    assert (row.verdict, row.by, row.via, row.content_hash) == ("allow", "ann", "cell", question.content_hash)


def test_a_denied_host_command_never_runs_and_the_brain_sees_the_refusal(cockpit_with, project, await_question):
    marker = project.parent / "ran"
    ask = Ask("bash", {"command": f"touch {marker}", "host": True, "reason": "to try"})
    cockpit = cockpit_with([ask, lambda results: results[-1].text])
    handle = cockpit.launch(task(project))
    cockpit.decide(await_question(cockpit).id, allow=False, by="ann", via="cell", answer="not on my machine")
    outcome = handle.result(60)
    assert not marker.exists()
    assert outcome.status == "done"
    assert "ERR_APPROVAL_DENIED" in outcome.text
    assert "not on my machine" in outcome.text


def test_headless_the_policy_denies_at_once_and_says_so(cockpit_with, project):
    cockpit = cockpit_with([HOST, lambda results: results[-1].text])
    outcome = cockpit.launch(task(project, headless=True)).result(60)
    assert "nobody can be asked" in outcome.text
    row = cockpit.approvals()[0]
    assert (row.verdict, row.by) == ("deny", "policy")


def test_calling_the_run_off_ends_it(cockpit_with, project, await_question):
    cockpit = cockpit_with([HOST, "never said"])
    handle = cockpit.launch(task(project))
    cockpit.abort(await_question(cockpit).id, by="ann", via="cell")
    outcome = handle.result(60)
    assert (outcome.status, outcome.error_code) == ("killed", "ERR_APPROVAL_ABORTED")


def test_changes_wait_for_a_person_and_the_project_is_untouched_until_then(cockpit_with, project):
    script = [Ask("bash", {"command": "echo 3,4 >> data.csv; mkdir out; echo hi > out/new.txt"}), "Done."]
    cockpit = cockpit_with(script)
    outcome = cockpit.launch(task(project)).result(60)
    assert outcome.changed_files == ["data.csv", "out/new.txt"]
    assert (project / "data.csv").read_text() == "a,b\n1,2\n"
    assert not (project / "out").exists()
    assert "+3,4" in outcome.changes[0].diff
    cockpit.changes_desk.apply(outcome.run_id, ["out/new.txt"], by="ann")
    assert (project / "out" / "new.txt").read_text() == "hi\n"
    assert (project / "data.csv").read_text() == "a,b\n1,2\n"
    cockpit.changes_desk.discard(outcome.run_id, by="ann")
    assert [change.state for change in cockpit.changes(outcome.run_id)] == ["discarded", "applied"]


def test_a_file_that_changed_meanwhile_is_a_conflict_and_never_overwritten(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "echo box >> data.csv"}), "Done."])
    outcome = cockpit.launch(task(project)).result(60)
    (project / "data.csv").write_text("mine\n")
    with pytest.raises(ChangeConflict) as caught:
        cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert caught.value.paths == ("data.csv",)
    assert (project / "data.csv").read_text() == "mine\n"


def test_write_through_applies_after_each_call(cockpit_with, project):
    seen: list[str] = []

    def look(_: object) -> str:
        seen.append((project / "data.csv").read_text())
        return "Done."

    script = [
        Ask("bash", {"command": "echo 3,4 >> data.csv"}),
        Ask("bash", {"command": "echo 5,6 >> data.csv"}),
        look,
    ]
    outcome = cockpit_with(script).launch(task(project, write_mode=WriteMode.THROUGH)).result(60)
    assert seen == ["a,b\n1,2\n3,4\n5,6\n"]
    assert [(change.path, change.state) for change in outcome.changes] == [("data.csv", "applied")]


def test_write_none_tells_changes_and_never_applies_them(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "rm data.csv"}), "Done."])
    outcome = cockpit.launch(task(project, write_mode=WriteMode.NONE)).result(60)
    assert [(c.path, c.status, c.state) for c in outcome.changes] == [("data.csv", "deleted", "discarded")]
    with pytest.raises(UnknownName):
        cockpit.changes_desk.apply(outcome.run_id, ["data.csv"], by="ann")
    assert (project / "data.csv").exists()


def test_one_session_runs_one_run_at_a_time(cockpit_with, project):
    cockpit = cockpit_with([Hang()])
    first = cockpit.launch(task(project, session="s"))
    with pytest.raises(SessionBusy, match=first.run_id):
        cockpit.launch(task(project, session="s"))
    other = cockpit.launch(task(project, session="t"))
    for handle in (first, other):
        handle.kill("ann")
        assert handle.result(60).status == "killed"


@pytest.mark.parametrize("named", ["session", "model", "image", "grants"])
def test_a_secret_is_no_name_and_leaves_no_row(cockpit_with, project, named):
    token = "ghp_" + "aB3dE5gH7jQ2mN4pR6tV8xY1zC0fK9wS5uL3"
    cockpit = cockpit_with(redactor=shared_redactor())
    with pytest.raises(UsageError, match="looks like a secret") as refused:
        cockpit.launch(task(project, **{named: (f"github:{token}",) if named == "grants" else token}))
    assert (refused.value.code, token in refused.value.message) == ("ERR_USAGE", False)
    if named == "session":
        with pytest.raises(UsageError, match="looks like a secret") as refused:
            cockpit.launch(task(project, session=f"my {token}"))
        assert token not in refused.value.message
    assert cockpit.runs() == []
    assert (
        cockpit.launch(task(project, session="of-2026-11-24_v2.1", model="claude-sonnet-4-5")).result(60).status
        == "done"
    )


def test_a_killed_run_says_by_whom_and_still_hands_over_its_changes(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "echo x > made.txt"}), Hang()])
    handle = cockpit.launch(task(project))
    called = threading.Event()
    handle.subscribe(lambda event: called.set() if event.kind == "tool.finished" else None)
    assert called.wait(60)
    cockpit.kill(handle.run_id, by="ann")
    outcome = handle.result(60)
    assert (outcome.status, outcome.error_code) == ("killed", "ERR_RUN_KILLED")
    assert "ann" in outcome.error
    assert outcome.changed_files == ["made.txt"]


def test_a_kill_before_the_box_is_there_is_a_kill_too(cockpit_with, project):
    handle = cockpit_with(["Done."]).launch(task(project))
    handle.kill("ann")
    assert handle.result(60).status in ("killed", "done")


def test_a_box_that_dies_ends_the_run_with_its_reason(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "kill -9 $PPID; sleep 60"}), "never"])
    outcome = cockpit.launch(task(project)).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_SANDBOX_DIED")


def test_a_budget_stops_the_run(cockpit_with, project):
    script = [Ask("bash", {"command": "true"})] * 50
    brain = FakeBrain(script, model="claude-sonnet-4-5")
    outcome = cockpit_with(brain).launch(task(project, budget_usd=0.00001)).result(60)
    assert (outcome.status, outcome.error_code) == ("stopped", "ERR_BUDGET_EXHAUSTED")


@pytest.mark.timeout(400)
def test_twenty_runs_at_once_finish_whatever_order_their_approvals_come_in(cockpit_with, project):
    cockpit = cockpit_with([HOST, lambda results: results[-1].text])
    handles = [cockpit.launch(task(project, session=f"s{n}")) for n in range(20)]
    answered: set[str] = set()
    while len(answered) < 20:
        for question in reversed(cockpit.pending()):
            cockpit.decide(question.id, len(answered) % 2 == 0, by="ann", via="cell")
            answered.add(question.id)
        time.sleep(0.01)
    outcomes = [handle.result(300) for handle in handles]
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert sum("from the host" in outcome.text for outcome in outcomes) == 10


def test_calls_made_together_are_all_recorded(cockpit_with, project):
    cockpit = cockpit_with([Together((Ask("bash", {"command": "echo 1"}), Ask("bash", {"command": "echo 2"}))), "Ok."])
    cockpit.launch(task(project)).result(60)
    assert cockpit.runs()[0].tool_calls == 2


def test_a_session_goes_on_where_its_brain_left_off(cockpit_with, project):
    brain = FakeBrain(["Done."])
    cockpit = cockpit_with(brain)
    for session in ("s", "s", "t"):
        cockpit.launch(task(project, session=session)).result(60)
    assert brain.turns[0].resume == ""
    assert bool(brain.turns[1].resume) == brain.capabilities().resume
    assert brain.turns[2].resume == ""


def test_a_cell_of_code_runs_without_a_brain(cockpit, project):
    cell = RunRequest(language="python", task="print(open('data.csv').read())", project=project)
    outcome = cockpit.launch(cell).result(60)
    assert (outcome.status, outcome.exit_code) == ("done", 0)
    assert "1,2" in outcome.text
    assert views.costs(cockpit.journal)[0].computed_usd is None


def test_a_cell_whose_program_fails_says_its_exit_code(cockpit_with, project):
    outcome = cockpit_with().launch(RunRequest(task="exit 3", language="bash", project=project)).result(60)
    assert (outcome.status, outcome.error_code, outcome.exit_code) == ("failed", "ERR_CELL_FAILED", 3)


def test_a_silent_cell_is_stopped_at_its_idle_limit(cockpit_with, project):
    cell = RunRequest(task="sleep 60", language="bash", project=project, idle_timeout=0.3)
    outcome = cockpit_with().launch(cell).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_SANDBOX_IDLE_TIMEOUT")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"brain": "clod"}, UnknownName),
        ({"box": "dokcer"}, UnknownName),
        ({"budget_usd": -1.0}, UsageError),
        ({"max_turns": 0}, UsageError),
        ({"command_timeout": -2.0}, UsageError),
        ({"session": "../x"}, UsageError),
        ({"project": Path("/no/such/place")}, WorkspaceUnreadable),
    ],
)
def test_a_mistake_is_told_at_once_and_nothing_is_started(cockpit, project, options, error):
    with pytest.raises(error):
        cockpit.launch(RunRequest(**({"task": "do it", "project": project} | options)))  # type: ignore[arg-type]
    assert cockpit.runs() == []


def test_an_empty_task_and_an_empty_cell_are_mistakes(cockpit, project):
    for intent in (RunRequest(task=" \n", project=project), RunRequest(language="python", task="", project=project)):
        with pytest.raises(UsageError, match="empty"):
            cockpit.launch(intent)


def test_a_missing_cassette_and_a_missing_brain_are_told(cockpit_with, project, tmp_path):
    cockpit = cockpit_with(FakeBrain(["x"], ready=False))
    with pytest.raises(BrainNotConfigured):
        cockpit.launch(task(project))
    with pytest.raises(CassetteMissing):
        cockpit.launch(task(project, replay=tmp_path / "gone.jsonl"))
    assert cockpit.runs() == []


def test_a_recorded_run_is_replayed_with_real_tools(cockpit_with, project, tmp_path):
    cockpit = cockpit_with(["Look.", Ask("bash", {"command": "cat data.csv"}), "Two columns."])
    cassette = tmp_path / "run.jsonl"
    cockpit.launch(task(project, record=cassette)).result(60)
    (project / "data.csv").write_text("changed\n")
    heard: list[AnyEvent] = []
    handle = cockpit.launch(task(project, replay=cassette))
    handle.subscribe(heard.append)
    outcome = handle.result(60)
    assert (outcome.status, outcome.text) == ("done", "Two columns.")
    assert "changed" in next(event.text for event in heard if event.kind == "tool.finished")  # type: ignore[union-attr]


@pytest.mark.parametrize(("asked", "left"), [({}, []), ({"remember": True}, ["note", "outcome"])])
def test_a_replay_is_no_experience_and_leaves_a_summary_only_where_that_was_asked_for(
    cockpit_with, project, tmp_path, asked, left
):
    memory, cassette = FakeMemory(), tmp_path / "run.jsonl"
    cockpit = cockpit_with(["Look.", Ask("bash", {"command": "exit 3"}), "It failed."], memory=memory)
    cockpit.launch(task(project, record=cassette)).result(60)
    before = {one.memory.id for one in memory.recall(Query("", k=99))}
    outcome = cockpit.launch(task(project, replay=cassette, **asked)).result(60)
    assert outcome.status == "done"
    assert sorted(one.memory.type for one in memory.recall(Query("", k=99)) if one.memory.id not in before) == left
    assert bool(outcome.memories) == bool(left)


def test_the_status_tells_a_memory_that_no_run_could_start_with(cockpit_with):
    memory = FakeMemory()
    cockpit = cockpit_with(memory=memory)
    assert cockpit.status().memory == ""
    memory.broken = "the disk is gone"
    found = cockpit.status()
    assert "the disk is gone" in found.memory
    assert "memory    No agent can start." in status_text(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"verify": ""}, "nothing would be verified"), ({"verify": " "}, "--verify"), ({"remember": True}, "--replay")],
)
def test_words_that_would_silently_mean_nothing_are_mistakes(cockpit, project, options, words):
    with pytest.raises(UsageError, match=words):
        cockpit.launch(task(project, **options))
    assert cockpit.runs() == []


def test_a_run_that_nobody_knows_cannot_be_killed(cockpit_with):
    with pytest.raises(RunUnknown):
        cockpit_with().kill("run-nope", by="ann")


def test_closing_stops_what_runs_and_leaves_no_box(cockpit_with, project, backend):
    cockpit = cockpit_with([Hang()])
    handle = cockpit.launch(task(project))
    begun = threading.Event()
    handle.subscribe(lambda event: begun.set() if event.kind == "box.started" else None)
    assert begun.wait(60)
    cockpit.close()
    assert handle.result(60).status == "killed"
    assert all(box.closed for box in backend.boxes)
    cockpit.close()


def test_status_shows_boxes_brains_and_what_waits(cockpit_with, project, await_question):
    cockpit = cockpit_with([HOST, "Done."], settings=Settings(approval_deadline=60))
    handle = cockpit.launch(task(project))
    question = await_question(cockpit)
    status = cockpit.status()
    assert [row.run_id for row in status.running] == [handle.run_id]
    assert [request.id for request in status.pending] == [question.id]
    assert status.boxes[0].ok
    assert status.brains[0].name == "fake"
    cockpit.decide(question.id, allow=False, by="ann", via="cell")
    handle.result(60)


def test_a_run_right_after_a_killed_one_waits_for_it_and_then_runs(cockpit_with, project):
    cockpit = cockpit_with([Ask("bash", {"command": "echo one >> log.txt"}), Hang()])
    first = cockpit.launch(task(project))
    begun = threading.Event()
    first.subscribe(lambda event: begun.set() if event.kind == "tool.finished" else None)
    assert begun.wait(60)
    first.kill("ann")
    second = cockpit.launch(RunRequest(task="echo hello", language="bash", project=project))
    assert second.result(60).text == "hello\n"
    assert first.done
    assert [row.status for row in cockpit.runs()] == ["done", "killed"]


def begun_beside(cockpit_with, project):
    """A run that goes on in the session `shared`, and the cockpit of another process."""
    one, other = cockpit_with([Hang()]), cockpit_with([Hang()])
    object.__setattr__(other._parts.choices, "owner", "another-process")
    first = one.launch(task(project, session="shared"))
    begun = threading.Event()
    first.subscribe(lambda event: begun.set() if event.kind == "run.started" else None)
    assert begun.wait(60)
    return first, other


def test_a_session_that_runs_in_another_process_is_busy(cockpit_with, project):
    first, other = begun_beside(cockpit_with, project)
    with pytest.raises(SessionBusy, match=first.run_id):
        other.launch(task(project, session="shared"))


def test_of_two_processes_that_begin_in_a_session_at_once_the_first_one_goes_on(cockpit_with, project, monkeypatch):
    first, other = begun_beside(cockpit_with, project)
    # As if it had looked before the first one had its row.
    monkeypatch.setattr(other, "_check_elsewhere", lambda _: None)
    outcome = other.launch(task(project, session="shared")).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_SESSION_BUSY")
    assert first.run_id in outcome.error
    assert not first.done


def test_a_run_that_has_ended_cannot_be_killed_and_says_how_it_ended(cockpit_with, project):
    cockpit = cockpit_with(["Done."])
    outcome = cockpit.launch(task(project)).result(60)
    with pytest.raises(RunOver, match="already ended: done"):
        cockpit.kill(outcome.run_id, by="ann")


@pytest.fixture
def unrecorded(cockpit_with, project, monkeypatch):
    """A cockpit with a run whose journal could not be written any more once it had begun; it can again."""
    append = Journal.append

    def until_it_is_full(journal: Journal, event: Event) -> object:
        if isinstance(event, RunStarted):
            return append(journal, event)
        raise JournalUnwritable("the journal", "the disk is full")

    cockpit = cockpit_with()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Journal, "append", until_it_is_full)
        handle = cockpit.launch(task(project))
        with pytest.raises(JournalUnwritable):
            handle.result(60)
    assert [row.status for row in cockpit.runs()] == ["running"]
    return cockpit, handle.run_id


def test_a_run_whose_end_could_not_be_stored_is_lost_to_whoever_stops_it(unrecorded):
    cockpit, run_id = unrecorded
    with pytest.raises(RunOver, match="already ended: lost"):
        cockpit.kill(run_id, by="ann")


def test_a_run_whose_end_could_not_be_stored_is_lost_once_another_one_begins(unrecorded, project):
    cockpit, run_id = unrecorded
    cockpit.launch(task(project)).result(60)
    [lost] = [row for row in cockpit.runs() if row.run_id == run_id]
    assert (lost.status, lost.error_code) == ("lost", "ERR_RUN_LOST")


def test_a_run_whose_end_could_not_be_stored_is_lost_at_the_end_of_its_process(unrecorded):
    cockpit, run_id = unrecorded
    home = Path(cockpit.journal.where).parent
    cockpit.close()
    with closing(Journal.open(home)) as journal:
        [lost] = [row for row in views.runs(journal) if row.run_id == run_id]
    assert lost.status == "lost"


def test_a_cassette_and_another_brain_exclude_each_other(cockpit_with, project, tmp_path):
    with pytest.raises(UsageError, match="thinks anew"):
        cockpit_with().launch(task(project, brain="fake", replay=tmp_path / "x.jsonl"))


def test_long_output_of_a_cell_is_kept_whole_and_short_output_leaves_no_folder(cockpit, project, tmp_path):
    short = cockpit.launch(RunRequest(task="echo hello", language="bash", project=project))
    short.result(60)
    assert not (tmp_path / "home" / "outputs" / short.run_id).exists()
    heard: list[AnyEvent] = []
    long = cockpit.launch(RunRequest(task="seq 1 200000", language="bash", project=project))
    long.subscribe(heard.append)
    long.result(60)
    finished = next(event for event in heard if event.kind == "tool.finished")
    kept = tmp_path / "home" / "outputs" / long.run_id / finished.spill  # type: ignore[union-attr,operator]
    assert kept.read_text().split()[-1] == "200000"


def test_a_brain_is_told_what_did_not_reach_the_project(cockpit_with, project):
    def meddle(_: object) -> Ask:
        (project / "data.csv").write_text("mine\n")
        return Ask("bash", {"command": "echo theirs > data.csv; echo ok > other.txt"})

    cockpit = cockpit_with([meddle, lambda results: results[-1].text])
    outcome = cockpit.launch(task(project, write_mode=WriteMode.THROUGH)).result(60)
    assert "not in the project: a person changed the project's file meanwhile: data.csv" in outcome.text
    assert {change.path: change.state for change in outcome.changes} == {"data.csv": "conflict", "other.txt": "applied"}
    assert (project / "data.csv").read_text() == "mine\n"
    assert cockpit.runs()[0].changed_files == 2
