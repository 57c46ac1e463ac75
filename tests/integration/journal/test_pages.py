"""Long lists a part at a time, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from kagura_kernel.domain.errors import ApprovalUnknown, RunUnknown, UsageError
from kagura_kernel.journal import pages
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

FIRST = SampleRun()


def run(number: int) -> SampleRun:
    return SampleRun(f"run-{number}", f"ses-{number % 2}", FIRST.at + timedelta(minutes=number))


@pytest.fixture
def seven(journal: Journal) -> Journal:
    """Seven runs, of which the even ones have ended; each asks for something, and the ended ones have an answer."""
    for number in range(7):
        told = run(number)
        journal.append(told.started(task=f"Task {number} of 100%", notebook=f"n{number % 3}.ipynb", model="m_1"))
        journal.append(told.asked(f"app-{number}", requested_at=told.at))
        if not number % 2:
            journal.append(told.decided(f"app-{number}"))
            journal.append(told.finished(error_code="ERR_X", status="failed"))
    return journal


def all_of(page: Callable[[str], pages.Page]) -> list:
    """What all pages hold, from the first to the last."""
    found, cursor = [], ""
    while True:
        part = page(cursor)
        found += part.items
        if part.next is None:
            return found
        cursor = part.next


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_pages_of_any_size_hold_everything_once_and_in_order(seven, limit):
    runs = all_of(lambda before: pages.run_page(seven, limit=limit, before=before))
    assert [row.run_id for row in runs] == [f"run-{number}" for number in reversed(range(7))]
    asked = all_of(lambda before: pages.approval_page(seven, limit=limit, before=before))
    assert [row.id for row in asked] == [f"app-{number}" for number in reversed(range(7))]
    stored = all_of(lambda after: pages.event_page(seven, "run-2", after=after, limit=limit))
    assert [row.seq for row in stored] == [row.seq for row in seven.events(run_id="run-2")]


def test_what_begins_meanwhile_moves_no_page(seven):
    first = pages.run_page(seven, limit=3)
    seven.append(run(7).started())
    second = pages.run_page(seven, limit=3, before=first.next or "")
    assert [row.run_id for row in second.items] == ["run-3", "run-2", "run-1"]


def test_approvals_of_one_moment_are_told_apart_by_their_ids(journal):
    for number in range(5):
        journal.append(FIRST.asked(f"app-{number}"))
    asked = all_of(lambda before: pages.approval_page(journal, limit=2, before=before))
    assert [row.id for row in asked] == [f"app-{number}" for number in reversed(range(5))]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"state": "live"}, [5, 3, 1]),
        ({"state": "ended"}, [6, 4, 2, 0]),
        ({"session_id": "ses-0"}, [6, 4, 2, 0]),
        ({"notebook": "n1.ipynb"}, [4, 1]),
        ({"notebook": "n1.ipynb", "state": "live"}, [1]),
        ({"text": "TASK 4"}, [4]),
        ({"text": "n2"}, [5, 2]),
        ({"text": "run-6"}, [6]),
        ({"text": "err_x run-0"}, [0]),
        ({"text": "100%"}, [6, 5, 4, 3, 2, 1, 0]),
        ({"text": "10_%"}, []),
        ({"text": "m_1"}, [5, 3, 1]),
        ({"text": "  "}, [6, 5, 4, 3, 2, 1, 0]),
        ({"text": "\\"}, []),
    ],
)
def test_runs_are_found_by_what_is_known_of_them(seven, wanted, numbers):
    found = pages.run_page(seven, **wanted).items
    assert [row.run_id for row in found] == [f"run-{number}" for number in numbers]
    assert all(row.live == bool(int(row.run_id[-1]) % 2) for row in found)


def test_approvals_are_told_by_whether_they_wait(seven):
    pending = pages.approval_page(seven, state="pending").items
    assert [row.id for row in pending] == ["app-5", "app-3", "app-1"]
    assert [row.verdict for row in pages.approval_page(seven, state="decided").items] == ["allow"] * 4
    assert [row.notebook for row in pending] == ["n2.ipynb", "n0.ipynb", "n1.ipynb"]


def test_a_question_that_is_here_before_its_run_has_no_place(journal):
    Mailbox(journal).post(FIRST.request("app-early"))
    row = pages.one_approval(journal, "app-early")
    assert (row.notebook, row.arguments, row.options) == ("", {"command": "git push"}, ())


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "٣", "1" * 19, "1;DROP TABLE journal_runs"])
def test_a_cursor_that_no_page_gave_is_refused(seven, cursor):
    for page in (
        lambda: pages.run_page(seven, before=cursor),
        lambda: pages.approval_page(seven, before=cursor),
        lambda: pages.event_page(seven, "run-1", after=cursor),
    ):
        with pytest.raises(UsageError, match="cursor"):
            page()


def test_what_is_not_there_is_an_error(seven):
    with pytest.raises(RunUnknown):
        pages.one_run(seven, "run-none")
    with pytest.raises(RunUnknown):
        pages.event_page(seven, "run-none")
    with pytest.raises(ApprovalUnknown):
        pages.one_approval(seven, "app-none")


def test_a_page_of_long_events_ends_early_and_never_empty(journal):
    long = "x" * (pages.PAGE_CHARACTERS // 2)
    journal.append(FIRST.started())
    for _ in range(3):
        journal.append(FIRST.said(long))
    journal.append(FIRST.said(long * 3))
    sizes = []
    cursor = ""
    while True:
        page = pages.event_page(journal, FIRST.run_id, after=cursor)
        sizes.append(len(page.items))
        if page.next is None:
            break
        cursor = page.next
    assert sizes == [2, 1, 1, 1]


def test_counts_are_of_what_waits_and_what_goes_on(journal, seven):
    assert pages.counts(seven) == pages.Counts(pending=3, live=3, seq=journal.last_seq())


def test_an_empty_journal_has_empty_pages(journal):
    assert pages.run_page(journal) == pages.Page((), None)
    assert pages.approval_page(journal) == pages.Page((), None)
    assert pages.counts(journal) == pages.Counts(0, 0, 0)
