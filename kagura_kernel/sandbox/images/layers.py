"""Looks through one layer of an image, entry by entry, and remembers what the layers above decide on."""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from dataclasses import dataclass, field
from typing import IO

from kagura_kernel.sandbox.images.findings import Kind
from kagura_kernel.sandbox.images.secrets import OVERLAP, formats_in, held_by, password_in_address
from kagura_kernel.sandbox.images.traces import Machine, OurCode

_PIECE = 1024 * 1024
_SETUID = 0o6000
_WORLD_WRITABLE = 0o002
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_SCRATCH = ("tmp", "var/tmp", "dev/shm", "run/lock", "var/lock", "run/shm", "dev/mqueue")
# What Debian and its derivatives ship, owned by root; `no-new-privileges` takes their rights in a box.
KNOWN_SETUID = frozenset(
    f"{place}{name}"
    for place in ("bin/", "usr/bin/", "sbin/", "usr/sbin/", "usr/lib/openssh/", "usr/lib/dbus-1.0/")
    for name in (
        "chage", "chfn", "chsh", "expiry", "gpasswd", "mount", "newgrp", "pam_extrausers_chkpwd", "passwd", "ssh-agent",
        "ssh-keysign", "su", "sudo", "umount", "unix_chkpwd", "wall", "dbus-daemon-launch-helper",
    )
)  # fmt: skip

Mark = tuple[Kind, str]


@dataclass(frozen=True, slots=True)
class Inspector:
    """What is looked for."""

    ours: OurCode
    machine: Machine


@dataclass(slots=True)
class LayerFacts:
    """One layer, read to its end. Grows with the number of its entries, not with their size.

    Attributes:
        found: What may not be in any layer, seen or not: by path.
        modes: What counts only where no later layer changes it: by path.
        paths: Every path that the layer puts there.
        removed: Paths that it deletes from the layers below.
        emptied: Directories whose content below it hides.
        entries: How many entries it has.
    """

    inspector: Inspector
    found: dict[str, list[Mark]] = field(default_factory=dict)
    modes: dict[str, list[Mark]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)
    entries: int = 0

    def entry(self, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        """Look at one entry."""
        path = posixpath.normpath(member.name).lstrip("/")
        folder, name = posixpath.split(path)
        if name == _OPAQUE:
            self.emptied.add(folder)
        elif name.startswith(_WHITEOUT):
            self.removed.add(posixpath.join(folder, name.removeprefix(_WHITEOUT)))
        else:
            self.entries += 1
            self.paths.add(path)
            self._judge_mode(path, member)
            marks = [*self._name_marks(path), *(self._content_marks(path, content) if content is not None else ())]
            if marks:
                self.found[path] = list(dict.fromkeys(marks))

    def broken(self, why: str) -> None:
        """The layer cannot be read on: nothing is proved about the rest."""
        self.found["."] = [(Kind.UNREADABLE, why)]

    def _judge_mode(self, path: str, member: tarfile.TarInfo) -> None:
        marks: list[Mark] = []
        if member.isfile() and member.mode & _SETUID and (path not in KNOWN_SETUID or member.uid != 0):
            marks.append((Kind.SETUID, f"runs with the rights of its owner (mode {member.mode & 0o7777:04o})"))
        if member.isdir() and member.mode & _WORLD_WRITABLE and path not in _SCRATCH:
            marks.append((Kind.WRITABLE, f"anybody may write into it (mode {member.mode & 0o7777:04o})"))
        if marks:
            self.modes[path] = marks

    def _name_marks(self, path: str) -> list[Mark]:
        return [(Kind.FIRST_PARTY, "the name of a package of ours")] if self.inspector.ours.named(path) else []

    def _content_marks(self, path: str, content: IO[bytes]) -> list[Mark]:
        marks: list[Mark] = []
        digest = hashlib.sha256()
        kept = b""
        while fresh := content.read(_PIECE):
            digest.update(fresh)
            piece = kept + fresh
            marks += self._piece_marks(path, piece)
            kept = piece[-OVERLAP:]
        whole = digest.hexdigest()
        if whole in self.inspector.ours.digests:
            marks.append((Kind.FIRST_PARTY, "a file of ours, byte by byte"))
        if whole in self.inspector.machine.digests:
            marks.append((Kind.MACHINE, "a certificate or setting of this machine, byte by byte"))
        return marks

    def _piece_marks(self, path: str, piece: bytes) -> list[Mark]:
        marks = [(Kind.CREDENTIAL, what) for what in formats_in(piece)]
        if held := held_by(path, piece):
            marks.append((Kind.CREDENTIAL, held))
        if password_in_address(path, piece):
            marks.append((Kind.CREDENTIAL, "an address with a password"))
        if self.inspector.ours.in_piece(piece):
            marks.append((Kind.FIRST_PARTY, "speaks of our package, or shares lines with a file of ours"))
        if trace := self.inspector.machine.trace_in(path, piece):
            marks.append((Kind.MACHINE, trace))
        return marks
