import random

import pytest

from kagura_kernel.kit.redaction.engine import json_documents
from kagura_kernel.kit.redaction.patterns import Text
from kagura_kernel.kit.redaction.spans import leaves_something, said_places, said_regions, says_something, windows

QUIET = b"nothing to be seen on this line\n"
LOUD = b"the password is not here\n"


@pytest.mark.parametrize(
    "line",
    [
        "password", "db_pass=x", "PASS: x", "auth = x", "authorization: x", "OAuth", "session_id=4", "PHPSESSID=4",
        "my-session: x", "x-api-key: 4", "key_1 = 4", "encrypted with x", "crypt('x')", "requirepass x", "sk-x",
        "snmp community x", "sign in", "signIn(x)", "sid=4", 'send "x\\r"', "plink -pw x", "トークン", "密码",
        "пароль", "https://x.test – admin – x",
    ],
)  # fmt: skip
def test_a_word_that_announces_a_secret_is_heard(line):
    assert says_something(line.encode())


@pytest.mark.parametrize(
    "line",
    [
        "authors and an author", "processes. process- done", "    pass", "assessment: 4", "it requires a file",
        "this machine is new", "mask_size", "task-4 risk_", "community.example.com/x", "signing it", "sidebar",
        "await send(frame)", "sub-parsers --path", "crypt is a word", "[x](https://example.com/4) - a title",
    ],
)  # fmt: skip
def test_a_word_that_only_looks_like_one_is_not(line):
    assert not says_something(line.encode())


def test_a_region_reaches_from_three_lines_before_to_five_behind_and_joins_what_touches():
    data = QUIET * 10 + LOUD + QUIET * 20 + LOUD + QUIET * 8 + LOUD + QUIET * 20
    quiet, loud = len(QUIET), len(LOUD)
    first, second = list(said_regions(data))
    assert first == (quiet * 7, quiet * 15 + loud)
    assert second == (quiet * 27 + loud, quiet * 43 + 3 * loud)


@pytest.mark.parametrize("seed", range(8))
def test_regions_are_what_each_line_that_says_something_takes_with_it(seed):
    chance = random.Random(seed)
    lines = [chance.choice((LOUD, *[QUIET] * 9, b"\n", b"x" * 700 + b"\n")) for _ in range(300)]
    data = b"".join(lines)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    taken: set[int] = set()
    for number, line in enumerate(lines):
        if line == LOUD:
            low, high = begins[number] - 2000, begins[number + 1] - 1 + 6000
            taken.update(range(max(0, low, begins[max(0, number - 3)]), min(high, begins[min(len(lines), number + 6)])))
    found = list(said_regions(data))
    assert {at for start, end in found for at in range(start, end)} == taken
    assert found == list(said_regions(Text.of(data), said_places(data)))


def test_what_was_changed_is_looked_at_again_with_the_lines_beside_it_alone():
    data = QUIET * 9
    place = data.index(b"seen", 4 * len(QUIET))
    assert list(windows(data, [(place, place + 4)])) == [(3 * len(QUIET), 7 * len(QUIET))]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (b"password = [REDACTED:password]", False),
        (b"log in as bob, password [REDACTED:sha1-key]", False),
        (b"password = [REDACTED:password] and hunter2", True),
    ],
)
def test_a_line_without_a_digit_outside_markers_has_nothing_left(line, left):
    data = QUIET + line + b"\n" + QUIET + b"4\n"
    start = data.index(b"[REDACTED")
    assert leaves_something(data, (start, data.index(b"]", start) + 1)) is left


def test_documents_are_looked_for_on_the_lines_that_were_changed():
    lines = [b'{"a": 1}\n', b"no document\n", b'{"b": 2}\n', b'{"c": 3}\n']
    data = b"".join(lines)
    b = data.index(b'{"b"')
    assert len(json_documents(data)) == 3
    assert json_documents(data, [(b + 2, b + 3), (b + 4, b + 5)]) == [(b, b + 8)]
