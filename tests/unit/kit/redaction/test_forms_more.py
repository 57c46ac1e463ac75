"""Further places where a secret stands: tables, jars, managers, options and keys of services."""

import pytest

from tests.support.redactors import shared_redactor

UUID = "8f3b2c1d-4e5f-6071-8293-a4b5c6d7e8f9"
LONG = "Zq8mKx2vRt9Lm2xPv4Rt8Wb3"
FOUND = {
    "a name and a number and a name": ("pw for the router: {}\n", "Falke2481Turm"),
    "the same in Chinese": ("密码是{}，请保存\n", "Falke2481Turm"),
    "a key of LaunchDarkly": ("flags({})\n", f"sdk-{UUID}"),
    "a key of HubSpot": ("hubspot {}\n", f"pat-eu1-{UUID}"),
    "a key of Sonar": ("sonar {}\n", "sqp_3f2a91bc04de56783f2a91bc04de56783f2a91bc"),
    "setx for the machine": ('setx DB_PASSWORD "{}" /M\n', "Zq8mKx2vRt"),
    "cookies of a call": ("get(url, cookies={{'session': '{}'}})\n", LONG),
    "a jar of cookies": ("#HttpOnly_.example.net\tTRUE\t/\tTRUE\t1893456000\tsession\t{}\n", LONG),
    "a column of a table": (
        "<tr><th>User</th><th>Password</th></tr>\n<tr><td>bob</td><td>{}</td></tr>\n",
        "Zq8mKx2vRt",
    ),
    "KeePass": ('<String><Key>Password</Key><Value ProtectInMemory="True">{}</Value></String>\n', "Zq8mKx2vRt"),
    "a user of Oracle": ("CREATE USER bob IDENTIFIED BY {};\n", "Zq8mKx2vRt"),
    "a token before x-oauth-basic": ("git+https://{}:x-oauth-basic@github.com/a/b.git\n", LONG),
    "brackets of Japanese": ("仮パスワード【{}】\n", "Zq8mKx2vRt"),
    "a sentence of Japanese": ("APIキーは {} です\n", LONG),
    "the default of an option": ("parser.add_argument('--token', default='{}')\n", LONG),
}


@pytest.mark.parametrize(("form", "value"), FOUND.values(), ids=FOUND)
def test_the_secret_goes_and_the_rest_stays(form, value):
    before, after = form.format("\x00").split("\x00")
    clean = shared_redactor().redact(form.format(value)).text
    assert clean.startswith(before + "[REDACTED:")
    assert clean.endswith("]" + after)


def test_a_literal_below_a_comment_is_no_part_of_the_secret_in_it():
    text = "cases = [\n    # login with password='{}'\n    'alice',\n"
    clean = shared_redactor().redact(text.format("hunter2x9K!")).text
    assert clean == text.format("[REDACTED:password]")


@pytest.mark.parametrize(
    "text",
    [
        "const DB_PASSWORD = '{}'\n  'pending'\n",
        "+apiKey = '{}'\n 'Zürich',\n+name = 'x'\n",
        "y = (password='{}'\n     'list of words')\n",
    ],
)
def test_a_literal_of_words_on_the_next_line_is_no_part_of_the_secret(text):
    clean = shared_redactor().redact(text.format("hunter2x9K!")).text
    assert clean.partition("\n")[2] == text.partition("\n")[2]
    assert "hunter2" not in clean


def test_what_a_list_of_literals_is_together_is_found():
    clean = shared_redactor().redact("x = ''.join(['glpat-Ab', 'cd3fGh7jKl9mNp2q'])\n").text
    assert clean == "x = ''.join(['[REDACTED:gitlab]', '[REDACTED:gitlab]'])\n"


HARMLESS = (
    "<tr><th>Password</th><th>Length</th></tr><tr><td>required</td><td>8</td></tr>\n",
    "parser.add_argument('--token', default='')\n",
    "parser.add_argument('--token-file', default='/run/token2')\n",
    "CREATE USER bob IDENTIFIED BY :password;\n",
    "cookies={'theme': 'dark'}\n",
    "sdk-8f3b2c1d-4e5f-6071\n",
)


@pytest.mark.parametrize("text", HARMLESS, ids=range(len(HARMLESS)))
def test_what_stands_in_such_a_place_and_is_none_stays(text):
    assert shared_redactor().redact(text).text == text
