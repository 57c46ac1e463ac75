"""The server in a container, as docs/operations/compose.yaml wants it: a message in, an answer out of a box, twice."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.images.build import ImageDaemon, build_chain
from kagura_kernel.sandbox.images.recipes import Recipes
from kagura_kernel.testing.patience import eventually
from tests.integration.operations.composed import create_arguments
from tests.support.docker_images import building, plan_here
from tests.support.dockerd import TestDaemon
from tests.support.model_script import calls, message_text, says
from tests.support.openai_server import OpenAIServer

pytest.importorskip("slack_bolt")

from tests.support.effort import EVERYTHING
from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

pytestmark = [pytest.mark.docker, pytest.mark.real_clock, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[3]
ASKED = ROOT / "docs/operations"
# Each worker of the tests has its own, at one daemon.
NAME = f"kagura-test-served-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
SERVER = f"kagura-test/{NAME}:latest"
ANN = "U0ANN"
WHOLE = EVERYTHING

IN_BOX = "cat /proc/self/status kept.txt; if [ -e /run/secrets ] || [ -e /var/lib/kagura ]; then echo open; fi"
SETTINGS = """
brain = "pydantic_ai"
endpoint = "models"
model = "scripted"
box = "bubblewrap"
memory_meaning = false

[endpoints.models]
url = "{model}"
key_file = "/run/secrets/model-key"

[transports.slack]
operators = ["{operator}"]
project = "/srv/project"
api = "{slack}"
bot_token_file = "/run/secrets/slack-bot-token"
app_token_file = "/run/secrets/slack-app-token"
"""


@dataclass(frozen=True)
class Image:
    """How a container of an image is made."""

    options: tuple[str, ...] = ()  # Of `docker create`, beside those of the compose file
    words: tuple[str, ...] = ()  # Before the command


@dataclass
class Container:
    docker: Callable[..., str]  # Runs the client at the daemon of the tests, and returns what it printed
    folder: Path  # What an operator has: the files of docs/operations, settings, secrets
    image: Image  # What it is made of

    def start(self) -> None:
        """Make and start it, as `compose up` would; its network is the machine's, where the chat is."""
        asked = create_arguments(self.folder / "compose.yaml", "kagura", state=NAME, project=self.folder / "project")
        command = (SERVER, *self.image.words, "serve", "--drain", "30")
        # A session that was killed may have left one, and nothing else is called so at the daemon of the tests.
        for left in self.docker("ps", "--all", "--quiet", "--filter", f"name=^{NAME}$").split():
            self.docker("rm", "--force", left)
        self.docker("create", "--name", NAME, "--network", "host", *asked, *self.image.options, *command)
        self.docker("start", NAME)

    def stop(self) -> int:
        """Stop it, and take it away as `compose down` would; its exit code."""
        self.docker("stop", "--time", "75", NAME)
        code = int(self.docker("inspect", "--format", "{{.State.ExitCode}}", NAME))
        self.docker("rm", NAME)
        return code

    def listens(self) -> bool:
        """Whether it serves."""
        said = self.docker("logs", NAME)
        assert self.docker("inspect", "--format", "{{.State.Running}}", NAME).strip() == "true", said
        return "Serving slack." in said

    def tell(self, *words: str) -> str:
        """What our command prints in it."""
        program = ("/opt/server/bin/python", *self.image.words) if self.image.words else ("kagura-kernel",)
        return self.docker("exec", NAME, *program, *words)


@pytest.fixture
def docker(docker_daemon: TestDaemon) -> Callable[..., str]:
    """The client that comes with the daemon."""
    program = shutil.which("docker")
    if program is None:
        pytest.skip("install it with `apt-get install docker.io`")

    def run(*words: str) -> str:
        # The client's own: BuildKit wants a plug-in that Debian does not have.
        environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": docker_daemon.host, "DOCKER_BUILDKIT": "0"}
        done = subprocess.run([program, *words], capture_output=True, env=environ, check=False)
        told = (done.stdout + done.stderr).decode("utf-8", "replace")
        assert done.returncode == 0, f"docker {words[0]}: {told}"
        return told

    return run


@pytest.fixture
def image(docker_daemon: TestDaemon, docker: Callable[..., str], tmp_path: Path) -> Iterator[Image]:
    """The server's image: quickly made, or as an operator makes it where everything is to be tested."""
    if not WHOLE and sys.version_info[:2] != (3, 11):
        pytest.skip("the image has Python 3.11, which cannot load the libraries of this environment")
    context = tmp_path / "context"
    shutil.copytree(ASKED, context)
    base, found = (_whole if WHOLE else _quick)(docker_daemon, context, tmp_path)
    docker("build", "--quiet", "--network", "none", "--build-arg", f"BASE={base}", "--tag", SERVER, str(context))
    yield found
    docker("image", "rm", "--force", SERVER)


def _whole(daemon: TestDaemon, context: Path, _: Path) -> tuple[str, Image]:
    """Everything is installed in it, by its recipe and from a wheel."""
    with building(daemon), ImageDaemon(Endpoint(daemon.host)) as images:
        build_chain(images, Recipes.found(), ["server"], plan_here())
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(context / "wheels"),
        str(ROOT),
    ]
    subprocess.run(wheel, check=True)
    return "kagura/server:latest", Image()


def _quick(daemon: TestDaemon, context: Path, scratch: Path) -> tuple[str, Image]:
    """The libraries and the package are those of this environment, shown to it: fetching them takes minutes."""
    recipes = Recipes(scratch / "images")
    shutil.copytree(Recipes.found().directory, recipes.directory)
    (recipes.directory / "server.pip.lock").write_text("")
    prefix = "kagura-test/quick-"
    with building(daemon), ImageDaemon(Endpoint(daemon.host)) as images:
        build_chain(images, recipes, ["server"], replace(plan_here(), prefix=prefix))
    lines = (context / "Dockerfile").read_text().splitlines()
    (context / "Dockerfile").write_text("\n".join(line for line in lines if not re.search(r"^COPY| -m pip ", line)))
    shown = {"/shown/libraries": sysconfig.get_path("purelib"), "/shown/kagura_kernel": str(ROOT / "kagura_kernel")}
    mounts = [f"--mount=type=bind,source={source},target={target},readonly" for target, source in shown.items()]
    options = (*mounts, "--env", "PYTHONPATH=/shown:/shown/libraries", "--entrypoint", "/opt/server/bin/python")
    return f"{prefix}server:latest", Image(options, ("-m", "kagura_kernel.cli.main"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """What an operator has beside the compose file: a project and secrets."""
    # What a container's user has to pass; pytest's own directories are closed.
    folder = Path(tempfile.mkdtemp(prefix="kagura-served-"))
    folder.chmod(0o755)
    shutil.copytree(ASKED, folder, dirs_exist_ok=True)
    for name in ("project", "secrets"):
        (folder / name).mkdir()
    (folder / "project/kept.txt").write_text("a file of the project")
    for name, text in (("slack-bot-token", BOT_TOKEN), ("slack-app-token", APP_TOKEN), ("model-key", "a-key")):
        (folder / "secrets" / name).write_text(text)
        (folder / "secrets" / name).chmod(0o600)
        os.chown(folder / "secrets" / name, 65532, 65532)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def container(docker: Callable[..., str], image: Image, folder: Path) -> Iterator[Container]:
    """The container, which is not made yet; gone with its volume afterwards."""
    yield Container(docker, folder, image)
    docker("rm", "--force", "--volumes", NAME)
    docker("volume", "rm", "--force", NAME)


async def _one_life(container: Container, slack: SlackServer, answer: str) -> list[dict[str, str]]:
    """A container from its start to its end, in which a message gets that answer; the runs that it knows."""
    await asyncio.to_thread(container.start)
    await eventually(lambda: asyncio.to_thread(container.listens))
    thread = await slack.say(ANN, "Look around.")
    await eventually(lambda: any(answer in post.text for post in slack.shown(thread)))
    known: list[dict[str, str]] = json.loads(await asyncio.to_thread(container.tell, "runs", "--json"))
    assert await asyncio.to_thread(container.stop) == 0
    return known


async def test_a_message_is_answered_out_of_a_box_and_what_was_said_outlives_the_container(container):
    script = [
        calls("bash", {"command": IN_BOX}),
        says("The first."),
        calls("bash", {"command": IN_BOX}),
        says("The second."),
    ]
    async with SlackServer() as slack:
        with OpenAIServer(script, key="a-key") as model:
            settings = SETTINGS.format(model=model.url, slack=slack.api, operator=ANN)
            (container.folder / "config.toml").write_text(settings)
            await _one_life(container, slack, "The first.")
            told = await _one_life(container, slack, "The second.")
    assert [run["status"] for run in told] == ["done", "done"]
    in_boxes = [message_text(request.body["messages"][-1]) for request in model.requests if not request.side][1::2]
    assert len(in_boxes) == 2
    for text in in_boxes:
        assert "a file of the project" in text
        assert re.search(r"NoNewPrivs:\s1\b", text)
        assert re.search(r"CapBnd:\s0+\b", text)
        assert "open" not in text


def test_the_container_is_held_tightly(container):
    (container.folder / "config.toml").write_text("")
    container.start()
    held = json.loads(container.docker("inspect", NAME))[0]
    host = held["HostConfig"]
    assert held["Config"]["User"] == "65532:65532"
    assert host["CapDrop"] == ["ALL"]
    assert host["ReadonlyRootfs"]
    assert host["Privileged"] is False
    assert not host["Devices"]
    assert {"no-new-privileges:true", "apparmor=unconfined"} <= set(host["SecurityOpt"])
    assert not any("seccomp=unconfined" in option for option in host["SecurityOpt"])
    assert min(host["Memory"], host["PidsLimit"]) > 0
    assert host["Memory"] == host["MemorySwap"]
    assert not any("docker.sock" in str(mount) for mount in held["Mounts"])
