"""All files of a plugin, read once: what is hashed, scanned, audited, sent to the jail and compiled are these bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from kagura_kernel.domain.errors import SignatureInvalid
from kagura_kernel.domain.plugins import PluginFinding, Severity
from kagura_kernel.plugins.reading import read_directory
from kagura_kernel.plugins.signature import BROKEN, SIGNATURE, check_signature

MANIFEST = "plugin.json"
SOURCE = "plugin.py"

# Hashes of other things never equal one of these; a change of what is hashed changes the number.
_MARK = b"kagura plugin 1\0"


@dataclass(frozen=True)
class PluginContent:
    """One plugin as it was at one moment."""

    root: Path  # Its directory
    name: str  # The directory's name
    files: Mapping[str, bytes]  # Bytes by path, relative to the directory, parts joined by `/`, sorted
    executable: frozenset[str] = frozenset()  # Those of the paths whose file has an execute bit
    # What a plugin may not hold and was therefore not read (links, devices, native code, too much)
    oddities: tuple[PluginFinding, ...] = ()

    @cached_property
    def content_hash(self) -> str:
        """SHA-256, hexadecimal, over path, execute bit and bytes of every file; what was not read counts by name."""
        return self._hash("")

    @cached_property
    def signed_hash(self) -> str:
        """The same without `plugin.sig`: what a signature is about."""
        return self._hash(SIGNATURE)

    @property
    def source(self) -> bytes:
        """`plugin.py`; empty when there is none."""
        return self.files.get(SOURCE, b"")

    @cached_property
    def python(self) -> Mapping[str, bytes]:
        """The files whose name ends in `.py`, `plugin.py` among them."""
        return MappingProxyType({path: data for path, data in self.files.items() if path.endswith(".py")})

    def _hash(self, without: str) -> str:
        digest = hashlib.sha256(_MARK)
        for path in sorted(self.files):
            if path == without:
                continue
            data = self.files[path]
            # Length and number of parts are in it, so that no two contents make the same stream.
            digest.update(f"{path}\0{int(path in self.executable)}\0{len(data)}\0".encode())
            digest.update(data)
        unread = [finding for finding in self.oddities if finding.file not in self.files]
        for finding in sorted(unread, key=lambda one: (one.file, one.rule)):
            digest.update(f"{finding.file}\0!{finding.rule}\0".encode())
        return digest.hexdigest()


def read_content(root: Path, *, bundled: bool = False) -> PluginContent:
    """Everything in a plugin's directory, through descriptors, so that no link is followed, not even a late one.

    What a plugin may not hold becomes a finding of severity danger, and is not read.

    Args:
        root: The directory; its parents may be links, it may not.
        bundled: Whether it came with this package, whose installer compiles and links files as it likes: compiled
            files are passed over, and a file may have other names.

    Raises:
        PluginInvalid: it is a link, no directory, or cannot be read.
    """
    root = root.absolute()  # `.` has no name
    read = read_directory(root, bundled=bundled)
    files = MappingProxyType(read.files)
    content = PluginContent(root, root.name, files, frozenset(read.executable), tuple(read.oddities))
    if SIGNATURE not in files:
        return content
    try:
        check_signature(files[SIGNATURE], content.signed_hash)
    except SignatureInvalid as error:
        broken = PluginFinding(Severity.DANGER, BROKEN, f"Its signature does not hold. {error.message}", SIGNATURE)
        return replace(content, oddities=(*content.oddities, broken))
    return content
