"""Running commands and code: `bash` and `python`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kagura_kernel.domain.commands import Command, OutputChunk
from kagura_kernel.domain.errors import (
    CommandTimeout,
    HostCommandTimeout,
    HostIdleTimeout,
    SandboxCommandTimeout,
    SandboxIdleTimeout,
)
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.policy import CommandLimits, ExecutionRoute, SandboxPermission
from kagura_kernel.domain.tools import ToolResult, ToolSpec
from kagura_kernel.runtime.router import Runtime
from kagura_kernel.tools import schema
from kagura_kernel.tools.fences import command_text, shorten_middle, spill_of
from kagura_kernel.tools.toolbox import CallContext

LONGEST_SECONDS = 600
PYTHON_LINE = "python3 -u -"
_KEPT_ON_TIMEOUT = 8192
_TIMEOUTS = (HostCommandTimeout, HostIdleTimeout, SandboxCommandTimeout, SandboxIdleTimeout)


@dataclass(frozen=True, slots=True)
class ToolTimes:
    """How long a tool's command may take."""

    limits: CommandLimits = field(default_factory=CommandLimits)  # When the model names no time
    longest: int = LONGEST_SECONDS  # The most that the model may name, in seconds
    idle: float | None = None  # How long it may print nothing where the model names a time; None for as long as that

    @property
    def sentence(self) -> str:
        """The same for a model."""
        total, idle = self.limits.total, self.limits.idle
        stops = [f"after {total:g} s"] if total is not None else []
        stops += [f"after {idle:g} s without output"] if idle is not None else []
        replaced = "that" if self.idle is None else "the first"
        return f"Stopped {' or '.join(stops)}; a timeout of your own replaces {replaced}." if stops else ""

    @property
    def argument(self) -> dict[str, Any]:
        """The schema of a `timeout` argument."""
        silence = ", also in silence" if self.idle is None else ""
        return schema.whole(f"Seconds it may take{silence}.", maximum=self.longest)


@dataclass(frozen=True, slots=True)
class CommandLeases:
    """Credentials that are given to one command at a time."""

    names: tuple[str, ...] = ()  # What a command may name, each as `provider:scope`
    # These names to variables with the secrets in them; raises `KaguraError`
    environment: Callable[[Sequence[str]], Mapping[str, str]] = lambda _names: {}

    @property
    def argument(self) -> dict[str, Any]:
        """The schema of a `leases` argument; nothing where there are none."""
        if not self.names:
            return {}
        told = "Credentials that this one command gets as environment variables; only those that it needs."
        return {"leases": schema.some_of(told, self.names)}


@dataclass(frozen=True, slots=True)
class BoxPrograms:
    """What programs in the box find there beside the workspace."""

    environment: Callable[[str], Mapping[str, str]] = lambda _call: {}  # A call's id to the variables of its programs
    # A call's id and its code to the command that runs it there, in a session that remembers; None runs the code from
    # standard input, each time in a fresh interpreter
    python: Callable[[str, bytes], Awaitable[Command]] | None = None
    # A call's id to the folder in which its shell line leaves what it shows; empty for none
    shows: Callable[[str], str] = lambda _call: ""
    sees: bool = False  # Whether the model is shown images as well
    remembers: bool = False  # Whether the session has been there before the first call

    @property
    def sentence(self) -> str:
        """What a model may do in Python."""
        if self.python is None:
            return (
                "print what you want to see; a last expression is not shown. Each call is a fresh interpreter with the "
                "packages of the sandbox"
            )
        seen = "the person and, as images, to you" if self.sees else "the person"
        before = ". The variables and imports of an earlier cell of this notebook are there" if self.remembers else ""
        return (
            "print what you want to see; a last expression is shown as in a notebook, and display(obj) and figures of "
            f"matplotlib are shown to {seen}. Variables, imports and the working directory stay from call to call, "
            "`await` works at the top level, and modules of the workspace are read again when they have changed. "
            f"restart=true begins anew{before}"
        )


class BashTool:
    """Runs a shell line in the box, or on the host when a person agrees."""

    def __init__(
        self,
        runtime: Runtime,
        times: ToolTimes | None = None,
        leases: CommandLeases | None = None,
        programs: BoxPrograms | None = None,
    ) -> None:
        self._runtime = runtime
        self._times = times or ToolTimes()
        self._leases = leases or CommandLeases()
        self._programs = programs or BoxPrograms()
        self.spec = ToolSpec(
            "bash",
            "Run a bash line in the sandbox, in the workspace, and read its output and exit code. Each call is a fresh "
            "shell: `cd` and variables do not last. The network is what you were told it is, through a "
            "proxy that the environment names, and nobody types input. Jobs left in the "
            "background are stopped when the line ends, and what slips past that when the sandbox is closed. "
            f"{self._times.sentence} host=true runs it on the person's own machine "
            "instead: give a reason; a person sees the exact line and may refuse.",
            schema.arguments(
                "command",
                command=schema.text("The line, for bash."),
                timeout=self._times.argument,
                host=schema.flag("Run on the host, outside of the sandbox. Only when the sandbox cannot do it."),
                reason=schema.text("Why it has to run on the host; shown to the person.", empty=True),
                **self._leases.argument,
            ),
        )

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Run the line."""
        return await _run(
            self._runtime,
            arguments["command"],
            context,
            permission=SandboxPermission.REQUIRE_ESCALATED if arguments.get("host") else SandboxPermission.AUTO,
            reason=arguments.get("reason", ""),
            limits=_limits(self._times, arguments.get("timeout")),
            box_env=self._programs.environment(context.call_id),
            secret_env={} if arguments.get("host") else self._leases.environment(arguments.get("leases", ())),
            shows=self._programs.shows(context.call_id),
        )


class PythonTool:
    """Runs Python code with the box's interpreter."""

    def __init__(
        self,
        runtime: Runtime,
        times: ToolTimes | None = None,
        leases: CommandLeases | None = None,
        programs: BoxPrograms | None = None,
    ) -> None:
        self._runtime = runtime
        self._times = times or ToolTimes()
        self._leases = leases or CommandLeases()
        self._programs = programs or BoxPrograms()
        self.spec = ToolSpec(
            "python",
            "Run Python code in the sandbox, in the workspace, and read what it prints: "
            f"{self._programs.sentence}. {self._times.sentence}",
            schema.arguments(
                "code",
                code=schema.text("The program."),
                timeout=self._times.argument,
                **({"restart": schema.flag("Whether to forget all before.")} if self._programs.python else {}),
                **self._leases.argument,
            ),
        )
        self._one = asyncio.Lock()
        self._remembers = self._programs.remembers

    async def call(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        """Run the code; it travels as a file or by standard input, so its length and its quotes do not matter."""
        code = arguments["code"].encode("utf-8", "backslashreplace")
        restart = bool(arguments.get("restart"))
        command: Command | None = None
        # What a person is asked about is the plain line with the code as its input.
        in_box = self._runtime.decide(PYTHON_LINE).route is ExecutionRoute.SANDBOX
        # They share an interpreter, so that one program runs after the other.
        async with self._one:
            if in_box and self._programs.python is not None:
                made = await self._programs.python(context.call_id, code)
                command = replace(made, restart=restart, name="The python call")
            return await _run(
                self._runtime,
                PYTHON_LINE,
                context,
                stdin=b"" if command is not None else code,
                limits=_limits(self._times, arguments.get("timeout")),
                box_env=self._programs.environment(context.call_id),
                secret_env=self._leases.environment(arguments.get("leases", ())),
                in_box=command,
                session=lambda state: self._told(state, restart=restart),
            )

    def _told(self, state: str, *, restart: bool) -> str:
        """What became of the session, where that has to be known."""
        lost = self._remembers and state == "new" and not restart
        self._remembers = state != "gone"
        if state == "gone":
            return "\nThe Python session ended with this call: its variables and imports are gone."
        return "\nThe Python session had ended: this call began a new one, without earlier variables." if lost else ""


def _limits(times: ToolTimes, seconds: float | None) -> CommandLimits:
    # Who names a time knows how long it takes, in silence too, unless that is not theirs to say.
    return times.limits if seconds is None else replace(times.limits, total=seconds, idle=times.idle)


async def _run(  # noqa: PLR0913 - one command's surroundings, each a fact
    runtime: Runtime,
    command: str,
    context: CallContext,
    *,
    permission: SandboxPermission = SandboxPermission.AUTO,
    reason: str = "",
    limits: CommandLimits,
    stdin: bytes = b"",
    box_env: Mapping[str, str],
    secret_env: Mapping[str, str],
    in_box: Command | None = None,
    shows: str = "",
    session: Callable[[str], str] = lambda _state: "",
) -> ToolResult:
    heard = _Heard(context)
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
            secret_env=secret_env,
            box_env=box_env,
            in_box=in_box,
            shows=shows,
        )
    except _TIMEOUTS as error:
        route = "host" if isinstance(error, HostCommandTimeout | HostIdleTimeout) else "sandbox"
        goes_on = isinstance(error, CommandTimeout) and error.goes_on
        kept = "\nThe Python session goes on, with its variables." if goes_on else session("gone" if in_box else "")
        return ToolResult(
            f"{error.message} [{error.code}]{heard.last_words()}{kept}",
            is_error=True,
            route=route,
            shows=route == "sandbox",
        )
    result = routed.result
    return ToolResult(
        command_text(result, hint=routed.hint) + session(result.resident),
        is_error=not result.ok,
        exit_code=result.exit_code,
        route=routed.decision.route.value,
        spill=spill_of(result),
        shows=result.shown,
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
