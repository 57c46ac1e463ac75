"""What is in an archive that nobody trusts: plain files, few and small, under names that lead nowhere else."""

from __future__ import annotations

import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from kagura_kernel.plugins.reading import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES
from kagura_kernel.plugins.wording import unseen

MAX_ARCHIVE_BYTES = 8 << 20
_MAX_UNPACKED = 16 << 20
_MAX_MEMBERS = 2000
_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
_MAX_NAME = 512
_ENCRYPTED = 0x1
# What the readers of both raise for bytes that make no sense, beside their own errors.
_BROKEN = (EOFError, OSError, ValueError, ArithmeticError, RecursionError, struct.error)
# What macOS adds to each archive; it belongs to nothing in it.
_BESIDE = "__MACOSX/"
_MANIFEST = "plugin.json"


class NotUnpacked(Exception):
    """An archive that is not unpacked; the text says why, and fits behind a plugin's name."""


@dataclass(slots=True)
class Unpacked:
    """The files of an archive.

    Attributes:
        files: Bytes by path, below the directory that holds the manifest.
        executable: Those of the paths with an execute bit.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)


def unpack(data: bytes) -> Unpacked:
    """The plugin in a `.zip` or `.tar.gz` archive, which is told by its first bytes.

    Raises:
        NotUnpacked: it is neither, is broken or encrypted, holds anything but plain files, a name that leads out of
            it, the same name twice, too much, or not exactly one plugin.
    """
    if len(data) > MAX_ARCHIVE_BYTES:
        raise NotUnpacked(f"is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    if data.startswith(_ZIP):
        members = _zip_members(data)
    elif data.startswith(_GZIP):
        members = _tar_members(_unzipped(data))
    else:
        raise NotUnpacked("is neither a .zip nor a .tar.gz archive")
    unpacked = Unpacked()
    total = 0
    for name, content, executable in members:
        if name.startswith(_BESIDE):
            continue
        if name in unpacked.files:
            raise NotUnpacked(f"holds {name!r} twice")
        total += len(content)
        if len(unpacked.files) >= MAX_FILES or total > MAX_TOTAL_BYTES:
            raise NotUnpacked(f"holds more than {MAX_FILES} files or {MAX_TOTAL_BYTES >> 20} MiB")
        unpacked.files[name] = content
        if executable:
            unpacked.executable.add(name)
    return _below_manifest(unpacked)


def _zip_members(data: bytes) -> Iterator[tuple[str, bytes, bool]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > _MAX_MEMBERS:
                raise NotUnpacked(f"holds more than {_MAX_MEMBERS} entries")
            for entry in entries:
                mode = entry.external_attr >> 16
                _check_name(entry.orig_filename)
                if entry.is_dir():
                    continue
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    raise NotUnpacked(f"holds {entry.filename!r}, which is no plain file")
                if entry.flag_bits & _ENCRYPTED:
                    raise NotUnpacked("is encrypted")
                with archive.open(entry) as file:
                    # One byte more than is allowed is asked for, whatever the archive says of the size.
                    content = _limited(entry.filename, file.read(MAX_FILE_BYTES + 1))
                yield _plain(entry.orig_filename), content, bool(mode & 0o111)
    except (*_BROKEN, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError) as error:
        raise NotUnpacked("is a broken .zip archive, or one of a kind that is not read") from error


def _unzipped(data: bytes) -> bytes:
    """What a gzip file holds; all of it at once, and never more than is allowed."""
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(data, _MAX_UNPACKED + 1)
    except zlib.error as error:
        raise NotUnpacked("is a broken .tar.gz archive") from error
    if len(plain) > _MAX_UNPACKED:
        raise NotUnpacked(f"is larger than {_MAX_UNPACKED >> 20} MiB once it is unpacked")
    if not reader.eof:
        raise NotUnpacked("is a .tar.gz archive that is cut off")
    return plain


def _tar_members(plain: bytes) -> Iterator[tuple[str, bytes, bool]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for number, entry in enumerate(archive):
                if number >= _MAX_MEMBERS:
                    raise NotUnpacked(f"holds more than {_MAX_MEMBERS} entries")
                _check_name(entry.name)
                if entry.isdir():
                    continue
                # A sparse file is a few bytes that say how large they are.
                if not entry.isreg() or entry.issparse():
                    raise NotUnpacked(f"holds {entry.name!r}, which is no plain file")
                if entry.size > MAX_FILE_BYTES:
                    raise NotUnpacked(f"holds {entry.name!r}, which is larger than {MAX_FILE_BYTES >> 20} MiB")
                file = archive.extractfile(entry)
                content = b"" if file is None else file.read(MAX_FILE_BYTES + 1)
                if len(content) != entry.size:
                    raise NotUnpacked("is a .tar.gz archive that is cut off")
                yield _plain(entry.name), content, bool(entry.mode & 0o111)
    except (*_BROKEN, tarfile.TarError) as error:
        raise NotUnpacked("is a broken .tar.gz archive") from error


def _check_name(name: str) -> None:
    shown = ascii(name)[:200]
    if not name or len(name) > _MAX_NAME or unseen(name) or "\\" in name:
        raise NotUnpacked(f"holds {shown}, a name that cannot be used")
    plain = _plain(name).rstrip("/")
    if plain in ("", ".") and not name.startswith("/"):
        return  # the archive's own top
    parts = plain.split("/")
    if name.startswith("/") or ":" in parts[0] or any(part in ("", ".", "..") for part in parts):
        raise NotUnpacked(f"holds {shown}, a name that leads out of it")


def _plain(name: str) -> str:
    return name.removeprefix("./")


def _limited(name: str, content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise NotUnpacked(f"holds {name!r}, which is larger than {MAX_FILE_BYTES >> 20} MiB")
    return content


def _below_manifest(unpacked: Unpacked) -> Unpacked:
    """The files below the one directory that holds the manifest: archives mostly have one at their top."""
    if _MANIFEST in unpacked.files:
        return unpacked
    tops = {name.partition("/")[0] for name in unpacked.files}
    if len(tops) != 1 or f"{(top := next(iter(tops)))}/{_MANIFEST}" not in unpacked.files:
        raise NotUnpacked(f"holds no {_MANIFEST} at its top, nor in the one directory at its top")
    below = len(top) + 1
    return Unpacked(
        {name[below:]: content for name, content in unpacked.files.items()},
        {name[below:] for name in unpacked.executable},
    )
