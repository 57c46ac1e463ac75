"""The contracts in pyproject.toml hold, and each of them bites."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.effort import sample

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kagura_kernel"

# What breaks each contract: a line, and the file it is put into. Only files that no other contract cares about are new.
VIOLATIONS = {
    "Rooms lie in their order": ("journal/store.py", "import kagura_kernel.runs.run"),
    "A brain sees only the domain": ("brain/provider.py", "import kagura_kernel.sandbox.backend"),
    "No siblings in a ring": ("domain/clock.py", "import kagura_kernel.jupyter.cell"),
    "The domain does no I/O": ("domain/commands.py", "import subprocess"),
    "Adapters are named by the assembly alone": ("jupyter/options.py", "import kagura_kernel.sandbox.docker.backend"),
    "Which database it is stays in the journal": ("cockpit/approval_desk.py", "import kagura_kernel.journal.sqlite"),
    "Displays do not act": ("views/run.py", "import kagura_kernel.runs.run"),
    "The server extension sees only the journal, the memory, the domain and cards": (
        "jupyter/server/runs.py",
        "import kagura_kernel.cockpit.approval_desk",
    ),
    "What is sent into boxes stands alone": ("plugins/sdk/limits.py", "import kagura_kernel.domain.errors"),
    "SQLAlchemy and psycopg live in the journal and the memory": ("memory/store.py", "import sqlalchemy"),
    "The Docker library lives in its back-end": ("sandbox/pool.py", "import docker"),
    "The Kubernetes client lives in its back-end": ("sandbox/pool.py", "import kubernetes"),
    "The Claude Agent SDK lives in its brain": ("runs/run.py", "import claude_agent_sdk"),
    "Pydantic AI and the OpenAI client live in their brain": ("cockpit/engine.py", "import openai"),
    "OpenTelemetry lives in telemetry": ("runs/order.py", "import opentelemetry.trace"),
    "The package kagura-brain lives in its launcher": ("cockpit/engine.py", "import kagura_brain"),
    "Everything from Jupyter and pandas lives in jupyter": ("journal/views.py", "import pandas"),
    "Each chat's library lives in its transport": ("cockpit/engine.py", "import slack_bolt"),
    "The price list lives in runs.prices": ("runs/ledger.py", "import genai_prices"),
    "Each cloud's library lives in its provider": ("cockpit/engine.py", "import boto3"),
    "Dask lives in the assembly's workers": ("runs/order.py", "import distributed"),
    "The Update Framework lives in the repositories of plugins": ("plugins/installation.py", "import tuf"),
    "Rich lives in the progress of runs": ("cockpit/engine.py", "import rich"),
    "HTTP to upstreams lives in injection": ("cockpit/engine.py", "import h11"),
    "The keychain lives in one file": ("cockpit/engine.py", "import keyring"),
}


def contracts() -> dict[str, dict]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


def lint_imports(folder: Path) -> tuple[int, str]:
    """Exit code and text of the check on the package that lies in this folder."""
    # The folder comes first on the path: what is looked at is the copy, not the installed package.
    answer = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is; a test that changes it puts back what was there, so that only that is read anew."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "kagura_kernel", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@contextmanager
def with_text(path: Path, text: str) -> Iterator[None]:
    """The file holds this text in the block, and before and after it what it held, if it was there."""
    before = path.read_text("utf-8") if path.exists() else None
    path.write_text(text, "utf-8")
    yield
    if before is None:
        path.unlink()
    else:
        path.write_text(before, "utf-8")


def test_every_contract_holds(copy):
    code, text = lint_imports(copy)
    assert code == 0, text
    assert " 0 broken" in text


def test_every_contract_has_a_violation_to_prove_it():
    assert set(VIOLATIONS) == set(contracts())


@pytest.mark.parametrize("name", sample(list(VIOLATIONS), 6, "pyproject.toml", "tests/architecture/"))
def test_a_violation_is_found(copy, name):
    place, line = VIOLATIONS[name]
    path = copy / "kagura_kernel" / place
    text = path.read_text("utf-8") if path.exists() else ""

    with with_text(path, f"{text}\n{line}\n"):
        code, text = lint_imports(copy)

    assert code == 1, text
    assert f"{name} BROKEN" in text


def test_a_room_that_has_no_place_in_the_order_is_found(copy):
    room = copy / "kagura_kernel" / "helpers"
    room.mkdir()
    with with_text(room / "__init__.py", ""):
        code, text = lint_imports(copy)
    room.rmdir()

    assert code == 1
    assert "kagura_kernel.helpers" in text


def test_every_module_of_a_vendor_s_home_is_one_of_that_vendor():
    """A home may be several files; they are named for the vendor, so that a reader finds them together."""
    homes = {
        "The Docker library lives in its back-end": (
            "kagura_kernel.sandbox.docker",
            "kagura_kernel.sandbox.docker_endpoint",
            "kagura_kernel.sandbox.images.build",
        ),
        "The Claude Agent SDK lives in its brain": ("kagura_kernel.brain.claude",),
        "Pydantic AI and the OpenAI client live in their brain": ("kagura_kernel.brain.pydantic_ai",),
    }
    for name, prefixes in homes.items():
        assert all(one.startswith(prefixes) for one in contracts()[name]["allowed_importers"])
