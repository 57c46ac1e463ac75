"""Values that chance drew, behind a name that says secret, beside words and names that look a little like them."""

import json
import random
import string
import threading

import pytest

from kagura_kernel.kit.redaction import chance, patterns
from kagura_kernel.kit.redaction.chance import CODE, NAMED, SAID, drawn, once, remembered
from kagura_kernel.kit.redaction.patterns import Lazy, shortened, ungrouped
from kagura_kernel.kit.redaction.redactor import Redactor
from tests.support.redactors import shared_redactor

LETTERS = string.ascii_letters
ALPHABETS = {
    "lower case": string.ascii_lowercase,
    "upper case": string.ascii_uppercase,
    "both cases": LETTERS,
    "lower case and digits": string.ascii_lowercase + string.digits,
    "letters and digits": LETTERS + string.digits,
    "hex": "0123456789abcdef",
    "base64": LETTERS + string.digits + "+/",
    "letters, digits and signs": LETTERS + string.digits + "!@#%^*-_=+.?",
}
CARRIERS = {
    "environment": "DB_PASSWORD={}\n",
    "JSON": '{{"user": "mira", "password": "{}"}}\n',
    "YAML": "db:\n  password: {}\n  port: 5432\n",
    "source": 'PASSWORD = "{}"\n',
    "prose": "The password is {} for now.\n",
}
MOST_LEFT = {8: 0.15, 12: 0.08, 20: 0.03}
"""The share of values that may stay, by their length; each is measured on forty."""
MANY = 40
FIRST_SIGNS = "!#$%*+-.:<?@^_~()[]{}"
NAMES_AND_WORDS = (
    *(
        "required",
        "keyboard",
        "workflow",
        "myself",
        "unknown",
        "whatever",
        "Benutzername",
        "contraseña",
        "mot_de_passe",
    ),
    *("hashed_password", "getPassword", "UserPasswordProvider", "KeyStoreType", "passwordField", "HttpTokensState"),
    *("changeme", "your-password-here", "placeholder", "xxxxxxxx", "notasecret", "mynewpassword", "example"),
    *("https://example.org/reset", "/run/secrets/db", "./secrets/db.key", "settings.database.password", "$DB_PASSWORD"),
    *(
        "$s3_bucket2",
        "$env:DB_PASSWORD",
        "%(password)s",
        "%DB_PASS%",
        "<your-token>",
        "<%= dbPassword1 %>",
        "#{db.pass1}",
    ),
    *("~/.ssh/id_rsa2", "$(cat /run/pw1)", "{{ vault.db1 }}", "$$1", "${DB_PASS:-x1}", "*****", "[A-Za-z0-9]{8}", "#1"),
    *("strncpy", "kwargs", "sqlite", "postgres", "hashlib", "rabbitmq", "username", "keystore"),
)


def values(alphabet: str, length: int) -> list[str]:
    """Values of that many signs, the same each time; the first and the last are letters or digits."""
    chance = random.Random(f"{alphabet}{length}")
    ends = [sign for sign in alphabet if sign.isalnum()]
    inner = ["".join(chance.choices(alphabet, k=length - 2)) for _ in range(MANY)]
    return [chance.choice(ends) + one + chance.choice(ends) for one in inner]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_values_of_any_alphabet_go_behind_a_name_that_says_secret(alphabet, carrier):
    for length, share in MOST_LEFT.items():
        drawn_values = values(ALPHABETS[alphabet], length)
        clean = shared_redactor().redact("".join(CARRIERS[carrier].format(one) for one in drawn_values)).text
        left = [one for one in drawn_values if one in clean]
        assert len(left) <= share * MANY, (length, left)


@pytest.mark.parametrize("carrier", ["JSON", "source"])
@pytest.mark.parametrize("first", FIRST_SIGNS)
def test_quoted_values_go_whatever_sign_is_their_first(first, carrier):
    drawn_values = [first + one for one in values(ALPHABETS["letters, digits and signs"], 15)]
    clean = shared_redactor().redact("".join(CARRIERS[carrier].format(one) for one in drawn_values)).text
    left = [one for one in drawn_values if one in clean]
    assert len(left) <= 0.15 * MANY, left


@pytest.mark.parametrize("carrier", ["environment", "JSON", "YAML", "prose"])
@pytest.mark.parametrize("value", NAMES_AND_WORDS)
def test_words_names_placeholders_and_paths_stay_behind_such_a_name(value, carrier):
    text = CARRIERS[carrier].format(value)
    assert shared_redactor().redact(text).text == text


def test_a_password_of_letters_alone_goes_from_json_settings_fields_and_talk():
    value = "SgYJIJxlJGky"
    for text in (
        json.dumps({"password": value}),
        f"DB_PASSWORD={value}\n",
        f"password: {value}\n",
        f"password {value}",
    ):
        assert value not in shared_redactor().redact(text).text
    assert shared_redactor().fields({"password": value}) == {"password": "[REDACTED:password]"}


def test_a_token_of_letters_alone_needs_more_of_them():
    assert "wqzkjvxpbtrm" not in shared_redactor().redact('"api_token": "wqzkjvxpbtrm"\n').text
    assert "wqzkjv" in shared_redactor().redact('"api_token": "wqzkjv"\n').text


@pytest.mark.parametrize("value", [b"xkqzvj", b"SgYJIJxlJGky", b"KMswbZFUojQw", b"teq8pHyQ8CovtbaGx9"])
def test_what_no_word_is_was_drawn(value):
    assert drawn(value, NAMED)


@pytest.mark.parametrize(
    "value",
    [b"password", b"Benutzername", b"getHttpTokensState", b"/usr/lib/x86_64-linux-gnu/libX11.so", b"x", b"f(a, b)[0]"],
)
def test_what_is_written_by_hand_was_not(value):
    assert not drawn(value, NAMED)
    assert not drawn(value, CODE)


def test_more_must_speak_for_it_where_any_word_may_stand():
    assert drawn(b"keithp", NAMED) >= drawn(b"keithp", SAID) >= drawn(b"keithp", CODE)


class _Judge:
    """Says yes to what is long, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def __call__(self, value: bytes, least: int = 4) -> bool:
        self.asked.append(value)
        return len(value) >= least


def test_a_judge_is_asked_once_about_a_value_and_again_about_another_or_in_another_way():
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        assert [judged(b"abcd"), judged(b"abcd"), judged(b"abc"), judged(b"abcd", 9), judged(b"abcd", 9)] == [
            True, True, False, False, False
        ]  # fmt: skip
    assert judge.asked == [b"abcd", b"abc", b"abcd"]


def test_nothing_is_remembered_before_between_and_after_texts():
    judge = _Judge()
    judged = once(judge.__call__)
    judged(b"abcd")
    for _ in range(2):
        with remembered():
            judged(b"abcd")
    judged(b"abcd")
    assert judge.asked == [b"abcd"] * 4
    with pytest.raises(ValueError, match="broken"), remembered():
        raise ValueError("broken")
    assert chance._known.verdicts is None


def test_what_is_remembered_is_bounded_and_never_a_long_value(monkeypatch):
    monkeypatch.setattr(chance, "_MOST", 3)
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        for number in range(9):
            judged(b"abc%d" % number)
            assert len(chance._known.verdicts or {}) <= 3
        judged(b"a" * 300)
        judged(b"a" * 300)
    assert judge.asked.count(b"a" * 300) == 2


def test_another_thread_remembers_for_itself():
    judge = _Judge()
    judged = once(judge.__call__)
    with remembered():
        judged(b"abcd")
        thread = threading.Thread(target=judged, args=(b"abcd",))
        thread.start()
        thread.join()
    assert judge.asked == [b"abcd"] * 2


def test_a_redactor_keeps_no_value_when_it_is_done():
    redactor: Redactor = shared_redactor()
    assert redactor.redact("password = Zeta-kilo-4711!").findings
    assert chance._known.verdicts is None


@pytest.mark.parametrize("nearby", [False, True])
@pytest.mark.parametrize("refused", ["(a", "(?<=a)b", r"(a)\1"])
def test_a_pattern_that_the_engine_refuses_stops_everything_instead_of_shifting_its_neighbours(
    monkeypatch, refused, nearby
):
    monkeypatch.setattr(patterns, "_EVERY", [("abc", True, nearby), (refused, True, nearby), ("def", True, nearby)])
    with pytest.raises(ValueError, match="refuses the pattern"):
        patterns._Gate(nearby=nearby)


def test_every_pattern_finds_what_it_says_and_not_what_its_neighbour_does():
    first, second = Lazy("kagura-first-[0-9]+"), Lazy("kagura-second-[0-9]+")
    data = b"kagura-second-2 kagura-first-1"
    assert [found.group() for found in first.finditer(data)] == [b"kagura-first-1"]
    assert [found.group() for found in second.finditer(data)] == [b"kagura-second-2"]


def test_a_pattern_without_groups_is_the_same_but_for_them():
    assert ungrouped(r"(a)\((?:b)[(](?i:c)[]()](d)[^](](e)") == r"(?:a)\((?:b)[(](?i:c)[]()](?:d)[^](](?:e)"


def test_a_shortened_pattern_counts_no_further_than_it_is_told():
    assert shortened(r"a{2}b{9}c{3,8}d{3,9}e{12,}f{1,}g{0,40}", 8) == r"a{2}b{8,}c{3,8}d{3,}e{8,}f{1,}g{0,}"
