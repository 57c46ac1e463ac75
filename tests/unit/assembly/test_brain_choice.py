"""What a person chooses is written into the settings, and a key into the keychain alone."""

import asyncio
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import keyring
import pytest

from kagura_kernel.assembly import load_settings
from kagura_kernel.assembly.brain_choice import claude_state, overriding, service_name, use_claude, use_service
from kagura_kernel.assembly.brains import make_brains
from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.brain.claude_auth import signed_environ
from kagura_kernel.domain.errors import BrainNotConfigured, ConfigurationError
from kagura_kernel.membrane.credentials.secret import KeychainUnusable, forget_standing, standing_secrets
from tests.support.keychain import Keychain

KEY = "sk-ant-very-secret"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "KAGURA_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    return home | {"KAGURA_CONFIG": str(tmp_path / "config.toml")}


@pytest.fixture
def keychain(monkeypatch: pytest.MonkeyPatch):
    found = Keychain()
    monkeypatch.setattr(keyring, "get_keyring", lambda: found)
    monkeypatch.setattr(keyring, "set_password", found.set_password)
    monkeypatch.setattr(keyring, "get_password", found.get_password)
    forget_standing()
    yield found
    forget_standing()


def written(environ: dict[str, str]) -> dict[str, object]:
    path = Path(environ["KAGURA_CONFIG"])
    return tomllib.loads(path.read_text()) if path.exists() else {}


def claude(environ: dict[str, str]) -> ClaudeBrain:
    brain = make_brains(environ, load_settings(environ), Path(environ["KAGURA_HOME"]))["claude"]
    assert isinstance(brain, ClaudeBrain)
    return brain


def signed_by(brain: ClaudeBrain) -> Mapping[str, str]:
    """The environment that its program would be started with."""
    return asyncio.run(signed_environ(brain.name, brain._environ, brain._key))


def test_a_key_for_claude_goes_into_the_keychain_and_signs_the_program_in(environ, keychain):
    use_claude(environ, KEY)
    assert written(environ) == {"claude_key_keyring": "kagura-kernel/anthropic"}
    assert keychain.kept == {("kagura-kernel", "anthropic"): KEY}
    assert [secret.reveal() for secret in standing_secrets()] == [KEY]
    state = claude_state(environ)
    assert (state.ready, state.reason) == (True, "key from claude_key_keyring")

    signed = signed_by(claude(environ))
    assert signed["ANTHROPIC_API_KEY"] == KEY
    assert "ANTHROPIC_API_KEY" not in environ


def test_a_key_that_is_gone_from_the_keychain_is_said(environ, keychain):
    use_claude(environ, KEY)
    keychain.kept.clear()
    with pytest.raises(BrainNotConfigured, match="the keychain has no such entry"):
        signed_by(claude(environ))


@pytest.mark.usefixtures("keychain")
def test_a_variable_comes_before_the_keychain(environ):
    use_claude(environ, KEY)
    assert claude_state(environ | {"ANTHROPIC_API_KEY": "another"}).reason == "ANTHROPIC_API_KEY is set"


def test_claude_is_chosen_over_what_was_named_before_and_takes_none_of_its_models(environ, keychain):
    use_service(environ, "ollama", "qwen3:32b")
    assert written(environ) == {"brain": "pydantic_ai", "endpoint": "ollama", "model": "qwen3:32b"}
    use_claude(environ)
    assert written(environ) == {"brain": "claude", "endpoint": "ollama"}
    assert keychain.kept == {}


@pytest.mark.usefixtures("keychain")
def test_a_service_by_its_url_gets_a_name_and_its_key_an_entry(environ):
    url = "https://llm.example.com/v1"
    use_service(environ, service_name(url), "m", url=url, key=KEY)
    table = {"url": url, "key_keyring": "kagura-kernel/llm-example-com"}
    assert written(environ)["endpoints"] == {"llm-example-com": table}
    assert service_name("https://api.openai.com/v1") == "openai"
    assert KEY not in Path(environ["KAGURA_CONFIG"]).read_text()


@pytest.mark.parametrize(
    ("url", "key", "why"),
    [
        ("http://llm.example.com/v1", KEY, "https"),
        ("llm.example.com", "", "https://"),
        ("http://[", "", "it is no URL"),
        ("https://llm.example.com/v1", "two words", "one word"),
        ("https://llm.example.com/v1", "sk-\nsecret", "one word"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(environ, keychain, url, key, why):
    with pytest.raises(ConfigurationError, match=why) as refused:
        use_service(environ, service_name(url), "m", url=url, key=key)
    assert not key or key not in refused.value.message
    assert (written(environ), keychain.kept) == ({}, {})


def test_without_a_keychain_nothing_is_written(environ, monkeypatch):
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring, "get_keyring", Keyring)
    with pytest.raises(KeychainUnusable):
        use_claude(environ, KEY)
    assert written(environ) == {}


def test_variables_that_say_otherwise_are_named():
    assert overriding({"KAGURA_BRAIN": "claude", "KAGURA_MODEL": ""}) == ["KAGURA_BRAIN"]


def test_what_an_administrator_has_locked_is_not_written_over(environ, tmp_path):
    (tmp_path / "shared.toml").write_text('brain = "claude"\nlocked = ["brain"]\n')
    environ["KAGURA_SHARED_CONFIG"] = str(tmp_path / "shared.toml")
    with pytest.raises(ConfigurationError, match="brain: it cannot be changed here"):
        use_service(environ, "ollama", "qwen3:32b")
    assert written(environ) == {}
    assert load_settings(environ).brain == "claude"
