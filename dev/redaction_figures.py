"""Writes the figures in docs/redaction.md: our redaction, the scanner library alone and detect-secrets, on one corpus.

python dev/redaction_figures.py [--print] [--missed]

`--print` writes nothing; `--missed` tells by kind and template what ours leaves, never the texts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from kingfisher_sdk import Scanner

from kagura_kernel.kit.redaction.redactor import Redactor
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS, Half, LookAlike, Planted
from tests.support.redaction_corpus.judging import gone, lost, unhurt

PAGE = Path(__file__).resolve().parents[1] / "docs" / "redaction.md"
BEGIN, END = "<!-- figures: made by dev/redaction_figures.py -->", "<!-- end of figures -->"
HALVES: tuple[Half, ...] = ("training", "hold-out")

Redact = Callable[[str], str]
"""A text without what it finds."""


def ours(folder: Path) -> Redact:
    """Ours, with both layers."""
    redactor = Redactor(folder)
    return lambda text: redactor.redact(text).text


def library(_: Path) -> Redact:
    """The scanner library as it comes: what it finds is cut out wherever it stands."""
    scanner = Scanner()
    return lambda text: _without(text, (one.secret for one in scanner.scan(text)))


def detect_secrets(folder: Path) -> Redact:
    """detect-secrets with its default plugins and filters, on a file as it is mostly used."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    place = folder / "text.txt"

    def redact(text: str) -> str:
        place.write_text(text, "utf-8")
        with default_settings():
            return _without(text, [one.secret_value or "" for one in scan_file(str(place))])

    return redact


def _without(text: str, found: Iterable[str]) -> str:
    for secret in sorted(filter(None, found), key=len, reverse=True):
        text = text.replace(secret, "[REDACTED:x]")
    return text


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way to redact made of the corpus."""

    name: str
    missed: Sequence[Planted]
    hurt: Sequence[LookAlike]
    around: float

    def row(self) -> str:
        """Its row in the table."""
        cells = [self.name]
        for half in HALVES:
            of = sum(one.half == half for one in SECRETS)
            left = sum(one.half == half for one in self.missed)
            cells.append(f"{of - left} of {of} ({(of - left) / of:.1%})")
        for half in HALVES:
            of = sum(one.half == half for one in LOOK_ALIKES)
            cells.append(f"{sum(one.half == half for one in self.hurt)} of {of}")
        return f"| {' | '.join([*cells, f'{self.around:.1%}'])} |"


def measured(name: str, redact: Redact) -> Measured:
    """All texts, redacted and judged."""
    answers = [(one, redact(one.text)) for one in SECRETS]
    missed = [one for one, answer in answers if not gone(one, answer)]
    hurt = [one for one in LOOK_ALIKES if not unhurt(one, redact(one.text))]
    return Measured(name, missed, hurt, mean(lost(one, answer) for one, answer in answers))


def by_kind(all_of_them: Sequence[Measured]) -> str:
    """How many of each kind are gone, a column for each way to redact."""
    of = Counter(one.kind for one in SECRETS)
    left = [Counter(one.kind for one in ways.missed) for ways in all_of_them]
    rows = [f"| kind | of | {' | '.join(one.name for one in all_of_them)} |", "|---" * (2 + len(all_of_them)) + "|"]
    rows += [
        f"| {kind} | {of[kind]} | {' | '.join(str(of[kind] - one[kind]) for one in left)} |" for kind in sorted(of)
    ]
    return "\n".join(rows)


def figures(all_of_them: Sequence[Measured]) -> str:
    """What stands between the marks of the page."""
    kinds = len({one.kind for one in SECRETS})
    new = kinds - len({one.kind for one in SECRETS if one.half == "training"})
    return f"""{BEGIN}
The corpus is `tests.support.redaction_corpus`: {len(SECRETS)} texts with secrets of {kinds} kinds and
{len(LOOK_ALIKES)} look-alikes. The hold-out half has its own templates, and {new} kinds that the training half has
not; whoever made the rules saw the training half alone, and was told in words which kinds and shapes of the other one
failed. A secret counts as gone when not even half of it is left; a look-alike counts as hurt when a character of it has
changed. The last column is the share of the words around the secrets that went with them.

| | gone: training | gone: hold-out | hurt: training | hurt: hold-out | lost around |
|---|---|---|---|---|---|
{chr(10).join(one.row() for one in all_of_them)}

The scanner library and detect-secrets were made to report secrets to a person, not to remove them: each finding is cut
out wherever it stands. The library runs as it comes; detect-secrets with its default plugins and filters.

<details><summary>Secrets gone, by kind</summary>

{by_kind(all_of_them)}

</details>
{END}"""


def missed(one: Measured) -> str:
    """What is left and what is hurt, by half, kind and template."""
    left = Counter((planted.half, planted.template) for planted in one.missed)
    hurt = Counter((look_alike.half, look_alike.kind) for look_alike in one.hurt)
    lines = [f"left  {count}  {half:9} {place}" for (half, place), count in sorted(left.items())]
    return "\n".join(lines + [f"hurt  {count}  {half:9} {kind}" for (half, kind), count in sorted(hurt.items())])


def main() -> int:
    """Measure; write the page, or print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", dest="only_print", help="write nothing")
    parser.add_argument("--missed", action="store_true", help="tell what ours leaves, and measure nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # The library keeps what it compiled below the home unless it is told otherwise.
        os.environ["XDG_CACHE_HOME"] = place
        best = measured("kagura-kernel", ours(folder / "compiled"))
        if options.missed:
            print(best.row(), missed(best), sep="\n")
            return 0
        others = [measured("scanner library", library(folder)), measured("detect-secrets", detect_secrets(folder))]
        text = figures([best, *others])
    if options.only_print:
        print(text)
        return 0
    page = PAGE.read_text("utf-8")
    if BEGIN not in page or END not in page:
        print(f"{PAGE} lacks the marks {BEGIN} and {END}.", file=sys.stderr)
        return 1
    PAGE.write_text(page[: page.index(BEGIN)] + text + page[page.index(END) + len(END) :], "utf-8")
    print(f"{PAGE} was written.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
