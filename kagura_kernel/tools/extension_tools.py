"""Tools that other packages bring: what they are given, and what is held to when they are called.

Such a tool is the person's own code and runs in this process. What it is given reaches the box and nothing else, so a
tool that only uses that has no hands on the host; whoever names one in the settings answers for the rest.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kagura_kernel.domain.commands import Command, CommandResult
from kagura_kernel.domain.errors import KaguraError, UsageError
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.domain.tools import FileSystem, ToolResult, ToolSpec, failed
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools.fences import shorten_middle
from kagura_kernel.tools.toolbox import CallContext, Tool

log = logging.getLogger(__name__)

CALL_SECONDS = 300.0
"""How long one call may take in all."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEEP = 4 << 20
_NO_BOX = "This run has no box, and this tool works in one only."


class ToolPlace:
    """What a tool has to work with: the run's box, and nothing else."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def files(self) -> FileSystem:
        """Files in the box; relative paths start at the workspace."""
        if self._runtime.box is None:
            raise UsageError(_NO_BOX)
        return self._runtime.files

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        """Run a program in the box to its end; no shell comes between.

        Raises:
            SandboxCommandTimeout: it took too long.
            SandboxUnavailable: the box is gone.
        """
        box = self._runtime.box
        if box is None:
            raise UsageError(_NO_BOX)
        limits = CommandLimits(seconds, seconds, self._runtime.asker.clock.monotonic)
        return await box.run(Command(tuple(argv), stdin=stdin, limits=limits, keep_bytes=_KEEP))


ToolMaker = Callable[[ToolPlace], Tool]
"""Makes a tool of another package, an `OwnTool`; called once for each run. Raises `ExtensionBroken`."""


class OwnTool:
    """A tool of another package, held to what every tool is held to.

    Raises:
        TypeError: its description is none.
    """

    def __init__(self, tool: Tool) -> None:
        spec: Any = tool.spec
        if not isinstance(spec, ToolSpec) or not _NAME.fullmatch(spec.name):
            raise TypeError("its `spec` is no ToolSpec with a Python identifier for its name")
        if spec.input_schema.get("type") != "object":
            raise TypeError("its arguments are no JSON Schema of an object")
        # Its arguments are checked here, whatever it says about itself.
        self.spec = replace(spec, foreign=False)
        self._tool = tool

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Do it; what goes wrong in it is an answer, and bounded like every other one."""
        try:
            async with asyncio.timeout(CALL_SECONDS) as time:
                result: Any = await self._tool.call(arguments, context)
        except KaguraError:
            raise
        except Exception as error:
            if time.expired():
                return failed(f"{self.spec.name} took more than {CALL_SECONDS:g} s and was given up.")
            # Its text might hold anything; a person finds it in the log.
            log.exception("the tool %s failed", self.spec.name)
            return failed(f"{self.spec.name} failed: {type(error).__name__}.")
        if not isinstance(result, ToolResult):
            return failed(f"{self.spec.name} gave no answer.")
        return replace(result, text=shorten_middle(str(result.text)))


def own_tools(makers: Sequence[ToolMaker], runtime: Runtime, taken: Sequence[str]) -> list[Tool]:
    """The tools of other packages for one run.

    Raises:
        ExtensionBroken: one cannot be made; nothing is left out silently.
        UsageError: one has the name of another tool.
    """
    names, made = set(taken), list[Tool]()
    for maker in makers:
        tool = maker(ToolPlace(runtime))
        if tool.spec.name in names:
            raise UsageError(
                f"The setting `own_tools` names a tool {tool.spec.name!r}, and there is one of that name already: "
                "take it out of the setting, or give it another name."
            )
        names.add(tool.spec.name)
        made.append(tool)
    return made
