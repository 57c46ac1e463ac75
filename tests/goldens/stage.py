"""A machine, a notebook, a terminal and a server of our own, on which the scripted runs are played.

Everything that knows how the package is joined together stands in this file: who changes that changes it here, and no
golden. What people type, send and read goes through the doors that they use: cells and magics of an IPython shell,
`kagura-kernel` by its `main`, HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as real  # noqa: ICN001 - beside the one that stands still
import importlib
import io
import json
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets.widgets import widget as widgets
from traitlets.config import Config

import kagura_kernel
from kagura_kernel import assembly
from kagura_kernel.cli.main import main
from kagura_kernel.domain.settings import Settings
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection, HeaderInjection
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.memory.location import FILE as MEMORY_FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.brain import Step
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.false_home import share_rules
from tests.support.auditor import FakeAuditor
from tests.support.plugin_rig import FakeJails
from tests.support.redactors import shared_redactor
from tests.support.story import Calendar
from tests.support.task_brain import TaskBrain

PACKAGE = Path(kagura_kernel.__file__).parent
BEGIN = real.datetime(2026, 3, 2, 9, 0, tzinfo=real.UTC)
PATIENCE = 60.0
EXTENSION = "kagura_kernel.jupyter.server"
TOKEN = "the-token-of-the-stage"
USD_PER_TURN = 0.01

ENVIRONMENT = {
    "COLUMNS": "100",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LINES": "40",
    "LOGNAME": "ada",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TZ": "UTC",
    "USER": "ada",
}
GONE = ("DOCKER_HOST", "JPY_SESSION_NAME", "JUPYTERHUB_USER", "KAGURA_BOX", "KAGURA_JOURNAL_URL", "KAGURA_SHARED")


class Service(BaseHTTPRequestHandler):
    """A web service on loopback, which says what it was asked for."""

    def do_GET(self) -> None:
        """Answer."""
        body = f"asked for {self.path}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Published(DisplayPublisher):
    """What cells show: each place of an output as it is in the end."""

    shown: dict[str, tuple[dict[str, Any], dict[str, Any]]]

    def publish(  # type: ignore[override]  # IPython's names further arguments that nobody gives
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        transient: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Show something, or put it in the place of what is shown."""
        place = str((transient or {}).get("display_id", f"place {len(self.shown)}"))
        self.shown[place] = (dict(data), dict(metadata or {}))


@dataclass
class Cell:
    """What a person sees of a cell that was run."""

    places: list[tuple[dict[str, Any], dict[str, Any]]]  # The places of its output, each with data and metadata by type
    printed: str
    value: Any = None
    error: str = ""  # Its error, as `code: sentence`
    # What its live card showed of each question, as HTML by the names of its parts
    asked: list[dict[str, str]] = field(default_factory=list)


class Stage:
    """One person's machine. Use it in a `with` block.

    Args:
        root: An empty folder.
        scripts: What the brain does, by task.
        clock: The time.
    """

    def __init__(self, root: Path, scripts: Mapping[str, Sequence[Step]], clock: Calendar) -> None:
        self.root = root
        self.clock = clock
        self.home = root / "data"
        self.person = root / "ada"
        self.backend = FakeBackend()
        self._scripts = scripts
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Raise the curtain."""
        with contextlib.ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name in GONE:
                patch.delenv(name, raising=False)
            places = {"HOME": self.person, "KAGURA_HOME": self.home, "KAGURA_CONFIG": self.root / "config.toml"}
            places |= {"XDG_CONFIG_HOME": self.person / ".config", "XDG_DATA_HOME": self.person / ".local/share"}
            for name, value in {**ENVIRONMENT, **places}.items():
                patch.setenv(name, str(value))
            patch.setenv("DOCKER_HOST", f"unix://{self.root}/nobody.sock")
            time.tzset()
            self.person.mkdir()
            share_rules(self.home)
            patch.chdir(self.person)
            self.port = stack.enter_context(_service())
            self._frozen = stack.enter_context(_frozen(self.clock))
            provider = FakeProvider(scopes=frozenset({"read", "write"}))
            header = HeaderInjection(upstream=f"http://127.0.0.1:{self.port}", variables={"API": "{url}"})
            env = EnvInjection(way="env", variables={"TOKEN": "{token}"})
            self._registry = Registry({"fake": provider}, {"fake": (header, env)})
            self._jails = FakeJails()
            self._sent = dict[str, str]()
            patch.setattr(widgets.Widget, "send", lambda _, content, *__: self._sent.update(content.get("parts") or {}))
            # How often a run looks at its changes depends on how long that takes; here it is after every step.
            patch.setattr("kagura_kernel.runs.checkpoints.QUICK_SECONDS", float("inf"))
            assembly.use_cockpit(lambda _: self._cockpit())
            stack.callback(assembly.use_cockpit, None)
            self.shell = stack.enter_context(ipython())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Let it down."""
        self._stack.close()
        time.tzset()

    def _cockpit(self) -> Any:
        return fake_cockpit(
            self.home,
            backend=self.backend,
            brains=[TaskBrain(self._scripts), FakeAuditor(name="auditor")],
            settings=Settings(plan_above_usd=None, plan_above_seconds=None, context="none"),
            clock=self.clock,
            registry=self._registry,
            resolver=lambda: _nobody_knows,
            start_jail=self._jails,
            redactor=shared_redactor(),
            memory=SqliteMemory(self.home / MEMORY_FILE, clock=self.clock),
            prices=lambda *_: (USD_PER_TURN, "the stage's list"),
        )

    @property
    def names(self) -> dict[str, str]:
        """What differs from machine to machine, and what stands for it."""
        known = {str(self.home): "<data>", str(self.person): "<person>", str(self.root): "<root>"}
        return known | {str(PACKAGE): "<package>", str(PACKAGE.parent): "<source>", sys.executable: "<python>"}

    def project(self, name: str, files: Mapping[str, str]) -> Path:
        """Work in a folder with these files from now on."""
        folder = self.person / name
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        return folder

    # ------------------------------------------------------------------ notebook

    def cell(self, source: str, *, name: str = "cell", answers: Sequence[str] = (), person: bool = True) -> Cell:
        """Run a cell; each question is answered by the next command, `approve {}` for one.

        Args:
            source: What stands in it.
            name: Its id.
            answers: Commands, with `{}` for the id of the question; `WORDS => COMMAND` once the card shows the words.
            person: Whether anybody could be asked.
        """
        self._frozen()
        self.shell.kernel = _kernel(name, person=person)
        return asyncio.run(self._run(source, list(answers)))

    def typed(self, source: str, *, lines: Sequence[str] = ()) -> Cell:
        """Run a cell in a terminal, where each prompt gets the next line."""
        self._frozen()
        ours, theirs = os.openpty()
        self.shell.kernel = None
        with os.fdopen(ours, "wb", buffering=0) as keys, os.fdopen(theirs, encoding="utf-8") as keyboard:
            before, sys.stdin = sys.stdin, keyboard
            try:
                return asyncio.run(
                    self._run(source, [], keys=lambda line: keys.write(f"{line}\n".encode()), lines=lines)
                )
            finally:
                sys.stdin = before

    def line(self, text: str) -> Cell:
        """One line of a notebook, outside of any cell that goes on."""
        return self.cell(f"%kagura {text}", name="line")

    async def _run(
        self,
        source: str,
        answers: list[str],
        *,
        keys: Callable[[str], object] = lambda _: None,
        lines: Sequence[str] = (),
    ) -> Cell:
        shell, asked, typed = self.shell, list[dict[str, str]](), list(lines)
        shell.display_pub.shown = {}
        self._sent.clear()
        with printed() as out:
            code = shell.transform_cell(source)
            task = asyncio.ensure_future(shell.run_cell_async(source, store_history=False, transformed_cell=code))
            until = time.monotonic() + PATIENCE
            while answers and not task.done():
                assert time.monotonic() < until, f"nothing asked for {answers[0]!r}"
                await asyncio.sleep(0.02)
                await self._answer(answers, asked)
            while typed and not task.done():
                await asyncio.sleep(0.02)
                if (said := out()).endswith(": ") and said not in asked:
                    asked.append({"": said})
                    keys(typed.pop(0))
            result = await asyncio.wait_for(task, PATIENCE)
            # What lives on in the cell is shown as it is in the end.
            if rest := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(rest, timeout=PATIENCE)
            text = out()
        trouble = result.error_before_exec or result.error_in_exec
        error = "" if trouble is None else f"{getattr(trouble, 'code', type(trouble).__name__)}: {trouble}"
        return Cell(list(shell.display_pub.shown.values()), text, result.result, error, [] if typed or lines else asked)

    async def _answer(self, answers: list[str], asked: list[dict[str, str]]) -> None:
        """Answer the question that waits, once the live card shows it; `WORDS => COMMAND` waits for words instead."""
        command = answers[0]
        words, waits, rest = command.partition(" => ")
        if waits:
            if words in str(self._live()):
                answers.pop(0)
                self.shell.run_line_magic("kagura", rest)
            return
        if "app-" not in str(self._live()):
            return
        pending = self.shell.run_line_magic("kagura", "approvals --pending")
        for ident in pending["approval"].tolist()[:1]:
            shown = {key: text for key, text in self._live().items() if ident in text}
            if shown:
                answers.pop(0)
                asked.append(shown)
                with contextlib.redirect_stdout(io.StringIO()):
                    self.shell.run_line_magic("kagura", command.format(ident))
                await asyncio.sleep(0)

    def _live(self) -> dict[str, str]:
        """What the front end was sent of the cards that live now, by the names of their parts."""
        found: dict[str, str] = {}
        for widget in list(vars(widgets)["_instances"].values()):
            if widget.has_trait("parts"):
                found |= dict(widget.parts)
        return found | self._sent

    def visited(self, source: str, answers: Sequence[str], visit: Callable[[Ask], Awaitable[None]]) -> None:
        """Run a cell that waits for a person, answer so often, and visit the server while it waits further."""

        async def meanwhile() -> None:
            code, left = self.shell.transform_cell(source), list(answers)
            task = asyncio.ensure_future(self.shell.run_cell_async(source, store_history=False, transformed_cell=code))
            until = time.monotonic() + PATIENCE
            while left or "app-" not in str(self._live()) or not self._waits():
                assert not task.done(), "it does not wait"
                assert time.monotonic() < until, "it does not wait yet"
                await asyncio.sleep(0.02)
                if left:
                    await self._answer(left, [])
            async with served(self.person) as ask:
                await visit(ask)
            await asyncio.wait_for(task, PATIENCE)

        self._frozen()
        self.shell.kernel = _kernel("served", person=True)
        self._sent.clear()
        with printed():
            asyncio.run(meanwhile())

    def _waits(self) -> bool:
        return not self.shell.run_line_magic("kagura", "approvals --pending").empty

    # ------------------------------------------------------------------ terminal

    def command(self, *words: str, stdin: str = "") -> tuple[int, str, str]:
        """`kagura-kernel` with these words: its exit code, what it printed, and what it printed as errors."""
        self._frozen()
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
        try:
            with printed() as out, printed("stderr") as trouble:
                code = main(list(words))
                return code, out(), trouble()
        finally:
            sys.stdin = before

    def close(self) -> None:
        """Close what the notebook has open."""
        assembly.close_cockpit()

    def newest(self, most: int = 3) -> list[str]:
        """The newest runs, the oldest of them first."""
        return [row.run_id for row in reversed(assembly.get_cockpit().runs(most))]


async def _nobody_knows(host: str, port: int) -> Sequence[str]:
    """No name leads anywhere."""
    raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port} is nowhere")


@contextlib.contextmanager
def printed(stream: str = "stdout") -> Iterator[Callable[[], str]]:
    """What is printed in the block, by a stream as programs have it."""
    written = io.BytesIO()
    ours = io.TextIOWrapper(written, "utf-8", write_through=True)
    before = getattr(sys, stream)
    setattr(sys, stream, ours)
    try:
        yield lambda: written.getvalue().decode("utf-8")
    finally:
        setattr(sys, stream, before)


def _kernel(cell: str, *, person: bool) -> Any:
    """As much of a kernel as says where a cell stands."""
    parent = {"content": {"allow_stdin": person}, "metadata": {"cellId": cell}, "header": {"msg_id": cell}}
    return SimpleNamespace(get_parent=lambda _=None: parent, parent=SimpleNamespace(connection_file="kernel-k1.json"))


@contextlib.contextmanager
def ipython() -> Iterator[Any]:
    """IPython with the extension, and without anything of a person's."""
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config, display_pub_class=Published)
    shell.display_pub.shown = {}
    shell.colors = "nocolor"
    kagura_kernel.load_ipython_extension(shell)
    try:
        yield shell
    finally:
        kagura_kernel.unload_ipython_extension(shell)
        InteractiveShell.clear_instance()


@contextlib.contextmanager
def _service() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def _frozen(clock: Calendar) -> Iterator[Callable[[], None]]:  # noqa: C901 - a class and its use
    """The time of day in all of the package is the stage's; what is given has to be called as modules come in."""

    class Type(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real.datetime)

    class Frozen(real.datetime, metaclass=Type):
        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> Any:
            return clock.now().astimezone(tz)

        @classmethod
        def __get_pydantic_core_schema__(cls, _: object, handler: Any) -> Any:
            return handler.generate_schema(real.datetime)

    changed: list[Any] = []

    known = 0

    def freeze() -> None:
        nonlocal known
        if len(sys.modules) == known:
            return
        known = len(sys.modules)
        for name, module in list(sys.modules.items()):
            if name.startswith("kagura_kernel.") and vars(module).get("datetime") is real.datetime:
                changed.append(module)
                vars(module)["datetime"] = Frozen

    # Those that look at the time are imported now: one that came in later would have its own. No vendor's brain thinks.
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if not {"testing", "brain"} & {*parts} and "datetime.now(" in path.read_text("utf-8"):
            importlib.import_module(".".join(parts))
    freeze()
    try:
        yield freeze
    finally:
        for module in changed:
            vars(module)["datetime"] = real.datetime


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    kind: str
    body: str


Ask = Callable[..., Awaitable[Answer]]
"""One request: method, path below the extension's routes, and a body as JSON."""


@contextlib.asynccontextmanager
async def served(root: Path) -> AsyncIterator[Ask]:
    """A Jupyter server with the extension, in this very loop, and how it is asked."""
    # A grammar of addresses that is made as it is imported takes longer than all the rest, and nobody needs it.
    with pytest.MonkeyPatch.context() as patch:
        if "rfc3987_syntax" not in sys.modules:
            patch.setitem(sys.modules, "rfc3987_syntax", None)
        from jupyter_server.serverapp import ServerApp
    from tornado.httpclient import AsyncHTTPClient
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    config = Config()
    config.ServerApp.update({"root_dir": str(root), "log_level": "ERROR", "jpserver_extensions": {EXTENSION: True}})
    config.ServerApp.update({"allow_root": True, "open_browser": False})
    config.IdentityProvider.token = TOKEN
    app = ServerApp(config=config)
    app.init_signal = lambda: None
    app.initialize(argv=[], new_httpserver=False, find_extensions=False)
    sock, port = bind_unused_port()
    server, client = HTTPServer(app.web_app), AsyncHTTPClient(force_instance=True)
    server.add_socket(sock)

    async def ask(method: str, path: str, body: Any = None) -> Answer:
        sent = None if body is None and method in {"GET", "DELETE"} else json.dumps(body or {})
        url, head = f"http://127.0.0.1:{port}/kagura/api/v1/{path}", {"Authorization": f"token {TOKEN}"}
        came = await client.fetch(url, method=method, body=sent, headers=head, raise_error=False)
        kind = came.headers.get("content-type", "").partition(";")[0]
        return Answer(came.code, kind, came.body.decode("utf-8"))

    try:
        yield ask
    finally:
        server.stop()
        await server.close_all_connections()
        client.close()
        await app._cleanup()
