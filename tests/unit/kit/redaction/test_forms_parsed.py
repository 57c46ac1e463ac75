"""What a program reads is still read, and has its shape: literals and calls of Python, TOML, INI and YAML."""

import ast
import configparser
import json
import tomllib
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
import yaml
from hypothesis import HealthCheck, given, strategies as st

from tests.support.effort import examples
from tests.support.redaction_corpus import SECRETS
from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.forms import shape as keys_and_lengths
from tests.support.redaction_corpus.judging import gone
from tests.support.redaction_corpus.values import VALUES
from tests.support.redactors import shared_redactor

# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    120,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
NAME = st.sampled_from(
    ["password", "passphrase", "Passwort", "api_key", "db_password", "token", "secret", "note", "user"]
)
STRONG = st.sampled_from(
    ["Zq8mKx2vRt", "Kd83!jskQ9z", "K7fQz9Lm2xPv4Rt8Wb3Yn6Hc1", "Sommer-Regen-4711!", "a9'X2kd8Q!", 'b7"Qd82kz!Q']
)
WORDS = st.sampled_from(
    [
        "{}",
        "password: {}",
        "X-Api-Key: {}",
        "the password is {}",
        "密码是{}",
        "パスワードは{}",
        "pw {} for bob",
        "a {} b",
        "key={}&x=1",
    ]
)
SAID = st.builds(lambda words, value: words.format(value), WORDS, STRONG)
NUMBER = st.sampled_from([70087697, 987860707, 48151623, 7, 2.5, True])
VALUE = st.one_of(SAID, NUMBER)
FLAT = st.dictionaries(NAME, VALUE, min_size=1, max_size=4)
NESTED: st.SearchStrategy[Any] = st.recursive(
    VALUE, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAME, inner, max_size=3)), max_leaves=8
)
CALL = st.builds(
    lambda name, before, value, after: f"{name}({before}{value!r}{after})\n",
    st.sampled_from(["print", "note", "x = run", "client.login", "return_value = f"]),
    st.sampled_from(["", "1, ", "'bob', ", "*rest, "]),
    st.one_of(SAID, NESTED),
    st.sampled_from(["", ", flush=True", ", 'https://example.net/v1'", ", {'password': 70087697}"]),
)


def shape(value: Any) -> Any:
    """What it is made of, without what its texts and numbers say."""
    if isinstance(value, dict):
        return [shape(one) for one in value.values()]
    if isinstance(value, list):
        return [shape(one) for one in value]
    return "value"


def python_shape(text: str) -> list[str]:
    """The kinds of nodes of a program; a number that was one is a text now."""
    return [type(node).__name__ for node in ast.walk(ast.parse(text))]


@EXAMPLES
@given(CALL)
def test_a_call_of_python_keeps_its_shape(text):
    assert python_shape(shared_redactor().redact(text).text) == python_shape(text)


@EXAMPLES
@given(NESTED, st.sampled_from(["", "d = ", "settings = "]))
def test_a_literal_of_python_keeps_its_shape(value, before):
    text = f"{before}{value!r}\n"
    assert python_shape(shared_redactor().redact(text).text) == python_shape(text)


def toml(values: dict[str, Any]) -> str:
    """These values, a line each, with texts in the quotes that they have not in them."""
    return "".join(f'"{name}" = {toml_value(value)}\n' for name, value in values.items())


def toml_value(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return str(value).lower()


@EXAMPLES
@given(FLAT, st.sampled_from(["", "settings.toml"]))
def test_toml_keeps_its_shape(values, name):
    text = toml(values)
    data = (
        shared_redactor().redact_file(text.encode(), name).data
        if name
        else shared_redactor().redact(text).text.encode()
    )
    assert data is not None
    assert list(tomllib.loads(data.decode())) == list(tomllib.loads(text))


@EXAMPLES
@given(FLAT)
def test_ini_keeps_its_shape(values):
    text = "[main]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    clean = configparser.RawConfigParser()
    clean.read_string(shared_redactor().redact(text).text)
    assert list(clean["main"]) == [name.lower() for name in values]


@EXAMPLES
@given(NESTED.filter(lambda value: isinstance(value, dict) and len(value) > 1), st.sampled_from(["", "values.yaml"]))
def test_yaml_keeps_its_shape(values, name):
    text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
    data = (
        shared_redactor().redact_file(text.encode(), name).data
        if name
        else shared_redactor().redact(text).text.encode()
    )
    assert data is not None
    assert shape(yaml.safe_load(data)) == shape(yaml.safe_load(text))


SHELL = (
    ("curl -H 'X-Api-Key: {}' https://example.net/v1 -o f\n", "K7fQz9Lm2xPv4Rt8Wb3Yn6Hc1"),
    ("curl -H 'X-Auth: {}' https://example.net/v1 -o f\n", "Zq8mKx2vRt"),
    ('curl -H "X-Api-Key: {}" https://example.net/v1\n', "K7fQz9Lm2xPv4Rt8Wb3Yn6Hc1aB3dE7gHh5Tr9Ui2"),
    ("curl --header 'PRIVATE-TOKEN: {}' https://example.net/api | jq .\n", "K7fQz9Lm2xPv4Rt8Wb3Yn6Hc1"),
    ("http GET https://example.net/v1 'X-Api-Key: {}' page==2\n", "K7fQz9Lm2xPv4Rt8Wb3Yn6Hc1"),
    ("run(\"curl -H 'X-Auth: {}' https://example.net/v1\", check=True)\n", "Zq8mKx2vRt"),
    ("print('password: {}', flush=True)\n", "Zq8mKx2vRt"),
    ("t = '密码是{}'\n", "Zq8mKx2vRt"),
    ("note('パスワードは{}')\n", "Zq8mKx2vRt"),
    ('"k" = "密码是{}"\n', "Zq8mKx2vRt"),
    ("d = {{'passphrase': '{}'}}\n", "Zq8mKx2vRt"),
    ("mount -t cifs //h/s /mnt -o username=bob,password={},uid=1000,vers=3.0\n", "Zq8mKx2vRt"),
    ("//h/s /mnt cifs username=bob,password={},rw,noauto 0 0\n", "Zq8mKx2vRt"),
    (
        "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={};EntityPath=q\n",
        "Zq8mKx2vRt9Lm2xPv4Rt8Wb3Yn6Hc1Jd5Gs0aBcDeF8=",
    ),
    ("<auth-user-pass>\nbob.miller\n{}\n</auth-user-pass>\n", "Zq8mKx2vRt"),
    (
        "post it to https://discord.com/api/webhooks/112233445566778899/{} please\n",
        "Zq8mKx2vRt9Lm2xPv4Rt8Wb3Yn6Hc1Jd5Gs0aBcDeF8Zq8mKx2vRt9Lm2xPv4Rt8Wb3",
    ),
)


@pytest.mark.parametrize(("form", "value"), SHELL, ids=range(len(SHELL)))
def test_the_rest_of_the_line_stays(form, value):
    before, after = form.format("\x00").split("\x00")
    clean = shared_redactor().redact(form.format(value)).text
    assert clean.startswith(before + "[REDACTED:")
    assert clean.endswith("]" + after)


NUMBERS = (
    ("d = {'passphrase': 70087697}\n", "d = {'passphrase': '[REDACTED:password]'}\n"),
    ('{"Passwort": 86612345, "x": y}\n', '{"Passwort": "[REDACTED:password]", "x": y}\n'),
    ('"password" = 987860707\n', '"password" = "[REDACTED:password]"\n'),
    ("x = \"{'password': 70087697}\"\n", "x = \"{'password': '[REDACTED:password]'}\"\n"),
)


@pytest.mark.parametrize(("text", "clean"), NUMBERS, ids=range(len(NUMBERS)))
def test_a_number_behind_a_name_in_quotes_becomes_a_text(text, clean):
    assert shared_redactor().redact(text).text == clean


def test_a_plain_value_in_a_document_of_yaml_becomes_a_text_without_the_name_of_a_file():
    text = "user: bob\ndb:\n  - password: Zq8mKx2vRt\n    port: 5432\n"
    clean = shared_redactor().redact(text).text
    assert yaml.safe_load(clean) == {"user": "bob", "db": [{"password": "[REDACTED:password]", "port": 5432}]}


SIGNED = (
    "https://shop.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}/20260101/eu-west-1/s3/aws4_request"
    "&X-Amz-Date=20260101T000000Z&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Signature={}"
)


FLY = VALUES["fly"](Chance(3))
ONE_LINE_KEY = VALUES["rsa-one-line"](Chance(3))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param(
            "a:\n- |\n  password=Zq8mKx2vRt\u2028- b\n", "Zq8mKx2vRt", id="a line ended by Unicode's separator"
        ),
        pytest.param("a:\n  b: |\n    password=Zq8mKx2vRt\x85  c: 1\n", "Zq8mKx2vRt", id="a line ended by NEL"),
        pytest.param(f"{{'a': '{ONE_LINE_KEY}', 'apiKey': {{}}}}\n", ONE_LINE_KEY, id="a name behind a private key"),
        pytest.param(f"'a': '{ONE_LINE_KEY}'\n'apiKey': 1\n", ONE_LINE_KEY, id="a name below a private key"),
        pytest.param(
            'a: ["<password>", !!float "5.712013e-42", "</password>"]\n', "5.712013", id="a number with a tag"
        ),
        pytest.param(
            'a:\n- |\n  <password>Kavaluwenur9073\n- !!float |-\n  5.712013\n- "</password>"\n',
            "5.712013",
            id="a tag before a block",
        ),
        pytest.param(f"{{a: ['\n\n  one word`', {FLY}]}}\n", FLY, id="brackets over lines"),
    ],
)
def test_yaml_of_rare_shapes_keeps_its_names_and_its_shape(text, secret):
    done = shared_redactor().redact_file(text.encode(), "values.yaml")
    assert done.data is not None
    assert keys_and_lengths(yaml.safe_load(done.data)) == keys_and_lengths(yaml.safe_load(text))
    assert secret.encode() not in done.data
    without_a_name = shared_redactor().redact(text).text
    assert yaml.safe_load(without_a_name)
    assert secret not in without_a_name


def test_one_character_written_as_an_escape_is_no_secret():
    text = '"recovery-code": 1\n"b": "\\U0003FAE6 c \\U0007158E"\n'
    assert shared_redactor().redact_file(text.encode(), "values.yaml").data == text.encode()


def test_of_a_signed_address_only_the_key_and_the_signature_go():
    text = SIGNED.format("AKIAIJSNT47AQ5QZ7XBQ", "3f2a91bc04de5678" * 3 + "9a8b7c6d5e4f3021")
    assert shared_redactor().redact(text).text == SIGNED.format("[REDACTED:aws]", "[REDACTED:query]")


# Many examples beside other work take longer than one test usually may.

EXAMPLES_OF_FORMS_JSON = examples(
    60,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
PLANTED = st.sampled_from([one for one in SECRETS if one.form not in {"json", "ipynb"}])
WORD = "Kd83!jskQ2"


def redact(text: str) -> str:
    return shared_redactor().redact(text).text


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string that is a value, and where it stands."""
    match value:
        case dict():
            for name, part in value.items():
                yield from strings(part, f"{place}/{name}")
        case list():
            for number, part in enumerate(value):
                yield from strings(part, f"{place}/{number}")
        case str():
            yield place, value


def keeps_its_shape(before: Any, after: Any) -> bool:
    """Whether the same strings stand at the same places, with as many lines, and no line end lost at their ends."""
    pairs = list(zip(strings(before), strings(after), strict=True))
    return all(
        one == other and text.count("\n") == left.count("\n") and left.endswith("\n") >= text.endswith("\n")
        for (one, text), (other, left) in pairs
    )


def notebook(text: str, *, printed: bool) -> dict[str, Any]:
    """A notebook with a text as a cell's source, or as what it printed, in lines as nbformat writes them."""
    lines = text.splitlines(keepends=True)
    head, tail = ["import os\n", "x = 1\n"], ["\n", "print(x)"]
    cell = {
        "cell_type": "code",
        "execution_count": 1,
        "id": "a1",
        "metadata": {},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": lines if printed else ["x\n"]}],
        "source": [*head, *([] if printed else lines), *tail],
    }
    note = {"cell_type": "markdown", "id": "b2", "metadata": {}, "source": ["done\n", "and more"]}
    return {"cells": [cell, note], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@EXAMPLES_OF_FORMS_JSON
@given(PLANTED, st.sampled_from([None, 0, 1, 2]), st.booleans(), st.booleans())
def test_a_notebook_keeps_its_cells_its_lines_and_their_ends(planted, indent, ascii_only, printed):
    book = notebook(planted.text, printed=printed)
    done = shared_redactor().redact_file(
        json.dumps(book, indent=indent, ensure_ascii=ascii_only).encode(), "book.ipynb"
    )
    assert done.data is not None
    left = json.loads(done.data)
    assert keeps_its_shape(book, left)
    nbformat.validate(nbformat.from_dict(left))
    assert left["cells"][0]["source"][:2] == ["import os\n", "x = 1\n"]
    assert left["cells"][0]["source"][-2:] == ["\n", "print(x)"]
    assert left["cells"][1] == book["cells"][1]


@EXAMPLES_OF_FORMS_JSON
@given(PLANTED, st.sampled_from([None, 1]), st.booleans(), st.booleans())
def test_what_is_gone_from_a_text_is_gone_from_the_notebook_that_holds_it(planted, indent, ascii_only, printed):
    left = json.loads(
        redact(json.dumps(notebook(planted.text, printed=printed), indent=indent, ensure_ascii=ascii_only))
    )
    cell = left["cells"][0]
    body = "".join(cell["outputs"][0]["text"] if printed else cell["source"][2:-2])
    assert gone(planted, body) or not gone(planted, redact(planted.text))


@EXAMPLES_OF_FORMS_JSON
@given(
    PLANTED,
    st.sampled_from(["{}", "{}\n", "\n{}\n\n", "{}\\", "{}\\\\", '"{}"', "a\t{}\r\n", "é{}é"]),
    st.sampled_from(["password", "log", "x", "token", "a b"]),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_a_secret_in_any_string_leaves_the_document_its_shape(planted, around, name, indent, ascii_only):
    text = around.format(planted.text)
    document = {
        "n": [1, None, True],
        name: text,
        "list": ["one\n", text, "two\n"],
        "in": {"deep": [[text]]},
        "end": "é",
    }
    left = json.loads(redact(json.dumps(document, indent=indent, ensure_ascii=ascii_only)))
    assert keeps_its_shape(document, left)
    assert (left["n"], left["end"], left["list"][0], left["list"][2]) == (document["n"], "é", "one\n", "two\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WORD + "\\", "[REDACTED:password]"),
        (WORD + '"x', "[REDACTED:password]"),
        (WORD + "\n", "[REDACTED:password]\n"),
        (WORD + "\nKd84!jskQ3\n", "[REDACTED:password]\n[REDACTED:password]\n"),
    ],
)
def test_a_whole_value_is_gone_with_its_escapes_but_for_the_ends_of_lines(before, after):
    assert json.loads(redact(json.dumps({"password": before, "b": "\\"}))) == {"password": after, "b": "\\"}


def test_a_value_that_ends_a_line_ends_there():
    lines = ["[client]\n", f"password = {WORD}\n", "host = db.internal\n", "port = 3306\n"]
    left = json.loads(redact(json.dumps({"text": lines}, indent=1)))
    assert left["text"] == [lines[0], "password = [REDACTED:password]\n", *lines[2:]]


def test_a_backslash_that_is_part_of_the_document_stays():
    text = json.dumps({"path": f"C:\\x\\{WORD}", "log": f"password={WORD}\\"})
    assert json.loads(redact(text))["log"].startswith("password=[REDACTED:password]")
    assert json.loads(redact(text))["path"] == f"C:\\x\\{WORD}"


def test_a_secret_with_escaped_letters_is_gone_and_no_escape_is_cut():
    text = json.dumps({"log": 'say "hi"\npassword: "Grüße+7é9"\nnext'}, ensure_ascii=True)
    left = json.loads(redact(text))["log"]
    assert left == 'say "hi"\npassword: "[REDACTED:password]"\nnext'


def test_colours_in_the_traceback_of_a_notebook_stay_and_hide_nothing():
    line = "\x1b[0;31mValueError\x1b[0m: token=\x1b[1mghp_wWPw5k4aXcaT4f\x1b[0mNP0UcnZwJUVFk6LO0pINUx\x1b[0m\n"
    left = json.loads(redact(json.dumps({"traceback": [line, "x\n"]})))["traceback"][0]
    assert left.startswith("\x1b[0;31mValueError\x1b[0m: token=\x1b[1m[REDACTED:")
    assert left.endswith("m[REDACTED:github-pat]\x1b[0m\n")


def test_lines_that_are_each_a_document_stay_documents():
    rows = [{"n": number, "msg": f"password={WORD}\nnext", "z": "\\"} for number in range(5)]
    left = redact("".join(json.dumps(row) + "\n" for row in rows))
    assert [json.loads(line) for line in left.splitlines()] == [
        {"n": number, "msg": "password=[REDACTED:password]\nnext", "z": "\\"} for number in range(5)
    ]
