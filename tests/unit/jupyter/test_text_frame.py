"""Tables with more columns than fit a terminal show what tells most."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from kagura_kernel.cockpit.brains import OfferedModel
from kagura_kernel.journal.plugins import PluginLogLine
from kagura_kernel.jupyter.background import BackgroundRun
from kagura_kernel.jupyter.tables import logs_table, models_table
from kagura_kernel.jupyter.text_frames import (
    ApprovalsText,
    BoardText,
    BrainsText,
    CalibratedText,
    CostsText,
    ModelsText,
    RunsText,
    SessionsText,
    TrustText,
)

RUN = "run-1m81echt94r94f"
OTHERS = {f"more_{number}": "x" * 12 for number in range(6)}


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def whole(tag: str, html: str) -> list[str]:
    """What stands in the elements of a name, without marks where it may be broken."""
    return [re.sub("</?span[^>]*>", "", inside) for inside in re.findall(f"<{tag}>(.*?)</{tag}>", html)]


def lines(frame: pd.DataFrame) -> list[str]:
    told = repr(frame).splitlines()
    assert all(len(line) <= 80 for line in told)
    return told


def test_a_run_is_told_with_how_it_ended_and_what_it_cost():
    row = {"run": RUN, "session": "ses-1", "status": "done", "task": "Deploy the service " * 9, "seconds": 61.25}
    head, line, others = lines(RunsText([row | {"usd": None} | OTHERS]))
    assert head.split() == ["run", "status", "task", "seconds", "usd"]
    assert line.split()[:3] == [RUN, "done", "Deploy"]
    assert "… " in line
    assert line.endswith(" 1 min 01 s    -")
    assert others.startswith("Other columns: session, more_0")


def test_what_runs_cost_is_told_with_the_figures():
    row = {"run": RUN, "session": "s", "input_tokens": 12345, "output_tokens": 10, "usd": 0.0123, "total_usd": 1.5}
    head, line, *_ = lines(CostsText([row | {"status": "done", "model": "a-model-with-a-long-name"} | OTHERS]))
    assert head.split()[:4] == ["run", "status", "usd", "total_usd"]
    assert line.split()[:4] == [RUN, "done", "$0.0123", "$1.50"]


def test_estimates_stand_beside_what_was_needed_as_far_as_they_fit():
    row = {"run": RUN, "at": "", "status": "done", "estimated_usd": 0.2, "usd": 0.25, "usd_within": True}
    head, line, *_ = lines(CalibratedText([row | {"estimated_seconds": 3600.4, "seconds": 12.0} | OTHERS]))
    assert head.split() == ["run", "estimated_usd", "usd", "usd_within", "estimated_seconds", "seconds"]
    assert line.split() == [RUN, "0.2", "0.25", "True", "3,600", "12"]


def test_a_category_is_told_with_its_state():
    row = {"category": "git", "state": "graduated", "successes": "5 of 5", "tasks": "3 of 3", "days": "8 of 7"}
    frame = TrustText([row | {"missing": "your word: `%kagura graduation grant git`", "about": "git"} | OTHERS])
    assert lines(frame)[1].split()[:2] == ["git", "graduated"]


def test_a_board_tells_what_each_run_waits_for():
    row = {"run": RUN, "status": "running", "waits_for": "git push", "task": "x", "seconds": 5.0, "usd": None}
    head, line = lines(BoardText([row | OTHERS]))[:2]
    assert head.split() == ["run", "status", "waits_for", "task", "seconds", "usd"]
    assert line.split() == [RUN, "running", "git", "push", "x", "5.0", "s", "-"]


def test_what_fits_is_shown_whole_and_what_is_taken_out_is_an_ordinary_frame():
    frame = RunsText([{"run": "run-1", "status": "done", "task": "x", "seconds": 134.0, "usd": 0.5}])
    assert repr(frame).splitlines()[1].split() == ["0", "run-1", "done", "x", "2", "min", "14", "s", "$0.5000"]
    assert frame.whole["seconds"].tolist() == [134.0]
    assert type(frame[["run"]]) is pd.DataFrame
    assert "task" not in repr(RunsText(frame.drop(columns="task")))


def test_without_a_row_it_says_what_would_make_one():
    frame = RunsText([{"run": "run-1", "status": "done", "task": "x", "seconds": 1.0, "usd": 0.5}])
    none = RunsText(frame.head(0))
    assert repr(none).startswith("No run yet: ")
    assert none._repr_html_().startswith("<p>No run yet: a <code>%%kagura</code> cell ")
    assert repr(none.saying("None <waits>.")) == "None <waits>."
    assert none._repr_html_() == "<p>None &lt;waits&gt;.</p>"


def test_no_more_rows_are_told_than_pandas_would_tell():
    row = {"run": RUN, "status": "done", "task": "x\n\x1b[2J", "seconds": 1.0, "usd": 0.5} | OTHERS
    with pd.option_context("display.max_rows", 3):
        told = lines(RunsText([row] * 5))
    assert len([line for line in told if line.startswith(RUN)]) == 3
    assert "… and 2 more" in told
    assert "\x1b" not in "".join(told)


def test_a_notebook_shows_six_columns_and_all_of_them_when_asked():
    row = {"approval": "app-1", "run": RUN, "kind": "tool", "what": "<b>", "verdict": "deny", "by": "ann"} | OTHERS
    frame = ApprovalsText([row | {"requested": "now"}])
    told = frame._repr_html_()
    heads = re.findall("<th>([^<]+)</th>", told)
    assert heads[:6] == ["approval", "kind", "what", "verdict", "by", "requested"]
    assert "&lt;b&gt;" in told
    assert "7 more columns: <code>.whole</code> shows them." in told
    assert frame.whole._repr_html_().startswith('<div class="tex2jax_ignore mathjax_ignore">')
    assert type(frame.whole[["run"]]) is pd.DataFrame
    assert list(frame.whole.columns) == [*row, "requested"]


def test_a_notebook_shows_times_to_the_second_and_a_dash_for_none():
    at = pd.Timestamp("2026-05-04 12:00:01.123456", tz="UTC")
    frame = SessionsText({"session": ["ses-1", "ses-2"], "last": [at, None]})
    assert whole("td", frame._repr_html_()) == ["ses-1", "2026-05-04 12:00:01", "ses-2", "-"]
    assert frame["last"][0] == at


def test_a_notebook_shows_of_notebooks_their_names_and_of_a_brain_why_it_cannot_think():
    told = SessionsText({"session": ["ses-1", "ses-2"], "notebook": ["/home/ada/a b.ipynb", None]})._repr_html_()
    assert whole("td", told) == ["ses-1", "a b.ipynb", "ses-2", "-"]
    why = "no endpoint is named: set `endpoint` to openai, ollama, lmstudio, vllm or a URL"
    assert why in BrainsText({"brain": ["pydantic_ai"], "why": [why]})._repr_html_()


def test_a_notebook_shows_what_can_be_done_with_a_row_and_nothing_else_has_it():
    rows = [{"run": f"run-{n}", "status": "done", "task": "<b>x", "seconds": None, "usd": 0.5} for n in (1, 2)]
    frame = RunsText(rows).with_next({"run-2": ["%kagura apply run-2", "%%kagura --resume <run-2>"], "run-1": []})
    told = frame._repr_html_()
    commands = [command for command in whole("code", told) if command.startswith("%")]
    assert commands == ["%kagura apply run-2", "%%kagura --resume &lt;run-2&gt;"]
    assert re.findall("<th>([^<]+)</th>", told)[:6] == ["run", "status", "task", "seconds", "usd", "next"]
    assert "<b>" not in told
    assert "next" not in repr(frame)
    assert "next" not in frame.whole
    assert "next" not in RunsText(rows).with_next({"run-1": []})._repr_html_()


def test_a_notebook_shows_the_beginning_of_a_long_task_and_takes_no_price_for_a_formula():
    row = {"run": RUN, "status": "done", "task": "Pay $5 or $6. " * 99, "seconds": 1.0, "usd": 0.5}
    told = RunsText([row])._repr_html_()
    assert "mathjax_ignore" in told
    assert "Pay $5 or $6. " in told
    assert told.count("Pay") < 10
    assert "$0.5000" in told


def test_a_notebook_lets_a_long_word_break_and_tells_of_rows_that_it_leaves_out():
    row = {"run": RUN, "status": "done", "task": f"pd.DataFrame({'x' * 60})", "seconds": 1.0, "usd": 0.5}
    with pd.option_context("display.max_rows", 3):
        told = RunsText([row] * 5)._repr_html_()
    assert told.count('<td style="overflow-wrap: anywhere; min-width: 14em">pd.DataFrame(') == 2
    assert "<td>done</td>" in told
    assert "<p>… are 2 more rows, which the table has.</p>" in told
    assert "more row" not in RunsText([row] * 5)._repr_html_()


def test_what_a_plugin_prints_and_an_agent_asks_become_no_formula_in_a_notebook():
    words = r"$\color{white}{unseen}$"
    log = logs_table([PluginLogLine(datetime(2026, 1, 1, tzinfo=UTC), "printed", words)])._repr_html_()
    waits: Any = SimpleNamespace(_bell=SimpleNamespace(waits_for=words), run_id=RUN, done=False, status="waiting")
    for told in (log, BackgroundRun._repr_html_(waits)):
        assert "mathjax_ignore" in told.partition(words)[0]


def test_the_words_of_a_plugin_are_no_line_of_its_log():
    words = "it failed: x\n  2026-01-01 00:00:00Z approved (ada): by hand"
    log = logs_table([PluginLogLine(datetime(2026, 1, 1, tzinfo=UTC), "called", words, ok=False)])
    assert len(repr(log).splitlines()) == 1


def test_what_is_not_known_is_a_dash_in_a_notebook():
    rows = models_table(
        [OfferedModel("small", None, None, "price unknown"), OfferedModel("large", 0.25, 1.0, "a price")]
    )
    told = ModelsText(rows)._repr_html_()
    assert "NA" not in told
    assert "0.25" in told
