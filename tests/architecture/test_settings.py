"""Each setting and each error is told in the documents, and a default stands in one place."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["settings_page", "errors_page", "kubernetes_pool"])
def test_the_page_is_what_the_declarations_make(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "dev" / f"{name}.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert program.PAGE.read_text("utf-8") == vars(program)[name](), f"run dev/{name}.py"


def test_no_other_module_repeats_a_default():
    """Fields of other types that are set from a setting name `DEFAULTS`, and no number."""
    names = "approval_deadline|ask_deadline|command_timeout|idle_timeout|lease_seconds|delegate_\\w+|trust_days"
    repeated = re.compile(rf"^\s*(?:{names}|deadline|ttl): float(?: \| None)? = [\d.]+$", re.MULTILINE)
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "kagura_kernel").rglob("*.py")
        if repeated.search(path.read_text("utf-8"))
    ]
    assert found == []
