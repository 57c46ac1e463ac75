"""Nothing in the repository ties it to one machine."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each with the reason why it may not stand in a file that others get.
UNWANTED = {
    r"(?<![\w.])/work/": "a folder of the machine that it was written on",
    r"(?<![\w.])/(root|home/(?!agent\b)\w+)/(\.pyenv|\.venv|\.local|src|projects)\b": "somebody's home",
    r"/opt/(wheels|pypi)": "a local store of packages",
    r"\b(pypi\.org/simple|files\.pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org)\b": (
        "an address of a registry: pip, npm and apt know theirs, and a mirror must be able to stand in"
    ),
}


# The named sets of hosts that a run can be granted cannot be told without the hosts' names.
EXEMPT = {ROOT / "kagura_kernel/membrane/egress/hosts.py"}


def tracked_files() -> list[Path]:
    """Files that are, or with the next commit may be, part of the repository."""
    # A clone may belong to another user than the one who runs the tests.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in answer.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve() and path not in EXEMPT]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: there is no list of files to look through")
def test_no_file_names_a_machine_or_a_registry():
    found = []
    for path in tracked_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        for number, line in enumerate(text.splitlines(), start=1):
            found += [
                f"{path.relative_to(ROOT)}:{number}: {reason}: {line.strip()[:100]}"
                for pattern, reason in UNWANTED.items()
                if re.search(pattern, line)
            ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["cd /work/main", "PATH=/root/.pyenv/shims", '"resolved": "https://registry.npmjs.org/x"', "/home/me/src/x"]
)
def test_an_unwanted_word_is_found(line):
    assert any(re.search(pattern, line) for pattern in UNWANTED)


@pytest.mark.parametrize("line", ["cd /workspace", "https://pypi.org/project/keyring", "ls /root", "a/work/b"])
def test_other_words_are_left_alone(line):
    assert not any(re.search(pattern, line) for pattern in UNWANTED)
