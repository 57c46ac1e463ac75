"""Runs looked at from elsewhere: another cell, another notebook on the same journal, after the end, after a crash."""

import json
import re

import pytest

from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

RUN_MIME = "application/vnd.kagura.run+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
HOST = {"host": True, "reason": "the box cannot"}


@pytest.fixture
def second(kernels, tmp_path, private_home):
    """A kernel of another notebook, in a project of its own, on the same journal."""
    project = tmp_path / "other"
    project.mkdir()
    found = kernels.take("python3", project, kernel_environ(private_home, JUPYTER_PREFER_ENV_PATH="1"))
    found.run("%load_ext kagura_kernel")
    return found


@pytest.fixture
def journal(kernel, private_home):
    """Theirs, read from outside."""
    assert kernel.project.exists()
    journal = Journal.open(private_home / "kagura")
    yield journal
    journal.close()


def cassette(project, *calls):
    lines = [
        {"kagura_cassette": 1},
        {"text": "I try."},
        *({"call": {"name": n, "arguments": a}} for n, a in calls),
        {"done": {"text": "Over."}},
    ]
    (project / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))


def asks(message):
    """A live card that is sent a question with its buttons."""
    return message["msg_type"].startswith("comm_") and "Allow once" in json.dumps(message["content"])


def ends(message):
    """A card that becomes static."""
    data = message["content"].get("data", {})
    # A live card carries what a page without widgets shows meanwhile.
    return message["msg_type"] in {"update_display_data", "display_data"} and RUN_MIME in data and WIDGET not in data


def up_to(kernel, request, until):
    """What is published for a cell up to this message, before and after the cell is done."""
    seen = kernel.follow(request, until)
    while not until(seen[-1]):
        seen += kernel.follow(request, until)
    return seen


def shown(message):
    return message["msg_type"] == "display_data"


def record(messages):
    return messages[-1]["content"]["data"][RUN_MIME]


def comm_of(messages):
    return next(m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_open" and "parts" in str(m))


def run_id_of(journal):
    wait_until(lambda: views.runs(journal))
    return views.runs(journal)[0].run_id


def test_a_run_is_attached_approved_and_seen_to_its_end_from_another_notebook(kernel, second, journal):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    first = kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    kernel.follow(first, asks)
    looking = second.send(f"%kagura attach {run_id_of(journal)}", person=True)
    seen = up_to(second, looking, asks)
    (pending,) = views.approvals(journal)
    second.press(comm_of(seen), act="allow", id=pending.id)
    # The cell that asked goes on, and both cards end alike.
    here = record(up_to(kernel, first, ends))
    there = record(up_to(second, looking, ends))
    assert (kernel.project / "allowed").exists()
    assert here["status"] == "done"
    assert there == here
    (row,) = views.approvals(journal)
    assert (row.verdict, row.via) == ("allow", "cell")


def test_a_run_that_is_over_is_shown_as_it_was_in_any_notebook_and_in_two_cells(kernel, second, journal):
    messages = kernel.run("%%sandbox bash\necho hello > made.txt; echo out", person=True)
    [there] = [m["content"]["data"][RUN_MIME] for m in messages if ends(m)]
    run_id = run_id_of(journal)
    for kernel_of_cell in (second, second, kernel):
        request = kernel_of_cell.send(f"%kagura attach {run_id}", person=True)
        assert record(up_to(kernel_of_cell, request, ends)) == there


def test_a_run_is_attached_twice_while_it_goes_on_and_both_cells_follow(kernel, journal):
    kernel.run("%%sandbox bash --bg\nuntil [ -e stop ]; do sleep 0.05; done; echo over", person=True)
    run_id_of(journal)
    one = kernel.send("%kagura attach last", person=True)
    up_to(kernel, one, shown)
    two = kernel.send("%kagura attach last", person=True)
    up_to(kernel, two, shown)
    kernel.send("%kagura kill last")
    # Both are told in one stream of messages, in whichever order.
    ended = set()

    def both(message):
        if ends(message):
            ended.add(message["parent_header"]["msg_id"])
        return {one, two} <= ended

    kernel.any(both)


def test_the_run_of_a_killed_kernel_is_seen_to_be_lost(kernel, second, journal):
    first = kernel.send("%%sandbox bash\nsleep 300", person=True)
    kernel.follow(first, shown)
    run_id = run_id_of(journal)
    looking = second.send(f"%kagura attach {run_id}", person=True)
    up_to(second, looking, shown)
    kernel.kill()
    assert record(up_to(second, looking, ends))["status"] == "lost"
    (row,) = views.runs(journal)
    assert row.error_code == "ERR_RUN_LOST"


def test_without_a_person_attaching_waits_for_the_end_and_shows_the_run_once(kernel, journal):
    kernel.run("%%sandbox bash --bg\nsleep 0.3; echo over")
    messages = kernel.run(f"%kagura attach {run_id_of(journal)}")
    [once] = [m for m in messages if ends(m)]
    assert once["msg_type"] == "display_data"
    assert once["content"]["data"][RUN_MIME]["status"] == "done"


def test_a_wait_without_a_person_is_interrupted_and_the_run_goes_on(kernel, journal):
    kernel.run("%%sandbox bash --bg\nsleep 300")
    run_id_of(journal)
    request = kernel.send("print('waiting', flush=True)\n%kagura attach last")
    kernel.follow(request, lambda message: message["msg_type"] == "stream")
    kernel.interrupt_until(request)
    (row,) = views.runs(journal)
    assert row.live
    kernel.run("%kagura kill last")


def test_a_question_in_the_background_is_told_once_below_the_next_cell_and_never_without_a_person(kernel, journal):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    begun = kernel.run("run = get_ipython().run_cell_magic('kagura', '--replay c.jsonl --bg', 'Go.')", person=True)
    assert not [m for m in begun if m["msg_type"] == "error"]
    wait_until(lambda: views.approvals(journal))
    alone = kernel.run("1 + 1")
    told = kernel.run("run.status", person=True)
    again = kernel.run("1 + 1", person=True)
    line = f"{run_id_of(journal)} waits for you: "
    assert "waits for you" not in str(alone)
    assert "'waiting'" in str(told)
    assert str(told).count(line) == 1
    assert "waits for you" not in str(again)
    html = str(kernel.run("run", person=True))
    assert re.search(r"Waiting for you.*%kagura attach run-", html)
    kernel.run("run.kill()")


def test_the_board_of_runs_shows_every_notebook_and_its_buttons_act_there(kernel, second, journal):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    first = kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    kernel.follow(first, asks)
    board = second.send("%kagura watch", person=True)
    opened = second.follow(board)
    assert any(asks(message) for message in opened)
    (pending,) = views.approvals(journal)
    second.press(comm_of(opened), act="allow", id=pending.id)
    assert record(up_to(kernel, first, ends))["status"] == "done"

    def settled(message):
        return message["msg_type"] == "update_display_data" and "none goes on" in str(message["content"])

    static = up_to(second, board, settled)[-1]["content"]["data"]
    assert "data-act" not in static["text/html"]
    (row,) = views.approvals(journal)
    assert (row.verdict, row.via) == ("allow", "board")
