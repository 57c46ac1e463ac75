"""What is redacted of a run in a real box, and what is not: everything that is told, and nothing that is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kagura_kernel.domain.events import AnyEvent, OutputStreamed, ResultShown, TextStreamed, ToolCalled, ToolFinished
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.redactors import shared_redactor

pytestmark = pytest.mark.timeout(120)

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
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
