"""The keeper of one gVisor box that runs without Docker: makes its root, starts runsc, ends with the kernel.

Everything that belongs to the box (mounts, runsc's own state, its processes) lives in a mount namespace and a process
namespace of the keeper's own. runsc is process 1 there: when it goes, the system ends whatever it had started, and
when nobody is left the mounts are gone too. So there is nothing on the host to clear up, however the kernel, the keeper
or runsc ended; only an empty control group may stay, which the next keeper removes.

The keeper's standard input, output and error are those of the guest. Its one further descriptor is a socket to the
kernel: a JSON job comes first, `started` or `failed` goes back, `enter` (with a process's own streams) starts a second
process in the box, `gone` is the last word. When the socket ends the box is killed.

Standard library only.

Where the parts of a gVisor box without Docker lie in the private mounts of its keeper.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from kagura_kernel.sandbox.supervisor import cgroups, linux
from kagura_kernel.sandbox.supervisor.etc import BOX_UID, write_etc
from kagura_kernel.sandbox.supervisor.showing import NotShown, show_directory

STAGE = "/sys/kernel"
"""A directory that every Linux has and in which no project lies: hidden by a tmpfs of the keeper's own."""

ROOT, STATE, BUNDLE = f"{STAGE}/root", f"{STAGE}/state", f"{STAGE}/bundle"
ETC, EMPTY, HOLLOW = f"{STAGE}/etc", f"{STAGE}/empty", f"{STAGE}/hollow"
"""What becomes /etc, and the empty file and directory that cover what a box must not see."""

_PLAIN = linux.MS_NOSUID | linux.MS_NODEV
_CLONE_NEWNET = 0x40000000
_OOM_SCORE = 500
_CONTAINER = "box"
_MESSAGE = 1 << 20
_LEAVING = 10.0
_RETRY = 0.02


class _Refused(Exception):
    """No box can be made; `part` names what of it could not."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part
        self.why = why


class Keeper:
    """One box, from its job to its end."""

    def __init__(self, kernel: socket.socket) -> None:
        self._kernel = kernel
        self._root = os.geteuid() == 0
        self._group = cgroups.Group()
        self._pid = 0
        self._others: dict[int, int] = {}

    def run(self) -> None:
        """Start the box, serve the kernel, and leave nothing."""
        # A kernel that is killed closes the socket; one whose descriptors were inherited does not.
        try:
            life = os.pidfd_open(os.getppid())
        except ProcessLookupError:
            return
        data, descriptors = self._receive()
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            return
        job = json.loads(data)
        try:
            notes = self._start(job)
        except OSError as error:
            why = f"{error.filename or 'the system'}: {error.strerror}"
            self._fail("box", why)
            return
        except _Refused as refused:
            self._fail(refused.part, refused.why)
            return
        self._tell({"op": "started", "notes": notes})
        status = self._serve(job, life)
        out_of_memory = self._group.out_of_memory()
        self._leave()
        self._tell({"op": "gone", "status": status, "out_of_memory": out_of_memory})

    def _fail(self, part: str, why: str) -> None:
        self._tell({"op": "failed", "part": part, "why": why})
        self._leave()

    # -------------------------------------------------------------- starting

    def _start(self, job: Mapping[str, Any]) -> list[str]:
        missing = self._count(job)
        identity = os.geteuid(), os.getegid()
        # A network space too: runsc's own control socket has a name that all of a network space may call.
        own = linux.CLONE_NEWNS | linux.CLONE_NEWPID | _CLONE_NEWNET
        linux.unshare(own if self._root else own | linux.CLONE_NEWUSER)
        if not self._root:
            # runsc must be root of something: of a user namespace in which there is nobody else.
            linux.map_identity(*identity, 0)
        ready_out, ready_in = os.pipe2(os.O_CLOEXEC)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(ready_out)
            self._become(job, ready_in)
        os.close(ready_in)
        # Nothing of the pipe may stay here, or its other ends would never see it close.
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in range(3):
            os.dup2(null, number)
        os.close(null)
        with open(ready_out, "rb") as ready:
            refusal = ready.read().decode("utf-8", "replace")
        if refusal:
            os.waitpid(self._pid, 0)
            self._pid = 0
            raise _Refused(*refusal.split("\n", 1))
        return missing

    def _count(self, job: Mapping[str, Any]) -> list[str]:
        """Make the box's control group; what the system cannot count."""
        with open("/proc/self/mounts", encoding="utf-8") as mounts, open("/proc/self/cgroup", encoding="utf-8") as own:
            tree = cgroups.find_tree(mounts.read(), own.read())
        cgroups.sweep(tree)
        group = cgroups.Group()
        try:
            group = cgroups.make_group(tree, f"kagura-{os.getpid()}-1")
            limits = {key: job[key] for key in ("memory_bytes", "processes", "cpus")}
            cgroups.set_limits(tree, group, **limits)
            _try_to_enter(group)
        except OSError:
            group.remove()
            return list(cgroups.Tree().missing)
        self._group = group
        return list(tree.missing)

    def _become(self, job: Mapping[str, Any], ready: int) -> NoReturn:
        """In the child, process 1 of its own space: build everything, then be runsc."""
        part = "box"
        try:
            linux.die_with_parent()
            self._group.enter()
            # Mounts that the host makes later still arrive here; ours never leave.
            linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
            with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as score:
                if int(score.read()) < _OOM_SCORE:
                    score.write(str(_OOM_SCORE))
            linux.mount("proc", "/proc", "proc", _PLAIN)
            lay_out(job, root=self._root)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            words = [*job["runsc"], "--root", STATE, "run", "--bundle", BUNDLE, _CONTAINER]
            os.execve(words[0], words, _ENVIRONMENT)  # noqa: S606 - the kernel chose the program; no shell is wanted
        except NotShown as error:
            part, why = "shown", str(error)
        except OSError as error:
            why = f"a gVisor box cannot be made: {error.filename or 'the box'}: {error.strerror}"
        # Whatever it was, this process must not go on as a second keeper.
        except BaseException as error:  # noqa: BLE001
            why = repr(error)
        with contextlib.suppress(OSError):
            os.write(ready, f"{part}\n{why}".encode())
        os._exit(70)

    # --------------------------------------------------------------- serving

    def _serve(self, job: Mapping[str, Any], life: int) -> int:
        """Do as the kernel says until runsc ends, which it does when the kernel is gone; its exit status."""
        runsc = os.pidfd_open(self._pid)
        poller = select.poll()
        for descriptor in (self._kernel.fileno(), life, runsc):
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if runsc in ready:
                break
            if life in ready or (self._kernel.fileno() in ready and not self._obey(job, poller)):
                os.kill(self._pid, signal.SIGKILL)
                break
            for entered in ready & self._others.keys():
                poller.unregister(entered)
                os.waitpid(self._others.pop(entered), 0)
                os.close(entered)
        # Process 1 of a space ends only when everybody in it is reaped, and whoever entered is a child of this process.
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._pid:
                return os.waitstatus_to_exitcode(status)

    def _obey(self, job: Mapping[str, Any], poller: select.poll) -> bool:
        """Take one message; whether the box shall go on."""
        data, descriptors = self._receive()
        try:
            if not data:
                return False
            message = json.loads(data)
            if message["op"] == "enter" and len(descriptors) == 2:  # noqa: PLR2004 - its input and output
                pid = _enter(job, message, descriptors)
                entered = os.pidfd_open(pid)
                self._others[entered] = pid
                poller.register(entered, select.POLLIN)
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _leave(self) -> None:
        """Remove the group as soon as its last process is gone."""
        deadline = time.monotonic() + _LEAVING
        while not self._group.remove() and time.monotonic() < deadline:
            time.sleep(_RETRY)

    # -------------------------------------------------------------- messages

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._kernel, _MESSAGE, 4)
        except OSError:
            return b"", []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function's only flag
        return data, descriptors

    def _tell(self, message: Mapping[str, Any]) -> None:
        # A kernel that is gone is noticed where the socket is read.
        with contextlib.suppress(OSError):
            self._kernel.send(json.dumps(message).encode())


def _try_to_enter(group: cgroups.Group) -> None:
    """Find out whether a process may be moved into a group of ours: delegation has many forms.

    Raises:
        OSError: it may not.
    """
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            group.enter()
            os._exit(0)
        os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise OSError(errno.EPERM, "no process may enter")


_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def lay_out(job: Mapping[str, Any], *, root: bool) -> None:
    """Make the box's root and its bundle below `STAGE`, from the steps of the job; `root` says whether that is us.

    Raises:
        OSError: something cannot be mounted or written.
        NotShown: a further directory of the host cannot be shown.
    """
    linux.mount("tmpfs", STAGE, "tmpfs", _PLAIN, "size=32m,mode=700")
    os.umask(0o022)
    for path in (ROOT, STATE, BUNDLE, ETC, HOLLOW):
        os.mkdir(path)
    open(EMPTY, "x").close()
    os.chmod(STATE, 0o700)
    write_etc(ETC)
    for step, source, target in job["steps"]:
        if step == "further":
            _further(source, f"{ROOT}{target}", root=root)
        else:
            _STEPS[step](source, f"{ROOT}{target}")
    descriptor = os.open(f"{BUNDLE}/config.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(job["bundle"], file)


def _show(source: str, place: str) -> None:
    """Bind a file or a directory; below, everything is read-only because the box's root is."""
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    elif not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        open(place, "x").close()
    linux.mount(source, place, flags=linux.MS_BIND | linux.MS_REC)


def _link(source: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.symlink(source, place)


def _folder(_source: str, place: str) -> None:
    os.makedirs(place, exist_ok=True)


def _further(source: str, place: str, *, root: bool) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    # Only root may show its owner's files as the box's own; for anybody else, and where a file system cannot, they
    # are read as far as everybody may read them.
    show_directory(source, place, BOX_UID if root else None, [])


_STEPS = {"show": _show, "link": _link, "folder": _folder}


def _enter(job: Mapping[str, Any], message: Mapping[str, Any], streams: list[int]) -> int:
    """Start a second process in the box as its root, with these streams; the process that waits for it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            linux.die_with_parent()
            for target, descriptor in enumerate(streams):
                os.dup2(descriptor, target)
            # `runsc exec` takes what the bundle does not say from its own options only.
            words = [*job["runsc"], "--root", STATE, "exec", "--user", "0:0", "--cwd", "/", _CONTAINER]
            os.execve(words[0], [*words, *message["argv"]], _ENVIRONMENT)  # noqa: S606 - as above
        os._exit(70)
    return pid


def main(descriptor: int) -> None:
    """Keep one box for the kernel at the other end of this socket."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function's only flag
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as kernel:
        Keeper(kernel).run()
