"""Brings a plugin into the user's own place, and takes one away again. Installing enables and approves nothing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from kagura_kernel.domain.errors import PluginInvalid, PluginRefused, UnknownName, UsageError
from kagura_kernel.plugins.archives import MAX_ARCHIVE_BYTES, NotUnpacked, Unpacked, unpack
from kagura_kernel.plugins.content import MANIFEST, read_content
from kagura_kernel.plugins.discovery import Found, load_found
from kagura_kernel.plugins.fetching import NOT_HTTPS, fetch_archive
from kagura_kernel.plugins.manifest import parse_manifest
from kagura_kernel.plugins.places import bundled_directory

Fetch = Callable[[str], bytes]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII | re.IGNORECASE)


def install(source: str, sha256: str | None, into: Path, fetch: Fetch | None = None, *, replace: bool = False) -> Found:
    """Copy a plugin into a place; it is then there, and nothing more.

    Args:
        source: A directory, a `.zip` or `.tar.gz` file, or the `https://` address of one.
        sha256: What the archive's SHA-256 must be; of a directory, its content hash. Needed for archives.
        into: The place; made if it is not there.
        fetch: Gives the bytes behind an address; None asks the network.
        replace: Whether one of the same name makes way.

    Raises:
        UsageError: there is no such source, or the hash is missing or none.
        PluginInvalid: it is no plugin.
        PluginRefused: its hash is another one, it holds what no plugin may hold, or its name is taken.
    """
    pinned = _pinned(sha256)
    label, unpacked = _unpacked(source, pinned, fetch or fetch_archive)
    if MANIFEST not in unpacked.files:
        raise PluginInvalid(label, [f"there is no {MANIFEST}"])
    name = _name_in(unpacked.files[MANIFEST], label)
    _refuse_taken(name, into, replace=replace)
    try:
        with _workbench(into) as bench:
            made = bench / name
            _write(unpacked, made)
            found = load_found(made, "user")
            _refuse_odd(found)
            _put(made, into / name, bench, replace=replace)
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise PluginRefused(name, f"cannot be put into {into}: {why}") from error
    return load_found(into / name, "user")


def remove(name: str, place: Path) -> None:
    """Delete one plugin of a place, usable or not; of one that is a link, the link alone.

    Raises:
        UnknownName: it is not there.
        PluginRefused: it cannot be deleted.
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
        why = (error.strerror or "unknown reason").lower()
        raise PluginRefused(name, f"cannot be deleted: {why}") from error


def _name_in(manifest: bytes, label: str) -> str:
    """The name that a manifest gives, whatever the directory is called that it came in."""
    try:
        return parse_manifest(manifest, None).name
    except PluginInvalid as error:
        raise PluginInvalid(label, error.problems) from error


def _pinned(sha256: str | None) -> str:
    if sha256 is None:
        return ""
    found = _SHA256.fullmatch(sha256.strip())
    if found is None:
        raise UsageError("--sha256 takes the 64 hexadecimal digits of a SHA-256.")
    return found[1].lower()


def _unpacked(source: str, pinned: str, fetch: Fetch) -> tuple[str, Unpacked]:
    """What to call the source in errors, and the files in it, once its hash is the pinned one."""
    path = Path(source).expanduser()
    if not _URL.match(source) and path.is_dir():
        return _from_directory(path, pinned)
    if not _URL.match(source) and not path.exists():
        raise UsageError(f"There is nothing to install at {path}: no such file or directory.")
    label = source.rstrip("/").rpartition("/")[2].partition("?")[0][:80] or "archive"
    if _URL.match(source):
        _check_https(source, label)
    if not pinned:
        raise UsageError(
            f"{label} is an archive: name its SHA-256 with --sha256 HASH, as its author published it, so that it is "
            "the one that you mean."
        )
    try:
        data = fetch(source) if _URL.match(source) else _read_archive(path)
        _compare(label, pinned, hashlib.sha256(data).hexdigest())
        return label, unpack(data)
    except NotUnpacked as error:
        raise PluginRefused(label, str(error)) from error


def _check_https(source: str, label: str) -> None:
    """Refuse an address that would not be fetched, before anybody looks for its hash."""
    if not source.lower().startswith("https://"):
        raise PluginRefused(label, NOT_HTTPS)


def _from_directory(path: Path, pinned: str) -> tuple[str, Unpacked]:
    content = read_content(path)
    if content.oddities:
        raise PluginRefused(content.name, f"is not installed: {content.oddities[0].message.rstrip('.')}")
    if pinned:
        _compare(content.name, pinned, content.content_hash)
    return content.name, Unpacked(dict(content.files), set(content.executable))


def _read_archive(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_ARCHIVE_BYTES + 1)
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise UsageError(f"There is nothing to install at {path}: {why}.") from error


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


def _refuse_odd(found: Found) -> None:
    if found.content.oddities:
        raise PluginRefused(found.name, f"is not installed: {found.content.oddities[0].message.rstrip('.')}")


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


def _write(unpacked: Unpacked, root: Path) -> None:
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
