"""The scanner for known formats: compiled once, in a thread, by one process at a time, kept on disk for the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.kit.redaction.places import Span
from kagura_kernel.kit.redaction.values import is_word, placeholder, published

LOCK = ".compiling"
_LOOK_SECONDS = 0.05


@contextlib.contextmanager
def turn(folder: Path, patience: float) -> Iterator[None]:
    """Let another process finish what it compiles in this folder, so that its rules are found; then it is our turn.

    Args:
        folder: Where compiled rules are kept; it is there.
        patience: Seconds. A slow one is not waited for longer: compiling twice does no harm. Nor does a folder
            without locks.
    """
    descriptor = _opened(folder)
    try:
        end = time.monotonic() + patience
        while descriptor is not None and not _taken(descriptor) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_taken(folder: Path) -> bool:
    """Whether a process compiles there now; makes nothing."""
    if not (folder / LOCK).exists() or (descriptor := _opened(folder)) is None:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None


def _taken(descriptor: int) -> bool:
    """Take the lock; False while another process has it. A file system without locks counts as taken by us."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


_NOT_SECRET = re.compile(
    r"(?:client-id|user-api-id|access-id|account-id|key-id|token-id|app-id|application-id|tenant-id|account-name|cloud-name|token-name|"
    r"browserstack-username|-host|-url|-domain|-address|pub-key|public-key|pub-api-key|client-key|planetscale-id|service-account-id|"
    r"-repository|jfrog-url|project-url|public-api-token)$"
)
"""Rules for what goes with a secret and is none; webhooks are their own secret."""
_SECRET_ANYWAY = frozenset({"betterleaks.slack-webhook-url", "betterleaks.aws-access-token"})
_OURS = frozenset(
    {
        "betterleaks.private-key",
        "betterleaks.kubernetes-secret-yaml",
        "betterleaks.jwt",
        "betterleaks.generic-credential-uri",
        "betterleaks.curl-auth-user",
        "betterleaks.curl-auth-header",
        "betterleaks.nuget-config-password",
    }
)
"""What our own rules judge with more care: the frame of a key, the examples of standards, placeholders."""
_INNER = re.compile(rb"(?i);(?:sharedaccesskey|accountkey|password|pwd)=([^;\"'\s]+)")
"""What is secret in a connection string; some rules take all of it."""

_PATIENCE = 6.0
"""Seconds that another process which compiles the same rules is waited for; a little more than it takes."""
_PIECE = 64 * 1024
"""Bytes that it is shown at once."""
_MARGIN = 2 * 1024
"""Bytes on both sides that it is shown with them: no known format is longer, nor are its parts further from each other."""


class KnownFormats:
    """Finds what has a known format. Safe to share between threads.

    Args:
        cache_dir: Where the compiled rules are kept, made as 0700; None keeps none.
    """

    def __init__(self, cache_dir: Path | None) -> None:
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._scanner: Any = None
        self._failure = ""

    def warm(self) -> None:
        """Begin to compile; returns at once, and again does nothing unless it failed."""
        with self._lock:
            if self._thread is not None and not (self._done.is_set() and self._failure):
                return
            self._failure = ""
            self._done.clear()
            self._thread = threading.Thread(target=self._compile, name="kagura-redaction", daemon=True)
            self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether a scan answers at once."""
        return self._done.is_set() and self._scanner is not None

    def scan(self, data: bytes) -> Sequence[Span]:
        """What is known of a text of UTF-8; waits until the rules are compiled.

        Raises:
            RedactionUnavailable: They cannot be.
        """
        if not self._done.is_set():
            self.warm()
            self._done.wait()
        if self._scanner is None:
            raise RedactionUnavailable(self._failure)
        return list(_spans(self._scanner, data))

    def _compile(self) -> None:
        try:
            self._scanner = _scanner(self._cache_dir)
        # The library is native: whatever it raises, nothing may be shown without it.
        except Exception as error:  # noqa: BLE001
            self._failure = f"{type(error).__name__} while its rules were compiled"
        self._done.set()


_kept: list[Any] = []
_keeping = threading.Lock()


def _scanner(cache_dir: Path | None) -> Any:
    """The one of this process: its rules are the same wherever they are kept, and reading them again takes long."""
    with _keeping:
        if not _kept:
            _kept.append(_compiled(cache_dir))
        return _kept[0]


def _compiled(cache_dir: Path | None) -> Any:
    from kingfisher_sdk import Rules, Scanner

    if cache_dir is None:
        return Scanner(Rules(cache=False), base64=False)
    cache_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The library takes no rules from a place behind a link, and a person's data directory may be one.
    place = os.path.realpath(cache_dir)
    with turn(cache_dir, _PATIENCE):
        # What base64 means is looked at here, with the rules for what a word nearby gives away.
        return Scanner(Rules(cache_dir=place), base64=False)


def _spans(scanner: Any, data: bytes) -> Iterator[Span]:
    """What it finds in a text, which it is shown piece by piece: what it needs for one finding grows with the text."""
    for start, end in _pieces(data):
        low = max(0, start - _MARGIN)
        for found in scanner.scan(data[low : end + _MARGIN]):
            span = _span(data, low, found)
            if span is not None and start <= span.start < end:
                yield span


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    """Parts of a text that are together all of it, each up to a line's end if there is one."""
    at = 0
    while len(data) - at > _PIECE:
        end = data.rfind(b"\n", at + _PIECE // 2, at + _PIECE) + 1 or at + _PIECE
        yield at, end
        at = end
    yield at, len(data)


def _span(data: bytes, shift: int, found: Any) -> Span | None:
    rule = found.rule_id
    if not _judged(rule):
        return None
    place = found.location
    start, end = shift + place["start_offset"], shift + place["end_offset"]
    value = data[start:end]
    # The values of a whole document are judged by their names.
    inner = _INNER.search(value)
    if inner is not None:
        start, end, value = start + inner.start(1), start + inner.end(1), inner[1]
    if value.startswith(b"{") or placeholder(value) or published(value) or is_word(value) or len(value) < 6:
        return None
    return Span(start, end, kind(rule))


@cache
def _judged(rule: str) -> bool:
    """Whether what this rule finds is a secret, and none that our own rules judge."""
    return rule not in _OURS and (rule in _SECRET_ANYWAY or _NOT_SECRET.search(rule) is None)


@cache
def kind(rule: str) -> str:
    """The kind in the marker of what a rule of the scanner found: `betterleaks.github-pat` is `github-pat`."""
    name = re.sub(r"[^a-z0-9]+", "-", rule.rpartition(".")[2].rpartition("/")[2].lower()).strip("-")
    return name if name[:1].isalpha() else f"key-{name}"
