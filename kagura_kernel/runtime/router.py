"""Runs a command where the rules say, after asking a person where they say so.

One runtime belongs to one run: it holds the run's box and the way to the host. It never falls back by itself: without
a box a command reaches the host only after an approval (or under full control, which a person chose).

The question whether a command may run on the host has words and values. The values are what would be used, and what a
card shows. The words are for readers without a card: each part stands under its own heading, and each of its lines
behind a bar, so that no text can pose as another part.

The approver is a context variable, so that a run's tasks and threads started with its context see it and nobody else's.
Without one every question ends in `ApprovalRequired`: nobody is there is not the same as somebody said no.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Verdict
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.commands import Command, CommandResult, OutputListener, shell_command
from kagura_kernel.domain.errors import ApprovalAborted, ApprovalDenied, ApprovalRequired, SandboxUnavailable
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.policy import (
    CommandDecision,
    CommandLimits,
    ExecutionRoute,
    PermissionMode,
    SandboxPermission,
)
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.domain.tools import FileSystem
from kagura_kernel.runtime.files import HostFiles
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.routing import REQUESTED, SYSTEM_DIRECTORIES, Routing, ask_first, decide_route, judge
from kagura_kernel.sandbox.backend import Box

_APPROVER: ContextVar[Approver | None] = ContextVar("kagura_approver", default=None)


@contextmanager
def use_approver(approver: Approver | None) -> Iterator[None]:
    """Everything inside the block, and every task started there, asks this approver; None takes it away."""
    token = _APPROVER.set(approver)
    try:
        yield
    finally:
        _APPROVER.reset(token)


def current_approver() -> Approver | None:
    """Who can be asked here; None when nobody can."""
    return _APPROVER.get()


@dataclass(frozen=True, slots=True)
class Asker:
    """Puts the questions of one run."""

    run_id: str = ""  # The run that asks
    session_id: str = ""
    clock: Clock = field(default_factory=SystemClock)  # Where the time of asking comes from
    deadline: float = DEFAULTS.approval_deadline  # Seconds until no answer is a denial

    async def ask(
        self,
        kind: ApprovalKind,
        title: str,
        detail: str,
        *,
        subject: str = "",
        reason: str = "",
        arguments: Mapping[str, Any] | None = None,
        call_id: str = "",
        options: tuple[str, ...] = (),
    ) -> Decision:
        """The answer, whatever it is, timeouts included; `subject` names the thing in errors, `title` if left out.

        Raises:
            ApprovalRequired: nobody can be asked here.
            ApprovalAborted: the person called the run off.
        """
        approver = current_approver()
        if approver is None:
            raise ApprovalRequired(subject or title, reason or "it is a person's decision")
        request = ApprovalRequest(
            id=new_approval_id(),
            run_id=self.run_id,
            session_id=self.session_id,
            kind=kind,
            title=title,
            detail=detail,
            requested_at=self.clock.now(),
            reason=reason,
            arguments=dict(arguments or {}),
            call_id=call_id,
            deadline=self.deadline,
            options=options,
        )
        decision = await approver.approve(request)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(subject or title)
        if decision.approval_id != request.id:
            # An answer to another question must never open this door.
            raise ApprovalDenied(subject or title, f"the answer belongs to {decision.approval_id}")
        return decision


def require_allowed(decision: Decision, subject: str) -> Decision:
    """The decision itself when it allows.

    Raises:
        ApprovalDenied: it does not; the text says who said no, and the remark they left.
    """
    if decision.allowed:
        return decision
    raise ApprovalDenied(subject, decision.refusal)


def host_arguments(command: str, directory: str, stdin: bytes) -> dict[str, str]:
    r"""What would be used, exactly: `command`, `directory`, and `stdin` if it reads anything.

    Input that is no UTF-8 is told for reading in `stdin`, with odd bytes as `\xff`, and exactly in `stdin_base64`.
    """
    arguments = {"command": command, "directory": directory}
    if stdin:
        try:
            arguments["stdin"] = stdin.decode()
        except UnicodeDecodeError:
            arguments["stdin"] = stdin.decode("utf-8", "backslashreplace")
            arguments["stdin_base64"] = base64.b64encode(stdin).decode()
    return arguments


def host_detail(command: str, directory: str, stdin: str) -> str:
    """All of it as one text, with characters that cannot be seen written out as `⟨U+000D⟩`."""
    parts = [("Command", command), ("Directory", directory)]
    if stdin:
        parts.append(("Standard input", stdin))
    return "\n\n".join(f"{heading}:\n{_barred(text)}" for heading, text in parts)


def _barred(text: str) -> str:
    return "\n".join(f"| {_visible(line)}" for line in text.split("\n"))


def _visible(line: str) -> str:
    return re.sub(r"[^\t]", lambda found: found[0] if found[0].isprintable() else f"⟨U+{ord(found[0]):04X}⟩", line)


def leads_out(words: Iterable[str], directory: Path) -> str:
    """The first word that names something outside of the directory; empty when none does.

    Every word counts as a path, and so does what an option may hold: a program decides that for itself, and to ask
    once too often does no harm.
    """
    root = os.path.realpath(directory)
    for word in words:
        for path in _paths_in(word):
            found = os.path.realpath(os.path.join(root, path))  # noqa: PTH118 - links are followed on the joined text
            if found != root and not found.startswith(root.rstrip("/") + "/"):
                return word
    return ""


def _paths_in(word: str) -> Iterator[str]:
    yield word
    if word.startswith("-"):
        yield word[2:]
    for position, char in enumerate(word):
        if char in "=:":
            yield word[position + 1 :]


NOT_FOUND = 127
"""What a shell returns for a program that does not exist."""
_NO_BOX = "no box was started"


@dataclass(frozen=True, slots=True)
class Routed:
    """A command that ran, and how it came to run there."""

    result: CommandResult  # What came of it
    decision: CommandDecision  # Where it ran, and why
    approval: Decision | None = None  # The person's word, when one was needed
    hint: str = ""  # What might help, for the brain; never acted upon by itself


class Runtime:
    """The run's box (None when none can be had, or none is wanted) and the way to the host, behind one door."""

    def __init__(
        self,
        box: Box | None,
        host: HostRunner,
        routing: Routing | None = None,
        *,
        run_id: str = "",
        session_id: str = "",
        clock: Clock | None = None,
        missing_box: str = "",
    ) -> None:
        self.box = box
        self._missing_box = missing_box  # why there is none
        self.host = host  # whoever calls it past `run` has to have asked
        self._routing = routing or Routing()
        self._closed = False
        self.asker = Asker(run_id, session_id, clock or SystemClock(), self._routing.approval_deadline)

    @property
    def files(self) -> FileSystem:
        """Files for tools: the box's; the project's own only under full control.

        Raises:
            SandboxUnavailable: there is no box, and nobody handed the host's files over.
        """
        if self.box is not None:
            return self.box.files
        if self._full_control:
            return HostFiles(self.host.directory)
        raise SandboxUnavailable(_NO_BOX)

    @property
    def has_files(self) -> bool:
        """Whether `files` answers."""
        return self.box is not None or self._full_control

    @property
    def _full_control(self) -> bool:
        return self._routing.mode is PermissionMode.FULL_CONTROL

    async def run(  # noqa: PLR0913 - one command's surroundings, each a fact
        self,
        command: str,
        *,
        permission: SandboxPermission = SandboxPermission.AUTO,
        reason: str = "",
        call_id: str = "",
        limits: CommandLimits = CommandLimits(),
        stdin: bytes = b"",
        on_output: OutputListener | None = None,
        spill_dir: Path | None = None,
        secret_env: Mapping[str, str] | None = None,
        box_env: Mapping[str, str] | None = None,
        in_box: Command | None = None,
        shows: str = "",
    ) -> Routed:
        """Run a shell line to its end where the rules say, asking first where they say so.

        Args:
            command: The shell line.
            permission: Whether it asks for the host.
            reason: Why it has to leave the box, in the asker's words; shown to the person.
            call_id: The tool call it belongs to.
            limits: Time limits; waiting for an approval is not counted.
            stdin: What it reads.
            on_output: Called for each chunk it prints.
            spill_dir: Where output goes that is too long for memory.
            secret_env: Variables with leased secrets, for this one process, in the box; never sent to the host.
            box_env: Variables that mean something in the box alone.
            in_box: What runs there in the line's place, when it runs in the box.
            shows: The folder in which the line leaves what it shows, when it runs in the box.

        Raises:
            ApprovalRequired: it needs an approval, and nobody can be asked here.
            ApprovalDenied: the answer was no, or none came.
            ApprovalAborted: the person called the run off.
            SandboxCommandTimeout, SandboxIdleTimeout, HostCommandTimeout, HostIdleTimeout: a limit was reached.
            SandboxUnavailable: the box is gone, or the runtime was closed.
        """
        self._refuse_when_closed()
        decision = self.decide(command, permission)
        line = shell_command(command, stdin=stdin, limits=limits, spill_dir=spill_dir)
        if decision.route is ExecutionRoute.SANDBOX and self.box is not None:
            if in_box is not None:
                line, shows = replace(in_box, limits=limits, spill_dir=spill_dir), in_box.shows
            line = replace(line, env=box_env or {}, secret_env=secret_env or {}, shows=shows)
            result = await self.box.run(line, on_output)
            return Routed(result, decision, hint=_hint(result))
        if not decision.needs_approval and not self._full_control:
            # Nobody looks at a pre-approved line, so neither a profile nor a PATH that leads into the project may
            # decide which program its name means.
            line = replace(line, env={"PATH": ":".join(SYSTEM_DIRECTORIES)})
            return Routed(await self.host.run(line, on_output), decision)
        approval = None
        if decision.needs_approval:
            rule = "" if decision.reasons[0] == REQUESTED else "; ".join(decision.reasons)
            approval = await self.ask_host(command, reason=reason, rule=rule, call_id=call_id, stdin=stdin)
            self._refuse_when_closed()
        login = replace(line, argv=("bash", "-lc", command))
        return Routed(await self.host.run(login, on_output), decision, approval)

    async def ask_host(
        self, command: str, *, reason: str = "", rule: str = "", call_id: str = "", stdin: bytes = b""
    ) -> Decision:
        """The approval of one host command; what is shown is exactly what would run, its input included.

        `reason` is in the asker's own words, never in ours; `rule` says why the line leaves the box though nobody asked
        for that.

        Raises:
            ApprovalRequired: nobody can be asked here.
            ApprovalDenied: the answer was no, or none came.
            ApprovalAborted: the person called the run off.
        """
        arguments = host_arguments(command, str(self.host.directory), stdin)
        subject = "The host command"
        decision = await self.asker.ask(
            ApprovalKind.HOST_COMMAND,
            f"Run a command on the host: {rule}" if rule else "Run a command on the host",
            host_detail(command, arguments["directory"], arguments.get("stdin", "")),
            subject=subject,
            reason=reason,
            arguments=arguments,
            call_id=call_id,
        )
        return require_allowed(decision, subject)

    async def run_own(self, command: Command) -> CommandResult:
        """Run a program of this package, never a brain's words, where `files` are.

        Raises:
            SandboxUnavailable: there is no box (and no full control), it is gone, or the runtime was closed.
        """
        self._refuse_when_closed()
        if self.box is not None:
            return await self.box.run(command)
        if self._full_control:
            return await self.host.run(command)
        raise SandboxUnavailable(_NO_BOX)

    async def close(self) -> None:
        """Stop what still runs, close the box, and refuse whatever comes later; may be called twice."""
        self._closed = True
        try:
            await self.host.close()
        finally:
            if self.box is not None:
                await self.box.close()

    def decide(self, command: str, permission: SandboxPermission = SandboxPermission.AUTO) -> CommandDecision:
        """Where a command would run, and why; a pre-approved line that names a link out of the project is asked for."""
        decision = decide_route(command, permission, self._routing, missing_box=None if self.box else self._missing_box)
        unasked = decision.route is ExecutionRoute.HOST and not decision.needs_approval
        if not unasked or self._full_control:
            return decision
        word = leads_out(judge(command, self._routing.safe).words[1:], self.host.directory)
        return ask_first(f"the command is pre-approved, but {word!r} leads out of the project") if word else decision

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise SandboxUnavailable("the runtime was closed")


def _hint(result: CommandResult) -> str:
    said = result.stderr.data
    if result.exit_code == NOT_FOUND and b"not found" in said:
        return (
            "There is no such program in the box. If the host has it and the task needs it there, "
            "ask for the same command with host=true and a reason; a person decides."
        )
    if result.exit_code and b"Invalid cross-device link" in said:
        return (
            "A folder that the box did not make cannot be renamed in one step here. `mv` copies it and removes the "
            "old one; after that, `git add -A` has the move."
        )
    return ""
