"""Make the pages of docs/notebooks from the committed notebooks: `python dev/pages.py [--check]`.

A page has the notebook's text, its code and the plain form of each output, so that it reads anywhere. With `--check`
nothing is written; exit code 1 says that a page is not what its notebook makes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
PAGES = ROOT / "docs" / "notebooks"

_RELATIVE_LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<target>[^)]+)\)")


def page(path: Path) -> str:
    """The page of one notebook, Markdown."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    source = f"*Made from [notebooks/{path.name}](../../notebooks/{path.name}), which the tests run.*"
    language = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    parts = [part for cell in notebook.cells for part in _cell(cell, "text" if language == "kagura" else "python")]
    # The title first, then where the page comes from.
    return "\n\n".join([*parts[:1], source, *parts[1:]]) + "\n"


def pages() -> dict[str, str]:
    """Every page by its file name, the index among them."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    made = {f"{path.stem}.md": page(path) for path in paths}
    lines = [f"- [{_title(text)}]({name})" for name, text in made.items()]
    intro = "Each page is a notebook with the outputs that it was saved with. The notebooks run in every check."
    return made | {"README.md": "\n".join(["# Notebooks, as pages", "", intro, "", *lines]) + "\n"}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them; 1 when one differs or is left over."""
    made = pages()
    there = {path.name: path.read_text("utf-8") for path in PAGES.glob("*.md")}
    wrong = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if "--check" in arguments:
        for name in wrong:
            print(f"docs/notebooks/{name} is not what its notebook makes; run `python dev/pages.py`", file=sys.stderr)
        return 1 if wrong else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        if name in made:
            (PAGES / name).write_text(made[name], "utf-8")
        else:
            (PAGES / name).unlink()
    return 0


def _title(text: str) -> str:
    return text.partition("\n")[0].lstrip("# ")


def _cell(cell: Any, language: str) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield _RELATIVE_LINK.sub(_moved, cell.source.strip())
    elif cell.cell_type == "code" and cell.source.strip():
        yield _fenced(cell.source, language)
        yield from (_fenced(text, "text") for text in map(_plain, cell.outputs) if text.strip())


def _plain(output: Any) -> str:
    """What a reader of plain text gets of an output."""
    match output.output_type:
        case "stream":
            return str(output.text)
        case "error":
            return f"{output.ename}: {output.evalue}"
        case _:
            return str(output.data.get("text/plain", ""))


def _fenced(text: str, language: str) -> str:
    # Longer than any fence inside.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
    body = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"{fence}{language}\n{body}\n{fence}"


def _moved(link: re.Match[str]) -> str:
    """A link beside the notebook, seen from its page."""
    return f"]({_from_pages(link['target'])})"


def _from_pages(target: str) -> str:
    name, hash_, anchor = target.partition("#")
    if name.endswith(".ipynb") and "/" not in name:
        return f"{name.removesuffix('.ipynb')}.md{hash_}{anchor}"
    if name.startswith("../docs/"):
        return f"../{name.removeprefix('../docs/')}{hash_}{anchor}"
    return f"../../notebooks/{target}" if not name.startswith("../") else f"../{target}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
