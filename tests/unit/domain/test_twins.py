import pytest

from kagura_kernel.domain.visible import LATIN_LOOKALIKES, LOOKALIKES, skeleton


@pytest.mark.parametrize(
    ("letters", "seen"),
    [
        ("file_1", "file_1"),
        ("\ufb01\u217c\u212f", "file"),
        ("\uff26\U0001d408\u24c1\U0001f134", "file"),
        ("f\u00edl\u0301e", "file"),
        ("\u0192\u026a\u029f\u1d07", "file"),
        ("\ua4dd\ua4f2\ua4e1\ua4f0", "file"),
        ("\u0412\u041d\u0397\u039d", "bhhn"),
        ("a\u200b\u2800\u3164\U00013430\ufe0f\x1b\ud800b", "ab"),
        ("a\u00a0\tb", "a  b"),
        ("日本ж", "日本ж"),
    ],
)
def test_a_letter_is_what_it_looks_like(letters, seen):
    assert "".join(map(skeleton, letters)) == seen


def test_every_twin_is_told_apart_from_ascii_and_looks_like_one_letter_of_it():
    for twins in (LOOKALIKES, LATIN_LOOKALIKES):
        assert not any(letter.isascii() for letter in twins)
        assert all(len(plain) == 1 and plain.isascii() and plain.islower() for plain in twins.values())
