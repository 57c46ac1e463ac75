"""Cells that a kernel runs for an agent, from the question to what it is told."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.errors import ApprovalDenied
from kagura_kernel.domain.images import NoImageError
from kagura_kernel.domain.notebook import LONGEST, Notebook, NotebookCell
from kagura_kernel.jupyter.cell import KernelCells
from kagura_kernel.jupyter.magics import register
from kagura_kernel.runtime.router import Asker, use_approver
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.tools.cells import Draft, RunCellTool
from kagura_kernel.tools.toolbox import CallContext
from tests.support.gallery import png

pytestmark = pytest.mark.real_clock


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr("IPython.core.history.HistoryAccessor.enabled", False)
    made = InteractiveShell()
    made.kernel = SimpleNamespace()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: made)
    return made


def hidden(text):
    return text.replace("tok-123456789", "[REDACTED]")


def of_an_agent(shell, source, verdict=Verdict.ALLOW):
    """What the tool answers in another thread's loop, as in a run, while this one's loop is free; and who was asked."""
    draft = Draft(Notebook("work.ipynb", "live", (NotebookCell("a", source=source), NotebookCell("m", "markdown"))))
    approver, seen = ScriptedApprover(verdict, verdict), []

    async def look(_call, image):
        seen.append((image.width, image.height))
        raise NoImageError("this model takes no images")

    async def wait(cell):
        tool = RunCellTool(draft, "work.ipynb", KernelCells.of(shell), Asker("run-1"), look, hidden)
        ask = tool.call({"cell": cell, "reason": "Their data is there."}, CallContext("call-1"))
        with use_approver(approver):
            return await asyncio.to_thread(asyncio.run, ask)

    return lambda cell="a": asyncio.run(wait(cell)), approver, seen


def test_a_cell_runs_among_the_persons_variables_once_they_have_read_it(shell):
    shell.user_ns["rows"] = [1, 2]
    source = "print('adds')\nrows.append(3)\nlen(rows)"
    call, approver, _ = of_an_agent(shell, source)
    result = call()
    assert (result.text, result.is_error, result.route) == ("adds\n3", False, "host")
    assert shell.user_ns["rows"] == [1, 2, 3]
    (asked,) = approver.requests
    assert (asked.kind, asked.detail, asked.reason) == (ApprovalKind.HOST_COMMAND, source, "Their data is there.")
    # One word counts for one time.
    call()
    assert len(approver.requests) == 2


@pytest.mark.parametrize("before", [19_996, LONGEST - 6])
def test_of_a_long_output_no_half_of_a_secret_is_told(shell, before):
    call, *_ = of_an_agent(shell, f"print('a' * {before} + 'tok-123456789' + 'b' * 60_000)")
    text = call().text
    assert "left out" in text
    assert "tok-" not in text


@pytest.mark.parametrize("verdict", [Verdict.DENY, Verdict.TIMEOUT])
def test_nothing_runs_without_it(shell, verdict):
    call, *_ = of_an_agent(shell, "ran = True", verdict)
    with pytest.raises(ApprovalDenied):
        call()
    assert "ran" not in shell.user_ns


def test_an_error_is_told_and_is_not_the_asking_cells(shell):
    call, *_ = of_an_agent(shell, "print('so far')\n{}['x']")
    result = call()
    assert result.is_error
    assert result.text.startswith("so far\n")
    assert result.text.endswith("KeyError: 'x'")
    assert "{}['x']" in result.text
    assert "_showtraceback" not in vars(shell)


def test_what_is_drawn_is_shown(shell):
    call, _, seen = of_an_agent(shell, f"from IPython.display import Image\nImage(bytes.fromhex('{png(5, 4).hex()}'))")
    assert "An image is not shown to you: this model takes no images." in call().text
    assert seen == [(5, 4)]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("%%kagura\nDo more.", "a cell for an agent"),
        ("%%sandbox\nx = 1", "a cell for an agent"),
        ("import asyncio\nawait asyncio.sleep(0)", "awaits something"),
    ],
)
def test_what_cannot_be_run_for_another_is_refused_before_anybody_is_asked(shell, source, why):
    register(shell)
    call, approver, _ = of_an_agent(shell, source)
    assert why in call().text
    assert "no code cell" in call("m").text
    assert "no code cell" in call("none").text
    assert not approver.requests


def test_a_run_that_is_stopped_interrupts_its_cell_and_nothing_else(shell):
    begun = shell.user_ns["begun"] = threading.Event()
    source = "import time\nbegun.set()\nfor _ in range(600):\n    time.sleep(.1)\nover = True"

    async def stop_it():
        kernel = KernelCells.of(shell)

        async def in_a_run():
            task = asyncio.create_task(kernel.run(source, "a"))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        await asyncio.to_thread(asyncio.run, in_a_run())
        # The kernel goes on, and so do the cells after this one.
        return await asyncio.to_thread(asyncio.run, kernel.run("1 + 1", "b"))

    assert asyncio.run(stop_it()).text == "2"
    assert "over" not in shell.user_ns
