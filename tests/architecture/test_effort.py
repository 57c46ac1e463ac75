"""What has changed is tried in full, what has not as a sample; where nobody can tell, everything has changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import effort

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


def test_a_fixed_sample_stands_for_what_has_not_changed(repository: Path) -> None:
    (repository / "runs" / "one.py").write_text("2\n")
    (repository / "runs" / "new.py").write_text("3\n")
    assert effort.sample(CASES, 10, "kit/") == TEN
    assert effort.sample(CASES, 10, "runs/") == effort.sample(CASES, 10, "kit/", "runs/new.py") == CASES
    assert (effort.examples(5, 50, "kit/").max_examples, effort.examples(5, 50, "runs/").max_examples) == (5, 50)


@pytest.mark.parametrize("base", ["no-such-commit", ""])
def test_where_nobody_can_tell_everything_has_changed(
    repository: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    assert repository.is_dir()
    monkeypatch.setenv(effort.BASE, base)
    assert effort.changed() is None
    assert effort.sample(CASES, 10, "kit/") == CASES


def test_with_everything_asked_for_nothing_is_a_sample(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert effort.sample(CASES, 10, f"{repository.name}/") == TEN
    monkeypatch.setattr(effort, "EVERYTHING", True)
    assert effort.sample(CASES, 10, "kit/") == CASES
