import urllib.request

import httpx
import pytest

from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables, usual_variables


@pytest.fixture
def told(monkeypatch):
    for name, value in proxy_variables(4000).items():
        monkeypatch.setenv(name, value)


def test_every_variable_that_names_a_proxy_names_the_loopback_of_the_box():
    for name, value in proxy_variables(4000).items():
        if name.lower().endswith("proxy") and "no" not in name.lower():
            assert value == "http://127.0.0.1:4000"
    assert proxy_variables()["HTTPS_PROXY"] == f"http://127.0.0.1:{PROXY_PORT}"


def test_general_variables_are_there_in_both_cases():
    found = proxy_variables()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        assert found[name] == found[name.lower()]


@pytest.mark.usefixtures("told")
def test_the_standard_library_goes_through_the_proxy_but_to_the_box_itself():
    found = urllib.request.getproxies()
    assert (found["http"], found["https"]) == ("http://127.0.0.1:4000",) * 2
    for own in ("localhost", "127.0.0.1", "127.0.0.1:8000"):
        assert urllib.request.proxy_bypass(own)
    assert not urllib.request.proxy_bypass("pypi.org")


@pytest.mark.usefixtures("told")
def test_httpx_understands_them():
    with httpx.Client() as client:
        assert client._transport_for_url(httpx.URL("https://pypi.org/")) is not client._transport
        for own in ("http://localhost:8000/", "http://127.0.0.1:8000/", "http://[::1]:8000/"):
            assert client._transport_for_url(httpx.URL(own)) is client._transport


def test_what_a_person_may_set_otherwise_is_nothing_that_leads_to_the_proxy():
    assert not set(usual_variables()) & set(proxy_variables())
    assert not [name for name in usual_variables() if "proxy" in name.lower()]
