"""Whether a run's work is good: a command in a fresh box on the finished workspace, which its agent never touched.

The command comes from the person alone, the exit code by the host's own channel to the box, and the box has no
network, no credential, and nothing of the agent's kit. What is tried out is what the agent wrote, its tests included:
a command that judges by files which the agent may change believes the agent. It is best kept outside of the project,
or where runs may not write.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from kagura_kernel.domain.commands import Command, CommandResult, shell_command
from kagura_kernel.domain.errors import JournalError, KaguraError
from kagura_kernel.domain.events import RunVerified
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.policy import CommandLimits, WriteMode
from kagura_kernel.membrane.egress.proxy import proxy_variables
from kagura_kernel.membrane.grant import RecordFact
from kagura_kernel.runs.change_restore import restore_changes
from kagura_kernel.runs.order import RunOrder, RunParts
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.selection import LaunchedBox

VERIFY_SECONDS = 600.0
"""The most that a verification may take."""

LONGEST_TEXT = 4_000
"""Characters of the end of what it printed that are kept."""

STOPPED = "the run was stopped before it had ended"


class Verification:
    """One run's; on its loop.

    Args:
        order: The run's.
        parts: What carries it out.
        record: Stores what came of it.
        show: Takes secrets out of what was printed.
    """

    def __init__(self, order: RunOrder, parts: RunParts, record: RecordFact, show: Callable[[str], str]) -> None:
        self._order = order
        self._parts = parts
        self._record = record
        self._show = show
        self._task: asyncio.Task[RunVerified] | None = None
        self._stopped = False
        self.why_lost = ""  # Why what the run changed is not known; empty where it is

    def lost(self, why: str) -> None:
        """What the run changed is not known, so that nothing can be tried out: it has not passed then."""
        self.why_lost = why

    def stop(self) -> None:
        """End it at once, or let it not begin: it has not passed then."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def run(self, changes: Sequence[FileChange]) -> RunVerified | None:
        """Try the finished workspace out; None where the run has no verification.

        Whatever stands in the way is told as not passed, with why.

        Args:
            changes: What the run changed; their contents wait in the blob store.

        Raises:
            JournalError: what came of it could not be stored.
        """
        if not self._order.verify:
            return None
        task = self._task = asyncio.create_task(self._tried_out(changes), name=f"verify {self._order.run_id}")
        if self._stopped:
            task.cancel()
        try:
            await asyncio.wait({task})
        finally:
            self._task = None
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        verified = self._fact(why=STOPPED) if task.cancelled() else task.result()
        self._record(RunVerified, **verified.model_dump(exclude={"run_id", "session_id", "at", "kind"}))
        return verified

    async def _tried_out(self, changes: Sequence[FileChange]) -> RunVerified:
        if self.why_lost:
            return self._fact(why=f"the run's changes could not be brought out of its box: {self.why_lost}")
        began = time.monotonic()
        box: Box | None = None
        launched: LaunchedBox | None = None
        try:
            launched = await self._parts.start_box(self._order.box, fresh_spec(self._order.spec))
            box = launched.box
            if self._order.write_mode is WriteMode.THROUGH:
                # The project has the others already, and the box shows the project.
                changes = [change for change in changes if change.state == "proposed"]
            await restore_changes(box, changes, self._parts.blobs)
            limits = CommandLimits(VERIFY_SECONDS, None)
            result = await box.run(_command(self._order.verify, limits))
        except JournalError:
            raise
        except KaguraError as error:
            return self._fact(why=error.message, box=box, seconds=time.monotonic() - began)
        finally:
            if launched is not None:
                try:
                    await asyncio.shield(launched.box.close())
                finally:
                    launched.free()
        return self._fact(result, box=box, seconds=result.duration)

    def _fact(
        self, result: CommandResult | None = None, *, why: str = "", box: Box | None = None, seconds: float = 0.0
    ) -> RunVerified:
        ended = result is not None and result.signal is None
        if result is not None and not ended:
            why = f"it was ended by signal {result.signal}"
        return RunVerified(
            run_id=self._order.run_id,
            session_id=self._order.session_id,
            at=self._parts.clock.now(),
            command=self._order.verify,
            passed=result is not None and result.ok and ended,
            exit_code=result.exit_code if result is not None and ended else None,
            text=self._show(_end_of(result)) if result is not None else "",
            duration=seconds,
            box_id=box.id if box is not None else "",
            why=self._show(why),
        )


def fresh_spec(spec: BoxSpec) -> BoxSpec:
    """The box of a verification: the project as it is, and nothing that was granted to the run."""
    granted = proxy_variables()
    return replace(
        spec,
        policy=replace(spec.policy, network_access=False),
        env={name: value for name, value in spec.env.items() if name not in granted},
        extra_read_only=(),
        shown=(),
        writable_root=False,
    )


def _command(line: str, limits: CommandLimits) -> Command:
    # The end of a long output says what failed.
    return replace(shell_command(line, limits=limits), keep_bytes=4 * LONGEST_TEXT)


def _end_of(result: CommandResult) -> str:
    """The end of both streams, the errors last, from the beginning of a line."""
    text = "\n".join(filter(None, (result.stdout.text.rstrip("\n"), result.stderr.text.rstrip("\n"))))
    if len(text) <= LONGEST_TEXT:
        return text
    end = text[-LONGEST_TEXT:]
    return f"…\n{end.partition(chr(10))[2] or end}"
