from __future__ import annotations

import asyncio
import socket

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import ApprovalAborted, EgressRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.membrane.egress.asking import Asking
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.limits import EgressLimits
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.stream import SocketStream
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually


class House:
    """An egress whose every connection leads to a socket pair; `far` holds the other ends."""

    def __init__(self, *words: str, asking: Asking | None = None, record=None, **limits) -> None:
        self.records: list[EgressDecided | EgressClosed] = []
        self.far: list[socket.socket] = []
        self.problem: OSError | None = None
        self.dialling: asyncio.Future[None] | None = None
        bounds = EgressLimits(**limits)
        gate = Gate(parse_grants(words), self._resolve, asking=asking, limits=bounds, dial_one=self._dial)
        self.egress = Egress(
            gate, record or self.records.append, run_id="run-1", session_id="ses-1", limits=bounds, clock=FakeClock()
        )

    async def _resolve(self, host: str, port: int) -> list[str]:
        del host, port
        return ["10.0.0.1", "1.1.1.1"]

    async def _dial(self, address, port: int) -> socket.socket:
        del address, port
        if self.dialling is not None:
            await self.dialling
        if self.problem is not None:
            raise self.problem
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        theirs.settimeout(60)
        self.far.append(theirs)
        return ours


class Told(SocketStream):
    """A box's end that remembers what it was told."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.told: list[str] = []
        self.refusal: EgressRefused | None = None

    async def accept(self) -> None:
        self.told.append("accept")

    async def refuse(self, refusal: EgressRefused) -> None:
        self.told.append("refuse")
        self.refusal = refusal

    def close(self) -> None:
        self.told.append("close")
        super().close()


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    far.settimeout(60)
    yield near, far
    near.close()
    far.close()


async def test_a_granted_connection_is_accepted_relayed_recorded_and_closed(pair):
    near, box = pair
    house = House("a.example")
    stream = Told(near)
    serving = asyncio.create_task(house.egress.serve(stream, "A.Example", 443))
    box.sendall(b"hello")
    box.shutdown(socket.SHUT_WR)
    await eventually(lambda: house.far)
    assert house.egress.open_connections == 1
    assert await asyncio.to_thread(house.far[0].recv, 100) == b"hello"
    house.far[0].sendall(b"world!")
    house.far[0].close()
    await serving
    assert box.recv(100) == b"world!"
    assert stream.told == ["accept", "close"]
    decided, closed = house.records
    assert (decided.allowed, decided.rule, decided.host, decided.port) == (True, "a.example", "a.example", 443)
    assert decided.addresses == ("1.1.1.1",)
    assert decided.refused_addresses == ("10.0.0.1: a private network",)
    assert decided.reason == "a.example:443 is granted by --net a.example."
    assert (decided.run_id, decided.session_id) == ("run-1", "ses-1")
    assert (closed.connection_id, closed.address, closed.ended) == (decided.connection_id, "1.1.1.1", "done")
    assert (closed.bytes_out, closed.bytes_in) == (5, 6)
    assert (house.egress.bytes_out, house.egress.bytes_in, house.egress.open_connections) == (5, 6, 0)


async def test_a_refused_connection_is_told_why_and_recorded(pair):
    house = House("a.example")
    stream = Told(pair[0])
    await house.egress.serve(stream, "b.example", 443)
    assert stream.told == ["refuse", "close"]
    assert (stream.refusal.status, "--net b.example" in stream.refusal.message) == (403, True)
    (decided,) = house.records
    assert (decided.allowed, decided.host, decided.addresses) == (False, "b.example", ())
    assert house.far == []


async def test_a_host_that_does_not_answer_is_told_and_its_end_recorded(pair):
    house = House("a.example")
    house.problem = ConnectionRefusedError(111, "Connection refused")
    stream = Told(pair[0])
    await house.egress.serve(stream, "a.example", 443)
    assert stream.refusal.status == 502
    assert [record.kind for record in house.records] == ["egress.decided", "egress.closed"]
    assert house.records[1].ended == "unreachable"


async def test_the_same_refusal_is_recorded_ever_more_rarely():
    house = House()
    for _ in range(100):
        near, far = socket.socketpair()
        await house.egress.serve(Told(near), "b.example", 443)
        far.close()
    assert [record.times for record in house.records] == [1, 2, 4, 8, 16, 32, 64]


async def test_names_without_end_do_not_fill_the_records():
    house = House()
    for number in range(2000):
        near, far = socket.socketpair()
        await house.egress.serve(Told(near), f"h{number}.example", 443)
        far.close()
    assert len(house.records) < 1100


async def test_a_connection_too_many_is_told_to_wait_and_the_others_go_on(pair):
    house = House("a.example", connections=2)
    ends = [socket.socketpair() for _ in range(2)]
    serving = [asyncio.create_task(house.egress.serve(Told(near), "a.example", 443)) for near, _ in ends]
    await eventually(lambda: len(house.far) == 2)
    stream = Told(pair[0])
    await house.egress.serve(stream, "a.example", 443)
    assert (stream.refusal.status, house.egress.open_connections) == (503, 2)
    for (_, far), other in zip(ends, house.far, strict=True):
        far.close()
        other.close()
    await asyncio.gather(*serving)
    assert house.egress.open_connections == 0


async def test_ten_thousand_connections_to_a_host_that_never_answers_hold_a_bounded_part():
    class Bare:
        """A box's end without a socket, so that ten thousand of them cost nothing but what is tested."""

        def __init__(self) -> None:
            self.status = 0

        async def refuse(self, refusal: EgressRefused) -> None:
            self.status = refusal.status

        def close(self) -> None:
            pass

    house = House("a.example", connect=600.0)
    house.dialling = asyncio.get_running_loop().create_future()
    streams = [Bare() for _ in range(10_000)]
    serving = [asyncio.create_task(house.egress.serve(stream, "a.example", 443)) for stream in streams]
    limits = EgressLimits()
    await eventually(lambda: sum(task.done() for task in serving) == 10_000 - limits.connections)
    assert sum(stream.status == 503 for stream in streams) == 10_000 - limits.connections
    assert house.egress.open_connections == limits.connections
    assert len(house.records) < limits.connections + 40
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    assert house.egress.open_connections == 0


async def test_what_waits_for_a_person_takes_no_place_of_what_is_granted(pair):
    class Slow:
        async def approve(self, request):
            del request
            await asyncio.get_running_loop().create_future()

    house = House("ask", "a.example", asking=Asking(Slow()), connections=1, waiting=3)
    ends = [socket.socketpair() for _ in range(3)]
    waiting = [asyncio.create_task(house.egress.serve(Told(near), "b.example", 443)) for near, _ in ends]
    # What is one question for three still takes three places.
    await eventually(lambda: house.egress._waiting == 3)
    stream = Told(pair[0])
    await house.egress.serve(stream, "c.example", 443)
    assert stream.refusal.status == 503
    gone = waiting.pop()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    near, far = socket.socketpair()
    granted = asyncio.create_task(house.egress.serve(Told(near), "a.example", 443))
    await eventually(lambda: house.far)
    assert house.egress.open_connections == 1
    for task in [*waiting, granted]:
        task.cancel()
    await asyncio.gather(*waiting, granted, return_exceptions=True)
    for one in [far, *house.far, *(far for _, far in ends)]:
        one.close()


async def test_a_run_that_has_used_up_its_bytes_gets_no_more_connections(pair):
    house = House("a.example", run_bytes_out=3)
    near, box = socket.socketpair()
    box.sendall(b"abcdef")
    await house.egress.serve(Told(near), "a.example", 443)
    assert house.records[-1].ended == "limit"
    stream = Told(pair[0])
    await house.egress.serve(stream, "a.example", 443)
    assert "used up its bytes" in stream.refusal.message
    for one in (box, *house.far):
        one.close()


async def test_cancelling_closes_both_ends_and_records_it(pair):
    near, box = pair
    house = House("a.example")
    before = asyncio.all_tasks()
    stream = Told(near)
    serving = asyncio.create_task(house.egress.serve(stream, "a.example", 443))
    await eventually(lambda: stream.told == ["accept"])
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert (box.recv(1), house.far[0].recv(1)) == (b"", b"")
    assert house.records[-1].ended == "cancelled"
    assert (asyncio.all_tasks(), house.egress.open_connections) == (before, 0)
    house.far[0].close()


async def test_cancelling_while_it_connects_is_recorded_too(pair):
    house = House("a.example")
    house.dialling = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(house.egress.serve(Told(pair[0]), "a.example", 443))
    await eventually(lambda: house.egress.open_connections == 1)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert (house.records[-1].ended, house.egress.open_connections) == ("cancelled", 0)


async def test_what_cannot_be_recorded_does_not_happen(pair):
    def full(record: object) -> None:
        raise OSError(28, "No space left on device", str(record)[:0])

    house = House("a.example", record=full)
    with pytest.raises(OSError, match="No space left"):
        await house.egress.serve(Told(pair[0]), "a.example", 443)
    assert house.far == []
    assert pair[1].recv(1) == b""


async def test_a_run_that_was_called_off_is_told_to_the_box_and_to_the_caller(pair):
    house = House("ask", asking=Asking(ScriptedApprover(Verdict.ABORTED)))
    stream = Told(pair[0])
    with pytest.raises(ApprovalAborted):
        await house.egress.serve(stream, "a.example", 443)
    assert stream.told == ["refuse", "close"]
    assert "called off" in house.records[0].reason


async def test_a_box_that_does_not_take_its_answer_is_let_go(pair):
    class Deaf(Told):
        async def accept(self) -> None:
            await asyncio.get_running_loop().create_future()

    house = House("a.example", answer=0.01)
    await house.egress.serve(Deaf(pair[0]), "a.example", 443)
    assert house.records[-1].ended == "reset"
    house.far[0].close()


@pytest.mark.parametrize("host", ["\x1b]0;x\x07", "a\r\nb", "\u202egpj.exe", "a" * 5000])
async def test_hostile_hosts_are_recorded_in_short_printable_words(host, pair):
    house = House("ask")
    await house.egress.serve(Told(pair[0]), host, 443)
    (decided,) = house.records
    assert decided.host.isprintable()
    assert decided.reason.isprintable()
    assert len(decided.reason) < 600
