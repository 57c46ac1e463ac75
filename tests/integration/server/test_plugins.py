"""Plugins over HTTP: as a session has them, what their audits say, and the words that are left for the session."""

from contextlib import closing
from itertools import count

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.plugins import PluginFinding, PluginPermissions, Risk, Severity
from kagura_kernel.journal.mailbox import take_plugin_words
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.testing.patience import eventually
from tests.integration.server.test_deciding import gone_owner
from tests.integration.server.test_events import heard  # noqa: F401 - a fixture
from tests.support.plugin_events import HASH, audited, changed, seen
from tests.support.sample_run import SampleRun

_numbers = count(1)
OTHER = "cd" * 32
NOTEBOOK = "/home/ada/project/books/greet.ipynb"
DANGER = PluginFinding(Severity.DANGER, "process-execution", "Starts a process", "plugin.py", 9, "os.system('id')")


@pytest.fixture
def journal(server, told):
    """The journal, as a kernel has it open."""
    assert told
    with closing(server.journal()) as opened:
        yield opened


@pytest.fixture
def name(journal):
    """A plugin of this test alone, found and not audited."""
    found = f"greeter-{next(_numbers)}"
    journal.append(seen(now(), plugin=found))
    return found


@pytest.fixture
def session(journal):
    """A session of this very process that has run a cell in a notebook."""
    session_id, number = f"ses-plugins-{next(_numbers)}", next(_numbers)
    run = SampleRun(f"run-plugins-{number}", session_id, now())
    place = {"notebook": NOTEBOOK, "kernel_id": f"kernel-{session_id}", "cell_id": "c"}
    journal.append(run.started(owner=process_owner(), project="/home/ada/project", flavour="sandbox", **place))
    journal.append(run.finished())
    return session_id


def now():
    return SystemClock().now()


def audit(journal, plugin, **facts):
    journal.append(audited(now(), plugin=plugin, **facts))


def one(server, plugin, words=""):
    (found,) = [item for item in server.get(f"plugins?{words}")["items"] if item["name"] == plugin]
    return found


def left(journal, session_id):
    """The words that wait for a session, which are taken."""
    return [
        (word.deed, word.plugin, word.content_hash, word.words) for word in take_plugin_words(journal, [session_id])
    ]


# ------------------------------------------------------------------ the list


def test_a_plugin_is_told_with_its_audit(server, journal, name):
    found = one(server, name)
    assert (found["state"], found["risk"], found["approved"], found["audited_at"]) == ("discovered", None, False, None)
    assert (found["place"], found["modules"], found["permissions"]["read"]) == ("user", ["greeter"], ["{base_dir}"])
    audit(journal, name, static_only=True, risk=Risk.UNKNOWN)
    found = one(server, name)
    assert (found["state"], found["risk"], found["verdict"], found["static_only"]) == (
        "audited",
        "UNKNOWN",
        "review",
        True,
    )
    journal.append(changed(now(), "approved", plugin=name))
    assert one(server, name)["approved"] is True
    journal.append(seen(now(), plugin=name, content_hash=OTHER))
    found = one(server, name)
    assert (found["state"], found["risk"], found["approved"]) == ("discovered", None, False)


def test_each_session_has_its_own_state(server, journal, name, session):
    audit(journal, name)
    opens = PluginPermissions(read=("/home/ada/data",))
    config = {"base_dir": "/home/ada/data", "url": "postgresql://ada:***@db"}
    journal.append(changed(now(), "enabled", session, plugin=name, state="enabled", config=config, permissions=opens))
    ours = one(server, name, f"session={session}")
    assert (ours["state"], ours["config"], ours["opens"]["read"]) == ("enabled", config, ["/home/ada/data"])
    assert ours["sessions"] == [{"session_id": session, "notebook": NOTEBOOK, "state": "enabled", "live": True}]
    other = one(server, name, "session=ses-2")
    assert (other["state"], other["config"], other["opens"]) == ("audited", {}, None)
    assert [use["session_id"] for use in other["sessions"]] == [session]


def test_a_notebooks_session_is_found_by_its_kernel_and_by_its_name(server, session):
    by_kernel = server.get(f"plugins?kernel=kernel-{session}&notebook=/renamed.ipynb")["session"]
    by_name = server.get(f"plugins?notebook={NOTEBOOK}")["session"]
    assert by_kernel == by_name
    assert (by_kernel["session_id"], by_kernel["live"], by_kernel["project"]) == (session, True, "/home/ada/project")
    assert server.get("plugins?kernel=kernel-new&notebook=" + NOTEBOOK)["session"] is None
    assert server.get("plugins?notebook=/nowhere.ipynb")["session"] is None
    assert server.get("plugins")["session"] is None


def test_an_audit_leads_to_the_session_for_which_its_process_keeps_the_plugin(server, journal, name):
    session_id, number = f"ses-own-{next(_numbers)}", next(_numbers)
    owner = f"{process_owner()[:-1]}9{number}"
    place = {"notebook": f"/books/{number}.ipynb", "kernel_id": f"kernel-{number}", "cell_id": "c"}
    run = SampleRun(f"run-audit-{number}", f"ses-audit-{number}", now())
    journal.append(run.started(task=f"Audit the plugin {name} 1.2.0", flavour="audit", owner=owner, **place))
    assert server.get(f"plugins?kernel=kernel-{number}")["session"] is None
    journal.append(changed(now(), "enabled", session_id, plugin=name, state="enabled", owner=owner))
    assert server.get(f"plugins?kernel=kernel-{number}")["session"]["session_id"] == session_id
    going_on = one(server, name, f"kernel=kernel-{number}")["audit_run"]
    assert (going_on["run_id"], going_on["live"], going_on["error"]) == (run.run_id, True, "")
    journal.append(run.finished(status="failed", error_code="ERR_PLUGIN_CONFIG", error="base_dir is missing"))
    ended = one(server, name, f"session={session_id}")["audit_run"]
    assert (ended["status"], ended["error_code"], ended["error"]) == (
        "failed",
        "ERR_PLUGIN_CONFIG",
        "base_dir is missing",
    )


def test_a_live_process_comes_before_one_that_is_gone(server, journal):
    number = next(_numbers)
    place = {"notebook": f"/books/{number}.ipynb", "kernel_id": f"kernel-{number}", "cell_id": "c"}
    for session_id, owner in ((f"ses-here-{number}", process_owner()), (f"ses-dead-{number}", gone_owner())):
        run = SampleRun(f"run-{session_id}", session_id, now())
        journal.append(run.started(owner=owner, **place))
        journal.append(run.finished())
    assert server.get(f"plugins?kernel=kernel-{number}")["session"]["session_id"] == f"ses-here-{number}"


def test_a_project_has_its_own_plugins_and_no_others(server, journal, session):
    for project in ("/home/ada/project", "/home/ada/other"):
        journal.append(seen(now(), plugin="local", place="project", project=project))

    def projects(words):
        return {item["project"] for item in server.get(f"plugins?{words}")["items"]}

    assert projects(f"session={session}") == {"", "/home/ada/project"}
    assert projects("notebook=/home/ada/other/x.ipynb") == {"", "/home/ada/other"}
    assert projects("notebook=/home/ada/otherwise/x.ipynb") == {""}
    assert projects("project=/home/ada/other") == {"", "/home/ada/other"}
    assert projects("") == {"", "/home/ada/project", "/home/ada/other"}


def test_what_came_to_nothing_is_told_with_its_reason(server, journal, name, session):
    assert one(server, name, f"session={session}")["failure"] is None
    for why in ("the first", "the last"):
        journal.append(changed(now(), "failed", session, plugin=name, reason=why, via="sidebar"))
    failure = one(server, name, f"session={session}")["failure"]
    assert (failure["why"], failure["via"]) == ("the last", "sidebar")
    assert one(server, name, "session=ses-2")["failure"] is None


# ----------------------------------------------------------------- the audit


def test_an_audit_is_told_as_every_display_has_it(server, journal, name):
    audit(journal, name)
    report = server.get(f"plugins/{name}/audit?content_hash={HASH}")
    assert (report["risk_words"], report["counts"], report["canaries"]) == ("Medium risk", "1 warning", "OK")
    (finding,) = report["findings"]
    assert (finding["place"], finding["source"], finding["word"]) == ("plugin.py:3", "word = os.environ", "Warning")
    assert report["injections"][0]["why"] == "It claims an approval"
    assert "Auditor" in [fact["name"] for fact in report["facts"]]
    assert server.get(f"plugins/{name}/audit") == report


def test_an_audit_of_other_files_is_not_taken_for_one_of_these(server, journal, name):
    audit(journal, name)
    journal.append(seen(now(), plugin=name, content_hash=OTHER))
    for path in (f"plugins/{name}/audit", f"plugins/{name}/audit?content_hash={OTHER}", "plugins/none-such/audit"):
        answer = server.ask("GET", path)
        assert (answer.status, answer.json["code"]) == (404, "ERR_UNKNOWN_NAME")
    assert server.get(f"plugins/{name}/audit?content_hash={HASH}")["content_hash"] == HASH


def test_what_is_no_hash_is_refused(server):
    answer = server.ask("GET", "plugins/greeter/audit?content_hash=x")
    assert (answer.status, answer.json["code"]) == (400, "ERR_USAGE")


# ----------------------------------------------------------------- the words


def test_a_word_waits_for_the_session_until_it_is_heard(server, journal, name, session):
    audit(journal, name)
    body = {"session_id": session, "content_hash": HASH, "configuration": "base_dir='./my data' word=hello"}
    answer = server.ask("POST", f"plugins/{name}/enable", body)
    assert answer.status == 202
    assert answer.json == {"plugin": name, "session_id": session, "deed": "enable", "state": "asked"}
    (waiting,) = one(server, name, f"session={session}")["waiting"]
    assert waiting["deed"] == "enable"
    assert not waiting["by"].startswith("Anonymous")
    (word,) = take_plugin_words(journal, [session])
    assert (word.via, word.content_hash, word.words) == ("sidebar", HASH, ("base_dir=./my data", "word=hello"))
    assert one(server, name, f"session={session}")["waiting"] == []


def test_every_deed_is_a_word(server, journal, name, session):
    audit(journal, name)
    for deed in ("audit", "enable", "disable", "approve", "unapprove"):
        answer = server.ask("POST", f"plugins/{name}/{deed}", {"session_id": session, "content_hash": HASH})
        assert (answer.status, answer.json["deed"]) == (202, deed)
        assert left(journal, session) == [(deed, name, HASH, ())]
    for deed in ("audit", "disable", "unapprove"):
        assert server.ask("POST", f"plugins/{name}/{deed}", {"session_id": session}).status == 202
        assert left(journal, session) == [(deed, name, "", ())]


def test_files_that_changed_since_they_were_shown_are_not_enabled_and_can_always_be_disabled(
    server, journal, name, session
):
    audit(journal, name)
    journal.append(seen(now(), plugin=name, content_hash=OTHER))
    shown = {"session_id": session, "content_hash": HASH}
    for deed in ("enable", "approve", "audit"):
        answer = server.ask("POST", f"plugins/{name}/{deed}", shown)
        assert (answer.status, answer.json["code"]) == (409, "ERR_PLUGIN_CHANGED")
    assert left(journal, session) == []
    for deed in ("disable", "unapprove"):
        assert server.ask("POST", f"plugins/{name}/{deed}", shown).status == 202


@pytest.mark.parametrize("deed", ["enable", "approve"])
def test_what_nobody_has_audited_or_nobody_can_allow_is_refused(server, journal, name, session, deed):
    body = {"session_id": session, "content_hash": HASH}

    def refused():
        answer = server.ask("POST", f"plugins/{name}/{deed}", body)
        assert answer.status == 409
        assert left(journal, session) == []
        return answer.json

    told = refused()
    assert (told["code"], "not been audited" in told["message"]) == ("ERR_PLUGIN_REFUSED", True)
    audit(journal, name, findings=(DANGER,))
    told = refused()
    assert (told["code"], "danger" in told["message"]) == ("ERR_PLUGIN_REFUSED", True)
    audit(journal, name)
    journal.append(changed(now(), "quarantined", plugin=name, reason="it has failed five times in a row"))
    told = refused()
    assert (told["code"], "five times" in told["message"]) == ("ERR_PLUGIN_QUARANTINED", True)
    # Having it audited is the way out.
    assert server.ask("POST", f"plugins/{name}/audit", {"session_id": session}).status == 202


def test_a_session_that_nobody_holds_is_told_nothing(server, journal, name):
    gone = SampleRun(f"run-gone-{name}", f"ses-gone-{name}", now())
    journal.append(gone.started(owner=gone_owner()))
    journal.append(gone.finished())
    for session_id in (gone.session_id, "ses-never-heard-of"):
        answer = server.ask("POST", f"plugins/{name}/audit", {"session_id": session_id})
        assert (answer.status, answer.json["code"]) == (409, "ERR_SESSION_GONE")
        assert "Run a cell" in answer.json["message"]
        assert left(journal, session_id) == []


def test_a_plugin_that_is_not_there_is_missing_for_this_session(server, journal, session):
    journal.append(seen(now(), plugin="theirs", place="project", project="/home/ada/other"))
    for plugin in ("none-such", "theirs"):
        answer = server.ask("POST", f"plugins/{plugin}/audit", {"session_id": session})
        assert (answer.status, answer.json["code"]) == (404, "ERR_UNKNOWN_NAME")


@pytest.mark.parametrize(
    ("deed", "body"),
    [
        ("enable", {}),
        ("enable", {"session_id": "ses-2"}),
        ("enable", {"session_id": "", "content_hash": HASH}),
        ("enable", {"session_id": 1, "content_hash": HASH}),
        ("enable", {"session_id": "s" * 501, "content_hash": HASH}),
        ("enable", {"session_id": "ses-2", "content_hash": "x"}),
        ("enable", {"session_id": "ses-2", "content_hash": None}),
        ("approve", {"session_id": "ses-2"}),
        ("approve", {"session_id": "ses-2", "content_hash": HASH, "configuration": "a=b"}),
        ("enable", {"session_id": "ses-2", "content_hash": HASH, "by": "somebody else"}),
        ("enable", {"session_id": "ses-2", "content_hash": HASH, "configuration": ["a=b"]}),
        ("enable", {"session_id": "ses-2", "content_hash": HASH, "configuration": "word"}),
        ("disable", []),
        ("disable", b"{"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_understood_leaves_no_word(server, journal, deed, body):
    answer = server.ask("POST", f"plugins/greeter/{deed}", body)
    assert (answer.status, answer.json["code"]) == (400, "ERR_USAGE")
    assert left(journal, "ses-2") == []


def test_a_password_is_not_repeated_in_its_refusal(server):
    told = "url=postgresql://ada:hunter-2@db/x"
    body = {"session_id": "ses-2", "content_hash": HASH, "configuration": told}
    assert b"hunter-2" not in server.ask("POST", "plugins/greeter/enable", body).body


# --------------------------------------------------------------- the events


async def test_whoever_listens_is_told_that_plugins_changed(told, heard, journal, name):  # noqa: F811 - the fixture
    assert told
    for event in (
        seen(now(), plugin=name, content_hash=OTHER),
        audited(now(), plugin=name),
        changed(now(), "approved"),
    ):
        heard.forget()
        journal.append(event)
        await eventually(lambda: bool(heard.about("plugins")))
