"""Where the parts of a gVisor box without Docker lie in the private mounts of its keeper."""

STAGE = "/sys/kernel"
"""A directory that every Linux has and in which no project lies: hidden by a tmpfs of the keeper's own."""

ROOT, STATE, BUNDLE = f"{STAGE}/root", f"{STAGE}/state", f"{STAGE}/bundle"
ETC, EMPTY, HOLLOW = f"{STAGE}/etc", f"{STAGE}/empty", f"{STAGE}/hollow"
"""What becomes /etc, and the empty file and directory that cover what a box must not see."""
