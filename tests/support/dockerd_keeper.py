"""The process that runs one private Docker daemon and ends it, with everything below it, when nobody needs it any more.

Users of a daemon hold a shared lock on its `users` file; the keeper waits for the exclusive one, which the kernel
grants once the last user let go or was killed. It adopts every orphan of the daemon (container shims outlive it), so
that nothing is left when it is gone. Run as `python -m tests.support.dockerd_keeper HOME DATA [--remap]`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kagura_kernel.sandbox.supervisor import linux

_PR_SET_CHILD_SUBREAPER = 36
_REMAPPED = "kagura-test-remap"
# Below those of bubblewrap boxes, above those of people.
_FIRST_ID = 1_800_000_000


def daemon_commands(home: Path, data: Path) -> tuple[list[str], list[str]]:
    """How containerd and dockerd are started so that they share nothing with a daemon of this machine.

    A containerd of their own, because dockerd would otherwise join the system's; no bridge, no firewall rule, no
    forwarding, no configuration file; all state below `home`, all images below `data`.
    """
    containerd = [
        "containerd",
        *("--config", str(home / "containerd.toml")),
        *("--root", str(data / "containerd")),
        *("--state", str(home / "containerd")),
        *("--address", str(home / "containerd.sock")),
    ]
    dockerd = [
        "dockerd",
        *("--config-file", str(home / "daemon.json")),
        *("--data-root", str(data / "docker")),
        *("--exec-root", str(home / "exec")),
        *("--pidfile", str(home / "dockerd.pid")),
        *("--host", f"unix://{home / 'docker.sock'}"),
        *("--containerd", str(home / "containerd.sock")),
        *("--bridge", "none"),
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--ip-masq=false",
        "--userland-proxy=false",
    ]
    return containerd, dockerd


def daemon_settings(*, remap: bool) -> dict[str, Any]:
    """The daemon's own configuration: gVisor as a further runtime where it is installed, user namespaces if wanted."""
    settings: dict[str, Any] = {"userns-remap": _REMAPPED} if remap else {}
    runsc = shutil.which("runsc", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if runsc is None:
        return settings
    # Of the platforms that gVisor has this one asks for nothing of the machine.
    arguments = ["--platform=ptrace", "--network=none", "--oci-seccomp"]
    return settings | {"runtimes": {"gvisor": {"path": runsc, "runtimeArgs": arguments}}}


def know_remapped(home: Path) -> None:
    """Let this process and its children, and nobody else, find a user whose ids containers may have.

    Raises:
        OSError: the system refuses mounts of our own.
    """
    # Mounts of ours are seen by what this process starts only.
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    number = _FIRST_ID - 1
    lines = {
        "passwd": f"{_REMAPPED}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n",
        "group": f"{_REMAPPED}:x:{number}:\n",
        "subuid": f"{_REMAPPED}:{_FIRST_ID}:65536\n",
        "subgid": f"{_REMAPPED}:{_FIRST_ID}:65536\n",
    }
    for name, line in lines.items():
        place = Path("/etc") / name
        ours = home / name
        ours.write_text(place.read_text() + line)
        linux.mount(str(ours), str(place), flags=linux.MS_BIND)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _descendants(pid: int) -> list[int]:
    found = _children(pid)
    for child in list(found):
        found += _descendants(child)
    return found


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def _end_orphans(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := _descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)


def _unmount_below(home: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)


def keep(home: Path, data: Path, *, remap: bool = False) -> None:
    """Run the daemon until its last user is gone, then leave nothing; with `remap` in user namespaces."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    (home / "containerd.toml").write_text("version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n")
    (home / "daemon.json").write_text(json.dumps(daemon_settings(remap=remap)) + "\n")
    if remap:
        know_remapped(home)
    env = {"PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin", "LANG": "C.UTF-8"}
    with (home / "log").open("wb") as log, (home / "users").open("rb") as users:
        started: list[subprocess.Popen[bytes]] = []
        try:
            for argv in daemon_commands(home, data):
                started.append(  # noqa: PERF401 - a start that fails must not lose the ones before it
                    subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
                )
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            for process in reversed(started):
                _end(process, 15)
            _end_orphans(10)
            _unmount_below(home)
            _unmount_below(data)
            for name in ("docker.sock", "containerd.sock", "dockerd.pid"):
                (home / name).unlink(missing_ok=True)
            # With user namespaces its name tells whose.
            for directory in home.glob("exec*"):
                shutil.rmtree(directory, ignore_errors=True)


def main(home: Path, data: Path, *, remap: bool = False) -> None:
    """Leave the process that asked, so that the daemon is nobody's child, and keep."""
    if os.fork():
        os._exit(0)
    (home / "keeper.pid").write_text(str(os.getpid()))
    keep(home, data, remap=remap)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), remap="--remap" in sys.argv[3:])
