"""What `verify` can find in an image. A finding says where and why, and never holds what it found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong."""

    CREDENTIAL = "credential"
    FIRST_PARTY = "first-party"
    MACHINE = "machine"
    """A trace of the machine that built the image: a mirror, a proxy, a certificate."""
    ROOT = "root"
    SETUID = "setuid"
    WRITABLE = "writable"
    UNREADABLE = "unreadable"
    """Something could not be looked into, so nothing is proved."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that may not be in an image.

    Attributes:
        kind: What is wrong.
        where: Path in the layer, or the part of the configuration (`env NAME`, `history 3`, `label NAME`, `user`).
        reason: Why, in a sentence; never the secret itself.
        layer: Number of the layer, from 1 at the bottom; 0 for the configuration.
        deleted: Whether a later layer deletes or replaces it: not seen in a box, and still in the image.
    """

    kind: Kind
    where: str
    reason: str
    layer: int = 0
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in one image.

    Attributes:
        image: The name it was asked for by.
        id: Its id.
        layers: How many layers were walked.
        files: How many entries they hold.
        findings: All there is to object to; empty for an image that is clean.
    """

    image: str
    id: str
    layers: int
    files: int
    findings: tuple[Finding, ...]
