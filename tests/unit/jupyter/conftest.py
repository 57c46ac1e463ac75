"""A cockpit with fakes, and events of a run as the engine would tell them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.events import (
    ApprovalDecided,
    ApprovalRequested,
    BoxStarted,
    BrainSigned,
    ChangesCollected,
    Event,
    OutputStreamed,
    RunFinished,
    RunStarted,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.views.run import RunView

BEGAN = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

DIFF = """\
--- a/report.md
+++ b/report.md
@@ -1,2 +1,3 @@
 # Sales
-old
+new
+more
"""


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    """A cockpit whose boxes are fakes."""
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend())
    yield cockpit
    cockpit.close()


@pytest.fixture
def journal(tmp_path: Path, cockpit: Cockpit) -> Iterator[Journal]:
    """The journal of that cockpit, as another process opens it."""
    assert cockpit.records
    found = Journal.open(tmp_path / "home")
    yield found
    found.close()


class Story:
    """Makes the events of one run, each a second after the one before."""

    def __init__(self) -> None:
        self._seconds = 0

    def _when(self) -> dict[str, Any]:
        self._seconds += 1
        at = BEGAN + timedelta(seconds=self._seconds)
        return {"run_id": "run-1", "session_id": "ses-1", "at": at}

    def started(self, **fields: Any) -> RunStarted:
        given = {
            "task": "Look.",
            "brain": "claude",
            "brain_reason": "ANTHROPIC_API_KEY is set",
            "project": "/home/ada/p",
        }
        return RunStarted(**self._when(), **given | fields)

    def box(self, **fields: Any) -> BoxStarted:
        given = {"box_id": "box-1", "backend": "bubblewrap", "isolation": "namespace", "reason": "no Docker daemon"}
        return BoxStarted(**self._when(), **given | fields)

    def streams(self, text: str) -> TextStreamed:
        return TextStreamed(**self._when(), text=text)

    def says(self, text: str) -> TextWritten:
        return TextWritten(**self._when(), text=text)

    def signs(self, what: str, text: str = "", **fields: Any) -> BrainSigned:
        return BrainSigned(**self._when(), what=what, text=text, **fields)

    def calls(self, tool: str = "bash", call_id: str = "c1", **arguments: Any) -> ToolCalled:
        return ToolCalled(**self._when(), call_id=call_id, tool=tool, arguments=arguments)

    def prints(self, text: str, call_id: str = "c1") -> OutputStreamed:
        return OutputStreamed(**self._when(), call_id=call_id, stream="stdout", text=text)

    def answers(self, text: str = "", call_id: str = "c1", **fields: Any) -> ToolFinished:
        given = {"tool": "bash", "exit_code": 0, "route": "sandbox", "duration": 0.25}
        return ToolFinished(**self._when(), call_id=call_id, text=text, **given | fields)

    def asks(self, detail: str = "git push", **fields: Any) -> ApprovalRequested:
        given = {"approval_id": "app-1", "subject": "host_command", "title": "Run a command on the host"}
        return ApprovalRequested(**self._when(), detail=detail, **given | fields)

    def decides(self, verdict: str = "allow", **fields: Any) -> ApprovalDecided:
        given = {"approval_id": "app-1", "by": "ada", "via": "cell"}
        return ApprovalDecided(**self._when(), verdict=verdict, **given | fields)

    def changes(self, *changes: FileChange) -> ChangesCollected:
        return ChangesCollected(**self._when(), changes=changes or (self.change(),))

    def change(self, path: str = "report.md", **fields: Any) -> FileChange:
        return FileChange(**{"path": path, "status": "modified", "diff": DIFF} | fields)

    def ends(self, status: str = "done", **fields: Any) -> RunFinished:
        return RunFinished(**self._when(), **{"status": status, "duration": 12.5} | fields)


@pytest.fixture
def story() -> Story:
    """Makes events."""
    return Story()


@pytest.fixture
def view_of() -> Callable[..., RunView]:
    """Folds events into a view."""

    def fold(*events: Event) -> RunView:
        return RunView().apply_all(events)

    return fold
