"""The notebook about the outside says what the pages say."""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def test_the_checker_that_the_notebook_writes_is_that_of_the_page_about_auditing():
    page = (ROOT / "docs" / "auditing.md").read_text("utf-8")
    script = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    cells = nbformat.read(ROOT / "notebooks" / "outside.ipynb", as_version=4).cells
    written = [cell.source for cell in cells if cell.source.startswith("%%writefile check.py\n")]
    assert script is not None
    assert [text.partition("\n")[2].strip() for text in written] == [script[1].strip()]
