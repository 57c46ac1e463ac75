"""A plain TCP relay as one writes it with asyncio's streams: every connection goes to one target. A floor.

python relay.py PORT

Prints its own port, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

CHUNK = 256 * 1024


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, until its end."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def main(target: int) -> None:
    """Listen, say where, and relay."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", target, limit=CHUNK)
        await asyncio.gather(carry(reader, other_writer), carry(other_reader, writer), return_exceptions=True)
        other_writer.close()
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0, limit=CHUNK, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
