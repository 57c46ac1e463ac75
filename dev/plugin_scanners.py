"""Writes docs/plugin-scanners.md: our scan, bandit and ruff's S rules on the same hostile and harmless plugins.

bandit is no dependency of this project: `pip install bandit` in any environment, and name its program with --bandit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.scan.scanner import scan_path
from tests.support.plugin_corpus import HARMLESS, HOSTILE, Sample, write_sample

PAGE = Path(__file__).resolve().parents[1] / "docs" / "plugin-scanners.md"
_BANDIT = {"HIGH": Severity.DANGER, "MEDIUM": Severity.WARNING, "LOW": Severity.INFO}

Verdicts = Mapping[str, Severity | None]
"""What a scanner says of each plugin, by name."""


def ours(folder: Path) -> Verdicts:
    """Our own scan, of whole directories."""
    return {place.name: scan_path(place).severity for place in sorted(folder.iterdir())}


def bandit(program: str) -> Callable[[Path], Verdicts]:
    """Bandit with every test it has; a file that it cannot parse counts as one in which it finds nothing."""

    def run(folder: Path) -> Verdicts:
        found: dict[str, Severity | None] = dict.fromkeys(place.name for place in folder.iterdir())
        for one in _answer([program, "-r", "-q", "-f", "json", str(folder)])["results"]:
            name = Path(one["filename"]).relative_to(folder).parts[0]
            found[name] = _graver(found[name], _BANDIT.get(one["issue_severity"], Severity.INFO))
        return found

    return run


def ruff(folder: Path) -> Verdicts:
    """Ruff's S rules, which are bandit's; they have no severity, so that each counts as a danger.

    A plugin on which it ends without an answer (nesting is too deep for its parser) is one in which it finds nothing.
    """
    program = str(Path(sys.executable).with_name("ruff"))
    words = [program, "check", "--isolated", "--no-cache", "--select", "S", "--output-format", "json", "--exit-zero"]
    found: dict[str, Severity | None] = {}
    for place in sorted(folder.iterdir()):
        answer = _answer([*words, str(place)])
        flagged = any(str(one["code"] or "").startswith("S") for one in answer)
        found[place.name] = Severity.DANGER if flagged else None
    return found


def _answer(words: list[str]) -> Any:
    answer = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - named by a person
    return json.loads(answer.stdout or "[]")


def _graver(one: Severity | None, other: Severity) -> Severity:
    return other if one is None or other.rank < one.rank else one


def measured(name: str, scanner: Callable[[Path], Verdicts], hostile: Path, harmless: Path) -> str:
    """One row of the table."""
    bad, good = scanner(hostile), scanner(harmless)
    wanted = {one.name: one.severity for one in HOSTILE}
    flagged = sum(severity is not None for severity in bad.values())
    noticed = sum(severity in (Severity.DANGER, Severity.WARNING) for severity in bad.values())
    right = sum(bad[plugin] is severity for plugin, severity in wanted.items())
    refused = sum(severity is Severity.DANGER for severity in good.values())
    return f"| {name} | {flagged} | {noticed} | {right} | {refused} |"


def _written(samples: tuple[Sample, ...], folder: Path) -> Path:
    for one in samples:
        write_sample(one, folder)
    return folder


def page(program: str) -> str:
    """The page."""
    with tempfile.TemporaryDirectory() as place:
        hostile = _written(HOSTILE, Path(place).resolve() / "hostile")
        harmless = _written(HARMLESS, Path(place).resolve() / "harmless")
        rows = [
            measured("`kagura-kernel plugin scan`", ours, hostile, harmless),
            measured("bandit", bandit(program), hostile, harmless),
            measured("ruff, S rules", ruff, hostile, harmless),
        ]
    dangers = sum(one.severity is Severity.DANGER for one in HOSTILE)
    return f"""# Scanners compared

This page is made by `python dev/plugin_scanners.py --bandit PROGRAM`. The plugins are those of
`tests.support.plugin_corpus`: {len(HOSTILE)} hostile ones, each another trick, of which {dangers} must be
refused and the others looked at; and {len(HARMLESS)} harmless ones, each another shape.

| scanner | hostile: something found | hostile: danger or warning | hostile: at the right severity | harmless: refused |
|---|---|---|---|---|
{chr(10).join(rows)}

bandit's HIGH counts as danger, MEDIUM as warning, LOW as a note. ruff's rules have no severity: each finding counts as
danger. Both look for mistakes of honest authors in one file at a time, and were not made to hold against an author who
hides; neither looks at a directory, nor at what a text would become. Our own numbers say little by themselves, for the
rules and these plugins come from the same hands; the rules are in [plugin-rules.md](plugin-rules.md). And no scan holds
everything back: what it lets through still runs in a jail that opens nothing but what a person has allowed.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bandit", default=shutil.which("bandit") or "bandit", help="bandit's program")
    PAGE.write_text(page(parser.parse_args().bandit), "utf-8")
    print(f"{PAGE} was written.")
