"""A real box with walls: its programs use the database, and the password is nowhere where they could find it."""

import base64
import json
import shutil
import sys
from typing import Any
from urllib.parse import quote

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.patience import eventually
from tests.support.postgres_network import PASSWORD, why_not
from tests.support.postgres_rig import postgres_rig

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not here"),
]

PATIENCE = CommandLimits(100.0, None)

# Whoever looks for a word holds it: so it is looked for in a disguise, in bytes that are disguised first.
LOOK = """
import json, os, sys
import psycopg

url, needles = json.loads(sys.argv[1])
HIDE = bytes(byte ^ 0x5a for byte in range(256))
found, looked = set(), 0

def look(place, data):
    global looked
    looked += len(data)
    hidden = data.translate(HIDE)
    for name, needle in needles.items():
        if bytes.fromhex(needle) in hidden:
            found.add((name, place))

def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            words = line.split()
            if "r" not in words[1] or words[-1] in ("[vvar]", "[vsyscall]"):
                continue
            begin, end = (int(part, 16) for part in words[0].split("-"))
            while begin < end:
                # Some more than a step, so that nothing hides between two.
                try:
                    memory.seek(begin)
                    look(f"{pid}/mem", memory.read(min(end - begin, 2**20 + 4096)))
                except (OSError, ValueError):
                    pass
                begin += 2**20

connection = psycopg.connect(url)
total = connection.execute("SELECT sum(n) FROM numbers").fetchone()[0]
try:
    psycopg.connect(url, client_encoding="nonsense")
except psycopg.Error as error:
    look("error", str(error).encode())
pids = [name for name in os.listdir("/proc") if name.isdigit()]
for pid in pids:
    for name in ("environ", "cmdline"):
        try:
            look(f"{pid}/{name}", open(f"/proc/{pid}/{name}", "rb").read())
        except OSError:
            pass
    try:
        memory(pid)
    except OSError:
        pass
for top in ("/tmp", "/run", "/home", "/root", "/workspace", "/var/tmp", "/dev/shm"):
    for folder, _, files in os.walk(top):
        for name in files:
            try:
                look(os.path.join(folder, name), open(os.path.join(folder, name), "rb").read(2**24))
            except OSError:
                pass
print(json.dumps({"total": int(total), "found": sorted(found), "looked": looked, "pids": len(pids)}))
"""


def disguised(text: bytes) -> str:
    return bytes(byte ^ 0x5A for byte in text).hex()


async def python(box: Box, code: str, *arguments: object) -> Any:
    command = Command(("python3", "-I", "-c", code, json.dumps(arguments)), limits=PATIENCE)
    result = await box.run(command)
    assert result.ok, result.stderr.text
    return json.loads(result.stdout.text)


@pytest.mark.parametrize(
    ("user", "mode"), [("scram_user", "prefer"), ("md5_user", "disable"), ("clear_user", "require")]
)
async def test_a_program_in_a_box_reads_rows_and_finds_no_password(user, mode, server, monkeypatch):
    secret = PASSWORD.encode()
    needles = {
        "plain": secret,
        "half": secret[len(secret) // 2 :],
        "escaped": quote(PASSWORD, safe="").encode(),
        "base64": base64.b64encode(secret)[:-4],
        "utf-16": PASSWORD.encode("utf-16-le"),
    }
    control = {"user": user.encode()}
    went_in = bytearray()
    async with postgres_rig(BubblewrapBackend()) as rig:
        send = rig.box.channel.send

        def tapped(kind: int, stream: int, *parts: bytes | memoryview) -> None:
            for part in parts:
                went_in.extend(part)
            send(kind, stream, *parts)

        monkeypatch.setattr(rig.box.channel, "send", tapped)
        service = await rig.open(server.url(user, sslmode=mode))
        words = {name: disguised(word) for name, word in (needles | control).items()}
        told = await python(rig.box, LOOK, service.box_url(), words)
        await eventually(lambda: len(rig.ends) == len(rig.allowed) > 0)
    assert told["total"] == 500500
    assert told["looked"] > 10_000_000
    # It finds what is there, and of the password nothing is.
    assert {name for name, _ in told["found"]} == {"user"}
    assert any(place.endswith("/mem") for _, place in told["found"])
    assert user.encode() in went_in
    assert [name for name, word in needles.items() if word in went_in] == []
    assert all(PASSWORD not in fact.model_dump_json() for fact in rig.facts)


async def test_a_box_reaches_the_database_by_its_own_port_alone(server):
    code = f"""
import json, socket
problems = []
for port in ({server.port}, 5432):
    try:
        socket.create_connection(("127.0.0.1", port), 5)
    except OSError as error:
        problems.append(error.errno)
print(json.dumps(problems))
"""
    async with postgres_rig(BubblewrapBackend()) as rig:
        service = await rig.open(server.url("scram_user"))
        assert service.jail_port not in (server.port, 5432)
        assert len(await python(rig.box, code)) == 2
        assert rig.facts == []


async def test_the_port_that_was_asked_for_is_the_one(server):
    code = """
import json, sys
import psycopg
print(json.dumps(psycopg.connect(json.loads(sys.argv[1])[0]).execute("SELECT current_user").fetchone()[0]))
"""
    async with postgres_rig(BubblewrapBackend()) as rig:
        service = await rig.open(server.url("scram_user"), port=5433)
        assert service.jail_port == 5433
        assert await python(rig.box, code, service.box_url()) == "scram_user"
