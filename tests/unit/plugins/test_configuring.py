import pytest

from kagura_kernel.domain.errors import PluginNotConfigured
from kagura_kernel.plugins.configuration import (
    Field,
    Question,
    as_words,
    complete,
    parse_answer,
    parse_inline,
    questions,
    read_schema,
    shown,
    silent_summary,
)

SCHEMA = read_schema(
    {
        "baseDir": {"type": "string", "description": "where", "promptKey": True},
        "maxSize": {"type": "number", "description": "how large", "default": 1024, "minimum": 1, "maximum": 9999},
        "loud": {"type": "boolean", "description": "whether", "default": False, "promptKey": True},
        "hosts": {"type": "array", "description": "which", "default": ["a.example", "b.example"]},
        "must": {"type": "string", "description": "what"},
    },
    "greeter",
)


def test_inline_words_become_values():
    words = ["baseDir=/data/with blank", "maxSize=5", "loud=y", "hosts=x, y", "must=a=b"]
    assert parse_inline(words, SCHEMA, "greeter") == {
        "baseDir": "/data/with blank",
        "maxSize": 5,
        "loud": True,
        "hosts": ("x", "y"),
        "must": "a=b",
    }


def test_all_that_is_wrong_inline_is_told_at_once():
    with pytest.raises(PluginNotConfigured) as raised:
        parse_inline(["baseDri=/x", "maxSize=big", "loud", "must=1", "must=2", "zzz=1", "hosts"], SCHEMA, "greeter")
    told = "\n".join(raised.value.problems)
    for part in (
        "there is no field 'baseDri', did you mean 'baseDir'?",
        "maxSize: 'big' is no number",
        "'loud' is no NAME=VALUE",
        "must: it is given twice",
        "there is no field 'zzz' (it has baseDir, maxSize, loud, hosts, must)",
    ):
        assert part in told
    assert raised.value.plugin == "greeter"


@pytest.mark.parametrize("text", ["y", "Y", "yes", "TRUE", "1", "on", " y "])
def test_yes(text):
    assert parse_answer(SCHEMA["loud"], text) is True


@pytest.mark.parametrize("text", ["n", "No", "false", "0", "off"])
def test_no(text):
    assert parse_answer(SCHEMA["loud"], text) is False


def test_neither_yes_nor_no_is_no_answer():
    with pytest.raises(ValueError, match="neither yes nor no"):
        parse_answer(SCHEMA["loud"], "maybe")


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("+7", 7), ("2.5", 2.5), (".5e3", 500.0), (" 9 ", 9)])
def test_numbers(text, number):
    value = parse_answer(SCHEMA["maxSize"], text)
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize("text", ["five", "1_000", "nan", "inf", "0x10", "٣", "1e999", "0", "10000", "1,5", "9" * 500])
def test_what_is_no_number_or_does_not_fit_is_told(text):
    with pytest.raises(ValueError, match=r"is no number|it is"):
        parse_answer(SCHEMA["maxSize"], text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a,b", ("a", "b")),
        ("[a, b]", ("a", "b")),
        ('["a,1", "b"]', ("a,1", "b")),
        ("[]", ()),
        (" a ,, b, ", ("a", "b")),
        ("[a", ("[a",)),
    ],
)
def test_lists_with_commas_and_with_or_without_brackets(text, items):
    assert parse_answer(SCHEMA["hosts"], text) == items


def test_a_list_of_numbers_holds_numbers():
    field = Field("array", "d", items="number")
    assert parse_answer(field, "[1, 2.5]") == (1, 2.5)
    with pytest.raises(ValueError, match="'x' is no number"):
        parse_answer(field, "1,x")


def test_an_empty_answer_takes_the_default_or_is_none():
    assert parse_answer(SCHEMA["maxSize"], "") == 1024
    assert parse_answer(SCHEMA["loud"], "  ") is False
    with pytest.raises(ValueError, match="it needs a value"):
        parse_answer(SCHEMA["must"], "")


def test_a_value_that_is_given_empty_is_empty():
    assert parse_inline(["baseDir="], SCHEMA, "greeter") == {"baseDir": ""}


def test_a_person_is_asked_for_prompt_keys_and_for_what_has_no_default():
    assert [question.name for question in questions(SCHEMA, {})] == ["baseDir", "loud", "must"]
    assert questions(SCHEMA, {"baseDir": "/x", "must": "y"}) == [Question("loud", SCHEMA["loud"], "n")]


def test_defaults_are_shown_as_they_are_typed():
    schema = read_schema(
        {
            "a": {"type": "array", "description": "d", "default": ["x", "y"], "promptKey": True},
            "n": {"type": "number", "description": "d", "default": 2.0, "promptKey": True},
            "b": {"type": "boolean", "description": "d", "default": True, "promptKey": True},
            "s": {"type": "string", "description": "d"},
        },
        "greeter",
    )
    assert [question.shown_default for question in questions(schema, {})] == ["[x, y]", "2", "y", ""]


def test_a_complete_configuration_has_every_field_and_names_what_was_silent():
    configured = complete(SCHEMA, {"baseDir": "/x", "must": "y", "loud": True}, "greeter")
    assert list(configured.values) == list(SCHEMA)
    assert configured.values["maxSize"] == 1024
    assert configured.silent == ("maxSize", "hosts")
    assert silent_summary(configured) == (
        "2 settings have their defaults: maxSize=1024, hosts=[a.example, b.example]. NAME=VALUE sets another."
    )


def test_nothing_silent_needs_no_words():
    schema = read_schema({"must": {"type": "string", "description": "what"}}, "greeter")
    assert silent_summary(complete(schema, {"must": "x"}, "greeter")) == ""


def test_what_is_missing_wrong_or_unknown_is_told_at_once():
    with pytest.raises(PluginNotConfigured) as raised:
        complete(SCHEMA, {"maxSize": 0, "hosts": "x", "lout": True}, "greeter")
    assert raised.value.missing == ("baseDir", "must")
    told = "\n".join(raised.value.problems)
    for part in ("baseDir: it needs a value (where)", "maxSize: it is at least 1", "hosts: it is a list", "'lout'"):
        assert part in told


def test_passwords_are_not_shown():
    values = {
        "url": "postgresql://me:hunter2@db.example/x?sslmode=require&password=hunter2",
        "odd": "postgresql://me:hun@ter/2@db.example/x",
        "dsn": "host=db.example password=hunter2 user=me",
        "apiToken": "hunter2",
        "hosts": ("https://u:hunter2@example.com", "plain.example"),
        "size": 5,
        "loud": False,
    }
    told = shown(values)
    assert not any("hun" in text or "ter2" in text for text in told.values())
    assert told["url"] == "postgresql://me:***@db.example/x?sslmode=require&password=***"
    assert told["hosts"] == "[https://u:***@example.com, plain.example]"
    assert (told["size"], told["loud"]) == ("5", "n")


def test_what_holds_no_password_is_shown_as_it_is():
    values = {"url": "https://example.com:8443/a@b", "mail": "a@b.example", "path": "/data/x:y"}
    assert shown(values)["mail"] == "a@b.example"
    assert shown(values)["path"] == "/data/x:y"


def test_masking_takes_no_longer_for_a_text_that_was_made_for_it():
    # Quadratic, this would take minutes.
    assert shown({"x": "://a:" * 100_000})["x"].startswith("://a:")


def test_values_become_words_that_mean_the_same_again_without_those_that_hold_a_secret():
    given = {"baseDir": "/data/a b", "maxSize": 2.5, "loud": True, "hosts": ("a,1", "b"), "must": "x=y"}
    assert parse_inline(as_words(given), SCHEMA, "greeter") == given
    assert as_words({"baseDir": "https://me:hunter2@example.com", "maxSize": 5}) == ("maxSize=5",)
