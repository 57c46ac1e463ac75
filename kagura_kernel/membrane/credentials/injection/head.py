"""What a request from the box must look like: strict, refused rather than repaired, so that nothing has two readings.

h11 parses; this refuses first what h11 forgives, and then what this front does not pass on. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

import h11

_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_VERSIONS = frozenset({b"1.0", b"1.1"})
_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE", b"TRACK"})
_ROUNDS = 8
_OLD_ESCAPE = re.compile(rb"%u([0-9a-fA-F]{4})")
_BETWEEN_SEGMENTS = re.compile(r"[/\\]")
_PARAMETERS = re.compile(r"[;?#].*", re.DOTALL)
_IGNORED = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060\ufeff]")


class BadRequest(Exception):
    """A request that is not passed on.

    Attributes:
        status: What the program is answered.
        text: Why, one sentence; says nothing that the program did not send itself.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def check_head(head: bytes) -> None:
    """Refuse the raw bytes of a head, its empty line included, when they can be read in two ways.

    Raises:
        BadRequest: bare line feeds or carriage returns, folded lines, two lengths, a length beside chunks.
    """
    if _BARE.search(head):
        raise BadRequest(400, "A line ends in something other than CR LF.")
    _, *lines = head[: -len(b"\r\n\r\n")].split(b"\r\n")
    lengths: list[bytes] = []
    codings = 0
    for line in lines:
        if line[:1] in {b" ", b"\t", b""}:
            raise BadRequest(400, "A header is folded over two lines, or empty.")
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            lengths.append(value)
        codings += name.lower() == b"transfer-encoding"
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise BadRequest(400, "The body has two lengths.")
    if codings and lengths:
        raise BadRequest(400, "The body has a length and is chunked as well.")


def check_request(request: h11.Request, port: int) -> None:
    """Refuse a well-formed request that asks for something else than the one upstream behind this port.

    Raises:
        BadRequest: another host, an absolute form, a path that leaves its folder, a method or protocol that is not
            passed on.
    """
    if request.http_version not in _VERSIONS:
        raise BadRequest(505, "HTTP/1.1 is spoken here.")
    if request.method.upper() in _REFUSED_METHODS:
        raise BadRequest(405, f"{request.method.decode()} is not passed on.")
    if not request.target.startswith(b"/"):
        raise BadRequest(400, "The target must be a path: this address leads to one upstream and is no proxy.")
    if b"#" in request.target or _leaves(request.target):
        raise BadRequest(400, "The path holds a fragment, or a part that leads out of its folder.")
    names = [name for name, _ in request.headers]
    hosts = [value for name, value in request.headers if name == b"host"]
    ours = {f"{host}:{port}".encode() for host in ("127.0.0.1", "localhost", "[::1]")}
    if len(hosts) != 1 or hosts[0].lower() not in ours:
        raise BadRequest(421, f"The Host header must name this address, 127.0.0.1:{port}, once.")
    if request.http_version == b"1.0" and b"transfer-encoding" in names:
        raise BadRequest(400, "HTTP/1.0 knows no chunks.")
    if any(name == b"upgrade" and b"websocket" in value.lower() for name, value in request.headers):
        raise BadRequest(501, "WebSockets are not passed through a lease.")


def _leaves(target: bytes) -> bool:
    """Whether any server might read a way out of its folder in it: each decodes as often, and drops, what it likes."""
    path = target.partition(b"?")[0]
    for _ in range(_ROUNDS):
        decoded = unquote_to_bytes(_OLD_ESCAPE.sub(_in_utf8, path))
        if decoded == path:
            return _climbs(path)
        path = decoded
    return True


def _in_utf8(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1], 16)).encode("utf-8", "surrogatepass")


def _climbs(path: bytes) -> bool:
    try:
        text = unicodedata.normalize("NFKC", path.decode("utf-8"))
    except UnicodeDecodeError:
        # Such as a dot of two bytes, which lenient decoders take for one.
        return True
    segments = (_IGNORED.sub("", _PARAMETERS.sub("", part)) for part in _BETWEEN_SEGMENTS.split(text))
    return "\0" in text or any(segment in {".", ".."} for segment in segments)
