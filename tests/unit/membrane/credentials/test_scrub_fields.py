from enum import StrEnum

from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.scrub import Scrubber, scrub_fields
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

TOKEN = "tok-Zx9Qk7T2w"


class Word(StrEnum):
    ONE = "one"


def scrubber(*values: str) -> Scrubber:
    secrets = [Secret(value) for value in values]
    return Scrubber(lambda: secrets)


def test_texts_are_scrubbed_wherever_they_stand() -> None:
    value = {"a": [f"x {TOKEN}", {"b": (TOKEN, 1, None)}], TOKEN: True, "raw": f"{TOKEN}\xff".encode("latin-1")}
    assert scrub_fields(scrubber(TOKEN), value) == {
        "a": [f"x {HIDDEN}", {"b": (HIDDEN, 1, None)}],
        HIDDEN: True,
        "raw": HIDDEN.encode() + b"\xff",
    }
    assert value["a"] == [f"x {TOKEN}", {"b": (TOKEN, 1, None)}], "what was given is left as it was"


def test_keys_that_become_the_same_are_told_apart() -> None:
    value = {TOKEN: 1, f"{TOKEN}{TOKEN}": 2, "tok-other-one": 3}
    scrubbed = scrub_fields(scrubber(TOKEN, "tok-other-one"), value)
    assert scrubbed == {HIDDEN: 1, HIDDEN * 2: 2, f"{HIDDEN} 2": 3}


def test_without_secrets_the_value_itself_comes_back() -> None:
    value = {"a": [TOKEN]}
    assert scrub_fields(scrubber(), value) is value


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.just(Word.ONE)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner, inner)),
)


@given(json_values)
def test_a_value_without_secrets_comes_out_equal_and_of_the_same_types(value: object) -> None:
    assert repr(scrub_fields(scrubber(TOKEN), value)) == repr(value)


@given(json_values)
def test_no_text_keeps_a_secret(value: object) -> None:
    assert TOKEN not in repr(scrub_fields(scrubber(TOKEN), {"x": [value, f"{value}{TOKEN}"], f"k{TOKEN}": value}))
