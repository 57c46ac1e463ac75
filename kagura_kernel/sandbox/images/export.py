"""Reads an archive of images (`docker save`) as it streams past: nothing is unpacked, and memory does not grow with it.

Both layouts are understood: the daemon's own (`ID/layer.tar`) and OCI's (`blobs/sha256/…`). What is a layer is told
by looking, because the manifest may come last.
"""

from __future__ import annotations

import json
import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

_LARGEST_JSON = 8 * 1024 * 1024
_SNIFFED = 512
_TAR_MAGIC = slice(257, 262)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class LayerReader(Protocol):
    """Looks at one entry of a layer after the other."""

    def entry(self, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        """One entry; `content` is there for a regular file and is gone when this returns."""

    def broken(self, why: str) -> None:
        """The layer cannot be read on."""


class LayerMaker(Protocol):
    """Gives each layer its reader."""

    def __call__(self, name: str) -> LayerReader:
        """The reader of a layer, by its name in the archive."""


@dataclass(frozen=True, slots=True)
class ExportedImage:
    """An image as its archive describes it.

    Attributes:
        id: Its id, `sha256:…`.
        names: The names that it was saved under.
        configuration: Its configuration file.
        layers: Names of its layers in the archive, from the bottom up.
    """

    id: str
    names: tuple[str, ...]
    configuration: Mapping[str, Any]
    layers: tuple[str, ...]


@dataclass(slots=True)
class _Seen:
    documents: dict[str, Any] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def read_export(pieces: Iterable[bytes], reader_for: LayerMaker) -> list[ExportedImage]:
    """Hand every layer's entries to its reader and return the images.

    Raises:
        ValueError: it is no archive of images.
    """
    seen = _Seen()
    stream: Any = _Pieces(pieces)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _read_member(archive, member, seen, reader_for)
    except tarfile.TarError as error:
        raise ValueError("the daemon's archive breaks off") from error
    manifest = seen.documents.get("manifest.json")
    if not isinstance(manifest, list):
        raise ValueError("the daemon's archive has no manifest")  # noqa: TRY004 - what is wrong is a value
    return [_image(entry, seen) for entry in manifest]


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, seen: _Seen, reader_for: LayerMaker) -> None:
    name = posixpath.normpath(member.name)
    if member.issym() or member.islnk():
        target = member.linkname if member.islnk() else posixpath.join(posixpath.dirname(name), member.linkname)
        seen.links[name] = posixpath.normpath(target)
        return
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        return
    head = content.read(_SNIFFED)
    if head[_TAR_MAGIC] == b"ustar" or head.startswith((_GZIP, _ZSTD)) or name.endswith("layer.tar"):
        _read_layer(_Peeked(head, content), reader_for(name))
    elif head[:1] in (b"{", b"[") and member.size <= _LARGEST_JSON:
        seen.documents[name] = json.loads(head + content.read())


def _read_layer(content: Any, reader: LayerReader) -> None:
    try:
        with tarfile.open(fileobj=content, mode="r|*") as layer:
            for member in layer:
                reader.entry(member, layer.extractfile(member) if member.isfile() else None)
                # The library remembers every entry that it has passed.
                layer.members.clear()  # type: ignore[attr-defined]
    except (tarfile.TarError, EOFError, OSError) as error:
        reader.broken(f"it cannot be read ({error})")


def _image(entry: Mapping[str, Any], seen: _Seen) -> ExportedImage:
    where = posixpath.normpath(str(entry["Config"]))
    layers = tuple(_followed(posixpath.normpath(str(layer)), seen.links) for layer in entry.get("Layers") or ())
    configuration = seen.documents.get(where)
    if not isinstance(configuration, dict):
        raise ValueError("the daemon's archive lacks a configuration")  # noqa: TRY004 - what is wrong is a value
    digest = posixpath.basename(where).removesuffix(".json")
    return ExportedImage(f"sha256:{digest}", tuple(entry.get("RepoTags") or ()), configuration, layers)


def _followed(name: str, links: Mapping[str, str]) -> str:
    for _ in range(len(links)):
        if name not in links:
            break
        name = links[name]
    return name


class _Pieces:
    """A stream of pieces as a file that can be read forward."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._left = b""

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer only at the end."""
        got = [self._left]
        length = len(self._left)
        while length < size and (piece := next(self._pieces, b"")):
            got.append(piece)
            length += len(piece)
        whole = b"".join(got)
        self._left = whole[size:]
        return whole[:size]


class _Peeked:
    """A file whose beginning was read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int, /) -> bytes:
        """So many bytes, fewer only at the end."""
        if not self._head:
            return self._rest.read(size)
        taken, self._head = self._head[:size], self._head[size:]
        return taken + (self._rest.read(size - len(taken)) if len(taken) < size else b"")
