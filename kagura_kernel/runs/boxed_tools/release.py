"""Fetch one file of a release, check it, unpack it: `release.py URL SHA256 NAME FOLDER COMMAND LIMIT`.

Nothing of the file is unpacked, and nothing of it is run, before its checksum is right. What an archive holds beside
files and directories, or outside of itself, is left out. The command lies in FOLDER/bin afterwards.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import lzma
import os
import stat
import sys
import tarfile
import urllib.request
import zipfile
import zlib

CHUNK = 1 << 20
UNPACKED_BYTES = 2 << 30
BROKEN = (tarfile.TarError, zipfile.BadZipFile)
TARS = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2")


def fetch(url: str, sha256: str, path: str, limit: int) -> None:
    """Write what is behind a URL, when it is what it should be."""
    digest = hashlib.sha256()
    size = 0
    with urllib.request.urlopen(url, timeout=60) as answer, open(path, "wb") as file:  # noqa: S310, PTH123 - the host chose it
        while chunk := answer.read(CHUNK):
            size += len(chunk)
            if size > limit:
                sys.exit("the file is larger than the release says")
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != sha256:
        sys.exit("the file is not what the release says: its SHA-256 is another one")


def place_of(folder: str, name: str) -> str:
    """Where a member of an archive goes; empty for one that would leave the folder."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return os.path.join(folder, *parts) if parts and ".." not in parts and not name.startswith("/") else ""  # noqa: PTH118


class Room:
    """How much may still be unpacked."""

    def __init__(self, left: int) -> None:
        self.left = left

    def copy(self, source: object, place: str, mode: int) -> None:
        """Write one file, or end with an error when there is no room."""
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - starts without pathlib
        with open(place, "wb") as file:  # noqa: PTH123 - likewise
            while chunk := source.read(CHUNK):  # type: ignore[attr-defined]
                self.left -= len(chunk)
                if self.left < 0:
                    sys.exit(f"the archive holds more than {UNPACKED_BYTES >> 20} MiB")
                file.write(chunk)
        os.chmod(place, 0o755 if mode & stat.S_IXUSR else 0o644)  # noqa: PTH101 - likewise


def unpack(path: str, name: str, folder: str, command: str) -> None:
    """Lay out what a file holds; one that is no archive is the command itself."""
    room = Room(UNPACKED_BYTES)
    low = name.lower()
    if low.endswith(TARS):
        with tarfile.open(path) as archive:
            for member in archive:
                place = place_of(folder, member.name)
                if place and member.isfile():
                    room.copy(archive.extractfile(member), place, member.mode)
    elif low.endswith(".zip"):
        with zipfile.ZipFile(path) as zipped:
            for info in zipped.infolist():
                place = place_of(folder, info.filename)
                mode = info.external_attr >> 16
                if place and not info.is_dir() and not stat.S_ISLNK(mode):
                    with zipped.open(info) as source:
                        room.copy(source, place, mode)
    elif low.endswith(".gz"):
        with gzip.open(path) as source:
            room.copy(source, os.path.join(folder, command), 0o755)  # noqa: PTH118 - starts without pathlib
    else:
        with open(path, "rb") as source:  # noqa: PTH123 - likewise
            room.copy(source, os.path.join(folder, command), 0o755)  # noqa: PTH118 - likewise


def program(folder: str, command: str) -> str:
    """The command among what was unpacked: by its very name, otherwise the only program whose name begins with it."""
    found, like = [], []
    for here, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(here, name)  # noqa: PTH118 - starts without pathlib
            if name == command:
                found.append(path)
            elif name.startswith(command) and os.access(path, os.X_OK):
                like.append(path)
    if found:
        return min(found, key=lambda path: (not os.access(path, os.X_OK), path.count("/"), path))
    if len(like) == 1:
        return like[0]
    sys.exit(f"the release holds no program {command}")


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def main() -> None:
    """Fetch, check, unpack, and make the command one that can be started."""
    url, sha256, name, folder, command, limit = sys.argv[1:7]
    files, programs = f"{folder}/release", f"{folder}/bin"
    os.makedirs(files)  # noqa: PTH103 - starts without pathlib
    os.makedirs(programs)  # noqa: PTH103 - likewise
    download = f"{folder}/download"
    try:
        fetch(url, sha256, download, int(limit))
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.exit(f"the file could not be fetched: {first_line(error)}")
    try:
        unpack(download, name, files, command)
    except (OSError, ValueError, EOFError, RuntimeError, lzma.LZMAError, zlib.error, *BROKEN) as error:
        sys.exit(f"the file could not be unpacked: {first_line(error)}")
    os.unlink(download)  # noqa: PTH108 - likewise
    path = program(files, command)
    os.chmod(path, 0o755)  # noqa: PTH101, S103 - it is to be started
    os.symlink(path, f"{programs}/{command}")  # noqa: PTH211 - likewise


main()
