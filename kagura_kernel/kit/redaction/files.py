"""Files: what encoding a file is in, what must not be looked into, and its text without secrets."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from kagura_kernel.domain.kit import MARKER
from kagura_kernel.kit.redaction.spans import Finding, Redacted, RedactedFile

_URL = bytes.maketrans(b"-_", b"+/")
_MOST = 16 * 1024
"""Bytes of base64 that are looked into: a secret is short."""


def decoded(value: bytes) -> bytes | None:
    """What this base64 of either alphabet means, with or without padding; None when it is none."""
    if not 4 <= len(value) <= _MOST:
        return None
    plain = value.rstrip(b"=").translate(_URL)
    if len(plain) % 4 == 1:
        return None
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def decoded_text(value: bytes) -> bytes | None:
    """Likewise, when it means text; judged by its beginning first, so that pictures cost little."""
    head = decoded(value[:16])
    if head is None or not _text(head):
        return None
    whole = decoded(value)
    return whole if whole is not None and _text(whole) else None


def _text(data: bytes) -> bool:
    return all(32 <= byte < 127 or byte in (9, 10, 13) for byte in data)


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(rb"(?:coding[:=][ \t]*|encoding[ \t]*=[ \t]*[\"']|charset[ \t]*=[ \t]*[\"']?)([-\w.]{2,30})")
_EAST = ("shift_jis", "euc_jp", "gb18030", "cp932", "big5", "euc_kr")
_JAPANESE = frozenset({"shift_jis", "euc_jp", "cp932"})
_CYRILLIC = ("cp1251", "koi8_r", "cp866")
_CYRILLIC_WORD = re.compile("[\u0430-\u044f]{3,}")
"""Read in another encoding, small letters become capitals or signs; a Western text has no such letters in a row."""
_MISTAKEN = frozenset({*_EAST, *_CYRILLIC, "cp1252", "latin-1"})
_POSSIBLE = 0.25
_ONE_OF_MANY = 0.5
_SHORT, _LONG = 4096, 64 * 1024
_SWITCHES = re.compile(rb"\x1b\$[@B]|\x1b\(J")
"""What begins letters of Japanese in seven bits."""
_CONTROLS = frozenset(range(32)) - {7, 8, 9, 10, 11, 12, 13, 27}
_SAMPLE = 1 << 20


def encoding_of(data: bytes) -> str | None:
    """Python's name of the encoding in which these bytes are text and come back as they were; None when there is none."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name if _reads(data, name) else None
    if in_seven_bits(data):
        return "iso2022_jp"
    wide = _wide(data)
    if _reads(data, "utf-8"):
        return wide or (None if b"\x00" in data else "utf-8")
    if wide is not None or any(byte in _CONTROLS for byte in set(data[:_SAMPLE])):
        return wide
    western = (name for name in ("cp1252", "latin-1") if _reads(data, name))
    return _declared(data) or _of_its_language(data) or next(western, None)


def _declared(data: bytes) -> str | None:
    """The encoding that a text says it has, if that is true."""
    declared = _DECLARED.search(data, 0, 1000)
    if declared is not None:
        with suppress(LookupError):
            name = codecs.lookup(declared.group(1).decode()).name
            return name if _reads(data, name) else None
    return None


def is_plain(data: bytes) -> bool:
    """Whether all of it is ordinary text in UTF-8, whatever its first bytes look like."""
    return _reads(data, "utf-8") and not any(byte in _CONTROLS for byte in set(data))


def in_seven_bits(data: bytes) -> bool:
    """Whether this is Japanese in bytes of ASCII, as mails have it."""
    return _SWITCHES.search(data) is not None and _reads(data, "iso2022_jp")


def possible_encodings(data: bytes) -> tuple[str, ...]:
    """Every encoding in which a piece of something may be text: there is too little of it to tell which one it is."""
    if b"\x00" in data:
        wide = _wide(data)
        return (wide,) if wide is not None else ()
    if any(byte in _CONTROLS for byte in set(data)):
        return ()
    if in_seven_bits(data):
        return ("iso2022_jp",)
    western = ("cp1252",) if _reads(data, "cp1252") else ()
    return *other_encodings(data, "cp1252"), *western


def other_encodings(data: bytes, best: str) -> tuple[str, ...]:
    """Further encodings in which these bytes are text of another language, for which the best one could be mistaken."""
    if best not in _MISTAKEN:
        return ()
    sample = data[:_SHORT]
    readable = [name for name in (*_EAST, *_CYRILLIC) if name != best and _reads(data, name)]
    return tuple(name for name in readable if _score(sample.decode(name, "ignore"), name) > _POSSIBLE)


def _wide(data: bytes) -> str | None:
    """UTF-16 or 32 without a mark, by where its zeros are."""
    sample = data[:4096]
    zeros = sample.count(0)
    if not zeros:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    order = ("le", "be") if odd >= even else ("be", "le")
    for name, width in [(f"utf-{size * 8}-{end}", size) for size in (4, 2) for end in order]:
        if len(data) % width == 0 and _reads(data, name):
            text = data.decode(name)
            # With few zeros it is a language that needs both bytes of most letters, or no text at all.
            few = zeros * 5 < len(sample)
            if not any(ord(letter) in _CONTROLS for letter in set(text)) and (not few or _written(text[:2048])):
                return name
    return None


def _written(text: str) -> bool:
    """Whether these are letters of East Asia, or of ASCII."""
    good = sum(letter.isascii() or _weight(ord(letter)) >= _ONE_OF_MANY for letter in text)
    return good >= len(text) * 0.95


def _reads(data: bytes, name: str) -> bool:
    """Whether these bytes are text in that encoding and come back the same."""
    try:
        return data.decode(name).encode(name) == data
    except (UnicodeError, LookupError):
        return False


def _of_its_language(data: bytes) -> str | None:
    """The encoding in which the text reads best, when it is one of East Asia or a Cyrillic one."""
    best, most = None, 0.6
    for name in (*_EAST, *_CYRILLIC):
        if not _reads(data, name):
            continue
        score = _score(data[:_LONG].decode(name, "ignore"), name)
        if score > most:
            best, most = name, score
    return best


def _score(text: str, name: str) -> float:
    """Which share of the letters outside ASCII are ones that texts in this encoding are full of."""
    other = [letter for letter in text if ord(letter) > 127]
    if not other:
        return 0.0
    if name in _CYRILLIC:
        return sum(map(len, _CYRILLIC_WORD.findall(text))) / len(other)
    score = sum(_weight(ord(letter)) for letter in other) / len(other)
    kana = any("\u3041" <= letter <= "\u30ff" for letter in other)
    # Hardly a Japanese sentence does without them, and Chinese and Korean ones read as kanji alone.
    return score if kana or name not in _JAPANESE else score * 0.8


def _weight(point: int) -> float:
    if 0x3041 <= point <= 0x30FF:
        return 1.0
    if 0x3000 <= point <= 0x303F or 0xFF01 <= point <= 0xFF5E:
        return 0.95
    if 0x4E00 <= point <= 0x9FFF:
        return 0.9 if _common(point) else 0.55
    if 0xAC00 <= point <= 0xD7A3:
        return 0.9
    # Half-width kana are what Western texts look like in Shift-JIS.
    return -0.5 if 0xFF61 <= point <= 0xFF9F else 0.0


def _common(point: int) -> bool:
    """Whether this character is of the everyday ones: the first level of the Japanese and Chinese standards."""
    letter = chr(point)
    for name, low, high in (("gb2312", 0xB0, 0xD7), ("shift_jis", 0x88, 0x97)):
        with suppress(UnicodeError):
            if low <= letter.encode(name)[0] <= high:
                return True
    return False


_ODD = re.compile("[\udc80-\udcff]")
"""A byte that is no UTF-8, as `surrogateescape` decodes it."""
_LINES = re.compile("[^\n]*\n|[^\n]+")
_WIDEST = 4


def without_foreign_secrets(text: str, redact: Callable[[str], str]) -> str:
    """A text in which bytes of another encoding stand for what they are, without the secrets around them.

    Args:
        text: UTF-8 decoded with `surrogateescape`, looked through as such.
        redact: Redacts one text.
    """
    if "\x00" in text:
        return _media_text(_media_wide(_bytes(text), redact))
    if text.isascii():
        return _media_text(_foreign_redacted(_bytes(text), redact)) if "\x1b$" in text else text
    if _ODD.search(text) is None:
        return text
    return "".join(
        _media_text(_foreign_redacted(_bytes(lines), redact)) if _ODD.search(lines) is not None else lines
        for lines in _groups(text)
    )


def _groups(text: str) -> Iterator[str]:
    """The text cut between lines of UTF-8 and lines of something else; those of ASCII go with what they follow."""
    group: list[str] = []
    odd: bool | None = None
    for line in _LINES.findall(text):
        kind = None if line.isascii() else _ODD.search(line) is not None
        if kind is not None and odd is not None and kind != odd:
            yield "".join(group)
            group = []
        odd = odd if kind is None else kind
        group.append(line)
    yield "".join(group)


def _foreign_redacted(data: bytes, redact: Callable[[str], str]) -> bytes:
    for encoding in possible_encodings(data):
        text = data.decode(encoding)
        clean = redact(text)
        if clean != text:
            data = clean.encode(encoding)
    return data


def _media_wide(data: bytes, redact: Callable[[str], str]) -> bytes:
    """The same for two or four bytes to a letter; a line's end may have cut the first or the last one."""
    for skipped in range(_WIDEST):
        whole = len(data) - (len(data) - skipped) % _WIDEST
        for end in {whole, len(data) - (len(data) - skipped) % 2}:
            clean = _foreign_redacted(data[skipped:end], redact)
            if clean != data[skipped:end]:
                return data[:skipped] + clean + data[end:]
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _media_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


_MEDIA: tuple[tuple[int, bytes], ...] = (
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),
    (0, b"GIF87a"),
    (0, b"GIF89a"),
    (0, b"BM"),
    (0, b"II*\x00"),
    (0, b"MM\x00*"),
    (0, b"\x00\x00\x01\x00"),
    (0, b"\x00\x00\x02\x00"),
    (0, b"wOFF"),
    (0, b"wOF2"),
    (0, b"OTTO"),
    (0, b"\x00\x01\x00\x00\x00"),
    (0, b"true\x00"),
    (0, b"ttcf"),
    (0, b"%PDF-"),
    (0, b"OggS"),
    (0, b"fLaC"),
    (0, b"ID3"),
    (0, b"\xff\xfb"),
    (0, b"\xff\xf3"),
    (0, b"\xff\xf2"),
    (0, b"\x1aE\xdf\xa3"),
    (4, b"ftyp"),
    (0, b"FLV\x01"),
    (0, b"8BPS"),
    (0, b"MThd"),
    (0, b"\x00\x00\x00\x0cJXL "),
    (0, b"\xff\x0a"),
    (0, b"\x00\x00\x00\x0cjP  "),
    (0, b"#!AMR"),
    (0, b"icns"),
)
_RIFF = frozenset({b"WEBP", b"WAVE", b"AVI "})
_CONTAINERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive"), (0, b"PK\x05\x06", "a zip archive"), (0, b"PK\x07\x08", "a zip archive"), (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"BZh", "compressed with bzip2"), (0, b"\xfd7zXZ\x00", "compressed with xz"), (0, b"\x28\xb5\x2f\xfd", "compressed with zstd"), (0, b"\x04\x22\x4d\x18", "compressed with lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (0, b"Rar!\x1a\x07", "a rar archive"), (257, b"ustar", "a tar archive"), (0, b"!<arch>\n", "an archive of objects"),
    (0, b"SQLite format 3\x00", "a database"), (0, b"\x7fELF", "a program"), (0, b"MZ", "a program"), (0, b"\xcf\xfa\xed\xfe", "a program"), (0, b"\xca\xfe\xba\xbe", "a program"),
    (0, b"PAR1", "a table in Parquet"), (0, b"ARROW1", "a table in Arrow"), (0, b"\x89HDF\r\n", "a table in HDF5"), (0, b"\x93NUMPY", "an array of NumPy"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document"), (0, b"\x00asm", "a program"), (0, b"\xfe\xed\xfe\xed", "a key store"), (0, b"\x80\x04\x95", "a pickle"),
)  # fmt: skip


def is_media(data: bytes) -> bool:
    """Whether this is a picture, a font, a PDF, a sound or a film."""
    if data[:4] == b"RIFF":
        return data[8:12] in _RIFF
    if data[:2] == b"BM":
        return len(data) > 26 and int.from_bytes(data[2:6], "little") == len(data)
    return any(data.startswith(magic, at) for at, magic in _MEDIA)


def container(data: bytes) -> str:
    """What kind of archive, database or program this is, as the end of "it is …"; empty for anything else."""
    for at, magic, name in _CONTAINERS:
        if data.startswith(magic, at) and (magic != b"MZ" or b"\x00" in data[:64]):
            return name
    return ""


_SECRET_STORES = (".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".bks", ".jceks")
_LEGIBLE = re.compile(rb"[\t\n\r -~]{8,}")
_SEPARATOR = b"\n\x00\n"


def redacted_file(data: bytes, name: str, redact: Callable[[str], Redacted]) -> RedactedFile:
    """A file without its secrets, or why it must be left out.

    Raises:
        RedactionUnavailable: Secrets cannot be looked for.
    """
    if name.lower().endswith(_SECRET_STORES):
        return RedactedFile(None, reason="it is a key store")
    if what := container(data):
        return RedactedFile(None, reason=f"it is {what}, which is not looked into")
    # A note that begins with the letters of a sound or a page is a note.
    if is_media(data) and not is_plain(data):
        if redact(_SEPARATOR.join(_LEGIBLE.findall(data)).decode("ascii")).findings:
            return RedactedFile(None, reason="a secret stands legibly in it, and it is no text that could be changed")
        return RedactedFile(data)
    encoding = encoding_of(data)
    if encoding is None:
        return RedactedFile(None, reason="it is neither text nor a known kind of media")
    clean, findings = _redacted(data, encoding, encoding, redact)
    for other in other_encodings(data, encoding):
        clean, more = _redacted(clean, other, encoding, redact, findings)
        findings = more
    return RedactedFile(clean, findings, encoding)


def _redacted(
    data: bytes, encoding: str, counted: str, redact: Callable[[str], Redacted], before: tuple[Finding, ...] = ()
) -> tuple[bytes, tuple[Finding, ...]]:
    """The bytes without what is found in them read in one encoding; places are counted as in another."""
    redacted = redact(data.decode(encoding))
    if not redacted.findings:
        return data, before
    clean = redacted.text.encode(encoding)
    if encoding == counted:
        return clean, redacted.findings
    # The kinds are known of all markers; their places are those in the text as it is counted.
    text = clean.decode(counted)
    kinds = Counter(finding.kind for finding in (*before, *redacted.findings))
    found = []
    for marked in MARKER.finditer(text):
        if kinds[marked["kind"]]:
            kinds[marked["kind"]] -= 1
            line = text.count("\n", 0, marked.start()) + 1
            found.append(Finding(marked["kind"], line, marked.start(), marked.end()))
    return clean, tuple(found)
