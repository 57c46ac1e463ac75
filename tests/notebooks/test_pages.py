"""The pages in docs/notebooks say what the notebooks say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pages() -> ModuleType:
    """`dev/pages.py`, which is a program and in no package."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "dev" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def elsewhere(pages, tmp_path, monkeypatch) -> Path:
    """A repository with one notebook."""
    monkeypatch.setattr(pages, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(pages, "PAGES", tmp_path / "docs" / "notebooks")
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def write(folder: Path, *cells: nbformat.NotebookNode) -> Path:
    path = folder / "notebooks" / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


def test_every_page_is_what_its_notebook_makes(pages, capsys):
    assert pages.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_names_the_language_that_its_kernel_has(path):
    # By this name black, ruff and papermill know what they must not rewrite as Python.
    metadata = nbformat.read(path, as_version=4).metadata
    wanted = "kagura" if metadata["kernelspec"]["name"] == "kagura" else "python"
    assert (metadata["kernelspec"]["language"], metadata["language_info"]["name"]) == (wanted, wanted)


def test_a_page_that_is_not_made_yet_or_left_over_is_found(pages, elsewhere, capsys):
    write(elsewhere, nbformat.v4.new_markdown_cell("# One"))
    assert pages.main(["--check"]) == 1
    assert "one.md" in capsys.readouterr().err
    assert pages.main([]) == 0
    assert pages.main(["--check"]) == 0
    (elsewhere / "docs" / "notebooks" / "gone.md").write_text("left over")
    assert pages.main(["--check"]) == 1
    assert pages.main([]) == 0
    assert not (elsewhere / "docs" / "notebooks" / "gone.md").exists()


def test_a_page_has_text_code_and_the_plain_form_of_outputs(pages, elsewhere):
    data = {"text/plain": "a ``` fence", "text/html": "<b>no</b>"}
    cell = nbformat.v4.new_code_cell("1 + 1", outputs=[nbformat.v4.new_output("execute_result", data)])
    path = write(elsewhere, nbformat.v4.new_markdown_cell("# One"), cell)
    text = pages.page(path)
    assert text.startswith("# One\n\n*Made from")
    assert "```python\n1 + 1\n```" in text
    assert "````text\na ``` fence\n````" in text
    assert "<b>" not in text


@pytest.mark.parametrize(
    ("link", "moved"),
    [
        ("../docs/egress.md#hosts", "../egress.md#hosts"),
        ("quickstart.ipynb", "quickstart.md"),
        ("one/data.csv", "../../notebooks/one/data.csv"),
        ("../README.md", "../../README.md"),
        ("https://example.org/a", "https://example.org/a"),
        ("#here", "#here"),
    ],
)
def test_links_of_a_notebook_lead_to_the_same_place_from_its_page(pages, elsewhere, link, moved):
    path = write(elsewhere, nbformat.v4.new_markdown_cell(f"# One\n\n[there]({link})"))
    assert f"[there]({moved})" in pages.page(path)
