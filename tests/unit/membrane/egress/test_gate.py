import asyncio
import socket
from ipaddress import ip_address

import pytest

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import EgressDenied, EgressUnreachable
from kagura_kernel.membrane.egress.gate import Gate, check_answers
from kagura_kernel.membrane.egress.hosts import HOST_SETS, Target
from kagura_kernel.membrane.egress.policy import Asking, parse_grants
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.testing.approver import ScriptedApprover


class Book:
    """Answers from a list of lists, one after the other, and counts the questions."""

    def __init__(self, *answers: list[str]) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Wire:
    """Connects to nothing and knows what it was told to dial; some addresses fail, some never answer."""

    def __init__(self, *, failing: tuple[str, ...] = (), silent: tuple[str, ...] = ()) -> None:
        self.dialled: list[str] = []
        self.made: list[socket.socket] = []
        self._failing = failing
        self._silent = silent

    async def __call__(self, address, port: int) -> socket.socket:
        self.dialled.append(f"{address}:{port}")
        if str(address) in self._failing:
            raise ConnectionRefusedError(111, "Connection refused")
        if str(address) in self._silent:
            await asyncio.get_running_loop().create_future()
        made = socket.socket()
        self.made.append(made)
        return made


def gate(words: list[str], book: Book, wire: Wire | None = None, **more) -> Gate:
    return Gate(parse_grants(words), book, dial_one=wire or Wire(), **more)


async def test_a_host_of_a_mirror_is_advised_by_the_name_of_its_set_whoever_refuses_it():
    sets = {**HOST_SETS, "python-packages": [Target("mirror.example", 443)]}
    for words, asking in (([], None), (["ask"], None), (["ask"], Asking(ScriptedApprover(Verdict.DENY)))):
        with pytest.raises(EgressDenied, match=r"--net python-packages$"):
            await Gate(parse_grants(words, sets), Book([]), asking=asking).admit("mirror.example", 443)
        # The set is replaced as a whole, so its name would not grant what the mirror stands for.
        with pytest.raises(EgressDenied, match=r"--net pypi\.org$"):
            await Gate(parse_grants(words, sets), Book([]), asking=asking).admit("pypi.org", 443)


async def test_a_name_that_is_not_granted_is_never_looked_up():
    book = Book(["1.1.1.1"])
    with pytest.raises(EgressDenied, match=r"not granted.*--net secret.a.example$"):
        await gate([], book).admit("secret.a.example", 443)
    assert book.asked == []


async def test_a_granted_name_is_looked_up_once_and_the_checked_address_is_dialled():
    book, wire = Book(["1.1.1.1"], ["127.0.0.1"]), Wire()
    door = gate(["a.example"], book, wire)
    admitted = await door.admit("A.EXAMPLE.", 443)
    connection, address = await door.connect(admitted)
    connection.close()
    assert (book.asked, wire.dialled, str(address)) == ([("a.example", 443)], ["1.1.1.1:443"], "1.1.1.1")


@pytest.mark.parametrize(
    "answer",
    ["127.0.0.1", "169.254.169.254", "10.1.1.1", "::1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "fe80::1%eth0", "x"],
)
async def test_a_name_that_leads_only_to_addresses_of_no_public_network_is_refused(answer):
    with pytest.raises(EgressDenied, match="leads to no public address"):
        await gate(["a.example"], Book([answer])).admit("a.example", 443)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["localhost:8080"], "--net 127.0.0.1:8080"), (["ask"], "--net localhost:8080,127.0.0.1:8080")],
)
async def test_it_is_told_which_address_to_grant_beside_it(words, told):
    asking = Asking(ScriptedApprover(Verdict.ALLOW))
    with pytest.raises(EgressDenied) as caught:
        await gate(words, Book(["::1", "127.0.0.1"]), asking=asking).admit("localhost", 8080)
    assert caught.value.status == 403
    assert caught.value.message.endswith(f". Grant it with: {told}")
    words = told.removeprefix("--net ").split(",")
    admitted = await gate(["localhost:8080", *words], Book(["::1", "127.0.0.1"])).admit("localhost", 8080)
    assert [str(one) for one in admitted.checked.allowed] == ["127.0.0.1"]


async def test_a_metadata_service_is_not_advised_by_name_or_by_address():
    for host, words in (("169.254.169.254", []), ("metadata.example", ["metadata.example:80"])):
        with pytest.raises(EgressDenied, match="metadata service") as caught:
            await gate(words, Book(["169.254.169.254"])).admit(host, 80)
        assert caught.value.message.endswith("It hands out the machine's own credentials and cannot be granted.")
        assert "--net" not in caught.value.message


async def test_of_several_answers_those_that_are_refused_are_left_out():
    wire = Wire()
    door = gate(["a.example"], Book(["127.0.0.1", "1.1.1.1", "10.0.0.1", "1.1.1.1"]), wire)
    admitted = await door.admit("a.example", 443)
    assert admitted.checked.refused == (("127.0.0.1", "loopback"), ("10.0.0.1", "a private network"))
    (await door.connect(admitted))[0].close()
    assert wire.dialled == ["1.1.1.1:443"]


async def test_a_name_may_lead_to_a_private_address_that_was_granted_itself_with_that_port():
    words = ["db.example:5432", "10.0.0.5:5432", "db.example:80"]
    admitted = await gate(words, Book(["10.0.0.5"])).admit("db.example", 5432)
    assert [str(one) for one in admitted.checked.allowed] == ["10.0.0.5"]
    with pytest.raises(EgressDenied):
        await gate(words, Book(["10.0.0.5"])).admit("db.example", 80)


@pytest.mark.parametrize("spelling", ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "0177.1"])
async def test_an_address_is_granted_or_refused_in_every_spelling_without_a_look_up(spelling):
    book = Book([])
    admitted = await gate(["127.0.0.1:8080"], book).admit(spelling, 8080)
    assert str(admitted.target) == "127.0.0.1:8080"
    with pytest.raises(EgressDenied, match="loopback"):
        await gate(["ask"], book).admit(spelling, 8080)
    assert book.asked == []


@pytest.mark.parametrize(
    ("host", "port"), [("a b", 443), ("", 443), ("a.example", 0), ("fe80::1%lo", 443), ("\x1b[2J", 80)]
)
async def test_what_is_no_host_is_denied_in_printable_words(host, port):
    with pytest.raises(EgressDenied) as caught:
        await gate(["ask"], Book([])).admit(host, port)
    assert caught.value.message.isprintable()


async def test_an_approved_host_is_looked_up_and_checked_like_a_granted_one():
    asking = Asking(ScriptedApprover(Verdict.ALLOW, Verdict.ALLOW))
    door = gate(["ask"], Book(["1.1.1.1"], ["169.254.169.254"]), asking=asking)
    admitted = await door.admit("a.example", 443)
    assert (admitted.rule, admitted.reason) == ("asked", "approved by script, for this run")
    with pytest.raises(EgressDenied, match="metadata service"):
        await door.admit("b.example", 443)


async def test_connections_that_ask_for_a_name_at_once_share_its_look_up():
    book = Book(["1.1.1.1"])
    door = gate(["a.example"], book)
    await asyncio.gather(*(door.admit("a.example", 443) for _ in range(50)))
    assert len(book.asked) == 1


async def test_a_look_up_that_takes_too_long_is_given_up():
    async def hang(host: str, port: int) -> list[str]:
        del host, port
        return await asyncio.get_running_loop().create_future()

    door = Gate(parse_grants(["a.example"]), hang, limits=EgressLimits(resolve=0.01))
    with pytest.raises(EgressUnreachable, match="could not be looked up within"):
        await door.admit("a.example", 443)


async def test_a_look_up_that_fails_says_why():
    async def fail(host: str, port: int) -> list[str]:
        del host, port
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(EgressUnreachable, match="name or service not known"):
        await Gate(parse_grants(["a.example"]), fail).admit("a.example", 443)


async def test_a_name_without_an_address_is_unreachable():
    with pytest.raises(EgressUnreachable, match="has no address"):
        await gate(["a.example"], Book([])).admit("a.example", 443)


async def test_the_next_address_is_tried_when_one_fails_or_is_silent():
    wire = Wire(failing=("1.1.1.1",), silent=("8.8.8.8",))
    door = gate(["a.example"], Book(["1.1.1.1", "8.8.8.8", "9.9.9.9"]), wire)
    connection, address = await door.connect(await door.admit("a.example", 443))
    connection.close()
    assert str(address) == "9.9.9.9"
    assert wire.dialled == ["1.1.1.1:443", "8.8.8.8:443", "9.9.9.9:443"]


async def test_when_every_address_fails_the_last_error_is_told():
    wire = Wire(failing=("1.1.1.1", "8.8.8.8"))
    door = gate(["a.example"], Book(["1.1.1.1", "8.8.8.8"]), wire)
    with pytest.raises(EgressUnreachable, match="connection refused"):
        await door.connect(await door.admit("a.example", 443))


async def test_silence_ends_at_the_limit():
    door = gate(["a.example"], Book(["1.1.1.1"]), Wire(silent=("1.1.1.1",)), limits=EgressLimits(connect=0.01))
    with pytest.raises(EgressUnreachable, match="did not answer"):
        await door.connect(await door.admit("a.example", 443))


async def test_of_two_connections_that_stand_at_once_one_is_kept_and_the_other_closed():
    wire = Wire()
    second = asyncio.Event()

    async def both(address, port: int) -> socket.socket:
        made = await wire(address, port)
        if len(wire.made) == 1:
            await second.wait()
        second.set()
        return made

    door = Gate(parse_grants(["a.example"]), Book(["1.1.1.1", "8.8.8.8"]), dial_one=both)
    connection, _ = await door.connect(await door.admit("a.example", 443))
    assert len(wire.made) == 2
    assert [one for one in wire.made if one.fileno() >= 0] == [connection]
    connection.close()


async def test_only_so_many_addresses_are_tried():
    book = Book([f"1.1.1.{n}" for n in range(100)])
    admitted = await gate(["a.example"], book, limits=EgressLimits(addresses=3)).admit("a.example", 443)
    assert len(admitted.checked.allowed) == 3


def test_every_answer_is_judged():
    checked = check_answers(parse_grants([]), ["1.1.1.1", "10.0.0.1", "garbage", "::1"], 443)
    assert checked.allowed == (ip_address("1.1.1.1"),)
    assert [address for address, _ in checked.refused] == ["10.0.0.1", "garbage", "::1"]
