from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.protection import landing, stays_inside


def none_there(_path: str) -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize(
    ("path", "target", "parts"),
    [
        ("in", "data.csv", ["data.csv"]),
        ("in", "./a//b/", ["a", "b"]),
        ("a/b/in", "../x", ["a", "x"]),
        ("a/b/in", "../../x", ["x"]),
        ("d/up", "..", []),
    ],
)
def test_a_relative_target_below_the_root_is_resolved(path: str, target: str, parts: list[str]) -> None:
    assert landing(path, target) == parts


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("out", "/etc/passwd"),
        ("out", ""),
        ("out", ".."),
        ("a/out", "../../x"),
        ("esc", "d/up/../secret"),
        ("grand", "d/up/.."),
        ("a/out", "../b/../x"),
        ("out", "a\nb"),
        ("out", "x" * 5000),
    ],
)
def test_a_target_that_may_lead_out_is_refused(path: str, target: str) -> None:
    assert landing(path, target) is None
    assert not stays_inside(path, target, none_there)


def test_a_link_on_the_way_is_refused_and_one_at_the_end_must_stay_inside_too() -> None:
    links = {"d/up": [".."], "lib.so.1": ["lib.so.1.2"], "mine": ["/mnt/data"], "loop": ["loop"], "two": ["ok", "/etc"]}

    def at(path: str) -> list[str]:
        return links.get(path, [])

    assert not stays_inside("esc", "d/up/secret", at)
    assert stays_inside("lib.so", "lib.so.1", at)
    assert not stays_inside("theirs", "mine", at)
    assert not stays_inside("theirs", "two", at)
    assert stays_inside("round", "loop", at)
    assert not stays_inside("deep", "/".join(["d"] * 100), at)


NAMES = st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/a", "b/c", "c/a/b"])
TARGETS = st.lists(st.sampled_from(["..", "a", "b", "c", "."]), min_size=1, max_size=5).map("/".join)


@given(st.lists(st.tuples(NAMES, TARGETS), max_size=6))
def test_accepted_links_made_one_after_the_other_never_lead_out(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[str, str]]
) -> None:
    root = tmp_path_factory.mktemp("outer") / "x" / "project"
    root.mkdir(parents=True)

    def at(path: str) -> list[str]:
        return [str((root / path).readlink())] if (root / path).is_symlink() else []

    for path, target in wanted:
        way = [root / Path(*Path(path).parts[:n]) for n in range(1, len(Path(path).parts) + 1)]
        if any(place.is_symlink() or place.is_file() for place in way) or (root / path).exists():
            continue
        if stays_inside(path, target, at):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(target)
    for place in root.rglob("*"):
        if place.is_symlink():
            try:
                led = place.resolve()
            except (OSError, RuntimeError):
                continue
            assert led.is_relative_to(root), (place, led)
