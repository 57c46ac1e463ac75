"""The documents speak of what is there."""

import re
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kagura_kernel"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "images").glob("*.md")])

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
FILE = re.compile(r"`((?:[\w.*-]+/)*[\w.*-]+(?:\.css|\.py|\.sh|\.toml|\.ts|\.yaml|/))`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path):
    assert [target for target in LINK.findall(path.read_text("utf-8")) if not (path.parent / target).exists()] == []


def named_files(text: str) -> list[str]:
    """Paths that a document names, below the repository, the package, or one of its rooms."""
    return [name for name in FILE.findall(text) if not name.startswith(("-", "."))]


@pytest.mark.parametrize("page", ["architecture", "boxes", "changing", "rooms"])
def test_every_file_that_pages_on_the_code_name_is_there(page):
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    rooms = [folder for folder in PACKAGE.iterdir() if folder.is_dir()]
    # What lies in the user's directories is not in the repository.
    elsewhere = {"config.toml", "blobs/", "outputs/"}
    missing = [
        name
        for name in named_files(text)
        if name not in elsewhere
        and not any(list(place.glob(name)) for place in (ROOT, ROOT / "labextension" / "src", PACKAGE, *rooms))
    ]
    assert missing == []
    assert named_files(text)


def test_the_page_for_changes_has_thirty_of_them_and_each_names_a_file():
    rows = re.findall(
        r"^\| (?!to …|---)(.+?) \| (.+) \|$", (ROOT / "docs" / "changing.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) >= 30
    assert [what for what, where in rows if not named_files(where)] == []


def test_the_drawing_is_what_the_contracts_say():
    program = run_path(str(ROOT / "dev" / "drawing.py"))
    assert program["PICTURE"].read_text("utf-8") == program["drawing"](), "run dev/drawing.py"


def test_every_room_stands_in_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert {room for room in rooms if f"`{room}`" not in text} == set()


def test_every_decision_is_listed_and_has_its_three_parts():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    for number, path in enumerate(records, start=1):
        text = path.read_text("utf-8")
        assert path.name.startswith(f"{number:04}-")
        assert path.name in listed
        assert all(f"\n## {part}\n" in text for part in ("Context", "Decision", "Consequences"))


def test_the_glossary_is_in_order_and_says_each_thing_once():
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)
    assert words == sorted(set(words), key=lambda word: word.replace("-", ""))
    # A longer list is a private language that strangers have to learn.
    assert 40 <= len(words) <= 60
