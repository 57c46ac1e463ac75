"""Programs that know nothing of boxes find the proxy by their variables, and show why they were refused."""

import shutil
import sys

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, open_egress, proxy_variables, usual_variables
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not here"
)

URLLIB = "import urllib.request; urllib.request.urlopen('https://a.example/')"
PIP = "python3 -m pip download --index-url https://a.example/simple --no-input --retries 1 nothing"
APT = """
mkdir -p lists/partial cache/partial
echo 'deb [trusted=yes] http://a.example/apt stable main' > sources.list
apt-get -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$PWD/lists \
    -o Dir::Cache=$PWD/cache -o APT::Sandbox::User=root -o Acquire::Retries=0 update
"""

# Each with the program, and whether it shows the reason; for a CONNECT curl and git have only the number to show.
PROGRAMS = {
    "curl": ("curl -sS https://a.example/", "curl", False),
    "curl over plain HTTP": ("curl -sS http://a.example/", "curl", True),
    "wget": ("wget -O- https://a.example/", "wget", True),
    "git": ("git ls-remote https://a.example/x.git", "git", False),
    "git over plain HTTP": ("git ls-remote http://a.example/x.git", "git", True),
    "urllib": (f'python3 -c "{URLLIB}"', "python3", True),
    "pip": (PIP, "pip3", True),
    "npm": ("npm view nothing --registry https://a.example --fetch-retries=0", "npm", True),
    "apt": (APT, "apt-get", False),
}


@pytest.fixture
async def box():
    backend = BubblewrapBackend()
    yield await backend.start(BoxSpec())
    await backend.close()


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_asks_through_the_proxy_and_shows_its_refusal(name, box):
    line, needed, shows = PROGRAMS[name]
    if not (await box.run(shell_command(f"command -v {needed}"))).ok:
        pytest.skip(f"{needed} is not in the box")
    records = []
    await open_egress(box, Egress(Gate(parse_grants(["b.example"]), None), records.append))
    result = await box.run(shell_command(line, env=proxy_variables(), limits=CommandLimits(60.0, None)))
    assert ("a.example", False) in {(record.host, record.allowed) for record in records}
    printed = result.stdout.text + result.stderr.text
    assert ("not granted to this run" if shows else "403") in printed


@pytest.mark.parametrize("place", ["git@github.com:someone/x.git", "ssh://git@github.com/someone/x.git"])
async def test_git_asks_github_over_https_where_it_would_have_used_ssh(place, box):
    if not (await box.run(shell_command("command -v git"))).ok:
        pytest.skip("git is not in the box")
    records = []
    await open_egress(box, Egress(Gate(parse_grants([]), None), records.append))
    env = usual_variables() | proxy_variables()
    result = await box.run(shell_command(f"git ls-remote {place}", env=env, limits=CommandLimits(60.0, None)))
    assert {(record.host, record.port) for record in records} == {("github.com", 443)}
    assert "--net github" in records[0].reason
    assert "403" in result.stderr.text


async def test_a_granted_port_of_the_loopback_that_is_not_forwarded_is_reached_past_no_proxy(proxying, serving):
    async def page(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfrom outside")

    async with serving(page) as port, proxying(f"127.0.0.1:{port}", backend=BubblewrapBackend()) as proxy:
        if not (await proxy.sh("command -v curl")).ok:
            pytest.skip("curl is not in the box")
        for way, reached in (("", False), ("--noproxy ''", True)):
            answer = await proxy.sh(f"curl -sS {way} http://127.0.0.1:{port}/")
            assert (answer.stdout.text == "from outside") is reached, answer.stderr.text


async def test_what_the_box_serves_to_itself_does_not_leave_it(box):
    records = []
    await open_egress(box, Egress(Gate(parse_grants([]), None), records.append))
    line = f"""
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert server.server_port != {PROXY_PORT}
print(urllib.request.urlopen("http://localhost:%d/" % server.server_port).status)
"""
    result = await box.run(shell_command("python3 -", stdin=line.encode(), env=proxy_variables()))
    assert result.stdout.text == "200\n", result.stderr.text
    assert records == []
