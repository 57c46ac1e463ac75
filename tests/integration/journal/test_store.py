from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import JournalError, JournalTampered, JournalTooNew, JournalUnwritable
from kagura_kernel.domain.events import OutputStreamed, TextStreamed
from kagura_kernel.journal import views
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()
SLIP_IN = """INSERT INTO journal_events SELECT {seq}, at, kind, run_id, session_id, body, hash, hash
    FROM journal_events ORDER BY seq DESC LIMIT 1"""


def meddle(journal: Journal, *statements: str) -> None:
    with journal.writing() as writing:
        for statement in statements:
            writing.connection.execute(text(statement))


def fill(journal: Journal, rows: int) -> None:
    for number in range(rows):
        journal.append(RUN.noted(f"note {number}"))


def test_rows_are_numbered_from_one_and_come_back_as_they_were(journal):
    called, finished = RUN.tool()
    assert [journal.append(event) for event in (RUN.started(), called, finished)] == [1, 2, 3]
    assert [stored.event for stored in journal.events()] == [RUN.started(), called, finished]
    assert [stored.seq for stored in journal.events()] == [1, 2, 3]
    assert journal.last_seq() == 3


def test_an_empty_journal_has_no_rows_and_verifies(journal):
    assert journal.events() == []
    assert journal.last_seq() == 0
    assert journal.verify().rows == 0


def test_what_is_streamed_is_for_displays_and_refused(journal):
    streamed = {"run_id": "run-1", "session_id": "ses-1", "at": RUN.at, "text": "x"}
    for event in (TextStreamed(**streamed), OutputStreamed(**streamed, call_id="call-1", stream="stdout")):
        with pytest.raises(ValueError, match="never stored"):
            journal.append(event)
    assert journal.last_seq() == 0


def test_rows_are_found_by_run_session_kind_and_number(journal):
    other = SampleRun("run-2", "ses-2")
    for event in (RUN.started(), other.started(), RUN.noted(), other.noted(), RUN.finished()):
        journal.append(event)
    seqs = lambda **how: [stored.seq for stored in journal.events(**how)]  # noqa: E731 - one word for many lines
    assert seqs(run_id="run-1") == [1, 3, 5]
    assert seqs(session_id="ses-2") == [2, 4]
    assert seqs(kinds=["noted", "run.finished"]) == [3, 4, 5]
    assert seqs(after=2) == [3, 4, 5]
    assert seqs(after=1, limit=2) == [2, 3]
    assert seqs(run_id="run-1", kinds=["run.started"], after=1) == []


def test_a_text_that_is_not_unicode_comes_back_as_it_was(journal):
    journal.append(RUN.started(task="odd \udcff name and a \x00", project="/data/\udcfe"))
    journal.append(RUN.noted("日本語 \x00 \U0001f98a"))
    started, noted = (stored.event for stored in journal.events())
    assert "\udcff name" in started.task
    assert noted.text == "日本語 \x00 \U0001f98a"
    assert journal.verify().rows == 2


def test_a_kind_of_a_later_version_comes_back_as_a_plain_event(journal):
    later = RUN.noted().model_copy(update={"kind": "box.moved"})
    journal.append(later)
    (stored,) = journal.events()
    assert (stored.event.kind, stored.event.run_id, stored.event.at) == ("box.moved", "run-1", RUN.at)


def test_two_handles_on_one_journal_keep_one_chain(open_journal):
    one, two = open_journal(), open_journal()
    assert [one.append(RUN.noted()), two.append(RUN.noted()), one.append(RUN.noted())] == [1, 2, 3]
    assert one.verify() == two.verify()


def test_many_threads_on_one_handle_keep_one_chain(journal):
    with ThreadPoolExecutor(8) as pool:
        seqs = list(pool.map(lambda number: journal.append(RUN.noted(str(number))), range(200)))
    assert sorted(seqs) == list(range(1, 201))
    assert journal.verify().rows == 200


def test_a_journal_that_grows_while_it_is_verified_still_verifies(journal):
    fill(journal, 50)
    with ThreadPoolExecutor(2) as pool:
        growing = pool.submit(fill, journal, 200)
        while not growing.done():
            assert journal.verify().rows >= 50
        growing.result()
    assert journal.verify().rows == 250


def test_more_rows_than_are_read_at_once_are_all_checked(journal):
    with journal.writing() as writing:
        for number in range(2001):
            writing.append(RUN.noted(str(number)))
    assert journal.verify().rows == 2001
    meddle(journal, "UPDATE journal_events SET run_id = 'run-x' WHERE seq = 2001")
    with pytest.raises(JournalTampered):
        journal.verify()


@pytest.mark.parametrize(
    ("statements", "seq", "why"),
    [
        (
            ["UPDATE journal_events SET body = replace(body, 'note 2', 'note x') WHERE seq = 3"],
            3,
            "not what was written",
        ),
        (["UPDATE journal_events SET at = '2025-01-01T00:00:00.000000Z' WHERE seq = 1"], 1, "not what was written"),
        (["DELETE FROM journal_events WHERE seq = 3"], 3, "missing; the next one is row 4"),
        (["DELETE FROM journal_events WHERE seq = 1"], 1, "missing"),
        (["DELETE FROM journal_events WHERE seq = 5"], 5, "had 5 rows and now holds 4"),
        (["DELETE FROM journal_events"], 1, "had 5 rows and now holds 0"),
        (["DELETE FROM journal_head"], 5, "record of the last row is missing"),
        (["DELETE FROM journal_events WHERE seq = 5", "UPDATE journal_head SET rows = 4"], 4, "not the row"),
        (["UPDATE journal_events SET prev_hash = hash WHERE seq = 4"], 4, "does not follow"),
        (
            [
                "UPDATE journal_events SET seq = 99 WHERE seq = 2",
                "UPDATE journal_events SET seq = 2 WHERE seq = 3",
                "UPDATE journal_events SET seq = 3 WHERE seq = 99",
            ],
            2,
            "does not follow",
        ),
        (
            [SLIP_IN.format(seq=6)],
            6,
            "not what was written",
        ),
        (
            [SLIP_IN.format(seq=-1)],
            1,
            "missing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_whatever_is_done_to_the_rows_is_found(journal, statements, seq, why):
    fill(journal, 5)
    meddle(journal, *statements)
    with pytest.raises(JournalTampered, match=why) as caught:
        journal.verify()
    assert caught.value.seq == seq


def test_an_error_in_a_transaction_leaves_nothing_of_it(journal):
    fill(journal, 2)

    def interrupted() -> None:
        with journal.writing() as writing:
            writing.append(RUN.started())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert views.runs(journal) == []
    assert journal.append(RUN.noted()) == 3
    assert journal.verify().rows == 3


def test_a_journal_without_its_head_takes_no_more_rows(journal):
    fill(journal, 1)
    meddle(journal, "DELETE FROM journal_head")
    with pytest.raises(JournalUnwritable, match="head record is missing"):
        journal.append(RUN.noted())


def test_a_row_slipped_in_behind_the_head_stops_the_writing_instead_of_being_built_upon(journal):
    fill(journal, 1)
    meddle(journal, SLIP_IN.format(seq=2))
    with pytest.raises(JournalUnwritable):
        journal.append(RUN.noted())


def test_a_newer_journal_is_refused_when_it_is_opened_and_when_it_became_newer(journal, open_journal):
    journal.check_writable()
    meddle(journal, "INSERT INTO journal_version (version, applied_at) VALUES (99, 'later')")
    with pytest.raises(JournalTooNew) as caught:
        open_journal()
    assert caught.value.found == 99
    with pytest.raises(JournalTooNew):
        journal.check_writable()


def test_closing_twice_is_fine_and_a_closed_journal_says_so(journal):
    journal.close()
    journal.close()
    for use in (lambda: journal.append(RUN.noted()), journal.check_writable, journal.events, journal.verify):
        with pytest.raises(JournalError, match="it was closed"):
            use()


def test_reopening_goes_on_where_the_chain_ended(journal, open_journal):
    fill(journal, 3)
    journal.close()
    again = open_journal()
    assert again.append(RUN.noted()) == 4
    assert again.verify().rows == 4
