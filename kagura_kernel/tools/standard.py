"""The tools that every run has."""

from __future__ import annotations

from pathlib import Path

from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools.ask import AskUserTool
from kagura_kernel.tools.reading import GlobTool, GrepTool, ListFilesTool, ReadFileTool
from kagura_kernel.tools.shell import BashTool, BoxPrograms, CommandLeases, PythonTool, ToolTimes
from kagura_kernel.tools.toolbox import Tool, Toolbox
from kagura_kernel.tools.writing import EditFileTool, WriteFileTool


def standard_tools(
    runtime: Runtime,
    times: ToolTimes | None = None,
    leases: CommandLeases | None = None,
    programs: BoxPrograms | None = None,
) -> list[Tool]:
    """Tools that work with this runtime; without a box, and without full control, only those that ask."""
    ask = AskUserTool(runtime.asker)
    if not runtime.has_files:
        return [BashTool(runtime, times), ask]
    return [
        BashTool(runtime, times, leases, programs),
        PythonTool(runtime, times, leases, programs),
        ReadFileTool(runtime),
        WriteFileTool(runtime),
        EditFileTool(runtime),
        ListFilesTool(runtime),
        GlobTool(runtime),
        GrepTool(runtime),
        ask,
    ]


def standard_toolbox(
    runtime: Runtime,
    *,
    times: ToolTimes | None = None,
    leases: CommandLeases | None = None,
    programs: BoxPrograms | None = None,
    spill_dir: Path | None = None,
) -> Toolbox:
    """The standard tools as a toolbox.

    Args:
        runtime: What they work with.
        times: How long commands may take.
        leases: Credentials that a command may ask for.
        programs: What programs in the box find there.
        spill_dir: Takes output that is too long for memory.
    """
    return Toolbox(standard_tools(runtime, times, leases, programs), spill_dir=spill_dir)
