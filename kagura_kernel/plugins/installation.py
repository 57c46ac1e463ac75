"""Brings a plugin into the user's own place, and takes one away again. Installing enables and approves nothing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kagura_kernel.domain.errors import PluginInvalid, PluginRefused, UnknownName, UsageError
from kagura_kernel.membrane.project import CannotExchange, exchange
from kagura_kernel.plugins.content import (
    MANIFEST,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TOTAL_BYTES,
    PluginContent,
    read_content,
)
from kagura_kernel.plugins.manifest import Found, bundled_directory, load_found, parse_manifest
from kagura_kernel.plugins.text import reason, unseen

if TYPE_CHECKING:
    import httpx


MAX_ARCHIVE_BYTES = 8 << 20
_MAX_UNPACKED = 16 << 20
_MAX_MEMBERS = 2000
_ZIP = b"PK\x03\x04"
_GZIP = b"\x1f\x8b"
_MAX_NAME = 512
_MAX_EXTENDED = 4096
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_ENCRYPTED = 0x1
# What the readers of both raise for bytes that make no sense, beside their own errors.
_BROKEN = (EOFError, OSError, ValueError, ArithmeticError, RecursionError, struct.error)
# What macOS adds to each archive; it belongs to nothing in it.
_BESIDE = "__MACOSX/"


class NotUnpacked(Exception):
    """An archive that is not unpacked; the text says why, and fits behind a plugin's name."""


class NotAnswered(NotUnpacked):
    """The server has answered that there is no such thing, or none for us."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status  # Of HTTP


def unpack(data: bytes, label: str = "archive") -> PluginContent:
    """The plugin in a `.zip` or `.tar.gz` archive, which is told by its first bytes; it lies in no directory yet.

    Raises `NotUnpacked`: it is neither, is broken or encrypted, holds anything but plain files, a name that leads out
    of it, the same name twice, too much, or not exactly one plugin.
    """
    if len(data) > MAX_ARCHIVE_BYTES:
        raise NotUnpacked(f"is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    if data.startswith(_ZIP):
        members = _zip_members(data)
    elif data.startswith(_GZIP):
        members = _tar_members(_unzipped(data))
    else:
        raise NotUnpacked("is neither a .zip nor a .tar.gz archive")
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    total = 0
    for name, content, runs in members:
        if name.startswith(_BESIDE):
            continue
        if name in files:
            raise NotUnpacked(f"holds {name!r} twice")
        total += len(content)
        if len(files) >= MAX_FILES or total > MAX_TOTAL_BYTES:
            raise NotUnpacked(f"holds more than {MAX_FILES} files or {MAX_TOTAL_BYTES >> 20} MiB")
        files[name] = content
        if runs:
            executable.add(name)
    below = len(_top(files))
    return PluginContent(
        Path(),
        label,
        {name[below:]: content for name, content in sorted(files.items())},
        frozenset(name[below:] for name in executable),
    )


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
                    content = file.read(MAX_FILE_BYTES + 1)
                _check_size(entry.filename, len(content))
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


class _Entry(tarfile.TarInfo):
    """An entry that is refused before it is read where older Pythons would take hours to read it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MAX_EXTENDED:
            raise NotUnpacked(f"says more than {_MAX_EXTENDED} bytes about one of its files")
        return found


def _tar_members(plain: bytes) -> Iterator[tuple[str, bytes, bool]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:", tarinfo=_Entry) as archive:
            for number, entry in enumerate(archive):
                if number >= _MAX_MEMBERS:
                    raise NotUnpacked(f"holds more than {_MAX_MEMBERS} entries")
                _check_name(entry.name)
                if entry.isdir():
                    continue
                # A sparse file is a few bytes that say how large they are.
                if not entry.isreg() or entry.issparse():
                    raise NotUnpacked(f"holds {entry.name!r}, which is no plain file")
                _check_size(entry.name, entry.size)
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


def _check_size(name: str, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise NotUnpacked(f"holds {name!r}, which is larger than {MAX_FILE_BYTES >> 20} MiB")


def _top(files: Collection[str]) -> str:
    """What stands before the path of the manifest: archives mostly have one directory at their top, which holds it."""
    if MANIFEST in files:
        return ""
    tops = {name.partition("/")[0] for name in files}
    if len(tops) != 1 or f"{(top := next(iter(tops)))}/{MANIFEST}" not in files:
        raise NotUnpacked(f"holds no {MANIFEST} at its top, nor in the one directory at its top")
    return f"{top}/"


NOT_HTTPS = "is fetched over HTTPS alone"
MAX_REDIRECTS = 5
MAX_SECONDS = 300.0
"""How long an archive may take to arrive; each of its parts may take a tenth of that."""
_SECONDS = 30.0
_OK = 200


def fetch_archive(url: str, transport: httpx.BaseTransport | None = None, *, loopback: bool = False) -> bytes:
    """The bytes behind a URL; with `loopback` this machine is asked without HTTPS too.

    Raises `NotUnpacked`: it cannot be fetched, is too large, or leads away from HTTPS.
    """
    import httpx

    try:
        with httpx.Client(timeout=_SECONDS, follow_redirects=False, transport=transport) as client:
            address = httpx.URL(url)
            for _ in range(MAX_REDIRECTS + 1):
                _check(address, loopback=loopback)
                with client.stream("GET", address, headers={"accept-encoding": "identity"}) as response:
                    if response.next_request is None:
                        return _body(response)
                    address = response.next_request.url
    # The last of them for a host whose xn-- part stands for no name.
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise NotUnpacked(f"cannot be fetched: {why}") from error
    raise NotUnpacked(f"leads on more than {MAX_REDIRECTS} times")


def _check(address: httpx.URL, *, loopback: bool) -> None:
    here = loopback and address.scheme == "http" and address.host in LOOPBACK
    if not address.host or (address.scheme != "https" and not here):
        raise NotUnpacked(NOT_HTTPS)
    if address.userinfo:
        raise NotUnpacked("has a user name in its address; it would stand in lists and logs")


def _body(response: httpx.Response) -> bytes:
    if response.status_code != _OK:
        answer = f"{response.status_code} {response.reason_phrase}"
        raise NotAnswered(f"cannot be fetched: the server answers {answer}", response.status_code)
    data = bytearray()
    latest = time.monotonic() + MAX_SECONDS
    # As it came: unpacked, a few bytes may be more than there is memory for.
    for part in response.iter_raw():
        data += part
        if time.monotonic() > latest:
            raise NotUnpacked(f"takes longer than {MAX_SECONDS:g} s")
        if len(data) > MAX_ARCHIVE_BYTES:
            raise NotUnpacked(f"is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    return bytes(data)


Fetch = Callable[[str], bytes]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that are this machine."""

_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII | re.IGNORECASE)


def is_address(source: str) -> bool:
    """Whether it is the address of something that is fetched, and no path."""
    return _URL.match(source) is not None


def install(source: str, sha256: str | None, into: Path, fetch: Fetch | None = None, *, replace: bool = False) -> Found:
    """Copy a plugin into a place; it is then there, and nothing more.

    The source is a directory, a `.zip` or `.tar.gz` file, or the `https://` address of one. `sha256` is needed for
    archives; of a directory it is the content hash. With `replace` one of the same name makes way.

    Raises:
        UsageError: there is no such source, or the hash is missing or none.
        PluginInvalid: it is no plugin.
        PluginRefused: its hash is another one, it holds what no plugin may hold, or its name is taken.
    """
    pinned = pinned_hash(sha256)
    return put(_unpacked(source, pinned, fetch or fetch_archive), into, replace=replace)


def put(unpacked: PluginContent, into: Path, *, replace: bool = False) -> Found:
    """Write a plugin's files into a place. Raises as `install`, but for `UsageError`."""
    if MANIFEST not in unpacked.files:
        raise PluginInvalid(unpacked.name, [f"there is no {MANIFEST}"])
    try:
        name = parse_manifest(unpacked.files[MANIFEST], None).name
    except PluginInvalid as error:
        raise PluginInvalid(unpacked.name, error.problems) from error
    _refuse_taken(name, into, replace=replace)
    try:
        with _workbench(into) as bench:
            made = bench / name
            _write(unpacked, made)
            found = load_found(made, "user")
            _refuse_odd(found.content)
            _put(made, into / name, bench, replace=replace)
    except OSError as error:
        raise PluginRefused(name, f"cannot be put into {into}: {reason(error)}") from error
    return load_found(into / name, "user")


def remove(name: str, place: Path) -> None:
    """Delete one plugin of a place, usable or not; of one that is a link, the link alone.

    Raises `UnknownName`: it is not there; `PluginRefused`: it cannot be deleted.
    """
    try:
        names = sorted(entry.name for entry in place.iterdir() if not entry.name.startswith("."))
    except FileNotFoundError:
        names = []
    if name not in names:
        raise UnknownName("plugin of your own", name, names, hint="Those of the package and of a project stay.")
    try:
        if (place / name).is_symlink():
            (place / name).unlink()
            return
        with _workbench(place) as bench:
            # Out of the way first: half a plugin is never found.
            (place / name).rename(bench / name)
    except OSError as error:
        raise PluginRefused(name, f"cannot be deleted: {reason(error)}") from error


def pinned_hash(sha256: str | None) -> str:
    """The digits of a hash that was typed; empty where none was. Raises `UsageError`: it is none."""
    if sha256 is None:
        return ""
    found = _SHA256.fullmatch(sha256.strip())
    if found is None:
        raise UsageError("--sha256 takes the 64 hexadecimal digits of a SHA-256.")
    return found[1].lower()


def _unpacked(source: str, pinned: str, fetch: Fetch) -> PluginContent:
    """The files in a source, by the name that errors call it, once its hash is the pinned one."""
    label = source.rstrip("/").rpartition("/")[2].partition("?")[0][:80] or "archive"
    if is_address(source):
        # One that would not be fetched, before anybody looks for its hash.
        if not source.lower().startswith("https://"):
            raise PluginRefused(label, NOT_HTTPS)
        read = partial(fetch, source)
    else:
        path = _there(source)
        if path.is_dir():
            content = read_content(path)
            _refuse_odd(content)
            if pinned:
                _compare(content.name, pinned, content.content_hash)
            return content
        read = partial(_read_archive, path)
    if not pinned:
        raise UsageError(
            f"{label} is an archive: name its SHA-256 with --sha256 HASH, as its author published it, so that it is "
            "the one that you mean."
        )
    try:
        data = read()
        _compare(label, pinned, hashlib.sha256(data).hexdigest())
        return unpack(data, label)
    except NotUnpacked as error:
        raise PluginRefused(label, str(error)) from error


def _there(source: str) -> Path:
    path = Path(os.path.expanduser(source))  # noqa: PTH111 - a home that nobody has stays what was typed
    try:
        path.stat()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else "no path has such a letter"
        raise UsageError(f"There is nothing to install at {path}: {why}.") from error
    return path


def _read_archive(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_ARCHIVE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"There is nothing to install at {path}: {reason(error)}.") from error


def _compare(label: str, pinned: str, found: str) -> None:
    if not hmac.compare_digest(pinned, found):
        advice = "Ask its author which is right; nothing was installed."
        raise PluginRefused(label, f"is not what was pinned: its SHA-256 is {found}, not {pinned}", advice)


def _refuse_taken(name: str, into: Path, *, replace: bool) -> None:
    bundled = bundled_directory()
    if bundled is not None and (bundled / name).exists():
        raise PluginRefused(name, "comes with this package, and no other one can have its name")
    if os.path.lexists(into / name) and not replace:
        raise PluginRefused(name, "is there already", "Put this one in its place with --replace.")


def _refuse_odd(content: PluginContent) -> None:
    if content.oddities:
        raise PluginRefused(content.name, f"is not installed: {content.oddities[0].message.rstrip('.')}")


@contextlib.contextmanager
def _workbench(place: Path) -> Iterator[Path]:
    """A directory beside the plugins in which nobody looks for one; gone afterwards, with all that is in it."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    bench = place / f".work-{secrets.token_hex(6)}"
    bench.mkdir(mode=0o700)
    try:
        yield bench
    finally:
        shutil.rmtree(bench, ignore_errors=True)


def _write(unpacked: PluginContent, root: Path) -> None:
    root.mkdir(mode=0o700)
    for path, data in unpacked.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with target.open("xb") as file:
            file.write(data)
        target.chmod(0o700 if path in unpacked.executable else 0o600)


def _put(made: Path, target: Path, bench: Path, *, replace: bool) -> None:
    old = bench / "replaced"
    if replace and os.path.lexists(target):
        with contextlib.suppress(CannotExchange):
            # In one step, so that a crash leaves one of the two; the old one goes with the bench.
            exchange(made, target.absolute())
            return
        target.rename(old)
    try:
        made.rename(target)
    except OSError as error:
        if os.path.lexists(old):
            with contextlib.suppress(OSError):
                old.rename(target)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise PluginRefused(target.name, "was installed by somebody else at the same moment") from error
        raise
