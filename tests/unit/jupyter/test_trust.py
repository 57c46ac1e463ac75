"""`%kagura graduation …`: its table, its chart, and what a person says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import NotThisTime, UsageError
from kagura_kernel.jupyter.charts.picture import VEGA_LITE_MIME, Chart
from kagura_kernel.jupyter.steering import steer
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.earned_trust import earn_trust, trust_row
from tests.support.sample_run import SampleRun

HEADLESS = SimpleNamespace(kernel=None, user_ns={})


@pytest.fixture
def cockpit(tmp_path: Path) -> Iterator[Cockpit]:
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend())
    yield cockpit
    cockpit.close()


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
