"""Processes that each carry out one run of ten steps, or go on with one, and kill themselves at a told moment.

Run as a program by `Lives("tests.support.killed_run")`; an order has these words::

    {"home": "/dir", "project": "/dir", "side": "/file", "told": "/file", "write": "ask", "moment": "…",
     "resume": "run-…"}

The moments are those of `MOMENTS`; an empty one lets it live, and then it writes what came of the run to `told`, as
JSON. Whatever goes wrong is written there too. Its brain follows a script from the beginning, as one does that
remembers nothing. Its person allows everything, but for what may have been done already: there it looks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kagura_kernel.brain.provider import BrainCapabilities
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import ApprovalError
from kagura_kernel.domain.events import AnyEvent, ApprovalRequested, Event, ToolFinished
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.journal import checkpoints
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.memory.location import open_memory
from kagura_kernel.runs import checkpoints as run_checkpoints
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.patience import wait_until
from tests.support.credential_life import serve
from tests.support.redactors import shared_redactor

MARK = "100086753"
"""Seconds that a program sleeps which outlives its command in the box: by it one finds what was left behind."""

SECRET = "secret-of-handle"
"""What no file may hold."""


def _on_host(line: str) -> Ask:
    return Ask("bash", {"command": line, "host": True, "reason": "it has to be there"})


def script(side: str) -> list[Ask]:
    """Ten steps: in the box, on the host, with a credential."""
    return [
        Ask("bash", {"command": f"mkdir src; echo 1 >> src/log; (setsid sleep {MARK} >/dev/null 2>&1 &)"}),
        Ask("write_file", {"path": "notes.md", "content": "written once\n"}),
        Ask("bash", {"command": "echo 3 >> src/log; rm seed.txt"}),
        _on_host(f"echo first >> {side}"),
        Ask("bash", {"command": "echo 5 >> src/log"}),
        Ask("bash", {"command": "ln -s src/log link; chmod +x notes.md"}),
        Ask("bash", {"command": "echo 7 ${#TOKEN} >> src/log", "leases": ["fake:read"]}),
        _on_host(f"echo second >> {side}"),
        Ask("bash", {"command": "echo 9 >> notes.md"}),
        Ask("bash", {"command": "wc -l < src/log > count"}),
    ]


class Forgetful(FakeBrain):
    """Follows its script from the beginning, every time."""

    def capabilities(self) -> BrainCapabilities:
        """As the other, but for going on."""
        return replace(super().capabilities(), resume=False)


Hook = tuple[str, int, str]

MOMENTS: Mapping[str, Hook] = {
    "before-a-call": ("tool.called", 3, "before"),
    "between-call-and-question": ("tool.called", 4, "after"),
    "between-answer-and-command": ("approval.decided", 2, "after"),
    "between-command-and-result": ("tool.finished", 4, "before"),
    "between-result-and-checkpoint": ("tool.finished", 4, "after"),
    "between-a-box-result-and-checkpoint": ("tool.finished", 6, "after"),
    "while-a-checkpoint-is-stored": ("checkpoint", 7, "during"),
    "after-a-checkpoint": ("checkpoint", 9, "after"),
    "while-changes-are-collected": ("changes.collected", 1, "before"),
    "before-the-last-row": ("run.finished", 1, "before"),
}
"""A name to the kind of row, its number in the run, and whether it is stored by then."""


def kill_at(moment: str) -> None:
    """Have this process killed then."""
    if not moment:
        return
    kind, number, when = MOMENTS[moment]
    seen: Counter[str] = Counter()
    append, insert, keep = Journal.append, vars(checkpoints)["insert"], vars(run_checkpoints)["store"]

    def struck(what: str, now: str) -> None:
        if what == kind and now == when and seen[what] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def appended(self: Journal, event: Event) -> int:
        seen[event.kind] += 1
        struck(event.kind, "before")
        row = append(self, event)
        struck(event.kind, "after")
        return row

    def stored(table: Any) -> Any:
        # The older one of this step is deleted by now, and nothing is committed.
        seen["checkpoint"] += 1
        struck("checkpoint", "during")
        return insert(table)

    def kept(*args: Any) -> None:
        keep(*args)
        struck("checkpoint", "after")

    Journal.append = appended  # type: ignore[method-assign]
    vars(run_checkpoints)["store"] = kept
    vars(checkpoints)["insert"] = stored


def _answering(cockpit: Cockpit, side: Path, asked: list[str]) -> Callable[[AnyEvent], None]:
    def answer(event: ApprovalRequested) -> None:
        wait_until(lambda: any(one.id == event.approval_id for one in cockpit.pending()))
        done = side.read_text() if side.exists() else ""
        begun = event.arguments.get("arguments", {}).get("command", "") if event.subject == ApprovalKind.TOOL else ""
        word = next((word for word in ("first", "second") if word in begun), "")
        with contextlib.suppress(ApprovalError):
            cockpit.decide(event.approval_id, not (word and word in done), by="ann", via="cell")

    def heard(event: AnyEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.subject)
            threading.Thread(target=answer, args=(event,)).start()

    return heard


def main(order: Mapping[str, str]) -> dict[str, Any]:
    """Carry it out; what came of it."""
    home, project, side = Path(order["home"]), Path(order["project"]), Path(order["side"])
    kill_at(order.get("moment", ""))
    registry = Registry({"fake": FakeProvider()}, {"fake": (EnvInjection(way="env", variables={"TOKEN": "{token}"}),)})
    cockpit = fake_cockpit(
        home,
        backend=BubblewrapBackend(),
        brains=[Forgetful([*script(str(side)), "All done."], usd_per_round=None)],
        memory=open_memory("", home, {}, meaning=False),
        registry=registry,
    )
    try:
        if resume := order.get("resume", ""):
            intent = RunRequest(task="", resume=resume)
        else:
            write = WriteMode(order.get("write", "ask"))
            intent = RunRequest(task="Do ten things.", project=project, write_mode=write, grants=("fake:read",))
        asked: list[str] = []
        handle = cockpit.launch(intent)
        handle.subscribe(_answering(cockpit, side, asked))
        outcome = handle.result(100)
        events: list[AnyEvent] = []
        handle.subscribe(events.append)()
        return {
            "status": outcome.status,
            "error": outcome.error,
            "changes": {one.path: [one.status, one.new_sha256, one.target, one.mode] for one in outcome.changes},
            "asked": asked,
            "repeated": sum(isinstance(one, ToolFinished) and one.route == "earlier" for one in events),
            "failed": [one.text for one in events if isinstance(one, ToolFinished) and one.is_error],
        }
    finally:
        cockpit.close()


def live(order: Mapping[str, str]) -> None:
    """The whole life of a process."""
    told = Path(order["told"])
    try:
        told.write_text(json.dumps(main(order)))
    except BaseException:
        told.write_text(traceback.format_exc())
        raise
    os._exit(0)


if __name__ == "__main__":
    # Imported before the first fork: a run takes a fraction of what its imports do.
    import kagura_kernel.journal.sqlite
    import kagura_kernel.membrane.run_leases
    import kagura_kernel.runs.run  # noqa: F401

    shared_redactor().wait()
    serve(sys.stdin, sys.stdout, live)
