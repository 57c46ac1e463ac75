from __future__ import annotations

import pytest

from kagura_kernel.kit.packages.registry import may_ask, sources_of
from kagura_kernel.membrane.egress.hosts import GO_INSTALL, NPM, PYTHON_PACKAGES
from kagura_kernel.membrane.grant import host_sets

PIP = tuple(target.host for target in PYTHON_PACKAGES)


def test_without_settings_the_public_registries_are_asked():
    found = sources_of({})
    assert found["pip"].hosts == PIP
    assert found["pip"].url == f"https://{PIP[0]}/simple"
    assert found["npm"].url == f"https://{NPM[0].host}"
    assert all(source.url.startswith("https://") for source in found.values())


@pytest.mark.parametrize(
    ("env", "url", "hosts"),
    [
        ({"PIP_INDEX_URL": "https://a.example/simple/"}, "https://a.example/simple", {"a.example"}),
        ({"UV_DEFAULT_INDEX": "https://a.example:8443/x"}, "https://a.example:8443/x", {"a.example:8443"}),
        ({"PIP_EXTRA_INDEX_URL": "https://b.example/simple"}, f"https://{PIP[0]}/simple", {*PIP, "b.example"}),
        ({"UV_INDEX": "ours=https://b.example/s"}, f"https://{PIP[0]}/simple", {*PIP, "b.example"}),
        ({"PIP_INDEX_URL": f"https://{PIP[0]}/simple"}, f"https://{PIP[0]}/simple", set(PIP)),
        # Plain HTTP is asked by nobody but the box, if its run may.
        ({"PIP_INDEX_URL": "http://a.example/simple"}, "", {"a.example:80"}),
        ({"PIP_INDEX_URL": "http://127.0.0.1:3141/root"}, "http://127.0.0.1:3141/root", {"127.0.0.1:3141"}),
        # What holds a user name was never said to be reached.
        ({"PIP_INDEX_URL": "https://me:hunter2@a.example/simple"}, "", set()),
        ({"PIP_FIND_LINKS": "/srv/wheels"}, f"https://{PIP[0]}/simple", set(PIP)),
    ],
)
def test_variables_say_where_pip_and_uv_look(env, url, hosts):
    found = sources_of(env)["pip"]
    assert (found.url, set(found.hosts)) == (url, hosts)


def test_variables_say_where_npm_and_go_look():
    found = sources_of({"npm_config_registry": "https://npm.example", "GOPROXY": "https://go.example|direct"})
    assert (found["npm"].url, found["npm"].hosts) == ("https://npm.example", ("npm.example",))
    assert (found["go"].url, found["go"].hosts) == ("https://go.example", ("go.example",))
    sums = GO_INSTALL[1].host
    assert sums in sources_of({})["go"].hosts
    assert sums not in sources_of({"GOSUMDB": "off"})["go"].hosts


def test_a_mirror_replaces_the_hosts_and_nobody_is_asked_unless_a_variable_says_where():
    sets = host_sets({"python-packages": ("mirror.example:8080",)})
    alone = sources_of({}, sets)["pip"]
    assert (alone.url, alone.hosts) == ("", ("mirror.example:8080",))
    both = sources_of({"PIP_INDEX_URL": "https://mirror.example/simple"}, sets)["pip"]
    assert (both.url, set(both.hosts)) == ("https://mirror.example/simple", {"mirror.example:8080", "mirror.example"})


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://a.example/x", True),
        ("http://localhost:1/x", True),
        ("http://[::1]:1/x", True),
        ("http://a.example/x", False),
        ("https://me@a.example/", False),
        ("ftp://a.example", False),
        ("https:///x", False),
        ("", False),
    ],
)
def test_only_https_and_this_machine_are_asked(url, allowed):
    assert may_ask(url) is allowed
