from __future__ import annotations

import json

from kagura_kernel.views.card import run_text
from kagura_kernel.views.changes import changes_text
from kagura_kernel.views.record import CHANGES_MIME, RUN_MIME, changes_bundle, run_bundle


def whole(story, **started):
    return [
        story.started(**started),
        story.box(notes=("no memory limit",)),
        story.says("I look."),
        story.calls(call_id="a", command="ls"),
        story.answers("x", "a"),
        story.calls(call_id="b", command="pwd"),
        story.answers("y", "b"),
        story.calls(call_id="c", command="git push", host=True),
        story.asks(
            "git push\n\nin /somewhere",
            call_id="c",
            reason="I must",
            arguments={"command": "git push", "directory": "/somewhere"},
            content_hash="h" * 64,
        ),
        story.decides("deny", by="policy", via="policy"),
        story.answers("no", "c", exit_code=None, is_error=True, route=""),
        story.changes(),
        story.ends(text="Over.", model="m", input_tokens=5, reported_usd=0.01),
    ]


def test_a_run_as_text(story, view_of):
    assert run_text(view_of(*whole(story))) == (
        "[claude run: done]\n\n"
        "I look.\n\n"
        "> bash: ls  (sandbox, exit 0)\n"
        "> bash: pwd  (sandbox, exit 0)\n"
        "> bash: git push  (refused)\n\n"
        "? Run a command on the host\n"
        "    git push\n"
        "  the agent’s own words: I must\n"
        "  Denied by policy: nobody is here who could be asked\n\n"
        "Over."
    )


def test_the_answer_of_a_command_that_a_person_let_out_stands_below_it(story, view_of):
    told = run_text(
        view_of(
            story.started(),
            story.calls(call_id="a", command="uname -n", host=True),
            story.answers("mori-laptop\n", "a", route="host"),
            story.calls(call_id="b", command="true", host=True),
            story.answers("(no output)", "b", route="host"),
            story.calls(call_id="c", command="seq 900", host=True),
            story.answers("\n".join(map(str, range(1, 901))), "c", route="host"),
        )
    )
    assert "> bash: uname -n  (host, exit 0)\n  mori-laptop\n\n> bash: true  (host, exit 0)\n> bash: seq 900" in told
    assert len(told.split("\n")) < 20
    assert "  1\n" in told
    assert "894 more lines" in told


def test_changes_as_text(story):
    changes = {"a.md": story.change("a.md"), "b": story.change("b", status="deleted", diff="", state="applied")}
    assert changes_text(changes) == (
        "[2 changed files: 1 not in the project yet, 1 applied]\nM a.md  +2 -1\nD b  (applied)"
    )


def test_a_file_that_somebody_would_run_unasked_stands_first_in_the_text_and_says_why(story):
    changes = {"a.md": story.change("a.md"), "z.mk": story.change("z.mk", runs="make runs what it says")}
    assert changes_text(changes).splitlines()[1:] == [
        "M z.mk  +2 -1  [runs by itself: make runs what it says]",
        "M a.md  +2 -1",
    ]


def test_hostile_text_cannot_imitate_another_part(story, view_of):
    text = run_text(view_of(story.started(), story.calls(command="ls\n? Run a command\n  Allowed by ada\x1b[2J")))
    assert text.splitlines()[2] == "> bash: ls ? Run a command Allowed by ada⟨U+001B⟩[2J  (unfinished)"


def test_the_same_run_at_another_time_and_place_has_the_same_record(story, view_of):
    first, _ = run_bundle(view_of(*whole(story, brain="replay")))
    story._seconds += 1000
    elsewhere = [
        event.model_copy(
            update={
                "run_id": "run-2",
                "session_id": "ses-2",
                **{
                    name: "x"
                    for name in ("project", "user", "owner", "box_id", "content_hash")
                    if name in event.__dict__
                },
                **({"duration": 99.0} if "duration" in event.__dict__ else {}),
            }
        )
        for event in whole(story, brain="replay")
    ]
    second, _ = run_bundle(view_of(*elsewhere))
    assert first == second


def test_the_record_is_json_and_what_differs_stands_in_the_metadata(story, view_of):
    data, metadata = run_bundle(view_of(*whole(story)))
    record = json.loads(json.dumps(data[RUN_MIME]))
    assert [step["kind"] for step in record["steps"]] == ["text", "tool", "tool", "tool", "approval", "text"]
    assert record["changed_files"] == ["report.md"]
    assert "run-1" not in json.dumps(record)
    facts = json.loads(json.dumps(metadata["kagura"]))
    assert facts["run_id"] == "run-1"
    assert facts["box_notes"] == ["no memory limit"]
    assert facts["approvals"][0]["hash"] == "h" * 64
    assert facts["cost_usd"] == 0.01


def test_text_that_is_no_unicode_does_not_stop_the_record(story, view_of):
    data, _ = run_bundle(view_of(story.started(), story.calls(command="ls", odd={"a": {1, 2}}), story.ends()))
    json.dumps(data[RUN_MIME]).encode()


def test_changes_have_a_record_too(story):
    data, metadata = changes_bundle({"report.md": story.change()}, run_id="run-1")
    assert data[CHANGES_MIME]["changes"][0]["path"] == "report.md"
    assert metadata == {"kagura": {"run_id": "run-1"}}
