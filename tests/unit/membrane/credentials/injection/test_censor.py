import base64
import random

from kagura_kernel.membrane.credentials.injection.upstream import Forms, censored
from kagura_kernel.membrane.credentials.secret import Secret

VALUE = "ghs_abcABC0123456789"


def forms(*values: str) -> Forms:
    found = Forms()
    found.add([Secret(value) for value in values])
    return found


def through(looked_for: Forms, *pieces: bytes) -> bytes:
    censor = censored(looked_for)
    return b"".join([censor.feed(piece) for piece in pieces]) + censor.finish()


def test_a_secret_becomes_as_many_stars_and_nothing_else_changes() -> None:
    assert forms(VALUE).hide(f"a {VALUE} b".encode()) == b"a " + b"*" * len(VALUE) + b" b"


def test_any_pieces_give_what_the_whole_gives() -> None:
    looked_for = forms(VALUE, "other-secret", "ab-ab-ab")
    chance = random.Random(7)
    words = [VALUE.encode(), b"other-secret", b"ab-ab-ab", b"ab-", b"ghs_abc", b" ", b"x", VALUE.encode()[:-1]]
    for _ in range(300):
        text = b"".join(chance.choices(words, k=12))
        cuts = sorted(chance.choices(range(len(text) + 1), k=6))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        got = through(looked_for, *pieces)
        assert len(got) == len(text)
        assert got == looked_for.hide(text)
        assert not any(value in got for value in (VALUE.encode(), b"other-secret", b"ab-ab-ab"))


def test_basic_hides_what_the_secret_alone_decides_of_it() -> None:
    looked_for = forms(VALUE)
    for user in ("", "a", "ab", "abc", "x-access-token"):
        shown = looked_for.hide(base64.b64encode(f"{user}:{VALUE}".encode()))
        assert shown.count(b"*") >= len(VALUE)
        assert VALUE[2:-2].encode() not in base64.b64decode(shown.replace(b"*", b"A") + b"==")


def test_text_that_begins_no_secret_passes_at_once() -> None:
    censor = censored(forms(VALUE))
    assert censor.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert censor.feed(b"data: ghs_") == b"data: "
    assert censor.feed(b"else") == b"ghs_else"
    assert censor.finish() == b""


def test_what_is_learnt_later_counts_from_then_on() -> None:
    looked_for = forms(VALUE)
    censor = censored(looked_for)
    assert censor.feed(b"new-secret ") == b"new-secret "
    looked_for.add([Secret("new-secret")])
    assert censor.feed(b"new-secret ") == b"*" * 10 + b" "


def test_what_is_held_back_is_never_longer_than_a_secret() -> None:
    censor = censored(forms("aaaaaaaa"))
    came = sum(len(censor.feed(b"a" * 1000)) for _ in range(20))
    assert came > 19_900
    assert set(through(forms("aaaaaaaa"), *[b"a" * 10] * 20)[:192]) == set(b"*")


def test_an_echo_in_another_alphabet_is_hidden_too() -> None:
    looked_for = forms(VALUE)
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        text = f"you sent {VALUE} to us".encode(encoding)
        for size in (1, 3, len(text)):
            got = through(looked_for, *(text[at : at + size] for at in range(0, len(text), size)))
            assert len(got) == len(text)
            assert VALUE[:4] not in got.replace(b"\0", b"").decode()
            assert got.startswith("you sent ".encode(encoding))


def test_a_body_byte_by_byte_is_looked_through_in_proportion_to_its_length() -> None:
    """What is held back is not searched again for each byte."""
    secret = "ya29." + VALUE * 100
    censor = censored(forms(secret))
    assert censor.feed(secret[:1000].encode()) == b""
    assert all(censor.feed(bytes([sign])) == b"" for sign in secret[1000:-1].encode())
    assert censor.feed(secret[-1:].encode()) == b"*" * len(secret)
