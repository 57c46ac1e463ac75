import asyncio
import socket

import pytest

from kagura_kernel.domain.approvals import ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import ApprovalAborted, EgressRefused
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.membrane.egress import egress
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import Asking, parse_grants
from kagura_kernel.membrane.egress.stream import PLACES, EgressLimits, Places, SocketStream
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually


class House:
    """An egress whose every connection leads to a socket pair; `far` holds the other ends."""

    def __init__(self, *words: str, asking: Asking | None = None, record=None, places=PLACES, **limits) -> None:
        self.records: list[EgressDecided | EgressClosed] = []
        self.far: list[socket.socket] = []
        self.problem: OSError | None = None
        self.dialling: asyncio.Future[None] | None = None
        bounds = EgressLimits(**limits)
        gate = Gate(parse_grants(words), self._resolve, asking=asking, limits=bounds, dial_one=self._dial)
        self.clock = FakeClock()
        self.egress = Egress(
            gate,
            record or self.records.append,
            run_id="run-1",
            session_id="ses-1",
            limits=bounds,
            clock=self.clock,
            places=places,
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
    assert house.egress.open_connections == 0


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
    house = House(burst=10**6)
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

        async def gone(self) -> None:
            await asyncio.get_running_loop().create_future()

        async def refuse(self, refusal: EgressRefused) -> None:
            self.status = refusal.status

        def close(self) -> None:
            pass

    house = House("a.example", connect=600.0, burst=10**6)
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


def test_without_other_limits_those_hold_that_the_page_about_egress_names():
    limits = EgressLimits()
    assert [limits.bytes_out, limits.bytes_in] == [2**30, 2 * 2**30]
    assert [limits.run_bytes_out, limits.run_bytes_in] == [4 * 2**30, 16 * 2**30]


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


async def served(house: House, times: int, *, host: str = "a.example") -> None:
    """So many connections, one after the other, each with a byte out."""
    for _ in range(times):
        near, box = socket.socketpair()
        box.sendall(b"x")
        box.shutdown(socket.SHUT_WR)
        serving = asyncio.create_task(house.egress.serve(Told(near), host, 443))
        await eventually(lambda: house.far)
        far = house.far.pop()
        assert await asyncio.to_thread(far.recv, 10) == b"x"
        far.close()
        await serving
        box.close()


async def test_connections_without_end_take_ever_fewer_rows_and_lose_no_byte(monkeypatch):
    monkeypatch.setattr(egress, "MAX_SINGLE", 10)
    monkeypatch.setattr(egress, "MAX_TOGETHER", 32)
    house = House("a.example", burst=10**6)
    await served(house, 190)
    house.egress.close()
    decided, closed = house.records[::2], house.records[1::2]
    assert [row.times for row in decided] == [1] * 10 + [2, 4, 8, 16, 32, 32, 32, 32, 32]
    assert [row.times for row in closed] == [1] * 10 + [2, 4, 8, 16, 32, 32, 32, 32, 22]
    assert sum(row.bytes_out for row in closed) == 190
    assert [row.connection_id for row in decided] == [row.connection_id for row in closed]
    assert {row.ended for row in closed} == {"done"}
    assert decided[-1].reason.endswith("This row stands for up to 32 connections.")


async def test_the_rest_is_written_down_at_the_end_and_what_is_open_then_when_it_ends(pair, monkeypatch):
    monkeypatch.setattr(egress, "MAX_SINGLE", 0)
    house = House("a.example")
    await served(house, 5)
    serving = asyncio.create_task(house.egress.serve(Told(pair[0]), "a.example", 443))
    await eventually(lambda: house.far)
    assert [row.times for row in house.records if isinstance(row, EgressClosed)] == [2]
    house.egress.close()
    house.egress.close()
    assert sum(row.times for row in house.records if isinstance(row, EgressClosed)) == 2
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    last = house.records[-1]
    assert (last.times, last.bytes_out, last.ended) == (4, 3, "done")
    assert "4 connections: 3 done, 1 cancelled." in last.detail
    house.far[0].close()


async def test_hosts_that_do_not_answer_again_and_again_share_their_rows_too(monkeypatch):
    monkeypatch.setattr(egress, "MAX_SINGLE", 3)
    house = House("a.example")
    house.problem = ConnectionRefusedError(111, "Connection refused")
    for _ in range(17):
        near, far = socket.socketpair()
        await house.egress.serve(Told(near), "a.example", 443)
        far.close()
    assert len(house.records) == 2 * 3 + 2 * 3
    assert {row.ended for row in house.records if isinstance(row, EgressClosed)} == {"unreachable"}
    assert "connection refused" in house.records[-1].detail


async def test_a_run_that_is_over_gets_no_more_connections(pair):
    house = House("a.example")
    house.egress.close()
    stream = Told(pair[0])
    await house.egress.serve(stream, "a.example", 443)
    assert "the run is over" in stream.refusal.message


async def test_connections_that_come_too_fast_take_turns_and_too_many_are_told_to_wait(pair):
    house = House("a.example", rate=8.0, burst=4, patience=0.5)
    house.problem = ConnectionRefusedError(111, "Connection refused")
    ends = [socket.socketpair() for _ in range(8)]
    serving = [asyncio.create_task(house.egress.serve(Told(near), "a.example", 443)) for near, _ in ends]
    await eventually(lambda: sum(task.done() for task in serving) == 4 and house.clock.sleepers == 4)
    stream = Told(pair[0])
    await house.egress.serve(stream, "a.example", 443)
    assert (stream.refusal.status, "too fast" in stream.refusal.message) == (503, True)
    await house.clock.advance(0.25)
    await eventually(lambda: sum(task.done() for task in serving) == 6)
    await house.clock.advance(0.25)
    await asyncio.gather(*serving)
    for _, far in ends:
        far.close()


async def test_all_runs_together_hold_only_so_many_connections_and_one_alone_not_all_of_them():
    places = Places(lambda: 24)
    greedy, modest = House("a.example", places=places), House("a.example", places=places)
    ends = [socket.socketpair() for _ in range(40)]
    streams = [Told(near) for near, _ in ends]
    serving = [asyncio.create_task(greedy.egress.serve(stream, "a.example", 443)) for stream in streams[:30]]
    serving += [asyncio.create_task(modest.egress.serve(stream, "a.example", 443)) for stream in streams[30:]]
    await eventually(lambda: sum(bool(stream.told) for stream in streams) == 40)
    assert (greedy.egress.open_connections, modest.egress.open_connections) == (18, 6)
    refused = [stream.refusal for stream in streams if stream.refusal is not None]
    assert {refusal.status for refusal in refused} == {503}
    assert "all runs together have" in refused[0].message
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    assert places.taken == 0
    for one in [*(far for _, far in ends), *greedy.far, *modest.far]:
        one.close()


async def test_a_program_that_hangs_up_while_it_is_connected_stops_the_connecting(pair):
    near, box = pair
    house = House("a.example")
    house.dialling = asyncio.get_running_loop().create_future()
    before = asyncio.all_tasks()
    serving = asyncio.create_task(house.egress.serve(Told(near), "a.example", 443))
    await eventually(lambda: house.egress.open_connections == 1)
    box.close()
    await serving
    assert (house.dialling.cancelled(), house.egress.open_connections) == (True, 0)
    assert (house.records[-1].ended, "hung up" in house.records[-1].detail) == ("reset", True)
    assert asyncio.all_tasks() == before


class Asked:
    """Somebody who is asked and says nothing until the test does."""

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []
        self.answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.withdrawn = 0

    async def approve(self, request: ApprovalRequest) -> Decision:
        self.requests.append(request)
        try:
            verdict = await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        return Decision(request.id, verdict, "ann", "test", request.requested_at)


async def test_a_question_that_no_program_waits_for_any_more_is_withdrawn(pair):
    person = Asked()
    house = House("ask", asking=Asking(person), linger=0.01)
    other, far = socket.socketpair()
    serving = [asyncio.create_task(house.egress.serve(Told(near), "b.example", 443)) for near in (pair[0], other)]
    await eventually(lambda: house.egress._waiting == 2 and person.requests)
    far.close()
    await serving[1]
    assert person.withdrawn == 0
    pair[1].close()
    await serving[0]
    assert (person.withdrawn, len(person.requests), house.records) == (1, 1, [])


async def test_a_program_that_was_tired_of_waiting_finds_the_same_question_when_it_tries_again(pair):
    person = Asked()
    house = House("ask", asking=Asking(person), linger=600.0)
    first = asyncio.create_task(house.egress.serve(Told(pair[0]), "b.example", 443))
    await eventually(lambda: person.requests)
    pair[1].close()
    near, box = socket.socketpair()
    stream = Told(near)
    second = asyncio.create_task(house.egress.serve(stream, "b.example", 443))
    await eventually(lambda: house.egress._waiting == 2)
    person.answer.set_result(Verdict.ALLOW)
    await first
    await eventually(lambda: stream.told == ["accept"])
    assert (len(person.requests), person.withdrawn, len(house.far)) == (1, 0, 1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    for one in (box, *house.far):
        one.close()


async def test_what_was_asked_for_while_the_run_went_on_is_not_connected_after_it(pair):
    answer = asyncio.Event()

    class Slow:
        async def approve(self, request: ApprovalRequest) -> Decision:
            await answer.wait()
            return Decision(request.id, Verdict.ALLOW, "ann", "test", request.requested_at)

    house = House("ask", asking=Asking(Slow()))
    stream = Told(pair[0])
    serving = asyncio.create_task(house.egress.serve(stream, "a.example", 443))
    await asyncio.sleep(0)
    house.egress.close()
    answer.set()
    await serving
    assert stream.told == ["refuse", "close"]
    assert "when the run is over" in stream.refusal.message
    assert (house.far, [record.allowed for record in house.records]) == ([], [False])
