"""Private keys, whole, cut or without their frame, and seed phrases of wallets."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.spans import Span, around, line_start, lines_with
from kagura_kernel.kit.redaction.values import chance, entropy, placeholder

KIND = "private-key"

_BEGIN = Lazy(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}", ignore_case=False)
_END = Lazy(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}", ignore_case=False)
_PUTTY = Lazy(r"Private-Lines: *\d+", ignore_case=False)
_BARE = Lazy(
    r"(?:MII[A-Za-z0-9+/]{3}IBA(?:A[JKL]|D[AB])|MII[A-Za-z0-9+/]{3}D(?:BO|BA|Ab|Ac)Bgkqhki|MI(?:G|H|C|I)[A-Za-z0-9+/]{1,4}AgEA(?:MB|MA)|"
    r"b3BlbnNzaC1rZXktdjEA|MC4CAQAwBQYDK2V|MFECAQEwBQYDK2V|MEcCAQAwBQYDK2V|MHcCAQEEI|MHQCAQEEI|MIGkAgEBBD|MIHcAgEBBE|MG4CAQAwBQYDK2V|"
    r"MIGHAgEA|MIG2AgEA|MIHuAgEA|MEECAQAw)[A-Za-z0-9+/]{20,}",
    ignore_case=False,
)
_BEGINNINGS = (b"MI", b"b3BlbnNzaC1r", b"MC4CAQ", b"MFEC", b"ME", b"MG4C")
_LINE = Lazy(
    r"(?:[ \t\r\n\"'+,;>#|*.()&`]|\\+[nrt]|\\+\r?\n|//|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset)\s*:[^\n\\]*)*"
    r"(=?[A-Za-z0-9+/]+={0,3})",
    ignore_case=False,
)
_WIDE = Lazy(
    r"(?:^|\n)[ \t>#+|*]*([A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})\r?\n[ \t>#+|*]*([A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70})\r?\n"
    r"[ \t>#+|*]*[A-Za-z0-9+/]{1,70}={0,2}\s*(?:\n|$)",
    ignore_case=False,
)
_RUN = Lazy(r"(?:[ \t>#+|*]*[A-Za-z0-9+/]{64,76}={0,2}\r?\n)*", ignore_case=False)
_OPEN = Lazy(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]+-{4,5}", ignore_case=False)
_NAME_END = Lazy(r"\\*[\"'`] ?:", ignore_case=False)
_MEMBER = Lazy(r"\\*[\"']?\b(?:d|p|q|dp|dq|qi|k)\\*[\"']?\s*:\s*\\*[\"']?([A-Za-z0-9_\-]{16,})", ignore_case=False)
_XML = Lazy(r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*([A-Za-z0-9+/=\s]{24,}?)\s*</", ignore_case=False)
_STATIC = Lazy(
    r"OpenVPN Static key V1-{3,5}\s*([0-9a-fA-F\s]{64,}?)\s*(?:-----END|[^0-9a-fA-F\s]|$)", ignore_case=False
)
_STATIC_REACH = 2000
_BACK = 64 * 1024
"""Bytes before a place that may say what stands there."""
_WIDEST = 300
"""Bytes of a line, with what stands between it and the next."""
_OPENLY = tuple(b"iVBOR /9j/ R0lGOD JVBER UEsDB AAAAB3 PHN2Z PD94b Qk0 SUkq T2dnUw UklGR".split())


def find_keys(data: bytes) -> Iterator[Span]:
    """The bodies of private keys; their frames stay, so that one sees what was there."""
    taken: set[int] = set()
    for body in _bodies(data, taken):
        taken.update(span.start for span in body)
        yield from body
    yield from _members(data)


def _bodies(data: bytes, taken: Collection[int]) -> Iterator[list[Span]]:
    """Every body; `taken` are the beginnings of the lines of those that were found already."""
    lines = list(lines_with(data, b"PRIVATE KEY"))
    for start, end in lines:
        for found in _BEGIN.finditer(data, start, end):
            yield _body(data, found.end())
    for start, end in lines_with(data, b"Private-Lines"):
        for found in _PUTTY.finditer(data, start, end):
            yield _body(data, found.end())
    for start, end in lines:
        for found in _END.finditer(data, start, end):
            yield _body_before(data, found.start(), taken)
    if any(begin in data for begin in _BEGINNINGS):
        for found in _BARE.finditer(data):
            if found.start() not in taken:
                yield _body(data, found.start())
    yield from _wide(data, taken)


def _members(data: bytes) -> Iterator[Span]:
    """The private numbers of keys in JSON and XML."""
    for start, end in around(data, b"kty", _BACK):
        for found in _MEMBER.finditer(data, start, end):
            value = found.group(1) or b""
            called = data[found.end(1) : found.end(1) + 1] in {b"(", b".", b"["}
            if not called and not placeholder(value) and entropy(value) > 3:
                yield Span(found.start(1), found.end(1), KIND)
    for start, end in around(data, b"OpenVPN Static key", _STATIC_REACH):
        for found in _STATIC.finditer(data, start, end):
            yield Span(found.start(1), found.end(1), KIND)
    if b"Modulus>" in data:
        for found in _XML.finditer(data):
            yield Span(found.start(1), found.end(1), KIND)


def _body(data: bytes, at: int) -> list[Span]:
    """The lines of base64 from there on, up to the first line that is something else."""
    spans: list[Span] = []
    total = 0
    line = line_start(data, at, _WIDEST)
    added = line < at and data[line : line + 1] == b"+"
    while (found := _LINE.match(data, at)) is not None:
        start, end = found.start(1), found.end(1)
        # What stands before each line of a difference may begin a line of base64 too.
        if spans and not added:
            start = _with_signs(data, start)
        long = end - start >= 20 and not _plain(data[start:end])
        # Padding ends what is written in base64; of armour its checksum, which begins with that sign, may follow.
        over = spans and data[at - 1 : at] == b"=" and data[start : start + 1] != b"="
        if not long and (over or not (spans and _last(data, start, end))):
            break
        spans.append(Span(start, end, KIND))
        total += end - start
        at = end
        if not long:
            break
    return spans if total >= 32 else []


def _with_signs(data: bytes, start: int) -> int:
    """Where a line begins that begins with signs of base64 which stand between lines too."""
    at = start
    while data[at - 1 : at] == b"+":
        at -= 1
    return at if data[at - 1 : at] == b"\n" else start


def _plain(run: bytes) -> bool:
    """One long word or a path, and no chance."""
    return run.islower() or not chance(run, 2.5)


def _last(data: bytes, start: int, end: int) -> bool:
    """Whether a short run is the last line of a body: alone on its line, no word, and not the name of what follows."""
    after = data[end : end + 1]
    if (after and after not in b"\r\n\\\"'`") or _NAME_END.match(data, end):
        return False
    rest = data[end : end + 24].lstrip(b"\\nr\r\n\t \"'`+,;>#|*")
    run = data[start:end]
    word = run.rstrip(b"=")
    return rest.startswith(b"----") or not (word.isalpha() and (word.islower() or word.istitle() or word != run))


def _body_before(data: bytes, end: int, taken: Collection[int]) -> list[Span]:
    """The lines of base64 right before a frame's end, when their beginning was cut off."""
    low = max(0, end - _BACK)
    begin = max(data.rfind(b"-----", low, end), low)
    pieces: list[Span] = []
    at = end
    while at > begin:
        ending = data[max(begin, at - _WIDEST) : at]
        line = ending.rstrip(b" \t\r\n\\\"'+,;>#|*.()&`")
        stop = at - len(ending) + len(line)
        start = stop - min(len(line) - len(line.rstrip(_BASE64)), 80)
        # A line that ends in `\n` as two characters leaves its `n` behind.
        if data[start - 1 : start] == b"\\" and data[start : start + 1] in b"nr":
            start += 1
        short = stop - start < 20
        if stop - start < 2 or (short and pieces) or start in taken or _plain(data[start:stop]):
            break
        pieces.append(Span(start, stop, KIND))
        at = start
    if sum(piece.end - piece.start for piece in pieces) < 40:
        return []
    return pieces[::-1]


_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


def _wide(data: bytes, taken: Collection[int]) -> Iterator[list[Span]]:
    """Lines as wide as those of keys, without any frame: a body from the middle of a key."""
    done = 0
    frames: Sequence[tuple[int, bool]] | None = None
    for found in _WIDE.finditer(data):
        start = found.start(1)
        if start < done or start in taken:
            continue
        frames = _frames(data) if frames is None else frames
        if _framed(data, frames, start) or _known_elsewhere(data, start) or _open(found.group(1) or b""):
            # What the first line is, those below it are too.
            run = _RUN.match(data, start)
            done = run.end() if run is not None else found.end()
        elif _random(found.group(1) or b""):
            body = _body(data, start)
            done = body[-1].end if body else found.end()
            yield body


def _open(first: bytes) -> bool:
    """Whether base64 begins as pictures, archives, certificates and public keys do."""
    return first.startswith(_OPENLY) or (first.startswith(b"MII") and first[6:9] in {b"CCA", b"ANB", b"DCC"})


def _random(line: bytes) -> bool:
    return chance(line, 4.2) and line.strip(b"0123456789abcdefABCDEF") != b""


def _frames(data: bytes) -> Sequence[tuple[int, bool]]:
    """Where the frames of keys, certificates and messages end, and whether each opens one."""
    return [(found.end(), b"BEGIN" in (found.group() or b"")) for found in _OPEN.finditer(data)]


def _framed(data: bytes, frames: Sequence[tuple[int, bool]], at: int) -> bool:
    """Whether a frame was opened before that place and not closed."""
    number = bisect_right(frames, (at, True)) - 1
    if number < 0 or not frames[number][1] or frames[number][0] < at - _BACK:
        return False
    return data.find(b"\x00", frames[number][0], at) < 0


def _known_elsewhere(data: bytes, at: int) -> bool:
    """Whether these lines go on with others that say what they are: a picture, a certificate, a message."""
    before = data[max(0, at - 400) : at].lower()
    return any(word in before for word in _SAID_ELSEWHERE)


_SAID_ELSEWHERE = b"base64, content-transfer-encoding certificate image/ public signature digestvalue".split()


_LENGTHS = (24, 21, 18, 15, 12)
_WORD_BITS = 11
_ROW = Lazy(r"\b[a-z]{3,8}(?:[ ,\t]+[a-z]{3,8}){11,}\b")
_REACH = 900
_SEED_RUN = Lazy(r"\b[a-z]{3,8}(?:(?:[^a-z]{1,6}|[^a-z]{0,4}word[^a-z]{1,6})[a-z]{3,8}){11,}\b")
_WORD = re.compile(rb"[A-Za-z]{3,8}")
_OTHER_RUN = Lazy(
    r"[^\x00-\x40\x5b-\x60\x7b-\x7f“”「」。、，：！？]{1,12}(?:[ \t\x{3000},、，]+[^\x00-\x40\x5b-\x60\x7b-\x7f“”「」。、，：！？]{1,12}){11,}"
)
_OTHER_WORD = re.compile(r"[^\W\d_]{1,12}")
_CHINESE_RUN = Lazy(r"[\x{4e00}-\x{9fff}](?:[ \x{3000}]?[\x{4e00}-\x{9fff}]){11,}")
_SAID = Lazy(
    r"seed|mnemonic|recovery|wallet|phrase|bip[ _\-]?39|backup words|secret words|metamask|ledger|trezor|助记词|シード|ニーモニック|復元|リカバリ|wiederherstellung"
)
_OTHERS = ("french", "italian", "japanese", "spanish", "portuguese", "czech", "korean")


def find_seeds(data: bytes) -> Iterator[Span]:
    """Phrases of 12 to 24 words whose checksum is right, or that are said to be one."""
    for run in _ROW.finditer(data):
        yield from _english(data, run.start(), run.end())
    done = 0
    foreign = not data.isascii()
    for said in _SAID.finditer(data):
        if said.start() < done:
            continue
        begin, done = max(0, said.start() - 8), min(len(data), said.end() + _REACH)
        for run in _SEED_RUN.finditer(data, begin, done):
            yield from _english(data, run.start(), run.end())
        if foreign:
            yield from _foreign_runs(data, begin, done)


def is_seed_word(word: str) -> bool:
    """Whether this is a word of the English list, in either case."""
    return word.isascii() and word.lower() in _list("english")


def _foreign_runs(data: bytes, begin: int, end: int) -> Iterator[Span]:
    for run in _CHINESE_RUN.finditer(data, begin, end):
        yield from _foreign(data, run.start(), run.end(), "chinese_simplified", letters=True)
    for run in _OTHER_RUN.finditer(data, begin, end):
        for language in _OTHERS:
            yield from _foreign(data, run.start(), run.end(), language)


def _english(data: bytes, start: int, end: int) -> Iterator[Span]:
    return _phrases(data, [word.span() for word in _WORD.finditer(data, start, end)])


def _phrases(data: bytes, words: Sequence[tuple[int, int]]) -> Iterator[Span]:
    known = _list("english")
    numbers = [known.get(data[start:end].lower().decode()) for start, end in words]
    at = 0
    while at < len(numbers):
        if numbers[at] is None:
            at += 1
            continue
        stop = at + 1
        between = _between(data, words, stop)
        while stop < len(numbers) and numbers[stop] is not None and _between(data, words, stop) == between:
            stop += 1
        at = _behind_title(data, words, at, stop)
        row = [number for number in numbers[at:stop] if number is not None]
        taken = _taken(data, row, words[at][0], words[stop - 1][1])
        if taken is not None:
            first, last = at + taken[0], at + taken[1] - 1
            if not _published(data, words[first : last + 1]):
                yield Span(words[first][0], words[last][1], "seed-phrase")
        # The word before another separator may be the first of the phrase.
        at = stop - 1 if stop - 1 > at and stop < len(numbers) and numbers[stop] is not None else stop


def _behind_title(data: bytes, words: Sequence[tuple[int, int]], at: int, stop: int) -> int:
    """The number of the first word behind `Recovery phrase` or `Seed phrase`, whose own words are in the list too."""
    if stop - at <= _LENGTHS[-1]:
        return at
    start = words[at][0]
    title = _TITLE.match(data, max(data.rfind(b"\n", 0, start) + 1, start - _SEED_WIDEST), words[at + 1][1])
    return at if title is None else next(number for number in (at, at + 1, at + 2) if words[number][0] >= title.end(1))


_TITLE = re.compile(
    rb"(?i)[^\n]*?\b((?:recovery|seed|secret|mnemonic|backup|wallet)[ _-](?:phrase|words?|seed))(?![a-z])"
)
_SEED_WIDEST = 60
_NUMBERS = re.compile(rb"\d+|\s+")


def _between(data: bytes, words: Sequence[tuple[int, int]], number: int) -> bytes:
    """What separates a word from the one before it, without numbers and the kind of space: the same in one phrase."""
    if number >= len(words):
        return b""
    return _NUMBERS.sub(b"", data[words[number - 1][1] : words[number][0]])


def _taken(data: bytes, row: Sequence[int], start: int, end: int) -> tuple[int, int] | None:
    """Which of these words are a phrase: all, when somebody says so nearby; else those with a right checksum."""
    if len(row) < _LENGTHS[-1]:
        return None
    near = data[max(0, start - 240) : start] + b" " + data[end : end + 80]
    if _SAID.search(near) is not None and len(row) <= 30:
        return 0, next(length for length in _LENGTHS if length <= len(row))
    for length in _LENGTHS:
        for first in range(min(len(row) - length, 64) + 1):
            if len(set(row[first : first + length])) >= length - 3 and _checks(row[first : first + length]):
                return first, first + length
    return None


def _published(data: bytes, words: Sequence[tuple[int, int]]) -> bool:
    """Test vectors: one word again and again, or the first rows of the standard's own examples."""
    texts = [data[start:end].lower() for start, end in words]
    if len(set(texts)) <= 3:
        return True
    begins = b" ".join(texts[:3])
    return (
        begins in {b"legal winner thank", b"letter advice cage", b"test test test", b"candy maple cake"}
        or texts[0] == texts[1] == texts[2]
    )


def _checks(row: Sequence[int]) -> bool:
    """Whether the last bits are the checksum of the others."""
    bits = 0
    for number in row:
        bits = bits << _WORD_BITS | number
    check = len(row) // 3
    size = len(row) * _WORD_BITS - check
    digest = hashlib.sha256((bits >> check).to_bytes(size // 8, "big")).digest()
    return bits & ((1 << check) - 1) == digest[0] >> (8 - check)


def _foreign(data: bytes, start: int, end: int, language: str, *, letters: bool = False) -> Iterator[Span]:
    known = _list(language)
    text = data[start:end].decode("utf-8", "replace")
    pieces = [
        (one.start(), one.end()) for one in re.finditer(r"[\u4e00-\u9fff]" if letters else _OTHER_WORD.pattern, text)
    ]
    rows: list[list[tuple[int, int]]] = [[]]
    for piece in pieces:
        if _seed_plain(text[piece[0] : piece[1]]) in known:
            rows[-1].append(piece)
        else:
            rows.append([])
    for row in rows:
        if len(row) not in _LENGTHS and not (len(row) > _LENGTHS[-1] and not letters):
            continue
        numbers = [known[_seed_plain(text[first:last])] for first, last in row]
        at = start + len(text[: row[0][0]].encode())
        if letters and not _apart(row) and not _SAID_IN_CHINESE.search(data, max(0, at - 120), at):
            continue
        stop = start + len(text[: row[-1][1]].encode())
        if _taken(data, numbers, at, stop) is not None:
            yield Span(at, stop, "seed-phrase")


_SAID_IN_CHINESE = re.compile("(?i)助记词|助記詞|种子|恢复短语|mnemonic|seed".encode())


def _apart(row: Sequence[tuple[int, int]]) -> bool:
    """Whether something stands between the letters; without it they are a sentence, whose letters are the common ones."""
    return all(before[1] < after[0] for before, after in pairwise(row))


def _seed_plain(word: str) -> str:
    """Without accents and in one form, as wallets compare words."""
    import unicodedata

    return unicodedata.normalize("NFKD", word.lower())


@cache
def _list(language: str) -> dict[str, int]:
    """The words of a language and their numbers."""
    text = (files("mnemonic") / "wordlist" / f"{language}.txt").read_text("utf-8")
    return {_seed_plain(word): number for number, word in enumerate(text.split())}
