import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import PluginAudited, PluginCalled, PluginChanged, PluginSeen
from kagura_kernel.domain.plugins import (
    AuditVerdict,
    CanaryStatus,
    Injection,
    PluginAudit,
    PluginFinding,
    PluginPermissions,
    PluginState,
    Risk,
    Severity,
)
from kagura_kernel.journal.mailbox import DEEDS, Mailbox, send_plugin_word, take_plugin_words
from kagura_kernel.journal.owner import owner_alive, process_owner
from kagura_kernel.journal.pages import Watch
from kagura_kernel.journal.plugins import PluginHistory, plugin_log, plugin_views
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from tests.support.plugin_events import one_plugin
from tests.support.sample_run import SampleRun

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = "1" * 64, "2" * 64
HERE = {"run_id": "", "at": AT}


def seen(name: str = "fs-read", **more: Any) -> PluginSeen:
    facts = {"version": "1.0.0", "content_hash": ONE, "modules": ("fs_read",)} | more
    return PluginSeen(**HERE, session_id="", plugin=name, **facts)


def audit(content_hash: str = ONE, **more: Any) -> PluginAudit:
    facts = {"risk": Risk.LOW, "verdict": AuditVerdict.APPROVE, "summary": "It reads."} | more
    return PluginAudit(plugin="fs-read", version="1.0.0", content_hash=content_hash, **facts)


def audited(content_hash: str = ONE, **more: Any) -> PluginAudited:
    return PluginAudited(**HERE, session_id="ses-9", audit=audit(content_hash, **more), by="ada")


def changed(change: str, session: str = "", **more: Any) -> PluginChanged:
    facts = {"content_hash": ONE, "by": "ada"} | more
    return PluginChanged(**HERE, session_id=session, plugin="fs-read", change=change, **facts)


def enabled(session: str, owner: str, **more: Any) -> PluginChanged:
    return changed("enabled", session, state="enabled", owner=owner, **more)


def test_a_plugin_is_what_was_last_seen_of_it(journal):
    journal.append(seen())
    journal.append(
        seen(
            version="1.1.0",
            description="Reads.",
            place="bundled",
            content_hash=OTHER,
            permissions=PluginPermissions(read=("{base}",)),
            signed_by="ada",
        )
    )
    bundled_view, user_view = plugin_views(journal)
    bundled, user = bundled_view.seen, user_view.seen
    assert (user.place, user.version, user.content_hash) == ("user", "1.0.0", ONE)
    assert (bundled.version, bundled.description, bundled.content_hash) == ("1.1.0", "Reads.", OTHER)
    assert (bundled.permissions.read, bundled.signed_by, bundled.modules) == (
        ("{base}",),
        "ada",
        ("fs_read",),
    )
    assert bundled_view.state_alone is PluginState.DISCOVERED
    assert one_plugin(journal, "fs-read") == bundled_view


def test_what_is_gone_is_no_more(journal):
    journal.append(seen())
    journal.append(seen("fetch", problem="no manifest", content_hash=""))
    journal.append(seen(gone=True))
    assert [(view.name, view.seen.problem) for view in plugin_views(journal)] == [("fetch", "no manifest")]


def test_each_project_has_its_own(journal):
    journal.append(seen(place="project", project="/a"))
    journal.append(seen(place="project", project="/b", content_hash=OTHER))
    journal.append(enabled("ses-b", process_owner(), content_hash=OTHER))
    first, second = plugin_views(journal)
    assert (first.seen.project, first.state("ses-b")) == ("/a", PluginState.DISCOVERED)
    assert (second.seen.project, second.state("ses-b")) == ("/b", PluginState.ENABLED)
    assert one_plugin(journal, "fs-read", project="/b").seen.content_hash == OTHER


def test_an_audit_and_an_approval_are_worth_something_for_exactly_those_files(journal):
    journal.append(seen())
    journal.append(audited())
    journal.append(changed("approved"))
    (view,) = plugin_views(journal)
    assert (view.audit, view.approved, view.state_alone) == (audit(), True, PluginState.AUDITED)
    journal.append(seen(content_hash=OTHER))
    (view,) = plugin_views(journal)
    assert (view.audit, view.approved, view.state_alone) == (None, False, PluginState.DISCOVERED)
    journal.append(changed("unapproved"))
    journal.append(seen())
    (view,) = plugin_views(journal)
    assert (view.audit, view.approved) == (audit(), False)


def test_a_report_comes_back_with_everything_in_it(journal):
    whole = audit(
        findings=(PluginFinding(Severity.WARNING, "network", "Reaches out.", "plugin.py", 3, "socket.socket()"),),
        injections=(Injection("ignore all \udcff", "talks to the auditor"),),
        canaries=CanaryStatus.OK,
        description_accurate=True,
        static_only=False,
        auditor="claude-code, claude-x",
        remark="none",
        permissions=PluginPermissions(net=("example.org",)),
        at=AT,
    )
    journal.append(seen())
    journal.append(PluginAudited(**HERE, session_id="", audit=whole))
    assert PluginHistory(journal).audit("fs-read", ONE) == whole
    assert PluginHistory(journal).audit("fs-read", OTHER) is None
    assert PluginHistory(journal).audited_hashes("fs-read") == {ONE}


def test_what_a_brain_has_found_is_not_undone_by_a_scan_or_a_cassette(journal):
    def take(**facts: object) -> None:
        journal.append(PluginAudited(**HERE, session_id="", audit=audit(**facts)))

    def summary() -> str:
        found = PluginHistory(journal).audit("fs-read", ONE)
        return found.summary if found else ""

    take(static_only=True, auditor="", summary="scanned")
    take(static_only=False, auditor="replay m-1", summary="played")
    assert summary() == "played"
    take(static_only=False, auditor="claude m-1", risk=Risk.CRITICAL, summary="read")
    take(static_only=True, auditor="", summary="scanned again")
    take(static_only=False, auditor="replay m-1", summary="played again")
    assert summary() == "read"
    take(static_only=False, auditor="claude m-1", summary="read again")
    assert summary() == "read again"


def test_quarantine_holds_for_those_files_until_they_are_audited_or_released(journal):
    journal.append(seen())
    journal.append(changed("quarantined", reason="it broke"))
    (view,) = plugin_views(journal)
    assert (view.quarantine, view.state_alone) == ("it broke", PluginState.QUARANTINED)
    journal.append(audited())
    assert plugin_views(journal)[0].quarantine == ""
    journal.append(changed("quarantined", reason="again"))
    journal.append(changed("released"))
    assert plugin_views(journal)[0].state_alone is PluginState.AUDITED


def test_a_session_sees_where_its_plugin_is_and_with_what(journal):
    journal.append(seen())
    here = process_owner()
    opened = PluginPermissions(read=("/data",))
    journal.append(enabled("ses-1", here, config={"base": "/data"}, permissions=opened))
    journal.append(changed("disabled", "ses-2", state="disabled", owner=here))
    (view,) = plugin_views(journal)
    assert [view.state(f"ses-{n}") for n in (1, 2, 3)] == ["enabled", "disabled", "discovered"]
    use = next(use for use in view.uses if use.session_id == "ses-1")
    assert (use.config, use.permissions, use.by, owner_alive(use.owner)) == ({"base": "/data"}, opened, "ada", True)
    journal.append(seen(content_hash=OTHER))
    (view,) = plugin_views(journal)
    assert [view.state(f"ses-{n}") for n in (1, 2)] == ["enabled", "discovered"]


def test_changed_files_are_told_where_another_project_has_one_of_the_same_name(journal):
    journal.append(seen(place="project", project="/a"))
    journal.append(seen(place="project", project="/b", content_hash="3" * 64))
    journal.append(enabled("ses-1", process_owner()))
    journal.append(seen(place="project", project="/a", content_hash=OTHER))
    journal.append(changed("changed", "ses-1", state="discovered", owner=process_owner()))
    ours, theirs = (view for view in plugin_views(journal))
    assert (ours.seen.project, ours.use("ses-1").change) == ("/a", "changed")
    assert theirs.use("ses-1") is None


def test_what_a_killed_process_had_enabled_is_enabled_no_more(journal):
    host, pid, rest = process_owner().split(":")
    assert int(pid) > 1
    journal.append(seen())
    journal.append(enabled("ses-1", f"{host}:4194303:{rest}"))
    (view,) = plugin_views(journal)
    assert view.uses[0].state is PluginState.ENABLED
    assert not owner_alive(view.uses[0].owner)
    assert view.state("ses-1") is PluginState.DISCOVERED


def test_a_history_reads_only_what_is_new(journal, monkeypatch):
    history = PluginHistory(journal)
    journal.append(seen())
    assert [view.seen.version for view in history.look()] == ["1.0.0"]
    read = []
    monkeypatch.setattr(journal, "read", lambda *args, _read=journal.read: read.append(rows := _read(*args)) or rows)
    journal.append(seen(version="2.0.0"))
    assert [view.seen.version for view in history.look()] == ["2.0.0"]
    assert [view.seen.version for view in history.look()] == ["2.0.0"]
    assert [len(rows) for rows in read] == [1, 0]


def test_a_log_tells_the_latest_of_one_plugin_in_its_order(journal):
    journal.append(seen())
    journal.append(seen("fetch"))
    journal.append(audited(findings=(PluginFinding(Severity.DANGER, "x", "Bad."),), risk=Risk.HIGH))
    journal.append(changed("configured", "ses-1", state="configured", config={"base": "/data", "most": "7"}))
    journal.append(enabled("ses-1", process_owner(), reason="", by="bob"))
    call = PluginCalled(
        run_id="run-1", session_id="ses-1", at=AT, plugin="fs-read", module="fs_read", function="stat", duration=0.25
    )
    journal.append(call)
    journal.append(call.model_copy(update={"ok": False, "error_code": "ERR_PLUGIN_FAILED", "error": "no such file"}))
    lines = plugin_log(journal, "fs-read")
    assert [(line.what, line.ok) for line in lines] == [
        ("seen", True),
        ("audited", False),
        ("configured", True),
        ("enabled", True),
        ("called", True),
        ("called", False),
    ]
    assert "1 finding," in lines[1].text
    assert "HIGH" in lines[1].text
    assert lines[2].text == "configured with base=/data, most=7"
    assert lines[3].by == "bob"
    assert lines[4].text == "fs_read.stat answered in 250 ms"
    assert "ERR_PLUGIN_FAILED no such file" in lines[5].text
    assert lines[5].run_id == "run-1"
    assert plugin_log(journal, "fs-read", limit=2) == lines[-2:]
    assert [line.what for line in plugin_log(journal, "fetch")] == ["seen"]
    assert plugin_log(journal, "unknown") == []


def test_a_log_finds_what_lies_behind_many_calls_of_others(journal, monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.plugins._CHUNK", 2)
    journal.append(seen())
    for _ in range(7):
        journal.append(seen("fetch"))
    assert [line.what for line in plugin_log(journal, "fs-read")] == ["seen"]


def test_plugins_are_a_topic_that_is_watched(journal, open_journal):
    watch = Watch(open_journal())
    watch.look()
    for event in (seen(), audited(), changed("approved")):
        journal.append(event)
        assert [change.topic for change in watch.look()] == ["plugins"]
    run = SampleRun()
    journal.append(run.noted())
    assert "plugins" not in [change.topic for change in watch.look()]


def test_the_rows_of_plugins_are_found_by_their_index(tmp_path):
    journal = Journal.open(tmp_path)
    queries: list[str] = []
    read = journal.read

    def note(query: Any, values: Any = None) -> Any:
        queries.append(str(query.compile(compile_kwargs={"literal_binds": True})))
        return read(query, values)

    journal.read = note  # type: ignore[method-assign]
    PluginHistory(journal).look()
    plugin_log(journal, "fs-read")
    assert len(queries) == 2
    for query in queries:
        plan = " ".join(row.detail for row in read(text(f"EXPLAIN QUERY PLAN {query}")))
        assert "USING INDEX journal_events_plugins" in plan
    journal.close()


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
