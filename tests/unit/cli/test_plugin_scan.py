"""`kagura-kernel plugin scan`."""

import json
from types import SimpleNamespace

import pytest

from kagura_kernel.cli.plugin import plugin_scan
from kagura_kernel.domain.errors import UsageError


@pytest.fixture
def files(tmp_path):
    calm, bad = tmp_path / "calm.py", tmp_path / "bad.py"
    calm.write_text("def create_host_functions(config):\n    return {}\n")
    bad.write_text("import os\ndef create_host_functions(config):\n    os.system('id')\n")
    return str(calm), str(bad)


def test_one_danger_makes_the_whole_command_fail(files, capsys):
    assert plugin_scan(SimpleNamespace(path=files, json=False)) == 1
    told = capsys.readouterr().out
    assert told.index("bad.py: danger") < told.index("calm.py: nothing found")
    assert "bad.py:3: os.system starts or controls processes. (process-execution)" in told


def test_nothing_grave_is_no_failure(files, capsys):
    assert plugin_scan(SimpleNamespace(path=files[:1], json=False)) == 0
    assert "Nothing keeps it out." in capsys.readouterr().out


def test_each_path_is_a_line_of_json(files, capsys):
    assert plugin_scan(SimpleNamespace(path=files, json=True)) == 1
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["path"], first["severity"]) == (files[1], "danger")
    assert set(first["findings"][0]) == {"severity", "rule", "message", "file", "line"}
    assert (second["severity"], second["findings"]) == (None, [])


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be scanned"):
        plugin_scan(SimpleNamespace(path=(str(tmp_path / "none"),), json=False))
