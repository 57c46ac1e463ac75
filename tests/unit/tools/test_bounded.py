from pathlib import Path

from hypothesis import example, given, strategies as st

from kagura_kernel.domain.commands import CommandResult, Output
from kagura_kernel.tools.fences import TEXT_LENGTH, command_text, shorten_middle, spill_of


def output(text: str, spill: Path | None = None) -> Output:
    data = text.encode()
    return Output(data, total=len(data), spill=spill)


@given(st.text(max_size=300), st.integers(min_value=0, max_value=200))
@example("x" * 300, 2)
def test_a_shortened_text_keeps_both_ends_and_its_bound(text, limit):
    short = shorten_middle(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) <= limit + 60
        assert short.startswith(text[: limit // 3])
        assert short.endswith(text[len(text) - limit // 3 :])


def test_the_gap_says_how_much_is_missing():
    assert "… 9010 characters left out …" in shorten_middle("x" * 10_000, 990)


def test_output_alone_is_shown_as_it_is():
    assert command_text(CommandResult(0, output("a\nb\n"))) == "a\nb"


def test_silence_is_said():
    assert command_text(CommandResult(0)) == "(no output)"


def test_complaints_and_the_exit_code_follow():
    text = command_text(CommandResult(2, output("a\n"), output("no\n")), hint="try again")
    assert text == "a\n[stderr]\nno\n[exit code 2]\n[try again]"


def test_a_signal_is_told_instead_of_an_exit_code():
    assert command_text(CommandResult(137, output("a"), signal=9)) == "a\n[ended by signal 9]"


def test_where_the_whole_output_lies_is_told_by_name():
    result = CommandResult(0, output("a", Path("/state/run/stdout-1.txt")))
    assert "stdout-1.txt" in command_text(result)
    assert "/state" not in command_text(result)
    assert spill_of(result) == "stdout-1.txt"
    assert spill_of(CommandResult(0)) is None


def test_a_flood_on_both_streams_stays_within_the_bound_and_shows_both():
    text = command_text(CommandResult(1, output("o" * 200_000), output("e" * 200_000)))
    assert len(text) < TEXT_LENGTH + 500
    assert text.count("o") > 10_000
    assert text.count("e") > 10_000
