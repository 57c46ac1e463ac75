"""Every rule that is data finds what its examples mark, and spares the others."""

from __future__ import annotations

import pytest

from kagura_kernel.kit.redaction.patterns import Text
from kagura_kernel.kit.redaction.rules.configurations import RULES, Rule

FINDS = [(rule, text) for rule in RULES for text in rule.finds]
SPARES = [(rule, text) for rule in RULES for text in rule.spares]


def found(rule: Rule, text: str) -> list[bytes]:
    data = Text.of(text.encode())
    return [data[span.start : span.end] for span in rule.find(data)]


@pytest.mark.parametrize(("rule", "text"), FINDS, ids=[rule.name for rule, _ in FINDS])
def test_a_rule_finds_what_its_examples_mark(rule, text):
    marked = [piece.partition("»")[0].encode() for piece in text.split("«")[1:]]
    assert marked
    assert found(rule, text.replace("«", "").replace("»", "")) == marked


@pytest.mark.parametrize(("rule", "text"), SPARES, ids=[rule.name for rule, _ in SPARES])
def test_a_rule_spares_what_only_looks_like_it(rule, text):
    assert found(rule, text) == []


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)
