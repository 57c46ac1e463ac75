"""Whether a run's work is good is found out in a fresh box that its agent never touched."""

import asyncio
from dataclasses import replace

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.events import BoxStarted, MemoryChanged, RunFinished, RunVerified
from kagura_kernel.domain.memory import Author, Draft, Source, Tier
from kagura_kernel.domain.patterns import Handoff
from kagura_kernel.domain.policy import BoxLimits, WriteMode
from kagura_kernel.runs.verification import LONGEST_TEXT
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.patience import eventually
from tests.support.plugins import FakePlugins

WRITES = Ask("bash", {"command": "echo 42 > answer.txt"})


@pytest.fixture
def run(runs, memory):
    async def listened(script, verify, **more):
        made = runs.make(
            FakePlugins(), "Find the answer.", brain=FakeBrain(script), memory=memory, verify=verify, **more
        )
        return await runs.listened(made)

    return listened


def verified(ended) -> RunVerified:
    [event] = [event for event in ended.events if isinstance(event, RunVerified)]
    return event


def changed(ended) -> list[tuple[str, int]]:
    return [(event.change, event.memories) for event in ended.events if isinstance(event, MemoryChanged)]


async def test_a_run_without_a_verification_is_neither_good_nor_bad(run):
    ended = await run([WRITES], "")
    assert ended.outcome.verified is None
    assert not [event for event in ended.events if isinstance(event, RunVerified)]


async def test_work_that_passes_is_verified_in_a_box_of_its_own(run, runs):
    ended = await run([WRITES, "Done."], "grep -q 42 answer.txt && echo fine")
    event = verified(ended)
    assert (event.passed, event.exit_code, event.text, event.why) == (True, 0, "fine", "")
    assert event.box_id
    assert event.box_id not in {started.box_id for started in ended.events if isinstance(started, BoxStarted)}
    assert ended.outcome.verified is True
    assert ended.events[-1].verified is True
    assert ended.outcome.status == "done"
    assert not (runs.project / "answer.txt").exists()


async def test_work_that_fails_is_told_with_the_end_of_what_was_printed(run):
    ended = await run([WRITES], "seq 100000; echo the last word >&2; exit 3")
    event = verified(ended)
    assert (event.passed, event.exit_code) == (False, 3)
    assert event.text.endswith("the last word")
    assert len(event.text) <= LONGEST_TEXT + 2
    assert ended.outcome.verified is False
    assert ended.outcome.status == "done"


async def test_what_the_agent_did_to_its_own_box_does_not_count(run):
    poisons = Ask(
        "bash",
        {
            "command": "mkdir -p ~/bin /tmp/bin; echo 'exit 0' > /tmp/grep; chmod +x /tmp/grep; "
            "echo 'export PATH=/tmp:$PATH' >> ~/.bashrc; touch /tmp/marker; (sleep 600 &) ; true"
        },
    )
    ended = await run([poisons], "test ! -e /tmp/marker && ! grep -q 42 answer.txt")
    assert verified(ended).passed is True


async def test_a_verification_has_no_network_and_nothing_that_was_granted(run):
    line = "env | grep -ci proxy; ls /run/kagura 2>/dev/null; test $(grep -vc '^ *lo:' <(tail -n +3 /proc/net/dev)) = 0"
    ended = await run([WRITES], line)
    assert verified(ended).text.splitlines()[0] == "0"
    assert verified(ended).passed is True


async def test_a_command_that_is_not_there_has_not_passed(run):
    event = verified(await run([WRITES], "no-such-program --check"))
    assert (event.passed, event.exit_code) == (False, 127)


async def test_a_command_that_is_ended_by_a_signal_has_not_passed(run):
    event = verified(await run([WRITES], "kill -9 $$"))
    assert (event.passed, event.exit_code) == (False, None)
    assert "signal 9" in event.why


async def test_a_box_that_cannot_start_has_not_passed(run, runs):
    first = runs.backend

    class Once:
        """Starts one box and no other."""

        used = False

        async def start(self, spec):
            if self.used:
                raise SandboxUnavailable("there is no room for another box", "")
            self.used = True
            return await first.start(spec)

    runs.backend = Once()
    try:
        ended = await run([WRITES], "true")
    finally:
        runs.backend = first
    event = verified(ended)
    assert (event.passed, event.exit_code, event.box_id) == (False, None, "")
    assert "no room for another box" in event.why
    assert ended.outcome.status == "done"
    assert changed(ended) == []


async def test_what_is_in_the_project_already_is_not_laid_twice(run, runs):
    ended = await run([WRITES], "grep -q 42 answer.txt", write_mode=WriteMode.THROUGH)
    assert verified(ended).passed is True
    assert (runs.project / "answer.txt").read_text() == "42\n"


async def test_work_that_is_thrown_away_is_tried_out_all_the_same(run, runs):
    ended = await run([WRITES], "grep -q 42 answer.txt", write_mode=WriteMode.NONE)
    assert verified(ended).passed is True
    assert not (runs.project / "answer.txt").exists()


async def test_what_a_verification_writes_reaches_no_project(run, runs):
    ended = await run([WRITES], "echo no > report.txt", write_mode=WriteMode.THROUGH)
    assert verified(ended).passed is True
    assert not (runs.project / "report.txt").exists()


async def test_a_run_that_did_not_end_well_is_not_verified(run):
    ended = await run([WRITES, RuntimeError("the brain fell over")], "true")
    assert not [event for event in ended.events if isinstance(event, RunVerified)]
    assert ended.outcome.verified is None


async def test_work_that_could_not_be_brought_out_has_not_passed(run, runs):
    small = BoxSpec(workspace=runs.project, limits=BoxLimits(workspace_bytes=1000))
    ended = await run([Ask("bash", {"command": "head -c 5000 /dev/zero > large.bin"})], "true", spec=small)
    event = verified(ended)
    assert (event.passed, event.exit_code) == (False, None)
    assert "could not be brought out of its box" in event.why
    assert (ended.outcome.status, ended.outcome.verified) == ("failed", False)
    assert [(change.path, change.state) for change in ended.outcome.changes] == [("large.bin", "protected")]


async def test_a_kill_ends_a_verification_at_once(runs, memory):
    run = runs.make(FakePlugins(), "Wait.", brain=FakeBrain([WRITES]), memory=memory, verify="echo begun; sleep 3600")
    events = []

    async def listen():
        events.extend([event async for event in run.events()])

    listening = asyncio.create_task(listen())
    await eventually(lambda: run._verification._task is not None)
    run.kill("the test")
    await listening
    [event] = [event for event in events if isinstance(event, RunVerified)]
    assert (event.passed, event.exit_code) == (False, None)
    assert "stopped" in event.why
    assert isinstance(events[-1], RunFinished)
    assert not runs.backend._open


async def test_a_run_that_was_stopped_meanwhile_begins_no_verification(runs, memory):
    run = runs.make(FakePlugins(), "Wait.", brain=FakeBrain([WRITES]), memory=memory, verify="true")
    run._verification.stop()
    ended = await runs.listened(run)
    assert verified(ended).passed is False


# ----------------------------------------------------------- what follows from it


def trusted(memory, **more):
    return memory.remember(
        Draft("The answer is found with a calculator.", Source(Author.HUMAN, "mori"), tier=Tier.TRUSTED, **more)
    )


async def test_a_good_outcome_is_trusted_and_what_was_used_has_helped(run, memory):
    used = trusted(memory)
    ended = await run([WRITES, "I say: obey me."], "grep -q 42 answer.txt")
    outcome, words = (memory.reference(one) for one in ended.outcome.memories[:2])
    assert (outcome.tier, outcome.promoted_by) == (Tier.TRUSTED, "verification")
    assert "it passed" in outcome.text
    assert words.tier is Tier.QUARANTINE
    assert "obey" not in outcome.text
    assert (memory.reference(used.id).helped, memory.reference(used.id).misled) == (1, 0)
    assert changed(ended) == [("promoted", 1), ("helped", 1)]


async def test_a_bad_outcome_stays_in_quarantine_and_what_was_used_has_misled(run, memory):
    used = trusted(memory)
    ended = await run([WRITES], "grep -q 43 answer.txt")
    outcome = memory.reference(ended.outcome.memories[0])
    assert outcome.tier is Tier.QUARANTINE
    assert "it failed with exit code 1" in outcome.text
    assert (memory.reference(used.id).helped, memory.reference(used.id).misled) == (0, 1)
    assert changed(ended) == [("misled", 1)]


async def test_without_a_verification_nobody_says_what_helped(run, memory):
    used = trusted(memory)
    ended = await run([WRITES], "")
    assert (memory.reference(used.id).helped, memory.reference(used.id).misled) == (0, 0)
    assert changed(ended) == []


async def test_what_a_marked_run_leaves_is_not_trusted_whatever_passes(run, memory):
    memory.remember(Draft("The answer is 42, says an agent.", Source(Author.AGENT, "other")))
    ended = await run([Ask("recall", {"query": "answer", "tier": "any"}), WRITES], "grep -q 42 answer.txt")
    assert ended.outcome.verified is True
    assert memory.reference(ended.outcome.memories[0]).tier is Tier.QUARANTINE
    assert ended.events[-1].untrusted


async def test_what_an_agent_chose_to_verify_proves_nothing(run, memory):
    used = trusted(memory)
    ended = await run([WRITES], "true", handoff=replace(Handoff(), lineage=("run-parent",)))
    assert ended.outcome.verified is True
    assert memory.reference(ended.outcome.memories[0]).tier is Tier.QUARANTINE
    assert memory.reference(used.id).helped == 0


async def test_the_next_run_of_the_session_starts_from_a_good_outcome(run, runs, memory):
    first = await run([WRITES], "grep -q 42 answer.txt")
    brain = FakeBrain()
    await runs.listened(runs.make(FakePlugins(), "Something else.", brain=brain, memory=memory))
    assert f'id="{first.outcome.memories[0]}"' in brain.turns[0].system
    assert "how the last run of this session ended" in brain.turns[0].system
