import contextlib
import hashlib
import threading
from itertools import count
from pathlib import Path

import pytest

from kagura_kernel.membrane import project
from kagura_kernel.membrane.project import Changed, ProjectFiles


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(params=["with an exchange", "without one"])
def files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, root: Path) -> ProjectFiles:
    if request.param == "without one":
        monkeypatch.setattr(project, "_system_call", lambda: None)
    return ProjectFiles(root)


def test_what_was_expected_gives_way(files: ProjectFiles, root: Path) -> None:
    (root / "a").write_bytes(b"old")
    files.replace("a", b"new", 0o644, expected=sha(b"old"))
    files.replace("b", b"added", 0o644, expected="")
    files.link("c", "a", expected="")
    assert ((root / "a").read_bytes(), (root / "b").read_bytes(), (root / "c").readlink()) == (
        b"new",
        b"added",
        Path("a"),
    )
    files.remove("b", expected=sha(b"added"))
    assert sorted(path.name for path in root.iterdir()) == ["a", "c"]


def test_what_was_not_expected_stays_and_nothing_is_left_beside_it(files: ProjectFiles, root: Path) -> None:
    (root / "a").write_bytes(b"mine")
    for attempt in (
        lambda: files.replace("a", b"new", 0o644, expected=sha(b"old")),
        lambda: files.replace("a", b"new", 0o644, expected=""),
        lambda: files.link("a", "b", expected=""),
        lambda: files.link("a", "b", expected=sha(b"old")),
        lambda: files.remove("a", expected=sha(b"old")),
        lambda: files.replace("gone", b"new", 0o644, expected=sha(b"old")),
    ):
        with pytest.raises((Changed, FileNotFoundError)):
            attempt()
    assert [path.name for path in root.iterdir()] == ["a"]
    assert (root / "a").read_bytes() == b"mine"


def save(root: Path, content: bytes) -> None:
    (root / "their-editor").write_bytes(content)
    (root / "their-editor").replace(root / "a")


def save_at(steps: list[int], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment is chosen: the person saves just before these steps that change the directory."""
    real, counted = project._rename, count(1)

    def rename(old: str, new: str, directory: int, how: int) -> None:
        if (step := next(counted)) in steps:
            save(root, b"person %d" % step)
        real(old, new, directory, how)

    monkeypatch.setattr(project, "_rename", rename)


@pytest.mark.parametrize("steps", [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]])
def test_a_save_between_looking_and_replacing_survives(root, monkeypatch, steps):
    save_at(steps, root, monkeypatch)
    (root / "a").write_bytes(b"old")
    with pytest.raises(Changed):
        ProjectFiles(root).replace("a", b"agent", 0o644, expected=sha(b"old"))
    assert (root / "a").read_bytes() == b"person %d" % steps[-1]
    assert [path.name for path in root.iterdir()] == ["a"]


@pytest.mark.parametrize("steps", [[1], [1, 2]])
def test_a_save_while_a_file_is_removed_survives(root, monkeypatch, steps):
    save_at(steps, root, monkeypatch)
    (root / "a").write_bytes(b"old")
    with pytest.raises(Changed):
        ProjectFiles(root).remove("a", expected=sha(b"old"))
    assert (root / "a").read_bytes() == b"person %d" % steps[-1]
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_removal_of_ours_meanwhile_leaves_the_persons_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, steps = project._rename, 0

    def exchange(one: str, other: str, directory: int, how: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            save(root, b"person")
        elif steps == 2:
            (root / "a").unlink()
        real(one, other, directory, how)

    monkeypatch.setattr(project, "_rename", exchange)
    (root / "a").write_bytes(b"old")
    with pytest.raises(Changed):
        ProjectFiles(root).replace("a", b"agent", 0o644, expected=sha(b"old"))
    assert (root / "a").read_bytes() == b"person"


def test_no_save_is_lost_to_a_race(root: Path) -> None:
    """A person saves at any moment: whenever the change was told as applied, they saved before it or after it."""
    files, old = ProjectFiles(root), sha(b"old")
    for _ in range(200):
        (root / "a").write_bytes(b"old")
        began = threading.Event()

        def person(began: threading.Event = began) -> None:
            began.set()
            save(root, b"person")

        thread = threading.Thread(target=person)
        thread.start()
        began.wait()
        with contextlib.suppress(Changed):
            files.replace("a", b"agent" * 20_000, 0o644, expected=old)
        thread.join()
        assert (root / "a").read_bytes() == b"person"


def test_a_directory_in_the_place_of_a_file_stays(files: ProjectFiles, root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "inner").write_text("x")
    with pytest.raises((Changed, IsADirectoryError)):
        files.replace("a", b"new", 0o644, expected=sha(b"old"))
    assert [path.name for path in root.iterdir()] == ["a"]
    assert (root / "a" / "inner").read_text() == "x"
