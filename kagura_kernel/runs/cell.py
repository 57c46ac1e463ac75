"""The middle of a `%%sandbox` run: the cell's own code runs in the box, without any model."""

from __future__ import annotations

import asyncio

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.errors import CellFailed, SandboxCommandTimeout, SandboxIdleTimeout
from kagura_kernel.domain.events import Noted, ToolCalled, ToolFinished
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.hands import streamer
from kagura_kernel.runs.plugins import BOXED_PACKAGE
from kagura_kernel.runs.results import Results
from kagura_kernel.runs.stage import Stage
from kagura_kernel.runs.tray import Tray
from kagura_kernel.runs.variables import lay_tray
from kagura_kernel.sandbox.spilling import make_spill_directory

CALL_ID = "cell"

NONE_ENABLED = (
    f"No plugin is enabled in this session, so there is no {BOXED_PACKAGE} in its boxes. `%kagura plugin list` shows "
    "which there are, `%kagura plugin enable NAME` enables one."
)
"""For a program that looks for a plugin where none is."""


async def run_cell(stage: Stage) -> Ending:
    """Run the cell's code to its end; a failing program is an ending, not an error.

    Raises:
        SandboxError: a limit was reached, or the box is gone.
        VariableRefused: the box has no room for a variable.
    """
    language, code = stage.order.language or "python", stage.order.task
    tray = stage.tray = stage.plugins.laid(await lay_tray(stage, for_shell=language == "bash"))
    command = await _command(stage, tray)
    await stage.redacting.ready()
    make_spill_directory(stage.spill_dir)
    stage.tool_calls = 1
    stage.recorder.record(ToolCalled, call_id=CALL_ID, tool=language, arguments={"code": code}, offered=True)
    result = await _run(stage, tray, command)
    spill = result.stdout.spill or result.stderr.spill
    text = result.stdout.text + (result.stderr.text if result.stderr.total else "")
    stage.recorder.record(
        ToolFinished,
        call_id=CALL_ID,
        tool=language,
        text=text,
        is_error=not result.ok,
        exit_code=result.exit_code,
        route="sandbox",
        duration=result.duration,
        spill=spill.name if spill else None,
        offered=True,
    )
    if not result.ok and stage.plugins.search is None and BOXED_PACKAGE in result.stderr.text:
        stage.recorder.record(Noted, text=NONE_ENABLED)
    if stage.changes.through:
        await stage.changes.write_through(stage.box)
    error = None if result.ok else CellFailed(result.exit_code)
    return Ending("done" if result.ok else "failed", result.stdout.text, error, exit_code=result.exit_code)


async def _command(stage: Stage, tray: Tray) -> Command:
    """Put the cell's code into the box; the command that runs it."""
    is_python = stage.order.language != "bash"
    path = f"{tray.scratch}/cell.{'py' if is_python else 'sh'}"
    # A file, not `-c`: tracebacks show the line, and standard input stays free.
    code = stage.order.task.encode("utf-8", "surrogatepass")
    await asyncio.gather(stage.box.files.write(path, code), tray.open_call(CALL_ID))
    # The cell's own directory is /tmp; modules are looked for where the cell works.
    modules = [stage.box.files.root] if is_python else []
    leasing = stage.membrane.leasing
    return Command(
        tray.python(path, CALL_ID, first=tray.scratch) if is_python else ("bash", path),
        env=tray.environment(CALL_ID, modules),
        limits=stage.order.limits,
        spill_dir=stage.spill_dir,
        # The cell's program is the one process that credentials in variables are for.
        secret_env={} if leasing is None else leasing.secret_env(),
    )


async def _run(stage: Stage, tray: Tray, command: Command) -> CommandResult:
    """The program to its end, and what it showed; the latter also where a limit ended it."""
    results = Results(tray, stage.recorder, stage.membrane.scrubber, stage.redacting)
    try:
        result = await stage.box.run(command, streamer(stage.recorder, CALL_ID))
    except (SandboxCommandTimeout, SandboxIdleTimeout):
        await results.collect(CALL_ID)
        raise
    await results.collect(CALL_ID)
    return result
