"""Tools that propose cells: a draft is changed, and what differs from the notebook is what is proposed."""

import pytest

from kagura_kernel.domain.notebook import TOP, Notebook, NotebookCell
from kagura_kernel.tools.cells import LONGEST_SOURCE, Draft, cell_tools
from kagura_kernel.tools.toolbox import CallContext


class Proposing:
    """A notebook of three cells, with tools over its draft."""

    def __init__(self):
        cells = [NotebookCell(ident, source=f"{ident} = 1") for ident in "abc"]
        cells.append(NotebookCell("m", source="# leased [REDACTED:…]"))
        cells.append(NotebookCell("long", source="x", whole=False))
        self.draft = Draft(Notebook("w.ipynb", "live", tuple(cells)))
        tools = cell_tools(self.draft, self.told, lambda text: text.replace("leased", "(hidden)"))
        self.tools = {tool.spec.name: tool for tool in tools}

    async def told(self):
        return "proposed."

    async def call(self, name, **arguments):
        return await self.tools[name].call(arguments, CallContext())

    @property
    def edits(self):
        return [(edit.action, edit.cell, edit.source, edit.above) for edit in self.draft.edits()]


@pytest.fixture
def proposing():
    return Proposing()


async def test_an_edited_cell_is_one_change_and_one_that_is_taken_back_is_none(proposing):
    await proposing.call("edit_cell", cell="b", source="b = 2")
    await proposing.call("edit_cell", cell="b", source="b = 3")
    assert proposing.edits == [("edit", "b", "b = 3", "")]
    assert proposing.draft.edits()[0].was == ("b = 1",)
    await proposing.call("edit_cell", cell="b", source="b = 1")
    assert proposing.edits == []


async def test_a_new_cell_can_be_edited_built_on_and_deleted(proposing):
    told = await proposing.call("insert_cell", source="x", below="a")
    first = told.text.partition(":")[0]
    second = (await proposing.call("insert_cell", source="# y", below=first, kind="markdown")).text.partition(":")[0]
    await proposing.call("edit_cell", cell=first, source="x = 2")
    assert proposing.edits == [("insert", first, "x = 2", "a"), ("insert", second, "# y", first)]
    await proposing.call("delete_cell", cell=second)
    assert [edit[1] for edit in proposing.edits] == [first]


async def test_cells_are_moved_and_deleted(proposing):
    await proposing.call("move_cell", cell="c", below=TOP)
    await proposing.call("delete_cell", cell="b")
    assert proposing.edits == [("edit", "c", "c = 1", TOP), ("delete", "b", "", "")]


async def test_a_mark_that_the_person_has_written_may_stay(proposing):
    assert not (await proposing.call("edit_cell", cell="m", source="# [REDACTED:…]")).is_error
    assert not (await proposing.call("move_cell", cell="m", below="a")).is_error


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("edit_cell", {"cell": "z", "source": "1"}, "no cell 'z'"),
        ("insert_cell", {"below": "z", "source": "1"}, "no cell 'z'"),
        ("move_cell", {"cell": "a", "below": "a"}, "below itself"),
        ("edit_cell", {"cell": "a", "source": "key = '[REDACTED:token]'"}, "in the place of a secret"),
        ("edit_cell", {"cell": "m", "source": "[REDACTED:…] [REDACTED:token]"}, "in the place of a secret"),
        ("insert_cell", {"below": "a", "source": "key = '(hidden)'"}, "in the place of a secret"),
        ("edit_cell", {"cell": "a", "source": "1\n… 99 characters left out …\n2"}, "what you were not shown"),
        ("edit_cell", {"cell": "a", "source": "key = 'leased'"}, "a credential of this run"),
        ("edit_cell", {"cell": "long", "source": "x"}, "so long"),
        ("move_cell", {"cell": "long", "below": "a"}, "so long"),
        ("insert_cell", {"below": "a", "source": "x" * (LONGEST_SOURCE + 1)}, "characters"),
    ],
)
async def test_what_cannot_be_is_told_and_changes_nothing(proposing, name, arguments, why):
    result = await proposing.call(name, **arguments)
    assert result.is_error
    assert why in result.text
    assert proposing.edits == []
