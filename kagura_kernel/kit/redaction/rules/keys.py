"""Private keys: PEM, OpenSSH, PGP and PuTTY, whole, cut or without their frame; JWK and XML forms of them."""

from __future__ import annotations

from collections.abc import Iterator

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.plausible import entropy, placeholder
from kagura_kernel.kit.redaction.regions import lines_with
from kagura_kernel.kit.redaction.spans import Span

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
_OPEN = Lazy(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]+-{4,5}", ignore_case=False)
_MEMBER = Lazy(r"\\*[\"']?\b(?:d|p|q|dp|dq|qi|k)\\*[\"']?\s*:\s*\\*[\"']?([A-Za-z0-9_\-]{16,})", ignore_case=False)
_XML = Lazy(r"<(?:D|P|Q|DP|DQ|InverseQ)>\s*([A-Za-z0-9+/=\s]{24,}?)\s*</", ignore_case=False)
_OPENLY = (
    b"iVBOR",
    b"/9j/",
    b"R0lGOD",
    b"JVBER",
    b"UEsDB",
    b"AAAAB3",
    b"PHN2Z",
    b"PD94b",
    b"Qk0",
    b"SUkq",
    b"T2dnUw",
    b"UklGR",
)


def find(data: bytes) -> Iterator[Span]:
    """The bodies of private keys; their frames stay, so that one sees what was there."""
    if b"PRIVATE KEY" in data:
        for start, end in lines_with(data, b"PRIVATE KEY"):
            for found in _BEGIN.finditer(data, start, end):
                yield from _body(data, found.end())
            for found in _END.finditer(data, start, end):
                yield from _body_before(data, found.start())
    if b"Private-Lines" in data:
        for found in _PUTTY.finditer(data):
            yield from _body(data, found.end())
    yield from _bare(data)
    yield from _wide(data)
    yield from _members(data)


def _bare(data: bytes) -> Iterator[Span]:
    """Bodies without a frame, by how keys begin."""
    if any(begin in data for begin in _BEGINNINGS):
        for found in _BARE.finditer(data):
            yield from _body(data, found.start())


def _members(data: bytes) -> Iterator[Span]:
    """The private numbers of keys in JSON and XML."""
    if b"kty" in data:
        for found in _MEMBER.finditer(data):
            value = found.group(1) or b""
            if not placeholder(value) and entropy(value) > 3:
                yield Span(found.start(1), found.end(1), KIND)
    if b"Modulus>" in data:
        for found in _XML.finditer(data):
            yield Span(found.start(1), found.end(1), KIND)


def _body(data: bytes, at: int) -> list[Span]:
    """The lines of base64 from there on, up to the first line that is something else."""
    spans: list[Span] = []
    total = 0
    while (found := _LINE.match(data, at)) is not None:
        start, end = found.start(1), found.end(1)
        long = end - start >= 20 and not _plain(data[start:end])
        if not long and not (spans and _last(data, start, end)):
            break
        spans.append(Span(start, end, KIND, further=bool(spans)))
        total += end - start
        at = end
        if not long:
            break
    return spans if total >= 32 else []


def _plain(run: bytes) -> bool:
    """One long word or a path, and no chance."""
    return run.islower() or entropy(run) < 2.5


def _last(data: bytes, start: int, end: int) -> bool:
    """Whether a short run is the last line of a body: alone on its line, and no word."""
    after = data[end : end + 1]
    if after and after not in b"\r\n\\\"'`":
        return False
    rest = data[end : end + 24].lstrip(b"\\nr\r\n\t \"'`+,;>#|*")
    run = data[start:end]
    word = run.rstrip(b"=")
    return rest.startswith(b"----") or not (word.isalpha() and (word.islower() or word.istitle() or word != run))


_BACK = 64 * 1024


def _body_before(data: bytes, end: int) -> list[Span]:
    """The lines of base64 right before a frame's end, when their beginning was cut off."""
    low = max(0, end - _BACK)
    begin = max(data.rfind(b"-----", low, end), low)
    pieces: list[Span] = []
    at = end
    while at > begin:
        trimmed = data[begin:at].rstrip(b" \t\r\n\\\"'+,;>#|*.()&`")
        stop = begin + len(trimmed)
        start = stop
        while start > begin and stop - start < 80 and data[start - 1] in _BASE64:
            start -= 1
        # A line that ends in `\n` as two characters leaves its `n` behind.
        if data[start - 1 : start] == b"\\" and data[start : start + 1] in b"nr":
            start += 1
        short = stop - start < 20
        if stop - start < 2 or (short and pieces) or _plain(data[start:stop]):
            break
        pieces.append(Span(start, stop, KIND))
        at = start
    if sum(piece.end - piece.start for piece in pieces) < 40:
        return []
    pieces.reverse()
    return [Span(one.start, one.end, KIND, further=number > 0) for number, one in enumerate(pieces)]


_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def _wide(data: bytes) -> Iterator[Span]:
    """Lines as wide as those of keys, without any frame: a body from the middle of a key."""
    for found in _WIDE.finditer(data):
        first = found.group(1) or b""
        frame = None
        for opened in _OPEN.finditer(data, max(0, found.start() - _BACK), found.start() + 1):
            frame = opened
        inside = frame is not None and b"BEGIN" in (frame.group() or b"")
        if inside or first.startswith(_OPENLY) or (first.startswith(b"MII") and first[6:9] in {b"CCA", b"ANB", b"DCC"}):
            continue
        if entropy(first) < 4.2 or all(byte in b"0123456789abcdefABCDEF" for byte in first):
            continue
        if _known_elsewhere(data, found.start(1)):
            continue
        yield from _body(data, found.start(1))


def _known_elsewhere(data: bytes, at: int) -> bool:
    """Whether these lines go on with others that say what they are: a picture, a certificate, a message."""
    before = data[max(0, at - 400) : at].lower()
    return any(
        word in before for word in (b"base64,", b"content-transfer-encoding", b"certificate", b"image/", b"public")
    )
