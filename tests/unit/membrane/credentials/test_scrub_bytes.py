import base64
import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.needles import as_bytes, flatten, needles
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret

TOKEN = 'gh/s_Zx9+"Qk7é&T2=w'
OTHER = "fghijklmnopq"
DATA = TOKEN.encode()
FORMS = [
    DATA,
    DATA.hex().encode(),
    json.dumps(TOKEN)[1:-1].encode(),
    base64.b64encode(b"user:" + DATA),
    OTHER.encode(),
]
NEEDLES = needles([Secret(TOKEN), Secret(OTHER)])
cuts = st.lists(st.integers(0, 10_000), max_size=12)


def scrubber(*values: str) -> Scrubber:
    secrets = [Secret(value) for value in values]
    return Scrubber(lambda: secrets)


def filtered(scrub: Scrubber, data: bytes, places: list[int]) -> bytes:
    one = scrub.filter()
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return b"".join(one.feed(data[start:end]) for start, end in pairwise(ends)) + one.finish()


def flat(data: bytes) -> bytes:
    return data.replace(b"\n", b"").replace(b"\r", b"")


@given(st.binary(max_size=2000), cuts)
def test_bytes_without_a_secret_pass_one_by_one(data: bytes, places: list[int]) -> None:
    assert filtered(scrubber(TOKEN, OTHER), data, places) == data


@given(
    st.lists(st.one_of(st.sampled_from(FORMS), st.binary(max_size=12), st.sampled_from([b"\n", b"gh/s", b"fgh\n"]))),
    st.lists(st.integers(0, 300), max_size=6),
    cuts,
)
def test_no_secret_is_left_however_it_is_wrapped_and_cut(
    parts: list[bytes], line_ends: list[int], places: list[int]
) -> None:
    data = b"".join(parts)
    for place in line_ends:
        data = data[:place] + b"\n" + data[place:]
    scrub = scrubber(TOKEN, OTHER)
    shown = filtered(scrub, data, places)
    assert not any(needle in flat(shown) for needle in as_bytes(NEEDLES))


@given(st.sampled_from(FORMS), st.binary(max_size=40), cuts)
def test_what_stands_around_a_secret_stays(form: bytes, around: bytes, places: list[int]) -> None:
    shown = filtered(scrubber(TOKEN, OTHER), b"before " + form + b" after" + around, places)
    assert shown.startswith(b"before ")
    assert HIDDEN.encode() in shown
    assert shown.endswith(b" after" + around)


def test_a_secret_that_begins_at_the_end_of_a_finished_line_shows_three_characters_at_most() -> None:
    one = scrubber(OTHER).filter()
    shown = one.feed(b"x fgh\n") + one.feed(b"ijklmnopq y\n") + one.finish()
    assert shown == b"x fgh\n" + HIDDEN.encode() + b" y\n"


def test_without_secrets_the_very_same_object_passes() -> None:
    one = scrubber().filter()
    data = b"\xff\x00 whatever\n"
    assert one.feed(data) is data
    assert one.finish() == b""


def test_a_secret_that_came_later_counts_from_then_on() -> None:
    secrets: list[Secret] = []
    one = Scrubber(lambda: secrets).filter()
    assert one.feed(b"new-secret ") == b"new-secret "
    secrets.append(Secret("new-secret"))
    assert one.feed(b"new-secret new-") == f"{HIDDEN} ".encode()
    assert one.feed(b"secret") == HIDDEN.encode()
    assert one.finish() == b""


def test_line_ends_without_number_are_not_held_back_for_ever() -> None:
    one = scrubber(OTHER).filter()
    shown = one.feed(b"fghij")
    sizes = []
    for _ in range(200):
        shown += one.feed(b"\n" * 1000)
        sizes.append(len(shown))
    assert sizes[-1] >= 199_000
    assert shown + one.finish() == b"fghij" + b"\n" * 200_000


def test_secrets_that_overlap_without_end_are_not_held_back_for_ever() -> None:
    one = scrubber("abababab", "babababa").filter()
    shown = b"".join(one.feed(b"abababab" * 100) for _ in range(100))
    assert len(shown + one.finish()) < 10_000
    assert b"abababab" not in shown
    assert len(one.finish()) == 0


def test_a_secret_that_is_no_utf8_is_hidden_as_the_bytes_it_was() -> None:
    raw = b"pass\xff\xfeword"
    shown = filtered(scrubber(raw.decode("utf-8", "surrogateescape")), b"a " + raw + b" b", [4, 7])
    assert shown == f"a {HIDDEN} b".encode()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_search_finds_a_secret_across_its_pieces(size: int) -> None:
    data = b"x" * 2500 + TOKEN.encode()[:9] + b"\r\n" + TOKEN.encode()[9:] + b"y" * 100
    search = scrubber(TOKEN).search()
    assert any(search.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert not scrubber(TOKEN).holds(data.replace(b"Zx9", b"Zx8"))
    assert not scrubber().holds(data)


@given(st.lists(st.one_of(st.sampled_from(FORMS), st.binary(max_size=12))), cuts)
def test_a_search_says_what_a_look_at_the_whole_says(parts: list[bytes], places: list[int]) -> None:
    data = b"".join(parts)
    scrub = scrubber(TOKEN, OTHER)
    search = scrub.search()
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    found = [search.feed(data[start:end]) for start, end in pairwise(ends)][-1]
    assert found == any(needle in flat(data) for needle in as_bytes(NEEDLES))


@given(st.lists(st.sampled_from([TOKEN, OTHER, OTHER[:5], "\n", "text ", TOKEN[:4]])), cuts)
def test_text_in_pieces_leaves_no_secret_either(parts: list[str], places: list[int]) -> None:
    text = "".join(parts)
    scrub = scrubber(TOKEN, OTHER)
    stream = scrub.stream()
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    shown = "".join(stream.feed(text[start:end]) for start, end in pairwise(ends)) + stream.finish()
    assert not any(needle in flatten(shown) for needle in NEEDLES)
