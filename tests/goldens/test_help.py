"""Help as a terminal and a notebook show it; its words, of every command, are those of `docs/commands.md`."""

import re

import pytest

from kagura_kernel.cli.main import main
from tests.goldens.keeping import hold
from tests.goldens.plainly import sections
from tests.goldens.stage import ENVIRONMENT, ipython, printed

pytestmark = pytest.mark.xdist_group("goldens")

LISTED = {"terminal": "kagura-kernel", "notebook": "%kagura"}
KEPT = {"terminal", "notebook", "cells", "chart", "leases", "run"}
"""The overviews, and a command of each form: with words alone, with commands below it, with many options."""


def commands(overview: str, prefix: str) -> list[str]:
    return sorted(
        {found.strip() for found in re.findall(rf"^  {prefix} ((?:[a-z]+(?![\w|]) ?)+)", overview, re.MULTILINE)}
    )


def test_help_is_shown_of_every_command_as_it_was(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    found: dict[str, list[tuple[str, str]]] = {}
    with ipython() as shell:

        def asked(surface: str, words: str = "") -> str:
            with printed() as out:
                if surface == "terminal":
                    assert main(["help", *words.split()]) == 0
                else:
                    shell.run_line_magic("kagura", f"help {words}")
                return out()

        for surface, prefix in LISTED.items():
            overview = asked(surface)
            found[f"{surface}.txt"] = [("help", overview)]
            for command in commands(overview, prefix):
                told = asked(surface, command)
                assert told.startswith("usage: "), command
                parts = found.setdefault(f"{command.partition(' ')[0]}.txt", [])
                parts.append((f"{surface}: help {command}", told))
        for magic in ("%kagura", "%%kagura", "%%sandbox"):
            told = re.sub(r"(?m)^(File: +)\S.*", r"\1<file>", shell.object_inspect_text(magic))
            found.setdefault("cells.txt", []).append((f"{magic}?", told))
    assert len(found) > 30
    hold("help", {f"{name}.txt": sections(found[f"{name}.txt"]) for name in KEPT})
