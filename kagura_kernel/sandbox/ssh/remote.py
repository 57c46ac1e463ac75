"""What runs on the other machine for one box: it starts the supervisor there, and carries what the host sends.

It comes in through its own standard input (`connection.bootstrap`) and leaves nothing behind. Standard input then
brings blocks of four bytes length and JSON: `tree` (a project follows, as `guest.changes` reads it), `alive`, and
`start`, after which every byte is the guest's. Standard output is the guest's alone. Standard error brings one JSON
text a line: `ready` or `refused`; `unpacked`; what the supervisor says (`started`, `failed`, `gone`).

It ends, and the box with it, when the connection does: at the end of standard input, and when nothing came through it
for so long as the host has said. Should it be killed, the supervisor ends the box. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any, NoReturn

from kagura_kernel.sandbox.guest.changes import unpack
from kagura_kernel.sandbox.guest.files import INPUT
from kagura_kernel.sandbox.namespaces import read_facts
from kagura_kernel.sandbox.python_view import NAMES, PythonView, current_view
from kagura_kernel.sandbox.supervisor import main as supervisor
from kagura_kernel.sandbox.supervisor.seed import receive
from kagura_kernel.sandbox.supervisor.stage import SENT

_PROGRAMS = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_PIECE = 1 << 18
_ANSWER_SECONDS = 40.0
_TREE_SILENCE = 300.0
_PIPE_BYTES = 2**19


class _Over(Exception):
    """The host, or the supervisor, is gone."""


class _Refused(Exception):
    """There can be no box here; the text says why, in half a sentence."""


def main(sent_bytes: int, silence: float) -> NoReturn:
    """Serve one box of a host that may send `sent_bytes` of projects and directories; never returns.

    The host is gone when nothing has come from it for `silence` seconds.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    kernel, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    first = os.fork()
    if first == 0:
        kernel.close()
        # Whoever holds one of these keeps the connection open.
        for descriptor in (0, 1, 2):
            _silence(descriptor)
        with contextlib.suppress(BaseException):
            supervisor.main(door.detach())
        os._exit(0)
    door.close()
    try:
        _Relay(kernel, silence).serve(sent_bytes)
    except _Over:
        pass
    except _Refused as refused:
        _tell({"op": "refused", "why": str(refused)})
    except OSError as error:
        _tell({"op": "refused", "why": f"{error.filename or 'the other machine'}: {error.strerror}"})
    # It frees what it held, and takes ten seconds at most.
    kernel.close()
    os.waitpid(first, 0)
    os._exit(0)


def _tell(message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(2, json.dumps(message).encode("ascii") + b"\n")


def _silence(descriptor: int) -> None:
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def _facts() -> dict[str, Any]:
    """What the host must know of this machine."""
    program = shutil.which("bwrap", path=_PROGRAMS)
    if program is None:
        raise _Refused("bubblewrap is not installed there")
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        raise _Refused(f"its Linux is too old ({os.uname().release}; 5.3 or newer is needed)") from error
    view = current_view()
    return {
        "view": asdict(view),
        "bwrap": program,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "machine": asdict(read_facts()),
        "magic": MAGIC_NUMBER.hex(),
        "place": SENT,
    }


class _Relay:
    """The way between the host, the supervisor and the guest."""

    def __init__(self, kernel: socket.socket, silence: float) -> None:
        self._kernel = kernel
        self._silence = silence
        self._trees = -1  # The supervisor's folder for what is sent

    def serve(self, sent_bytes: int) -> None:
        """Until the box is gone, or the host."""
        facts = _facts()
        setup = PythonView(**facts["view"]).as_setup(*NAMES)
        self._kernel.send(json.dumps({"op": "setup", "python": setup, "sent_bytes": sent_bytes}).encode())
        answer = self._answer()
        if answer["op"] != "ready":
            raise _Refused(answer["why"])
        _tell(facts | {"op": "ready", "uncounted": answer["uncounted"]})
        while True:
            message = json.loads(self._block())
            if message["op"] == "tree":
                self._unpack(message["number"])
            elif message["op"] == "start":
                self._carry(self._start(message["job"]))
                return

    # -------------------------------------------------------------- the host

    def _take(self, count: int) -> bytes:
        """The next bytes from the host, not one more."""
        parts = []
        while count:
            if not select.select([0], [], [], self._silence)[0]:
                raise _Over
            part = os.read(0, min(count, _PIECE))
            if not part:
                raise _Over
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _block(self) -> bytes:
        return self._take(int.from_bytes(self._take(4), "big"))

    def _blocks(self) -> Iterator[bytes]:
        """What follows a `tree`, to its end."""
        while block := self._block():
            yield block

    def _unpack(self, number: int) -> None:
        root = Path(f"/proc/self/fd/{self._trees}/{number}")
        # In the box, and in the supervisor's own space, everybody may look into it.
        os.umask(0o022)
        root.mkdir()
        # A project may lie where reading it takes its time.
        patience, self._silence = self._silence, max(self._silence, _TREE_SILENCE)
        blocks = self._blocks()
        work = unpack(bytes(root), {}, ())
        wanted = next(work, None)
        why = ""
        try:
            while True:
                wanted = work.send(next(blocks, b"") if wanted is INPUT else None)
        except StopIteration:
            pass
        except OSError as error:
            why = error.strerror or str(error)
        for _ in blocks:
            pass
        self._silence = patience
        _tell({"op": "unpacked", "number": number, "why": why})

    # -------------------------------------------------------- the supervisor

    def _answer(self) -> dict[str, Any]:
        """What the supervisor says next; the host's end is noticed meanwhile."""
        watch = select.poll()
        watch.register(self._kernel, select.POLLIN)
        watch.register(0, 0)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            found = {descriptor for descriptor, _ in watch.poll(1000)}
            if self._kernel.fileno() in found:
                return self._heard()
            if 0 in found:
                raise _Over
        raise _Refused("the supervisor of boxes does not answer there")

    def _heard(self) -> dict[str, Any]:
        data, descriptors = receive(self._kernel, 1)
        if not data:
            raise _Refused("the supervisor of boxes ended there")
        for descriptor in descriptors:
            self._trees = descriptor
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _start(self, job: Mapping[str, Any]) -> int:
        """Have the box started; where its guest reads."""
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(ours, False)
        socket.send_fds(self._kernel, [json.dumps({"op": "start", **job}).encode()], [theirs, 1])
        os.close(theirs)
        # From now on standard output ends with the guest.
        _silence(1)
        answer = self._answer()
        _tell(answer)
        if answer["op"] != "started":
            raise _Over
        return ours

    # ------------------------------------------------------------- the guest

    def _carry(self, guest: int) -> None:
        """Pass on what the host sends, until one of the two, or the connection, is gone."""
        waiting = memoryview(b"")
        heard = time.monotonic()
        watch = select.poll()
        watch.register(self._kernel, select.POLLIN)
        while (left := heard + self._silence - time.monotonic()) > 0:
            # A guest that takes nothing must not hide that the host is gone.
            watch.register(0, 0 if waiting else select.POLLIN)
            if waiting:
                watch.register(guest, select.POLLOUT)
            found = dict(watch.poll(left * 1000))
            if waiting:
                watch.unregister(guest)
            if self._kernel.fileno() in found:
                _tell(self._heard())
                return
            if 0 in found and not waiting:
                data = os.read(0, _PIECE)
                if not data:
                    return
                waiting, heard = memoryview(data), time.monotonic()
            elif 0 in found:
                return
            if waiting:
                waiting = _pass_on(guest, waiting)


def _pass_on(guest: int, data: memoryview) -> memoryview:
    """What of it the guest does not take now; nothing where it is gone, of which the supervisor tells."""
    try:
        return data[os.write(guest, data) :]
    except BlockingIOError:
        return data
    except OSError:
        return data[:0]
