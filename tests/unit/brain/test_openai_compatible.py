import pytest
from hypothesis import given, strategies as st

from kagura_kernel.brain.openai_compatible import (
    KNOWN,
    Endpoint,
    is_loopback,
    name_of,
    problem_with_url,
    split_model,
    without,
)
from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
from kagura_kernel.brain.pydantic_ai_service import FIRST_GUESS, Answer, Exchange, bytes_of, fit, measured, room_in
from kagura_kernel.domain.errors import BrainNotConfigured
from kagura_kernel.domain.images import Image


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("ollama:qwen3:32b", ("ollama", "qwen3:32b")),
        ("qwen3:32b", ("", "qwen3:32b")),
        ("gpt-4o", ("", "gpt-4o")),
        ("work:", ("work", "")),
        ("", ("", "")),
    ],
)
def test_an_endpoint_before_a_model_is_told_from_a_colon_in_its_name(model, expected):
    assert split_model(model, ["work", *KNOWN]) == expected


@pytest.mark.parametrize(
    ("url", "keyed"),
    [
        ("https://llm.example.org/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000/v1", True),
        ("http://llm.example.org/v1", False),
    ],
)
def test_a_url_may_be_plain_where_nothing_can_be_overheard(url, keyed):
    assert problem_with_url(url, keyed=keyed) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://llm.example.org/v1",
        "http://localhost.example.org/v1",
        "http://127.0.0.1.example.org/v1",
        "https://me:secret@llm.example.org/v1",
        "https://llm.example.org/v1?key=secret",
        "ftp://llm.example.org",
        "llm.example.org",
        "https://[::1",
        "https://llm.example.org:port",
        "",
    ],
)
def test_a_url_that_would_give_a_key_away_or_is_none_is_refused_without_repeating_it(url):
    problem = problem_with_url(url, keyed=True)
    assert problem
    assert "secret" not in problem


def test_every_known_service_has_a_url_that_a_key_may_go_to():
    assert [name for name, known in KNOWN.items() if problem_with_url(known.url, keyed=bool(known.variable))] == []
    assert [name for name, known in KNOWN.items() if not known.variable and not known.start] == []


def test_a_url_is_called_by_its_host_and_port():
    assert name_of("https://me@llm.example.org:8443/v1") == "llm.example.org:8443"
    assert is_loopback("127.8.9.1")
    assert not is_loopback("10.0.0.1")


def test_an_error_is_one_short_line_without_the_key():
    said = without(["sk-secret", ""], "no:\n  sk-secret is not\x09good " + "x" * 1000)
    assert said.startswith("no: … is not good x")
    assert len(said) < 310


def exchange(number: int, *texts: str, said: int = 10) -> Exchange:
    answers = tuple(Answer(f"{number}-{place}", "bash", text) for place, text in enumerate(texts))
    return Exchange(number, said, answers)


def test_what_fits_is_not_touched():
    talk = [exchange(0, "x" * 100), exchange(1, "y" * 100)]
    fitted = fit(talk, 220)
    assert (fitted.exchanges, fitted.dropped, fitted.fits) == (tuple(talk), 0, True)


def test_the_oldest_answers_go_first_and_the_newest_stay():
    talk = [exchange(number, "x" * 1000) for number in range(6)]
    fitted = fit(talk, 5000)
    texts = [one.answers[0].text for one in fitted.exchanges]
    assert fitted.fits
    assert fitted.dropped == 0
    kept = [len(text) == 1000 for text in texts]
    assert kept == sorted(kept), "what was left out is older than everything that was kept"
    assert kept[-1]
    assert "1000 bytes was left out" in texts[0]


def test_then_whole_rounds_go_so_that_no_call_stands_without_its_answer():
    talk = [exchange(number, "x" * 50, said=400) for number in range(10)]
    fitted = fit(talk, 2000)
    assert fitted.fits
    assert [one.said for one in fitted.exchanges] == list(range(10))[-len(fitted.exchanges) :]
    assert fitted.dropped == 10 - len(fitted.exchanges)
    assert all(one.answers for one in fitted.exchanges)


def test_last_of_all_the_newest_answers_lose_their_middle():
    fitted = fit([exchange(0, "BEGIN" + "x" * 10_000 + "END", "short")], 2000)
    long, short = fitted.exchanges[0].answers
    assert fitted.fits
    assert long.text.startswith("BEGIN")
    assert long.text.endswith("END")
    assert "were left out here" in long.text
    assert short.text == "short"


def test_images_count_as_what_they_are_read_as_and_go_with_their_answers():
    large = Answer("a", "python", "drawn", images=(Image("image/png", 1500, 1000, b""),))
    rounds = [Exchange("one", 10, (large,)), Exchange("two", 10, (large,))]
    assert rounds[0].whole == 10 + len("drawn") + 2000 * FIRST_GUESS
    assert fit(rounds, 13_000).exchanges == tuple(rounds)
    old, new = fit(rounds, 9_000).exchanges
    assert (old.answers[0].images, new.answers) == ((), (large,))
    assert "left out" in old.answers[0].text
    (last,) = fit(rounds[:1], 1_000).exchanges
    assert (last.answers[0].images, last.answers[0].text) == ((), "drawn\n[Its images were left out for lack of room.]")


def test_what_cannot_be_made_to_fit_is_told():
    assert not fit([exchange(0, "x", said=5000)], 1000).fits
    assert not fit([exchange(0, "x" * 500)], -1).fits
    assert fit([], 0).fits
    assert not fit([], -1).fits


@given(
    st.lists(st.tuples(st.integers(0, 300), st.lists(st.text(max_size=400), max_size=3)), max_size=8),
    st.integers(-100, 4000),
)
def test_it_never_grows_and_says_truly_whether_it_fits(rounds, room):
    talk = [exchange(number, *texts, said=said) for number, (said, texts) in enumerate(rounds)]
    fitted = fit(talk, room)
    size = sum(one.whole for one in fitted.exchanges)
    assert fitted.fits == (size <= room)
    assert len(fitted.exchanges) + fitted.dropped == len(talk)
    before = {one.said: one for one in talk}
    for one in fitted.exchanges:
        assert [answer.call_id for answer in one.answers] == [answer.call_id for answer in before[one.said].answers]


def test_a_window_leaves_room_for_the_answer_and_a_measure_stays_within_what_can_be_true():
    assert room_in(8000, 3.0) == 18_000
    assert room_in(1_000_000, 3.0) == (1_000_000 - 16_384) * 3
    assert measured(4000, 1000) == 4.0
    assert measured(10, 1000) == 1.5
    assert measured(100_000, 10) == 6.0
    assert bytes_of("日本\ud800") == 9


def test_what_is_said_of_a_service_leads_to_a_table_that_the_settings_can_have():
    named, nameless = Endpoint("work", "https://h:1/v1"), Endpoint("h:1", "https://h:1/v1")
    # `[endpoints.h:1]` is no table: a name is made of letters, digits, dashes and underscores.
    assert named.table == "[endpoints.work]"
    assert nameless.table == "a table [endpoints.NAME] with its `url`, and NAME as `endpoint`"
    with pytest.raises(BrainNotConfigured, match="or with `model` in your settings"):
        PydanticAIBrain({nameless.name: nameless}, nameless.name).thinks_with()
    with pytest.raises(BrainNotConfigured, match=r"or with `model` in \[endpoints\.work\]"):
        PydanticAIBrain({"work": named}, "work").thinks_with()
