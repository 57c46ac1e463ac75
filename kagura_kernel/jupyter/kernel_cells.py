"""Cells that this kernel runs for an agent, while the cell that asked waits, or between the person's own.

The person has read the source and allowed it; see `tools/run_cell.py`. What it shows goes to whoever asked, and an
error ends nothing but itself.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.domain.notebook import LONGEST, CellImage, CellRan
from kagura_kernel.jupyter.notebook import error_text, image_in

_AGENTS = re.compile(r"get_ipython\(\)\.(?:kagura_|run_cell_magic\('(?:kagura|sandbox)')")


@dataclass(slots=True)
class KernelCells:
    """Runs them in the thread that runs all cells of this kernel."""

    shell: Any
    loop: asyncio.AbstractEventLoop
    _one: threading.Lock = field(default_factory=threading.Lock)
    _runs: bool = False  # Whether one runs now, and may be interrupted

    @classmethod
    def of(cls, shell: Any) -> KernelCells | None:
        """Those of a shell; None where no loop of its main thread is there to run them in."""
        if getattr(shell, "kernel", None) is None or threading.current_thread() is not threading.main_thread():
            return None
        try:
            return cls(shell, asyncio.get_running_loop())
        except RuntimeError:
            return None

    def why_not(self, source: str) -> str:
        """See `RunsCells.why_not`."""
        code = self.shell.transform_cell(source)
        if _AGENTS.search(code):
            return "it is a cell for an agent"
        if self.shell.should_run_async(source, transformed_cell=code):
            return "it awaits something at its top level, and the kernel waits for you; let the person run it"
        return ""

    async def run(self, source: str, cell: str) -> CellRan:
        """See `RunsCells.run`."""

        async def now() -> CellRan:
            return self._ran(source, cell)

        running = asyncio.run_coroutine_threadsafe(now(), self.loop)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            # A cell that has not begun was called off with its future.
            with self._one:
                if self._runs:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            raise

    def _ran(self, source: str, cell: str) -> CellRan:
        from IPython.utils.capture import capture_output

        hook, errors = self.shell.displayhook, []
        kept, result = hook.exec_result, None

        def tell(kind: object, value: object, told: list[str]) -> None:
            self.shell._last_traceback = told  # noqa: SLF001 - where IPython keeps it
            errors.append(error_text(getattr(kind, "__name__", kind), value, told))

        self.shell._showtraceback = tell  # noqa: SLF001 - ipykernel would end the asking cell with it
        try:
            with self.shell.display_trap, capture_output() as shown, self._interruptible():
                result = self.shell.run_cell(source, store_history=False, cell_id=cell)
        finally:
            del self.shell._showtraceback  # noqa: SLF001
            hook.exec_result = kept
        bundles = [{mime: _text(data) for mime, data in output.data.items()} for output in shown.outputs]
        told = [shown.stdout, shown.stderr, *(bundle.get("text/plain", "") for bundle in bundles), *errors]
        images = [CellImage(f"output of {cell}", data) for bundle in bundles if (data := image_in(bundle))]
        text = "\n".join(part.rstrip("\n") for part in told if part)
        return CellRan(text[:LONGEST], tuple(images), result is None or not result.success)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """An interrupt means the cell that runs now; ipykernel's own means the one that waits."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._runs = True
        try:
            yield
        except KeyboardInterrupt:
            # It came too late for the cell, which is over.
            pass
        finally:
            with self._one:
                self._runs = False
            signal.signal(signal.SIGINT, before)


def _text(data: object) -> str:
    """Text as it is, and bytes as a front end gets them."""
    return base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
