"""A run that was begun in Slack, approved beside a notebook and stopped in a terminal: one journal tells the story."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

import pytest
from playwright.sync_api import Page, expect

from kagura_kernel.testing.chat import Shown
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until
from tests.browser.notebook import PICTURES, SCREENSHOTS, THEMES
from tests.browser.sidebar import Sidebar, visit
from tests.support.model_script import calls
from tests.support.openai_server import OpenAIServer
from tests.support.served import Served, told as in_a_terminal, write_settings

pytest.importorskip("slack_bolt")

from tests.support.slack_server import SlackServer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

ANN = "U0ANN"
MARK = "86751.25"
TASK = "Publish the report of the first quarter"
PUBLISH = {
    "command": "cp report.txt published.txt",
    "host": True,
    "reason": "The web server reads it from this folder, which the box cannot change.",
}
CHECKER = Path(__file__).parents[2] / "docs" / "auditing.md"


class Slack:
    """The far side of a Slack, with a loop of its own: what drives the browser has none to lend."""

    def __init__(self) -> None:
        self.server = SlackServer()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slack")

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self.server.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self.server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def say(self, operator: str, text: str) -> str:
        """Somebody writes; the thread."""
        return self._do(self.server.say(operator, text))

    def shown(self, thread: str) -> list[Shown]:
        """Our posts there."""

        async def look() -> list[Shown]:
            return self.server.shown(thread)

        return self._do(look())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def pictured(page: Page, name: str) -> None:
    """The whole window in both themes, where pictures are asked for."""
    if os.environ.get(PICTURES):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for theme, suffix in THEMES:
            page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", theme)
            page.wait_for_timeout(250)
            page.screenshot(path=SCREENSHOTS / f"{name}-{suffix}.png")


def rows_of(export: Path) -> list[dict[str, Any]]:
    """What an export tells, after the script of the document has found that nothing in it was changed."""
    script = re.search(r"```python\n(.*?)```", CHECKER.read_text("utf-8"), re.DOTALL)
    assert script is not None
    checked = subprocess.run(
        [sys.executable, "-I", "-c", script[1], str(export)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    rows = [json.loads(line) for line in export.read_text("ascii").splitlines()]
    return [json.loads(row["body"]) for row in rows if "body" in row]


def test_a_run_of_slack_is_approved_in_the_sidebar_and_killed_in_a_terminal(told_page, told, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "report.txt").write_text("It went well.\n")
    script = [calls("bash", PUBLISH), calls("bash", {"command": f"sleep {MARK}"})]
    with Slack() as slack, OpenAIServer(script) as thinking:
        settings = write_settings(
            tmp_path / "mine",
            slack.server.api,
            project,
            [ANN],
            brain="pydantic_ai",
            endpoint=thinking.url,
            model="scripted",
            box="bubblewrap",
            idle_timeout=0,
            command_timeout=0,
        )
        environ = {**told.environment, "KAGURA_CONFIG": str(settings)}
        served = Served(environ, tmp_path, tmp_path / "log")
        try:
            wait_until(served.ready)
            thread = slack.say(ANN, TASK)
            sidebar = visit(told_page).open()
            approve(told_page, sidebar, slack, thread, project)
            run_id = kill(sidebar, slack, thread, environ, tmp_path)
        finally:
            served.terminate()
            assert served.code() == 0, served.said
        export = tmp_path / "audit.jsonl"
        exported = in_a_terminal(environ, tmp_path, "journal", "export", str(export))
        assert exported.returncode == 0, exported.stderr
    tells_the_story(rows_of(export), run_id)


def approve(page: Page, sidebar: Sidebar, slack: Slack, thread: str, project: Path) -> None:
    """What was asked from Slack is seen and allowed beside the notebook."""
    approval = sidebar.panel.locator("[data-approval]")
    expect(approval).to_contain_text("cp report.txt published.txt")
    expect(approval).to_contain_text(f"from the session slack-{thread.replace(':', '-')}")
    expect(approval).to_contain_text("The web server reads it from this folder")
    expect(sidebar.run(TASK)).to_contain_text("Waiting for you")
    expect(sidebar.run(TASK).get_by_text(f"for slack:{ANN}")).to_be_visible()
    pictured(page, "sidebar-outside")
    approval.get_by_role("button", name=re.compile("^Allow once")).click()
    expect(approval).to_have_count(0)
    wait_until((project / "published.txt").exists)
    wait_until(
        lambda: any(post.text.startswith("Allowed · ") and "(sidebar)" in post.text for post in slack.shown(thread))
    )


def kill(sidebar: Sidebar, slack: Slack, thread: str, environ: dict[str, str], folder: Path) -> str:
    """The run is stopped in a terminal, as it works in its box; its id."""
    wait_until(lambda: processes_with(MARK))
    found = re.search(r"run-[0-9a-z]{14}", slack.shown(thread)[0].text)
    assert found is not None
    killed = in_a_terminal(environ, folder, "kill", found[0])
    assert killed.returncode == 0, killed.stderr
    wait_until(lambda: any(post.text.startswith(f"{found[0]} was stopped by ") for post in slack.shown(thread)))
    expect(sidebar.run(TASK)).to_contain_text("Stopped")
    wait_until(lambda: processes_with(MARK) == [])
    return found[0]


def tells_the_story(events: list[dict[str, Any]], run_id: str) -> None:
    """Who began it where, who allowed what where, and who ended it where."""
    told_of = {event["kind"]: event for event in events if event["run_id"] == run_id}
    started, asked, decided, finished = (
        told_of[kind] for kind in ("run.started", "approval.requested", "approval.decided", "run.finished")
    )
    assert (started["origin"], started["started_by"], started["task"]) == ("slack", f"slack:{ANN}", TASK)
    assert asked["arguments"]["command"] == PUBLISH["command"]
    assert (decided["approval_id"], decided["verdict"], decided["via"]) == (asked["approval_id"], "allow", "sidebar")
    assert decided["by"]
    assert finished["status"] == "killed"
    assert "was stopped by" in finished["error"]
