"""The help of every command and option, as a terminal and a notebook show it."""

import re

import pytest

from kagura_kernel.cli.main import main
from tests.goldens.keeping import hold
from tests.goldens.plainly import sections
from tests.goldens.stage import ENVIRONMENT, ipython, printed

pytestmark = pytest.mark.xdist_group("goldens")

LISTED = {"terminal": "kagura-kernel", "notebook": "%kagura"}


def commands(overview: str, prefix: str) -> list[str]:
    return sorted(
        {found.strip() for found in re.findall(rf"^  {prefix} ((?:[a-z]+(?![\w|]) ?)+)", overview, re.MULTILINE)}
    )


def test_every_command_s_help_says_what_it_said(monkeypatch):
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
                parts = found.setdefault(f"{command.partition(' ')[0]}.txt", [])
                parts.append((f"{surface}: help {command}", asked(surface, command)))
        for magic in ("%kagura", "%%kagura", "%%sandbox"):
            told = re.sub(r"(?m)^(File: +)\S.*", r"\1<file>", shell.object_inspect_text(magic))
            found.setdefault("cells.txt", []).append((f"{magic}?", told))
    assert len(found) > 30
    hold("help", {name: sections(parts) for name, parts in found.items()})
