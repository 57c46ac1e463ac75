"""What failed beside others is run once more, by itself, and by the name that a run without workers knows."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

WORKERS = ("-n", "2", "--dist", "loadgroup", ".")

TESTS = """
import os
import pathlib

import pytest

RAN = pathlib.Path("ran")


def ran(name):
    with RAN.open("a") as file:
        file.write(name + "\\n")
    return RAN.read_text().split().count(name)


@pytest.mark.xdist_group("one daemon")
def test_grouped():
    assert ran("grouped") > {grouped}


@pytest.mark.parametrize("at", ["a@b"])
def test_named(at):
    assert ran("named") > {named}


@pytest.mark.parametrize("number", range(4))
def test_others(number):
    assert ran("others") > {others}
"""


def run(project: Path, text: str, *arguments: str) -> tuple[int, str, Counter[str]]:
    """The exit code, what was printed, and how often each test ran."""
    (project / "test_it.py").write_text(text, encoding="utf-8")
    (project / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # Nothing but the workers is needed, and each of a dozen processes would wait for the rest to be imported.
    environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    program = str(ROOT / "dev" / "steadily.py")
    ended = subprocess.run(
        [sys.executable, program, *arguments], cwd=project, env=environ, capture_output=True, text=True, check=False
    )
    book = project / "ran"
    names = book.read_text(encoding="utf-8").split() if book.exists() else []
    return ended.returncode, ended.stdout + ended.stderr, Counter(names)


def test_what_passes_runs_once(tmp_path):
    code, said, ran = run(tmp_path, TESTS.format(grouped=0, named=0, others=0), *WORKERS)
    assert (code, ran) == (0, {"grouped": 1, "named": 1, "others": 4})
    assert "unsteady" not in said


def test_only_what_failed_runs_again_and_is_named(tmp_path):
    code, said, ran = run(tmp_path, TESTS.format(grouped=1, named=1, others=0), *WORKERS)
    assert (code, ran) == (0, {"grouped": 2, "named": 2, "others": 4})
    assert "unsteady" in said
    assert "test_it.py::test_grouped\n" in said
    assert "test_it.py::test_named[a@b]\n" in said


def test_what_fails_twice_has_failed(tmp_path):
    code, said, ran = run(tmp_path, TESTS.format(grouped=9, named=0, others=0), *WORKERS)
    assert (code, ran["grouped"], ran["others"]) == (1, 2, 4)
    assert "unsteady" not in said


def test_many_failures_are_no_accident(tmp_path):
    code, _, ran = run(tmp_path, TESTS.format(grouped=99, named=99, others=99), *WORKERS)
    assert (code, ran) == (1, {"grouped": 1, "named": 1, "others": 4})


# Each of the two workers reads it once in the first run.
UNREAD = """
import pathlib

with pathlib.Path("reads").open("a") as file:
    file.write("x")
if len(pathlib.Path("reads").read_text()) <= 2:
    raise SystemError("no luck")
"""


@pytest.mark.parametrize("failing", [0, 1])
def test_a_file_that_could_not_be_read_has_everything_run_again_and_then_what_failed(tmp_path, failing):
    code, said, ran = run(tmp_path, UNREAD + TESTS.format(grouped=failing, named=0, others=0), *WORKERS)
    assert (code, ran) == (0, {"grouped": 1 + failing, "named": 1, "others": 4}), said
    assert ("unsteady" in said) == bool(failing)
