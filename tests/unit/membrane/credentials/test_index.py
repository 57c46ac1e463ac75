from hypothesis import given, strategies as st

from kagura_kernel.membrane.credentials.needles import EXACT, WIDE, NeedleIndex, Places

few = st.text("ab", min_size=4, max_size=60).map(str.encode)


def naive(flat: bytes, needles: list[bytes]) -> tuple[list[tuple[int, int]], int]:
    spans: list[tuple[int, int]] = []
    for at in range(len(flat)):
        for needle in needles:
            if flat.startswith(needle, at):
                if spans and at < spans[-1][1]:
                    spans[-1] = spans[-1][0], max(spans[-1][1], at + len(needle))
                else:
                    spans.append((at, at + len(needle)))
    begins = (at for at in range(len(flat)) if any(n != flat[at:] and n.startswith(flat[at:]) for n in needles))
    return spans, next(begins, len(flat))


@given(
    st.lists(few, min_size=1, max_size=5), st.lists(st.one_of(few, st.integers(0, 4)), max_size=8), st.integers(0, 60)
)
def test_every_needle_and_the_earliest_beginning_are_found(
    needles: list[bytes], parts: list[bytes | int], cut: int
) -> None:
    """Of needles of two letters, which overlap themselves and each other as much as can be."""
    flat = b"".join(needles[part % len(needles)] if isinstance(part, int) else part for part in parts)
    flat += needles[0][:cut]
    assert NeedleIndex(needles, EXACT, strict=False).look(flat, flat) == naive(flat, needles)


@given(st.binary(max_size=3000))
def test_a_place_in_the_fold_is_found_again_in_the_text(data: bytes) -> None:
    flat = WIDE(data)
    places = Places(data, WIDE)
    kept = [at for at in range(len(data)) if WIDE(data[at : at + 1])]
    assert [places.of(number) for number in range(len(flat))] == kept
    assert [places.of(number) for number in reversed(range(len(flat)))] == kept[::-1]


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_fold_of_two_pieces_is_their_folds(one: bytes, other: bytes) -> None:
    for fold in (WIDE, EXACT):
        assert fold(one + other) == fold(one) + fold(other)


def test_an_index_of_nothing_finds_nothing() -> None:
    index = NeedleIndex((), WIDE, strict=True)
    assert not index
    assert index.look(b"abcdefghijklmnopqrstuvwxyz", b"") == ([], 26)
