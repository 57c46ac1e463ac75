"""Where the daemon listens."""

import socket
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker_endpoint import DEFAULT_HOST, endpoint_from


def test_without_variables_it_is_the_systems_socket():
    endpoint = endpoint_from({})
    assert endpoint.url == DEFAULT_HOST
    assert endpoint.socket_path == "/var/run/docker.sock"
    assert endpoint.tls() is None


def test_docker_desktop_keeps_its_socket_at_home(tmp_path: Path):
    socket = tmp_path / ".docker" / "run" / "docker.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    wanted = DEFAULT_HOST if Path("/var/run/docker.sock").exists() else f"unix://{socket}"
    assert endpoint_from({"HOME": str(tmp_path)}).url == wanted


@pytest.mark.parametrize(
    ("url", "address"),
    [("tcp://10.0.0.7:2375", ("10.0.0.7", 2375)), ("tcp://[::1]:2376/", ("::1", 2376)), ("tcp://far:1", ("far", 1))],
)
def test_a_daemon_on_the_network_has_host_and_port(url: str, address: tuple[str, int]):
    endpoint = endpoint_from({"DOCKER_HOST": url})
    assert endpoint.address == address
    assert endpoint.socket_path is None
    assert endpoint.certificates is None


def test_tls_takes_the_certificates_that_docker_itself_takes():
    named = endpoint_from({"DOCKER_HOST": "tcp://far:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"})
    assert (named.certificates, named.verify) == (Path("/certs"), True)
    default = endpoint_from({"DOCKER_HOST": "tcp://far:1", "DOCKER_TLS_VERIFY": "1", "HOME": "/home/ada"})
    assert default.certificates == Path("/home/ada/.docker")


@pytest.mark.parametrize("url", ["ssh://ada@far", "npipe:////./pipe/docker", "tcp://far", "far:2375", "http://far:1"])
async def test_other_addresses_are_refused_with_a_way_out_when_docker_is_asked_for(url: str):
    backend = DockerBackend(endpoint_from({"DOCKER_HOST": url}))
    probe = await backend.probe()
    assert not probe.ok
    assert repr(url) in probe.reason
    assert "ssh -nNT -L" in probe.install
    with pytest.raises(SandboxUnavailable, match="ssh -nNT -L"):
        await backend.start(BoxSpec())
    await backend.close()


@pytest.mark.docker
def test_a_daemon_of_the_users_own_comes_before_the_systems_when_it_answers(tmp_path: Path):
    place = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        assert endpoint_from({"XDG_RUNTIME_DIR": str(tmp_path)}).url == f"unix://{place}"
    # Its file stays, and nobody answers.
    assert endpoint_from({"XDG_RUNTIME_DIR": str(tmp_path)}).url == DEFAULT_HOST
