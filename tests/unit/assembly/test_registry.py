"""Credential providers are read when they are needed, and anew when somebody has mended their file."""

from __future__ import annotations

import pytest

from kagura_kernel.assembly import kept_registry
from kagura_kernel.domain.errors import ConfigurationError

RIGHT = '[providers.files]\nkind = "static"\nsecret_env = "THE_KEY"\n'


def test_a_corrected_file_is_read_at_the_next_question(tmp_path):
    file = tmp_path / "credentials.toml"
    registry = kept_registry({"KAGURA_CONFIG": str(tmp_path / "config.toml")})
    assert not registry().providers
    file.write_text(RIGHT.replace("static", "statik"))
    with pytest.raises(ConfigurationError):
        registry()
    file.write_text(RIGHT)
    assert list(registry().providers) == ["files"]
    file.write_text(RIGHT.replace("providers.files", "providers.other"))
    assert list(registry().providers) == ["other"]
    file.unlink()
    assert not registry().providers


def test_a_file_that_nobody_has_touched_is_read_once(tmp_path):
    (tmp_path / "credentials.toml").write_text(RIGHT)
    registry = kept_registry({"KAGURA_CONFIG": str(tmp_path / "config.toml")})
    assert registry() is registry()
