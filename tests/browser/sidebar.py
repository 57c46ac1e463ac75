"""The sidebar in a browser, and a journal that a test tells runs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from playwright.sync_api import Locator, Page, expect

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from tests.browser.lab import TOKEN, Lab
from tests.browser.stage import NOTEBOOK, open_by_command
from tests.support.jupyter_server import minted
from tests.support.sample_run import SampleRun

TASKS = (
    "Summarise the sales of the first quarter and say which region did best",
    "Why does test_totals fail?",
    "Plot the residuals of both models",
    "Clean up the column names in orders.csv",
    "Compare the two forecasts and write a short report",
    "Find customers that are in the table twice",
)
MODELS = ("claude-sonnet-5", "claude-opus-5", "qwen-3")
ENDS = ("done", "done", "failed", "done", "killed", "done", "stopped")
HOST = {
    "kind": ApprovalKind.NETWORK,
    "title": "Let the box connect to files.example.org:443",
    "detail": "TCP connections from the box to files.example.org:443. What the box knows can be sent there.",
    "reason": "A program in the box asks for a host that is not granted.",
    "arguments": {"host": "files.example.org", "port": 443},
    "call_id": "",
    "options": ("this run", "this session", "never"),
}
COMMAND = {
    "title": "Run a command on this machine",
    "detail": "git push origin report",
    "reason": "The box has no network, and the others wait for the branch.",
    "arguments": {"command": "git push origin report", "directory": "/home/ada/sales"},
}


class Story:
    """Runs that this very process tells to a journal, as a kernel would.

    Args:
        journal: Theirs.
        notebook: Where they are said to come from, as Jupyter tells a kernel: a path.
    """

    def __init__(self, journal: Journal, notebook: str) -> None:
        self.journal = journal
        self.notebook = notebook
        self.mailbox = Mailbox(journal)
        self._numbers = count(1)

    def past(self) -> Story:
        """Runs of the last days, with their costs; returns itself."""
        now = datetime.now(UTC)
        with self.journal.writing() as writing:
            for number in range(30):
                at = now - timedelta(hours=5 * number, minutes=13 * number % 60, seconds=90)
                run = SampleRun(f"run-past-{number}", "ses-past", at)
                model = MODELS[number % len(MODELS)]
                cost = 0.02 * (number % 7 + 1)
                writing.append(self._start(run, task=TASKS[number % len(TASKS)]))
                writing.append(run.counted(model=model, computed_usd=cost))
                writing.append(
                    run.finished(
                        status=ENDS[number % len(ENDS)], model=model, duration=11.0 * number + 2, computed_usd=cost
                    )
                )
        return self

    def many(self, number: int) -> None:
        """So many runs that have ended, the oldest first and all before those of `past`."""
        began = datetime.now(UTC) - timedelta(days=400)
        with self.journal.writing() as writing:
            for index in range(number):
                run = SampleRun(f"run-many-{index:05}", "ses-many", began + timedelta(minutes=index))
                writing.append(self._start(run, task=f"task number {index}", notebook=""))
                writing.append(run.finished(status="done"))

    @contextmanager
    def live(self, task: str = "Build the report and push it", **changes: Any) -> Iterator[SampleRun]:
        """A run that goes on; it ends with the block, and with it what it still asks."""
        name = f"run-live-{next(self._numbers)}"
        run = SampleRun(name, "ses-live", datetime.now(UTC) - timedelta(seconds=75))
        self.journal.append(self._start(run, **{"task": task, "budget_usd": 2.0} | changes))
        # Now, so that today has cost something also where it began yesterday.
        now = SampleRun(run.run_id, run.session_id, datetime.now(UTC))
        self.journal.append(now.counted(model="claude-opus-5", computed_usd=0.84))
        try:
            yield run
        finally:
            for request in self.mailbox.pending():
                self.mailbox.decide(request.id, Verdict.ABORTED, by="test", via="cell")
            ledger = LeaseLedger(self.journal)
            for row in ledger.rows():
                if row.run_id == run.run_id:
                    ledger.close(row.id, "given back")
            self.journal.append(run.finished(status="done", computed_usd=0.84))

    def ask(self, run: SampleRun, **changes: Any) -> str:
        """The run asks something; the question's id."""
        ident = f"app-{next(self._numbers)}"
        now = SampleRun(run.run_id, run.session_id, datetime.now(UTC))
        self.journal.append(now.asked(ident, **changes))
        self.mailbox.post(now.request(ident, **changes))
        return ident

    def lend(self, run: SampleRun) -> str:
        """The run gets a credential; the lease's id."""
        ident = f"lea-{next(self._numbers)}"
        now = datetime.now(UTC)
        ledger = LeaseLedger(self.journal)
        ledger.begin(minted(ident, run.run_id, now))
        expires = now + timedelta(minutes=14)
        ledger.complete(ident, handle="what-revokes-it", expires_at=expires, dies_at=now + timedelta(hours=1))
        self.journal.append(SampleRun(run.run_id, run.session_id, now).lease(lease_id=ident))
        return ident

    def _start(self, run: SampleRun, **changes: Any) -> Any:
        place = {"notebook": self.notebook, "kernel_id": "a-kernel-that-is-gone", "cell_id": "cell-4"}
        return run.started(**{"owner": process_owner()} | place | changes)


class Sidebar:
    """The panel, as a person finds it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.locator("#kagura-sidebar")

    def open(self) -> Sidebar:
        """By its shortcut; returns itself."""
        expect(self.panel).to_be_attached()
        if not self.panel.is_visible():
            self.page.keyboard.press("Control+Alt+k")
        expect(self.panel).to_be_visible()
        return self

    def section(self, name: str) -> Locator:
        return self.panel.get_by_role("region", name=name)

    def approval(self, ident: str) -> Locator:
        return self.panel.locator(f"[data-approval='{ident}']")

    def run(self, task: str) -> Locator:
        return self.panel.locator(".kgs-run").filter(has_text=task)


def visit(page: Page) -> Sidebar:
    """Open the notebook in a JupyterLab that stands open; returns the sidebar beside it."""
    open_by_command(page, NOTEBOOK)
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    return Sidebar(page)


def load(page: Page, lab: Lab, place: str = f"lab/tree/{NOTEBOOK}", *, reset: bool = True) -> Sidebar:
    """Load a page of the server and wait until it has started; returns its sidebar."""
    page.goto(f"{lab.url}{place}?token={TOKEN}{'&reset' if reset else ''}")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    return Sidebar(page)
