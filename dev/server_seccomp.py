"""Write docs/operations/seccomp.json: `.venv/bin/python dev/server_seccomp.py`."""

from __future__ import annotations

import json
from pathlib import Path

from kagura_kernel.sandbox.docker import seccomp as docker_seccomp

PAGE = Path(__file__).parents[1] / "docs/operations/seccomp.json"

FOR_BOXES = (
    *("clone", "unshare", "setns"),
    *("mount", "umount2", "pivot_root", "open_tree", "move_mount", "mount_setattr", "openat2"),
    "sethostname",
)
"""What makes a box, beyond what programs in boxes may do: namespaces, their mounts, their name."""


def server_profile() -> str:
    """The profile of a container in which boxes are made: what our Docker boxes may do, and what makes a box."""
    found = json.loads(docker_seccomp.profile())
    kept = [rule for rule in found["syscalls"] if rule["names"] != ["clone"]]
    found["syscalls"] = [{"names": sorted(FOR_BOXES), "action": "SCMP_ACT_ALLOW", "args": []}, *kept]
    return json.dumps(found, indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(server_profile(), "utf-8")
