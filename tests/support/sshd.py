"""A real sshd on loopback for tests: one account, that of nobody else, with a delay on the way to it.

The program is the machine's own, or the one that `dev/setup.sh` has unpacked. It runs as an ordinary user, who is made
up in its own view of /etc/passwd where the tests run as root; so a box there is an ordinary user's. It ends with the
process that started it.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kagura_kernel.testing.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / ".venv" / "openssh-server"
"""Where `dev/setup.sh` unpacks the package."""

_USER, _NUMBER = "visitor", 64242
_PIECE = 1 << 16


def program() -> Path | None:
    """The server's program; None where there is none."""
    for path in (Path("/usr/sbin/sshd"), UNPACKED / "usr/sbin/sshd"):
        if path.exists():
            return path
    return None


@dataclass(frozen=True)
class OtherMachine:
    """An account on a running server."""

    host: str  # What `ssh` takes
    config: str  # Its configuration file
    home: Path  # Of the account
    server: subprocess.Popen[bytes]
    delay: Delay

    @property
    def text(self) -> str:
        """Of the configuration file."""
        return Path(self.config).read_text()

    def pids(self) -> list[int]:
        """Everything that runs there, the server and its sessions not counted."""
        return [pid for pid in _below(self.server.pid) if _name(pid) != "sshd"]

    def sessions(self) -> list[int]:
        """The server's processes for its sessions."""
        return [pid for pid in _below(self.server.pid) if _name(pid) == "sshd" and not _listens(pid)]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _listens(pid: int) -> bool:
    """Whether it is the server itself, which says so in its title."""
    with suppress(OSError):
        return b"[listener]" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _below(pid: int) -> list[int]:
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [found for child in children for found in (int(child), *_below(int(child)))]
    return []


@contextmanager
def other_machine(*, seconds: float = 0.0) -> Iterator[OtherMachine]:
    """A server whose every byte is under way for `seconds`, each way.

    Raises:
        LookupError: there is no program.
    """
    sshd = program()
    if sshd is None:
        raise LookupError("sshd is not installed")
    folder = Path(tempfile.mkdtemp(prefix="other-machine-"))
    try:
        home = folder / "home"
        home.mkdir()
        for name in ("host", "own", "other"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
            subprocess.run(key, check=True, stdin=subprocess.DEVNULL)
        port = _free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/own.pub\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n"
            "MaxStartups 100\n"
        )
        environ = {"PATH": "/usr/bin:/bin:/usr/sbin"}
        if sshd.is_relative_to(UNPACKED):
            # Its user may not be one who can read this checkout.
            unpacked = shutil.copytree(UNPACKED, folder / "unpacked", symlinks=True)
            sshd = unpacked / sshd.relative_to(UNPACKED)
            environ["LD_LIBRARY_PATH"] = ":".join(str(path.parent) for path in unpacked.glob("usr/lib/*/libwrap.so.0"))
        words = [str(sshd), "-D", "-e", "-f", f"{folder}/sshd_config"]
        words, user = _as_visitor(folder, home, words)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd="/")
        try:
            wait_until(lambda: server.poll() is not None or _answers(port))
            if server.poll() is not None:
                raise RuntimeError((folder / "log").read_text())
            with Delay(port, seconds) as delay:
                _configure(folder, user, delay.port)
                yield OtherMachine("box", f"{folder}/config", home, server, delay)
        finally:
            for pid in (server.pid, *_below(server.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            server.wait()
    finally:
        shutil.rmtree(folder)


def _as_visitor(folder: Path, home: Path, words: list[str]) -> tuple[list[str], str]:
    """The command line that runs `words` as an ordinary user, and that one's name."""
    if os.geteuid() != 0:
        return ["setpriv", "--pdeathsig", "KILL", *words], pwd.getpwuid(os.geteuid()).pw_name
    passwd = folder / "passwd"
    lines = Path("/etc/passwd").read_text()
    passwd.write_text(f"{lines}{_USER}:x:{_NUMBER}:{_NUMBER}::{home}:/bin/bash\n")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _NUMBER, _NUMBER)
    os.chown(folder / "other", 0, 0)
    os.chown(folder / "own", 0, 0)
    view = ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--ro-bind", str(passwd), "/etc/passwd"]
    return [*view, "setpriv", f"--reuid={_NUMBER}", f"--regid={_NUMBER}", "--clear-groups", *words], _USER


def _configure(folder: Path, user: str, port: int) -> None:
    key = (folder / "host.pub").read_text().rsplit(" ", 1)[0]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "config").write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile none\n"
        f"Host box\n  IdentityFile {folder}/own\n"
        f"Host stranger\n  IdentityFile {folder}/other\n"
        f"Host unknown\n  IdentityFile {folder}/own\n  HostKeyAlias never-seen\n"
    )


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), 1.0)):
            return True
    except OSError:
        return False


class Delay:
    """A port on loopback whose bytes arrive at another one `seconds` later, in a thread of its own."""

    def __init__(self, target: int, seconds: float) -> None:
        self._target = target
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut = False
        self.port = 0

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="delay", daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def go_silent(self) -> None:
        """From now on nothing arrives any more, and nobody is told."""
        self._cut = True

    def _run(self, ready: threading.Event) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self._loop.run_until_complete(asyncio.wait(self._tasks))
        # What was aborted is closed in the loop's next turns.
        for _ in range(3):
            self._loop.run_until_complete(asyncio.sleep(0))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other, onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward}
        for pair in ((reader, onward), (other, writer)):
            task = asyncio.create_task(self._carry(*pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                if not self._cut:
                    self._loop.call_later(self._seconds, writer.write, data)
        if not self._cut:
            self._loop.call_later(self._seconds, writer.close)
