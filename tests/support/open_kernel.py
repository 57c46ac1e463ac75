"""A real kernel that stays open: cells go in one after the other, and what else happens between them is the test's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbformat.v4 import output_from_msg

from tests.support.kernel import Ran, Specs

_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})


class OpenKernel:
    """A kernel; nobody can be asked in it, as under nbclient."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client

    def send(self, code: str) -> str:
        """Ask for a cell to be run; the request's id."""
        return str(self._client.execute(code, allow_stdin=False))

    def follow(self, request: str, *, until: str = "", seconds: float = 90.0) -> Ran:
        """What a cell publishes, to its end or until this text was printed.

        Raises:
            TimeoutError: neither comes.
        """
        outputs: list[Mapping[str, Any]] = []
        limit = time.monotonic() + seconds
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                raise TimeoutError(f"the cell goes on; so far: {Ran(outputs).text}") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] in _OUTPUTS:
                outputs.append(output_from_msg(message))
            ended = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            if ended or (until and until in Ran(outputs).text):
                return Ran(outputs)

    def run(self, code: str, *, seconds: float = 90.0) -> Ran:
        """Run a cell to its end."""
        return self.follow(self.send(code), seconds=seconds)

    def kill(self) -> None:
        """What the system does when memory runs out; returns when it is gone."""
        self._manager.shutdown_kernel(now=True)


@contextmanager
def open_kernel(environ: Mapping[str, str], cwd: Path, *, name: str = "python3") -> Iterator[OpenKernel]:
    """A kernel with the extension loaded, for a while.

    Args:
        environ: Its whole environment; see `kernel_environ`.
        cwd: Its working directory, and so the project.
        name: `python3` or `kagura`.
    """
    runtime = Path(environ["JUPYTER_RUNTIME_DIR"])
    runtime.mkdir(parents=True, exist_ok=True)
    file = str(runtime / f"kernel-{os.urandom(6).hex()}.json")
    manager = KernelManager(kernel_name=name, kernel_spec_manager=Specs(), connection_file=file)
    manager.start_kernel(cwd=str(cwd), env=dict(environ))
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        kernel = OpenKernel(manager, client)
        kernel.run("%load_ext kagura_kernel")
        yield kernel
    finally:
        client.stop_channels()
        if manager.is_alive():
            manager.shutdown_kernel(now=False)
