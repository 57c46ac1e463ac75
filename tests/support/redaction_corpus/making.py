"""Templates and chance become the corpus; the same seed makes the same one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.sample import Half, LookAlike, Planted, Template
from tests.support.redaction_corpus.tokens import TOKENS
from tests.support.redaction_corpus.values import VALUES

CARRIERS_OF_A_TOKEN = 3
"""In how many carriers of its half each kind of token stands."""

ROUNDS = 2
"""How often each template is filled in."""

_SLOT = re.compile(r"(?P<planted>⟦)?(?(planted)|⟪)(?P<maker>[a-z0-9-]+)(?(planted)⟧|⟫)")


def filled(template: Template, chance: Chance, given: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The text, and what is planted in it; what is given goes before what can be made."""
    pieces: list[str] = []

    def value(slot: re.Match[str]) -> str:
        maker = slot["maker"]
        made = given[maker] if maker in given else VALUES[maker](chance)
        if slot["planted"]:
            pieces.extend(made.split("\n"))
        return made

    return _SLOT.sub(value, template.text), tuple(pieces)


def tokens(half: Half, carriers: Sequence[Template]) -> Iterator[Planted]:
    """Each kind of token in some of the carriers, each carrier about equally often."""
    step = 0
    for kind, token in TOKENS.items():
        if token.held_out and half == "training":
            continue
        for _ in range(CARRIERS_OF_A_TOKEN):
            place = step % len(carriers)
            chance = _chance(half, kind, place)
            given = {"variable": token.variable, "token": token.make(chance)}
            text, pieces = filled(carriers[place], chance, given)
            yield Planted(kind, f"{half}/tokens/{place}", half, text, pieces, carriers[place].form)
            step += 1


def contexts(half: Half, templates: Mapping[str, Sequence[Template]]) -> Iterator[Planted]:
    """Each template of each kind, with several values."""
    for kind, those in templates.items():
        for place, template in enumerate(those):
            for turn in range(ROUNDS):
                text, pieces = filled(template, _chance(half, kind, place, turn), {})
                yield Planted(kind, f"{half}/{kind}/{place}", half, text, pieces, template.form)


def look_alikes(half: Half, templates: Mapping[str, Sequence[Template]]) -> Iterator[LookAlike]:
    """Each template of each kind: once when it has no slot, else with several values."""
    for kind, those in templates.items():
        for place, template in enumerate(those):
            for turn in range(ROUNDS if _SLOT.search(template.text) else 1):
                text, _ = filled(template, _chance(half, kind, place, turn), {})
                yield LookAlike(kind, half, text, template.form)


def _chance(*words: object) -> Chance:
    return Chance(crc32(repr(words).encode()))
