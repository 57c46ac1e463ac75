"""What a program reads is still read, and has its shape: literals and calls of Python, TOML, INI and YAML."""

from __future__ import annotations

import ast
import configparser
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.forms import shape as keys_and_lengths
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
