"""The guest's listeners on the machine's own loopback, in a thread; the test is the host and the programs."""

import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kagura_kernel.sandbox.guest import clients, frames, listeners
from kagura_kernel.sandbox.guest.listeners import Listening
from kagura_kernel.sandbox.guest.loop import Link, Loop

PATIENCE = 20.0
CONNECT = b"CONNECT a.example:443 HTTP/1.1\r\n\r\n"


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


class Guest:
    """A guest that only listens, and the host's end of its pipe."""

    def __init__(self) -> None:
        self.host, theirs = socket.socketpair()
        self.host.settimeout(PATIENCE)
        self._theirs = theirs
        self.loop = Loop()
        link = Link(self.loop, theirs.fileno(), theirs.fileno(), self._frame)
        self.hub = Listening(self.loop, link)
        self._thread = threading.Thread(target=self.loop.run)
        self._programs: list[socket.socket] = []
        self.port = 0

    def _frame(self, kind: int, stream: int, payload: memoryview) -> None:
        if kind == frames.OPEN:
            self.hub.open(stream, json.loads(bytes(payload)))
        elif kind == frames.CANCEL:
            self.hub.stop(stream)
        else:
            self.hub.frame(kind, stream, payload)

    def start(self, front: str = "proxy") -> None:
        self._thread.start()
        self.say(frames.OPEN, 1, {"kind": "listen", "port": 0, "front": front})
        kind, stream, answer = self.receive()
        assert (kind, stream) == (frames.ACCEPT, 1)
        self.port = json.loads(answer)["port"]

    def end(self) -> None:
        for program in self._programs:
            program.close()
        self.host.close()
        self._thread.join(PATIENCE)
        for client in list(self.hub._clients):
            client.drop()
        self.hub.stop(1)
        self._theirs.close()
        assert not self._thread.is_alive()

    def say(self, kind: int, stream: int, value: dict[str, Any]) -> None:
        self.send(kind, stream, json.dumps(value).encode())

    def send(self, kind: int, stream: int, payload: bytes = b"") -> None:
        self.host.sendall(frames.HEADER.pack(len(payload), kind, stream) + payload)

    def receive(self) -> tuple[int, int, bytes]:
        length, kind, stream = frames.HEADER.unpack(self._exactly(frames.HEADER.size))
        return kind, stream, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        return self.host.recv(count, socket.MSG_WAITALL) if count else b""

    def program(self, says: bytes = b"") -> socket.socket:
        program = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        program.settimeout(PATIENCE)
        self._programs.append(program)
        if says:
            program.sendall(says)
        return program

    def opened(self) -> tuple[int, dict[str, Any]]:
        kind, stream, request = self.receive()
        assert kind == frames.OPEN
        return stream, json.loads(request)

    def connected(self, credit: int = frames.WINDOW) -> tuple[socket.socket, int, int]:
        """A program with its connection, its stream, and what may be sent to it."""
        program = self.program()
        stream, request = self.opened()
        self.say(frames.ACCEPT, stream, {"credit": credit})
        return program, stream, request["credit"]


@pytest.fixture
def guest() -> Iterator[Guest]:
    guest = Guest()
    yield guest
    guest.end()


def is_over(program: socket.socket) -> bool:
    try:
        return not program.recv(1)
    except ConnectionError:
        return True


def test_a_program_that_takes_too_long_to_say_where_it_wants_to_go_is_let_go(guest, monkeypatch):
    monkeypatch.setattr(listeners, "HEAD_SECONDS", 0.3)
    guest.start()
    silent, dripping = guest.program(), guest.program(CONNECT[:5])
    assert is_over(silent)
    assert is_over(dripping)
    guest.program(CONNECT)
    assert guest.opened()[1]["host"] == "a.example"


def test_of_too_many_that_have_not_spoken_the_oldest_goes(guest, monkeypatch):
    monkeypatch.setattr(listeners, "HEADS", 3)
    guest.start()
    programs = [guest.program(CONNECT[:5]) for _ in range(4)]
    assert is_over(programs[0])
    programs[1].sendall(CONNECT[5:])
    assert guest.opened()[1]["port"] == 443


def test_what_is_no_request_is_answered_once_and_never_becomes_a_stream(guest):
    guest.start()
    program = guest.program(b"\x16\x03\x01\x00\x05hello\n")
    answer = program.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert is_over(program)
    program = guest.program(b"\x05\x01\x02")
    assert program.recv(2) == b"\x05\xff"
    long = b"a" * 5000
    assert guest.program(b"CONNECT " + long + b":443 HTTP/1.1\r\n\r\n").recv(4096).startswith(b"HTTP/1.1 400 ")
    guest.program(CONNECT)
    assert guest.opened()[0] == 2


def test_a_program_that_says_nothing_of_what_it_wants_may_still_hear_the_answer(guest):
    guest.start()
    program = guest.program(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 200_000)
    answer = b""
    while part := program.recv(65536):
        answer += part
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"\n")


def test_nothing_is_taken_from_a_program_before_the_host_accepts_and_beyond_its_credit(guest):
    guest.start("raw")
    program = guest.program(b"x" * 100)
    stream, _ = guest.opened()
    guest.host.settimeout(0.1)
    with pytest.raises(TimeoutError):
        guest.receive()
    guest.host.settimeout(PATIENCE)
    guest.say(frames.ACCEPT, stream, {"credit": 10})
    assert guest.receive() == (frames.DATA, stream, b"x" * 10)
    guest.send(frames.CREDIT, stream, frames.CREDIT_BODY.pack(7))
    assert guest.receive() == (frames.DATA, stream, b"x" * 7)
    program.close()


def test_credit_comes_back_when_the_program_has_taken_the_bytes(guest):
    guest.start("raw")
    program, stream, credit = guest.connected()
    left = credit
    while left:
        count = min(left, frames.MAX_DATA)
        guest.send(frames.DATA, stream, b"x" * count)
        left -= count
    taken = 0
    while taken < credit:
        taken += len(program.recv(65536))
    back = 0
    while back < 3 * credit // 4:
        kind, told, payload = guest.receive()
        assert (kind, told) == (frames.CREDIT, stream)
        back += frames.CREDIT_BODY.unpack(payload)[0]
    assert back <= credit


def test_a_reset_of_the_host_is_a_reset_for_the_program(guest):
    guest.start("raw")
    program, stream, _ = guest.connected()
    guest.send(frames.DATA, stream, b"a part")
    assert program.recv(6, socket.MSG_WAITALL) == b"a part"
    guest.say(frames.RESULT, stream, {"error": "ECONNRESET"})
    with pytest.raises(ConnectionResetError):
        program.recv(1)
    assert guest.receive() == (frames.CANCEL, stream, b"{}")


def test_an_end_in_order_hands_over_everything_first(guest):
    guest.start("raw")
    program, stream, credit = guest.connected()
    for _ in range(credit // frames.MAX_DATA):
        guest.send(frames.DATA, stream, b"x" * frames.MAX_DATA)
    guest.send(frames.EOF, stream)
    guest.say(frames.RESULT, stream, {})
    got = 0
    while part := program.recv(65536):
        got += len(part)
    assert got == credit // frames.MAX_DATA * frames.MAX_DATA


def test_a_program_that_goes_away_lets_go_of_its_stream(guest):
    guest.start("raw")
    program, stream, _ = guest.connected(credit=0)
    program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    program.close()
    assert guest.receive() == (frames.CANCEL, stream, b"{}")
    # What the host had under way is not for anybody.
    guest.send(frames.DATA, stream, b"x")
    guest.say(frames.RESULT, stream, {})
    guest.connected()


def test_when_there_are_as_many_as_there_may_be_others_wait_for_room(guest):
    guest.hub._most = 4
    guest.start("raw")
    programs = [guest.connected() for _ in range(4)]
    waiting = guest.program()
    guest.host.settimeout(0.2)
    with pytest.raises(TimeoutError):
        guest.receive()
    guest.host.settimeout(PATIENCE)
    _, stream, _ = programs[0]
    guest.say(frames.RESULT, stream, {"error": "ECONNRESET"})
    assert guest.receive()[:2] == (frames.CANCEL, stream)
    assert guest.opened()[0] == 10
    assert waiting.fileno() >= 0


class OutOfDescriptors:
    """A listening socket that fails to accept, a few times."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.failures = 3

    def _accept(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._real._accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_running_out_of_descriptors_is_a_pause_and_costs_the_slowest_program(guest, monkeypatch):
    short = []
    monkeypatch.setattr(
        listeners,
        "bound",
        lambda port, bound=listeners.bound: [short.append(OutOfDescriptors(s)) or short[-1] for s in bound(port)],
    )
    guest.start()
    assert short
    guest.program(CONNECT)
    assert guest.opened()[1]["host"] == "a.example"
    assert short[0].failures == 0


def test_a_listener_that_is_taken_back_listens_no_more_and_its_connections_stay(guest):
    guest.start("raw")
    program, stream, _ = guest.connected()
    guest.say(frames.CANCEL, 1, {})
    assert guest.receive() == (frames.RESULT, 1, b"{}")
    with pytest.raises(ConnectionError):
        guest.program()
    guest.send(frames.DATA, stream, b"still")
    assert program.recv(5, socket.MSG_WAITALL) == b"still"


def test_a_port_that_is_taken_is_told(guest):
    guest.start()
    guest.say(frames.OPEN, 3, {"kind": "listen", "port": guest.port, "front": "raw"})
    kind, stream, answer = guest.receive()
    assert (kind, stream, json.loads(answer)["error"]) == (frames.RESULT, 3, "EADDRINUSE")


def test_what_a_program_does_not_read_waits_here_up_to_its_window_however_it_was_cut(guest):
    guest.start("raw")
    _, stream, credit = guest.connected()
    guest.host.sendall((frames.HEADER.pack(1, frames.DATA, stream) + b"x") * credit)
    client = next(iter(guest.hub._clients))
    assert isinstance(client, clients.Client)
    until(lambda: guest.hub._streams[stream] is client)
    assert len(client._out) <= credit


def test_a_hang_up_that_nobody_may_read_costs_no_time(guest):
    guest.start("raw")
    program, stream, _ = guest.connected(credit=0)
    guest.send(frames.EOF, stream)
    assert program.recv(1) == b""
    program.sendall(b"late")
    program.shutdown(socket.SHUT_WR)
    client = next(iter(guest.hub._clients))
    until(lambda: client._hung_up)
    guest.send(frames.CREDIT, stream, frames.CREDIT_BODY.pack(100))
    assert guest.receive() == (frames.DATA, stream, b"late")
    assert guest.receive() == (frames.EOF, stream, b"")


def test_a_program_that_hangs_up_before_it_was_answered_ends_its_stream(guest, monkeypatch):
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.02)
    guest.start()
    patient, hasty = guest.program(CONNECT), guest.program()
    stream, _ = guest.opened()
    patient.shutdown(socket.SHUT_WR)
    hasty.sendall(CONNECT)
    second, _ = guest.opened()
    hasty.close()
    kind, ended, _ = guest.receive()
    assert (kind, ended) == (frames.CANCEL, second)
    # The one that has only stopped sending still hears the answer.
    guest.say(frames.ACCEPT, stream, {"credit": frames.WINDOW})
    assert patient.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_where_the_system_does_not_tell_who_has_gone_nobody_is_let_go(guest, monkeypatch):
    looked = threading.Event()

    def nothing() -> set[tuple[int, int]]:
        looked.set()
        return set()

    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(listeners, "held", nothing)
    guest.start()
    program = guest.program(CONNECT)
    stream, _ = guest.opened()
    program.shutdown(socket.SHUT_WR)
    assert looked.wait(PATIENCE)
    guest.say(frames.ACCEPT, stream, {"credit": frames.WINDOW})
    assert program.recv(4096).startswith(b"HTTP/1.1 200 ")
