"""Loopback ports of the box: programs come in, and each that has said where it wants to go becomes a stream.

A program has a few seconds to say it; when too many are still saying it, the one that has taken longest goes. When
there are as many connections as there may be, further ones wait in the system's queue.
"""

from __future__ import annotations

import _socket
import errno
import time
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

from . import frames
from .clients import Client
from .files import described
from .loop import READ, Link, Loop

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .loop import Handler

HEADS = 256  # programs at once that have not said where they want to go
HEAD_SECONDS = 10.0
BACKLOG = 4096
BURST = 64  # connections taken before others have their turn
REST_SECONDS = 0.05
LOOK_SECONDS = 0.5  # between looks at who has gone
SEND_BUFFER = 128 * 1024  # what the system keeps of a program's that does not read
KEPT_DESCRIPTORS = 128  # for commands and files
TRIES = 20
INODE = 9  # the column of /proc/net/tcp that is 0 for what no process holds any more

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


class Listening:
    """All listeners of the box and all their clients."""

    def __init__(self, loop: Loop, link: Link) -> None:
        self.loop = loop
        self.link = link
        self._listeners: dict[int, Listener] = {}
        self._heads: dict[Client, float] = {}
        self._silent: set[Client] = set()
        self._clients: set[Client] = set()
        self._streams: dict[int, Client] = {}
        self._next = 2
        self._most = _most()
        self._resting = False

    # --------------------------------------------------------------- listeners

    def open(self, stream: int, request: dict[str, Any]) -> None:
        """Serve a `listen` of the host's."""
        try:
            sockets = bound(request["port"])
        except OSError as problem:
            self.link.send_json(frames.RESULT, stream, described(problem))
            return
        listener = self._listeners[stream] = Listener(self, stream, request["front"], sockets)
        listener.take(on=not self._resting)
        self.link.send_json(frames.ACCEPT, stream, {"port": sockets[0].getsockname()[1]})

    def stop(self, stream: int) -> None:
        """The host wants no more connections from this listener, if there is such a one."""
        listener = self._listeners.pop(stream, None)
        if listener is not None:
            listener.close()
            self.link.send_json(frames.RESULT, stream, {})

    def frame(self, kind: int, stream: int, payload: memoryview) -> None:
        """A frame on a stream of the guest's."""
        client = self._streams.get(stream)
        if client is None:
            return
        if kind == frames.DATA:
            client.feed(payload)
        elif kind == frames.CREDIT:
            client.add_credit(frames.CREDIT_BODY.unpack(payload)[0])
        elif kind == frames.EOF:
            client.end_output()
        elif kind == frames.ACCEPT:
            client.accepted(frames.loads(bytes(payload))["credit"])
        elif kind == frames.RESULT:
            del self._streams[stream]
            client.ended(frames.loads(bytes(payload)))
            self._maybe_go_on()

    # ----------------------------------------------------------------- clients

    @property
    def crowded(self) -> bool:
        """Whether there are as many connections as there may be, or streams that the host has not let go of."""
        return max(len(self._clients), len(self._streams) + len(self._heads)) >= self._most

    def came(self, client: Client) -> None:
        """A program has connected."""
        if len(self._heads) >= min(HEADS, self._most // 4):
            self.drop_oldest()
        self._clients.add(client)
        if not self._heads:
            self.loop.after(self, HEAD_SECONDS, self._drop_late)
        self._heads[client] = time.monotonic() + HEAD_SECONDS
        client.start()

    def spoken(self, client: Client) -> None:
        """It has said what it wants, understood or not."""
        self._heads.pop(client, None)

    def asked(self, client: Client) -> tuple[int, int]:
        """It wants a connection: the id of its stream, and what it may be sent before it gives credit."""
        self.spoken(client)
        stream = self._next
        self._next += 2
        credit = frames.window(len(self._streams))
        self._streams[stream] = client
        return stream, credit

    def silent(self, client: Client) -> None:
        """It has stopped sending before it was answered: it waits to hear the answer, or has gone."""
        if not self._silent:
            self.loop.after((self, "silent"), LOOK_SECONDS, self._look)
        self._silent.add(client)

    def _look(self) -> None:
        """Drop those that have gone: what nobody waits for shall not go on, least of all a question to a person."""
        self._silent = {client for client in self._silent if client.waits}
        if not self._silent:
            return
        there = held()
        for client in list(self._silent):
            theirs, ours = client.ports
            # A system that does not list our own end would not list theirs either.
            if not theirs or ((ours, theirs) in there and (theirs, ours) not in there):
                client.drop()
        self.loop.after((self, "silent"), LOOK_SECONDS, self._look)

    def closed(self, client: Client) -> None:
        """Its socket is closed."""
        self._heads.pop(client, None)
        self._clients.discard(client)
        self._maybe_go_on()

    def drop_oldest(self) -> bool:
        """Let go of the program that has taken longest to say what it wants; whether there was one."""
        oldest = next(iter(self._heads), None)
        if oldest is not None:
            oldest.drop()
        return oldest is not None

    def _drop_late(self) -> None:
        now = time.monotonic()
        while self._heads:
            client, due = next(iter(self._heads.items()))
            if due > now:
                self.loop.after(self, due - now, self._drop_late)
                return
            client.drop()

    # ------------------------------------------------------------------- rest

    def rest(self, seconds: float = 0.0) -> None:
        """Take nobody in until there is room again, or for a while."""
        self._take(on=False)
        if seconds:
            self.loop.after((self, "rest"), seconds, self._go_on)

    def _maybe_go_on(self) -> None:
        if self._resting and not self.crowded:
            self._go_on()

    def _go_on(self) -> None:
        self._take(on=True)

    def _take(self, *, on: bool) -> None:
        self._resting = not on
        for listener in self._listeners.values():
            listener.take(on=on)


class Listener:
    """One port, on every loopback address that the box has, with a `proxy` or `raw` front; it owns the sockets."""

    def __init__(self, hub: Listening, stream: int, front: str, sockets: list[_socket.socket]) -> None:
        self.hub = hub
        self.stream = stream
        self.front = front
        self._sockets = sockets
        for one in sockets:
            hub.loop.watch(one.fileno(), 0, self._acceptor(one))

    def take(self, *, on: bool) -> None:
        """Whether to take in who comes."""
        for one in self._sockets:
            self.hub.loop.change(one.fileno(), READ if on else 0)

    def close(self) -> None:
        """Stop listening; whoever is connected stays."""
        for one in self._sockets:
            self.hub.loop.forget(one.fileno())
            one.close()
        self._sockets = []

    def _acceptor(self, listening: _socket.socket) -> Handler:
        return lambda _events: self._accept(listening)

    def _accept(self, listening: _socket.socket) -> None:
        hub = self.hub
        for _ in range(BURST):
            if hub.crowded and not hub.drop_oldest():
                hub.rest()
                return
            try:
                fd, _address = listening._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - the engine's own
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in SHORT:
                    # Descriptors come back when programs end; asking at once again would burn the time they need.
                    hub.drop_oldest()
                    hub.rest(REST_SECONDS)
                    return
                continue
            connection = _socket.socket(listening.family, _socket.SOCK_STREAM, 0, fd)
            connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
            hub.came(Client(hub, self.stream, self.front, connection))


def bound(port: int) -> list[_socket.socket]:
    """Sockets that listen on this port of 127.0.0.1 and, where it is there, ::1; 0 chooses one that both have free.

    Raises:
        OSError: it is taken, or there is no loopback to listen on.
    """
    _check_loopback()
    taken = OSError(errno.EADDRINUSE, "Address already in use")
    for _ in range(1 if port else TRIES):
        first = _listen(_socket.AF_INET, "127.0.0.1", port)
        try:
            return [first, _listen(_socket.AF_INET6, "::1", first.getsockname()[1])]
        except OSError as problem:
            if problem.errno in NO_SUCH_FAMILY:
                return [first]
            first.close()
            if problem.errno != errno.EADDRINUSE:
                raise
            taken = problem
    raise taken


def _listen(family: int, host: str, port: int) -> _socket.socket:
    one = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        if family == _socket.AF_INET6:
            one.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
        # What is accepted has these from the socket that listens.
        one.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SEND_BUFFER)
        one.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        one.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(BACKLOG)
        one.setblocking(False)  # noqa: FBT003 - the name of the method says it
    except OSError:
        one.close()
        raise
    return one


def held() -> set[tuple[int, int]]:
    """The ports, own and other, of every TCP connection that a process holds, as far as the system tells.

    Someone who has closed a connection and someone who has only stopped sending on it look the same to the other side,
    but the system still lists what is closed without a process, or not at all.
    """
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, "rb") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[INODE] != b"0":
                own, other = (int(field.rpartition(b":")[2], 16) for field in fields[1:3])
                found.add((own, other))
    return found


def _check_loopback() -> None:
    """A port can be bound although its interface is down; then nobody would ever reach it."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        probe.connect(("127.0.0.1", 9))  # sends nothing
    except OSError as problem:
        raise OSError(errno.ENETDOWN, "The loopback interface of the box is down") from problem
    finally:
        probe.close()


def _most() -> int:
    """How many connections there may be, so that commands can still be started."""
    soft = getrlimit(RLIMIT_NOFILE)[0]
    if soft == RLIM_INFINITY:
        return frames.MAX_CONNECTIONS
    return max(4, min(frames.MAX_CONNECTIONS, soft - KEPT_DESCRIPTORS))
