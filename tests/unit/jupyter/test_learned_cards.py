"""A run's plan, memories, verification and children on its card, in words, and for programs."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import NotThisTime, UsageError
from kagura_kernel.domain.events import ChangesCollected
from kagura_kernel.domain.memory import Author, ShownMemory, Source
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Estimate
from kagura_kernel.jupyter.charts.picture import VEGA_LITE_MIME, Chart
from kagura_kernel.patterns.lessons import LONGEST, Failure, lesson_draft, lesson_of
from kagura_kernel.patterns.plans import read_answer
from kagura_kernel.render.html import html_of, words_of
from kagura_kernel.testing.memory import FakeMemory
from kagura_kernel.views import card
from kagura_kernel.views.body import item_blocks
from kagura_kernel.views.card import run_text
from kagura_kernel.views.changes import changes_blocks, changes_text
from kagura_kernel.views.head import figures, head_blocks
from kagura_kernel.views.record import RUN_MIME, run_bundle
from kagura_kernel.views.run import RunView
from tests.support.card_page import live_parts
from tests.support.earned_trust import earn_trust, trust_row
from tests.support.sample_learned import ESTIMATE, SampleLearned
from tests.support.sample_run import SampleRun
from tests.support.steering import steer

RUN, LEARNED = SampleRun(), SampleLearned()
HOSTILE = '</q><img src=x onerror="alert(1)">\u202e'


def seen(*events, **started):
    return RunView().apply_all([RUN.started(**started), *events])


def plain(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_a_run_that_knew_nothing_says_nothing_of_memory():
    view = seen(LEARNED.written(), LEARNED.checkpointed(), RUN.finished())
    assert html_of(card.learned(view, live=True)) == html_of(card.learned(view, live=False)) == ""
    assert run_text(view) == run_text(seen(RUN.finished()))


def test_a_plan_and_memories_are_a_line_each_and_open_to_what_they_rest_on():
    html = html_of(card.learned(seen(LEARNED.planned(), LEARNED.seen(), LEARNED.shown()), live=True))
    assert " open" not in html
    told = plain(html)
    assert "Expected: $0.42 ($0.30 to $0.61) and 3 min, from 5 similar runs, 1 of them failed; 1 lesson" in told
    assert "cp Caddyfile fails when it belongs to root: check first lesson a lesson mem-4" in told
    assert "3 memories were shown to the brain, 1 of them not trusted" in told
    assert "The Caddyfile belongs to root note fits the task not trusted mem-3" in told
    [trusted] = [row for row in html.split("<tr>") if "mem-2" in row]
    assert "not trusted" not in trusted


def test_figures_that_are_the_same_as_they_are_shown_are_no_range():
    planned = LEARNED.planned(estimate=Estimate(runs=1, failed=1, usd=0.42, usd_low=0.419, usd_high=0.421), lessons=())
    told = plain(html_of(card.learned(seen(planned), live=True)))
    assert "Expected: $0.42, from 1 similar run, which failed" in told


def test_a_plan_without_any_figure_says_that_the_cost_is_unknown():
    planned = LEARNED.planned(estimate=Estimate(runs=1), lessons=())
    assert "Expected: an unknown cost, from 1 similar run" in plain(html_of(card.learned(seen(planned), live=True)))


def test_what_a_memory_says_cannot_leave_its_place():
    lines = (ShownMemory("mem-3", "note", "quarantine", "agent", HOSTILE),)
    html = html_of(card.learned(seen(LEARNED.seen(), LEARNED.shown(memories=lines)), live=True))
    assert "<img" not in html
    assert html.count("<q>") == html.count("</q>")
    assert "\u202e" not in html


def test_without_the_words_of_a_live_display_the_ids_are_still_there():
    html = html_of(card.learned(seen(LEARNED.seen(), RUN.finished()), live=False))
    assert {"mem-1", "mem-2", "mem-3"} <= set(re.findall(r"mem-\d", html))
    assert "<q>" not in html


def test_a_card_that_has_to_come_out_the_same_has_neither_ids_nor_times():
    told = (LEARNED.planned(wanted=True), LEARNED.seen(), LEARNED.verified())
    view = seen(*told, RUN.finished(), brain="replay")
    html, text = html_of(card.learned(view, live=False)), run_text(view)
    assert not re.search(r"mem-\d| min\b", html + text)
    assert "3 passed" not in json.dumps(run_bundle(view)[0]["text/html"])
    assert "~ expected: $0.42 ($0.30 to $0.61), from 5 similar runs, 1 of them failed; 1 lesson" in text
    assert "memories" not in text


def test_what_a_person_has_remembered_is_no_part_of_a_repeatable_card_that_did_not_ask_for_it():
    events = (RUN.started(brain="replay"), LEARNED.planned(), LEARNED.seen(), LEARNED.written(), RUN.finished())
    view, bare = RunView().apply_all(events), RunView().apply_all([events[0], events[-1]])
    (data, metadata), (bare_data, _) = run_bundle(view), run_bundle(bare)
    assert data == bare_data
    assert [one["id"] for one in metadata["kagura"]["learned"]["seen"]] == ["mem-1", "mem-2", "mem-3"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "= verification passed in a fresh box: pytest -q"),
        ({"passed": False, "exit_code": 1}, "! verification did not pass in a fresh box: pytest -q, exit 1"),
        (
            {"passed": False, "exit_code": None, "why": "no box"},
            "! verification could not be done: pytest -q (no box)",
        ),
    ],
    ids=["passed", "failed", "impossible"],
)
def test_a_verification_is_told_in_a_line_and_what_it_printed_unfolds(changes, line):
    view = seen(LEARNED.verified(**changes), RUN.finished())
    assert line in run_text(view).splitlines()
    (part,) = (html for html in live_parts(view).values() if "kg-check" in html)
    assert "<details" in part
    assert "3 passed" in part


def test_a_part_that_was_handed_on_tells_how_it_ended():
    view = seen(LEARNED.child())
    assert "> handed on  (goes on)" in run_text(view)
    live_parts(view)
    view.apply(LEARNED.child_ended(status="lost", error_code="ERR_SANDBOX_DIED", again="run-3"))
    parts = live_parts(view)
    assert set(parts) == {"head", "sign", "i0"}
    part = parts["i0"]
    assert plain(part) == "Lost Handed on to run-2 $0.0500 done once more by run-3"
    assert "> handed on  (lost (ERR_SANDBOX_DIED))" in run_text(view)


def test_a_part_that_somebody_stopped_is_no_fault():
    view = seen(LEARNED.child(), LEARNED.child_ended(status="killed", error_code="ERR_RUN_KILLED"))
    assert "> handed on  (stopped)" in run_text(view)
    (part,) = (html for html in live_parts(view).values() if "kg-handed" in html)
    assert "kg-warn" in part
    assert "kg-bad" not in part


@pytest.mark.parametrize(
    ("finished", "told"),
    [
        ({}, "1 changed file: 1 handed to the run that it works for"),
        ({"verified": False}, "1 changed file: 1 discarded"),
        ({"status": "failed"}, "1 changed file: 1 discarded"),
    ],
)
def test_what_a_child_changed_is_told_as_handed_on_where_its_parent_takes_it_over(finished, told):
    change = FileChange(path="copy.txt", status="added", state="handed")
    collected = ChangesCollected(run_id=RUN.run_id, session_id=RUN.session_id, at=RUN.at, changes=(change,))
    view = seen(collected, RUN.finished(**finished), lineage=("run-0",))
    assert changes_text(view.changes).startswith(f"[{told}]")
    assert told.partition(": ")[2] in plain(html_of(changes_blocks(view.changes, live=True)))
    assert "Apply" not in html_of(changes_blocks(view.changes, live=True))


def test_the_cost_on_a_card_holds_that_of_its_children_and_says_so():
    view = seen(LEARNED.child())
    view.take_dirty()
    view.apply_all([LEARNED.child_ended()])
    assert "head" in view.take_dirty()
    assert "cost unknown, 1 child $0.0500" in plain(words_of((figures(view, live=True),)))
    view.apply_all([RUN.finished(reported_usd=0.25)])
    assert "$0.3000, of which 1 child $0.0500" in plain(words_of((figures(view, live=False),)))
    assert run_bundle(view)[1]["kagura"]["children_usd"] == 0.05


def test_a_run_whose_work_failed_its_verification_does_not_look_as_if_all_were_well():
    view = seen(RUN.finished(verified=False))
    assert run_text(view).startswith("[claude run: done, not verified]")
    assert "kg-bad" in html_of(head_blocks(view, live=False))
    assert "kg-good" in html_of(head_blocks(seen(RUN.finished(verified=True)), live=False))


def test_earned_trust_is_a_remark_and_evidence_is_none():
    view = seen(LEARNED.trusted(change="succeeded"), LEARNED.trusted(), LEARNED.trusted(change="demoted", why="exit 1"))
    notes = [line for line in run_text(view).splitlines() if line.startswith("!")]
    assert notes == [
        "! Trust in “packages” has been earned, and is proposed.",
        "! “packages” is trusted no more: exit 1.",
    ]


def test_a_run_that_stopped_half_way_says_how_to_go_on():
    view = seen(LEARNED.resumed(), LEARNED.checkpointed(), RUN.finished(status="killed", error="It was stopped."))
    assert "%%kagura --resume run-1" in live_parts(view)["end"]
    assert "! It goes on from an earlier run, after 4 finished steps, 3 of its files restored, unsure of bash." in (
        run_text(view)
    )
    assert "after 1 finished step." in run_text(seen(LEARNED.resumed(step=1, restored_files=0, doubtful=())))
    well = seen(LEARNED.checkpointed(), RUN.finished())
    assert "--resume" not in live_parts(well).get("end", "")


@pytest.mark.parametrize(("budget", "field"), [(0.8, "0.80"), (0.004, "0.004"), (0.0249, "0.0249")])
def test_a_plan_that_waits_offers_its_budget_to_be_changed(budget, field):
    asked = RUN.asked(kind=ApprovalKind.PLAN, title="Plan: about $0.42", arguments={"budget_usd": budget})
    view = seen(asked)
    html = html_of(item_blocks(view.pending[0], view, live=True))
    assert f'value="{field}"' in html
    assert read_answer(field, None).budget_usd == budget
    assert re.search(r'data-act="allow" data-enter [^>]*>Begin<', html)
    assert ">Cancel<" in html


def test_whoever_wants_to_see_a_plan_is_told_that_nobody_knows_what_it_needs():
    nothing = {"estimate": None, "similar": (), "lessons": ()}
    told = "nobody knows yet what such a task needs"
    assert told in run_text(seen(LEARNED.planned(wanted=True, **nothing)))
    assert told not in run_text(seen(LEARNED.planned(**nothing)))


def test_a_plan_with_lessons_lays_them_open_and_offers_to_trust_them():
    asked = RUN.asked(kind=ApprovalKind.PLAN, title="Plan", arguments={"lessons": ["mem-4"]})
    view = seen(LEARNED.shown(how="lesson"), LEARNED.planned(estimate=None), asked)
    assert 'data-keep="learned:plan" open' in html_of(card.learned(view, live=True))
    assert "Nobody knows yet what such a task needs; 1 lesson" in plain(html_of(card.learned(view, live=True)))
    offered = html_of(item_blocks(view.pending[0], view, live=True))
    assert re.search(r'data-enter data-add="with lessons" [^>]*>Begin with its lessons<', offered)
    view.apply(RUN.decided())
    assert " open" not in html_of(card.learned(view, live=True))


def test_a_lesson_that_may_be_trusted_is_shown_whole_however_long_it_is():
    store, ends = FakeMemory(), ("sets out", "is said", "is run")
    parts = (end.rjust(LONGEST, "a") for end in ends)
    draft = lesson_draft(Failure("command", *parts), task="", scope="", source=Source(Author.ENGINE))
    words = lesson_of(store, store.remember(draft)).shown
    line = ShownMemory("mem-4", "lesson", "quarantine", "engine", words)
    view = seen(LEARNED.shown(how="lesson", memories=(line,)), LEARNED.planned())
    told = plain(html_of(card.learned(view, live=True)))
    assert all(end in told for end in ends)


def test_a_plan_that_is_about_to_be_asked_about_lies_open_already():
    view = seen(LEARNED.shown(how="lesson"), LEARNED.planned(asked=True, by=""))
    assert 'data-keep="learned:plan" open' in html_of(card.learned(view, live=True))
    assert " open" not in html_of(card.learned(view, live=False))
    view.apply(LEARNED.planned(asked=True, by="ada"))
    assert " open" not in html_of(card.learned(view, live=True))


def test_a_question_of_a_child_names_whom_it_works_for():
    view = seen(RUN.asked(lineage=("run-a", "run-b")))
    assert "run-a → run-b" in html_of(item_blocks(view.pending[0], view, live=True))


def test_a_record_counts_what_was_shown_and_the_ids_stand_beside_it():
    data, metadata = run_bundle(seen(LEARNED.planned(), LEARNED.seen(), LEARNED.written(), RUN.finished()))
    assert data[RUN_MIME]["learned"] == {
        "plan": {"runs": ESTIMATE.runs, "failed": 1, "lessons": 1},
        "shown": {"decision, trusted": 1, "outcome, trusted": 1, "note, quarantine": 1},
    }
    told = metadata["kagura"]["learned"]
    assert told["left"] == ["mem-9"]
    assert [one["id"] for one in told["seen"]] == ["mem-1", "mem-2", "mem-3"]


HEADLESS = SimpleNamespace(kernel=None, user_ns={})


@pytest.fixture
def say(cockpit: Cockpit) -> Callable[[str], object]:
    return lambda line: steer(cockpit, HEADLESS, line)


def table(say: Callable[[str], object]) -> pd.DataFrame:
    frame = say("graduation")
    assert isinstance(frame, pd.DataFrame)
    return frame.set_index("category")


def test_the_table_has_a_line_for_each_category(cockpit, say):
    earn_trust(cockpit.journal)
    frame = table(say)
    assert list(frame.loc["git", ["state", "successes", "tasks", "days"]]) == ["included", "5 of 5", "5 of 3", "8 of 7"]
    assert frame.loc["git", "missing"] == "your word: `%kagura graduation grant git`"
    assert frame.loc["dns-write", "state"] == "locked"
    assert frame["last_failure"].isna().all()


def test_a_person_grants_and_takes_back(cockpit, say, capsys):
    earn_trust(cockpit.journal)
    say("graduation grant git")
    assert table(say).loc["git", "state"] == "graduated"
    say("graduation revoke git")
    assert table(say).loc["git", "state"] == "demoted"
    assert table(say).loc["git", "why"] == "a person took it back"
    assert capsys.readouterr().out == (
        "git is asked about no more, until it fails once or you take it back.\n"
        "git is trusted no more: it is asked about every time from now on, and its evidence starts over.\n"
    )


def test_a_persons_word_about_a_run_is_evidence(cockpit, say, capsys):
    run = SampleRun()
    asked = run.asked(arguments={"command": "git push", "directory": "/project"})
    for event in (run.started(flavour="agent", project=str(Path.cwd())), asked, run.decided(), run.finished()):
        cockpit.journal.append(event)
    say("graduation vouch last")
    assert capsys.readouterr().out == f"run-1 in {Path.cwd()} is evidence for git.\n"
    assert table(say).loc["git", "successes"] == "1 of 5"


def test_what_was_not_earned_is_refused_with_what_is_missing(say):
    with pytest.raises(NotThisTime, match="3 more different tasks"):
        say("graduation grant packages")
    with pytest.raises(UsageError):
        say("graduation grant gti")


def test_the_chart_shows_steps_for_each_category_that_showed_something(cockpit, say):
    now = cockpit.journal.clock.now()
    earn_trust(cockpit.journal)
    cockpit.journal.append(trust_row("failed", now - timedelta(hours=20), signal="exit-code"))
    cockpit.journal.append(trust_row("succeeded", now, category="dns-read", signal="verification"))
    chart = say("graduation chart")
    assert isinstance(chart, Chart)
    assert list(chart.frame["successes"]) == [1, 2, 3, 4, 5, 0, 1]
    assert set(chart.frame["category"]) == {"git", "dns-read"}
    data, _ = chart.bundle()
    spec = data[VEGA_LITE_MIME]
    assert spec["background"] == "transparent"
    assert "://" not in json.dumps(spec).replace(spec["$schema"], "")
    assert spec["facet"]["row"]["sort"] == ["git", "dns-read"]
    assert "git, dns-read" in spec["description"]
    assert "failed" in repr(chart)
    assert "| git | failed | 0 |" in data["text/markdown"].replace("\\", "")


def test_without_evidence_there_is_a_sentence_and_no_picture(say):
    chart = say("graduation chart")
    assert isinstance(chart, Chart)
    assert repr(chart) == "No category has shown anything yet."
    assert chart.spec is None
