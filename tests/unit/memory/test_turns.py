import pytest

from kagura_kernel.memory.sqlite.search import sounds_spoken, speaker_in


@pytest.mark.parametrize(
    ("text", "speaker", "said"),
    [
        ("Caroline: I went there", "Caroline", "I went there"),
        ("[8 May 2023] Mel B: hello", "Mel B", "hello"),
        ("(1:56 pm on 8 May, 2023) Caroline: hello", "Caroline", "hello"),
        ('Caroline said, "Hey Mel!"', "Caroline", '"Hey Mel!"'),
        ("田中：はい", "田中", "はい"),
        ("Caroline (8 May 2023): hello", "Caroline", "hello"),
        ("(8 May 2023) [D1:3] Caroline: hello", "Caroline", "hello"),
        ("2023-05-08T13:56 Caroline: hello", "Caroline", "hello"),
        ("8/5/23, 13:56 - Caroline: hello", "Caroline", "hello"),
        ("D1:3: Caroline: hello", "Caroline", "hello"),
        ("- **Dr. Anna Berg:** hello", "Dr. Anna Berg", "hello"),
        ("Caroline said: hello", "Caroline", "hello"),
        ("Anna schrieb: hallo", "Anna", "hallo"),
        ("assistant: hello", "assistant", "hello"),
    ],
)
def test_a_turn_says_who_speaks(text, speaker, said):
    assert speaker_in(text) == (speaker, said)


@pytest.mark.parametrize(
    "text",
    [
        "Note: the disk is full",
        "Error (line 3): the disk is full",
        "Ursache: die Platte ist voll",
        "原因：ディスクが一杯",
        "http://example.org: down",
        "12:30 we met",
        "fix the thing: now",
        "no speaker at all",
        "",
    ],
)
def test_what_names_nobody_has_no_speaker(text):
    assert speaker_in(text) == ("", text)


@pytest.mark.parametrize(
    "text",
    [
        "What's up?",
        "Thanks so much!",
        "Researching it, my dream",
        "Das habe ich dir gesagt.",
        "それはいいね。",
        "私も行った。",
    ],
)
def test_who_speaks_of_themselves_or_to_another_sounds_spoken(text):
    assert sounds_spoken(text)


@pytest.mark.parametrize(
    "text",
    ["The build needs Java 21.", "Data stays out of the US region.", "Die Platte ist voll.", "遅い。", ""],
)
def test_a_plain_note_does_not_sound_spoken(text):
    assert not sounds_spoken(text)
