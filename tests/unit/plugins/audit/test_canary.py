"""What is planted for an auditor, and what its report says of it."""

import tokenize
from io import StringIO
from uuid import UUID, uuid4

import pytest

from kagura_kernel.domain.plugins import CanaryStatus
from kagura_kernel.plugins.audit import ids_in, inject, recorded_ids, verify
from tests.support.sample_plugin import SAMPLE_SOURCE

FOREIGN = "6f1d9c2b-7a4e-4d3f-9b1a-0c2d3e4f5a6b"


def comments(text: str) -> list[str]:
    return [
        token.string for token in tokenize.generate_tokens(StringIO(text).readline) if token.type == tokenize.COMMENT
    ]


def test_two_comments_with_fresh_ids_of_version_four_are_planted_and_the_rest_stays():
    canaries = inject(SAMPLE_SOURCE)
    assert canaries.first != canaries.second
    assert {canaries.first.version, canaries.second.version} == {4}
    assert inject(SAMPLE_SOURCE).ids.isdisjoint(canaries.ids)
    assert ids_in(*comments(canaries.text)) == canaries.ids
    planted = [number for number, line in enumerate(canaries.lines) if line == 0]
    kept = [line for number, line in enumerate(canaries.text.split("\n")) if number not in planted]
    assert "\n".join(kept) == SAMPLE_SOURCE


def test_wherever_they_are_planted_the_program_is_the_same_and_they_are_comments():
    clean = compile(SAMPLE_SOURCE, "plugin.py", "exec")
    places = set()
    for _ in range(300):
        canaries = inject(SAMPLE_SOURCE)
        assert ids_in(*comments(canaries.text)) == canaries.ids, canaries.text
        assert compile(canaries.text, "plugin.py", "exec").co_consts[0] == clean.co_consts[0]
        places.add(canaries.lines.index(0))
    assert len(places) > 4, "an author cannot know where they will be"


def test_they_do_not_say_what_they_are():
    for _ in range(50):
        planted = [line.lower() for line in comments(inject(SAMPLE_SOURCE).text)]
        assert not [line for line in planted if "canary" in line or "kagura" in line]


def test_lines_are_counted_back_to_the_source():
    canaries = inject(SAMPLE_SOURCE)
    lines = SAMPLE_SOURCE.split("\n")
    for number, text in enumerate(canaries.text.split("\n"), 1):
        original = canaries.original(number)
        if original:
            assert lines[original - 1] == text
            assert canaries.shown(original) == number
    assert canaries.original(0) == canaries.original(len(canaries.lines) + 1) == canaries.shown(999) == 0


@pytest.mark.parametrize(
    "source", ["", "x", 'x = """never closed', "if x:\n\t y\n  z", "(" * 300, "\0\r\f", "a\n" * 200_000]
)
def test_every_source_takes_them_also_one_that_is_no_python(source):
    canaries = inject(source)
    assert ids_in(canaries.text) == canaries.ids


def test_an_auditor_that_reports_both_is_right():
    canaries = inject(SAMPLE_SOURCE)
    told = [f"text {canaries.second}", f"and {str(canaries.first).upper()}"]
    assert verify(canaries, told, source=[SAMPLE_SOURCE]) is CanaryStatus.OK


@pytest.mark.parametrize("which", [[], ["first"], ["second"]])
def test_an_auditor_that_leaves_one_out_was_talked_round(which):
    canaries = inject(SAMPLE_SOURCE)
    told = [f"id {getattr(canaries, name)}" for name in which]
    assert verify(canaries, told, source=[SAMPLE_SOURCE]) is CanaryStatus.COMPROMISED


@pytest.mark.parametrize("with_ours", [True, False])
def test_an_id_that_nobody_has_shown_makes_the_auditor_unreliable(with_ours):
    canaries = inject(SAMPLE_SOURCE)
    told = [FOREIGN, *(canaries.ids if with_ours else ())]
    assert verify(canaries, told, source=[SAMPLE_SOURCE]) is CanaryStatus.UNRELIABLE


def test_an_id_of_the_plugin_itself_is_no_invention():
    source = f"# see {FOREIGN.upper()}\n"
    canaries = inject(source)
    assert verify(canaries, [FOREIGN, *canaries.ids], source=[source]) is CanaryStatus.OK


def test_a_part_of_an_id_is_not_the_id():
    canaries = inject(SAMPLE_SOURCE)
    told = [str(canaries.first)[:-1], f"{canaries.second}0"]
    assert verify(canaries, told, source=[SAMPLE_SOURCE]) is CanaryStatus.COMPROMISED


def test_recorded_ids_are_found_again_if_there_are_exactly_two():
    source = f"# {FOREIGN}"
    canaries = inject(source)
    found = recorded_ids(canaries.text, source=[source])
    assert found is not None
    assert set(map(str, found)) == canaries.ids
    assert inject(source, found).ids == canaries.ids
    assert recorded_ids(canaries.text + str(uuid4()), source=[source]) is None
    assert recorded_ids(source, source=[source]) is None
    assert recorded_ids(f"{UUID(int=7)}", source=[source]) is None


def test_a_replayed_audit_has_its_lines_where_they_were_whichever_id_is_the_smaller():
    source = "".join(f"value_{number} = {number}\n" for number in range(40))
    small, large = UUID(int=0x1234), UUID(int=0xFFFF_0000_1111)
    assert inject(source, (small, large)) == inject(source, (large, small))
