"""Every notebook passes nbval with the outputs that are committed."""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import nbformat
import pytest

from kagura_kernel.domain.memory import Author, Draft, Source, Tier
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from kagura_kernel.testing.false_home import share_rules
from tests.support.sshd import other_machine, program

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
ALL = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
# Each takes long, and none needs another: whichever worker is free takes the next one.
SPREAD = [pytest.param(name, marks=pytest.mark.xdist_group(f"notebook-{name}")) for name in ALL]
SANITIZE = Path(__file__).with_name("sanitize.cfg")
ELSEWHERE = "elsewhere.ipynb"
"""Makes its boxes on another machine, which was called `box` when it was saved."""
WITHHELD = ("DOCKER_HOST", "JUPYTER_PATH")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """The notebooks and their folders, in a place of their own: what a run applies must not land in the repository."""
    ignored = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    return Path(shutil.copytree(NOTEBOOKS, tmp_path / "notebooks", ignore=ignored))


def machine(home: Path) -> dict[str, str]:
    """An environment that knows nothing of whoever saved the notebook, and has the one box that is there everywhere."""
    share_rules(home / "kagura")
    placed = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "KAGURA_HOME": home / "kagura",
        "XDG_RUNTIME_DIR": home,
        "JUPYTER_DATA_DIR": home / "jupyter",
        "JUPYTER_CONFIG_DIR": home / "jupyter-config",
        "JUPYTER_RUNTIME_DIR": home / "jupyter-runtime",
        "IPYTHONDIR": home / "ipython",
    }
    plain = {
        # Which box there is differs between machines, and a card says so.
        "KAGURA_BOX": "bubblewrap",
        # A kernel of the same name that somebody else has installed is not meant.
        "JUPYTER_PREFER_ENV_PATH": "1",
        # Nothing but nbval is needed, and each notebook would wait for the rest to be imported.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    ours = {name: value for name, value in os.environ.items() if name not in WITHHELD}
    return ours | {name: str(place) for name, place in placed.items()} | plain


def furnished(home: Path) -> None:
    """What somebody may have at home who has used agents, and us, before."""
    (home / "CLAUDE.md").write_text("Always answer in verse.\n")
    skill = home / ".claude" / "skills" / "verses" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: verses\ndescription: How to write a report in verse.\n---\nRhyme.\n")
    settings = home / ".config" / "kagura-kernel" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('budget_usd = 1.5\nwrite = "none"\n\n[mirrors]\nours = ["packages.example.com"]\n')
    with closing(SqliteMemory(home / "kagura" / FILE)) as memory:
        words = "Which region did better in the first quarter? The report tells which computer this is."
        memory.remember(Draft(words, Source(Author.HUMAN, "ada"), tier=Tier.TRUSTED, pinned=True))


def nbval(notebook: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a notebook in the kernel that it names, so that none ever runs in the other, and compare every output."""
    home = notebook.parent.parent / "home"
    home.mkdir(mode=0o700)
    environment = machine(home) | variables
    furnished(home)
    kernel = nbformat.read(notebook, as_version=4).metadata["kernelspec"]["name"]
    options = ["--nbval", "--nbval-kernel-name", kernel, "--nbval-cell-timeout", "120"]
    options += ["--nbval-sanitize-with", str(SANITIZE)]
    quiet = ["-q", "--color=no", "-p", "no:cacheprovider", "--rootdir", str(notebook.parent), "-c", os.devnull]
    # Ours comes first: it postpones what takes longest of nbval's imports (`domain.late_modules`).
    plugins = ["-p", "tests.support.parsing", "-p", "nbval.plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, *quiet, str(notebook)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=notebook.parent,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("name", SPREAD)
def test_a_notebook_gives_the_outputs_that_are_committed(copies, name):
    with ExitStack() as stack:
        variables = {}
        if name == ELSEWHERE:
            if program() is None:
                pytest.skip("needs sshd: dev/setup.sh test unpacks it")
            there = stack.enter_context(other_machine())
            variables = {"KAGURA_SSH_HOST": there.host, "KAGURA_SSH_CONFIG": there.config}
        result = nbval(copies / name, **variables)
    assert result.returncode == 0, result.stdout[-6000:]


@pytest.mark.parametrize("name", ALL)
def test_a_notebook_is_committed_with_the_outputs_of_every_cell_it_has_run(name):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any(cell.outputs for cell in code)


@pytest.mark.xdist_group("notebook-untrue")
def test_an_output_that_is_not_true_any_more_is_found(copies):
    path = copies / "quickstart.ipynb"
    notebook = nbformat.read(path, as_version=4)
    outputs = [(number, output) for number, cell in enumerate(notebook.cells) for output in cell.get("outputs", [])]
    number, card = next((number, output) for number, output in outputs if "text/plain" in output.get("data", {}))
    assert "sales.csv" in card.data["text/plain"]
    card.data["text/plain"] = card.data["text/plain"].replace("sales.csv", "costs.csv")
    # What follows has nothing to do with it.
    del notebook.cells[number + 1 :]
    nbformat.write(notebook, path)
    result = nbval(path)
    assert result.returncode == 1
    assert "mismatch 'text/plain'" in result.stdout
