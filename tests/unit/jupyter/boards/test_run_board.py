"""The board of runs: what it says, what its buttons do, and when it ends."""

from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import ApprovalUnknown, RunUnknown
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.jupyter import boards
from kagura_kernel.jupyter.boards import RunBoard
from kagura_kernel.jupyter.tables import board_table
from kagura_kernel.render.html import html_of
from kagura_kernel.render.text import lines_of
from kagura_kernel.testing.patience import eventually
from kagura_kernel.views.boards import board_blocks, is_simple
from tests.support.card_page import Page
from tests.support.sample_run import SampleRun

NOW = datetime(2026, 1, 1, 12, 5, tzinfo=UTC)


def lines(cockpit):
    return boards.RunBoard.look(cockpit)[0]


def told(journal, run_id="run-1", *more, **started):
    run = SampleRun(run_id)
    journal.append(run.started(**{"owner": process_owner(), "notebook": "sales.ipynb"} | started))
    for event in more:
        journal.append(event)
    return run


def test_runs_that_go_on_come_first_then_the_last_that_ended(cockpit, journal):
    for number in range(7):
        journal.append(told(journal, f"run-over-{number}").finished())
    told(journal, "run-live")
    assert [line.run_id for line in lines(cockpit)] == ["run-live", *(f"run-over-{n}" for n in (6, 5, 4, 3, 2))]
    table = board_table(cockpit.board(ended=5), NOW)
    assert table.run.tolist()[0] == "run-live"
    assert table.seconds[0] == 300
    assert table.waits_for.isna().all()


def test_a_run_that_waits_says_for_what_and_a_simple_question_has_its_buttons(cockpit, journal):
    run = told(journal)
    journal.append(run.asked())
    (line,) = lines(cockpit)
    assert (line.status, line.waits_for, line.where) == (
        "waiting",
        "Run a command on this machine",
        "sales.ipynb, in another kernel",
    )
    page = Page(html_of(board_blocks([line], NOW, live=True)))
    assert page.open == []
    acts = [(button["data-act"], button["data-id"]) for button in page.buttons]
    assert acts == [("stop", "run-1"), ("allow", "app-1"), ("deny", "app-1"), ("abort", "app-1")]
    assert "git push" in page.text
    assert "5:00" in page.text
    table = board_table(cockpit.board(ended=5), NOW)
    assert table.waits_for.tolist() == ["Run a command on this machine"]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": ApprovalKind.QUESTION},
        {"options": ("this run", "never")},
        {"arguments": {"command": "x" * 500}},
        {"arguments": {"command": "tee f", "stdin": "secret plan"}},
        {"arguments": {"command": "\n" * 20}},
        {"kind": ApprovalKind.PLAN, "arguments": {"budget_usd": 0.8, "lessons": ["mem-1"]}},
        {"kind": ApprovalKind.TOOL, "arguments": {"text": "x" * 500}},
    ],
)
def test_what_needs_more_than_a_yes_or_more_room_is_answered_in_its_own_card(cockpit, journal, changes):
    run = told(journal)
    journal.append(asked := run.asked(**changes))
    assert not is_simple(asked)
    page = Page(html_of(board_blocks(lines(cockpit), NOW, live=True)))
    assert [button["data-act"] for button in page.buttons] == ["stop"]
    assert "Waits for you: Run a command on this machine" in page.text
    assert "%kagura attach run-1" in page.text


def test_a_saved_board_has_no_buttons_and_says_when_it_was(cockpit, journal):
    run = told(journal)
    journal.append(run.asked())
    data, _ = RunBoard.bundle(lines(cockpit), NOW)
    page = Page(data["text/html"])
    assert page.buttons == []
    assert "as of 2026-01-01 12:05:00 UTC" in page.text
    assert data["text/plain"].splitlines()[0] == "[runs: 1 run going on, 1 waiting for you]"
    assert "%kagura attach run-1" in data["text/plain"]


def test_a_run_whose_process_is_gone_is_lost_and_offers_nothing(cockpit, journal):
    host = process_owner().split(":")[0]
    told(journal, owner=f"{host}:1:nobody.{process_owner().split('.')[1]}.{process_owner().split('.')[2]}")
    (line,) = lines(cockpit)
    assert (line.status, line.live) == ("lost", False)
    assert Page(html_of(board_blocks([line], NOW, live=True))).buttons == []


def test_what_a_task_says_cannot_pose_as_part_of_the_board(cockpit, journal):
    told(journal, task="</div><script>x</script>\u202e", model="<b>m")
    shown = html_of(board_blocks(lines(cockpit), NOW, live=True))
    assert "<script" not in shown
    assert "\u202e" not in shown + "".join(lines_of(board_blocks(lines(cockpit), NOW, live=False)))
    assert Page(shown).open == []


class Pressed:
    """Remembers what it was asked to do."""

    def __init__(self, error=None):
        self.done = []
        self._error = error

    def decide(self, ident, *, allow, by, via):
        self._do("allow" if allow else "deny", ident, by, via)

    def abort(self, ident, *, by, via):
        self._do("abort", ident, by, via)

    def kill(self, ident, *, by):
        self._do("stop", ident, by, "")

    def _do(self, act, ident, by, via):
        assert by
        if self._error is not None:
            raise self._error
        self.done.append((act, ident, via))


@pytest.mark.parametrize(("act", "via"), [("allow", "board"), ("deny", "board"), ("abort", "board"), ("stop", "")])
def test_each_button_does_one_thing(act, via):
    cockpit, remarks = Pressed(), []
    boards.press_board(cockpit, {"act": act, "id": "x-1"}, lambda *said: remarks.append(said))
    assert (cockpit.done, remarks) == ([(act, "x-1", via)], [])


@pytest.mark.parametrize(("error", "about"), [(ApprovalUnknown("app-1"), "app-1"), (RunUnknown("run-1"), "")])
def test_what_cannot_be_done_is_told_beside_it(error, about):
    remarks = []
    boards.press_board(Pressed(error), {"act": "deny", "id": "app-1"}, lambda *said: remarks.append(said))
    assert remarks == [(error.message, about)]
    boards.press_board(Pressed(), {"act": "dance"}, lambda *said: remarks.append(said))
    assert "no button 'dance'" in remarks[1][0]


class FakeSlot:
    """A place in an output that remembers what was put there."""

    def __init__(self):
        self.shown, self.written, self.unseen = [], [], 0.0

    def open(self, *given):
        self.shown.append(html_of(given[2]["all"]))

    def show(self, parts):
        self.shown.append(html_of(parts["all"]))

    def write(self, bundle):
        self.written.append(bundle[0]["text/plain"])

    def ask_whether_seen(self):
        pass

    def unseen_for(self):
        return self.unseen


@pytest.fixture
def slots(monkeypatch):
    made = []

    def make():
        made.append(FakeSlot())
        return made[-1]

    monkeypatch.setattr(boards, "Slot", make)
    monkeypatch.setattr(boards, "LOOK_SECONDS", 0.01)
    return made


async def test_a_board_follows_every_process_and_ends_with_the_last_run(cockpit, journal, slots):
    run = told(journal)
    assert boards.RunBoard.show(cockpit)
    (slot,) = slots
    journal.append(run.asked())
    await eventually(lambda: "git push" in slot.shown[-1])
    journal.append(run.decided())
    await eventually(lambda: "git push" not in slot.shown[-1])
    journal.append(run.finished())
    await eventually(lambda: slot.written)
    assert slot.written[0].startswith("[runs: none goes on]\nrun-1  done")
    assert boards.RunBoard.current is None


async def test_a_board_that_no_front_end_shows_any_more_asks_the_journal_no_longer(cockpit, journal, slots):
    told(journal)
    boards.RunBoard.show(cockpit)
    (slot,) = slots
    slot.unseen = boards.SEEN_SECONDS
    await eventually(lambda: slot.written)
    assert boards.RunBoard.current is None


async def test_a_second_board_ends_the_first(cockpit, journal, slots):
    told(journal)
    boards.RunBoard.show(cockpit)
    boards.RunBoard.show(cockpit)
    assert len(slots[0].written) == 1
    assert slots[1].written == []
    boards.RunBoard.current.end()


async def test_where_nothing_goes_on_the_board_is_static_at_once(cockpit, journal, slots, monkeypatch):
    journal.append(told(journal).finished())
    written = []
    monkeypatch.setattr(boards, "write_once", written.append)
    assert boards.RunBoard.show(cockpit)
    assert slots == []
    assert written[0][0]["text/plain"].startswith("[runs: none goes on]")


def test_elapsed_time_is_counted_from_the_start(cockpit, journal):
    told(journal)
    assert 'data-elapsed="300.0"' in html_of(board_blocks(lines(cockpit), NOW, live=True))
    assert 'data-elapsed="360.0"' in html_of(board_blocks(lines(cockpit), NOW + timedelta(minutes=1), live=True))
