from __future__ import annotations

import pytest

from kagura_kernel.memory.turns import speaker_in


@pytest.mark.parametrize(
    ("text", "speaker", "said"),
    [
        ("Caroline: I went there", "Caroline", "I went there"),
        ("[8 May 2023] Mel B: hello", "Mel B", "hello"),
        ("(1:56 pm on 8 May, 2023) Caroline: hello", "Caroline", "hello"),
        ('Caroline said, "Hey Mel!"', "Caroline", '"Hey Mel!"'),
        ("田中：はい", "田中", "はい"),
    ],
)
def test_a_turn_says_who_speaks(text: str, speaker: str, said: str):
    assert speaker_in(text) == (speaker, said)


@pytest.mark.parametrize(
    "text",
    [
        "Note: the disk is full",
        "Ursache: die Platte ist voll",
        "原因：ディスクが一杯",
        "http://example.org: down",
        "12:30 we met",
        "fix the thing: now",
        "no speaker at all",
        "",
    ],
)
def test_what_names_nobody_has_no_speaker(text: str):
    assert speaker_in(text) == ("", text)
