"""Which user and group ids of the host stand behind the users of a box that has a root of its own.

Root in such a box is the box's own unprivileged id; every other user that a package makes or needs (1 to 65535) is an
id of a block that belongs to nobody. Standard library only: the keeper uses it.
"""

# ruff: noqa: PTH123
# The keeper starts without pathlib.
from __future__ import annotations

import contextlib
import os
import pwd
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

MEMBERS = 65535
"""How many ids besides root's a Debian system knows: 1 to 65535; `nobody` is 65534."""

OWNER = "kagura"
"""Whose lines in /etc/subuid and /etc/subgid name the block that root's boxes use."""

RANGE_INSIDE = 100_000
"""Where an ordinary user's range begins in the keeper's own user namespace."""

# Above the ids that boxes themselves are given, and below 2^31, past which some programs take a number for negative.
_FIRST_BLOCK, _BLOCKS = 2_100_000_000, 700


@dataclass(frozen=True, slots=True)
class Block:
    """A map from the ids in a box to those of the host.

    Attributes:
        root_uid: The user that root is outside.
        root_gid: The group likewise.
        first_uid: The user that 1 is; the others follow.
        first_gid: The group likewise.
    """

    root_uid: int
    root_gid: int
    first_uid: int
    first_gid: int

    def user(self, inside: int) -> int:
        """The host's id of a user in the box; one that no box has becomes the last, `nobody`'s neighbour."""
        return _outside(inside, self.root_uid, self.first_uid)

    def group(self, inside: int) -> int:
        """The host's id of a group in the box, likewise."""
        return _outside(inside, self.root_gid, self.first_gid)

    @property
    def is_inside(self) -> bool:
        """Whether these are the ids in the box themselves; what belongs to the host's users is nobody's there."""
        return self.root_uid == 0

    @property
    def uid_map(self) -> str:
        """As the kernel takes it."""
        return f"0 {self.root_uid} 1\n1 {self.first_uid} {MEMBERS}"

    @property
    def gid_map(self) -> str:
        """As the kernel takes it."""
        return f"0 {self.root_gid} 1\n1 {self.first_gid} {MEMBERS}"


def choose_block(uid: int, subuid: str = "/etc/subuid", subgid: str = "/etc/subgid") -> Block:
    """The block for a box whose root is `uid` outside, for a keeper that may take any.

    An administrator who keeps a register of ids gives us ours by a line for `kagura` in both files, as Docker's
    userns-remap has its `dockremap`. Without one a block is drawn from a range that no distribution, container manager
    or directory service hands out: two boxes then rarely share one, and where they do they still share nothing else.
    """
    first_uid, first_gid = find_range(_read(subuid), OWNER), find_range(_read(subgid), OWNER)
    if first_uid is not None and first_gid is not None:
        return Block(uid, uid, first_uid, first_gid)
    first = _FIRST_BLOCK + secrets.randbelow(_BLOCKS) * (MEMBERS + 1)
    return Block(uid, uid, first, first)


def mapping_commands(
    inside: int, programs: Sequence[str], subuid: str = "/etc/subuid", subgid: str = "/etc/subgid"
) -> list[list[str]]:
    """The commands that map the caller, and its range of further ids, for a process `{pid}` of an ordinary user.

    Args:
        inside: What the caller itself is called there.
        programs: `newuidmap` and `newgidmap`.
        subuid: Whose user ids are whose.
        subgid: The same of groups.

    Returns:
        Nothing when no range was given to the caller.
    """
    names = [str(os.geteuid())]
    with contextlib.suppress(KeyError):
        names.append(pwd.getpwuid(os.geteuid()).pw_name)
    ranges = find_range(_read(subuid), *names), find_range(_read(subgid), *names)
    own = os.geteuid(), os.getegid()
    return [
        [program, "{pid}", str(inside), str(me), "1", str(RANGE_INSIDE), str(first), str(MEMBERS)]
        for program, me, first in zip(programs, own, ranges, strict=True)
        if None not in ranges
    ]


def find_range(text: str, *owners: str) -> int | None:
    """The first id of the first range, in the text of a subid file, that belongs to one of these and is long enough."""
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) != 3 or fields[0] not in owners:  # noqa: PLR2004 - owner:first:count
            continue
        with contextlib.suppress(ValueError):
            if int(fields[2]) >= MEMBERS and int(fields[1]) > 0:
                return int(fields[1])
    return None


def _outside(inside: int, root: int, first: int) -> int:
    return root if inside == 0 else first + min(inside, MEMBERS) - 1


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
