import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.sandbox.images.recipes import PackageSettings, settings_from


def test_nothing_is_sent_along_when_the_environment_says_nothing():
    assert settings_from({"PATH": "/bin"}) == PackageSettings()


def test_certificate_index_registry_and_proxies_are_taken_over(tmp_path):
    (tmp_path / "ca.pem").write_bytes(b"a certificate")
    settings = settings_from(
        {
            "PIP_CERT": str(tmp_path / "ca.pem"),
            "PIP_INDEX_URL": "https://m.test/simple",
            "NPM_CONFIG_REGISTRY": "https://m.test/npm",
            "https_proxy": "http://p.test:1",
        }
    )
    assert settings.files == {
        "ca.pem": b"a certificate",
        "pip.conf": b"[global]\nindex-url = https://m.test/simple\n",
        "npmrc": b"registry=https://m.test/npm\n",
    }
    assert settings.arguments == {"https_proxy": "http://p.test:1"}


def test_a_secret_in_an_address_does_not_show_in_the_settings_text():
    assert "hunter2" not in repr(settings_from({"PIP_INDEX_URL": "https://me:hunter2@m.test/simple"}))


def test_a_certificate_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigurationError, match="PIP_CERT"):
        settings_from({"PIP_CERT": str(tmp_path / "none")})
