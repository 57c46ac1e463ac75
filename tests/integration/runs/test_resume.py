"""Runs that go on from where others stood, in real boxes: what is restored, repeated, asked and refused."""

import contextlib
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.brain.provider import BrainDone, BrainEvent, Turn
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.errors import ApprovalError, ResumeRefused, RunUnknown
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalRequested,
    LeaseChanged,
    Noted,
    RunFinished,
    RunGranted,
    ToolFinished,
)
from kagura_kernel.domain.events.memory import RunCheckpointed, RunResumed
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.patterns import Checkpoint, LeftBudget
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.journal.checkpoints import digest_of, forget_checkpoints, history, latest, store
from kagura_kernel.journal.views import gone_on_with
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.ssh.backend import SshBackend
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Together
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.patience import wait_until
from tests.support.sshd import other_machine, program
from tests.support.story import Calendar

pytestmark = [pytest.mark.timeout(120)]

Say = Callable[[ApprovalRequest], bool]


def yes(_: ApprovalRequest) -> bool:
    return True


@dataclass
class Ended:
    """What a run left, and what was asked on its way."""

    outcome: RunOutcome
    events: list[AnyEvent]
    asked: list[ApprovalRequest]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[str]:
        """What its brain read."""
        return [event.text for event in self.of(ToolFinished)]


@dataclass
class Kernel:
    """One process's cockpit, as far as a test needs it to be another process."""

    cockpit: Cockpit
    project: Path
    say: Say = yes
    answer: str = ""
    asked: list[ApprovalRequest] = field(default_factory=list)

    def start(self, task: str = "Do it.", **more: Any) -> RunHandle:
        """A run that goes on; its questions are answered by `say`, each once, from another thread."""
        known: set[str] = set()

        def heard(event: AnyEvent) -> None:
            if isinstance(event, ApprovalRequested) and event.approval_id not in known:
                known.add(event.approval_id)
                threading.Thread(target=self._answer, args=(event.approval_id,)).start()

        intent = RunRequest(task=task, project=more.pop("project", self.project), **more)
        handle = self.cockpit.launch(intent)
        handle.subscribe(heard)
        return handle

    def run(self, task: str = "Do it.", **more: Any) -> Ended:
        return self.end(self.start(task, **more))

    def end(self, handle: RunHandle) -> Ended:
        outcome = handle.result(100)
        events: list[AnyEvent] = []
        handle.subscribe(events.append)
        return Ended(outcome, events, [one for one in self.asked if one.run_id == handle.run_id])

    def resume(self, run: str = "last", words: str = "", **more: Any) -> Ended:
        """Go on from a run, in whatever project it was."""
        return self.run(words, resume=run, project=None, **more)

    def _answer(self, approval_id: str) -> None:
        found: list[ApprovalRequest] = []
        wait_until(lambda: found.extend(one for one in self.cockpit.pending() if one.id == approval_id) or found)
        self.asked.append(found[0])
        with contextlib.suppress(ApprovalError):
            self.cockpit.decide(approval_id, self.say(found[0]), by="ann", via="cell", answer=self.answer)


NewKernel = Callable[..., Kernel]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    (root / "kept.txt").write_text("as it was\n")
    if os.geteuid() == 0:
        for folder in (root, tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
    return root


@pytest.fixture
def kernel(project: Path, tmp_path: Path) -> Iterator[NewKernel]:
    """A fresh kernel on the same journal and the same memory; the one before is closed first."""
    made: list[Cockpit] = []
    memory = FakeMemory()

    def make(script: Sequence[Any] = ("Done.",), say: Say = yes, brain: Any = None, **more: Any) -> Kernel:
        for cockpit in made:
            cockpit.close()
        brains = [brain or FakeBrain(script, usd_per_round=None)]
        boxes = more.pop("backend", None) or BubblewrapBackend()
        cockpit = fake_cockpit(tmp_path / "home", backend=boxes, brains=brains, memory=memory, **more)
        made.append(cockpit)
        return Kernel(cockpit, project, say)

    yield make
    for cockpit in made:
        cockpit.close()


def bash(line: str, **more: Any) -> Ask:
    return Ask("bash", {"command": line, **more})


def on_host(line: str) -> Ask:
    return bash(line, host=True, reason="it has to be there")


def stopped_at(kernel: Kernel, shown: Callable[[RunHandle], object], **more: Any) -> Ended:
    """A run that somebody stops when it has come so far."""
    handle = kernel.start(**more)
    wait_until(lambda: shown(handle))
    handle.kill("a test")
    return kernel.end(handle)


def had_stored(kernel: Kernel, stood: Checkpoint) -> None:
    """Let the run itself have stored this."""
    journal, ids = kernel.cockpit.journal, {"run_id": stood.run_id, "session_id": stood.session_id}
    told = RunCheckpointed(**ids, at=stood.at, step=stood.step, digest=digest_of(stood))
    store(journal, stood, told)


def finished(number: int) -> Callable[[RunHandle], object]:
    """Whether so many steps are stored."""

    def shown(handle: RunHandle) -> bool:
        events: list[AnyEvent] = []
        handle.subscribe(events.append)()
        return any(isinstance(event, RunCheckpointed) and event.step >= number for event in events)

    return shown


@pytest.mark.skipif(program() is None, reason="needs sshd: dev/setup.sh test unpacks it")
def test_a_run_whose_machine_is_gone_ends_as_lost_and_goes_on_elsewhere(kernel):
    steps = [bash("echo one >> notes.txt"), bash("cat notes.txt"), Hang()]
    with other_machine() as far:
        here = kernel(steps, backend=SshBackend(far.host, config=far.config))
        handle = here.start()
        wait_until(lambda: finished(1)(handle))
        for pid in far.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first = here.end(handle)
        assert (first.outcome.status, first.outcome.error_code) == ("lost", "ERR_SANDBOX_DIED")
        assert "the connection to box was lost" in first.outcome.error

        second = kernel([*steps[:2], "All done."]).resume(first.outcome.run_id)
    assert second.outcome.status == "done"
    assert "one" in second.results[1]
    assert [change.path for change in second.outcome.changes] == ["notes.txt"]


def test_a_stopped_run_goes_on_with_its_files_and_repeats_nothing(kernel, project, tmp_path):
    log = tmp_path / "log"
    steps = [
        bash("echo one >> notes.txt && mkdir -p deep && echo x > deep/file && rm kept.txt && ln -s notes.txt link"),
        on_host(f"echo happened >> {log}"),
        bash("echo two >> notes.txt"),
    ]
    first = stopped_at(kernel([*steps, Hang()]), finished(3))
    assert first.outcome.status == "killed"
    assert project.joinpath("kept.txt").exists()

    last = bash("echo three >> notes.txt; cat notes.txt deep/file link; ls kept.txt")
    fresh = kernel([*steps, last, "All done."])
    second = fresh.resume(first.outcome.run_id)
    assert second.outcome.status == "done"
    assert [text.startswith("[already done in run-") for text in second.results] == [True, True, True, False]
    assert "one\ntwo\nthree\nx\none\ntwo\nthree" in second.results[-1]
    assert "No such file" in second.results[-1]
    assert log.read_text() == "happened\n"
    assert not second.asked
    [resumed] = second.of(RunResumed)
    assert (resumed.resumes, resumed.step, resumed.restored_files) == (first.outcome.run_id, 3, 4)
    assert {change.path: change.status for change in second.outcome.changes} == {
        "deep/file": "added",
        "kept.txt": "deleted",
        "link": "added",
        "notes.txt": "added",
    }
    row = fresh.cockpit.runs(limit=1)[0]
    assert (row.resumes, row.task) == (first.outcome.run_id, "Do it.")


def test_a_file_that_changed_in_the_project_meanwhile_stays_and_is_told(kernel, project):
    seen = bash("cat kept.txt mine.txt")
    brain = FakeBrain([seen, "Done."], usd_per_round=None)
    first = stopped_at(kernel([bash("echo agent > kept.txt; echo agent > mine.txt"), Hang()]), finished(1))
    project.joinpath("kept.txt").write_text("a person\n")
    second = kernel(brain=brain).resume()
    assert "a person\nagent" in second.results[0]
    assert any("kept.txt" in note.text and first.outcome.run_id in note.text for note in second.of(Noted))
    assert '"kept.txt"' in brain.turns[0].system
    assert brain.turns[0].task.endswith("Do it.")


def test_what_it_had_proposed_waits_with_the_run_that_goes_on_alone(kernel, project):
    first = stopped_at(kernel([bash("touch a b mine; echo agent > kept.txt"), Hang()]), finished(1))
    (project / "kept.txt").write_text("a person\n")
    second = stopped_at(kernel([bash("echo more > a"), Hang()]), finished(1), task="", resume="last", project=None)
    fresh = kernel([bash("rm b"), "Done."])
    third = fresh.resume()
    states = [{one.path: one.state for one in fresh.cockpit.changes(run.outcome.run_id)} for run in (first, second)]
    assert states == [
        {"a": "discarded", "b": "discarded", "mine": "discarded", "kept.txt": "proposed"},
        {"a": "discarded", "b": "discarded", "mine": "discarded"},
    ]
    assert [(one.path, one.state) for one in third.outcome.changes] == [("a", "proposed"), ("mine", "proposed")]


def test_what_a_person_has_applied_meanwhile_is_not_laid_again(kernel):
    first = stopped_at(kernel([bash("echo agent > new.txt"), Hang()]), finished(1))
    fresh = kernel([bash("cat new.txt"), "Done."])
    fresh.cockpit.changes_desk.apply(first.outcome.run_id, by="ann")
    second = fresh.resume()
    assert "agent" in second.results[0]
    assert second.of(RunResumed)[0].restored_files == 0
    assert not second.of(Noted)
    assert second.outcome.changes == ()


def test_with_write_through_the_project_is_what_it_goes_on_from(kernel, project):
    steps = [bash("echo one >> log.txt"), bash("echo two >> log.txt")]
    first = stopped_at(kernel([*steps, Hang()]), finished(2), write_mode=WriteMode.THROUGH)
    assert project.joinpath("log.txt").read_text() == "one\ntwo\n"
    second = kernel([*steps, bash("echo three >> log.txt"), "Done."]).resume(first.outcome.run_id)
    assert second.outcome.status == "done"
    assert project.joinpath("log.txt").read_text() == "one\ntwo\nthree\n"


def test_a_brain_that_goes_its_own_way_may_run_the_same_line_again(kernel):
    stopped_at(kernel([bash("echo first"), bash("echo tests"), Hang()]), finished(2))
    second = kernel([bash("ls"), bash("echo first"), bash("echo tests"), "Done."]).resume()
    assert not any("already done" in text for text in second.results)


def test_a_finished_host_command_is_not_done_again_but_may_be_asked_for_twice(kernel, tmp_path):
    push = on_host(f"echo pushed >> {tmp_path}/log")
    stopped_at(kernel([bash("echo before"), push, Hang()]), finished(2))
    second = kernel([bash("ls"), push, push, "Done."]).resume()
    assert "already done" in second.results[1]
    assert "already done" not in second.results[2]
    assert [one.kind for one in second.asked] == [ApprovalKind.HOST_COMMAND]
    assert (tmp_path / "log").read_text() == "pushed\npushed\n"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_host_command_of_which_nobody_knows_the_end_is_a_persons_decision(kernel, tmp_path, allowed):
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    push = on_host(f"echo pushed >> {log}; test -e {tmp_path}/open || cat {gate}")
    stopped_at(kernel([push, "Done."]), lambda _: log.exists())
    (tmp_path / "open").touch()
    fresh = kernel([push, "Done."], say=lambda one: allowed or one.kind is not ApprovalKind.TOOL)
    second = fresh.resume()
    assert second.of(RunResumed)[0].doubtful == ("bash",)
    kinds = [one.kind for one in second.asked]
    if allowed:
        assert kinds == [ApprovalKind.TOOL, ApprovalKind.HOST_COMMAND]
        assert log.read_text() == "pushed\npushed\n"
    else:
        assert kinds == [ApprovalKind.TOOL]
        assert "Not done again" in second.results[0]
        assert log.read_text() == "pushed\n"
    assert str(log) in second.asked[0].detail


def test_of_calls_at_once_none_is_done_again_in_the_box(kernel):
    both = Together((bash("echo slow >> a; sleep 0.2"), bash("echo quick >> b")))
    stopped_at(kernel([both, Hang()]), finished(2))
    second = kernel([both, bash("cat a b"), "Done."]).resume()
    assert "slow\nquick" in second.results[-1]
    assert sum("already done" in text for text in second.results) == 2


def test_a_run_that_was_marked_stays_marked(kernel):
    first = stopped_at(kernel([bash("ls"), Hang()]), finished(1))
    one = kernel()
    stood = latest(one.cockpit.journal, first.outcome.run_id)
    assert stood is not None
    assert not stood.untrusted
    had_stored(one, replace(stood, untrusted=True))
    [last] = one.resume(first.outcome.run_id).of(RunFinished)
    assert last.untrusted


def test_a_third_run_goes_on_from_the_second_and_from_the_first(kernel, tmp_path):
    steps = [bash("echo 1 >> log"), on_host(f"echo h >> {tmp_path}/host"), bash("echo 2 >> log"), bash("echo 3 >> log")]
    first = stopped_at(kernel([*steps[:2], Hang()]), finished(2))
    handle = kernel([*steps[:3], Hang()])
    second_run = handle.start("", resume="last", project=None)
    wait_until(lambda: finished(1)(second_run))
    second_run.kill("a test")
    second = handle.end(second_run)
    third = kernel([*steps, bash("cat log"), "Done."]).resume(words="And be quick.")
    assert [text.startswith("[already done") for text in third.results] == [True, True, True, False, False]
    assert "1\n2\n3" in third.results[-1]
    assert (tmp_path / "host").read_text() == "h\n"
    names = [first.outcome.run_id, first.outcome.run_id, second.outcome.run_id]
    assert [text.split(" in ")[1].split(",")[0] for text in third.results[:3]] == names


def test_a_stopped_brain_goes_on_with_its_own_conversation(kernel):
    brain = FakeBrain([bash("echo one"), Hang()], usd_per_round=None, session="says-one")
    stopped_at(kernel(brain=brain), finished(1))
    again = FakeBrain(["Done."], usd_per_round=None)
    kernel(brain=again).resume()
    assert again.turns[0].resume == "says-one"
    other = FakeBrain(["Done."], usd_per_round=None)
    assert kernel(brain=other).run().outcome.status == "done"


class Paid(FakeBrain):
    """Goes on with the conversation `0a`, which has cost $0.30 by its end."""

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        async with aclosing(super().run(turn)) as events:
            async for event in events:
                yield replace(event, session="0a$0.3") if isinstance(event, BrainDone) else event


def test_what_later_runs_of_the_conversation_cost_is_not_counted_again(kernel):
    brain = FakeBrain([bash("echo one"), Hang()], usd_per_round=None, session="0a$0.1")
    first = stopped_at(kernel(brain=brain), finished(1)).outcome.run_id
    kernel(brain=Paid(["Done."], usd_per_round=None)).run("Something else.")
    again = FakeBrain(["Done."], usd_per_round=None)
    kernel(brain=again).resume(first)
    assert again.turns[0].resume == "0a$0.3"


def test_the_plan_of_a_brain_is_kept_with_what_is_left_of_it(kernel):
    plan = Ask("plan", {"steps": ["look", "mend", "test"], "done": 1})
    first = stopped_at(kernel([plan, bash("ls"), Hang()]), finished(2))
    brain = FakeBrain(["Done."], usd_per_round=None)
    fresh = kernel(brain=brain)
    stood = latest(fresh.cockpit.journal, first.outcome.run_id)
    assert stood is not None
    assert (stood.plan, stood.pending) == (("look", "mend", "test"), ("mend", "test"))
    assert first.of(RunCheckpointed)[-1].pending == 2
    fresh.resume()
    assert "done: look\nleft: mend\nleft: test" in brain.turns[0].system


# ------------------------------------------------------------------- what it is refused


def test_a_run_that_ended_well_has_nothing_left(kernel):
    one = kernel()
    done = one.run()
    for word in (done.outcome.run_id, "last", done.outcome.run_id[-6:]):
        with pytest.raises(ResumeRefused, match="it ended well"):
            one.resume(word)


def test_what_has_no_steps_still_goes_on_or_is_unknown_is_refused(kernel, project):
    one = kernel([Hang()])
    with pytest.raises(RunUnknown):
        one.resume("last")
    cell = one.cockpit.launch(RunRequest(task="true", language="bash", project=project))
    cell.result(60)
    with pytest.raises(ResumeRefused, match="a cell's own code"):
        one.resume(cell.run_id)
    going = one.start()
    wait_until(lambda: finished(0)(going))
    with pytest.raises(ResumeRefused, match="still goes on"):
        one.resume(going.run_id)
    with pytest.raises(RunUnknown):
        one.resume("run-nobody-knows")


def test_a_run_whose_project_is_gone_is_refused(kernel, project):
    first = stopped_at(kernel([bash("ls"), Hang()]), finished(1))
    project.rename(project.with_name("moved"))
    with pytest.raises(ResumeRefused, match="cannot be used any more"):
        kernel().resume(first.outcome.run_id)


def test_a_run_whose_checkpoints_were_erased_is_refused_with_what_there_is_instead(kernel):
    first = stopped_at(kernel([bash("ls"), Hang()]), finished(1))
    one = kernel()
    with one.cockpit.journal.writing() as writing:
        writing.connection.exec_driver_sql("UPDATE journal_checkpoints SET memories = 'mem-a'")
    assert forget_checkpoints(one.cockpit.journal, ["mem-a"])[0] == 2
    with pytest.raises(ResumeRefused, match=r"erased.*kagura attach"):
        one.resume(first.outcome.run_id)


@pytest.mark.parametrize(("days", "asked"), [(0.5, 0), (1.5, 1), (-0.5, 1), (-365.0, 1), (365.0, 1)])
def test_a_persons_word_is_believed_for_a_day_whichever_way_the_clock_has_jumped(
    tmp_path, project, registry, days, asked
):
    clock = Calendar(datetime(2026, 6, 1, tzinfo=UTC))

    def kernel_of(*script: Any) -> Kernel:
        brains, memory = [FakeBrain(script, usd_per_round=None)], FakeMemory(clock=clock)
        cockpit = fake_cockpit(
            tmp_path / "home", backend=BubblewrapBackend(), brains=brains, memory=memory, registry=registry, clock=clock
        )
        return Kernel(cockpit, project)

    one = kernel_of(LEASED, Hang())
    first = stopped_at(one, finished(1), grants=("fake:read",))
    one.cockpit.close()
    clock.go_on(days * 86_400)
    other = kernel_of("Done.")
    again = other.resume(first.outcome.run_id)
    other.cockpit.close()
    assert (again.outcome.status, len(again.asked)) == ("done", asked)


# ------------------------------------------------------------------------- money


def test_a_successor_gets_what_is_left_of_the_budget(kernel):
    brain = FakeBrain([bash("ls"), Hang()], model="claude-opus-4-5")
    first = stopped_at(kernel(brain=brain), finished(1), budget_usd=1.0)
    spent = first.of(RunCheckpointed)[-1].usd
    assert 0 < spent < 1
    again = FakeBrain(["Done."], model="claude-opus-4-5")
    second = kernel(brain=again).resume()
    assert again.turns[0].budget_usd == pytest.approx(1.0 - spent)
    assert not second.asked


@pytest.mark.parametrize("allowed", [True, False])
def test_where_nothing_is_left_a_person_is_asked_before_anything_starts(kernel, allowed):
    brain = FakeBrain([bash("ls"), bash("ls -a"), Hang()], model="claude-opus-4-5")
    first = kernel(brain=brain).run(budget_usd=0.000001)
    assert first.outcome.status == "stopped"
    again = FakeBrain(["Done."], model="claude-opus-4-5")
    second = kernel(brain=again, say=lambda _: allowed).resume(first.outcome.run_id)
    [question] = second.asked
    assert question.kind is ApprovalKind.PLAN
    assert question.arguments["budget_usd"] == 0.000001
    assert second.outcome.status == ("stopped" if allowed else "denied")
    assert bool(second.of(RunResumed)) is allowed


@pytest.mark.parametrize(("answer", "budget"), [("0.50", 0.5), ("no budget", None), ("lots", 0.0)])
def test_the_answer_may_name_another_budget(kernel, answer, budget):
    brain = FakeBrain([bash("ls"), bash("ls -a"), Hang()], model="claude-opus-4-5")
    kernel(brain=brain).run(budget_usd=0.000001)
    again = FakeBrain(["Done."], model="claude-opus-4-5")
    one = kernel(brain=again)
    one.answer = answer
    second = one.resume()
    if budget == 0.0:
        assert second.outcome.status == "denied"
        assert "was no budget" in second.outcome.error
    else:
        assert again.turns[0].budget_usd == budget


def test_a_budget_in_the_cell_is_a_persons_word(kernel):
    brain = FakeBrain([bash("ls"), bash("ls -a"), Hang()], model="claude-opus-4-5")
    kernel(brain=brain).run(budget_usd=0.000001)
    again = FakeBrain(["Done."], model="claude-opus-4-5")
    second = kernel(brain=again).resume(budget_usd=2.0)
    assert again.turns[0].budget_usd == 2.0
    assert not second.asked


# ------------------------------------------------------------------- credentials


@pytest.fixture
def registry() -> Registry:
    provider = FakeProvider("fake", scopes=frozenset({"read", "write"}))
    return Registry({"fake": provider}, {"fake": (EnvInjection(way="env", variables={"TOKEN": "{token}"}),)})


LEASED = bash("echo $TOKEN; echo $TOKEN > mine; echo ${#TOKEN} > long; echo $TOKEN | rev", leases=["fake:read"])


def test_what_is_left_of_a_credentials_budget_needs_no_new_word_and_no_secret_is_kept(kernel, registry, tmp_path):
    with_lease = {"registry": registry}
    first = stopped_at(kernel([LEASED, Hang()], **with_lease), finished(1), grants=("fake:read",))
    assert [one.kind for one in first.asked] == [ApprovalKind.CREDENTIAL]
    stood = latest(kernel().cockpit.journal, first.outcome.run_id)
    assert stood is not None
    [left] = stood.budgets
    assert left.scope == "fake:read"
    assert 0 < left.seconds < 3600

    second = kernel([bash("test -n $TOKEN && cat long", leases=["fake:read"]), "Done."], **with_lease).resume()
    assert second.outcome.status == "done"
    assert not second.asked
    assert second.of(RunGranted)[0].by == "the run it goes on from"
    assert "18" in second.results[0]
    [acquired] = [event for event in second.of(LeaseChanged) if event.change == "acquired"]
    assert acquired.seconds_left <= left.seconds
    secret = b"secret-of-handle"
    assert [
        str(file) for file in (tmp_path / "home").rglob("*") if file.is_file() and secret in file.read_bytes()
    ] == []


@pytest.mark.parametrize(
    "budget", [LeftBudget("fake:write", 1e6, 9), LeftBudget("fake:read", 0.0, 9)], ids=["of another", "used up"]
)
def test_a_word_is_asked_for_anew_when_no_row_proves_it_or_its_time_is_used_up(kernel, registry, budget):
    first = stopped_at(kernel([LEASED, Hang()], registry=registry), finished(1), grants=("fake:read",))
    one = kernel(["Done."], registry=registry)
    stood = latest(one.cockpit.journal, first.outcome.run_id)
    assert stood is not None
    had_stored(one, replace(stood, budgets=(budget,)))
    ended = one.resume(first.outcome.run_id, grants=(budget.scope,))
    assert [question.kind for question in ended.asked] == [ApprovalKind.CREDENTIAL]
    assert len(ended.of(RunResumed)[0].asks) == 1


def test_another_credential_than_the_other_run_had_is_asked_for(kernel, registry):
    first = stopped_at(kernel([LEASED, Hang()], registry=registry), finished(1), grants=("fake:read",))
    second = kernel(["Done."], registry=registry).resume(first.outcome.run_id, grants=("fake:read", "fake:write"))
    [question] = second.asked
    assert question.kind is ApprovalKind.CREDENTIAL


def test_what_was_carried_on_is_that_runs_alone(kernel, registry):
    first = stopped_at(kernel([LEASED, Hang()], registry=registry), finished(1), grants=("fake:read",))
    one = kernel(["Done."], registry=registry)
    assert not one.resume(first.outcome.run_id).asked
    assert [question.kind for question in one.run(grants=("fake:read",)).asked] == [ApprovalKind.CREDENTIAL]


# ------------------------------------------------------------------- what is started


def test_a_successor_is_started_as_the_other_run_was_unless_its_cell_says_otherwise(kernel):
    wanted = {
        "model": "m-1",
        "net": ("127.0.0.1:9",),
        "write_mode": WriteMode.NONE,
        "max_turns": 7,
        "box": "bubblewrap",
    }
    first = stopped_at(kernel([bash("ls"), Hang()]), finished(1), **wanted)
    brain = FakeBrain(["Done."], usd_per_round=None)
    again = kernel(brain=brain)
    handle = again.start("", resume=first.outcome.run_id, project=None, model="m-2")
    again.end(handle)
    order = handle._run.order
    assert (brain.turns[0].model, brain.turns[0].max_turns) == ("m-2", 7)
    assert (order.write_mode, order.grant.net[-1], order.box) == (WriteMode.NONE, "127.0.0.1:9", "bubblewrap")


def test_a_run_without_a_memory_stores_nothing(tmp_path, project):
    brain = FakeBrain([bash("ls"), "Done."], usd_per_round=None)
    cockpit = fake_cockpit(tmp_path / "home", backend=BubblewrapBackend(), brains=[brain])
    try:
        ended = Kernel(cockpit, project).run()
        assert not ended.of(RunCheckpointed)
        assert history(cockpit.journal, ended.outcome.run_id) == []
        assert all(tool.name != "plan" for tool in brain.turns[0].tools)
    finally:
        cockpit.close()


def test_what_is_played_stores_nothing_and_may_tell_its_plan(kernel):
    plan = Ask("plan", {"steps": ["look"]})
    played = FakeBrain([plan, bash("ls"), "Done."], usd_per_round=None, name="replay")
    one = kernel(brain=played)
    ended = one.run()
    assert ended.results[0].startswith("Kept: 1 steps")
    assert not ended.of(RunCheckpointed)
    with pytest.raises(ResumeRefused, match="played a cassette"):
        one.resume(ended.outcome.run_id)


def test_looking_alone_stores_nothing(kernel):
    looks = [Ask("read_file", {"path": "kept.txt"}), Ask("list_files", {}), bash("true"), "Done."]
    ended = kernel(looks).run()
    assert [(one.step, one.interrupted) for one in ended.of(RunCheckpointed)] == [(0, False), (3, False)]


def test_a_run_that_another_one_went_on_from_is_not_gone_on_with_again(kernel, tmp_path):
    log = tmp_path / "log"
    one, two = on_host(f"echo one >> {log}"), on_host(f"echo two >> {log}")
    first = stopped_at(kernel([one, Hang()]), finished(1))
    second = kernel([one, two, "All done."]).resume(first.outcome.run_id)
    assert second.outcome.status == "done"
    third = kernel([one, two, "All done."])
    with pytest.raises(ResumeRefused, match=f"{second.outcome.run_id} went on from it and ended well"):
        third.resume(first.outcome.run_id)
    with pytest.raises(ResumeRefused):
        third.resume("last")
    assert log.read_text() == "one\ntwo\n"


def test_of_two_runs_that_go_on_from_one_the_first_one_does(kernel):
    first = stopped_at(kernel([bash("echo one > one.txt"), Hang()]), finished(1))
    second = stopped_at(
        kernel([bash("echo one > one.txt"), bash("true"), Hang()]),
        finished(1),
        task="",
        project=None,
        resume=first.outcome.run_id,
    )
    fresh = kernel(["All done."])
    with pytest.raises(ResumeRefused, match="Resume that one"):
        fresh.resume(first.outcome.run_id)
    assert fresh.resume("last").outcome.status == "done"
    journal = fresh.cockpit.journal
    assert gone_on_with(journal, first.outcome.run_id, second.outcome.run_id) == ""
    assert gone_on_with(journal, first.outcome.run_id, "run-later") != ""
