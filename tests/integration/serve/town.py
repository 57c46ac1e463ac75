"""A town whose people write in a Slack: the model that thinks for them, and what outside of the boxes counts deeds."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.credential_service import Call, Reply
from kagura_kernel.testing.false_home import share_rules
from tests.integration.serve.people import ANN, BOB, Person, asked
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.credential_life import Lives
from tests.support.model_script import Answer, ModelTurn, Refusal, Request, calls, message_text, says
from tests.support.openai_server import OpenAIServer
from tests.support.served import Served, ServedLife, write_settings
from tests.support.slack_server import SlackServer

MARK = "kagura-served-73125"
"""In the command lines of all that tasks leave behind, with the number of the process that served them."""

PEOPLE = 5
CREDENTIALS = """
[providers.books]
kind = "cloudflare"
token_file = "{key}"
api_url = "{url}"
inject = {{ upstream = "{url}/use", variables = {{ API = "{{url}}" }} }}

[providers.books.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}
"""
AGENT = """
name: worker
description: Does what the people of this town ask for
grants: {credentials: ["books:read"]}
write: none
"""

_TASK = re.compile(r"task-\d+-\d+-([a-z]+)")


class Books(FakeCloudflare):
    """A provider of credentials, and what they open: it counts who came with one that works."""

    def __init__(self) -> None:
        super().__init__()
        self.used: Counter[str] = Counter()  # How often each task's command was here

    @property
    def kept(self) -> list[str]:
        """Names of the credentials that were not given back."""
        with self.lock:
            return [token.name for token in self._tokens.values()]

    def respond(self, call: Call) -> Reply:
        """The answer to one request."""
        if not call.path.startswith("/use/"):
            return super().respond(call)
        if call.bearer not in self.live():
            return Reply(401, b"")
        self.used[call.path.removeprefix("/use/")] += 1
        return Reply(200, b"")


class Model:
    """What the people's model answers: the steps of the task that was written last."""

    def __init__(self, side: Path) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()  # How often it was asked for each step of each task
        self.generation = 0  # The number of the process that serves, for the marks
        self.lock = threading.Lock()  # Held while they change
        self._side = side

    def __call__(self, request: Request) -> Answer:
        """The next step."""
        task, step = _place(request)
        with self.lock:
            self.asked[task, step] += 1
            mark = f"{MARK}-{self.generation}-"
        steps = self._steps(task, mark)
        return steps[step] if step < len(steps) else Refusal(400, message="no such step")

    def _steps(self, task: str, mark: str) -> list[ModelTurn]:
        left = f"(exec -a {mark} setsid sleep 1000 >/dev/null 2>&1 &)"
        box = {"command": f'{left}; curl --silent --fail "$API/{task}" && sleep 0.3'}
        host = {
            "command": f"echo {task} >> {self._side}; exec -a {mark} sleep 0.3",
            "host": True,
            "reason": "it has to be there",
        }
        ask = {"question": f"Which side for {task}?", "options": ["left", "right"]}
        found = _TASK.fullmatch(task)
        steps = {
            "box": [calls("bash", box)],
            "host": [calls("bash", box), calls("bash", host)],
            "question": [calls("ask_user", ask), calls("bash", box)],
            "quick": [],
        }[found[1] if found else "quick"]
        return [*steps, says(f"This is the answer to {task}, and it takes some words to be told.", delay=0.02)]


@dataclass
class Town:
    """All that outlives the processes that are killed."""

    folder: Path  # Where everything lies
    environ: Mapping[str, str]  # Of every process
    slack: SlackServer  # Where people write
    model: Model  # What thinks
    books: Books  # What credentials open
    people: list[Person]  # Who writes
    journal: Journal  # What is told of them
    lives: Lives  # Starts the processes that are killed

    @property
    def project(self) -> Path:
        """Of all runs."""
        return self.folder / "project"

    @property
    def side(self) -> list[str]:
        """What commands on the host have written, a line each."""
        path = self.folder / "side"
        return path.read_text().splitlines() if path.exists() else []

    def serve(self) -> ServedLife:
        """A process that will be killed; it is not ready yet."""
        self.model.generation += 1
        return ServedLife(self.lives, self.environ, self.folder, self.folder / "log")

    def serve_on(self) -> Served:
        """One that will be stopped in good order."""
        self.model.generation += 1
        return Served(self.environ, self.folder, self.folder / "log")

    def counts(self) -> dict[str, int]:
        """How far everything is, by the kinds of moments at which a process is killed."""
        shown = [post for person in self.people for post in self.slack.shown(person.thread)]
        with self.model.lock:
            thought = sum(self.model.asked.values())
        return {
            "starting": 0,
            "said": sum(len(person.sent) for person in self.people),
            "posting": sum(method.startswith("chat.") for method, _ in list(self.slack.requests)),
            "thinking": thought,
            "in the box": sum(self.books.used.values()),
            "asking": sum(map(asked, shown)),
            "on the host": len(self.side),
            "answered": sum(len(person.answers()) for person in self.people),
        }


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    """A town of `PEOPLE` people below `folder`."""
    (folder / "project").mkdir()
    model = Model(folder / "side")
    async with SlackServer() as slack:
        with OpenAIServer(model) as thinking, Books() as books, Lives("tests.support.served_life") as lives:
            environ = _configured(folder, slack.api, thinking.url, books.url)
            journal = Journal.open(Path(environ["KAGURA_HOME"]))
            try:
                people = [Person(slack, number) for number in range(PEOPLE)]
                yield Town(folder, environ, slack, model, books, people, journal, lives)
            finally:
                journal.close()


def _configured(folder: Path, slack: str, model: str, books: str) -> dict[str, str]:
    mine, home, temporary = folder / "mine", folder / "home", folder / "tmp"
    temporary.mkdir()
    settings = write_settings(
        mine,
        slack,
        folder / "project",
        [ANN, BOB],
        brain="pydantic_ai",
        endpoint=model,
        model="scripted",
        box="bubblewrap",
        agent="worker",
        preapproved_grants=["books:read"],
        approval_deadline=900,
        memory_meaning=False,
    )
    key = mine / "parent.key"
    key.write_text(PARENT)
    key.chmod(0o600)
    (mine / "credentials.toml").write_text(CREDENTIALS.format(key=key, url=books))
    (home / "agents").mkdir(parents=True, mode=0o700)
    (home / "agents" / "worker.yaml").write_text(AGENT)
    share_rules(home)
    return {
        **os.environ,
        "KAGURA_CONFIG": str(settings),
        "KAGURA_HOME": str(home),
        "TMPDIR": str(temporary),
        "DOCKER_HOST": f"unix://{folder}/nobody.sock",
    }


def _place(request: Request) -> tuple[str, int]:
    """The task that was written last, and how many answers the model gave since."""
    answered = 0
    for message in reversed(request.get("messages", [])):
        if message["role"] == "assistant":
            answered += 1
        if message["role"] == "user" and (found := _TASK.search(message_text(message))):
            return found[0], answered
    return "", 0
