"""Lines with something before each of them: mails, diffs, logs, listings, comments. What stands there stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kagura_kernel.kit.redaction.visible import without_prefixes
from tests.support.effort import examples
from tests.support.redaction_corpus import SECRETS
from tests.support.redaction_corpus.judging import gone
from tests.support.redactors import shared_redactor

# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    80,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
Prefix = Callable[[int], str]
PREFIXES: dict[str, Prefix] = {
    "a mail": lambda _: "> ",
    "a mail in a mail": lambda _: ">> ",
    "an added line": lambda _: "+",
    "a removed line": lambda _: "-",
    "a line of a diff that stays": lambda number: " " if number else "+",
    "grep": lambda number: f"deploy/app.conf:{number + 12}:",
    "grep of one file": lambda number: f"{number + 7}:",
    "cat -n": lambda number: f"{number + 1:6}\t",
    "a listing": lambda number: f"{number + 98:6}→",
    "bat": lambda number: f"{number + 1:4} │ ",
    "a time": lambda number: f"2026-03-04T11:02:{number % 60:02}.123Z ",
    "a time and a level": lambda number: f"2026-03-04 11:02:{number % 60:02},123 INFO  ",
    "a time in brackets": lambda number: f"[11:02:{number % 60:02}] [worker-3] ",
    "syslog": lambda number: f"Mar  4 11:02:{number % 60:02} web-1 app[4121]: ",
    "a log of Kubernetes": lambda number: f"I0304 11:02:{number % 60:02}.123456    4121 server.go:81] ",
    "a pod": lambda _: "[pod/web-7d9f8-x2k4l/app] ",
    "a container's log": lambda number: f"2026-03-04T11:02:{number % 60:02}.123456789Z stdout F ",
    "compose": lambda _: "web_1  | ",
    "a job": lambda number: f"build\tRun tests\t2026-03-04T11:02:{number % 60:02}.1234567Z ",
    "a comment": lambda _: "# ",
    "a comment with slashes": lambda _: "// ",
    "a comment with stars": lambda _: " * ",
    "a box": lambda _: "│ ",
}
PREFIX = st.sampled_from(sorted(PREFIXES))
SINGLE = st.sampled_from([one for one in SECRETS if all("\n" not in piece for piece in one.pieces)])
BODY = "\n".join("MIIEpAIBAAKCAQEA7v1Kd83jskQ1LmN0pQrStUvWxYz01234kd93jdAbCdEfGh" + letter for letter in "ABCDEFGH")
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\n"
LONG = [
    pytest.param(KEY, BODY.split("\n"), id="a key"),
    pytest.param(f"(from the page before)\n{BODY}\n-----END RSA PRIVATE KEY-----\n", BODY.split("\n"), id="a cut key"),
    pytest.param("password: |\n  Kd83!jskQ\nuser: app\n", ["Kd83!jskQ"], id="a block of YAML"),
    pytest.param(
        "kind: Secret\nmetadata:\n  name: x\ndata:\n  a: a2QzamRrcTE=\n  b: WngyOWRrIXE=\n",
        ["a2QzamRrcTE=", "WngyOWRrIXE="],
        id="a manifest",
    ),
    pytest.param("machine api.host\n  login bob\n  password kd93mslq\n", ["kd93mslq"], id="a netrc"),
    pytest.param("- name: DB_PASSWORD\n  value: Kd83jskQ\n", ["Kd83jskQ"], id="a pair"),
    pytest.param(
        'token = (\n    "ghp_wWPw5k4aXcaT4f"\n    "NP0UcnZwJUVFk6LO0pINUx"\n)\n',
        ["ghp_wWPw5k4aXcaT4f", "NP0UcnZwJUVFk6LO0pINUx"],
        id="literals",
    ),
    pytest.param("Recovery codes:\n\n8kd3-92ks\nx9d2-k3lq\n", ["8kd3-92ks", "x9d2-k3lq"], id="codes"),
]


def redact(text: str) -> str:
    return shared_redactor().redact(text).text


def prefixed(text: str, prefix: Prefix) -> str:
    return "".join(prefix(number) + line for number, line in enumerate(text.splitlines(keepends=True)))


def keeps_its_prefixes(text: str, left: str, prefix: Prefix) -> bool:
    """Whether there are as many lines as before, each behind its own prefix."""
    lines = left.splitlines()
    return len(lines) == len(text.splitlines()) and all(
        line.startswith(prefix(number).rstrip()) for number, line in enumerate(lines)
    )


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize(("text", "secrets"), LONG)
def test_a_secret_of_many_lines_is_gone_and_what_stands_before_each_line_stays(text, secrets, name):
    left = redact(prefixed(text, PREFIXES[name]))
    assert [secret for secret in secrets if secret in left] == []
    assert keeps_its_prefixes(text, left, PREFIXES[name])
    assert redact(left) == left


@EXAMPLES
@given(SINGLE, PREFIX)
def test_a_prefix_hides_no_secret_and_is_not_taken_with_it(planted, name):
    left = redact(prefixed(planted.text, PREFIXES[name]))
    assert keeps_its_prefixes(planted.text, left, PREFIXES[name])
    assert gone(planted, left) or not gone(planted, redact(planted.text))


@pytest.mark.parametrize(
    "text",
    [
        "# Passwords\n\nThe password must be at least 8 characters long.\n",
        "> how do I reset my password?\n> the token has expired\nUse the link.\n",
        "+    def login(user: str, password: str) -> None:\n-    def login(user: str, token: str) -> None:\n",
        "12:password=changeme\n13:token=${TOKEN}\n",
        "2026-03-04 11:02:51 INFO  the password of ada was changed\n2026-03-04 11:02:52 INFO  token refreshed\n",
        "| name | password |\n|---|---|\n| ada | (none) |\n",
    ],
)
def test_prefixes_make_no_secret_of_what_is_none(text):
    assert redact(text) == text


def test_codes_that_look_like_numbers_of_lines_go_whole():
    left = redact("Recovery codes:\n1234-8kd3\n5678-x9d2\n9012-p3lq\n")
    assert left == "Recovery codes:\n" + "[REDACTED:recovery-code]\n" * 3


def test_only_blocks_that_say_something_are_looked_at_again():
    data = b"# a note\n# of two lines\nx = 1\n# the password\n# is here\n"
    found = without_prefixes(data, [(0, len(data))])
    assert found is not None
    assert found.view.data.startswith(b"the password\nis here\n")
    assert without_prefixes(b"x = 1\npassword = 2\n", [(0, 19)]) is None


def test_a_block_is_followed_over_a_key_and_no_further():
    tail = "web_1  | and then the next request came in\n" * 300
    data = (prefixed(KEY, PREFIXES["compose"]) + tail).encode()
    found = without_prefixes(data, [(0, data.find(b"\n") + 1)])
    assert found is not None
    assert BODY.encode() in found.view.data
    assert found.view.data.count(b"next request") < 150
