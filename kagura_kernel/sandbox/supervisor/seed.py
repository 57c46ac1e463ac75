"""A seed: a process that is ready to become a box, and waits to be told which one.

What takes long and is the same for every box (forking, joining a control group, an identity of its own) is done ahead
of time, so that a start pays for its own mounts only. A seed runs nothing of the box until it has become one.
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

from kagura_kernel.sandbox.supervisor import cgroups, gvisor, linux, stage
from kagura_kernel.sandbox.supervisor.arguments import bwrap_arguments
from kagura_kernel.sandbox.supervisor.python_layer import Survey
from kagura_kernel.sandbox.supervisor.seccomp import filter_program
from kagura_kernel.sandbox.supervisor.shown_paths import NotShown

_MESSAGE = 1 << 18
_OOM_SCORE = 500

Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Seed:
    """A waiting process, as its supervisor knows it."""

    pid: int
    door: socket.socket  # where its job is sent
    group: cgroups.Group

    def become(self, job: Mapping[str, Any], streams: list[int]) -> None:
        """Tell it which box to become; it answers to the kernel by itself. Raises `OSError` when it is gone."""
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


@dataclass(frozen=True, slots=True)
class Ground:
    """What all seeds of one supervisor have in common."""

    python: Mapping[str, Any]
    tell: Tell  # how a seed answers to the kernel
    leave: Callable[[], None]  # closes, in a seed, what the supervisor hears other boxes by
    counted: bool  # whether the group counts memory; otherwise each process is limited
    ranged: bool  # whether boxes have users of their own though this is not root
    root: bool  # whether this is root
    gvisor: bool  # whether boxes are gVisor's


def plant(ground: Ground, group: cgroups.Group, owner: tuple[int, int] | None, survey: Survey | None) -> Seed:
    """Fork a seed that joins `group`; its box will show the files of `owner` as its own; None where it is who we are.

    Raises `OSError` when there can be no further process.
    """
    identity = None if owner is None else stage.new_identity(owner, ground.python["layered"])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pid = linux.fork_as_first()
        if pid == 0:
            ours.close()
            _wait_and_become(theirs, ground, group, identity, survey)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
        if identity is not None:
            identity.close()
    return Seed(pid, ours, group)


@dataclass(frozen=True, slots=True)
class _Program:
    """What a seed becomes at last."""

    path: str
    words: list[str]
    environment: Mapping[str, str]
    notes: list[str]


def _wait_and_become(
    door: socket.socket,
    ground: Ground,
    group: cgroups.Group,
    identity: stage.Identity | None,
    survey: Survey | None,
) -> NoReturn:
    name, part, why = "", "box", ""
    try:
        linux.die_with_parent()
        ground.leave()
        owner, refused = _get_ready(ground, group, identity)
        data, streams = receive(door, 3)
        if not data:
            os._exit(0)
        job = json.loads(data)
        name = job["id"]
        if refused is not None:
            raise refused  # noqa: TRY301 - told below
        _give_way()
        program = _runsc(job, ground) if ground.gvisor else _bubblewrap(job, ground, identity, owner, survey)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        # Changing the identity has made the system forget it.
        linux.die_with_parent()
        # Who started us may have left some ignored, as `nohup` does.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if not os.access(program.path, os.X_OK):
            raise PermissionError(errno.EACCES, "this program cannot be started", program.path)  # noqa: TRY301 - told below
        ground.tell({"op": "started", "id": name, "notes": program.notes})
        # The kernel chose the program; no shell is wanted.
        os.execve(program.path, program.words, program.environment)  # noqa: S606
    except stage.StagingError as error:
        part, why = error.part, error.why
    except NotShown as error:
        part, why = "shown", str(error)
    except OSError as error:
        why = f"{error.filename or 'the box'}: {error.strerror}"
    # Whatever it was, this process must not go on as a second supervisor.
    except BaseException as error:  # noqa: BLE001
        why = repr(error)
    with contextlib.suppress(BaseException):
        ground.tell({"op": "failed", "id": name, "part": part, "why": why})
    os._exit(70)


def _runsc(job: Mapping[str, Any], ground: Ground) -> _Program:
    words = gvisor.build_box(job, root=ground.root)
    return _Program(words[0], words, gvisor.ENVIRONMENT, [])


def _bubblewrap(
    job: Mapping[str, Any],
    ground: Ground,
    identity: stage.Identity | None,
    owner: tuple[int, int],
    survey: Survey | None,
) -> _Program:
    """Make the parts of a bubblewrap box and be who it is; the program that makes its walls of them."""
    users = stage.make_users(identity, ranged=ground.ranged) if job["writable_root"] else None
    staged, notes = stage.build_box(job, ground.python, identity, owner, users, survey)
    filter_fd = _memory_file("filter", filter_program(counted=ground.counted, shares_files=bool(job["shown"])))
    words = bwrap_arguments(staged, job["argv"], seccomp_fd=filter_fd)
    separator = words.index("--")
    words_fd = _memory_file("arguments", "\0".join(words[:separator]).encode() + b"\0")
    _limit(job, counted=ground.counted)
    _change(identity, users)
    return _Program(job["bwrap"], ["bwrap", "--args", str(words_fd), *words[separator:]], {}, notes)


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


def _get_ready(
    ground: Ground, group: cgroups.Group, identity: stage.Identity | None
) -> tuple[tuple[int, int], OSError | None]:
    """The ids that own the box's files; a refusal waits for the job whose failure it is."""
    try:
        group.enter()
        if ground.gvisor:
            gvisor.enter_box(root=ground.root)
            return (0, 0), None
        return stage.enter_box(identity, ranged=ground.ranged), None
    except OSError as error:
        return (0, 0), error


def _memory_file(name: str, data: bytes) -> int:
    descriptor = os.memfd_create(name, 0)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _give_way() -> None:
    """When the machine itself runs out of memory, boxes go before anything of the host.

    Before the identity changes, which closes /proc/self.
    """
    with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as score:
        if int(score.read()) < _OOM_SCORE:
            score.write(str(_OOM_SCORE))


def _limit(job: Mapping[str, Any], *, counted: bool) -> None:
    """Limits of each process, beside those of the group."""
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
