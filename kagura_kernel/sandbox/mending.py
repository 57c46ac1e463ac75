"""What a person can do when bubblewrap cannot make a box: the machine's own settings, read and put into words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

INSTALL = "Install it with `apt install bubblewrap` (or the package `bubblewrap` of your distribution)."

INSTALL_UIDMAP = "Install them with `apt install uidmap`, or take a container: `--box docker`."
ADD_RANGE = (
    "Have one added to /etc/subuid and /etc/subgid: "
    "`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`, or take a container: `--box docker`."
)


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Settings that decide whether an ordinary user may make namespaces.

    Attributes:
        container: Whether this already runs inside a container.
        userns_clone: `kernel.unprivileged_userns_clone` (Debian), None where it does not exist.
        max_namespaces: `user.max_user_namespaces`, likewise.
        apparmor: `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu), likewise.
    """

    container: bool = False
    userns_clone: int | None = None
    max_namespaces: int | None = None
    apparmor: int | None = None


def read_facts(root: Path = Path("/")) -> MachineFacts:
    """The facts of the machine whose root directory this is."""
    settings = root / "proc/sys"
    return MachineFacts(
        container=any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")),
        userns_clone=_number(settings / "kernel/unprivileged_userns_clone"),
        max_namespaces=_number(settings / "user/max_user_namespaces"),
        apparmor=_number(settings / "kernel/apparmor_restrict_unprivileged_userns"),
    )


def advise(why: str, facts: MachineFacts) -> str:
    """What would mend it, as a sentence; empty when nothing is known. `why` is what bubblewrap or the system said."""
    said = why.lower()
    if not any(word in said for word in ("namespace", "not permitted", "permission", "no space left", "proc")):
        return ""
    if facts.userns_clone == 0:
        return "Allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`."
    if facts.max_namespaces == 0:
        return "Allow user namespaces: `sysctl -w user.max_user_namespaces=15000`."
    if facts.apparmor:
        return (
            "AppArmor restricts user namespaces: install a profile that allows them to bwrap, "
            "or `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    if facts.container:
        # Last, because the mark alone proves nothing: some machines are made from container images.
        return (
            "This seems to run inside a container, which forbids namespaces: run the kernel outside of it, "
            "or give boxes a Docker daemon (DOCKER_HOST) and use `--box docker`."
        )
    return ""


def advise_root(why: str) -> str:
    """What would mend that a box's root cannot be made writable, as a sentence; empty when nothing is known."""
    if "only root" in why:
        return "Run the kernel as an ordinary user or as the machine's own root, or take a container: `--box docker`."
    if "Debian" in why:
        return "Take a container with the tools in its image: `--box docker`."
    return ""


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None
