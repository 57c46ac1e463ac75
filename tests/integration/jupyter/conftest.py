"""A kernel as a front end sees it: messages in, messages out."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from jupyter_client.manager import KernelManager

from kagura_kernel.testing.kernel import Specs, kernel_environ
from kagura_kernel.testing.obedient import start_with_it

Message = dict[str, Any]


PRESS_SECONDS = 8.0


class Kernel:
    """A running kernel in a project of its own."""

    def __init__(self, project: Path, environ: dict[str, str], name: str = "python3") -> None:
        self.project = project
        self.id = str(uuid4())
        runtime = Path(environ["JUPYTER_RUNTIME_DIR"])
        runtime.mkdir(parents=True, exist_ok=True)
        # Named as a server names it.
        file = str(runtime / f"kernel-{self.id}.json")
        self._manager = KernelManager(kernel_name=name, kernel_spec_manager=Specs(), connection_file=file)
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

    def event(self, name: str, seconds: float = 60) -> Message:
        """The debugger's next event of this name; what else is published meanwhile is dropped."""
        limit = time.monotonic() + seconds
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                pytest.fail(f"the debugger told of no {name}")
            if message["msg_type"] == "debug_event" and message["content"].get("event") == name:
                return dict(message["content"]["body"])

    def run(self, code: str, *, person: bool = False) -> list[Message]:
        """Run a cell to its end."""
        return self.follow(self.send(code, person=person))

    def execute(self, code: str, *, metadata: dict[str, Any] | None = None, **content: Any) -> str:
        """Ask for a cell to be run, with every field of the message one's own."""
        given = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
        message = self._client.session.msg("execute_request", given | content, metadata=metadata)
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def ask(self, kind: str, content: dict[str, Any], *, subshell: str = "", seconds: float = 30) -> dict[str, Any]:
        """Any other request, and what was replied: `complete_request`, `debug_request`, ….

        Those that the control channel is for go there.
        """
        message = self._client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        control = kind in {"debug_request", "create_subshell_request", "delete_subshell_request"}
        channel = self._client.control_channel if control else self._client.shell_channel
        channel.send(message)
        return self.reply(message["header"]["msg_id"], control=control, seconds=seconds)

    def reply(self, request: str, *, control: bool = False, seconds: float = 60) -> dict[str, Any]:
        """What was replied to a request; replies to others are dropped."""
        limit = time.monotonic() + seconds
        get = self._client.get_control_msg if control else self._client.get_shell_msg
        while True:
            try:
                message = get(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                pytest.fail("no reply came")
            if message["parent_header"].get("msg_id") == request:
                return dict(message["content"])

    def input_asked(self, seconds: float = 30) -> str:
        """The prompt of the next line that the kernel asks for."""
        return str(self._client.get_stdin_msg(timeout=seconds)["content"]["prompt"])

    def type(self, line: str) -> None:
        """Answer with a line, as a console does."""
        self._client.input(line)

    def press(self, comm: str, **content: Any) -> None:
        """Press a button of a card, as its widget would."""
        data = {"method": "custom", "content": content}
        message = self._client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)

    def any(self, until: Callable[[Message], bool], seconds: float = 60) -> None:
        """Read what is published for whichever request, up to the first message that fits."""
        limit = time.monotonic() + seconds
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.01, limit - time.monotonic()))
            except Empty:
                pytest.fail("what was waited for was not published")
            if until(message):
                return

    def kill(self) -> None:
        """What the system does when memory runs out."""
        self._manager.signal_kernel(signal.SIGKILL)

    def interrupt(self) -> None:
        """What the interrupt button does."""
        self._manager.interrupt_kernel()

    def interrupt_until(self, request: str, seconds: float = 60) -> None:
        """Press the button until this request is over, as a person does: Python can lose one while it imports."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.interrupt()
            again = time.monotonic() + PRESS_SECONDS
            while (left := again - time.monotonic()) > 0:
                try:
                    message = self._client.get_iopub_msg(timeout=left)
                except Empty:
                    break
                over = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
                if over and message["parent_header"].get("msg_id") == request:
                    return
        pytest.fail("it goes on, whatever button is pressed")


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


@pytest.fixture
def kagura(project: Path, private_home: Path, variables: dict[str, str]) -> Iterator[Kernel]:
    """The kagura kernel, with a brain that does what its prompt says."""
    environ = kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1", **variables)
    start_with_it(environ)
    found = Kernel(project, environ, "kagura")
    try:
        yield found
    finally:
        found.close()
