"""What one gVisor box without Docker does in the supervisor's child that becomes it: makes its root, then is runsc.

Everything that belongs to the box (mounts, runsc's own state, its processes) lives in namespaces of the child's own.
runsc is process 1 there: when it goes, the system ends whatever it had started, and when nobody is left the mounts are
gone too. So there is nothing on the host to clear up, however the kernel, the supervisor or runsc ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.sandbox.supervisor import linux
from kagura_kernel.sandbox.supervisor.etc import BOX_UID, write_etc
from kagura_kernel.sandbox.supervisor.shown_paths import show_directory

STAGE = "/sys/kernel"
"""A directory that every Linux has and in which no project lies: hidden by a tmpfs of the box's own."""

ROOT, STATE, BUNDLE = f"{STAGE}/root", f"{STAGE}/state", f"{STAGE}/bundle"
ETC, EMPTY, HOLLOW = f"{STAGE}/etc", f"{STAGE}/empty", f"{STAGE}/hollow"
"""What becomes /etc, and the empty file and directory that cover what a box must not see."""

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_PLAIN = linux.MS_NOSUID | linux.MS_NODEV
_CONTAINER = "box"


def enter_box(*, root: bool) -> None:
    """Move this process, the first of its own space, into the mounts, the network and the users of one box.

    Unless `root`, an ordinary user's box has a user namespace of its own, in which there is nobody else.

    Raises:
        OSError: the system refused.
    """
    linux.unshare(linux.CLONE_NEWNS)
    # Mounts that the host makes later still arrive here; ours never leave.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    # Only who made the space of processes may mount its /proc: before there are further users.
    linux.mount("proc", "/proc", "proc", _PLAIN)
    identity = os.geteuid(), os.getegid()
    linux.unshare(_spaces(root=root) & ~linux.CLONE_NEWPID)
    if not root:
        linux.map_identity(*identity, 0)


def _spaces(*, root: bool) -> int:
    # A network space too: runsc's own control socket has a name that all of a network space may call.
    own = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWPID
    return own if root else own | linux.CLONE_NEWUSER


def enter_words(runsc: Sequence[str], argv: Sequence[str]) -> list[str]:
    """The command line that runs a second process in a box, as its root."""
    # `runsc exec` takes what the bundle does not say from its own options only.
    return [*runsc, "--root", STATE, "exec", "--user", "0:0", "--cwd", "/", _CONTAINER, *argv]


def enter(first: int, words: list[str], streams: Sequence[int], *, root: bool) -> None:
    """Run `enter_words` in the namespaces of the box whose first process this is; whoever reaps children reaps it.

    Raises:
        OSError: there can be no further process.
    """
    if os.fork():
        return
    with contextlib.suppress(BaseException):
        linux.die_with_parent()
        linux.enter_spaces_of(first, _spaces(root=root))
        # Only a child is in the space of processes. The box ends when all of them are reaped, so this waits for it.
        pid = os.fork()
        if pid == 0:
            linux.die_with_parent()
            for target, descriptor in enumerate(streams):
                os.dup2(descriptor, target)
            os.execve(words[0], words, ENVIRONMENT)  # noqa: S606 - the kernel chose the program; no shell is wanted
        for descriptor in streams:
            os.close(descriptor)
        os.waitpid(pid, 0)
    os._exit(70)


def build_box(job: Mapping[str, Any], *, root: bool) -> list[str]:
    """Make the box's root and its bundle below `STAGE`; the command line that runs it. `root` says who we are.

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
        _make(step, source, f"{ROOT}{target}", root=root)
    descriptor = os.open(f"{BUNDLE}/config.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(job["bundle"], file)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return [*job["runsc"], "--root", STATE, "run", "--bundle", BUNDLE, _CONTAINER]


def _make(step: str, source: str, place: str, *, root: bool) -> None:
    is_folder = step == "folder" or (step == "show" and os.path.isdir(source))
    os.makedirs(place if is_folder else os.path.dirname(place), exist_ok=True)
    match step:
        case "show":
            if not is_folder and not os.path.lexists(place):
                open(place, "x").close()
            # Below, everything is read-only because the box's root is.
            linux.mount(source, place, flags=linux.MS_BIND | linux.MS_REC)
        case "link":
            os.symlink(source, place)
        case "further":
            # Only root may show its owner's files as the box's own; for anybody else, and where a file system cannot,
            # they are read as far as everybody may read them.
            show_directory(source, place, BOX_UID if root else None, [])
