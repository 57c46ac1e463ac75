"""A place where `kagura-kernel serve` runs for tests: its chats, the model behind its runs, and the people in it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kagura_kernel.testing.chat import ChatServer, Shown
from kagura_kernel.testing.patience import eventually
from tests.support.kernel import kernel_environ
from tests.support.model_script import ModelTurn, Request, calls, message_text, says
from tests.support.openai_server import OpenAIServer
from tests.support.served import Commands

ANN, ANN_IN_DISCORD = "U0ANN", "10000000001"
PROGRAM = (sys.executable, "-m", "kagura_kernel.cli.main")


def model(request: Request) -> ModelTurn:
    """Does what the newest task says: `box: COMMAND`, `host: COMMAND`, or words alone."""
    said = [message_text(message) for message in request["messages"] if message["role"] == "user"][-1]
    if request["messages"][-1]["role"] == "tool":
        return says(f"Over: {message_text(request['messages'][-1])[:200]}")
    for place in ("box", "host"):
        _, found, command = said.partition(f"{place}: ")
        if found:
            more = {"host": True, "reason": "to see it"} if place == "host" else {}
            return calls("bash", {"command": command.splitlines()[0], **more})
    return says("Hello.")


@dataclass
class Shop:
    """What outlives the servers in it."""

    folder: Path  # All of it
    environ: dict[str, str]  # Of every process
    commands: Commands | None = None  # What carries out other commands; None starts a process for each
    tables: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # The chats of its settings

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def with_slack(self, api: str, bot_token: str, app_token: str) -> None:
        """Have a Slack whose web API is there, with Ann as its operator and the tokens in variables; write it down."""
        self.environ |= {"THE_BOT": bot_token, "THE_APP": app_token}
        variables = {"bot_token_env": "THE_BOT", "app_token_env": "THE_APP"}
        self.tables["slack"] = {"operators": [ANN], "api": api, **variables}
        self.write()

    def write(self, **settings: object) -> None:
        """Write the settings down."""
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        for chat, table in self.tables.items():
            text += f"\n[transports.{chat}]\n"
            text += "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
        Path(self.environ["KAGURA_CONFIG"]).write_text(text)

    def told(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command, to its end."""
        return subprocess.run(
            [*PROGRAM, *words],
            env=self.environ,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    async def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same while the chats go on; it has to succeed."""
        if self.commands is None:
            done = await asyncio.to_thread(self.told, *words)
        else:
            done = await asyncio.to_thread(self.commands.told, self.environ, self.project, *words)
        assert done.returncode == 0, done.stderr
        return done

    async def rows(self, *words: str) -> list[dict[str, Any]]:
        """What a command prints as JSON."""
        return list(json.loads((await self.command(*words, "--json")).stdout))

    @contextmanager
    def serving(self, *words: str) -> Iterator[Server]:
        log = self.folder / "log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [*PROGRAM, "serve", *words],
                env=self.environ,
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            yield Server(process, log)
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Server:
    """One that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """Everything on its standard error."""
        return self.log.read_text()

    async def says(self, line: str) -> None:
        """Return when it has said this."""

        def holds() -> bool:
            if line in self.said:
                return True
            assert self.process.poll() is None, self.said
            return False

        await eventually(holds)

    async def ends(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Its exit code, once it was sent this signal and is over."""
        if number is not None:
            self.process.send_signal(number)
        await eventually(lambda: self.process.poll() is not None)
        return self.process.wait()


@asynccontextmanager
async def shop(folder: Path, home: Path, commands: Commands | None = None) -> AsyncIterator[Shop]:
    """One without a chat yet."""
    (folder / "project").mkdir()
    (folder / "tmp").mkdir()
    with OpenAIServer(model) as thinking:
        made = Shop(
            folder,
            kernel_environ(
                home,
                KAGURA_CONFIG=str(folder / "config.toml"),
                KAGURA_BOX="bubblewrap",
                KAGURA_BRAIN="pydantic_ai",
                KAGURA_ENDPOINT=thinking.url,
                KAGURA_MODEL="scripted",
                TMPDIR=str(folder / "tmp"),
            ),
            commands,
        )
        made.write()
        yield made


def post(server: ChatServer, thread: str, words: str) -> Shown | None:
    return next((one for one in server.shown(thread) if words in one.text), None)


async def posted(server: ChatServer, thread: str, words: str) -> Shown:
    """The same, as soon as there is one."""
    await eventually(lambda: post(server, thread, words))
    found = post(server, thread, words)
    assert found is not None
    return found


async def press(server: ChatServer, thread: str, label: str) -> None:
    """Ann presses the first button that bears this label, as soon as there is one."""

    def found() -> tuple[str, str] | None:
        named = ((one.post_id, action) for one in server.shown(thread) for text, action in one.buttons if text == label)
        return next(named, None)

    await eventually(found)
    pressed = found()
    assert pressed is not None
    await server.click(ANN, thread, *pressed)


class Gate:
    """An address that nobody listens at before it is opened, and that leads on to another one then."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._server: asyncio.Server | None = None
        self.port: int = self._socket.getsockname()[1]

    async def open(self, port: int) -> None:
        """Lead on to that port of this machine."""

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copied(reader, far_writer), _copied(far_reader, writer))

        self._server = await asyncio.start_server(pass_on, sock=self._socket)

    async def close(self) -> None:
        """Be gone."""
        if self._server is not None:
            self._server.close()
        self._socket.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def environments(processes: list[int]) -> bytes:
    """Every variable of these processes; of one that is gone meanwhile none."""
    found = b""
    for pid in processes:
        try:
            found += Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
