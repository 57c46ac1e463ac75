"""A kernel as a front end sees it: messages in, messages out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from kagura_kernel.testing.kernel import kernel_environ

Message = dict[str, Any]


class Kernel:
    """A running kernel in a project of its own."""

    def __init__(self, project: Path, environ: dict[str, str]) -> None:
        self.project = project
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(project), env=environ)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def close(self) -> None:
        """End it."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=False)

    def send(self, code: str, *, person: bool = False) -> str:
        """Ask for a cell to be run; `person` says that input is allowed, as a notebook does."""
        return str(self._client.execute(code, allow_stdin=person))

    def follow(
        self, request: str, until: Callable[[Message], bool] | None = None, seconds: float = 60
    ) -> list[Message]:
        """What was published for a request, up to its end or to the first message that fits."""
        found: list[Message] = []
        limit = time.monotonic() + seconds
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                pytest.fail(f"nothing more came; so far: {[one['msg_type'] for one in found]}")
            if message["parent_header"].get("msg_id") != request:
                continue
            found.append(message)
            if until is not None and until(message):
                return found
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return found

    def run(self, code: str, *, person: bool = False) -> list[Message]:
        """Run a cell to its end."""
        return self.follow(self.send(code, person=person))

    def press(self, comm: str, **content: Any) -> None:
        """Press a button of a card, as its widget would."""
        data = {"method": "custom", "content": content}
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)

    def interrupt(self) -> None:
        """What the interrupt button does."""
        self._manager.interrupt_kernel()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder the kernel works in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def variables() -> dict[str, str]:
    """What the kernel's environment has beside the usual; a test module may have its own."""
    return {}


@pytest.fixture
def kernel(project: Path, private_home: Path, variables: dict[str, str]) -> Iterator[Kernel]:
    """A kernel with the extension loaded."""
    found = Kernel(project, kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1", **variables))
    try:
        found.run("%load_ext kagura_kernel")
        yield found
    finally:
        found.close()
