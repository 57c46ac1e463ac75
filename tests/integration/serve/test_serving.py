"""`kagura-kernel serve` as a process of its own: real libraries of chats, real boxes, a model on this machine."""

import asyncio
import signal
import socket
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kagura_kernel.cockpit.served import server_of
from kagura_kernel.testing.guards import descendants
from kagura_kernel.testing.patience import eventually
from tests.integration.serve.shop import ANN, ANN_IN_DISCORD, Gate, Shop, alive, environments, posted, press, shop
from tests.support.served import Commands

pytest.importorskip("slack_bolt")

from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

pytestmark = [pytest.mark.slow, pytest.mark.real_clock]


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """What people type beside the server."""
    with Commands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands


@pytest.fixture
async def place(tmp_path: Path, private_home: Path, slack: SlackServer, commands: Commands) -> AsyncIterator[Shop]:
    """One with a Slack, whose tokens lie in variables."""
    async with shop(tmp_path, private_home, commands) as place:
        place.with_slack(slack.api, BOT_TOKEN, APP_TOKEN)
        yield place


@dataclass
class Supervisor:
    """What systemd listens with; it reads at once what it is told."""

    place: str  # Where it listens
    told: list[str] = field(default_factory=list)  # Everything that it was told


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(made.place)

        def listen() -> None:
            while said := heard.recv(4096):
                made.told.append(said.decode())

        listening = threading.Thread(target=listen)
        listening.start()
        yield made
        heard.sendto(b"", made.place)
        listening.join()


async def sleeping(pid: int, seconds: int) -> list[int]:
    """The processes below this one, once a command in a box sleeps so long."""
    found: list[int] = []

    async def sleeps() -> bool:
        # To look through all processes of a busy machine takes long, and what is waited for would wait for it.
        await asyncio.sleep(0.2)
        below = descendants(pid)
        found[:] = [one.pid for one in below]
        return any(f"sleep\0{seconds}".encode() in one.command for one in below)

    await eventually(sleeps)
    return found


async def test_a_thread_is_served_from_its_first_message_to_its_answer_and_no_process_below_holds_a_token(place, slack):
    with place.serving() as server:
        await server.says("Serving slack. Stop with Ctrl-C or SIGTERM.")
        thread = await slack.say(ANN, "box: echo $((6 * 7)); sleep 1.25")
        below = await sleeping(server.process.pid, 1)
        found = environments(below)
        await posted(slack, thread, "Over: ")
        assert "42" in (await posted(slack, thread, "Done")).text
        assert await server.ends() == 0
    assert b"PATH=" in found
    for token in (BOT_TOKEN, APP_TOKEN):
        assert token.encode() not in found
        assert token not in server.said


async def test_a_question_is_answered_by_a_button_or_by_another_process_and_a_run_is_killed_by_one(place, slack):
    with place.serving() as server:
        await server.says("Serving slack.")
        threads = [await slack.say(ANN, f"host: echo {number} > n{number}") for number in range(3)]
        await press(slack, threads[0], "Allow")
        await posted(slack, threads[0], "Done")
        for thread in threads[1:]:
            await posted(slack, thread, "asks ·")
        rows = await place.rows("runs")
        named = {row["task"].partition(" > ")[2]: row["run_id"] for row in rows}
        waiting = {row["run_id"]: row["id"] for row in await place.rows("approvals", "--pending")}
        await place.command("approve", waiting[named["n1"]])
        await posted(slack, threads[1], "Done")
        await place.command("kill", named["n2"])
        await posted(slack, threads[2], "was stopped by")
        assert await server.ends() == 0
    assert sorted(path.name for path in place.project.iterdir()) == ["n0", "n1"]


async def test_two_chats_are_served_at_once(place, slack):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pytest.importorskip("discord")
    from tests.support.discord_server import TOKEN, DiscordServer

    async with DiscordServer() as discord:
        place.environ["THE_DISCORD"] = TOKEN
        place.tables["discord"] = {
            "operators": [ANN_IN_DISCORD],
            "bot_token_env": "THE_DISCORD",
            "api": discord.api,
        }
        place.write()
        with place.serving() as server:
            await server.says("Serving slack, discord.")
            told = "box: echo both; sleep 0.5"
            asked = [(slack, await slack.say(ANN, told)), (discord, await discord.say(ANN_IN_DISCORD, told))]
            for chat, thread in asked:
                assert "both" in (await posted(chat, thread, "Done")).text
            assert await server.ends() == 0


async def test_told_to_stop_it_lets_runs_end_refuses_new_ones_and_leaves_nothing(place, slack, supervisor):
    place.environ |= {"NOTIFY_SOCKET": supervisor.place, "WATCHDOG_USEC": "300000"}
    with place.serving("--drain", "600") as server:
        await server.says("Serving slack.")
        thread = await slack.say(ANN, "host: touch done")
        await posted(slack, thread, "asks ·")
        below = [one.pid for one in descendants(server.process.pid)]
        server.process.send_signal(signal.SIGTERM)
        await server.says("at most 600 s are waited for run-")
        late = await slack.say(ANN, "box: echo too late")
        await posted(slack, late, "begins nothing new")
        await press(slack, thread, "Allow")
        assert await server.ends(None) == 0
    assert (place.project / "done").exists()
    assert [row["status"] for row in await place.rows("runs")] == ["done"]
    await posted(slack, thread, "Done")
    assert below
    await eventually(lambda: not any(map(alive, below)))
    assert server_of(Path(place.environ["KAGURA_HOME"])) is None
    assert set(supervisor.told) == {"READY=1\nSTATUS=Serving slack.", "WATCHDOG=1", "STOPPING=1\nSTATUS=Stopping."}


async def test_a_second_signal_ends_it_at_once_and_the_next_server_tells_what_was_lost(place, slack):
    with place.serving("--drain", "600") as server:
        await server.says("Serving slack.")
        thread = await slack.say(ANN, "box: sleep 62")
        below = await sleeping(server.process.pid, 62)
        server.process.send_signal(signal.SIGTERM)
        await server.says("at most 600 s")
        assert await server.ends() == 128 + signal.SIGTERM
        await eventually(lambda: not any(map(alive, below)))
    with place.serving() as server:
        await server.says("1 run was lost with the process that ran it: run-")
        await posted(slack, thread, "Lost")
        assert await server.ends() == 0


async def test_a_chat_that_is_not_there_yet_is_served_as_soon_as_it_is(place, slack):
    gate = Gate()
    address = slack.api.split("/")[2]
    place.tables["slack"] |= {"api": slack.api.replace(address, f"127.0.0.1:{gate.port}")}
    place.write()
    try:
        with place.serving() as server:
            await server.says("slack is not served yet, and is tried again: ERR_TRANSPORT")
            await server.says("No chat can be reached yet.")
            await gate.open(int(address.rpartition(":")[2]))
            await server.says("Serving slack.")
            thread = await slack.say(ANN, "status")
            await posted(slack, thread, "Nothing goes on")
            assert await server.ends() == 0
    finally:
        await gate.close()
