"""The frames on the pipe: the one place that says how they look, read by both ends.

A frame is nine bytes (length of the payload, type, stream id; big endian) and its payload. Streams with odd ids are
opened by the host (exec, file, listen, rest), even ones by the guest (connection), in rising order. Stream 0 belongs
to the pipe itself. Data flows only against credit: each side may send so many bytes of data on a stream, and more as
the other side gives it back. On a stream of the host's that is `WINDOW` both ways.

A `listen` lasts as long as the box, or until the host cancels it: ACCEPT says its port; a RESULT instead, why there is
none. A `rest` stops every process of the box but the guest, or lets them go on; the RESULT says that it is done.

A `connection` names its listener, and what the guest takes (`credit`). The host answers ACCEPT, with what it takes, or
RESULT with a `status` and a `text` for the program; no data passes before. It ends when both have let go of it: the
host by RESULT (with an `error` when the program must see a reset), the guest by CANCEL, in either order and once each.
After its own last word a side sends nothing more and takes no notice of what still comes.
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSION = 1

HELLO = 1  # guest, stream 0: JSON, once, before anything else
OPEN = 2  # JSON with `kind`; what else is in it depends on that
DATA = 3  # raw bytes: standard input to a command, standard output from it, a file's content
ERRDATA = 4  # raw bytes of a command's standard error
EOF = 5  # no payload: this direction has no more data
CREDIT = 6  # four bytes: so much more may be sent
RESULT = 7  # JSON: the end of a stream, said by the side that serves it
CANCEL = 8  # JSON: the side that opened it wants it to end; a RESULT still follows
ACCEPT = 9  # JSON: the side that serves it says that it does; for streams that have a beginning
ALIVE = 10  # host, stream 0, no payload: for whoever carries the pipe and must know that the host is there

TYPES = frozenset((HELLO, OPEN, DATA, ERRDATA, EOF, CREDIT, RESULT, CANCEL, ACCEPT))
CONTROL = frozenset((HELLO, OPEN, RESULT, CANCEL, ACCEPT))

EXEC = "exec"
FILE = "file"
LISTEN = "listen"
REST = "rest"
CONNECTION = "connection"

PROXY = "proxy"
RAW = "raw"

HEADER = Struct(">IBI")
CREDIT_BODY = Struct(">I")
LENGTH = Struct(">I")

MAX_DATA = 256 * 1024  # payload of one data frame
MAX_CONTROL = 64 * 1024  # payload of one control frame from a guest
MAX_REQUEST = 4 * 1024 * 1024  # payload of one control frame from the host, which may hold a long command line
WINDOW = 1024 * 1024  # data under way on one stream in one direction
MAX_CONNECTIONS = 1280  # streams of the guest's at once
MAX_LINES_BYTES = 32 * 1024 * 1024  # a list of entries, sent as one JSON text a line
MAX_ENTRIES = 200_000  # lines in such a list


def window(others: int) -> int:
    """What one end of a connection takes when there are `others`: few may have much, and all together stay small."""
    if others < 16:  # noqa: PLR2004 - 16 MiB in all
        return WINDOW
    return WINDOW // 4 if others < 128 else WINDOW // 16  # noqa: PLR2004 - 28 MiB, and 72 MiB for the most


def _codec() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """JSON by the engine of the `json` package alone, where it can be had; the package takes five milliseconds."""
    try:
        import _json

        # Typed loosely: the type checker knows only what the package itself passes.
        make_encoder: Any = _json.make_encoder
        make_scanner: Any = _json.make_scanner
        switches = (False, False, False)  # sort keys, skip odd keys, allow NaN

        class Context:
            strict = True
            object_hook = None
            object_pairs_hook = None
            parse_float = float
            parse_int = int
            parse_constant = float
            memo: dict[str, str] = {}  # noqa: RUF012 - the engine asks for one and clears it

        encode = make_encoder(None, None, _json.encode_basestring_ascii, None, ":", ",", *switches)
        scan = make_scanner(Context)
        return (lambda value: "".join(encode(value, 0))), (lambda text: scan(text, 0)[0])
    except (ImportError, AttributeError, TypeError):
        import json

        return json.dumps, json.loads


encode_json, decode_json = _codec()


def dumps(value: Any) -> bytes:
    """One JSON text in ASCII; lone surrogates (bytes that are no UTF-8) survive as escapes."""
    return encode_json(value).encode("ascii")


def loads(data: bytes) -> Any:
    """What `dumps` of the trusted side wrote; not for anything that a box sent."""
    return decode_json(data.decode("ascii"))
