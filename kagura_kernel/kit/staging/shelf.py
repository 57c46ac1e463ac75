"""What lies in a staged kit, for people who want to read it: texts with what was redacted as blocks."""

from __future__ import annotations

import codecs
import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from kagura_kernel.domain.errors import KitGone
from kagura_kernel.domain.kit import MARKER, StagedFile
from kagura_kernel.kit.staging.copying import BYTE_ORDER_MARK
from kagura_kernel.kit.staging.manifest import MANIFEST, ManifestFile, read_manifest_files
from kagura_kernel.kit.staging.reading import Unfit, open_root
from kagura_kernel.kit.staging.versions import VERSIONS

MAX_SHOWN = 4 << 20
"""Bytes of one file that a person is shown."""

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Block:
    """A marker in a staged text."""

    start: int  # Where it begins, in characters from 0
    end: int  # Where it ends
    kind: str  # Of what kind the secret was


@dataclass(frozen=True, slots=True)
class StagedText:
    """One staged file as a person may read it."""

    target: str  # Its place below the kit's root
    text: str = field(repr=False)  # What is in it; empty for what is no text
    # Where markers stand in `text`; none in a file that nothing was taken out of, whatever stands in it
    blocks: tuple[Block, ...] = ()
    size: int = 0  # Bytes of the file
    is_text: bool = True  # Whether it is one
    cut: bool = False  # Whether `text` is only its beginning


def staged_files(root: Path, digest: str) -> tuple[StagedFile, ...]:
    """Every file of a staged kit but its manifest, by target.

    Args:
        root: The folder of kits.
        digest: Which one, as events tell it.

    Raises:
        KitGone: It is not kept any more.
    """
    return tuple(file.staged for file in _manifest(_version(root, digest)))


def read_staged(root: Path, digest: str, target: str) -> StagedText:
    """One file of a staged kit.

    Args:
        root: The folder of kits.
        digest: Which one.
        target: Which file of it, as `staged_files` tells it, or `manifest.json`.

    Raises:
        KitGone: The kit is not kept any more, or has no such file.
    """
    version = _version(root, digest)
    files = {file.staged.target: file for file in _manifest(version)}
    if target not in files and target != MANIFEST:
        raise KitGone(f"The kit has no file {target!r}")
    try:
        with open_root(version) as folder:
            size = folder.look(target).st_size
            data = folder.head(target, MAX_SHOWN)
    except (OSError, Unfit) as error:
        raise KitGone(f"The file {target!r} of the kit is gone") from error
    encoding = files[target].encoding if target in files else "utf-8"
    if not encoding:
        return StagedText(target, "", size=size, is_text=False)
    # What is cut may end in the middle of a character.
    text = codecs.getincrementaldecoder(encoding)("replace").decode(data, final=size <= len(data))
    text = text.removeprefix(BYTE_ORDER_MARK)
    markers = MARKER.finditer(text) if target not in files or files[target].staged.redactions else ()
    blocks = tuple(Block(found.start(), found.end(), found["kind"]) for found in markers)
    return StagedText(target, text, blocks, size, cut=len(data) < size)


def _version(root: Path, digest: str) -> Path:
    if _DIGEST.fullmatch(digest):
        with contextlib.suppress(OSError):
            for folder in sorted(root.iterdir()):
                version = folder / VERSIONS / digest
                if version.is_dir():
                    return version
    raise KitGone("This kit is not kept any more")


def _manifest(version: Path) -> tuple[ManifestFile, ...]:
    try:
        return read_manifest_files((version / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise KitGone("This kit is not kept any more") from error
