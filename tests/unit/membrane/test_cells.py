"""Cells on their way into a notebook's file: what was proposed, over nothing newer, and nothing else."""

import json

import pytest

from kagura_kernel.domain.notebook import TOP, CellEdit
from kagura_kernel.membrane.cells import CHANGED, GONE, NO_PLACE, UNREADABLE, write_file
from kagura_kernel.membrane.project import ProjectFiles


def code(ident, source, **more):
    return {
        "cell_type": "code",
        "id": ident,
        "metadata": {},
        "execution_count": 1,
        "outputs": [],
        "source": source,
    } | more


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "w.ipynb"
    shown = [{"output_type": "stream", "name": "stdout", "text": ["ü\n"]}]
    cells = [code("a", ["a = 1\n", "b = 2"], outputs=shown), code("b", "b"), code("c", "c")]
    whole = {"cells": cells, "metadata": {"kept": True}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole, indent=1), "utf-8")
    path.chmod(0o640)
    return path


def cells_of(path):
    return [(cell["id"], "".join(cell["source"])) for cell in json.loads(path.read_text("utf-8"))["cells"]]


def test_cells_are_inserted_edited_moved_and_deleted_and_all_else_stays(file):
    edits = [
        CellEdit("edit", "a", "code", "a = 2", ("a = 1\nb = 2",)),
        CellEdit("insert", "new", "markdown", "# Title\ntext", (), TOP),
        CellEdit("edit", "c", "code", "c", ("c",), "a"),
        CellEdit("delete", "b", "code", "", ("b",)),
    ]
    assert write_file(file, edits) == {}
    assert cells_of(file) == [("new", "# Title\ntext"), ("a", "a = 2"), ("c", "c")]
    whole = json.loads(file.read_text("utf-8"))
    assert whole["metadata"] == {"kept": True}
    assert whole["cells"][1]["outputs"][0]["text"] == ["ü\n"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in file.parent.iterdir()] == ["w.ipynb"]


def test_what_is_not_as_it_was_is_left_and_told(file):
    edits = [
        CellEdit("edit", "a", "code", "mine", ("something else",)),
        CellEdit("edit", "z", "code", "mine", ("z",)),
        CellEdit("insert", "n", "code", "n", (), "z"),
        CellEdit("edit", "b", "code", "b = 2", ("old", "b")),
    ]
    assert write_file(file, edits) == {"a": CHANGED, "z": GONE, "n": NO_PLACE}
    assert cells_of(file) == [("a", "a = 1\nb = 2"), ("b", "b = 2"), ("c", "c")]


def test_a_file_that_is_written_at_the_same_moment_stays_as_it_was_written(file, monkeypatch):
    replace = ProjectFiles.replace

    def slow(self, *args, **options):
        file.write_text("{}")
        replace(self, *args, **options)

    monkeypatch.setattr(ProjectFiles, "replace", slow)
    assert write_file(file, [CellEdit("delete", "b", "code", "", ("b",))]) == {"b": CHANGED}
    assert file.read_text() == "{}"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"nbformat": 3, "cells": []}', '{"nbformat": 4, "cells": [1]}'])
def test_what_is_no_notebook_is_left_alone(file, text):
    file.write_text(text)
    assert write_file(file, [CellEdit("delete", "b")]) == {"b": UNREADABLE}
    assert file.read_text() == text


def test_a_link_is_not_followed(file):
    link = file.with_name("link.ipynb")
    link.symlink_to(file.name)
    assert write_file(link, [CellEdit("delete", "b", "code", "", ("b",))]) == {"b": UNREADABLE}
