"""What Slack delivers is understood as it was written, and from our own workspace alone."""

from typing import Any

import pytest

from kagura_kernel.cockpit.transports.slack import FOREIGN, Us, heard_in
from kagura_kernel.cockpit.transports.transport import Clicked, Said, SentFile
from tests.support.slack_server import written

US = Us("T0", "U0BOT")


def no_file(_: object) -> SentFile:
    raise AssertionError("there is no file")


def said(text: str = "go", where: str | None = "T0", **more: object) -> Said | None:
    event = {"type": "app_mention", "channel": "C0", "user": "U0ANN", "text": text, "ts": "1.1", **more}
    heard = heard_in({"type": "event_callback", "team_id": where, "event": event}, US, no_file)
    assert not isinstance(heard, Clicked)
    return heard


def text_of(text: str) -> str:
    heard = said(text)
    assert heard is not None
    return heard.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<@U0BOT> go", "go"),
        ("<@U0BOT|kagura>: go", "go"),
        ("do not <@U0BOT> delete it", "do not delete it"),
        ("<@U0EVE> has asked <@U0BOT> to go", "<@U0EVE> has asked to go"),
        ("<@U0BOT>\nfirst\nsecond", "first\nsecond"),
        ("say &lt;@U0BOT&gt;", "say <@U0BOT>"),
    ],
)
def test_only_a_mention_of_us_goes_and_words_stay_apart(text, told):
    assert text_of(text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mend <http://README.md|README.md>", "mend README.md"),
        ("write to <mailto:a@b.c|a@b.c>", "write to a@b.c"),
        ("read <https://x.org/y>", "read https://x.org/y"),
        ("read <https://x.org/y|x.org/y>", "read https://x.org/y"),
        ("read <https://x.org/y|the page>", "read the page (https://x.org/y)"),
        ("read <https://evil.org|https://x.org>", "read https://x.org (https://evil.org)"),
        ("read <https://x.org/?a=1&amp;b=2>", "read https://x.org/?a=1&b=2"),
    ],
)
def test_links_are_read_as_they_were_written(text, told):
    assert text_of(text) == told


@pytest.mark.parametrize("text", ["mend README.md & a.b@c.org, see https://x.org/y", "run build.sh", "is 1 < 2 > 0?"])
def test_what_slack_makes_of_a_text_is_undone(text):
    assert written(text) != text or "&" not in text
    assert text_of(written(text)) == text


@pytest.mark.parametrize(
    ("team", "more"),
    [
        ("TEVIL", {}),
        (None, {}),
        ("T0", {"team": "TEVIL"}),
        ("T0", {"user_team": "TEVIL"}),
        ("T0", {"team": "T0", "source_team": "TEVIL"}),
    ],
)
def test_what_comes_from_another_workspace_is_barred(team, more):
    heard = said(where=team, **more)
    assert heard is not None
    assert heard.barred == FOREIGN


def test_what_comes_from_our_own_is_not():
    heard = said(where="T0", team="T0", user_team="T0", source_team="T0")
    assert heard is not None
    assert heard.barred == ""


def test_while_we_do_not_know_whose_we_are_everything_is_barred():
    body = {"command": "/kagura", "channel_id": "C0", "user_id": "U0ANN", "trigger_id": "1", "team_id": ""}
    heard = heard_in(body, Us(), no_file)
    assert heard is not None
    assert heard.barred == FOREIGN


@pytest.mark.parametrize(("team", "person"), [("TEVIL", "T0"), ("T0", "TEVIL"), (None, "T0")])
def test_a_click_from_another_workspace_is_barred(team, person):
    body: dict[str, Any] = {
        "type": "block_actions",
        "team": {"id": team},
        "user": {"id": "U0ANN", "team_id": person},
        "channel": {"id": "C0"},
        "message": {"ts": "1.1"},
        "trigger_id": "1",
        "actions": [{"value": "x"}],
    }
    heard = heard_in(body, US, no_file)
    assert heard is not None
    assert heard.barred == FOREIGN


def test_words_that_were_changed_later_say_nothing_new():
    assert said(edited={"user": "U0ANN", "ts": "2.2"}) is None
