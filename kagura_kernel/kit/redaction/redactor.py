"""What finds secrets in texts, files and texts that come in pieces, and puts markers in their place."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from kagura_kernel.domain.commands import ByteFilter
from kagura_kernel.domain.kit import MARKER, marker
from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction import engine
from kagura_kernel.kit.redaction.chance import remembered
from kagura_kernel.kit.redaction.engine import KnownFormats
from kagura_kernel.kit.redaction.files import redacted_file, without_foreign_secrets
from kagura_kernel.kit.redaction.formats import PIECE
from kagura_kernel.kit.redaction.known_rules import FOLDER
from kagura_kernel.kit.redaction.names import Says, kind_of, says, secret
from kagura_kernel.kit.redaction.patterns import BETWEEN, Lazy, in_lines
from kagura_kernel.kit.redaction.rules.keys import is_seed_word
from kagura_kernel.kit.redaction.spans import Finding, Put, Redacted, RedactedFile, moved, put_markers, says_something
from kagura_kernel.kit.redaction.visible import as_shown, plainly_harmless

_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = late_pattern(
    r"(?P<open>\(|\[|\*\*|`|\"|'|)"
    r"(?:[A-Za-zÀ-ÖØ-öø-ɏ][a-zà-öø-ɏ]{0,23}(?:['’][a-z]{1,2})?|[A-Z]{1,12}s?|(?:[A-Z]++[a-z]*+){1,3}+|[a-z]{1,15}(?:[-_./][a-z]{1,15}){1,2}"
    r"|\d{1,5}(?:[.,/-]\d{1,5}){0,3}(?:%|[a-zA-Z]{1,3})?|)"
    r"(?P<close>[.,;:!?…]*(?:\)|\]|\*\*|`|\"|'|)[.,;:!?…]*)"
)
_SIGNS = late_pattern(r"[-–—*#•·+…✓✗✔✘→←▸▹■□█▉▊▋▌▍▎▏░▒▓|=.]{1,60}")
_ASIAN = late_pattern(rf"[{_CJK}。、，！？：；・ー（）]+")
_PIECES = late_pattern(r"\S+|\s+")
_STOP = late_pattern(
    r"(?i)echo|printf|seed|phrase|wallet|metamask|ledger|trezor|bip.?39|words|emergency|rescue|scratch|one-?time|2fa|mfa|codes?\b|account|"
    r"credential|kind\s*:|insert|copy|BEGIN|private|host|user|begin|コード|シード|助记词|ニーモニック|復元|リカバリ|恢复|备用"
)
_CLOSES = {"(": ")", "[": "]"}
_LONGEST_WORD = 40
_MOST_SEED_WORDS = 11
_BACK = 24
"""Characters before what is new that may belong to a word which stops."""


def plain_length(text: str, begin: int) -> int:
    """Up to where a text may be seen, whatever follows: to the end of a word, behind its space.

    Args:
        text: What came by now, a line or its beginning.
        begin: Up to where it has been seen already.

    Returns:
        A place from `begin` on; -1 when nothing more of this line may be seen before its end.
    """
    new = text[max(0, begin - _BACK) :]
    said = _STOP.search(new) is not None or says_something(new.encode("utf-8", "surrogatepass"))
    if said:
        return -1
    safe, at, seeds = begin, begin, 0
    for piece in _PIECES.findall(text[begin:]):
        at += len(piece)
        if piece.isspace():
            safe = at if not seeds else safe
            continue
        if at == len(text):
            break
        if not _plain(piece):
            return -1 if safe == begin else safe
        letters = piece.strip("\"'`*()[].,;:!?…")
        seeds = seeds + 1 if is_seed_word(letters) else seeds if not letters.isalpha() else 0
        if seeds > _MOST_SEED_WORDS:
            return -1
    return safe


def _plain(piece: str) -> bool:
    """Whether a word is one that neither is a secret nor part of one."""
    if len(piece) > _LONGEST_WORD and not _SIGNS.fullmatch(piece):
        return False
    if _SIGNS.fullmatch(piece) or _ASIAN.fullmatch(piece):
        return True
    found = _WORD.fullmatch(piece)
    if found is None:
        return False
    opened, closed = found["open"], found["close"].strip(".,;:!?…")
    return closed == _CLOSES.get(opened, opened)


_GOES_ON = Lazy(
    r"[\"'`][ \t]*(?:\+|\.|&|\\|,|\(|\|)?\s*$|\\\s*$|[:=([{,|>][-+]?\s*$|<[\w:.\-]+(?:\s[^<>]*)?>[^<>]*$|"
    r"\b(?:machine|login)\s+\S+\s*$|name[\"']?:\s*\S+\s*$|</(?:key|name|param-name)>\s*$"
)
"""A line that the next two may belong to: a literal, a value or an element that goes on, a pair."""
_LONG = Lazy(
    r"-BEGIN|private-lines|kind[\"']?\s*:\s*[\"']?secret\b|(?:recovery|backup|rescue|scratch|emergency).{0,20}(?:codes?|keys?)|"
    r"mnemonic|seed[ _-]?(?:phrase|words?)|\bseed\b[^\n]{0,20}:\s*$|(?:recovery|secret|backup|wallet|bip.?39)\b[^\n]{0,20}phrase|phrase\W*$|wiederherstellung|コード|助记词|シード|恢复|备用|insert\s+into|\bcopy\s+\S+\s*\(|"
    r"[\t,;|]\s*(?:pass(?:word|wd)?|pwd|secret|token|api[_ ]?key)|^\s*(?:pass(?:word|wd)?|secret|token|api[_ ]?key)\s*[\t,;|]|"
    r"^[ \t>#+|*\"']*[A-Za-z0-9+/]{20,80}={0,2}(?:\\n)?[\"']?,?\s*$|^[ \t\"']*\d{1,2}\s?[.):]\s*[a-z]{3,8}\s*$|\"kty\"|modulus"
)
"""A line that begins something longer: a key, a manifest, a table, a phrase."""
_OF_KEY = Lazy(r"(?:^|[^A-Za-z0-9+/])[A-Za-z0-9+/]{20,80}={0,2}\s*$")
"""A line of base64 behind whatever stands before the lines of a log; counts where a key has begun."""
_BINDS = late_pattern(r"[\"'`\\]|[A-Za-z0-9+/=]{16,}|^\s*\d{1,2}[.):]|<[^<>]+>\s*[^<>\s][^<>]*$")
"""What may be the first part of something longer: a literal, a line of base64, a numbered word, what an element holds."""
_LINES = late_pattern(r"[^\n\r]*[\n\r]")
_NEXT, _FAR = 2, 40
_MOST_HELD = 64 * 1024
_LONGEST_LINE = 256 * 1024
_LEFT = 8 * 1024
_MOST_WAITING = 512
"""Characters of words of an unfinished line that are looked at again when more comes."""


class RedactedStream:
    """One text that comes in pieces; what is given out never holds a secret that was cut over two of them.

    Whole lines are given out at once, and of an unfinished line its plain words, up to the first that could be part
    of a secret. Lines that may begin something longer (a key, a manifest, a literal that goes on) are held with what
    follows: two lines or forty, up to 64 KiB. A line without end is held up to 256 KiB. While the rules are not
    compiled, text that could hold a secret is held too; `finish` waits for them.

    Args:
        redact: Redacts one text.
        ready: Whether that answers at once.
    """

    def __init__(self, redact: Callable[[str], str], ready: Callable[[], bool]) -> None:
        self._redact = redact
        self._ready = ready
        self._due: list[str] = []
        self._open: list[str] = []
        self._open_size = 0
        self._more = 0
        self._partial: list[str] = []
        self._partial_size = 0
        self._shown = 0
        self._waits = False

    def feed(self, text: str) -> str:
        """What may be seen after this piece; whole lines come at once, the rest later.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for; nothing of this text may be shown.
        """
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        if end:
            whole = "".join([*self._partial, text[:end]])
            self._partial, self._partial_size = [], 0
            if not self._open and _stand_alone(whole):
                self._due.append(whole)
            else:
                for line in _LINES.findall(whole):
                    self._line(line)
        if end < len(text):
            self._partial.append(text[end:])
            self._partial_size += len(text) - end
            if self._partial_size > _LONGEST_LINE:
                self._cut()
        return self._given() + self._early()

    @property
    def waits_for_rules(self) -> bool:
        """Whether `finish` would wait for the rules: they are not compiled, and the rest could hold a secret."""
        rest = "".join([*self._due, *self._open, *self._partial])
        return not self._ready() and not plainly_harmless(rest.encode("utf-8", "surrogatepass"))

    def finish(self) -> str:
        """What was held back; called once, when the text has ended.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for; nothing of this text may be shown.
        """
        text = "".join([*self._due, *self._open, *self._partial])
        self._due, self._open, self._partial = [], [], []
        return self._rest(text) if text else ""

    def _line(self, line: str) -> None:
        """Decide whether a line may go, or waits for what follows it."""
        data = line.encode("utf-8", "surrogatepass")
        view = as_shown(data)
        self._open.append(line)
        self._open_size += len(line)
        # What stands apart from a line (a title, the address of a link) has an end of its own.
        seen = [data] if view is None else view.data.split(BETWEEN)
        further = max(map(self._further, seen))
        ends = "-END" in line
        # The second half of a line's end in two signs is no line.
        self._more = 0 if ends else max(self._more - (line != "\n"), further)
        if not self._more or self._open_size > _MOST_HELD:
            self._due += self._open
            self._open, self._open_size, self._more = [], 0, 0

    def _further(self, data: bytes) -> int:
        """How many lines may belong to this one."""
        if _LONG.search(data) is not None or (self._more > _NEXT and _OF_KEY.search(data) is not None):
            return _FAR
        return _NEXT if _goes_on(data) else 0

    def _cut(self) -> None:
        """Give a line without end a cut, at a space if there is one; what is left is longer than any token."""
        text = "".join(self._partial)
        at = len(text) - _LEFT
        space = text.rfind(" ", at // 2, at)
        at = space + 1 if space >= 0 else at
        self._due += [*self._open, text[:at]]
        self._open, self._open_size, self._more = [], 0, 0
        self._partial, self._partial_size = [text[at:]], len(text) - at

    def _given(self) -> str:
        if not self._due:
            return ""
        text = "".join(self._due)
        if not self._ready() and not plainly_harmless(text.encode("utf-8", "surrogatepass")):
            return ""
        self._due = []
        return self._rest(text)

    def _rest(self, text: str) -> str:
        """What of a whole text was not seen yet."""
        begin, self._shown, self._waits = self._shown, 0, False
        clean = self._redact(text)
        # What was seen stays what it is; should it not, nothing of what has gone is shown with the rest.
        if clean.startswith(text[:begin]):
            return clean[begin:]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(clean, text[:begin], strict=False))
        return clean[sum(1 for _ in same) :]

    def _early(self) -> str:
        """The plain words of a line that has not ended; a line that only what follows can matter to."""
        if self._due or self._waits:
            return ""
        if self._open:
            return self._announced()
        if not self._partial:
            return ""
        text = "".join(self._partial)
        self._partial = [text]
        end = plain_length(text, self._shown)
        self._waits = end < 0 or len(text) - end > _MOST_WAITING
        shown = text[self._shown : max(end, self._shown)]
        self._shown += len(shown)
        return shown

    def _announced(self) -> str:
        """The first line that is held, when it has nothing of a secret in itself: that may begin in the next one."""
        self._waits = self._ready()
        line = self._open[0]
        binds = _BINDS.search(line) is not None or is_seed_word(line.rstrip().rpartition(" ")[2])
        if not self._waits or binds or self._redact(line) != line:
            return ""
        shown = line[self._shown :]
        self._shown += len(shown)
        return shown


def _goes_on(line: bytes) -> bool:
    """Whether the next lines may belong to this one, and something in it speaks of a secret."""
    return _GOES_ON.search(line) is not None and says_something(line)


def _stand_alone(lines: str) -> bool:
    """Whether no line may belong to another; looking at them one by one would take many times as long."""
    if "\r" in lines:
        return False
    data = lines.encode("utf-8", "surrogatepass")
    if as_shown(data) is not None or in_lines(_LONG).search(data) is not None:
        return False
    return in_lines(_GOES_ON).search(data) is None or not says_something(data)


class RedactedBytes:
    """One stream of bytes: UTF-8 is redacted as text, other bytes pass as they are.

    Args:
        stream: Its text.
        wait: Returns when the rules are compiled.
    """

    def __init__(self, stream: RedactedStream, wait: Callable[[], None]) -> None:
        self._stream = stream
        self._wait = wait
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> bytes:
        """What may be seen after these bytes; the rest comes later."""
        return self._stream.feed(self._decoder.decode(data)).encode("utf-8", "surrogateescape")

    async def ready(self) -> None:
        """Wait, beside the loop, for the rules, where what is held back could hold a secret.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for; nothing of what is held back may be shown.
        """
        if self._stream.waits_for_rules:
            await asyncio.to_thread(self._wait)

    def finish(self) -> bytes:
        """What was held back; called once, when the stream has ended."""
        last = self._stream.feed(self._decoder.decode(b"", final=True))
        return (last + self._stream.finish()).encode("utf-8", "surrogateescape")


_DEEPEST = 200


def redacted_fields(value: Any, redact: Callable[[str], str], depth: int = 0) -> Any:
    """The same value without secrets in its texts, keys too; the very same object when there was none.

    Raises:
        RecursionError: It is nested deeper than 200.
    """
    if depth > _DEEPEST:
        raise RecursionError(f"values nested deeper than {_DEEPEST} are not looked through")
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        clean = redact(value)
        return value if clean == value else clean
    if isinstance(value, Mapping):
        return _mapping(value, redact, depth)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        new = [redacted_fields(item, redact, depth + 1) for item in value]
        if all(after is before for after, before in zip(new, value, strict=True)):
            return value
        return new if isinstance(value, list) else tuple(new)
    return value


def _mapping(value: Mapping[Any, Any], redact: Callable[[str], str], depth: int) -> Any:
    new: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        clean = redacted_fields(key, redact, depth + 1) if isinstance(key, str) else key
        after = _behind(key, item) if isinstance(key, str) and isinstance(item, str) else item
        if after is item:
            after = redacted_fields(item, redact, depth + 1)
        changed = changed or after is not item or clean is not key
        new[clean] = after
    return new if changed else value


def _behind(key: str, item: str) -> str:
    """A text behind a key that says secret is one with fewer doubts."""
    name, text = key.encode("utf-8", "replace"), item.encode("utf-8", "replace")
    what = says(name)
    if what is Says.NOTHING or MARKER.search(item) or "\n" in item or not secret(what, name, text):
        return item
    return marker(kind_of(what, name))


_PASSES = 3
"""How often a text is looked through at most; the second time there is mostly nothing left."""


class Redactor:
    """Replaces secrets by `[REDACTED:<kind>]`. Safe to share between threads.

    Args:
        cache_dir: Where compiled rules are kept for the next process, made as 0700; None keeps none.
    """

    def __init__(self, cache_dir: Path | None = None) -> None:
        self._formats = KnownFormats(cache_dir)

    def warm(self) -> None:
        """Begin to compile the rules in a thread; returns at once, and again does nothing."""
        self._formats.warm()

    @property
    def ready(self) -> bool:
        """Whether the rules are compiled, so that nothing waits."""
        return self._formats.ready

    def wait(self) -> None:
        """Return when the rules are compiled; begins to compile them if nobody has.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        self._formats.scan(b"")

    def redact(self, text: str) -> Redacted:
        """The text without its secrets; waits for the rules if it could hold one.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return self._redact(text, "")

    def _redact(self, text: str, name: str) -> Redacted:
        data = text.encode("utf-8", "surrogatepass")
        if plainly_harmless(data):
            return Redacted(text)
        with remembered():
            clean, puts = self._clean(data, name)
        if not puts:
            return Redacted(text)
        return Redacted(clean.decode("utf-8", "surrogatepass"), _findings(clean, puts))

    def redact_file(self, data: bytes, name: str) -> RedactedFile:
        """A file without its secrets, in the encoding it has.

        Args:
            data: All of it.
            name: What it is called; the suffix and well-known names say what it is.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return redacted_file(data, name, lambda text: self._redact(text, name))

    def stream(self) -> RedactedStream:
        """For one text that comes in pieces."""
        return RedactedStream(self._piece, lambda: self.ready)

    def _piece(self, text: str) -> str:
        return self._redact(text, PIECE).text

    def byte_filter(self) -> ByteFilter:
        """For one stream of bytes, such as what a command prints."""
        return RedactedBytes(
            RedactedStream(lambda text: without_foreign_secrets(self._piece(text), self._piece), lambda: self.ready),
            self.wait,
        )

    def fields(self, value: Any) -> Any:
        """The same value without secrets in its texts, keys too; the very same object when there was none.

        Mappings become dicts, lists lists and tuples tuples; numbers, bytes, None and enumeration members stay.
        A text behind a key that says secret is judged with that key.

        Raises:
            RedactionUnavailable: Secrets cannot be looked for, so nothing may be shown.
        """
        return redacted_fields(value, lambda text: self.redact(text).text)

    def _clean(self, data: bytes, name: str) -> tuple[bytes, list[Put]]:
        """Until nothing is found any more: what stood beside a secret may look like another once it is gone."""
        puts: list[Put] = []
        new: list[Put] = []
        for _ in range(_PASSES):
            near = [(put.start, put.end) for put in new]
            spans = engine.find(data, self._formats.scan, name, near)
            if not spans:
                break
            data, new = put_markers(data, spans)
            puts = sorted([*moved(puts, spans, new), *new], key=lambda put: put.start)
        return data, puts


def _findings(data: bytes, puts: list[Put]) -> tuple[Finding, ...]:
    """Places in bytes as lines and characters; one walk through the text."""
    findings = []
    at = characters = 0
    line = 1
    for put in puts:
        between = data[at : put.start]
        line += between.count(b"\n")
        characters += len(between.decode("utf-8", "surrogatepass"))
        findings.append(Finding(put.kind, line, characters, characters + put.end - put.start))
        at = put.start
    return tuple(findings)


@cache
def redactor_in(home: Path) -> Redactor:
    """The redactor that keeps its compiled rules below this data directory; cheap until it is used."""
    return Redactor(home / FOLDER)
