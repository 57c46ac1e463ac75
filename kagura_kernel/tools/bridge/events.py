"""Server-sent events, read from a response line by line, each bounded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class TooLong(ValueError):
    """A line or an event holds more than it may."""


def events(readline: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    """The data of each event, to the end of the stream; comments, names and ids are passed over.

    `readline` gives the next line with its end, at most so many bytes; empty at the end.

    Raises:
        TooLong: a line or an event is longer.
    """
    data: list[bytes] = []
    size = 0
    while True:
        line = readline(most + 16)
        if not line:
            return
        if not line.endswith(b"\n") and len(line) > most:
            raise TooLong
        line = line.rstrip(b"\r\n")
        if not line:
            if data:
                yield b"\n".join(data)
            data, size = [], 0
        elif line.startswith(b"data:"):
            # One blank after the colon belongs to the form.
            piece = line[6:] if line[5:6] == b" " else line[5:]
            size += len(piece) + 1
            if size > most:
                raise TooLong
            data.append(piece)
