import traceback

import pytest

from kagura_kernel.domain.errors import ConfigurationError, KaguraError
from kagura_kernel.membrane.credentials import registry
from kagura_kernel.membrane.credentials.provider import MintRequest, Scope
from kagura_kernel.membrane.credentials.registry import KINDS, Registry, parse_registry
from kagura_kernel.membrane.credentials.secret import SecretReader

READER = SecretReader({"TOKEN": "value"})
SECRET = "ghp_0123456789abcdefghij"
ALL = """
[providers.npm]
kind = "static"
secret_env = "TOKEN"

[providers.aws]
kind = "aws_sts"
access_key_id_env = "A"
secret_access_key_keyring = "aws/me"
scopes.s3 = { role_arn = "arn:aws:iam::123456789012:role/reader" }

[providers.google]
kind = "gcp"
key_file = "/etc/key.json"
scopes.gcs = { service_account = "a@b.iam.gserviceaccount.com", oauth_scopes = ["x"] }

[providers.github]
kind = "github_app"
app_id = "1"
installation_id = 2
private_key_file = "~/key.pem"
scopes.read = { permissions = { contents = "read" } }

[providers.cloudflare]
kind = "cloudflare"
token_env = "TOKEN"
scopes.dns = { permission_groups = ["1"], resources = { "com.cloudflare.api.account.zone.1" = "*" } }

[providers.memory]
kind = "memory_cloud"
api_key_keyring = "kagura/owner"
workspace_id = "w"
scopes.read = { user_id = "u" }
"""


def problems(toml: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_registry(toml, READER)
    told = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=False).format())
    assert SECRET not in told
    return list(caught.value.problems)


def test_every_kind_can_be_configured() -> None:
    providers = parse_registry(ALL, READER).providers
    assert {provider.kind for provider in providers.values()} == set(KINDS)
    assert {name: provider.name for name, provider in providers.items()} == {name: name for name in providers}
    assert providers["github"].scopes == {"read"}
    assert providers["npm"].scopes == {"default"}


@pytest.mark.parametrize(("module", "extra"), [("boto3", "aws"), ("google", "gcp"), ("jwt", "github")])
def test_a_kind_whose_library_is_missing_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == module else object())
    (problem,) = problems(ALL)
    assert f"pip install 'kagura-kernel[{extra}]'" in problem


def test_an_empty_text_configures_nothing() -> None:
    assert parse_registry("", READER) == Registry()


def test_all_problems_of_all_providers_are_told_at_once() -> None:
    found = problems(
        f"""
        [providers.one]
        kind = "cloudflare"
        token = "{SECRET}"
        api_url = "http://evil.example"
        colour = "{SECRET}"

        [providers.two]
        kind = "{SECRET}"

        [providers.three]
        kind = "github_app"
        app_id = ["{SECRET}"]
        installation_id = -1
        private_key_env = "A"
        private_key_file = "/b"
        scopes.read = {{ permissions = {{ contents = "{SECRET}" }} }}
        scopes."bad name" = {{ permissions = {{ contents = "read" }} }}
        """
    )
    told = "\n".join(found)
    for expected in (
        "providers.one.token: a secret is never written here",
        "providers.one.api_url: it must be https, except on loopback",
        "providers.one.colour: there is no such setting",
        "providers.one.scopes: it is missing",
        "providers.two.kind: it must be one of static, aws_sts",
        "providers.three.app_id: it must be a text, in quotes",
        "providers.three.installation_id: it must be more than 0",
        "providers.three.private_key: private_key_env and private_key_file are given",
        "providers.three.scopes.read.permissions.contents: it must be 'read', 'write' or 'admin'",
        "providers.three.scopes: a scope's name",
    ):
        assert expected in told
    assert len(found) == 10


@pytest.mark.parametrize(
    "toml",
    [
        f'token = "{SECRET}',
        f'providers = "{SECRET}"',
        f'providers.x = "{SECRET}"',
        f'[providers.x]\nkind = ["{SECRET}"]',
        f'[providers.X]\nkind = "static"\nsecret_env = "{SECRET}"',
        f'[other]\na = "{SECRET}"',
        f'[providers.x]\nkind = "static"\nsecret_file = "{SECRET}"',
        f'[providers.x]\nkind = "static"\nsecret_env = "A"\nscopes.a = "{SECRET}"',
        f'[providers.x]\nkind = "aws_sts"\nsecret_access_key="{SECRET}"\nscopes.a.role_arn = "{SECRET}"',
    ],
)
def test_whatever_is_wrong_no_value_is_repeated(toml: str) -> None:
    assert problems(toml)


async def test_a_static_secret_is_lent_as_it_is_at_that_moment() -> None:
    environ = {"TOKEN": "one"}
    providers = parse_registry(
        '[providers.npm]\nkind = "static"\nsecret_env = "TOKEN"', SecretReader(environ)
    ).providers
    request = MintRequest("lea-1", Scope("default"), 900)
    one = await providers["npm"].mint(request)
    environ["TOKEN"] = "two"
    two = await providers["npm"].mint(request)
    assert (one.credential.main.reveal(), two.credential.main.reveal(), two.lives) == ("one", "two", 900)
    assert (await providers["npm"].revoke("")).verdict == "gone"
    assert await providers["npm"].find("lea-1") == ""
    assert not providers["npm"].traits.revocable
    del environ["TOKEN"]
    with pytest.raises(KaguraError):
        await providers["npm"].mint(request)


def test_each_kind_says_how_its_credentials_are_used_in_a_box() -> None:
    injections = parse_registry(ALL, READER).injections
    ways = {name: [way.way for way in injections[name]] for name in injections}
    assert ways == {
        "npm": [],
        "aws": ["env"],
        "google": ["env"],
        "github": ["header", "header"],
        "cloudflare": ["header"],
        "memory": ["header"],
    }


def test_inject_replaces_what_the_kind_says_and_its_problems_are_told_with_the_others() -> None:
    wanted = ALL + '\n[[providers.aws.inject]]\nway = "file"\nformat = "aws"\n'
    (way,) = parse_registry(wanted, READER).injections["aws"]
    assert way.way == "file"
    told = problems(ALL.replace("[providers.aws]", '[providers.aws]\ninject = { way = "none" }\nregion = 3'))
    assert [problem.split(":")[0] for problem in told] == ["providers.aws.inject.way", "providers.aws.region"]
