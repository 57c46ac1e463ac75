"""The log as a process has it: set by variables, with the rules of redaction and every secret that is held."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kagura_kernel import assembly
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.membrane.credentials.secret import Secret, live_secrets
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import kernel_environ

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
# Nothing about it says that it is one.
UNKNOWN = "orchid-window-seventeen"

log = logging.getLogger("kagura_kernel.somewhere")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log that is open, since the process has its cockpit."""
    place = tmp_path / "kagura.log"
    for name, value in kernel_environ(tmp_path / "home", KAGURA_LOG_PLACE=str(place), KAGURA_LOG_LEVEL="info").items():
        monkeypatch.setenv(name, value)
    assembly.get_cockpit()
    yield place
    assembly.close_cockpit()


def written(place: Path) -> list[dict[str, Any]]:
    # The rules of redaction may have to be compiled first, and closing waits for nobody that long.
    wait_until(place.exists)
    assembly.close_cockpit()
    return [json.loads(line) for line in place.read_text("ascii").splitlines()]


def refuse() -> None:
    raise RuntimeError(f"401 for Authorization: Bearer {TOKEN}")


def test_what_looks_like_a_secret_is_taken_out_of_messages_and_tracebacks(place):
    try:
        refuse()
    except RuntimeError:
        log.exception("GITHUB_TOKEN=%s was refused", TOKEN)
    [line] = written(place)
    assert TOKEN not in json.dumps(line)
    assert "REDACTED" in line["text"]
    assert "REDACTED" in line["error"]["trace"]


def test_a_secret_that_this_process_holds_is_taken_out_whatever_it_looks_like(place):
    secret = Secret(UNKNOWN)
    log.warning("the provider said: %s is wrong", UNKNOWN)
    del secret
    [line] = written(place)
    assert line["text"] == "the provider said: (hidden) is wrong"


def test_a_library_that_logs_what_it_sends_gives_nothing_away(place):
    transport = httpx.MockTransport(lambda _: httpx.Response(200))
    logging.getLogger("httpx").setLevel(logging.INFO)
    try:
        with httpx.Client(transport=transport) as client:
            client.get(f"https://api.example/repos?access_token={TOKEN}")
    finally:
        logging.getLogger("httpx").setLevel(logging.NOTSET)
    [line] = written(place)
    assert (line["logger"], line["level"]) == ("httpx", "info")
    assert "api.example/repos" in line["text"]
    assert TOKEN not in json.dumps(line)


def test_a_secret_is_known_as_long_as_somebody_holds_it():
    secret = Secret(UNKNOWN)
    assert any(one is secret for one in live_secrets())
    del secret
    assert all(one.reveal() != UNKNOWN for one in live_secrets())


def test_a_log_that_cannot_be_where_it_is_wanted_is_told_before_anything_runs(tmp_path):
    environ = kernel_environ(tmp_path / "home", KAGURA_LOG_PLACE="logs/x.log", KAGURA_LOG_LEVEL="loud")
    with pytest.raises(ConfigurationError) as told:
        assembly.load_settings(environ)
    assert "KAGURA_LOG_PLACE: it is a file by its whole path" in told.value.message
    assert "KAGURA_LOG_LEVEL" in told.value.message
