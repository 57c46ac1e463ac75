"""Who may not speak, what was answered already and what is over is refused by the served program, and on record."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.testing.patience import eventually
from tests.support.served import told

pytest.importorskip("slack_bolt")

from tests.integration.serve.people import ANN, BOB, ended_run
from tests.integration.serve.town import Town, town

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

EVE = "U0EVE"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Town]:
    async with town(tmp_path) as place:
        served = place.serve_on()
        try:
            await eventually(served.ready)
            yield place
        finally:
            served.terminate()
            await eventually(served.ended)


def refusals(place: Town) -> list[tuple[str, str]]:
    """Who was refused and why, as an auditor reads it."""
    exported = told(place.environ, place.folder, "journal", "export", "-")
    assert exported.returncode == 0, exported.stderr
    rows = [json.loads(line) for line in exported.stdout.splitlines()]
    told_of = [json.loads(row["body"]) for row in rows if row.get("kind") == "message.refused"]
    return [(event["operator"], event["why"]) for event in told_of]


async def test_strangers_copies_and_what_comes_too_late_change_nothing_and_are_on_record(place):
    ann, slack = place.people[0], place.slack
    task = "task-0-0-host"
    ann.sent.append(task)
    await slack.event(ann.event(0))
    await eventually(lambda: any("Allow" in dict(post.buttons) for post in slack.shown(ann.thread)))
    question = next(post for post in slack.shown(ann.thread) if "Allow" in dict(post.buttons))
    allow = dict(question.buttons)["Allow"]

    await slack.click(EVE, ann.thread, question.post_id, allow)
    await slack.click(ANN, ann.thread, question.post_id, allow[:-32] + "0" * 32)
    await eventually(lambda: len(refusals(place)) == 2)
    assert place.side == []

    await slack.click(ANN, ann.thread, question.post_id, allow)
    await slack.replay()
    await eventually(lambda: any(ended_run(post) for post in slack.shown(ann.thread)))
    await slack.click(BOB, ann.thread, question.post_id, allow)
    await eventually(lambda: len(refusals(place)) == 4)
    assert place.side == [task]
    assert refusals(place) == [
        (EVE, "whoever sent it is no operator"),
        (ANN, "the button is none of ours"),
        (ANN, "it is a replay of an earlier click"),
        (BOB, "this approval is decided already, or there is none of this name"),
    ]
