from pathlib import Path
from runpy import run_path

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS

PROGRAM = run_path(str(Path(__file__).resolve().parents[4] / "dev" / "commands_page.py"))
PAGE, commands_page = PROGRAM["PAGE"], PROGRAM["commands_page"]


def test_the_page_is_what_the_list_says():
    assert PAGE.read_text("utf-8") == commands_page(), "run dev/commands_page.py"


def test_the_page_has_every_command_and_every_option():
    page = commands_page()
    for command in COMMANDS:
        assert f"\n### `{command.name}`\n" in page
    for form in (*COMMANDS, *CELL_MAGICS):
        for option in form.options:
            assert f"`{option.flags[-1]}" in page


def test_no_cell_of_a_table_is_torn_by_what_stands_in_it():
    tables = [line for line in commands_page().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} == {4}
