import pytest

from kagura_kernel.domain.errors import PluginInvalid
from kagura_kernel.plugins.configuration import Field, check_value, read_schema

TEXT = {"type": "string", "description": "a text"}
NUMBER = {"type": "number", "description": "a number"}
LIST = {"type": "array", "description": "a list"}


def problems(literal: object) -> str:
    with pytest.raises(PluginInvalid) as raised:
        read_schema(literal, "greeter")
    return "\n".join(raised.value.problems)


def test_a_schema_is_read_in_its_order():
    schema = read_schema(
        {
            "zeta": TEXT | {"promptKey": True, "maxLength": 10, "default": "x"},
            "alpha": NUMBER | {"default": 5, "minimum": 1, "maximum": 10.5},
            "many": LIST | {"items": {"type": "number"}, "default": [1, 2.5]},
            "on": {"type": "boolean", "description": "on or off", "default": False},
        },
        "greeter",
    )
    assert list(schema) == ["zeta", "alpha", "many", "on"]
    assert schema["zeta"] == Field("string", "a text", prompt_key=True, default="x", max_length=10)
    assert schema["alpha"] == Field("number", "a number", default=5, minimum=1, maximum=10.5)
    assert schema["many"] == Field("array", "a list", default=(1, 2.5), items="number")
    assert schema["on"].default is False


def test_an_empty_schema_is_one():
    assert dict(read_schema({}, "greeter")) == {}


def test_who_is_asked():
    assert Field("string", "d").asked
    assert Field("string", "d", prompt_key=True, default="x").asked
    assert not Field("string", "d", default="").asked
    assert not Field("boolean", "d", default=False).asked


def test_all_faults_are_told_at_once():
    told = problems({"a": {"type": "text"}, "b-c": TEXT, "d": TEXT | {"defualt": 1}, 7: TEXT, "e": 5})
    for part in (
        "a: type is one of string, number, boolean, array",
        "a: description is a text",
        "'b-c' is no name for a field",
        "d: there is no key 'defualt', did you mean 'default'?",
        "7 is no name",
        "e: it is no dictionary",
    ):
        assert part in told


@pytest.mark.parametrize("literal", [None, [], "x", 5, set()])
def test_what_is_no_dictionary_is_no_schema(literal):
    assert "no dictionary" in problems(literal)


@pytest.mark.parametrize(
    "field",
    [
        TEXT | {"default": 5},
        TEXT | {"default": "too long", "maxLength": 3},
        NUMBER | {"default": "5"},
        NUMBER | {"default": True},
        NUMBER | {"default": 0, "minimum": 1},
        NUMBER | {"default": float("inf")},
        NUMBER | {"default": float("nan")},
        NUMBER | {"default": 10**400},
        NUMBER | {"minimum": 5, "maximum": 1},
        NUMBER | {"minimum": "1"},
        NUMBER | {"maxLength": 5},
        TEXT | {"minimum": 1},
        TEXT | {"maxLength": 0},
        TEXT | {"maxLength": True},
        TEXT | {"promptKey": "yes"},
        TEXT | {"items": {"type": "string"}},
        TEXT | {"description": "turned \u202e around"},
        TEXT | {"description": "two\nlines"},
        TEXT | {"default": {"a": 1}},
        TEXT | {"default": ["a"]},
        LIST | {"items": "string"},
        LIST | {"items": {"type": "array"}},
        LIST | {"items": {"type": "string", "more": 1}},
        LIST | {"default": "a"},
        LIST | {"default": [1]},
        LIST | {"default": [["a"]]},
        TEXT | {"type": ["string"]},
        TEXT | {b"type": 1},
    ],
)
def test_fields_that_cannot_be(field):
    assert problems({"x": field}).startswith("SCHEMA, x: ")


def test_too_many_fields_are_refused():
    assert "at most 64" in problems({f"f{number}": TEXT for number in range(65)})


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        (Field("string", "d"), "x", ""),
        (Field("string", "d"), 5, "it is a text"),
        (Field("string", "d", max_length=2), "xyz", "it has at most 2 letters"),
        (Field("string", "d"), "a\x00b", "it holds U+0000, which nobody would see"),
        (Field("number", "d", minimum=1.0), 0, "it is at least 1"),
        (Field("number", "d", maximum=10_240_000), 10**9, "it is at most 10240000"),
        (Field("number", "d"), True, "it is a number"),
        (Field("boolean", "d"), True, ""),
        (Field("boolean", "d"), 1, "it is yes or no"),
        (Field("array", "d"), "x", "it is a list"),
        (Field("array", "d"), ("x", "y"), ""),
        (Field("array", "d", items="number"), ("x",), "it is a number"),
        (Field("array", "d"), ("x",) * 300, "it has at most 256 entries"),
        (Field("string", "d"), ("x",), "it is one value, not a list"),
    ],
)
def test_whether_a_value_fits(field, value, why):
    assert check_value(field, value) == why
