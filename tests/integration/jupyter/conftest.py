"""A kernel as a front end sees it: messages in, messages out.

Starting one takes seconds, so the tests of a module hand theirs on. Between two tests everything is closed and a
kernel gets another project, home and environment, an empty namespace and a history that begins at 1.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty
from typing import Any
from uuid import uuid4

import pytest
from jupyter_client.manager import KernelManager

from tests.support.kernel import Specs, kernel_environ
from tests.support.obedient import start_with_it

Message = dict[str, Any]


PRESS_SECONDS = 8.0
CLOSE_SECONDS = 30.0

# Both run silently, so that neither the history nor the count of cells knows of them.
RENEW = """
import os as _os, sys as _sys
_os.chdir({project!r})
_os.environ.clear()
_os.environ.update({environ!r})
get_ipython().reset(new_session=True)
"""
CLOSE = """
import os as _os, sys as _sys
if {unload!r}:
    get_ipython().extension_manager.unload_extension("kagura_kernel")
if "kagura_kernel.assembly" in _sys.modules:
    _sys.modules["kagura_kernel.assembly"].close_cockpit()
# A front end that comes later has not asked for comms yet.
getattr(get_ipython().kernel, "_widget_clients", set()).clear()
_os.chdir("/")
"""


class Kernel:
    """A running kernel in a project of its own."""

    def __init__(self, project: Path, environ: dict[str, str], name: str = "python3") -> None:
        self.name = name  # `python3` or `kagura`
        self.project = project  # Where it works
        self.spent = False  # Whether a test has done to it what cannot be undone: no other test gets it
        self.id = str(uuid4())  # As a server would know it
        runtime = Path(environ["JUPYTER_RUNTIME_DIR"])
        runtime.mkdir(parents=True, exist_ok=True)
        # Named as a server names it.
        file = str(runtime / f"kernel-{self.id}.json")
        self._manager = KernelManager(kernel_name=name, kernel_spec_manager=Specs(), connection_file=file)
        self._environ = environ
        self._manager.start_kernel(cwd=str(project), env=environ)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def close(self) -> None:
        """End it."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=False)

    def renew(self, project: Path, environ: dict[str, str]) -> None:
        """Work elsewhere from now on, as a kernel that was just started there."""
        self.project = project
        kept = {name: self._environ[name] for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
        self._quietly(RENEW.format(project=str(project), environ=environ | kept))

    def let_go(self) -> bool:
        """Stop and close everything; whether it can be renewed."""
        if self.spent or not self._manager.is_alive():
            return False
        try:
            self._quietly(CLOSE.format(unload=self.name == "python3"))
        except (Empty, RuntimeError):
            # It still runs a cell, or an interrupt came late.
            return False
        for channel in (self._client.iopub_channel, self._client.stdin_channel, self._client.shell_channel):
            while channel.msg_ready():
                channel.get_msg(timeout=1)
        return True

    def _quietly(self, code: str) -> None:
        request = self._client.execute(code, silent=True, store_history=False, allow_stdin=False)
        while True:
            reply = self._client.get_shell_msg(timeout=CLOSE_SECONDS)
            if reply["parent_header"].get("msg_id") == request:
                break
        if reply["content"]["status"] != "ok":
            raise RuntimeError(str(reply["content"]))

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


class Kernels:
    """The kernels of a module's tests; each test has the ones that it takes for itself.

    Args:
        home: Where IPython's files are, for as long as the kernels live.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._idle: list[Kernel] = []
        self._taken: list[Kernel] = []

    def take(self, name: str, project: Path, environ: dict[str, str]) -> Kernel:
        """A kernel without the extension, or the kagura kernel; the brain of the latter does what its prompt says.

        Args:
            name: `python3` or `kagura`.
            project: Where it works.
            environ: Its whole environment; see `kernel_environ`.
        """
        found = next((one for one in self._idle if one.name == name), None)
        if found is None:
            own = kernel_environ(self._home / f"{name}-{uuid4().hex[:6]}")
            if name == "kagura":
                start_with_it(own)
            kept = {name: own[name] for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
            found = Kernel(project, environ | kept, name)
        else:
            self._idle.remove(found)
            found.renew(project, environ)
        self._taken.append(found)
        return found

    def take_back(self) -> None:
        """What a test has taken is free for the next one, unless it is of no use any more."""
        while self._taken:
            kernel = self._taken.pop()
            if kernel.let_go():
                self._idle.append(kernel)
            else:
                kernel.close()

    def close(self) -> None:
        """End them."""
        self.take_back()
        while self._idle:
            self._idle.pop().close()


@pytest.fixture(scope="module")
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.close()


@pytest.fixture
def kernels(_kernels: Kernels) -> Iterator[Kernels]:
    """Where a test gets its kernels from."""
    yield _kernels
    _kernels.take_back()


@pytest.fixture
def variables() -> dict[str, str]:
    """What the kernel's environment has beside the usual; a test module may have its own."""
    return {}


@pytest.fixture
def kernel(kernels: Kernels, project: Path, private_home: Path, variables: dict[str, str]) -> Kernel:
    """A kernel with the extension loaded."""
    found = kernels.take("python3", project, kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1", **variables))
    found.run("%load_ext kagura_kernel")
    return found


@pytest.fixture
def kagura(kernels: Kernels, project: Path, private_home: Path, variables: dict[str, str]) -> Kernel:
    """The kagura kernel, with a brain that does what its prompt says."""
    return kernels.take("kagura", project, kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1", **variables))


def cassette(project: Path, *calls: tuple[str, dict[str, Any]]) -> None:
    """A recorded run that makes these calls, in `c.jsonl`."""
    lines = [
        {"kagura_cassette": 1},
        *({"call": {"name": name, "arguments": arguments}} for name, arguments in calls),
        {"done": {"text": "Over."}},
    ]
    (project / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
