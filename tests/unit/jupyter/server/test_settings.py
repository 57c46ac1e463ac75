"""Settings for a form: what each is and where that comes from, and changes of the file that lose nothing in it."""

import os
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SettingsChanged, UsageError
from kagura_kernel.jupyter.server.handler import as_json
from kagura_kernel.jupyter.server.settings import change_settings, settings

TEXT = """\
# Mine.
recall = 7  # enough
budget_usd = 2.5

[env]
TZ = "UTC"
"""


@pytest.fixture
def environ(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return {"KAGURA_CONFIG": str(path)}


def text_of(environ):
    return Path(environ["KAGURA_CONFIG"]).read_text("utf-8")


def change(environ, **values):
    return change_settings(environ, version=settings(environ)["version"], values=values)


def test_each_is_told_with_its_meaning_and_where_it_comes_from(environ):
    told = settings(environ | {"KAGURA_BOX": "docker"})
    assert [told["values"][name] for name in ("recall", "budget_usd", "box", "pool_size")] == [7, 2.5, "docker", 1]
    assert [told["sources"][name] for name in ("recall", "box", "pool_size")] == ["file", "KAGURA_BOX", "default"]
    assert set(told["locked"]) == {"box"}
    form = told["form"]["properties"]
    assert told["values"]["env"] == {"TZ": "UTC"}
    assert form["env"]["additionalProperties"] == {"type": "string"}
    assert form["endpoints"]["type"] == "null"
    assert form["endpoints"]["description"].endswith("Write each into the file, as [endpoints.NAME].")
    assert form["approval_deadline"]["title"] == "Approval deadline (seconds)"
    assert form["recall"] == {
        "title": "Memories that a run begins with",
        "description": "How many memories a run starts with at most, beside pinned ones; 0 for none.",
        "type": "integer",
        "minimum": 0,
        "maximum": 50,
        "default": 5,
    }
    assert form["write"]["enum"] == ["ask", "through", "none"]
    assert form["budget_usd"]["type"] == "number"


@pytest.mark.parametrize(("value", "told"), [("inf", "Infinity"), ("2026-01-01", "2026-01-01"), ("[nan]", ["NaN"])])
def test_what_json_has_no_word_for_is_shown_as_text_and_can_be_mended(environ, value, told):
    Path(environ["KAGURA_CONFIG"]).write_text(f"idle_timeout = {value}\n")
    shown = settings(environ)
    assert as_json(shown)
    assert shown["values"]["idle_timeout"] == told
    assert change(environ, idle_timeout=60)["values"]["idle_timeout"] == 60


def test_a_change_keeps_what_else_stands_in_the_file(environ):
    told = change(environ, write="through", keep=True, net=["ask", "a.example"], budget_usd=None)
    assert text_of(environ) == (
        '# Mine.\nrecall = 7  # enough\nwrite = "through"\nkeep = true\nnet = ["ask", "a.example"]\n\n'
        '[env]\nTZ = "UTC"\n'
    )
    assert (told["values"]["keep"], told["sources"]["budget_usd"], told["problems"]) == (True, "default", {})


def test_rows_of_a_table_are_added_changed_and_removed_and_the_others_left_alone(environ):
    path = Path(environ["KAGURA_CONFIG"])
    path.write_text('[env]\nTZ = "UTC"  # mine\nLANG = "C"\n')
    told = change(environ, env={"TZ": "UTC", "PAGER": "cat"}, mirrors={"python-packages": ["pypi.example.com"]})
    assert told["problems"] == {}
    assert path.read_text() == (
        '[env]\nPAGER = "cat"\nTZ = "UTC"  # mine\n\n[mirrors]\npython-packages = ["pypi.example.com"]\n'
    )
    assert change(environ, env=None)["values"]["env"] == {}


def test_a_table_that_holds_a_secret_is_shown_without_it_and_left_alone(environ):
    Path(environ["KAGURA_CONFIG"]).write_text('[env]\nAPI_TOKEN = "a8f5f167f44f4964e6c998dee827110c"\n')
    told = settings(environ)
    assert "a8f5f167" not in str(told)
    assert "password or a key" in told["locked"]["env"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("env", {"A B": "1"}, "a row’s name is made of"),
        ("env", {"A": 1}, "each row is a text"),
        ("env", "A=1", "each row is a text"),
        ("mirrors", {"a": "x"}, "must be a list"),
        ("recall", 51, "at most 50"),
        ("recall", "many", "a whole number"),
        ("write", "never", "'ask', 'through' or 'none'"),
        ("net", {"a": 1}, "neither a text"),
        ("net", [None], "neither a text"),
        ("net", ["\ud800"], "neither a text"),
        ("model", "\ud800", "neither a text"),
        ("budget_usd", float("nan"), "neither a text"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_is_written(environ, name, value, why):
    told = change(environ, **{"keep": True, name: value})
    assert why in told["problems"][name]
    assert text_of(environ) == TEXT


def test_a_file_that_was_changed_meanwhile_is_left_alone(environ):
    version = settings(environ)["version"]
    change(environ, keep=True)
    with pytest.raises(SettingsChanged):
        change_settings(environ, version=version, values={"recall": 1})
    assert "recall = 7" in text_of(environ)


@pytest.mark.parametrize(
    ("variables", "name"),
    [({"KAGURA_RECALL": "3"}, "recall"), ({"JUPYTERHUB_USER": "ann"}, "shared"), ({}, "endpoints")],
)
def test_what_others_say_cannot_be_changed_here(environ, variables, name):
    with pytest.raises(UsageError):
        change(environ | variables, **{name: 1})
    assert text_of(environ) == TEXT


def test_a_file_of_somebody_else_is_shown_and_not_changed(environ, monkeypatch):
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert "somebody else" in settings(environ)["locked"]["recall"]
    with pytest.raises(UsageError, match="administrator"):
        change(environ, recall=1)


def test_a_password_is_not_told(environ):
    Path(environ["KAGURA_CONFIG"]).write_text('journal_url = "postgresql://ann:hunter22@db.example/kagura"\n')
    told = settings(environ)
    assert "hunter22" not in str(told)
    assert "password" in told["locked"]["journal_url"]


def test_a_file_that_is_wrong_can_be_mended_and_one_that_is_no_toml_only_by_hand(environ):
    Path(environ["KAGURA_CONFIG"]).write_text('recall = 900\njournal_url = "ann@db.example/kagura"\n')
    told = settings(environ)
    assert (told["values"]["recall"], set(told["problems"])) == (900, {"recall", "journal_url"})
    assert change(environ, recall=9, journal_url=None)["problems"] == {}
    for text in ("recall =", "net = " + "[" * 10_000):
        Path(environ["KAGURA_CONFIG"]).write_text(text)
        told = settings(environ)
        assert "not TOML" in told["problems"][""]
        assert told["locked"]["recall"]


def test_the_first_change_makes_the_file_for_this_person_alone(tmp_path):
    environ = {"KAGURA_CONFIG": str(tmp_path / "new" / "config.toml")}
    assert change(environ, keep=True)["sources"]["keep"] == "file"
    assert (tmp_path / "new" / "config.toml").stat().st_mode & 0o777 == 0o600


def test_what_an_administrator_has_locked_is_shown_with_why_and_not_changed(environ, tmp_path):
    shared = tmp_path / "shared.toml"
    shared.write_text('box = "docker"\nrecall = 3\nquota_boxes = 2\nlocked = ["recall", "quota_boxes"]\n')
    environ["KAGURA_SHARED_CONFIG"] = str(shared)
    told = settings(environ)
    assert [told["values"][name] for name in ("box", "recall", "quota_boxes", "budget_usd")] == ["docker", 3, 2, 2.5]
    assert [told["sources"][name] for name in ("box", "recall", "budget_usd")] == ["shared", "shared", "file"]
    assert told["locked"]["recall"] == f"The administrator of this machine says so for everybody, in {shared}."
    assert set(told["locked"]) == {"recall", "quota_boxes"}
    # A kernel refuses such a file, so the form says what is to be taken out of it.
    assert "take it out" in told["problems"]["recall"]
    with pytest.raises(UsageError, match="administrator"):
        change(environ, quota_boxes=9)
    assert "locked" not in told["form"]["properties"]
