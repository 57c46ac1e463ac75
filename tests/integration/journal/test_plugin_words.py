from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.journal.mailbox import DEEDS, Mailbox, send_plugin_word, take_plugin_words
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from tests.support.sample_run import SampleRun

HASH = "0" * 63 + "f"


def send(journal: Journal, session: str = "ses-1", deed: str = "disable", plugin: str = "fs-read", **more: Any) -> None:
    send_plugin_word(journal, session, deed, plugin, **({"by": "ada", "via": "sidebar"} | more))


def left(journal: Journal) -> int:
    return journal.read(text("SELECT count(*) AS many FROM journal_messages"))[0].many


def test_a_word_comes_to_its_session_as_it_was_left_and_once(journal, open_journal):
    given = ("base=/a path", "note=\u65e5 \x00\n]")
    send(journal, deed="enable", by="ada\udcff", content_hash=HASH, words=given)
    elsewhere = open_journal()
    assert take_plugin_words(elsewhere, ["ses-2"]) == []
    (word,) = take_plugin_words(elsewhere, ["ses-2", "ses-1"])
    assert (word.session_id, word.deed, word.plugin) == ("ses-1", "enable", "fs-read")
    assert word.words == given
    assert (word.by, word.via, word.content_hash) == ("ada\\udcff", "sidebar", HASH)
    assert take_plugin_words(journal, ["ses-1"]) == []


def test_words_come_in_the_order_in_which_they_were_left(journal):
    for deed in DEEDS:
        send(journal, deed=deed)
    assert [word.deed for word in take_plugin_words(journal, ["ses-1"])] == list(DEEDS)


def test_nobody_hears_a_word_for_no_session(journal):
    send(journal, session="")
    assert take_plugin_words(journal, []) == []


def test_a_run_of_the_same_name_does_not_take_it_and_the_session_no_word_for_a_run(journal):
    run = SampleRun("ses-1")
    journal.append(run.started())
    mailbox = Mailbox(journal)
    mailbox.send("ses-1", "kill", by="ada")
    send(journal)
    assert [word.deed for word in take_plugin_words(journal, ["ses-1"])] == ["disable"]
    assert [message.word for message in mailbox.take(["ses-1"], ("kill", "leases"))] == ["kill"]


@pytest.mark.parametrize("seconds", [299, 301])
def test_a_word_that_nobody_heard_in_time_is_void(where, seconds):
    clock = FakeClock()
    journal = Journal.open(where, clock=clock)
    send(journal)
    asyncio.run(clock.advance(seconds))
    assert len(take_plugin_words(journal, ["ses-1"])) == (1 if seconds < 300 else 0)
    assert take_plugin_words(journal, ["ses-1"]) == []
    assert left(journal) == 0
    journal.close()


def test_what_nobody_hears_does_not_lie_there_for_good(where):
    clock = FakeClock()
    journal = Journal.open(where, clock=clock)
    send(journal, session="ses-gone")
    asyncio.run(clock.advance(301))
    send(journal)
    assert left(journal) == 1
    journal.close()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"deed": "install"}, "install"),
        ({"plugin": "../evil"}, "no name of a plugin"),
        ({"plugin": "fs-read x y"}, "no name of a plugin"),
        ({"plugin": "a" * 65}, "no name of a plugin"),
        ({"via": "side bar"}, "form"),
        ({"content_hash": "abc"}, "form"),
        ({"words": ("a=" + "x" * 70_000,)}, "configuration"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_left(journal, wrong, said):
    with pytest.raises(UsageError, match=said):
        send(journal, **wrong)
    assert take_plugin_words(journal, ["ses-1"]) == []


@pytest.mark.parametrize(
    "word", ["plugin.explode fs-read sidebar  []", "plugin.disable", "plugin.disable fs-read sidebar  [x]"]
)
def test_a_word_of_another_version_is_put_aside_and_not_guessed_at(journal, word):
    send(journal)
    with journal.writing() as writing:
        writing.connection.execute(text("UPDATE journal_messages SET word = :word"), {"word": f"plugin.{word}"})
    send(journal, deed="audit")
    assert [word.deed for word in take_plugin_words(journal, ["ses-1"])] == ["audit"]


def test_of_many_processes_that_listen_exactly_one_hears_a_word(open_journal):
    journals = [open_journal() for _ in range(3)]
    for _ in range(20):
        send(journals[0])
    with ThreadPoolExecutor(6) as pool:
        heard = list(pool.map(lambda at: take_plugin_words(journals[at % 3], ["ses-1"]), range(12)))
    assert sum(map(len, heard)) == 20
