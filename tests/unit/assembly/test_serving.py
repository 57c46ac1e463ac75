"""The server of this process: tokens are taken before anything is made, and what was left behind is seen to at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.assembly import use_cockpit
from kagura_kernel.assembly.serving import check_served, make_server
from kagura_kernel.cockpit.cockpit import Cockpit, CockpitParts
from kagura_kernel.domain.errors import ConfigurationError, NotThisTime, SecretUnavailable
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until

SLACK = '[transports.slack]\noperators = ["U1"]\nbot_token_env = "THE_BOT"\napp_token_env = "THE_APP"\n'
TOKENS = {"THE_BOT": "xoxb-secret", "THE_APP": "xapp-secret"}


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """That of a server with a Slack, whose cockpit tells what it was made of."""
    pytest.importorskip("slack_bolt")
    (tmp_path / "config.toml").write_text(SLACK)
    found = {"KAGURA_CONFIG": str(tmp_path / "config.toml"), "KAGURA_HOME": str(tmp_path / "home")}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    yield found | TOKENS
    use_cockpit(None)


def nothing() -> None:
    return None


async def test_what_was_left_behind_is_seen_to_when_the_server_starts(tmp_path, environ):
    seen: list[str] = []
    said: list[str] = []

    async def sweep() -> None:
        seen.append("boxes swept")

    def join(parts: CockpitParts) -> Cockpit:
        return Cockpit(replace(parts, sweep_boxes=sweep, lost=("run-1", "run-2")))

    def make(_: Mapping[str, str]) -> Cockpit:
        seen.append(f"made with {sorted(TOKENS.keys() & environ.keys())}")
        return fake_cockpit(tmp_path / "home", backend=FakeBackend(), join=join)

    use_cockpit(make)
    await make_server(environ, said.append, nothing)
    wait_until(lambda: "boxes swept" in seen)
    assert seen[0] == "made with []"
    assert said == ["2 runs were lost with the process that ran them: run-1, run-2."]


async def test_a_token_that_is_missing_is_told_before_a_cockpit_is_made(environ):
    def make(_: Mapping[str, str]) -> Cockpit:
        raise AssertionError("a cockpit was made")

    use_cockpit(make)
    del environ["THE_APP"]
    with pytest.raises(SecretUnavailable):
        await make_server(environ, print, nothing)


def test_settings_without_a_chat_and_settings_that_are_wrong_are_refused(environ):
    check_served(environ)
    file = Path(environ["KAGURA_CONFIG"])
    file.write_text("")
    with pytest.raises(NotThisTime, match="setup transport"):
        check_served(environ)
    file.write_text('[transports.slack]\noperators = "U1"\n')
    with pytest.raises(ConfigurationError, match="operators"):
        check_served(environ)
    assert "THE_BOT" not in os.environ
