"""Ten states in which a run can be interrupted: the cell of each, and how to tell that it is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from kagura_kernel.domain.events import BoxClosed, BoxStarted
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.testing.guards import Process, descendants
from kagura_kernel.testing.patience import wait_until
from tests.browser.lab import Lab
from tests.browser.notebook import Notebook, show, write
from tests.support.gated_backend import SETTLE, START
from tests.support.model_script import Silence, says

LOAD = "%load_ext kagura_kernel"


def cassette(*calls: tuple[str, dict[str, object]]) -> str:
    """The text of a cassette with these tool calls."""
    lines = [{"kagura_cassette": 1}, *({"call": {"name": name, "arguments": given}} for name, given in calls)]
    return "\n".join(json.dumps(line) for line in [*lines, {"done": {"text": "Over."}}])


def host(command: str) -> str:
    return cassette(("bash", {"command": command, "host": True, "reason": "The box cannot see this machine."}))


FILES = {"ask.jsonl": host("touch asked"), "host.jsonl": host("touch on-the-host; exec sleep 9005")}

# An own group, an own session, a child that lets no signal through, and grandchildren of them all.
TREE = """\
setsid bash -c 'sleep 9007 & setsid sleep 9007 & wait' &
bash -c 'trap "" INT TERM HUP; sleep 9007 & while true; do sleep 9007; done' &
echo begun; sleep 9007"""


class Scene:
    """A notebook with a cell for each state, and what its kernel leaves behind."""

    def __init__(self, page: Page, lab: Lab, folder_name: str) -> None:
        self.lab = lab
        self.cells = [LOAD, *(cell for state in STATES for cell in state.cells), "print('the last cell')"]
        path = write(lab, folder_name, *self.cells, files=FILES, kernel="gated")
        self.notebook: Notebook = show(page, lab, path)
        self.folder = path.parent
        self.notebook.done(0)

    def enter(self, state: State) -> int:
        """Bring a run into this state by Run All Below: the index of the cell that waits."""
        *before, at = self._indices(state)
        if state.prepare:
            state.prepare(self)
        self.notebook.clear()
        for index in before:
            self.notebook.done(index)
        self.notebook.run(at, on=True)
        state.reached(self, at)
        return at

    def leave(self, state: State) -> None:
        """Whatever the state held back goes on."""
        self.lab.model.turns.clear()
        if state.leave:
            state.leave(self)

    def status(self) -> str:
        """How the latest run stands."""
        with self.lab.journal() as journal:
            return str(views.runs(journal, limit=1)[0].status)

    def over(self) -> bool:
        """Whether the latest run has ended, with no question open and every box that was started closed."""
        with self.lab.journal() as journal:
            run = views.runs(journal, limit=1)[0]
            events = [stored.event for stored in journal.events(run_id=run.run_id)]
            boxes = [event.box_id for event in events if isinstance(event, BoxStarted)]
            closed = [event.box_id for event in events if isinstance(event, BoxClosed)]
            asked = views.approvals(journal, pending_only=True)
            return run.status not in {"running", "awaiting_approval"} and boxes == closed and not asked

    def processes(self, word: str) -> list[Process]:
        """Processes below the server that have this in their command line."""
        return [process for process in descendants(self.lab.server) if word.encode() in process.command]

    def _indices(self, state: State) -> list[int]:
        at = 1 + sum(len(other.cells) for other in STATES[: STATES.index(state)])
        return list(range(at, at + len(state.cells)))


@dataclass(frozen=True)
class State:
    """Something that a run may be about when it is interrupted."""

    name: str  # In words
    cells: tuple[str, ...]  # The cells that lead there; the last one waits
    reached: Callable[[Scene, int], None]  # Returns when it is there
    processes: str = ""  # A word in the command lines of what it runs meanwhile; empty when it runs nothing
    prepare: Callable[[Scene], None] | None = None  # What has to be done first
    leave: Callable[[Scene], None] | None = None  # What has to be done afterwards
    said: str = "was stopped by"  # What the calm line says
    ends: str = "killed"  # How the run ends
    survives: bool = False  # Whether the interrupt ends a wait for the run, and not the run


def _asked_the_model(scene: Scene, _at: int) -> None:
    wait_until(lambda: not scene.lab.model.turns)


def _shows(selector: str, text: str = "") -> Callable[[Scene, int], None]:
    def reached(scene: Scene, at: int) -> None:
        expect(scene.notebook.output(at).locator(selector).first).to_contain_text(text)

    return reached


def _host_command_runs(scene: Scene, at: int) -> None:
    scene.notebook.output(at).get_by_role("button", name="Allow once").click()
    wait_until(lambda: (scene.folder / "on-the-host").exists() and scene.processes("sleep\x009005"))


def _tree_stands(scene: Scene, _at: int) -> None:
    wait_until(lambda: len(scene.processes("sleep\x009007")) == 5)


def _waits_for_the_run(scene: Scene, at: int) -> None:
    expect(scene.notebook.prompt(at)).to_have_text("[*]:")
    expect(scene.notebook.output(at - 1).locator(".kg-out")).to_contain_text("begun")
    expect(scene.notebook.output(at)).to_contain_text("waiting")


def _stop_latest(scene: Scene) -> None:
    with scene.lab.journal() as journal:
        Mailbox(journal).send(views.runs(journal, limit=1)[0].run_id, "kill", by="the test")


def _door(name: str) -> dict[str, Callable[..., None]]:
    return {
        "prepare": lambda scene: scene.lab.doors.shut(name),
        "reached": lambda scene, _at: wait_until(lambda: scene.lab.doors.waiting(name)),
        "leave": lambda scene: scene.lab.doors.open(name),
    }


STATES = (
    State(
        "thinking",
        ("%%kagura\nThink for as long as you like.",),
        _asked_the_model,
        processes="claude",
        prepare=lambda scene: scene.lab.model.turns.append(Silence()),
    ),
    State(
        "streaming",
        ("%%kagura\nTell me everything.",),
        _shows(".kg-growing", "and more"),
        processes="claude",
        prepare=lambda scene: scene.lab.model.turns.append(says("and more " * 5000, delay=0.05)),
    ),
    State("a command runs", ("%%sandbox bash\necho begun; sleep 9003",), _shows(".kg-out", "begun"), "sleep\x009003"),
    State("an approval waits", ("%%kagura --replay ask.jsonl\nAsk.",), _shows(".kg-ask.kg-open", "touch asked")),
    # Plugins are functions of the host; a command that was allowed to run there is the nearest to a call of one.
    State(
        "a call on the host",
        ("%%kagura --replay host.jsonl\nGo to the host.",),
        _host_command_runs,
        processes="sleep\x009005",
    ),
    State(
        "a connection waits",
        ("%%sandbox bash\ncurl -sS http://index.example.org/9006",),
        _shows(".kg-ask.kg-open", "index.example.org"),
        processes="index.example.org/9006",
    ),
    State("children run", (f"%%sandbox bash\n{TREE}",), _tree_stands, processes="sleep\x009007"),
    State(
        "a run in the background is awaited",
        ("%%sandbox bash --bg\necho begun; sleep 9008", "handle = _\nprint('waiting')\nawait handle"),
        _waits_for_the_run,
        processes="sleep\x009008",
        leave=_stop_latest,
        said="goes on",
        survives=True,
    ),
    State("the box starts", ("%%sandbox bash --box gated\necho never",), **_door(START)),
    State(
        "the run settles",
        ("%%sandbox bash --box gated\necho made > made.txt",),
        **_door(SETTLE),
        ends="done",
    ),
)
