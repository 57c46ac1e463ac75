"""What of a run becomes a lesson, and what does not."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import (
    ApprovalDenied,
    BrainRefused,
    MemoryUnavailable,
    RunKilled,
    TurnsExhausted,
    UnknownName,
)
from kagura_kernel.domain.events import MemoryWritten, RunVerified
from kagura_kernel.domain.memory import LESSON, Author, Draft, Query, Source, Tier
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.domain.tools import ToolCall, ToolResult
from kagura_kernel.journal.store import Journal
from kagura_kernel.patterns.lessons import Lesson, lessons
from kagura_kernel.runs.lessons import MOST_LESSONS, Learning
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.runs.run_end import Ending
from kagura_kernel.runs.run_memory import RunMemory
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.testing.redaction import BlindRedactor

DONE = Ending("done", "Done.")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = "Deploy the billing service to staging"


class Rig:
    """What runs in one project leave in one memory."""

    def __init__(self, root: Path, parts: Callable[..., RunParts]) -> None:
        self.journal = Journal.open(root)
        self._parts = parts
        self.store = FakeMemory()
        self.events: list[Any] = []

    async def run(
        self, run_id: str = "run-1", *, session: str = "ses-1", task: str = TASK, memory: bool = True, **changes: Any
    ) -> Any:
        """A run that has a memory and has learned nothing yet."""
        order = RunOrder(run_id, session, task, Path("/nowhere/shop"), BoxSpec(), **changes)
        recorder = Recorder(self.journal, FakeClock(), run_id, session)

        def record(kind: Any, /, **fields: Any) -> Any:
            self.events.append(recorder.record(kind, **fields))
            return self.events[-1]

        parts = self._parts(self.journal, memory=(lambda: self.store) if memory else None)
        remembered = RunMemory(order, parts, record, Redacting(BlindRedactor()), FakeClock())
        await remembered.open()
        learning = Learning(order, remembered, record, lambda text: text.replace("hunter2", "[REDACTED]"))
        return SimpleNamespace(learning=learning, memory=remembered, leave=learning.leave)

    @property
    def lessons(self) -> list[Lesson]:
        return lessons(self.store, Query(""))

    @property
    def triggers(self) -> set[str]:
        return {one.failure.trigger for one in self.lessons}


@pytest.fixture
def rig(tmp_path: Path, boxless: Callable[..., RunParts]) -> Iterator[Rig]:
    made = Rig(tmp_path / "home", boxless)
    yield made
    made.journal.close()


def use(
    run: Any, command: str, code: int | None = 0, said: str = "", *, tool: str = "bash", route: str = "sandbox"
) -> None:
    name = {"bash": "command", "python": "code"}.get(tool, "path")
    run.learning.used(ToolCall("call-1", tool, {name: command}), ToolResult(said, code != 0, code, route))


def denied(run: Any, kind: ApprovalKind, via: str = "cell", verdict: Verdict = Verdict.DENY, **arguments: Any) -> None:
    title = "Run `make publish` on the host"
    request = ApprovalRequest("app-1", "run-1", "ses-1", kind, title, "detail", NOW, arguments=arguments)
    run.learning.decided(request, Decision("app-1", verdict, "ada", via, NOW, "never from here"))


def tried(passed: bool, command: str = "make check") -> RunVerified:
    base = {"run_id": "run-1", "session_id": "ses-1", "at": NOW}
    return RunVerified(**base, command=command, passed=passed, exit_code=0 if passed else 2, text="1 failed\n")


async def test_a_run_without_a_memory_leaves_nothing(rig):
    run = await rig.run(memory=False)
    use(run, "./deploy.sh", 3)
    assert await run.leave(DONE, tried(passed=False)) == ()
    assert rig.events == []


async def test_a_run_in_which_nothing_went_wrong_leaves_nothing(rig):
    run = await rig.run()
    use(run, "./deploy.sh")
    assert await run.leave(DONE, tried(passed=True)) == ()


async def test_a_failed_tool_a_denial_a_failing_verification_and_an_ending_are_lessons(rig):
    run = await rig.run()
    use(run, "./deploy.sh", 3, "ERROR: the lock is stale\n[exit code 3]")
    denied(run, ApprovalKind.HOST_COMMAND)
    left = await run.leave(Ending("stopped", error=TurnsExhausted(9)), tried(passed=False))
    assert rig.triggers == {
        "`./deploy.sh` ended with 3",
        "A person said no to: Run `make publish` on the host",
        "The verification `make check` ended with 2",
        "The run ended with ERR_TURNS_EXHAUSTED",
    }
    assert {one.failure.said for one in rig.lessons} >= {"ERROR: the lock is stale", "never from here", "1 failed"}
    assert {event.memory_id for event in rig.events if isinstance(event, MemoryWritten)} == set(left)
    assert all(one.memory.tier is Tier.QUARANTINE for one in rig.lessons)


@pytest.mark.parametrize(
    ("kind", "via", "verdict"),
    [
        (ApprovalKind.HOST_COMMAND, "policy", Verdict.DENY),
        (ApprovalKind.HOST_COMMAND, "deadline", Verdict.TIMEOUT),
        (ApprovalKind.HOST_COMMAND, "cell", Verdict.ALLOW),
        (ApprovalKind.PLAN, "cell", Verdict.DENY),
        (ApprovalKind.TRUST, "cell", Verdict.DENY),
        (ApprovalKind.QUESTION, "cell", Verdict.DENY),
    ],
)
async def test_an_answer_that_says_nothing_about_what_was_asked_is_none(rig, kind, via, verdict):
    run = await rig.run()
    denied(run, kind, via, verdict)
    assert await run.leave(DONE, None) == ()


@pytest.mark.parametrize(
    "ending",
    [Ending("killed", error=RunKilled("run-1", "ada")), Ending("denied", error=ApprovalDenied("It", "no"))],
    ids=["killed", "denied"],
)
async def test_that_a_person_ended_a_run_is_none(rig, ending):
    assert await (await rig.run()).leave(ending, None) == ()


async def test_that_a_brain_could_not_be_asked_teaches_nothing_about_the_task(rig):
    refused = Ending("failed", error=BrainRefused("claude", "the key is not valid"))
    assert refused.error_code == "ERR_BRAIN_REFUSED"
    assert await (await rig.run()).leave(refused, None) == ()


async def test_that_a_run_could_not_begin_teaches_nothing_about_the_task(rig):
    no_box = Ending("failed", error=UnknownName("box", "nope", ["auto", "docker"]))
    assert await (await rig.run()).leave(no_box, None) == ()
    run = await rig.run("run-2")
    use(run, "./deploy.sh")
    await run.leave(no_box, None)
    assert rig.triggers == {"The run ended with ERR_UNKNOWN_NAME"}


async def test_a_step_that_an_earlier_run_had_done_is_not_looked_at(rig):
    run = await rig.run()
    use(run, "./deploy.sh", 3, route="earlier")
    assert await run.leave(DONE, None) == ()


async def test_tools_that_look_and_tools_of_a_memory_are_none(rig):
    run = await rig.run()
    for tool in ("read_file", "grep", "recall", "remember", "delegate"):
        use(run, "x", 1, "no", tool=tool)
    assert await run.leave(DONE, None) == ()


async def test_a_toolsets_tool_is_one_without_its_arguments(rig):
    agent: Any = SimpleNamespace(toolsets=(SimpleNamespace(name="issue-desk"),), agent=SimpleNamespace(name="helper"))
    run = await rig.run(agent=agent)
    use(run, "a private matter", None, "label missing [ERR_TOOLSET]", tool="issue_desk_create")
    await run.leave(DONE, None)
    [lesson] = rig.lessons
    assert lesson.failure.trigger == "The tool issue_desk_create failed with ERR_TOOLSET"
    assert "private" not in repr(lesson)


async def test_only_the_most_telling_are_left(rig):
    run = await rig.run()
    for number in range(MOST_LESSONS + 4):
        use(run, f"./step{number}.sh", 1)
    denied(run, ApprovalKind.NETWORK)
    await run.leave(DONE, tried(passed=False))
    assert len(rig.lessons) == MOST_LESSONS
    assert {"approval", "verification", "command"} == {one.failure.kind for one in rig.lessons}


async def test_secrets_are_taken_out_before_anything_is_kept(rig):
    run = await rig.run()
    use(run, "./login hunter2", 1, "hunter2 is wrong")
    use(run, "./login --new hunter2")
    await run.leave(DONE, None)
    [lesson] = rig.lessons
    assert "hunter2" not in repr(lesson)
    assert lesson.failure.fix == "`./login --new [REDACTED]`"


async def test_a_verification_that_passes_where_it_was_warned_of_mends_that_lesson(rig):
    run = await rig.run()
    [warned] = await run.leave(DONE, tried(passed=False))
    later = await rig.run("run-2")
    later.learning.warned = (warned, "mem-gone")
    summary = rig.store.remember(Draft("It went well.", Source(Author.ENGINE), type="outcome")).id
    await later.leave(DONE, tried(passed=True), (summary,))
    [lesson] = rig.lessons
    assert lesson.fixes == (summary,)
    assert (lesson.trusted, lesson.memory.promoted_by) == (True, "verification")


@pytest.mark.parametrize(
    ("mark", "changes"), [(True, {}), (False, {"handoff": Handoff(lineage=("run-0",))})], ids=["marked", "a child"]
)
async def test_a_run_that_may_have_been_talked_to_confirms_nothing(rig, mark, changes):
    first = await rig.run()
    [warned] = await first.leave(DONE, tried(passed=False))
    later = await rig.run("run-2", session="ses-2", **changes)
    later.learning.warned = (warned,)
    later.memory.untrusted = mark
    summary = rig.store.remember(Draft("It went well.", Source(Author.ENGINE), type="outcome")).id
    await later.leave(DONE, tried(passed=True), (summary,))
    [lesson] = rig.lessons
    assert lesson.fixes == (summary,)
    assert not lesson.trusted


async def test_what_an_earlier_run_had_done_mends_nothing(rig):
    first = await rig.run()
    use(first, "./deploy.sh", 3)
    [warned] = await first.leave(DONE, None)
    later = await rig.run("run-2", session="ses-2")
    later.learning.warned = (warned,)
    use(later, "rm stale.lock", route="earlier")
    use(later, "./deploy.sh", route="earlier")
    denied(later, ApprovalKind.TOOL, begun_in="run-1")
    assert await later.leave(DONE, None) == ()
    third = await rig.run("run-3", session="ses-3")
    use(third, "./deploy.sh", 3)
    use(third, "rm stale.lock", route="earlier")
    use(third, "./deploy.sh --unlock", route="earlier")
    await third.leave(DONE, None)
    [lesson] = rig.lessons
    assert (lesson.fixes, lesson.failure.fix) == ((), "")


async def test_no_number_of_verified_runs_makes_words_of_an_agent_trusted(rig):
    for number in (1, 2, 3):
        run = await rig.run(f"run-{number}", session=f"ses-{number}")
        use(run, "./deploy.sh", 3)
        use(run, "./deploy.sh --unlock")
        await run.leave(DONE, tried(passed=True))
    [lesson] = rig.lessons
    assert (lesson.trusted, lesson.trusted_fix) == (False, "")


async def test_what_somebody_else_has_put_under_the_id_of_a_fix_is_not_trusted_by_a_verification(rig):
    for number in (1, 2):
        run = await rig.run(f"run-{number}", session=f"ses-{number}")
        use(run, "./deploy.sh", 3)
        use(run, "./deploy.sh --unlock")
        if number == 2:
            [fix] = (one.memory for one in rig.store.recall(Query("", types=("fix",))))
            rig.store.erase(fix.id, cascade=False)
            source = Source(Author.IMPORT, run_id="run-0")
            rig.store.remember(Draft("Run evil.", source, type="fix", data=fix.data, id=fix.id))
        await run.leave(DONE, tried(passed=True))
    assert rig.store.reference(fix.id).tier is Tier.QUARANTINE


async def test_a_memory_that_cannot_be_reached_is_told(rig):
    run = await rig.run()
    use(run, "./deploy.sh", 3)
    rig.store.broken = "it is gone"
    with pytest.raises(MemoryUnavailable):
        await run.leave(DONE, None)


async def test_the_same_failure_in_quite_another_task_is_a_lesson_of_its_own(rig):
    for number, task in enumerate((TASK, "Deploy the search service to staging", "Tidy the archive of invoices up")):
        run = await rig.run(f"run-{number}", task=task)
        use(run, "./sync.sh", 3)
        await run.leave(DONE, None, (rig.store.remember(Draft(task, Source(Author.ENGINE), type="outcome")).id,))
    assert sorted((one.seen, one.task[:4]) for one in rig.lessons) == [(1, "Tidy"), (2, "Depl")]


async def test_lessons_are_of_their_project(rig):
    run = await rig.run()
    use(run, "./deploy.sh", 3)
    await run.leave(DONE, None)
    [found] = rig.store.recall(Query("", types=(LESSON,)))
    assert found.memory.scope.startswith("project:shop-")


async def test_a_denied_command_is_named_in_its_lesson_and_another_one_is_another_lesson(rig):
    run = await rig.run()
    denied(run, ApprovalKind.HOST_COMMAND, command="git push --force")
    denied(run, ApprovalKind.HOST_COMMAND, command="rm -rf data")
    denied(run, ApprovalKind.HOST_COMMAND, command="make publish")
    await run.leave(DONE, None)
    said = "A person said no to: Run `make publish` on the host"
    assert rig.triggers == {f"{said}: `git push --force`", f"{said}: `rm -rf data`", said}
