"""What has changed is tried in full, what has not as a sample; where nobody can tell, everything has changed."""

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


def test_of_dear_tests_a_sample_stays_unless_their_code_or_they_themselves_have_changed(repository, monkeypatch):
    dear = effort.Dear(("tests/runs/",), ("runs/",), one_in=3)
    monkeypatch.setattr(effort, "DEAR", (dear,))
    monkeypatch.setattr(effort, "SAMPLE", False)
    dears = [f"tests/runs/test_box.py::test[{number}]" for number in range(300)]
    cheap = [name.replace("runs", "kit") for name in dears]
    assert not any(map(effort.left_out, dears))
    monkeypatch.setattr(effort, "SAMPLE", True)
    left = [*map(effort.left_out, dears)]
    assert 150 < sum(left) < 250
    assert [*map(effort.left_out, dears)] == left
    assert not any(map(effort.left_out, cheap))
    (repository / "runs" / "new.py").write_text("3\n")
    effort.changed.cache_clear()
    assert not any(map(effort.left_out, dears))


def test_every_dear_test_and_its_code_is_there():
    known = [str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("*.py")]
    for dear in effort.DEAR:
        assert all((TESTS.parent / source).exists() for source in dear.sources)
        assert all(any(path.startswith(one) for path in known) for one in dear.tests)
