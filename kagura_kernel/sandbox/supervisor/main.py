"""The supervisor: a small process that starts boxes for one kernel, and ends them when the kernel is gone.

A kernel is large and full of threads; forking it is slow and unsafe, and what it holds dies with it only if somebody
sees to it. The supervisor has one thread, nothing but the standard library, and one tie to the kernel: a socket that
carries JSON messages and file descriptors. When that socket ends, however the kernel ended, every box is killed
and everything they held is removed. Should the supervisor itself be killed, the system kills its boxes.

Messages from the kernel: `setup` (once; with `sent_bytes` the answer brings a folder to write into), `start` and, for
gVisor, `enter` (with a process's input and output), `kill`. Messages to it: `ready` or `refused`; `started` or
`failed`; `gone` (with exit status, memory verdict, last words).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kagura_kernel.sandbox.supervisor import cgroups, gvisor, linux, stage
from kagura_kernel.sandbox.supervisor.etc import BOX_UID
from kagura_kernel.sandbox.supervisor.python_layer import Surveys
from kagura_kernel.sandbox.supervisor.seccomp import filter_program
from kagura_kernel.sandbox.supervisor.seed import Ground, Seed, plant, receive

_LAST_WORDS = 4096
# A guest has nothing to say on its standard error; one that talks on is not listened to.
_STDERR_LIMIT = 1 << 20
_RETRY = 0.02
_PATIENCE = 30
# A seed is made once boxes have had their start, not while they compete for the processor.
_CALM = 0.1


@dataclass(slots=True)
class _Held:
    """One box as the supervisor knows it."""

    name: str
    pid: int
    group: cgroups.Group
    stderr: int
    words: bytes = b""
    heard: int = 0
    status: int | None = None
    killed: bool = False


@dataclass(slots=True)
class Supervisor:
    """The supervisor's state and its loop; `run` returns when the kernel is gone and everything is freed."""

    kernel: socket.socket
    kernel_life: int  # readable when the kernel's process ends
    number: int  # by which the host knows this process
    namespace: int  # in which it is known by that number
    root: bool  # whether it may take on any identity
    ranged: bool = False  # whether it is an ordinary user's whose boxes have users of their own
    gvisor: bool = False  # whether boxes are gVisor's, which show no files as somebody else's
    refusal: str = ""  # why no box can be made here
    boxes: dict[str, _Held] = field(default_factory=dict)
    tree: cgroups.Tree = field(default_factory=cgroups.Tree)
    python: dict[str, Any] = field(default_factory=dict)
    surveys: Surveys = field(default_factory=Surveys)
    seeds: dict[tuple[int, int] | None, Seed] = field(default_factory=dict)  # by whose files they will show
    groups: list[cgroups.Group] = field(default_factory=list)  # of seeds that were not wanted
    next_owner: tuple[int, int] | None = None  # whose files the next box will most likely show
    plant_at: float | None = None
    planted: int = 0
    poller: select.poll = field(default_factory=select.poll)
    handlers: dict[int, Callable[[], object]] = field(default_factory=dict)
    alive: bool = True

    @property
    def mapped(self) -> bool:
        """Whether boxes show files of others as their own."""
        return self.root and not self.gvisor

    def run(self) -> None:
        """Serve until the kernel is gone."""
        self._listen(self.kernel.fileno(), self._read_message)
        self._listen(self.kernel_life, self._end)
        wake_out, wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._listen(wake_out, lambda: os.read(wake_out, 512))
        while self.alive:
            self._step()
        for held in self.boxes.values():
            self._kill(held)
        for seed in self.seeds.values():
            self._uproot(seed)
        deadline = time.monotonic() + 10
        while (self.boxes or self.groups) and time.monotonic() < deadline:
            self._step()

    def _step(self) -> None:
        """Handle what has happened; wait for it only as long as nothing else is due."""
        leaving = any(held.status is not None or held.killed for held in self.boxes.values())
        waits = [_RETRY] if leaving or self.groups else []
        if self.plant_at is not None and self.alive:
            waits.append(max(0.0, self.plant_at - time.monotonic()))
        events = self.poller.poll(min(waits) * 1000 if waits else None)
        for descriptor, _ in events:
            handler = self.handlers.get(descriptor)
            if handler is not None:
                handler()
        self._reap()
        self.groups = [group for group in self.groups if not group.remove()]
        if self.alive and self.plant_at is not None and time.monotonic() >= self.plant_at:
            self._plant_ahead()

    def _listen(self, descriptor: int, handler: Callable[[], object]) -> None:
        self.handlers[descriptor] = handler
        self.poller.register(descriptor, select.POLLIN)

    def _ignore(self, descriptor: int) -> None:
        if self.handlers.pop(descriptor, None) is not None:
            self.poller.unregister(descriptor)

    def _end(self) -> None:
        self.alive = False

    # ------------------------------------------------------------- messages

    def _read_message(self) -> None:
        try:
            data, descriptors = receive(self.kernel, 4)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            if not data:
                self._ignore(self.kernel.fileno())
                self._end()
                return
            message = json.loads(data)
            match message["op"]:
                case "setup":
                    self._set_up(message)
                case "start":
                    self._start(message, descriptors)
                case "enter" if message["id"] in self.boxes and len(descriptors) == 2:  # noqa: PLR2004 - in and out
                    with contextlib.suppress(OSError):
                        first = self.boxes[message["id"]].pid
                        gvisor.enter(first, message["words"], descriptors, root=self.root)
                case "kill" if message["id"] in self.boxes:
                    self._kill(self.boxes[message["id"]])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _tell(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        data = [json.dumps(message).encode()]
        # A kernel that is gone is noticed where the socket is read.
        with contextlib.suppress(OSError):
            try:
                socket.send_fds(self.kernel, data, descriptors)
            except BlockingIOError:
                room = select.poll()
                room.register(self.kernel, select.POLLOUT)
                room.poll(_PATIENCE * 1000)
                socket.send_fds(self.kernel, data, descriptors)

    def _set_up(self, message: dict[str, Any]) -> None:
        self.python = message["python"]
        try:
            if not self.gvisor:
                filter_program()
            with (
                open("/proc/self/mounts", encoding="utf-8") as mounts,
                open("/proc/self/cgroup", encoding="utf-8") as own,
            ):
                self.tree = cgroups.find_tree(mounts.read(), own.read())
            cgroups.sweep(self.tree, self.namespace)
            if not self.mapped and not self._can_enter():
                self.tree = cgroups.Tree()
            if not self.refusal and not self.gvisor:
                stage.lay_out(self.python, message.get("sent_bytes", 0))
        except KeyError as error:
            self.refusal = f"there is no system call filter for {error.args[0]}"
        except OSError as error:
            self.refusal = str(error)
        if self.refusal:
            self._tell({"op": "refused", "why": self.refusal})
        else:
            gc.freeze()
            self._tell_ready(sent="sent_bytes" in message)
            if self.mapped:
                self.surveys.begin(self.python["layered"])
            self.next_owner = (0, 0) if self.mapped else None
            self._plant_soon()

    def _tell_ready(self, *, sent: bool) -> None:
        """Say so, with a descriptor of the folder for what is sent: whoever has it can write there from outside."""
        folder = [os.open(stage.SENT, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)] if sent else []
        self._tell({"op": "ready", "uncounted": self.tree.missing}, folder)
        for descriptor in folder:
            os.close(descriptor)

    def _plant_soon(self) -> None:
        # What a seed saves is nothing beside the start of gVisor's own kernel.
        self.plant_at = None if self.gvisor else time.monotonic() + _CALM

    def _can_enter(self) -> bool:
        """Whether a process of ours may be moved into a group of ours; tried out, because delegation has many forms."""
        if not self.tree.homes:
            return False
        try:
            group = cgroups.make_group(self.tree, cgroups.group_name(self.namespace, self.number, 0))
        except OSError:
            return False
        if self.gvisor and not self._can_limit(group):
            group.remove()
            return False
        pid = os.fork()
        if pid == 0:
            try:
                group.enter()
            except OSError:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        return group.remove() and status == 0

    def _can_limit(self, group: cgroups.Group) -> bool:
        # gVisor's kernel limits its box by itself: one that the system does not limit as well is told, not refused.
        try:
            cgroups.set_limits(self.tree, group, memory_bytes=2**30, processes=1000, cpus=1.0)
        except OSError:
            return False
        return True

    # ------------------------------------------------------------- starting

    def _start(self, message: dict[str, Any], streams: list[int]) -> None:
        name, owner = message["id"], self._owner(message)
        stderr_out, stderr_in = self._pair()
        os.set_blocking(stderr_out, False)
        seed = None
        try:
            seed = self.seeds.pop(owner, None) or self._plant(owner)
            limits = {key: message[key] for key in ("memory_bytes", "processes", "cpus")}
            cgroups.set_limits(self.tree, seed.group, **limits)
            seed.become(message, [*streams[:2], stderr_in])
        except OSError as error:
            os.close(stderr_out)
            if seed is not None:
                self._uproot(seed)
            why = f"{error.filename or 'a limit of the system'}: {error.strerror}"
            self._tell({"op": "failed", "id": name, "part": "limits", "why": why})
            return
        finally:
            os.close(stderr_in)
        held = self.boxes[name] = _Held(name, seed.pid, seed.group, stderr_out)
        self._listen(stderr_out, lambda: self._hear(held))
        self.next_owner = owner
        self._plant_soon()

    def _pair(self) -> tuple[int, int]:
        """The two ends of a guest's standard error; in gVisor a command could open a pipe, and no socket."""
        if not self.gvisor:
            return os.pipe2(os.O_CLOEXEC)
        ours, theirs = socket.socketpair()
        return ours.detach(), theirs.detach()

    def _owner(self, message: dict[str, Any]) -> tuple[int, int] | None:
        """Whose files the box must show as its own; None when there is no choice."""
        if not self.mapped:
            return None
        if message["workspace"] is not None:
            with contextlib.suppress(OSError):
                status = os.stat(message["workspace"])
                return status.st_uid, status.st_gid
        return next(iter(self.seeds), (0, 0))

    def _plant(self, owner: tuple[int, int] | None) -> Seed:
        self.planted += 1
        group = cgroups.make_group(self.tree, cgroups.group_name(self.namespace, self.number, self.planted))
        ground = Ground(
            self.python,
            self._tell,
            self._leave,
            counted="memory" in self.tree.homes,
            ranged=self.ranged,
            root=self.root,
            gvisor=self.gvisor,
        )
        try:
            return plant(ground, group, owner, self.surveys.latest)
        except OSError:
            group.remove()
            raise

    def _leave(self) -> None:
        """Close, in a new seed, where it hears other boxes: one that is cut off must meet a closed pipe."""
        for held in self.boxes.values():
            if held.stderr >= 0:
                os.close(held.stderr)

    def _plant_ahead(self) -> None:
        """Have a seed for the next box, once nothing else is going on."""
        self.plant_at = None
        self.surveys.tend()
        for owner in [owner for owner in self.seeds if owner != self.next_owner]:
            self._uproot(self.seeds.pop(owner))
        if self.next_owner not in self.seeds:
            # Without one the next start says what is wrong.
            with contextlib.suppress(OSError):
                self.seeds[self.next_owner] = self._plant(self.next_owner)

    def _uproot(self, seed: Seed) -> None:
        """End a seed that is not wanted."""
        seed.door.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(seed.pid, signal.SIGKILL)
        self.groups.append(seed.group)

    # --------------------------------------------------------------- ending

    def _hear(self, held: _Held) -> None:
        try:
            data = os.read(held.stderr, 1 << 16)
        except BlockingIOError:
            return
        held.words = (held.words + data)[-_LAST_WORDS:]
        held.heard += len(data)
        if not data or held.heard > _STDERR_LIMIT:
            self._ignore(held.stderr)
            os.close(held.stderr)
            held.stderr = -1

    def _kill(self, held: _Held) -> None:
        """Kill bubblewrap's monitor; as the first process of a space of its own it takes the whole box along."""
        held.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(held.pid, signal.SIGKILL)

    def _reap(self) -> None:
        by_pid = {held.pid: held for held in self.boxes.values()}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in by_pid:
                    by_pid[pid].status = os.waitstatus_to_exitcode(status)
        for held in list(self.boxes.values()):
            if held.status is not None:
                self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        """Tell the kernel that a box is gone, once nothing of it is left."""
        out_of_memory = held.group.out_of_memory()
        if not held.group.remove():
            return
        if held.stderr >= 0:
            self._hear(held)
        if held.stderr >= 0:
            self._ignore(held.stderr)
            os.close(held.stderr)
        del self.boxes[held.name]
        words = held.words.decode("utf-8", "replace")
        self._tell(
            {"op": "gone", "id": held.name, "status": held.status, "out_of_memory": out_of_memory, "words": words}
        )


def main(descriptor: int, words: Sequence[str] = ()) -> None:
    """Be the supervisor of the kernel at the other end of this socket; `words` may hold its options, as JSON.

    The supervisor proper is process 1 of a space of its own, so that nothing it started can outlive it; this process
    only waits for its end.
    """
    gc.disable()
    # It came through an exec; the next ones must not pass it on.
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function's only flag
    with socket.socket(fileno=descriptor) as kernel:
        kernel.setblocking(False)  # noqa: FBT003 - the method's only argument
        try:
            life = os.pidfd_open(os.getppid())
        except ProcessLookupError:
            return
        options = json.loads(words[0]) if words else {}
        mapping, boxes_of_gvisor = options.get("mapping", ()), options.get("gvisor", False)
        # gVisor's boxes need no identity that nobody else has: who is root is enough, even of a container.
        root = os.geteuid() == 0 if boxes_of_gvisor else stage.is_real_root()
        # Both are asked for here: below, the supervisor proper is process 1 of a namespace of its own.
        number, namespace = os.getpid(), cgroups.process_namespace()
        supervisor = Supervisor(kernel, life, number, namespace, root, ranged=bool(mapping), gvisor=boxes_of_gvisor)
        try:
            # runsc must be root of something: of a user namespace in which there is nobody else.
            stage.enter_spaces(root=root, mapping=mapping, inside=0 if boxes_of_gvisor else BOX_UID)
        except stage.StagingError as error:
            supervisor.refusal = error.why
            supervisor.run()
            return
        pid = os.fork()
        if pid == 0:
            linux.die_with_parent()
            supervisor.run()
            os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.waitpid(pid, 0)
