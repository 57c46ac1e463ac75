import hashlib
import time

import pytest

from kagura_kernel.sandbox.images import secrets
from kagura_kernel.sandbox.images.recipes import PackageSettings
from kagura_kernel.sandbox.images.secrets import Machine, OurCode, proxy_in_command, proxy_in_variable

LEFT = {
    "etc/apt/apt.conf.d/99proxy": 'Acquire::http::Proxy "http://10.0.0.1:3128";',
    "etc/apt/sources.list": "deb http://mirror.corp.test/debian bookworm main",
    "etc/apt/sources.list.d/a.sources": "Types: deb\nURIs: http://mirror.corp.test/debian",
    "etc/pip.conf": "[global]\nindex-url = http://mirror.corp.test/simple",
    "root/.npmrc": "registry=http://mirror.corp.test/npm",
    "etc/environment": "https_proxy=http://10.0.0.1:3128",
    "usr/local/share/ca-certificates/corp.crt": "-----BEGIN CERTIFICATE-----",
}


@pytest.mark.parametrize("path", LEFT)
def test_what_a_building_machine_leaves_behind_is_found_where_it_lies(path):
    assert Machine().trace_in(path, LEFT[path].encode())
    assert not Machine().trace_in("usr/share/doc/x", LEFT[path].encode())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("etc/apt/sources.list", "deb http://ftp.de.debian.org/debian bookworm main\n# deb http://x.test/ y z"),
        ("etc/apt/apt.conf.d/01autoremove", "APT::NeverAutoRemove { };"),
        ("etc/pip.conf", "[global]\nno-cache-dir = true"),
        ("root/.npmrc", "fund=false"),
    ],
)
def test_ordinary_settings_are_left_alone(path, content):
    assert Machine().trace_in(path, content.encode()) == ""


@pytest.mark.parametrize(
    ("path", "piece"), [("etc/apt/apt.conf", b"PROXY="), ("etc/pip.conf", b"\n"), ("root/.npmrc", b"\n")]
)
def test_settings_without_end_are_looked_through_in_linear_time(path, piece):
    began = time.process_time()
    assert Machine().trace_in(path, piece * (2_000_000 // len(piece))) == ""
    # What takes time by the square would take hours for this.
    assert time.process_time() - began < 10


def test_a_proxy_for_apt_is_found_behind_other_settings_of_its_line():
    assert Machine().trace_in("etc/apt/apt.conf", b'APT::Proxy-Auto-Detect ""; Acquire { proxy; http::Proxy "x"; }')
    assert not Machine().trace_in("etc/apt/apt.conf", b'Acquire::Proxy; APT "x"; # Proxy "y"')


def test_an_archive_that_only_ends_like_the_distributions_is_another_one():
    assert Machine().trace_in("etc/apt/sources.list", b"deb http://debian.org.evil.test/debian bookworm main")


def test_a_machines_own_mirror_and_proxy_are_found_anywhere_and_public_ones_are_not_looked_for():
    settings = PackageSettings(
        {"pip.conf": b"[global]\nindex-url = https://me:pw@mirror.corp.test/simple\n", "ca.pem": b"a certificate"},
        {"HTTP_PROXY": "http://proxy.corp.test:3128", "NO_PROXY": "left.alone.test", "ALL_PROXY": "http://localhost:1"},
    )
    machine = Machine.of(settings)
    assert machine.words == (b"mirror.corp.test", b"proxy.corp.test")
    assert machine.trace_in("usr/lib/x", b"fetched from mirror.corp.test")
    assert hashlib.sha256(b"a certificate").hexdigest() in machine.digests
    public = PackageSettings({"npmrc": b"registry=https://registry." + b"npmjs.org/\n"})
    assert Machine.of(public).words == ()


def test_a_file_of_ours_is_known_when_it_was_renamed_and_changed():
    ours = OurCode.here()
    text = (secrets._PACKAGE / "sandbox" / "streams.py").read_bytes()
    assert hashlib.sha256(text).hexdigest() in ours.digests
    assert ours.in_piece(text.replace(b"kagura", b"other"))
    assert ours.in_piece(b"import kagura_kernel")
    assert not ours.in_piece(b"import numpy\n" * 100)


@pytest.mark.parametrize(
    "path", ["usr/lib/python3/kagura_kernel/x.py", "opt/kagura-agent/a", "x/kagura_memory-1.dist-info/M"]
)
def test_a_package_of_ours_is_known_by_its_name(path):
    assert OurCode.here().named(path)


def test_a_proxy_is_seen_in_variables_and_steps():
    assert proxy_in_variable("https_proxy", "http://h:1")
    assert not proxy_in_variable("NO_PROXY", "localhost")
    assert proxy_in_command("|1 HTTP_PROXY=http://h:1 /bin/sh -c true")
    assert not proxy_in_command("/bin/sh -c true")
