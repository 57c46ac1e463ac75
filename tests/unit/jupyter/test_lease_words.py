"""`%kagura leases`, `revoke` and `extend`."""

from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.domain.errors import LeaseUnknown, UsageError
from kagura_kernel.jupyter.slots import press_lease
from kagura_kernel.jupyter.tables import leases_table
from tests.support.sample_run import SampleRun
from tests.support.steering import steer
from tests.support.told_run import ToldRun

RUN = SampleRun()


@pytest.fixture
def run() -> ToldRun:
    """A run that holds two leases."""
    other = {"lease_id": "lea-2", "provider": "registry", "scope": "publish"}
    return ToldRun().tell(RUN.started(), RUN.lease(), RUN.lease(**other), RUN.lease("on hold", **other))


def word(run: ToldRun, line: str) -> object:
    return steer(run, SimpleNamespace(kernel=None), line)


def test_headless_the_leases_are_a_table_with_a_time_a_span_and_counts(run):
    table = word(run, "leases")
    assert list(table.columns) == [
        "lease",
        "provider",
        "scope",
        "run",
        "state",
        "expires",
        "budget_left",
        "renewals_left",
        "way",
        "place",
    ]
    assert table["state"].tolist() == ["live", "on hold"]
    assert table["budget_left"].tolist() == [pd.Timedelta(minutes=45), pd.Timedelta(0)]
    assert table["expires"].isna().tolist() == [False, True]
    assert str(table["expires"].dtype) == "datetime64[us, UTC]"
    assert str(table["renewals_left"].dtype) == "Int64"


def test_a_table_without_leases_has_its_columns():
    table = leases_table([])
    assert table.empty
    assert str(table["budget_left"].dtype) == "timedelta64[us]"


@pytest.mark.parametrize("target", ["lea-1", "1", "github:read"])
def test_a_lease_is_given_back_by_its_id_the_end_of_it_or_its_name(run, target, capsys):
    word(run, f"revoke {target}")
    assert (run.told[-1].lease_id, run.told[-1].change) == ("lea-1", "released")
    assert "lea-1 is being given back." in capsys.readouterr().out


def test_more_time_is_a_question_of_the_run(run, capsys):
    word(run, "extend lea-2")
    assert run.pending()[0].title == "Hold registry:publish again for up to 1 h"
    assert "answer in its card" in capsys.readouterr().out


def test_a_word_that_fits_several_leases_is_not_guessed_at(run):
    run.tell(RUN.lease(lease_id="lea-11"))
    with pytest.raises(UsageError, match="fits 2 leases"):
        word(run, "revoke github:read")


def test_a_lease_that_nobody_holds_is_told(run):
    with pytest.raises(LeaseUnknown):
        word(run, "revoke nothing")
    told: list[tuple[str, str]] = []
    press_lease(run, {"act": "revoke", "id": "lea-9"}, lambda text, about: told.append((text, about)))
    [(text, about)] = told
    assert "lea-9" in text
    assert about == "lea-9"


def test_a_lease_of_another_process_has_no_buttons_and_is_said_to_be_there(run):
    from kagura_kernel.jupyter.boards import _lease_lines

    run.here = False
    lines = _lease_lines(run, run.leases())
    assert [line.steerable for line in lines] == [False, False]
    assert lines[0].where == (
        "held by run-1, in another kernel: process 4711 on elsewhere; `kagura-kernel leases revoke lea-1` ends it"
    )


@pytest.fixture
def notebook(run, monkeypatch):
    """A shell whose cells are a person's in a notebook."""
    from kagura_kernel import assembly

    monkeypatch.setattr(assembly, "get_cockpit", lambda: run)
    parent = {"content": {"allow_stdin": True}}
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _channel: parent))


def test_in_a_notebook_the_leases_are_the_same_table(run, notebook):
    table = steer(run, notebook, "leases")
    assert len(table) == 2
    pd.testing.assert_frame_equal(pd.DataFrame(table), pd.DataFrame(word(run, "leases")))
    assert type(table[["lease", "state"]]) is pd.DataFrame
    assert type(table.head(1)) is pd.DataFrame


def test_the_leases_of_a_notebook_show_themselves_as_the_board(run, notebook, monkeypatch):
    from kagura_kernel.jupyter.boards import LeaseFrame

    shown = []
    monkeypatch.setattr(LeaseFrame, "show", lambda _table, cockpit: shown.append(cockpit) or True)
    table = steer(run, notebook, "leases")
    assert shown == []
    table._ipython_display_()
    assert shown == [run]


def test_without_a_loop_the_leases_of_a_notebook_are_shown_as_a_table(run, notebook):
    from IPython.core.formatters import DisplayFormatter

    data, _ = DisplayFormatter().format(steer(run, notebook, "leases"))
    assert "github" in data["text/plain"]
