"""The reader runs in a process of its own, with the standard library and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.plugins.scan import reader

FOLDER = Path(reader.__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_the_reader_imports_only_the_standard_library_and_itself(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            foreign += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            foreign.append(node.module or "")
    assert [name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names] == []


def test_it_answers_without_any_package():
    program = "import sys; sys.path.insert(0, sys.argv[1]); from reader.main import main; main()"
    words = [sys.executable, "-I", "-S", "-E", "-c", program, str(FOLDER.parent)]
    request = b'{"source": "plugin.py", "files": {"plugin.py": "aW1wb3J0IG9z"}}'
    answer = subprocess.run(words, input=request, capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, b"")
    assert b"missing-entry" in answer.stdout
