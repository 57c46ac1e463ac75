"""A check tries a fixed sample; whoever names tests gets them in full where their code has changed, or may have."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import effort

TESTS = Path(__file__).parents[1]
CASES = list(range(100))
TEN = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One commit with two rooms, which is the base."""
    for room in ("kit", "runs"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "one.py").write_text("1\n")
    person = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "."], [*person, "commit", "-qm", "One"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(effort, "ROOT", tmp_path)
    monkeypatch.setattr(effort, "EVERYTHING", False)
    monkeypatch.setattr(effort, "SAMPLE", False)
    monkeypatch.setenv(effort.BASE, "HEAD")
    effort.changed.cache_clear()
    yield tmp_path
    effort.changed.cache_clear()


def test_a_fixed_sample_stands_for_what_has_not_changed(repository):
    (repository / "runs" / "one.py").write_text("2\n")
    (repository / "runs" / "new.py").write_text("3\n")
    assert effort.sample(CASES, 10, "kit/") == TEN
    assert effort.sample(CASES, 10, "runs/") == effort.sample(CASES, 10, "kit/", "runs/new.py") == CASES
    assert (effort.examples(5, 50, "kit/").derandomize, effort.examples(5, 50, "runs/").derandomize) == (True, False)


@pytest.mark.parametrize("base", ["no-such-commit", ""])
def test_where_nobody_can_tell_everything_has_changed(repository, monkeypatch, base):
    assert repository.is_dir()
    monkeypatch.setenv(effort.BASE, base)
    assert effort.changed() is None
    assert effort.sample(CASES, 10, "kit/") == CASES


def test_with_everything_asked_for_nothing_is_a_sample(repository, monkeypatch):
    assert effort.sample(CASES, 10, f"{repository.name}/") == TEN
    assert effort.examples(5, 50, "kit/").max_examples == 5
    monkeypatch.setattr(effort, "EVERYTHING", True)
    assert effort.sample(CASES, 10, "kit/") == CASES
    assert effort.examples(5, 50, "kit/").max_examples == 50


def test_a_check_tries_a_sample_of_dear_tests_and_tables_whatever_has_changed(repository, monkeypatch):
    monkeypatch.setattr(effort, "DEAR", {3: ("tests/runs/",)})
    monkeypatch.setattr(effort, "SAMPLE", False)
    (repository / "runs" / "new.py").write_text("3\n")
    dears = [f"tests/runs/test_box.py::test[{number}]" for number in range(300)]
    assert effort.left_out(dears) == set()
    assert effort.sample(CASES, 10, "runs/") == CASES
    monkeypatch.setattr(effort, "SAMPLE", True)
    left = effort.left_out(dears)
    assert 150 < len(left) < 250
    assert effort.left_out(dears) == left
    assert effort.left_out(name.replace("runs", "kit") for name in dears) == set()
    few = [f"tests/runs/test_{number}.py::test" for number in range(20)]
    assert effort.left_out([*few, *dears]) == left, "no file is left out as a whole"
    assert effort.sample(CASES, 10, "runs/") == TEN


def test_every_dear_test_is_there():
    known = [str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("*.py")]
    for one in (path for paths in effort.DEAR.values() for path in paths):
        assert any(path.startswith(one) for path in known)
