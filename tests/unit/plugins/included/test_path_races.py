"""Somebody else changes the directory while it is walked: at every step in turn, and as fast as they can.

The first tests swap at a known moment: before the n-th call that the plugin makes to the system. The last ones let a
process swap for as long as it takes, and look whether anything of the outside came in or anything inside went out.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kagura_kernel.plugins.sdk import PluginFault
from kagura_kernel.plugins.sdk.reading import ReadJail
from kagura_kernel.plugins.sdk.writing import WriteJail
from tests.support.swapping import swapping

CALLS = ("open", "stat", "fstat", "dup", "pread", "write", "replace", "scandir", "mkdir", "fchmod")
STEPS = range(1, 17)

Swap = Callable[[Path], None]


def directory_for_link(base: Path) -> None:
    """`a/b` becomes a link to the directory outside."""
    (base / "a" / "b").rename(base / "a" / "old")
    (base / "a" / "b").symlink_to("../../outside")


def parent_for_link(base: Path) -> None:
    """`a` becomes a link to a directory outside that has a `b` of its own."""
    (base / "a").rename(base / "old")
    (base / "a").symlink_to("../outside")


def file_for_link(base: Path) -> None:
    """The file becomes a link to the one outside."""
    (base / "a" / "b" / "secret.txt").unlink(missing_ok=True)
    (base / "a" / "b" / "secret.txt").symlink_to("../../../outside/secret.txt")


def file_for_hard_link(base: Path) -> None:
    """The file becomes another name of the one outside."""
    (base / "a" / "b" / "secret.txt").unlink(missing_ok=True)
    os.link(base.parent / "outside" / "secret.txt", base / "a" / "b" / "secret.txt")


def file_for_fifo(base: Path) -> None:
    """The file becomes a FIFO that nobody writes to, or reads from."""
    (base / "a" / "b" / "secret.txt").unlink(missing_ok=True)
    os.mkfifo(base / "a" / "b" / "secret.txt")


def nothing_for_link(base: Path) -> None:
    """Where there was nothing there is a link to the file outside."""
    (base / "a" / "b" / "new.txt").unlink(missing_ok=True)
    (base / "a" / "b" / "new.txt").symlink_to("../../../outside/secret.txt")


def nothing_for_hard_link(base: Path) -> None:
    """Where there was nothing there is another name of the file outside."""
    (base / "a" / "b" / "new.txt").unlink(missing_ok=True)
    os.link(base.parent / "outside" / "secret.txt", base / "a" / "b" / "new.txt")


def base_for_link(base: Path) -> None:
    """The base itself becomes a link."""
    base.rename(base.parent / "moved")
    base.symlink_to("outside")


SWAPS: tuple[Swap, ...] = (
    directory_for_link,
    parent_for_link,
    file_for_link,
    file_for_hard_link,
    file_for_fifo,
    nothing_for_link,
    nothing_for_hard_link,
    base_for_link,
)


@contextmanager
def swapped_before(step: int, swap: Callable[[], None]) -> Iterator[list[str]]:
    """In the block the swap happens right before the n-th call to the system; the calls that were made."""
    made: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def watched(name: str) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            made.append(name)
            if len(made) == step:
                restore()
                swap()
                watch()
            return real[name](*arguments, **named)

        return call

    def watch() -> None:
        for name in CALLS:
            setattr(os, name, watched(name))

    def restore() -> None:
        for name in CALLS:
            setattr(os, name, real[name])

    watch()
    try:
        yield made
    finally:
        restore()


@pytest.fixture
def tree(base: Path, secret: str) -> Path:
    """`a/b/secret.txt` in the base and, saying something else, the same outside."""
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "b" / "secret.txt").write_text("inside")
    outside = base.parent / "outside"
    (outside / "b").mkdir()
    (outside / "b" / "secret.txt").write_text(secret)
    return base


def outside_of(base: Path) -> dict[str, str]:
    outside = base.parent / "outside"
    return {str(path.relative_to(outside)): path.read_text() for path in outside.rglob("*") if path.is_file()}


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_reading_never_gives_what_lies_outside(step, swap, tree, secret):
    jail = ReadJail(str(tree))
    with swapped_before(step, lambda: swap(tree)):
        try:
            answer = jail.text("a/b/secret.txt")["text"]
        except PluginFault as fault:
            answer = str(fault)
    assert secret not in answer


@pytest.mark.parametrize("swap", [directory_for_link, parent_for_link, base_for_link], ids=lambda swap: swap.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_listing_never_shows_what_lies_outside(step, swap, tree):
    (tree.parent / "outside" / "only-outside").touch()
    (tree.parent / "outside" / "b" / "only-outside").touch()
    jail = ReadJail(str(tree))
    with swapped_before(step, lambda: swap(tree)):
        try:
            names = [entry["name"] for entry in jail.listing("a/b")["entries"]]
        except PluginFault:
            names = []
    assert "only-outside" not in names


WRITES: dict[str, Callable[[WriteJail], object]] = {
    "write_text": lambda jail: jail.text("a/b/secret.txt", "written by the plugin"),
    "append_text": lambda jail: jail.append("a/b/secret.txt", "written by the plugin"),
    "write_a_new_one": lambda jail: jail.text("a/b/new.txt", "written by the plugin"),
    "append_to_a_new_one": lambda jail: jail.append("a/b/new.txt", "written by the plugin"),
    "make_dir": lambda jail: jail.make_dir("a/b/made/deeper", parents=True),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_writing_never_changes_what_lies_outside(step, swap, write, tree):
    before = outside_of(tree)
    jail = WriteJail(str(tree))
    with swapped_before(step, lambda: swap(tree)), suppress(PluginFault):
        write(jail)
    assert outside_of(tree) == before
    assert not (tree.parent / "outside" / "made").exists()
    assert not (tree.parent / "outside" / "b" / "made").exists()


def test_every_call_to_the_system_has_its_turn(tree):
    read, write = ReadJail(str(tree)), WriteJail(str(tree))
    works: list[Callable[[], object]] = [lambda: read.text("a/b/secret.txt"), lambda: read.listing("a/b")]
    works += [lambda work=work: work(write) for work in WRITES.values()]
    for work in works:
        with swapped_before(0, lambda: None) as calls:
            work()
        assert 4 <= len(calls) <= max(STEPS)


def careless(base: Path, path: str) -> str:
    """What a plugin would do that checks a path and then opens it."""
    place = base / path
    if base.resolve() not in place.resolve().parents or os.stat(place).st_nlink != 1:  # noqa: PTH116 - it is watched
        raise PermissionError
    descriptor = os.open(place, os.O_RDONLY)
    try:
        return os.pread(descriptor, 100, 0).decode()
    finally:
        os.close(descriptor)


def test_the_same_swap_gets_the_better_of_a_check_before_the_opening(tree, secret):
    answers = set()
    for step in STEPS:
        with swapped_before(step, lambda: directory_for_link(tree)) as calls:
            try:
                answers.add(careless(tree, "a/b/secret.txt"))
            except OSError:
                answers.add("")
        if len(calls) >= step:
            (tree / "a" / "b").unlink()
            (tree / "a" / "old").rename(tree / "a" / "b")
    # The race is real: this is what the tests above would find.
    assert secret in answers


ROUNDS = 3_000
"""At least so many; then as many as it takes until both sides of the race were met."""

MOST_ROUNDS = 1_000_000


def rounds(seen: set[str], *wanted: str) -> Iterator[int]:
    """Numbers until enough was tried and everything wanted was seen."""
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and seen.issuperset(wanted):
            return
        yield number


def test_a_process_that_swaps_without_end_gets_nothing_out(tree, secret):
    jail = ReadJail(str(tree))
    seen: set[str] = set()
    with swapping(tree) as process:
        for _ in rounds(seen, "inside", "PathRefused"):
            try:
                seen.add(jail.text("a/b/secret.txt")["text"])
                names = {entry["name"] for entry in jail.listing("a/b")["entries"]}
                assert names <= {"secret.txt", "new"}
            except PluginFault as fault:
                seen.add(type(fault).__name__)
        assert process.poll() is None
    assert secret not in seen
    assert {"inside", "PathRefused"} <= seen


def test_a_process_that_swaps_without_end_gets_nothing_in(tree):
    before = outside_of(tree)
    jail = WriteJail(str(tree))
    seen: set[str] = set()
    with swapping(tree) as process:
        for number in rounds(seen, "written", "PathRefused"):
            try:
                # Never the file that is swapped itself: taking its place would end the other side.
                jail.text(f"a/b/mine-{number % 50}", "x")
                jail.append(f"a/b/mine-{number % 50}", "y")
                seen.add("written")
            except PluginFault as fault:
                seen.add(type(fault).__name__)
        assert process.poll() is None
    assert outside_of(tree) == before
    assert {"written", "PathRefused"} <= seen
