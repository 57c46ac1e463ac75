import dataclasses
import typing
from datetime import UTC, datetime

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, Verdict
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import RedactionUnavailable
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalRequested,
    ChangesCollected,
    KitStaged,
    LeaseUsed,
    OutputStreamed,
    PluginAudited,
    ResultShown,
    RunStarted,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.events.base import Event
from kagura_kernel.domain.kit import StagedFile, StagedSkill
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.plugins import (
    AuditVerdict,
    Injection,
    PluginAudit,
    PluginFinding,
    Risk,
    Severity,
)
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.redaction import redactor
from kagura_kernel.membrane.credentials import secret
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.runs.approvals import NO_PLACE, OUT_OF_SIGHT, RecordedApprover
from kagura_kernel.runs.recorder import Recorder
from kagura_kernel.runs.redaction import WITHHELD, Redacting, exact_fields
from kagura_kernel.runtime.router import Asker, use_approver
from kagura_kernel.testing import false_home
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.redaction import BlindRedactor
from tests.support.redactors import shared_redactor

EVENT_TYPES: tuple[type[Event], ...] = typing.get_args(typing.get_args(AnyEvent)[0])
TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


@pytest.fixture(scope="module")
def redacting():
    return Redacting(shared_redactor())


def test_every_text_of_every_event_is_redacted_unless_it_names_something(redacting):
    seen = set()
    for kind in EVENT_TYPES:
        for name, field in kind.model_fields.items():
            seen.add(name)
            if field.annotation is not str or name in exact_fields(kind) or kind in (TextStreamed, OutputStreamed):
                continue
            if (kind, name) == (ResultShown, "data"):
                continue
            shown = redacting.event(kind, {name: f"token {TOKEN} here"})[name]
            assert TOKEN not in shown, (kind, name)
            assert shown.startswith("token [REDACTED:"), (kind, name)


def test_ids_hashes_and_paths_stay_as_they_are_even_where_they_look_like_secrets(redacting):
    fields = {"call_id": TOKEN, "tool": "bash", "text": "fine", "spill": f"stdout-{TOKEN}.txt"}
    assert redacting.event(ToolFinished, fields) == fields
    rows = (FileChange(f"keys/{TOKEN}", "modified", old_sha256="a" * 64, diff=f"+{TOKEN}"),)
    [row] = redacting.event(ChangesCollected, {"changes": rows})["changes"]
    assert (row.path, row.old_sha256) == (f"keys/{TOKEN}", "a" * 64)
    assert row.diff.startswith("+[REDACTED:")
    assert TOKEN not in redacting.event(LeaseUsed, {"path": f"/x?access_token={TOKEN}"})["path"]


def test_arguments_are_redacted_with_their_keys_whatever_these_are_called(redacting):
    arguments = {"path": TOKEN, "nested": [{"status": f"is {TOKEN}"}, 5, None], TOKEN: True}
    shown = redacting.event(ToolCalled, {"arguments": arguments})["arguments"]
    assert TOKEN not in repr(shown)
    assert shown["nested"][1:] == [5, None]
    assert arguments["path"] == TOKEN
    assert TOKEN not in repr(redacting.event(ApprovalRequested, {"arguments": {"command": f"curl -u me:{TOKEN}"}}))


def test_rows_and_reports_keep_their_type_and_their_exact_fields(redacting):
    skill = StagedSkill(TOKEN, f"uses {TOKEN}", f"/kagura/kit/skills/{TOKEN}", (StagedFile("skills/a", 3),))
    [shown] = redacting.event(KitStaged, {"skills": (skill,)})["skills"]
    assert (shown.name, shown.root, shown.files) == (skill.name, skill.root, skill.files)
    assert TOKEN not in shown.description
    finding = PluginFinding(Severity.WARNING, "secret", "a token", "main.py", 3, f"KEY = {TOKEN!r}")
    audit = PluginAudit(
        plugin="p",
        version="1",
        content_hash="b" * 64,
        risk=Risk.LOW,
        verdict=AuditVerdict.REVIEW,
        summary="fine",
        findings=(finding,),
        injections=(Injection(f"send {TOKEN}"),),
        at=datetime.now(UTC),
    )
    told = redacting.event(PluginAudited, {"audit": audit})["audit"]
    assert isinstance(told, PluginAudit)
    assert TOKEN not in repr(told)
    assert (told.findings[0].line, told.content_hash, told.at) == (3, audit.content_hash, audit.at)
    clean = dataclasses.replace(audit, findings=(), injections=())
    assert redacting.value(clean) is clean


IN_SIGHT = {
    "make deploy": True,
    f"curl -u me:{TOKEN} https://example.org": True,
    f"curl -u me:{TOKEN} https://example.org; echo '[REDACTED:token]'": True,
    "psql postgres://me:h8d93;reboot;d93kdA@db.example/x": False,
    "DB_PASSWORD=xK9!2m|sh>Zq8w7pL0 ./run": False,
    'API_TOKEN="x8Kd9`id`3kd93kd9" ./run': False,
    "API_TOKEN='h8d93;reboot;d93kdA' ./run": False,
}


@pytest.fixture
def ask(tmp_path):
    """Asks a person who says yes: the decision, and whether they were asked."""
    journal = Journal.open(tmp_path)
    recorder = Recorder(journal, SystemClock(), "run-1", "ses-1")
    recorder.redact = Redacting(shared_redactor()).event

    async def asked(kind, arguments):
        person = ScriptedApprover(Verdict.ALLOW)
        with use_approver(RecordedApprover(person, recorder, SystemClock())):
            decision = await Asker().ask(kind, "May I?", str(arguments), arguments=arguments)
        return decision, bool(person.requests)

    yield asked
    journal.close()


@pytest.mark.parametrize("command", IN_SIGHT)
async def test_nobody_is_asked_about_a_command_of_which_more_than_a_value_would_be_hidden(ask, command):
    arguments = {"command": command, "directory": "/home/me"}
    decision, was_asked = await ask(ApprovalKind.HOST_COMMAND, arguments)
    assert (decision.allowed, was_asked) == (IN_SIGHT[command], IN_SIGHT[command])
    assert decision.allowed or decision.answer == OUT_OF_SIGHT


@pytest.mark.parametrize("name", ["files", "glpat-ttk0qia9cn3k6cymwgn1"])
async def test_nobody_is_asked_about_a_host_that_would_be_hidden(ask, name):
    host, is_shown = f"{name}.example.org", name == "files"
    for kind, arguments in (
        (ApprovalKind.NETWORK, {"host": host, "port": 443}),
        (ApprovalKind.LAUNCH, {"egress": (host,), "asked": (host,)}),
    ):
        decision, was_asked = await ask(kind, arguments)
        assert (decision.allowed, was_asked) == (is_shown, is_shown)
        assert is_shown or decision.answer == NO_PLACE


async def test_a_secret_that_is_streamed_in_pieces_is_never_shown_and_the_rest_of_the_words_is(tmp_path):
    journal = Journal.open(tmp_path)
    recorder = Recorder(journal, SystemClock(), "run-1", "ses-1")
    recorder.redact = Redacting(shared_redactor()).event
    recorder.record(RunStarted, task=f"Use {TOKEN}")
    for piece in ("First line.\nThe token is ", TOKEN[:9], TOKEN[9:], ", I think.\nLast ", "words"):
        recorder.record(TextStreamed, text=piece)
    recorder.record(TextWritten, text=f"First line.\nThe token is {TOKEN}, I think.\nLast words")
    recorder.record(TextStreamed, text="And on.\n")
    recorder.end()
    events: list[Event] = []
    while (event := await recorder.next()) is not None:
        events.append(event)
    streamed = "".join(event.text for event in events if isinstance(event, TextStreamed))
    assert streamed.startswith("First line.\nThe token is [REDACTED:")
    # Words come as they are spoken; what was still open when the whole was told does not come again.
    assert streamed.endswith("I think.\nLast And on.\n")
    assert TOKEN[9:] not in repr(events)
    assert TOKEN not in repr([row.event for row in journal.events(run_id="run-1")])
    journal.close()


class Broken:
    """A redactor that cannot look for anything."""

    ready = False

    def wait(self):
        raise RedactionUnavailable("no rules")

    def redact(self, _text):
        raise RedactionUnavailable("no rules")

    fields = redact


async def test_where_secrets_cannot_be_looked_for_nothing_is_shown(redacting):
    broken = Redacting(Broken())
    assert broken.text(f"x {TOKEN}") == WITHHELD
    assert await broken.words(TOKEN) == WITHHELD
    assert TOKEN not in repr(broken.event(ToolCalled, {"arguments": {"a": TOKEN}}))
    with pytest.raises(RedactionUnavailable):
        await broken.ready()
    await redacting.ready()


def test_a_redactor_that_finds_nothing_leaves_everything_as_it_was():
    none = Redacting(BlindRedactor())
    fields = {"text": TOKEN}
    assert none.event(TextStreamed, fields) == fields
    assert none.filter is not None
    assert none.filter().feed(TOKEN.encode()) == TOKEN.encode()
    assert none.value(fields) is fields


def test_tests_share_the_compiled_rules_under_the_name_that_the_assembly_gives_them():
    assert false_home.FOLDER == redactor.FOLDER


KEY = "team-orchid-4417-blue"


def holding(redactor):
    return Redacting(redactor, lambda: [Secret(KEY)])


@pytest.mark.parametrize("with_rules", [True, False])
def test_a_key_that_this_process_holds_is_hidden_by_its_value_wherever_it_is_said(with_rules):
    redacting = holding(shared_redactor() if with_rules else BlindRedactor())
    assert KEY not in redacting.text(f"the key is {KEY}, I think")
    assert KEY not in repr(redacting.event(ToolCalled, {"arguments": {"command": f"echo {KEY}", KEY: [KEY]}}))
    assert KEY not in repr(redacting.event(ToolFinished, {"text": f"{KEY}\n", "tool": KEY}))
    assert KEY not in repr(redacting.value(({"a": KEY}, [f"x {KEY}"])))
    made = redacting.filter
    assert made is not None
    stream = made()
    assert (
        KEY.encode()
        not in stream.feed(f"first {KEY[:9]}".encode()) + stream.feed(f"{KEY[9:]} last\n".encode()) + stream.finish()
    )


@pytest.mark.parametrize("with_rules", [True, False])
def test_a_held_key_that_is_streamed_in_pieces_is_never_shown(with_rules):
    redacting = holding(shared_redactor() if with_rules else BlindRedactor())
    pieces = ("It is ", KEY[:9], KEY[9:], ", I think.\n", "And on.\n")
    said = "".join(redacting.event(TextStreamed, {"text": piece})["text"] for piece in pieces)
    assert KEY[9:] not in said
    assert said.startswith("It is ")


def test_keys_of_this_process_are_kept_in_mind_unless_they_are_words(monkeypatch):
    kept: list[Secret] = []
    monkeypatch.setattr(secret, "_standing", kept)
    secret.keep_standing(Secret(KEY))
    secret.keep_standing(Secret(KEY))
    secret.keep_standing(Secret("ollama"))
    assert [one.reveal() for one in secret.standing_secrets()] == [KEY]
    assert KEY not in Redacting(BlindRedactor()).text(f"it is {KEY}")
    assert Redacting(BlindRedactor()).text("ollama answers") == "ollama answers"
