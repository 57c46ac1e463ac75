"""Nobody who has not asked for telemetry pays for it, or needs its libraries."""

import importlib.util
import subprocess
import sys

import pytest

from kagura_kernel.assembly import load_settings
from kagura_kernel.domain.errors import ConfigurationError
from tests.support.kernel import kernel_environ

COCKPIT = """
import os, sys
from kagura_kernel.assembly import make_cockpit
make_cockpit(os.environ).close()
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_a_cockpit_without_telemetry_imports_nothing_of_it(tmp_path):
    environ = kernel_environ(tmp_path / "home")
    said = subprocess.run([sys.executable, "-c", COCKPIT], env=environ, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_where_its_libraries_are_missing_it_says_what_to_install(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name.startswith("opentelemetry") else find(name, *more)
    )
    environ = kernel_environ(tmp_path / "home", KAGURA_TELEMETRY="1")
    with pytest.raises(ConfigurationError, match=r"pip install 'kagura-kernel\[otel\]'"):
        load_settings(environ)
    assert not load_settings(kernel_environ(tmp_path / "home")).telemetry
