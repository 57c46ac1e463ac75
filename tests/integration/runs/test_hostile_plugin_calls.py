"""A program in a box that attacks the port of the plugins harms its own calls, and nothing else."""

import asyncio
import os
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.domain.events import Noted
from kagura_kernel.plugins.calls import CallLimits
from tests.support.plugins import FakePlugin, FakePlugins

# Every attack stays where it is until the program is over.
HEAD = """
import json, os, socket, struct, sys, threading
sys.path.insert(0, "/tmp/kagura/host/lib")
from kagura_host import _place, words, PluginError

def connect():
    one = socket.socket()
    one.settimeout(60)
    one.connect(("127.0.0.1", _place.PORT))
    return one

def frame(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body

def request(function, *arguments, number=1):
    return frame({"id": number, "module": "words", "function": function, "arguments": arguments})

def put(one, data):
    try:
        one.sendall(data)
    except OSError:
        pass

kept = []
"""

GARBAGE = """
for data in (os.urandom(300), b"GET / HTTP/1.1\\r\\n\\r\\n", frame(b"[" * 1000), frame(b'{"id":' + b"9" * 5000 + b"}"),
             struct.pack(">I", 2**31), frame({"id": 1, "module": "words", "function": "echo", "named": {"x": {}}})):
    for _ in range(200):
        one = connect()
        put(one, data)
        one.close()
"""

MANY = """
for _ in range(3000):
    try:
        one = connect()
    except OSError:
        continue
    kept.append(one)
    if len(kept) > 700:
        kept.pop(0).close()
"""

HALVES = """
for _ in range(100):
    one = connect()
    one.settimeout(0.2)
    put(one, struct.pack(">I", 4 * 2**20) + b'"' + b"x" * (4 * 2**20 - 100))
    kept.append(one)
"""

DEAF = """
for _ in range(20):
    one = connect()
    one.settimeout(0.2)
    for number in range(8):
        put(one, request("big", number=number))
    kept.append(one)
"""

PACKED = """
for _ in range(5):
    one = connect()
    put(one, frame(b"[" + b"{}," * 1_300_000 + b"{}]"))
    put(one, frame(b'{"id": 1, "module": "words", "function": "echo", "arguments": [[' + b"0," * 1_900_000 + b"0]]}"))
    kept.append(one)
"""

FLOOD = """
def flood():
    one = connect()
    try:
        for number in range(4000):
            one.sendall(request("nothing", number=number))
            one.recv(65536)
    except OSError:
        pass
threads = [threading.Thread(target=flood) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

TAIL = """
import time
until = time.monotonic() + 60
while True:
    try:
        print(words.echo("still here"))
        break
    except PluginError as error:
        if time.monotonic() > until:
            raise
        time.sleep(0.2)
"""


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "attack", [GARBAGE, MANY, HALVES, DEAF, PACKED, FLOOD], ids=["garbage", "many", "halves", "deaf", "packed", "flood"]
)
async def test_an_attack_on_the_port_costs_no_memory_no_other_stream_and_not_the_run(runs, attack, caplog):
    plugin = FakePlugin("one", {"words": {"echo": lambda value: value, "big": lambda: "y" * 3_000_000}})
    limits = CallLimits(frame_seconds=5.0, answer_seconds=2.0)
    run = runs.make(FakePlugins(plugin), HEAD + attack + TAIL, "python", call_limits=limits)
    listening = asyncio.ensure_future(runs.listened(run))
    most = before = resident()
    commands = 0
    while not listening.done():
        most = max(most, resident())
        if run._box.box is not None and run._context.exchange is not None and not listening.done():
            # Other streams of the same pipe go on, until the run ends and closes its box.
            try:
                await run._box.box.files.write("/tmp/alive", b"x" * 1000)
                commands += 1
            except SandboxUnavailable:
                await asyncio.wait({listening}, timeout=60)
                assert listening.done()
        await asyncio.wait({listening}, timeout=0.05)
    ended = listening.result()
    assert ended.text == "still here\n"
    assert ended.outcome.status == "done"
    assert commands > 0
    assert "failed" not in caplog.text
    assert most - before < 400 * 2**20
    # What cannot have been meant for a plugin is not a row each.
    assert len([row for row in ended.calls if not row.plugin]) <= limits.refusals
    assert len([event for event in ended.events if isinstance(event, Noted)]) <= 1
