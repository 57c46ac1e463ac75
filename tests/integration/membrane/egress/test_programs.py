"""Programs that know nothing of boxes find the proxy by their variables, and show why they were refused."""

from __future__ import annotations

import shutil
import sys

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.egress.boxed import open_egress
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.variables import PROXY_PORT, proxy_variables
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
