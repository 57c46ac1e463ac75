"""A seed: a process that is ready to become a box, and waits to be told which one.

What takes long and is the same for every box (forking, joining a control group, an identity of its own) is done ahead
of time, so that a start pays for its own mounts only. A seed runs nothing of the box until it has become one.

Standard library only. Runs in the keeper's children.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kagura_kernel.sandbox.supervisor import cgroups, linux, stage
from kagura_kernel.sandbox.supervisor.arguments import bwrap_arguments
from kagura_kernel.sandbox.supervisor.python_layer import Survey
from kagura_kernel.sandbox.supervisor.seccomp import filter_program
from kagura_kernel.sandbox.supervisor.showing import NotShown

_MESSAGE = 1 << 17
_OOM_SCORE = 500

Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Seed:
    """A waiting process, as its keeper knows it.

    Attributes:
        pid: The process.
        door: Where its job is sent.
        group: The control group it is in.
    """

    pid: int
    door: socket.socket
    group: cgroups.Group

    def become(self, job: Mapping[str, Any], streams: list[int]) -> None:
        """Tell it which box to become; it answers to the kernel by itself.

        Raises:
            OSError: it is gone.
        """
        socket.send_fds(self.door, [json.dumps(job).encode()], streams)
        self.door.close()


def receive(door: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """One message and its descriptors, at most `most`, none of which an exec passes on; no bytes mean the end.

    Raises:
        OSError: there is none now, or the other end is gone.
    """
    descriptors = array("i")
    room = socket.CMSG_LEN(most * descriptors.itemsize)
    # `socket.recv_fds` takes flags and forgets them.
    data, ancillary, _, _ = door.recvmsg(_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return data, list(descriptors)


def plant(
    group: cgroups.Group,
    python: Mapping[str, Any],
    owner: tuple[int, int] | None,
    *,
    tell: Tell,
    counted: bool,
    ranged: bool = False,
    survey: Survey | None = None,
) -> Seed:
    """Fork a seed.

    Args:
        group: What it joins.
        python: What boxes see of a Python.
        owner: Whose files its box will show as its own; None when this is not root, and the box is who we are.
        tell: How it answers to the kernel.
        counted: Whether the group counts memory; otherwise each process is limited.
        ranged: Whether its box has users of its own though this is not root.
        survey: What of the Python others than its owner may not read.

    Raises:
        OSError: there can be no further process.
    """
    identity = None if owner is None else stage.new_identity(owner, python["layered"])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pid = linux.fork_as_first()
        if pid == 0:
            ours.close()
            _wait_and_become(theirs, _Ground(group, python, identity, ranged, survey), tell, counted)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
        if identity is not None:
            identity.close()
    return Seed(pid, ours, group)


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a seed knows before it is told which box to become."""

    group: cgroups.Group
    python: Mapping[str, Any]
    identity: stage.Identity | None
    ranged: bool
    survey: Survey | None


def _wait_and_become(door: socket.socket, ground: _Ground, tell: Tell, counted: bool) -> NoReturn:
    name, part, why = "", "box", ""
    try:
        linux.die_with_parent()
        owner, refused = _get_ready(ground)
        data, streams = receive(door, 3)
        if not data:
            os._exit(0)
        job = json.loads(data)
        name = job["id"]
        if refused is not None:
            raise refused  # noqa: TRY301 - told below
        users = stage.make_users(ground.identity, ranged=ground.ranged) if job["writable_root"] else None
        staged, notes = stage.build_box(job, ground.python, ground.identity, owner, users, ground.survey)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        program = filter_program(counted=counted, shares_files=bool(job["shown"]))
        filter_fd = _memory_file("filter", program)
        words = bwrap_arguments(staged, job["argv"], seccomp_fd=filter_fd)
        separator = words.index("--")
        words_fd = _memory_file("arguments", "\0".join(words[:separator]).encode() + b"\0")
        _limit(job, counted=counted)
        _change(ground.identity, users)
        # Changing the identity has made the system forget it.
        linux.die_with_parent()
        # Who started us may have left some ignored, as `nohup` does.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if not os.access(job["bwrap"], os.X_OK):
            raise PermissionError(errno.EACCES, "this program cannot be started", job["bwrap"])  # noqa: TRY301 - told below
        tell({"op": "started", "id": name, "notes": notes})
        # The kernel chose the program; no shell is wanted.
        os.execve(job["bwrap"], ["bwrap", "--args", str(words_fd), *words[separator:]], {})  # noqa: S606
    except stage.StagingError as error:
        part, why = error.part, error.why
    except NotShown as error:
        part, why = "shown", str(error)
    except OSError as error:
        why = f"{error.filename or 'the box'}: {error.strerror}"
    # Whatever it was, this process must not go on as a second keeper.
    except BaseException as error:  # noqa: BLE001
        why = repr(error)
    with contextlib.suppress(BaseException):
        tell({"op": "failed", "id": name, "part": part, "why": why})
    os._exit(70)


def _change(identity: stage.Identity | None, users: stage.Users | None) -> None:
    """Be who the box is: the root of its own users, a user that nobody else is, or still who we are."""
    if users is not None and users.space is not None:
        linux.enter_user_space(users.space)
    elif identity is None:
        return
    number = 0 if users is not None or identity is None else identity.uid
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)


def _get_ready(ground: _Ground) -> tuple[tuple[int, int], OSError | None]:
    """The ids that own the box's files; a refusal waits for the job whose failure it is."""
    try:
        ground.group.enter()
        return stage.enter_box(ground.identity, ranged=ground.ranged), None
    except OSError as error:
        return (0, 0), error


def _memory_file(name: str, data: bytes) -> int:
    descriptor = os.memfd_create(name, 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _limit(job: Mapping[str, Any], *, counted: bool) -> None:
    """Limits of each process, beside those of the group; before the identity changes, which closes /proc/self."""
    # When the machine itself runs out of memory, boxes go before anything of the host.
    with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as score:
        if int(score.read()) < _OOM_SCORE:
            score.write(str(_OOM_SCORE))
    wanted = {
        resource.RLIMIT_NPROC: job["processes"],
        resource.RLIMIT_NOFILE: job["open_files"],
        resource.RLIMIT_FSIZE: job["file_bytes"],
        resource.RLIMIT_CORE: 0,
    }
    if not counted:
        wanted[resource.RLIMIT_DATA] = job["memory_bytes"]
    for kind, value in wanted.items():
        _, ceiling = resource.getrlimit(kind)
        fitting = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(kind, (fitting, fitting))
