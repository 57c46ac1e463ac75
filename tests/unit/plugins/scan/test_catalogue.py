"""The page of rules says what the scan does."""

import ast
import re
from pathlib import Path

import pytest

import kagura_kernel.plugins as package
from kagura_kernel.plugins.scan.reader import rules
from kagura_kernel.plugins.scan.reader.main import Plugin
from kagura_kernel.plugins.scan.scanner import RULES

ROOT = Path(package.__file__).resolve().parent
PAGE = (ROOT.parents[1] / "docs" / "plugin-rules.md").read_text("utf-8")
TOLD = re.findall(r"^### `(.+)`\n\n\*\*(\w+)\*\*\. \S.+\n\n```python\n((?:.*\n)+?)```\n", PAGE, re.MULTILINE)
# What is too long for the page is cut there.
EXAMPLES = {name: text.replace("…", "QUJD" * 110 + '"') for name, _, text in TOLD if text[0] != "#"}


@pytest.mark.parametrize("rule", sorted(EXAMPLES.keys() - {"unread-network"}))
def test_the_example_of_a_rule_is_found_by_it(rule):
    found = {name for name, *_ in Plugin({"plugin.py": EXAMPLES[rule].encode()}, "plugin.py").scan()}
    assert rule in found


def test_the_page_tells_every_rule_and_how_grave_it_is():
    assert {name: severity for name, severity, _ in TOLD} == {name: severity.value for name, severity in RULES.items()}


def test_every_rule_that_is_used_is_known():
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
