"""Settings become endpoints, keys are looked for in their places alone, and a price is known or it is not."""

from datetime import UTC, datetime

import pytest

from kagura_kernel.assembly import kept_registry
from kagura_kernel.assembly.brains import (
    BRAINS,
    Prices,
    check_endpoints,
    compatible_brain,
    make_brains,
    make_endpoints,
    usual_endpoint,
)
from kagura_kernel.brain.openai_compatible import KNOWN
from kagura_kernel.brain.provider import Turn
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, ConfigurationError, SecretUnavailable
from kagura_kernel.domain.settings import Settings, parse_settings
from kagura_kernel.membrane.credentials import secret
from kagura_kernel.runs.redaction import Redacting
from kagura_kernel.testing.redaction import BlindRedactor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MILLION = Usage(1_000_000, 1_000_000)


def settings(toml: str = "", **variables: str) -> Settings:
    return parse_settings(toml, {f"KAGURA_{name.upper()}": value for name, value in variables.items()})


def test_the_names_of_brains_are_those_that_are_made(tmp_path):
    assert tuple(make_brains({}, Settings(), tmp_path)) == BRAINS


def test_no_brain_is_chosen_for_a_variable_of_another_program(tmp_path):
    brains = make_brains({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://x.example.org"}, Settings(), tmp_path)
    assert [name for name, brain in brains.items() if brain.resolve_auth().ready] == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"endpoint": "ollama"}, "ollama"),
        ({"endpoint": "http://127.0.0.1:9/v1"}, "127.0.0.1:9"),
        ({"model": "vllm:some/model"}, "vllm"),
        ({"model": "claude-x"}, ""),
    ],
)
def test_the_usual_endpoint_is_named_by_a_setting_or_before_the_model(given, expected):
    assert usual_endpoint(settings(**given)) == expected


async def test_each_service_has_its_own_key_and_nobody_else_s():
    environ = {"OPENAI_API_KEY": "of-openai", "GROQ_API_KEY": "of-groq", "KAGURA_BRAIN_API_KEY": "of-mine"}
    endpoints = make_endpoints(environ, settings(endpoint="https://llm.example.org/v1"))
    found = {name: await one.key.read() for name, one in endpoints.items() if one.key and one.key.there()}
    assert found == {"llm.example.org": "of-mine", "openai": "of-openai", "groq": "of-groq"}
    assert "of-" not in repr(endpoints)


async def test_a_blank_behind_a_key_is_none_of_it_and_a_sign_that_no_key_has_is_told():
    key = make_endpoints({"OPENAI_API_KEY": " sk-1 \t"}, settings())["openai"].key
    assert key is not None
    assert await key.read() == "sk-1"
    for odd in ("“sk-1”", "sk-1\nsk-2", "sk\0"):
        key = make_endpoints({"OPENAI_API_KEY": odd}, settings())["openai"].key
        assert key is not None
        with pytest.raises(SecretUnavailable, match=r"OPENAI_API_KEY.*paste it anew"):
            await key.read()


async def test_a_key_that_is_not_there_is_told_by_the_name_of_its_variable_alone():
    async def nobody(_):
        raise AssertionError

    turn = Turn(task="t", system="s", tools=(), call_tool=nobody, model="m")
    with pytest.raises(BrainNotConfigured) as caught:
        await anext(compatible_brain({}, settings(endpoint="openai", model="m")).run(turn))
    assert caught.value.message.endswith("none in OPENAI_API_KEY (no such environment variable is set)")


async def test_a_known_service_that_was_moved_gets_only_the_key_that_is_named_for_it():
    moved = settings('[endpoints.openai]\nurl = "https://other.example.org/v1"\n')
    assert make_endpoints({"OPENAI_API_KEY": "k"}, moved)["openai"].key is None
    named = settings('[endpoints.openai]\nurl = "https://other.example.org/v1"\nkey_env = "MINE"\n')
    key = make_endpoints({"OPENAI_API_KEY": "k", "MINE": "m"}, named)["openai"].key
    assert key is not None
    assert await key.read() == "m"


async def test_every_run_hides_a_key_by_its_value_as_soon_as_this_process_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(secret, "_standing", [])
    file = tmp_path / "key"
    file.write_text("of-the-file-4417")
    file.chmod(0o600)
    told = (
        f'[endpoints.work]\nurl = "https://x.example.org"\nkey_env = "WORK_KEY"\n[endpoints.groq]\nkey_file = "{file}"'
    )
    variables = {"WORK_KEY": "team-orchid-4417-blue", "ANTHROPIC_AUTH_TOKEN": "of-a-gateway-4417"}
    make_brains(variables, settings(told), tmp_path)
    held = "team-orchid-4417-blue, of-a-gateway-4417"
    assert Redacting(BlindRedactor()).text(f"{held}, of-the-file-4417") == "(hidden), (hidden), of-the-file-4417"
    key = make_endpoints(variables, settings(told))["groq"].key
    assert key is not None
    assert await key.read() == "of-the-file-4417"
    assert Redacting(BlindRedactor()).text("it is of-the-file-4417") == "it is (hidden)"


async def test_a_key_in_a_file_is_read_when_it_is_used_and_only_if_nobody_else_may_read_it(tmp_path):
    file = tmp_path / "key"
    file.write_text("first\n")
    file.chmod(0o600)
    key = make_endpoints({}, settings(f'[endpoints.groq]\nkey_file = "{file}"\n'))["groq"].key
    assert key is not None
    assert key.place == "endpoints.groq.key_file"
    assert await key.read() == "first"
    file.write_text("second\n")
    assert await key.read() == "second"
    file.chmod(0o644)
    with pytest.raises(SecretUnavailable, match="others may read"):
        await key.read()


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ('endpoint = "olama"', "endpoint"),
        ('endpoint = "ftp://x.example.org"', "endpoint"),
        ('[endpoints.work]\nmodel = "m"', "endpoints.work.url"),
        ('[endpoints.work]\nurl = "https://u:secret@x.example.org"', "endpoints.work.url"),
        ('[endpoints.work]\nurl = "http://x.example.org"\nkey_env = "K"', "endpoints.work.url"),
        ('[endpoints.work]\nurl = "https://x.example.org"\nkey_env = "K"\nkey_file = "/k"', "endpoints.work"),
        ('[endpoints.groq]\nkey_env = "sk secret"', "endpoints.groq"),
        ('[endpoints."a.b"]\nurl = "https://x.example.org"', "endpoints"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_told_by_its_field_and_not_repeated(toml, word):
    problems = check_endpoints(parse_settings(toml, {}))
    assert [field for field, _ in problems] == [word]
    assert "secret" not in problems[0][1]


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ('[endpoints.work]\nurl = "https://x.example.org"\nkey = "sk-secret"', "never written here"),
        ('[endpoints.work]\nurl = "https://x.example.org"\napi_key = "sk-secret"', "never written here"),
        ('[endpoints.work]\nurl = "https://x.example.org"\ninput_usd = 1.0', "given together"),
        ('[endpoints.work]\nurl = "https://x.example.org"\ncontext_tokens = 7', "context_tokens"),
        ('brain_program = "rm"', "brain_program"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_when_it_is_read(toml, word):
    with pytest.raises(ConfigurationError, match=word) as caught:
        parse_settings(toml, {})
    assert "secret" not in str(caught.value)


def test_a_model_has_the_price_of_its_own_provider_and_none_where_nobody_is_known_to_be_paid():
    prices = Prices(settings(endpoint="ollama"))
    paid, source = prices.price(MILLION, "openai:gpt-4o-mini", NOW)
    assert paid == pytest.approx(0.75)
    assert source.startswith("genai-prices")
    assert prices.price(MILLION, "claude-sonnet-4-5", NOW)[0]
    for model in ("ollama:gpt-4o-mini", "ollama:gpt-oss:20b", "openai:no-such-model", "vllm:gpt-oss-120b"):
        assert prices.price(MILLION, model, NOW)[0] is None, model


def test_what_a_person_says_it_costs_beats_the_list_and_may_be_nothing():
    toml = "[endpoints.openai]\ninput_usd = 2.0\noutput_usd = 3.0\n[endpoints.ollama]\ninput_usd = 0\noutput_usd = 0\n"
    prices = Prices(settings(toml))
    assert prices.price(MILLION, "openai:gpt-4o-mini", NOW) == (5.0, "settings, endpoints.openai")
    assert prices.price(MILLION, "ollama:anything", NOW) == (0.0, "settings, endpoints.ollama")


def test_a_service_that_only_bears_a_known_name_has_no_listed_price():
    prices = Prices(settings('[endpoints.openai]\nurl = "https://other.example.org/v1"\n'))
    assert prices.price(MILLION, "openai:gpt-4o-mini", NOW) == (None, "")
    assert prices.window("openai:gpt-4o-mini") is None


def test_a_window_is_what_the_settings_say_else_what_the_list_knows():
    brain = compatible_brain({}, settings("[endpoints.ollama]\ncontext_tokens = 4096\n", endpoint="ollama"))
    assert brain.window(*brain.thinks_with("ollama:m")) == 4096
    assert brain.window(*brain.thinks_with("openai:gpt-4o-mini")) == 128_000
    assert brain.window(*brain.thinks_with("vllm:m")) == 32_768


def test_a_brain_without_an_endpoint_or_a_model_says_how_to_name_one():
    with pytest.raises(BrainNotConfigured, match="endpoint"):
        compatible_brain({}, Settings()).thinks_with("m")
    with pytest.raises(BrainNotConfigured, match=r"--model ollama:MODEL"):
        compatible_brain({}, settings(endpoint="ollama")).thinks_with("")


def test_a_service_on_this_machine_needs_no_key_and_one_elsewhere_says_where_it_looks():
    assert compatible_brain({}, settings(endpoint="ollama")).resolve_auth().ready
    auth = compatible_brain({}, settings(endpoint="openai")).resolve_auth()
    assert not auth.ready
    assert "OPENAI_API_KEY" in auth.reason
    assert compatible_brain({"OPENAI_API_KEY": "k"}, settings(endpoint="openai")).resolve_auth().ready


def test_every_known_service_can_be_named_without_a_table(tmp_path):
    for name in KNOWN:
        chosen = settings(endpoint=name)
        assert check_endpoints(chosen) == []
        assert make_brains({}, chosen, tmp_path)["pydantic_ai"].resolve_auth().reason


RIGHT = '[providers.files]\nkind = "static"\nsecret_env = "THE_KEY"\n'


def test_a_corrected_file_is_read_at_the_next_question(tmp_path):
    file = tmp_path / "credentials.toml"
    registry = kept_registry({"KAGURA_CONFIG": str(tmp_path / "config.toml")})
    assert not registry().providers
    file.write_text(RIGHT.replace("static", "statik"))
    with pytest.raises(ConfigurationError):
        registry()
    file.write_text(RIGHT)
    assert list(registry().providers) == ["files"]
    file.write_text(RIGHT.replace("providers.files", "providers.other"))
    assert list(registry().providers) == ["other"]
    file.unlink()
    assert not registry().providers


def test_a_file_that_nobody_has_touched_is_read_once(tmp_path):
    (tmp_path / "credentials.toml").write_text(RIGHT)
    registry = kept_registry({"KAGURA_CONFIG": str(tmp_path / "config.toml")})
    assert registry() is registry()
