"""The server extension lives in another process than any run: what it may import, and what that costs."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.jupyter import server

FOLDER = Path(server.__file__).parent
ALLOWED = (
    "kagura_kernel.journal",
    "kagura_kernel.memory",
    "kagura_kernel.domain",
    "kagura_kernel.render",
    "kagura_kernel.views",
    "kagura_kernel.jupyter.server",
)

# What a server must not pay for at its start: the first question does.
LATE = ("sqlalchemy", "pydantic", "pandas", "IPython", "ipykernel", "ipywidgets")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_it_sees_only_the_journal_the_memory_the_domain_and_cards(path):
    foreign = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "kagura_kernel":
                names = [f"kagura_kernel.{name.name}" for name in node.names]
        foreign += [name for name in names if name.startswith("kagura_kernel") and not name.startswith(ALLOWED)]
    # Of the package itself its version, and what takes secrets out of a text: it imports what it needs when called.
    assert set(foreign) <= {"kagura_kernel.__version__", "kagura_kernel.redact"}


def modules_after(code: str) -> set[str]:
    code += "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_looking_for_it_imports_nothing():
    found = modules_after("import kagura_kernel.jupyter.server")
    assert not found & {*LATE, "jupyter_server", "tornado", "traitlets"}


def test_loading_it_imports_no_database():
    found = modules_after("from kagura_kernel.jupyter.server import _jupyter_server_extension_points as p; p()")
    assert not found & {"sqlalchemy", "pydantic", "pandas", "ipykernel", "ipywidgets"}


def test_openapi_and_the_sidebars_types_are_those_of_the_routes():
    spec = importlib.util.spec_from_file_location("server_api", FOLDER.parents[2] / "dev" / "server_api.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert program.OPENAPI.read_text("utf-8") == program.document(), "run dev/server_api.py"
    assert program.SCHEMA.read_text("utf-8") == program.sidebar(), "run dev/server_api.py"
