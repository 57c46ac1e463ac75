from kagura_kernel.membrane.credentials.injection import settings
from kagura_kernel.membrane.credentials.injection.injector import (
    git_variables,
    header_variables,
    merge_variables,
    own_name,
)
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection

BASE = "http://127.0.0.1:4000"


def test_git_settings_of_several_are_counted_on() -> None:
    merged = merge_variables(
        {"A": "1"} | git_variables([("http.proxy", "p")]), {"A": "2", "B": "3"} | git_variables([("user.name", "")])
    )
    assert merged == {
        "A": "1",
        "B": "3",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "http.proxy",
        "GIT_CONFIG_VALUE_0": "p",
        "GIT_CONFIG_KEY_1": "user.name",
        "GIT_CONFIG_VALUE_1": "",
    }
    assert merge_variables(merged, merged) == merged


def test_settings_of_git_that_are_not_whole_are_left_out() -> None:
    assert merge_variables({"GIT_CONFIG_COUNT": "x", "GIT_CONFIG_KEY_0": "a", "GIT_CONFIG_VALUE_0": "b"}) == {}
    assert merge_variables({"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_1": "a", "GIT_CONFIG_VALUE_0": "b"}) == {}
    assert merge_variables({"GIT_CONFIG_COUNT": "9999999999"}) == {}


def test_the_beginning_of_a_remote_belongs_to_the_first_that_took_it() -> None:
    one = git_variables([("url.http://a/.insteadOf", "https://github.com/")])
    two = git_variables([("url.http://b/.insteadOf", "https://github.com/"), ("url.http://b/.insteadOf", "x:")])
    merged = merge_variables(one, two)
    assert merged == git_variables(
        [("url.http://a/.insteadOf", "https://github.com/"), ("url.http://b/.insteadOf", "x:")]
    )


def test_github_has_its_api_and_its_repositories() -> None:
    api, web = settings.PRESETS["github"]("")
    assert isinstance(api, HeaderInjection)
    assert isinstance(web, HeaderInjection)
    assert header_variables(api, BASE)["GITHUB_GRAPHQL_URL"] == f"{BASE}/graphql"
    found = header_variables(web, BASE)
    assert found["GIT_CONFIG_COUNT"] == "4"
    assert found["GIT_CONFIG_KEY_0"] == f"url.{BASE}/.insteadOf"
    assert found["GIT_CONFIG_VALUE_0"] == "https://github.com/"


def test_a_github_server_of_ones_own_serves_both_on_one_host() -> None:
    api, web = settings.PRESETS["github"]("https://git.example.com/api/v3")
    assert isinstance(api, HeaderInjection)
    assert isinstance(web, HeaderInjection)
    assert (api.upstream, web.upstream) == ("https://git.example.com/api/v3", "https://git.example.com")
    assert web.git == ("https://git.example.com/", "git@git.example.com:", "ssh://git@git.example.com/")


def test_no_preset_puts_a_secret_into_what_is_shown() -> None:
    for preset in settings.PRESETS.values():
        for way in preset(""):
            assert isinstance(way, HeaderInjection)
            assert "{token}" not in repr(way.variables)


def test_every_lease_has_a_name_of_its_own() -> None:
    assert own_name("git-hub", "repo:read/x.y", "url") == "KAGURA_GIT_HUB_REPO_READ_X_Y_URL"
