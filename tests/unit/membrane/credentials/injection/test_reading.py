from typing import Any

import pytest

from kagura_kernel.membrane.credentials.injection.settings import (
    EnvInjection,
    FileInjection,
    HeaderInjection,
    read_injections,
)

UP = {"upstream": "https://api.example.com"}
SECRET = "ghp_0123456789abcdefghij"


def read(value: Any) -> list[str]:
    found, problems = read_injections(value, "providers.x.inject", ("token",))
    assert found is not None
    assert SECRET not in repr(problems)
    return problems


def test_what_is_not_there_is_left_to_the_kind() -> None:
    assert read_injections(None, "w", ("token",)) == (None, [])


def test_an_empty_list_means_that_it_is_never_used_in_a_box() -> None:
    assert read_injections([], "w", ("token",)) == ((), [])


def test_each_way_can_be_said_alone_or_with_others() -> None:
    found, problems = read_injections(
        [
            UP,
            {"way": "file", "variables": {"F": "{path}"}},
            {"way": "env", "variables": {"T": "{token}"}},
            {"preset": "openai", "upstream": "https://models.example.com/v1/"},
        ],
        "w",
        ("token",),
    )
    assert problems == []
    assert found is not None
    header, file, env, preset = found
    assert header == HeaderInjection(upstream="https://api.example.com")
    assert header.value == "Bearer {token}"
    assert file == FileInjection(way="file", variables={"F": "{path}"})
    assert env == EnvInjection(way="env", variables={"T": "{token}"})
    assert isinstance(preset, HeaderInjection)
    assert preset.upstream == "https://models.example.com/v1"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (SECRET, "it must be a table"),
        ({"way": SECRET}, ".way: it must be one of header, file, env"),
        ({"way": ["header"]}, ".way: it must be one of"),
        ({"way": "header"}, ".upstream: it is missing"),
        (UP | {SECRET[:4]: SECRET}, ".ghp_: there is no such setting"),
        ({"upstream": "http://api.example.com"}, ".upstream: it must be https, except on loopback"),
        ({"upstream": f"https://me:{SECRET}@api.example.com"}, ".upstream: it must not hold a name or password"),
        ({"upstream": "https://api.example.com/?q"}, ".upstream: it must be a plain base URL"),
        (UP | {"header": "Host"}, ".header: it is no header that can carry a credential"),
        (UP | {"header": "a b"}, ".header: it is no header"),
        (UP | {"template": SECRET}, "template: it must hold {token}"),
        (UP | {"template": "{password}"}, "a template names something that there is not"),
        (UP | {"variables": {"URL": "{token}"}}, "a template names something that there is not"),
        (UP | {"variables": {"A B": "{url}"}}, ".variables: a variable's name is made of"),
        (UP | {"basic_user": "a:b"}, "basic_user: it must not hold a colon"),
        (UP | {"addresses": [SECRET]}, ".addresses: each must be an address"),
        ({"way": "file", "name": "../x"}, ".name: "),
        ({"way": "file", "format": "netrc"}, "host and login are needed for netrc"),
        ({"way": "file", "format": "template"}, "a template is needed"),
        ({"way": "file", "format": "aws"}, "a template names something that there is not"),
        ({"way": "file", "variables": {"F": "{url}"}}, "a template names something that there is not"),
        ({"way": "env", "variables": {}}, ".variables: "),
        ({"way": "env", "variables": {"T": "{other}"}}, "a template names something that there is not"),
        ({"preset": SECRET}, ".preset: it must be one of anthropic"),
        ({"preset": "openai", "header": "x"}, ".header: there is no such setting beside a preset"),
        ({"preset": "openai", "upstream": 3}, ".upstream: it must be a text"),
        ({"preset": "openai", "upstream": "http://example.com"}, ".upstream: it must be https"),
    ],
)
def test_what_is_wrong_is_told_without_its_value(value: Any, problem: str) -> None:
    assert any(problem in told and told.startswith("providers.x.inject") for told in read(value)), read(value)


def test_all_problems_of_all_tables_are_told_with_their_number() -> None:
    problems = read([{"way": "header"}, UP, {"preset": "none"}])
    assert [problem.split(":")[0] for problem in problems] == [
        "providers.x.inject.0.upstream",
        "providers.x.inject.2.preset",
    ]
