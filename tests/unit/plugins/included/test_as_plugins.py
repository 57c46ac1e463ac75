"""What comes with the package is a plugin like any other: discovered, scanned, configured by the same rules."""

import importlib
import re
from typing import Any

import pytest

from kagura_kernel.domain.plugins import PluginPermissions, Severity
from kagura_kernel.plugins import sdk
from kagura_kernel.plugins.configuration import Schema, complete, questions, read_schema
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.permissions import check_declared
from kagura_kernel.plugins.scan.scanner import scan_content, scan_path
from kagura_kernel.plugins.sdk import PluginFault, database, https, reading, writing
from tests.support.included_plugins import (
    INCLUDED,
    PLUGINS,
    functions_of,
    kagura_plugin_importable,
    load_plugin,
)

KIB = 1024

FUNCTIONS = {
    "fs-read": ({"base_dir": "/usr"}, {"read_text", "read_bytes", "list_dir", "stat"}),
    "fs-write": ({"base_dir": "/usr"}, {"write_text", "append_text", "make_dir", "write_bytes"}),
    "fetch": ({"allowed_domains": ("example.com",)}, {"get", "fetch"}),
    "sql-read": ({"url": "postgresql://user@127.0.0.1:5432/db"}, {"query", "tables", "columns"}),
}


def schema_of(name: str) -> Schema:
    return read_schema(load_plugin(name).SCHEMA, name)


def test_these_are_all():
    assert {path.parent.name for path in PLUGINS.glob("*/plugin.json")} == set(INCLUDED) == set(FUNCTIONS)


@pytest.mark.parametrize("name", INCLUDED)
def test_nothing_of_it_is_found_wanting(name):
    found = load_found(PLUGINS / name, "bundled")
    assert found.content.oddities == ()
    assert {path.split("/")[0] for path in found.content.files} >= {"plugin.json", "plugin.py", "README.md"}
    assert found.manifest.hints.overview
    assert found.manifest.hints.critical_rules
    assert check_declared(found.manifest.permissions, schema_of(name)) == ()


@pytest.mark.parametrize("name", INCLUDED)
def test_the_scan_finds_neither_danger_nor_warning(name):
    found = load_found(PLUGINS / name, "bundled")
    result = scan_content(found.content, found.manifest.permissions)
    assert [finding for finding in result.findings if finding.severity is not Severity.INFO] == []


@pytest.mark.parametrize("name", INCLUDED)
def test_its_functions_are_those_of_its_only_module(name):
    values, functions = FUNCTIONS[name]
    given = complete(schema_of(name), values, name).values
    config = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    made = load_plugin(name).create_host_functions(config)
    found = load_found(PLUGINS / name, "bundled")
    assert tuple(made) == found.manifest.host_modules
    (module,) = made.values()
    assert set(module) == functions
    assert all(function.__doc__ for function in module.values())


@pytest.mark.parametrize("name", INCLUDED)
def test_a_person_is_asked_for_what_opens_something_and_for_little_else(name):
    asked = [question.name for question in questions(schema_of(name), {})]
    assert asked[0] == next(iter(FUNCTIONS[name][0]))
    assert asked in ([asked[0]], ["allowed_domains", "methods"])


BOUNDS: dict[tuple[str, str], float] = {
    ("fs-read", "max_file_kib"): reading.MAX_FILE / KIB,
    ("fs-read", "max_chunk_kib"): reading.MAX_CHUNK / KIB,
    ("fs-read", "max_entries"): reading.MAX_ENTRIES,
    ("fs-write", "max_total_kib"): writing.MAX_TOTAL / KIB,
    ("fs-write", "max_chunk_kib"): writing.MAX_CHUNK / KIB,
    ("fs-write", "max_file_kib"): writing.MAX_FILE / KIB,
    ("fs-write", "max_entries"): writing.MAX_ENTRIES,
    ("fetch", "max_response_kib"): https.MAX_RESPONSE / KIB,
    ("fetch", "max_total_kib"): https.MAX_TOTAL / KIB,
    ("fetch", "requests_a_minute"): https.A_MINUTE,
    ("fetch", "requests_an_hour"): https.AN_HOUR,
    ("sql-read", "max_rows"): database.MAX_ROWS,
}


@pytest.mark.parametrize(("name", "field"), BOUNDS, ids="-".join)
def test_a_field_may_be_as_high_as_the_rule_says_and_is_so_by_default(name, field):
    found = schema_of(name)[field]
    assert found.default == found.maximum == BOUNDS[name, field]


@pytest.mark.parametrize("name", INCLUDED)
def test_a_number_outside_of_its_bounds_is_refused_by_the_plugin_itself(name):
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in FUNCTIONS[name][0].items()}
    for field, found in schema_of(name).items():
        if found.type == "number":
            for number in ((found.minimum or 0) - 1, (found.maximum or 0) + 1):
                with pytest.raises(PluginFault, match=field):
                    functions_of(name, values | {field: number})


def faults() -> set[str]:
    return {one for one in sdk.__all__ if isinstance(getattr(sdk, one), type)} - {"PluginFault"}


@pytest.mark.parametrize("name", INCLUDED)
def test_its_readme_tells_every_field_function_and_limit(name):
    text = (PLUGINS / name / "README.md").read_text("utf-8")
    for heading in ("## Configuration", "## Functions", "## Security model", "## Errors", "## Examples"):
        assert heading in text
    for word in (*schema_of(name), *FUNCTIONS[name][1]):
        assert f"`{word}" in text, word
    told = set(re.findall(r"^\| `([A-Z]\w+)` \|", text, re.MULTILINE))
    assert "ArgumentRefused" in told or name == "fs-read"
    assert told <= faults()


def test_every_fault_is_told_by_some_readme():
    texts = "".join((PLUGINS / name / "README.md").read_text("utf-8") for name in INCLUDED)
    assert {fault for fault in faults() if f"| `{fault}` |" not in texts} == set()


# ------------------------------------------------------------------------ its page

PAGE = PLUGINS.parent / "docs" / "plugin-sdk.md"
GUIDE = PLUGINS.parent / "docs" / "plugins.md"


def test_every_name_of_its_page_is_there():
    module = ""
    told = set()
    for row in re.findall(r"^\|(.*?)\|(.*?)\|", PAGE.read_text("utf-8"), re.MULTILINE)[2:]:
        module = row[0].strip().strip("`") or module
        loaded = importlib.import_module(module.replace("kagura_plugin", sdk.__name__, 1))
        for name in re.findall(r"`(\w+)", row[1]):
            assert hasattr(loaded, name), (module, name)
            told.add((module, name))
    assert len(told) > 15


def test_the_example_of_its_page_works_and_passes_the_scan(tmp_path):
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    content = PluginContent(tmp_path, "letters", {"plugin.py": source.encode()})
    result = scan_content(content, PluginPermissions(read=("{base_dir}",)))
    assert [finding for finding in result.findings if finding.severity is not Severity.INFO] == []
    (tmp_path / "ada.txt").write_text("Dear Ada")
    module: dict[str, Any] = {}
    with kagura_plugin_importable():
        exec(compile(source, "plugin.py", "exec", dont_inherit=True), module)
    letter = module["create_host_functions"]({"base_dir": str(tmp_path)})["letters"]["letter"]
    assert letter("ada") == {"text": "Dear Ada"}
    with pytest.raises(PluginFault):
        letter("../ada")


def test_the_example_of_the_guide_is_a_plugin_that_checks_its_argument(tmp_path):
    guide = GUIDE.read_text("utf-8")
    (source,) = [one for one in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "SCHEMA = " in one]
    (manifest,) = [one for one in re.findall(r"```json\n(.*?)```", guide, re.DOTALL) if "hostModules" in one]
    root = tmp_path / "my-plugin"
    root.mkdir()
    (root / "plugin.json").write_text(manifest, "utf-8")
    (root / "plugin.py").write_text(source, "utf-8")
    assert [one for one in scan_path(root).findings if one.severity is not Severity.INFO] == []
    assert load_found(root, "project").manifest.host_modules == ("greeter",)
    module: dict[str, Any] = {}
    with kagura_plugin_importable():
        exec(compile(source, "plugin.py", "exec", dont_inherit=True), module)
    greet = module["create_host_functions"]({"greeting": "Hello"})["greeter"]["greet"]
    assert greet("Ada") == {"text": "Hello, Ada"}
    for wrong in (7, "a" * 201):
        with pytest.raises(PluginFault):
            greet(wrong)
