"""Running commands and code: `bash` and `python`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.commands import OutputChunk
from kagura_kernel.domain.errors import (
    HostCommandTimeout,
    HostIdleTimeout,
    SandboxCommandTimeout,
    SandboxIdleTimeout,
    UsageError,
)
from kagura_kernel.domain.policy import CommandLimits, SandboxPermission
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.bounded import command_text, shorten_middle, spill_of
from kagura_kernel.tools.toolbox import CallContext

LONGEST_SECONDS = 600
PYTHON_LINE = "python3 -u -"
_KEPT_ON_TIMEOUT = 8192
_TIMEOUTS = (HostCommandTimeout, HostIdleTimeout, SandboxCommandTimeout, SandboxIdleTimeout)


class BashTool:
    """Runs a shell line in the box, or on the host when a person agrees."""

    spec = ToolSpec(
        "bash",
        "Run a bash line in the sandbox, in the workspace, and read its output and exit code. Each call is a fresh "
        "shell: `cd` and variables do not last. There is no network, nobody types input, and whatever still runs when "
        "the line ends is stopped. Stopped after 90 s, or 45 s without output; a timeout of your own replaces both. "
        "host=true runs it on the person's own machine instead: give a reason; a person sees the exact line and may "
        "refuse.",
        schema.arguments(
            "command",
            command=schema.text("The line, for bash."),
            timeout=schema.whole("Seconds it may take, also in silence.", maximum=LONGEST_SECONDS),
            host=schema.flag("Run on the host, outside of the sandbox. Only when the sandbox cannot do it."),
            reason=schema.text("Why it has to run on the host; shown to the person.", empty=True),
        ),
    )

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Run the line."""
        if "\0" in arguments["command"]:
            raise UsageError("The command holds a NUL, which no shell takes.")
        return await _run(
            self._runtime,
            arguments["command"],
            context,
            permission=SandboxPermission.REQUIRE_ESCALATED if arguments.get("host") else SandboxPermission.AUTO,
            reason=arguments.get("reason", ""),
            seconds=arguments.get("timeout"),
        )


class PythonTool:
    """Runs Python code with the box's interpreter."""

    spec = ToolSpec(
        "python",
        "Run Python code in the sandbox, in the workspace, and read what it prints (print what you want to see; a last "
        "expression is not shown). Each call is a fresh interpreter with the packages of the sandbox; there is no "
        "network. Stopped after 90 s, or 45 s without output; a timeout of your own replaces both.",
        schema.arguments(
            "code",
            code=schema.text("The program."),
            timeout=schema.whole("Seconds it may take, also in silence.", maximum=LONGEST_SECONDS),
        ),
    )

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Run the code; it travels by standard input, so its length and its quotes do not matter."""
        code = arguments["code"].encode("utf-8")
        return await _run(self._runtime, PYTHON_LINE, context, stdin=code, seconds=arguments.get("timeout"))


async def _run(
    runtime: Runtime,
    command: str,
    context: CallContext,
    *,
    permission: SandboxPermission = SandboxPermission.AUTO,
    reason: str = "",
    seconds: float | None = None,
    stdin: bytes = b"",
) -> ToolResult:
    heard = _Heard(context)
    # Who names a time knows how long it takes, in silence too.
    limits = CommandLimits() if seconds is None else CommandLimits(seconds, None)
    try:
        routed = await runtime.run(
            command,
            permission=permission,
            reason=reason,
            call_id=context.call_id,
            limits=limits,
            stdin=stdin,
            on_output=heard.listen,
            spill_dir=context.spill_dir,
        )
    except _TIMEOUTS as error:
        route = "host" if isinstance(error, HostCommandTimeout | HostIdleTimeout) else "sandbox"
        return ToolResult(f"{error.message} [{error.code}]{heard.last_words()}", is_error=True, route=route)
    result = routed.result
    return ToolResult(
        command_text(result, hint=routed.hint),
        is_error=not result.ok,
        exit_code=result.exit_code,
        route=routed.decision.route.value,
        spill=spill_of(result),
    )


class _Heard:
    """Passes output on and remembers its end: after a time-out that is all there is to learn from."""

    def __init__(self, context: CallContext) -> None:
        self._on_output = context.on_output
        self._end = bytearray()

    def listen(self, chunk: OutputChunk) -> None:
        self._end += chunk.data
        if len(self._end) > 2 * _KEPT_ON_TIMEOUT:
            del self._end[:-_KEPT_ON_TIMEOUT]
        if self._on_output is not None:
            self._on_output(chunk)

    def last_words(self) -> str:
        text = self._end[-_KEPT_ON_TIMEOUT:].decode("utf-8", "replace").strip("\n")
        return f"\nThe end of its output:\n{shorten_middle(text)}" if text else "\nIt had printed nothing."
