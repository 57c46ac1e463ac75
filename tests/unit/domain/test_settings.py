import math
from dataclasses import fields

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import DEFAULTS, Settings, parse_settings, settings_model, validated


def test_nothing_set_is_the_careful_default():
    settings = parse_settings("", {})
    assert settings == Settings()
    assert (settings.write, settings.permission_mode) == (WriteMode.ASK, PermissionMode.DEFAULT)


def test_a_file_sets_and_a_variable_overrides():
    settings = parse_settings('box = "docker"\npool_size = 3\n', {"KAGURA_BOX": "bubblewrap"})
    assert (settings.box, settings.pool_size) == ("bubblewrap", 3)


def test_the_model_of_a_file_is_that_of_the_files_brain():
    file = 'brain = "claude"\nmodel = "opus"\n'
    assert parse_settings(file, {"KAGURA_BRAIN": "pydantic_ai"}).model == ""
    assert parse_settings(file, {"KAGURA_BRAIN": "pydantic_ai", "KAGURA_MODEL": "m"}).model == "m"
    assert parse_settings(file, {"KAGURA_BRAIN": "claude"}).model == "opus"
    assert parse_settings('model = "opus"\n', {"KAGURA_BRAIN": "claude"}).model == "opus"


def test_lists_and_empty_amounts_can_be_given_as_variables():
    settings = parse_settings("", {"KAGURA_PREAPPROVED_HOST_COMMANDS": "ls, wc", "KAGURA_BUDGET_USD": ""})
    assert settings.preapproved_host_commands == ("ls", "wc")
    assert settings.budget_usd is None


def test_every_wrong_field_is_told_at_once_and_no_value_is_repeated():
    with pytest.raises(ConfigurationError) as caught:
        parse_settings('pool_size = "hunter2"\nbrian = "claude"\nbudget_usd = -1\n', {})
    assert {line.split(":")[0] for line in caught.value.problems} == {"pool_size", "brian", "budget_usd"}
    assert "hunter2" not in str(caught.value)


def test_a_permission_mode_of_kagura_agent_is_told_what_there_is_instead():
    with pytest.raises(ConfigurationError, match="`permission_mode` is `full_control`"):
        parse_settings('permission_mode = "bypassPermissions"', {})


def test_a_file_that_is_no_toml_says_where():
    with pytest.raises(ConfigurationError, match="line 1"):
        parse_settings("box = \n", {})


def test_variables_of_ours_that_are_no_settings_are_left_alone():
    assert parse_settings("", {"KAGURA_HOME": "/x", "KAGURA_API_KEY": "k"}) == Settings()


def test_a_table_in_a_variable_is_told_and_not_ignored():
    with pytest.raises(ConfigurationError) as caught:
        parse_settings("", {"KAGURA_ENV": "TOKEN=hunter2", "KAGURA_MIRRORS": "x"}, "a file")
    assert caught.value.source == "the environment"
    assert set(caught.value.problems) == {
        "KAGURA_ENV: no variable can hold this table: write [env] into the file",
        "KAGURA_MIRRORS: no variable can hold this table: write [mirrors] into the file",
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("bugdet_usd = 1", "bugdet_usd: there is no such setting, did you mean 'budget_usd'?"),
        ("zzz = 1", "zzz: there is no such setting"),
        ("budget_usd = -1", "budget_usd: it must be more than 0"),
        ("recall = 51", "recall: it must be at most 50"),
        ("approval_deadline = '5m'", "approval_deadline: it must be a number"),
        ("keep = 'perhaps'", "keep: it must be true or false"),
        ("net = 'example.org'", "net: it must be a list, in brackets"),
        ("box = 3", "box: it must be a text, in quotes"),
        ("write = 'maybe'", "write: it must be 'ask', 'through' or 'none'"),
        ("context = 'most'", "context: it must be 'none', 'names', 'cells' or 'all'"),
        ("endpoints = 3", "endpoints: it must be a table"),
        (
            "journal_url = 'ada@db.example.org/kagura'",
            "journal_url: it is to be postgresql://user@host/database, or a directory that begins with / or ~",
        ),
        *(
            (
                f"safe_commands = ['jq', '{name}']",
                "safe_commands: each is the name of a program alone, without a path or arguments: number 2 is not",
            )
            for name in ("rm -rf", "/usr/bin/yq", "", "yq;")
        ),
        ("brain = claude", "it is not TOML: Invalid value (at line 1, column 9); a text stands in quotes"),
    ],
)
def test_what_is_wrong_is_told_in_words_of_a_settings_file(line, told):
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(line, {})
    assert caught.value.problems == (told,)


def test_what_is_wrong_is_named_where_it_was_set():
    with pytest.raises(ConfigurationError) as caught:
        parse_settings("pool_size = -1\nprocesses = 1\n", {"KAGURA_POOL_SIZE": "99"}, "a file")
    assert caught.value.source == "a file"
    assert {line.split(":")[0] for line in caught.value.problems} == {"KAGURA_POOL_SIZE", "processes"}
    with pytest.raises(ConfigurationError) as caught:
        parse_settings("pool_size = -1\n", {"KAGURA_POOL_SIZE": "99"}, "a file")
    assert caught.value.source == "the environment"


def test_what_others_find_stands_beside_what_is_wrong_in_form():
    seen: list[Settings] = []

    def check(settings: Settings) -> list[tuple[str, str]]:
        seen.append(settings)
        return [("net", "it is wrong"), ("env.X", "it is wrong too")]

    with pytest.raises(ConfigurationError) as caught:
        parse_settings("pool_size = -1\nbox = 'docker'\n", {"KAGURA_NET": "a"}, "a file", check)
    assert {line.split(":")[0] for line in caught.value.problems} == {"pool_size", "KAGURA_NET", "env.X"}
    assert (seen[0].box, seen[0].pool_size, seen[0].net) == ("docker", Settings().pool_size, ("a",))


@pytest.mark.parametrize("name", [one.name for one in fields(Settings)])
def test_what_is_right_as_it_stands_is_what_the_model_takes_and_makes_of_it(name):
    given = [
        getattr(DEFAULTS, name),
        "",
        "a",
        "ask",
        "off",
        "3",
        "\udcff",
        True,
        1,
        -1,
        10**12,
        0.5,
        math.nan,
        math.inf,
    ]
    given += [None, [], ["a"], ["\udcff"], [1], ("a", "b"), {}, {"a": "b"}, {"a": ["b"]}, b"a"]
    for value in given:
        settings, problems = validated({name: value})
        try:
            wanted = getattr(settings_model().model_validate({name: value}), name)
        except ValueError:
            assert problems, value
            assert settings == DEFAULTS
        else:
            assert not problems, value
            assert repr(getattr(settings, name)) == repr(wanted)
