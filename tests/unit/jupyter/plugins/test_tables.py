"""The tables of plugins: data to work with, and the list as a person looks at it."""

import pickle
from datetime import UTC, datetime

import pandas as pd
import pytest

from kagura_kernel.domain.plugins import PluginPermissions, PluginState, Risk
from kagura_kernel.journal.plugins import PluginLogLine
from kagura_kernel.jupyter.tables import logs_table, plugins_table
from kagura_kernel.plugins.manager import PluginRow

DECLARED = PluginPermissions(read=("{base_dir}",), net=("api.example.org",))


def row(name="sales-reader", **facts):
    """A plugin of a project."""
    known = {"version": "1.2.0", "description": "Reads sales", "place": "project", "permissions": DECLARED}
    return PluginRow(name, **known | facts)


@pytest.fixture
def frame():
    """Three plugins."""
    opens = PluginPermissions(read=("/home/ada/sales",))
    enabled = row(
        state=PluginState.ENABLED,
        risk=Risk.LOW,
        approved=True,
        opens=opens,
        audited_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    broken = row("broken", version="", problem="plugin.json: <b>no</b>", permissions=PluginPermissions())
    return plugins_table([enabled, row("other", signed_by="Ada L."), broken])


def test_it_is_a_data_frame_with_kinds_that_can_be_counted_on(frame):
    assert isinstance(frame, pd.DataFrame)
    assert frame["approved"].tolist() == [True, False, False]
    assert frame["risk"].isna().tolist() == [False, True, True]
    assert frame.loc[0, "reads"] == "/home/ada/sales"
    assert frame.loc[1, "reads"] == "{base_dir}"
    assert str(frame["audited"].dtype) == "datetime64[us, UTC]"


def test_what_is_taken_out_of_it_is_an_ordinary_frame_and_it_can_be_stored(frame):
    assert type(frame[["plugin", "risk"]]) is pd.DataFrame
    assert type(frame[frame["approved"]]) is pd.DataFrame
    assert pickle.loads(pickle.dumps(frame)).equals(frame)


def test_a_person_sees_marks_and_nothing_of_the_html_in_it(frame):
    html = frame._repr_html_()
    for piece in (
        "3 plugins, 1 enabled in this session",
        ">enabled<",
        ">low<",
        ">approved<",
        "not audited",
        "not usable",
    ):
        assert piece in html
    assert "signed by Ada L." in html
    assert "<b>no</b>" not in html
    assert "&lt;b&gt;no" in html
    assert "2026" not in html


def test_the_text_of_the_list_fits_a_line_each(frame):
    lines = repr(frame).splitlines()
    assert lines[0].split() == ["plugin", "version", "state", "risk", "approved", "place"]
    assert lines[1].split() == ["sales-reader", "1.2.0", "enabled", "LOW", "True", "project"]
    assert lines[3].split() == ["broken", "-", "not", "usable", "-", "False", "project"]


def test_what_keeps_a_plugin_out_stands_beneath_it():
    frame = plugins_table(
        [row(state=PluginState.AUDITED, risk=Risk.UNKNOWN, danger="os.system is <b>bad</b> (plugin.py:3)")]
    )
    assert frame.loc[0, "problem"] == "kept out: os.system is <b>bad</b> (plugin.py:3)"
    assert repr(frame).splitlines()[2] == "sales-reader: kept out: os.system is <b>bad</b> (plugin.py:3)"
    assert "kept out: os.system is &lt;b&gt;bad" in frame._repr_html_()


def test_no_plugins_is_said_in_words():
    frame = plugins_table([])
    assert repr(frame).startswith("There are no plugins: ")
    assert "There are none: " in frame._repr_html_()


def test_a_log_shows_the_end_of_every_line_where_the_reason_stands():
    at = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    why = "fetch.get failed after 4 ms: " + "because of this and that, " * 20 + "and <b>so</b> \u202e on"
    frame = logs_table([PluginLogLine(at, "called", why, ok=False), PluginLogLine(at, "enabled", "enabled", by="ada")])
    first, second = repr(frame).splitlines()
    assert first.startswith("! 2026-01-01 12:30:00Z called: fetch.get failed")
    assert "and <b>so</b>" in first
    assert second == "  2026-01-01 12:30:00Z enabled (ada): enabled"
    html = frame._repr_html_()
    assert "and &lt;b&gt;so&lt;/b&gt;" in html
    assert "\u202e" not in first + html
    assert type(frame[frame["ok"]]) is pd.DataFrame
    assert repr(logs_table([])) == "Nothing has happened to it yet."
    assert logs_table([])._repr_html_() is None
