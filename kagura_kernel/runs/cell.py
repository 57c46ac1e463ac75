"""The middle of a `%%sandbox` run: the cell's own code runs in the box, without any model."""

from __future__ import annotations

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import CellFailed
from kagura_kernel.domain.events import ToolCalled, ToolFinished
from kagura_kernel.runs.ending import Ending
from kagura_kernel.runs.hands import streamer
from kagura_kernel.runs.stage import Stage

CALL_ID = "cell"

_FILES = {"python": "/tmp/cell.py", "bash": "/tmp/cell.sh"}  # noqa: S108 - a private /tmp, in the box


async def run_cell(stage: Stage) -> Ending:
    """Run the cell's code to its end; a failing program is an ending, not an error.

    Raises:
        SandboxError: a limit was reached, or the box is gone.
    """
    language, code = stage.order.language or "python", stage.order.task
    path = _FILES[language]
    # A file, not `-c`: tracebacks show the line, and standard input stays free.
    await stage.box.files.write(path, code.encode("utf-8", "surrogatepass"))
    argv = ("python3", "-u", path) if language == "python" else ("bash", path)
    # The cell's own directory is /tmp; modules are looked for where the cell works.
    env = {"PYTHONPATH": "/workspace"} if language == "python" else {}
    leasing = stage.membrane.leasing
    # The cell's program is the one process that credentials in variables are for.
    secrets = {} if leasing is None else leasing.secret_env()
    command = Command(argv, env=env, limits=stage.order.limits, spill_dir=stage.spill_dir, secret_env=secrets)
    stage.spill_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    stage.tool_calls = 1
    stage.recorder.record(ToolCalled, call_id=CALL_ID, tool=language, arguments={"code": code})
    result = await stage.box.run(command, streamer(stage.recorder, CALL_ID))
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
    )
    if stage.changes.through:
        await stage.changes.write_through(stage.box)
    error = None if result.ok else CellFailed(result.exit_code)
    return Ending("done" if result.ok else "failed", result.stdout.text, error, exit_code=result.exit_code)
