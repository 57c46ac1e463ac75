"""The catalogue of rules says what the scan does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import kagura_kernel.plugins as package
from kagura_kernel.plugins.scan.catalogue import RULES, rules_page
from kagura_kernel.plugins.scan.reader import rules
from kagura_kernel.plugins.scan.reader.main import Plugin

ROOT = Path(package.__file__).resolve().parent
PAGE = ROOT.parents[1] / "docs" / "plugin-rules.md"

SHOWN_IN_CODE = [rule for rule in RULES.values() if not rule.example.startswith("#") and rule.name != "unread-network"]


@pytest.mark.parametrize("rule", SHOWN_IN_CODE, ids=lambda rule: rule.name)
def test_the_example_of_a_rule_is_found_by_it(rule):
    found = {name for name, *_ in Plugin({"plugin.py": rule.example.encode()}, "plugin.py").scan()}
    assert rule.name in found


def test_the_page_is_what_the_catalogue_makes():
    assert PAGE.read_text("utf-8") == rules_page(), "run `python dev/plugin_rules_page.py`"


def test_every_rule_that_is_used_is_in_the_catalogue():
    used = {*rules.MODULES.values(), *rules.EXACT.values(), *rules.GRAVE_METHODS.values()} - {""}
    for path in [*(ROOT / "scan").rglob("*.py"), ROOT / "content.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_report = isinstance(node, ast.Call) and re.fullmatch(
                r"_say|report|_finding|_odd", getattr(node.func, "attr", getattr(node.func, "id", ""))
            )
            if is_report and node.args and isinstance(node.args[0], ast.Constant):
                used.add(node.args[0].value)
    assert {name for name in used if isinstance(name, str)} - set(RULES) == set()
    assert len(used) > 30
