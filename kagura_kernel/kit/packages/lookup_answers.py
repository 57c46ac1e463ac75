"""What package registries answer, read into what is wanted of it. Pure, and nothing that they say is believed further.

Each function takes an answer and the version that was asked for, empty for the newest, and gives the exact version
with the addresses of its files. A newest version is never one that was taken back, and a pre-release only where there
is nothing else.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin


class NotFound(Exception):
    """The package, or this version of it, is not there; the text is half a sentence."""


class Unreadable(Exception):
    """An answer is not what such a registry answers."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is there."""

    version: str  # The exact one
    files: tuple[str, ...] = ()  # Addresses of its files


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of a release, as its forge tells of it."""

    name: str
    url: str  # Its address
    size: int  # Bytes
    sha256: str  # Its checksum in hex; empty where the forge does not say it


def read_simple(data: bytes, kind: str, address: str, name: str, asked: str) -> Published:
    """An index's page of one project (PEP 503 and 691).

    Args:
        data: The page.
        kind: Its media type.
        address: Where it came from; links may be relative to it.
        name: The project.
        asked: The version.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such page.
    """
    from packaging.version import InvalidVersion, Version

    files = _simple_json(data) if "json" in kind else _simple_html(data)
    versions: dict[Version, list[str]] = {}
    for filename, href, yanked in files:
        version = _version_of(filename)
        if version is not None and (not yanked or asked):
            versions.setdefault(version, []).extend(_joined(address, href))
    try:
        wanted = Version(asked) if asked else None
    except InvalidVersion:
        wanted = None
        versions = {}
    if wanted is None:
        wanted = max(versions, key=lambda one: (not one.is_prerelease, one), default=None)
    if wanted is None or wanted not in versions:
        raise NotFound(_missing(name, asked))
    return Published(str(wanted), tuple(versions[wanted]))


def read_npm(data: bytes, name: str, asked: str) -> Published:
    """An npm registry's document of one package.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such document.
    """
    document = _object(data)
    tags, versions = _table(document, "dist-tags"), _table(document, "versions")
    version = asked or "latest"
    version = str(tags.get(version, version))
    entry = versions.get(version)
    if not isinstance(entry, dict):
        raise NotFound(_missing(name, asked))
    return Published(version, tuple(_texts([_table(entry, "dist").get("tarball")])))


def read_go(data: bytes) -> Published:
    """What a module proxy says of a version.

    Raises:
        Unreadable: it is no such answer.
    """
    version = _object(data).get("Version")
    if not isinstance(version, str) or not re.fullmatch(r"v[0-9][A-Za-z0-9.+-]{0,127}", version):
        raise Unreadable("no version in it")
    return Published(version)


def read_crate(data: bytes, name: str, asked: str) -> Published:
    """A crate's lines of a sparse index.

    Raises:
        NotFound: it has no such version.
        Unreadable: it is no such file.
    """
    entries = [_object(line) for line in data.splitlines() if line.strip()]
    versions = [str(one.get("vers")) for one in entries if asked or not one.get("yanked")]
    if asked and asked not in versions:
        raise NotFound(_missing(name, asked))
    ordered = [(_semantic(one), one) for one in versions]
    newest = max(((order, one) for order, one in ordered if order is not None), default=None)
    if not asked and newest is None:
        raise NotFound(_missing(name, asked))
    return Published(asked or (newest[1] if newest else ""))


def read_release(data: bytes) -> tuple[str, tuple[ReleaseFile, ...]]:
    """A release: its tag and its files.

    Raises:
        Unreadable: it is no such answer.
    """
    document = _object(data)
    tag, listed = document.get("tag_name"), document.get("assets")
    if not isinstance(tag, str) or not isinstance(listed, list):
        raise Unreadable("no tag and no files in it")
    return tag, tuple(_release_files(listed))


def _release_files(listed: Sequence[Any]) -> Iterable[ReleaseFile]:
    for one in listed[:1000]:
        name, url = (one.get("name"), one.get("browser_download_url")) if isinstance(one, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(url, str) or not re.fullmatch(r"[A-Za-z0-9._+~@-]{1,200}", name):
            continue
        kind, _, digest = str(one.get("digest") or "").partition(":")
        known = kind == "sha256" and re.fullmatch(r"[0-9a-f]{64}", digest)
        size = one.get("size")
        yield ReleaseFile(name, url, size if isinstance(size, int) else 0, digest if known else "")


class _Anchors(HTMLParser):
    """The links of a page: their text, their address, and whether what they lead to was taken back."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            given = dict(attrs)
            href = given.get("href") or ""
            path = href.partition("#")[0].partition("?")[0]
            self.found.append((path.rpartition("/")[2], href, "data-yanked" in given))


def _simple_html(data: bytes) -> list[tuple[str, str, bool]]:
    from urllib.parse import unquote

    anchors = _Anchors()
    # The parser gives up with this on some malformed declarations; what came before them counts.
    with contextlib.suppress(AssertionError):
        anchors.feed(data.decode("utf-8", "replace"))
    return [(unquote(name), href, yanked) for name, href, yanked in anchors.found]


def _simple_json(data: bytes) -> list[tuple[str, str, bool]]:
    files = _object(data).get("files")
    if not isinstance(files, list):
        raise Unreadable("no list of files in it")
    return [
        (one["filename"], one["url"], bool(one.get("yanked")))
        for one in files
        if isinstance(one, dict) and isinstance(one.get("filename"), str) and isinstance(one.get("url"), str)
    ]


def _joined(address: str, href: str) -> Iterable[str]:
    """The address that a link leads to; nothing for a link that leads nowhere."""
    try:
        return [urljoin(address, href)]
    except ValueError:
        return []


def _version_of(filename: str) -> Any:
    from packaging.utils import parse_sdist_filename, parse_wheel_filename

    try:
        return parse_wheel_filename(filename)[1] if filename.endswith(".whl") else parse_sdist_filename(filename)[1]
    except ValueError:
        return None


def _semantic(text: str) -> tuple[bool, tuple[int, ...], str] | None:
    """What versions are compared by, pre-releases before all others; None for what is no version."""
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", text, re.ASCII)
    if found is None:
        return None
    return found[4] is None, (int(found[1]), int(found[2]), int(found[3])), found[4] or ""


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable("no JSON") from error
    if not isinstance(found, dict):
        raise Unreadable("no object")
    return found


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _texts(values: Iterable[Any]) -> Iterable[str]:
    return (one for one in values if isinstance(one, str))


def _missing(name: str, asked: str) -> str:
    return f"there is no version {asked} of {name}" if asked else f"there is no version of {name} that can be used"
