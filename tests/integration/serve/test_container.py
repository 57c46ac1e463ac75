"""`kagura-kernel serve --container`: chats whose brain thinks in a container, with its key outside."""

from pathlib import Path

import pytest

from tests.integration.serve.shop import ANN, posted, shop
from tests.support.dockerd import TestDaemon
from tests.support.model_script import calls, says
from tests.support.model_server import ModelServer

pytest.importorskip("slack_bolt")

from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(600)]

KEY = "sk-test-4f1d8c77b2e94c0a-never-real"


@pytest.mark.docker
async def test_the_brain_of_a_chat_thinks_in_a_container_whatever_the_settings_name(
    tmp_path: Path, private_home: Path, docker_daemon: TestDaemon
):
    steps = [calls("Bash", {"command": "cat /etc/hostname; env"}), says("Looked.")]
    async with SlackServer() as slack, shop(tmp_path, private_home) as place:
        with ModelServer(steps, key=KEY) as model:
            place.environ |= {
                "ANTHROPIC_API_KEY": KEY,
                "ANTHROPIC_BASE_URL": model.url,
                "DOCKER_HOST": docker_daemon.host,
            }
            place.with_slack(slack.api, BOT_TOKEN, APP_TOKEN)
            with place.serving("--container") as server:
                await server.says("Serving slack.")
                thread = await slack.say(ANN, "Look around.")
                assert "Looked." in (await posted(slack, thread, "Done")).text
                (row,) = await place.rows("runs")
                assert await server.ends() == 0
        assert (row["brain"], row["box"]) == ("sealed", "docker")
        assert KEY not in str(model.requests)


async def test_without_containers_or_a_key_nothing_is_served_and_the_exit_code_says_set_up(
    tmp_path: Path, private_home: Path
):
    async with SlackServer() as slack, shop(tmp_path, private_home) as place:
        place.environ["DOCKER_HOST"] = f"unix://{tmp_path}/nobody.sock"
        place.with_slack(slack.api, BOT_TOKEN, APP_TOKEN)
        with place.serving("--container") as server:
            assert await server.ends(None) == 3
        assert "ERR_BRAIN_NOT_CONFIGURED: The brain sealed cannot think" in server.said
        place.environ |= {"ANTHROPIC_API_KEY": KEY}
        with place.serving("--container") as server:
            assert await server.ends(None) == 3
        assert "ERR_SANDBOX_UNAVAILABLE" in server.said
        assert "Traceback" not in server.said
