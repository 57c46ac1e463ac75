"""Whether an ordinary user of a machine may make namespaces, and what a person can change where not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Settings that decide whether an ordinary user may make namespaces."""

    container: bool = False  # whether this already runs inside a container
    userns_clone: int | None = None  # `kernel.unprivileged_userns_clone` (Debian), None where it does not exist
    max_namespaces: int | None = None  # `user.max_user_namespaces`, likewise
    apparmor: int | None = None  # `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu), likewise


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


def advise_there(why: str, facts: MachineFacts, host: str) -> str:
    """The same of another machine, whose facts these are."""
    if said := advise(why, replace(facts, container=False)):
        return f"On {host}: {said}"
    if advise(why, facts):
        return f"{host} seems to be a container, which forbids namespaces: name a machine that is none."
    return ""


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text("ascii"))
    except (OSError, ValueError):
        return None
