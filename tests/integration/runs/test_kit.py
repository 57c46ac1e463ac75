"""An agent with skills and prompt files at work in a real box: what it is told, can read and run, and cannot change."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.events import (
    AnyEvent,
    KitStaged,
    OutputStreamed,
    ResultShown,
    RunGranted,
    TextStreamed,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.outcome import RunOutcome
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.redactors import shared_redactor

pytestmark = pytest.mark.timeout(120)

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"

SKILL = f"""---
name: csv-tools
description: Counts rows of CSV files.
---
Run `count.py FILE`. The old way needed {TOKEN}.
"""


class Place:
    """A project, a home with a skill, and a cockpit over both."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.person = self.home / "person"
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (self.project / "AGENTS.md").write_text(f"Use tabs.\nThe deploy token is {TOKEN}\n")
        self.skill = self.person / ".agents" / "skills" / "csv-tools"
        self.skill.mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)
        script = self.skill / "count.py"
        script.write_text("#!/usr/bin/env python3\nimport sys\nprint(len(open(sys.argv[1]).readlines()))\n")
        script.chmod(0o755)
        self.brain = FakeBrain()
        self.cockpit: Cockpit | None = None

    def run(self, *script: object, agent: str | None = "skilled", **more: Any) -> tuple[RunOutcome, list[AnyEvent]]:
        self.brain = FakeBrain([*script, "Done."])  # type: ignore[list-item]
        self.close()
        self.cockpit = fake_cockpit(
            self.home, backend=BubblewrapBackend(), brains=[self.brain], redactor=shared_redactor()
        )
        handle = self.cockpit.launch(RunRequest(task="Go.", project=self.project, agent=agent, headless=True, **more))
        outcome = asyncio.run(asyncio.wait_for(handle.wait(), 90))
        return outcome, [row.event for row in self.cockpit.journal.events(run_id=outcome.run_id)]

    def close(self) -> None:
        """Close the cockpit there is."""
        if self.cockpit is not None:
            self.cockpit.close()
            self.cockpit = None


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def said(events: list[AnyEvent]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


def only(kind: Callable[..., AnyEvent], events: list[AnyEvent]) -> AnyEvent:
    [found] = [event for event in events if isinstance(event, kind)]  # type: ignore[arg-type]
    return found


def test_a_skill_is_told_read_and_run_and_cannot_be_changed(place):
    (place.project / "data.csv").write_text("a\n1\n2\n")
    outcome, events = place.run(
        Ask("skill", {"name": "csv-tools"}),
        Ask("bash", {"command": '"$KAGURA_KIT_DIR"/skills/csv-tools/count.py data.csv'}),
        Ask("read_file", {"path": "/kagura/kit/skills/csv-tools/SKILL.md"}),
        Ask("glob", {"pattern": "**/*", "path": "/kagura/kit"}),
        Ask("grep", {"pattern": "old way", "path": "/kagura/kit"}),
        Ask("bash", {"command": "echo x >> $KAGURA_KIT_DIR/skills/csv-tools/SKILL.md; echo y > $KAGURA_KIT_DIR/new"}),
        Ask("skill", {"name": "csv-tool"}),
        Ask("skill", {"name": "csv-tools", "file": "../../../../etc/passwd"}),
    )
    assert outcome.status == "done", outcome.error
    told = place.brain.turns[0].system
    assert "- csv-tools: Counts rows of CSV files." in told
    assert "Use tabs." in told
    assert TOKEN not in told
    assert "[REDACTED:" in told
    skill, counted, read, found, grepped, refused, near, outside = said(events)
    assert "Directory: /kagura/kit/skills/csv-tools\nFiles: count.py" in skill.text
    assert counted.text.strip() == "3"
    assert "Counts rows" in read.text
    assert "/kagura/kit/skills/csv-tools/count.py" in found.text
    assert "old way" in grepped.text
    assert refused.text.count("Read-only file system") == 2
    assert (near.is_error, "csv-tools" in near.text) == (True, True)
    assert (outside.is_error, "root:" in outside.text) == (True, False)
    assert all(TOKEN not in result.text for result in said(events))


def test_what_was_staged_is_told_and_no_place_of_the_host_is_in_the_box(place):
    outcome, events = place.run(
        Ask("bash", {"command": "cat $KAGURA_KIT_DIR/manifest.json; grep -r person $KAGURA_KIT_DIR; true"})
    )
    assert outcome.status == "done", outcome.error
    staged = only(KitStaged, events)
    assert isinstance(staged, KitStaged)
    assert (staged.agent, [skill.name for skill in staged.skills]) == ("skilled", ["csv-tools"])
    [prompt] = staged.prompt_files
    assert (prompt.name, prompt.place, prompt.path, prompt.redactions) == (
        "AGENTS.md",
        "workspace",
        "/workspace/AGENTS.md",
        1,
    )
    [body] = [file for file in staged.skills[0].files if file.target.endswith("SKILL.md")]
    assert body.redactions == 1
    granted = only(RunGranted, events)
    assert isinstance(granted, RunGranted)
    assert [mount.target for mount in granted.mounts] == ["/workspace", "/kagura/kit"]
    [shown] = said(events)
    assert str(place.home) not in shown.text
    assert "person" not in shown.text


def test_a_run_whose_agent_needs_nothing_of_the_host_has_no_kit(place):
    outcome, events = place.run(Ask("bash", {"command": 'echo "[$KAGURA_KIT_DIR]"; ls -d /kagura'}), agent=None)
    assert outcome.status == "done", outcome.error
    staged = only(KitStaged, events)
    assert isinstance(staged, KitStaged)
    assert (staged.agent, staged.digest, staged.skills) == ("default", "", ())
    assert "[]" in said(events)[0].text
    assert "skill" not in [spec.name for spec in place.brain.turns[0].tools]
    assert "Use tabs." in place.brain.turns[0].system


def test_the_second_run_finds_the_kit_as_it_was_and_a_changed_skill_is_staged_anew(place):
    _, first = place.run()
    _, second = place.run()
    (place.skill / "SKILL.md").write_text(SKILL.replace("Counts rows", "Counts lines"))
    _, third = place.run()
    kits = [only(KitStaged, events) for events in (first, second, third)]
    assert [kit.unchanged for kit in kits] == [False, True, False]  # type: ignore[union-attr]
    assert kits[0].digest == kits[1].digest != kits[2].digest  # type: ignore[union-attr]
    assert "Counts lines" in place.brain.turns[0].system


def test_a_network_that_the_person_closed_is_not_opened_for_toolsets(place):
    (place.project / "agent.yaml").write_text(
        "name: odd\ntoolsets: [{type: mcp, name: far, command: some-server, version: 'pip:some-server'}]\n"
    )
    outcome, events = place.run(agent=str(place.project / "agent.yaml"), net=("none",))
    assert outcome.status == "done", outcome.error
    granted = only(RunGranted, events)
    assert isinstance(granted, RunGranted)
    assert granted.egress == ()
    staged = only(KitStaged, events)
    assert isinstance(staged, KitStaged)
    assert staged.tool_hosts == ()


def test_a_definition_of_somebody_else_reads_no_file_of_the_person_without_a_word(place):
    (place.person / "diary.md").write_text("Dear diary.")
    (place.person / "GEMINI.md").write_text("Be kind.")
    (place.project / "agent.yaml").write_text(
        f"name: odd\nadd_prompt_files: [GEMINI.md, AGENTS.md]\nsystem_prompt: Push with {TOKEN}.\n"
    )
    outcome, _ = place.run(agent=str(place.project / "agent.yaml"))
    assert outcome.status == "done", outcome.error
    told = place.brain.turns[0].system
    assert "Be kind." in told
    assert "Push with [REDACTED:" in told
    (place.project / "agent.yaml").write_text("name: odd\nadd_prompt_files: [diary.md]\n")
    outcome, events = place.run(agent=str(place.project / "agent.yaml"))
    assert outcome.status == "denied"
    assert any("reads ~/diary.md to its brain" in repr(event) for event in events)
    assert place.brain.turns == []


def test_a_definition_of_somebody_else_takes_no_skill_of_the_person_without_a_word(place):
    odd = place.project / "agent.yaml"
    odd.write_text("name: odd\nskills: true\n")
    outcome, events = place.run(agent=str(odd))
    assert outcome.status == "denied"
    granted = only(RunGranted, events)
    assert isinstance(granted, RunGranted)
    assert "reads your skill csv-tools to its brain" in granted.beyond
    assert place.brain.turns == []
    odd.write_text("name: odd\nskills: [csv-tools]\n")
    outcome, _ = place.run(agent=str(odd))
    assert outcome.status == "done", outcome.error
    assert "- csv-tools: Counts rows of CSV files." in place.brain.turns[0].system


PASSWORD = "tr0ub4dor-and-3-more"
MARK = "[REDACTED:"
IN_PIECES = "head -1 .env | cut -c 14-24 | tr -d '\\n'; head -1 .env | cut -c 25- | tr -d '\\n'; echo ' and on'"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".env").write_text(f"GITHUB_TOKEN={TOKEN}\nDATABASE_URL=postgres://app:{PASSWORD}@db/app\nDEBUG=1\n")
    return root


class Listened:
    """One run of a cockpit, with everything that was heard of it and everything that was kept."""

    def __init__(self, tmp_path: Path, intent: RunRequest, brain: FakeBrain) -> None:
        home = tmp_path / "home"
        cockpit = fake_cockpit(home, backend=BubblewrapBackend(), brains=[brain], redactor=shared_redactor())
        try:
            self.events: list[AnyEvent] = []
            handle = cockpit.launch(intent)
            handle.subscribe(self.events.append)
            self.outcome = handle.result(90)
            self.stored = [row.event for row in cockpit.journal.events(run_id=self.outcome.run_id)]
        finally:
            cockpit.close()
        self.kept = {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in home.rglob("*")
            if path.is_file() and "blobs" not in path.parts
        }

    def of(self, kind):
        """What was heard of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def test_nothing_that_is_told_holds_a_secret_and_everything_that_was_asked_for_is_done(project, tmp_path):
    brain = FakeBrain(
        [
            f"I shall use {TOKEN} now.\nThen more.",
            Ask("read_file", {"path": ".env"}),
            Ask("bash", {"command": f"{IN_PIECES}; echo {TOKEN} > out.txt"}),
            Ask("bash", {"command": "for n in {1..30000}; do echo line $n; done; cat .env; echo end >&2"}),
            Ask("bash", {"command": f"echo '<b>{TOKEN}</b>' > $KAGURA_SHOW/page.html"}),
            f"The password is {PASSWORD}, said postgres://app:{PASSWORD}@db/app.",
        ]
    )
    intent = RunRequest(
        task=f"Deploy with {TOKEN}", project=project, write_mode=WriteMode.THROUGH, headless=True, brain="fake"
    )
    run = Listened(tmp_path, intent, brain)
    assert run.outcome.status == "done", run.outcome.error
    for told in (repr(run.events), repr(run.stored), repr(run.outcome)):
        assert TOKEN not in told
        assert TOKEN[11:] not in told
        assert PASSWORD not in told
        assert MARK in told
    assert [path for path, data in run.kept.items() if TOKEN.encode() in data or PASSWORD.encode() in data] == []
    spilled = [data for path, data in run.kept.items() if path.startswith("outputs/")]
    assert any(data.count(b"line ") == 30_000 and MARK.encode() in data for data in spilled)
    # What was asked for is what was done.
    assert brain.turns[0].task == f"Deploy with {TOKEN}"
    assert (project / "out.txt").read_text() == f"{TOKEN}\n"
    assert PASSWORD in (project / ".env").read_text()
    texts = [event.text for event in run.of(ToolFinished)]
    assert "DEBUG=1" in texts[0]
    assert texts[0].count(MARK) == 2
    assert texts[1].startswith(MARK)
    assert "] and on" in texts[1]
    assert MARK in repr(run.of(ToolCalled)[1].arguments)
    assert any(MARK in event.text for event in run.of(OutputStreamed))
    assert "".join(event.text for event in run.of(TextStreamed)).startswith(f"I shall use {MARK}")
    [page] = [event for event in run.of(ResultShown) if event.mime == "text/html"]
    assert page.data.startswith(f"<b>{MARK}")


def test_a_cells_own_code_and_what_it_prints_are_redacted_where_they_are_told(project, tmp_path):
    code = f"token = '{TOKEN}'\nprint(token, len(token), flush=True)\nn = open('kept.txt', 'w').write(token)\n"
    intent = RunRequest(task=code, language="python", project=project, write_mode=WriteMode.THROUGH, headless=True)
    run = Listened(tmp_path, intent, FakeBrain())
    assert run.outcome.status == "done", run.outcome.error
    assert TOKEN not in repr((run.events, run.stored, run.outcome))
    assert run.outcome.text.startswith(MARK)
    assert run.outcome.text.endswith(f"] {len(TOKEN)}\n")
    assert (project / "kept.txt").read_text() == TOKEN
