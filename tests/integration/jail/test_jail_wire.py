"""A plugin that takes the jailer's connection and speaks to the host itself, which is none the worse for it."""

import asyncio
import shutil
from pathlib import Path

import pytest
import pytest_asyncio

from kagura_kernel.domain.errors import (
    PluginError,
    PluginFailed,
    PluginJailBroken,
    PluginQuarantined,
    PluginTimeout,
    SandboxUnsupported,
)
from kagura_kernel.plugins.jail.box import JailLimits, JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.sandbox.backend import SandboxBackend, ShownPath
from kagura_kernel.sandbox.gvisor import RunscBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from tests.support.jails import NAME, small_content, small_manifest

from .conftest import Jails, ask

THIEF = """
import json, os, socket, struct, sys, time

SCHEMA = {}

def host():
    for number in range(3, 100):
        try:
            one = socket.socket(fileno=os.dup(number))
            one.getpeername()
            return one
        except OSError:
            pass

def frame(body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return struct.pack(">I", len(data)) + data

def create_host_functions(config):
    def attack(code):
        way = host()
        exec(code, globals() | {"way": way})
        time.sleep(3600)

    def forge(value):
        # Its own request is the second one.
        host().sendall(frame({"id": 2, "ok": True, "value": value}))
        return "real"

    def echo(value):
        return value

    return {"small": {"attack": attack, "forge": forge, "echo": echo}}
"""


@pytest_asyncio.fixture(loop_scope="module")
async def thief(jails: Jails):
    return await jails.start(THIEF)


BREACHES = {
    "a length that is too large": ("way.sendall(b'\\xff' * 64)", "bytes long"),
    "a length one over the limit": ("way.sendall(struct.pack('>I', 4 * 2**20 + 1))", "bytes long"),
    "no length": ("way.sendall(b'\\x00' * 4)", "0 bytes long"),
    "no JSON": ("way.sendall(frame(b'hello'))", "no JSON"),
    "no UTF-8": ("way.sendall(frame(b'\"\\xff\"'))", "no JSON"),
    "no number": ("way.sendall(frame(b'NaN'))", "NaN"),
    "a number without end": ("way.sendall(frame(b'1' * 1_000_000))", "no JSON"),
    "a number too large": ("way.sendall(frame(b'[1e999]'))", "too large"),
    "what is nested too deeply": ("way.sendall(frame(b'[' * 65 + b']' * 65))", "levels deep"),
    "brackets without end": ("way.sendall(frame(b'[' * 4_000_000))", "more than 200000 lists"),
    "more lists than fit": ("way.sendall(frame(b'[' + b'[],' * 300_000 + b'0]'))", "more than 200000 lists"),
    "an answer to nothing": ("way.sendall(frame({'id': 999, 'ok': True, 'value': 1}))", "not asked"),
    "an answer to what is to come": ("way.sendall(frame({'id': 2, 'ok': True, 'value': 1}))", "not asked"),
    "an id that is a truth": ("way.sendall(frame({'id': True, 'ok': True, 'value': 1}))", "answer that is none"),
    "an id that is a text": ("way.sendall(frame({'id': '1', 'ok': True, 'value': 1}))", "answer that is none"),
    "no value": ("way.sendall(frame({'id': 1, 'ok': True}))", "answer that is none"),
    "value and error": ("way.sendall(frame({'id': 1, 'ok': True, 'value': 1, 'error': {}}))", "answer that is none"),
    "an error without a text": ("way.sendall(frame({'id': 1, 'ok': False, 'error': {}}))", "error that is none"),
    "an error of its own making": (
        "way.sendall(frame({'id': 1, 'ok': False, 'error': {'code': 'x', 'kind': '', 'message': ''}}))",
        "error that is none",
    ),
    "a list": ("way.sendall(frame([1, 2]))", "answer that is none"),
    "nothing": ("way.sendall(frame(None))", "answer that is none"),
    "a request": (
        "way.sendall(frame({'id': 1, 'module': 'm', 'function': 'f', 'arguments': [], 'named': {}}))",
        "answer that is none",
    ),
    "a second beginning": ("way.sendall(frame({'ready': {'other': []}}))", "answer that is none"),
    "a late failure": (
        "way.sendall(frame({'failed': {'code': 'failed', 'kind': '', 'message': ''}}))",
        "answer that is none",
    ),
    "a flood": ("while True: way.sendall(frame({'id': 7, 'ok': True, 'value': 'x' * 100_000}))", "not asked"),
    "a second connection": (
        "other = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); other.recv(1)",
        "second connection",
    ),
    "connections without end": (
        "ways = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(400)]",
        "second connection",
    ),
}


@pytest.mark.parametrize(("code", "why"), BREACHES.values(), ids=BREACHES)
async def test_what_no_jailer_would_send_puts_the_plugin_off_at_once(jails, thief, code, why):
    with pytest.raises(PluginJailBroken, match=why):
        await ask(thief, "attack", code)
    assert thief.broken
    [(name, told)] = jails.failed
    assert name == "small-plugin"
    assert "broke out of the protocol" in told
    with pytest.raises(PluginQuarantined):
        await ask(thief, "echo", 1)
    # The host goes on, and so do others.
    other = await jails.start(THIEF)
    assert await ask(other, "echo", 1) == 1


async def test_one_who_answers_twice_is_put_off(jails, thief):
    assert await ask(thief, "echo", 1) == 1
    # The first answer counts; the plugin may say what it likes about its own functions.
    assert await ask(thief, "forge", "forged") == "forged"
    await eventually(lambda: thief.broken)
    assert "twice" in thief.broken
    assert len(jails.failed) == 1


@pytest.mark.parametrize("code", ["way.shutdown(socket.SHUT_RDWR)", "way.shutdown(socket.SHUT_WR)"])
async def test_one_who_hangs_up_loses_its_box_and_has_another(jails, thief, code):
    with pytest.raises(PluginJailBroken):
        await ask(thief, "attack", code)
    assert await ask(thief, "echo", 1) == 1
    assert jails.failed == []


@pytest.mark.parametrize(
    "code", ["way.sendall(b'\\x00')", "way.sendall(struct.pack('>I', 4_000_000) + b'[' * 100_000)"]
)
async def test_half_a_message_waits_no_longer_than_a_call_may(jails, code):
    clock = FakeClock()
    thief = await jails.start(THIEF, clock=clock)
    stuck = asyncio.ensure_future(ask(thief, "attack", f"{code}; print('said', flush=True)"))
    await eventually(lambda: "said" in thief.log)
    await clock.advance(31)
    with pytest.raises(PluginTimeout):
        await stuck
    assert await ask(thief, "echo", 1) == 1


async def test_one_who_reads_nothing_is_ended_by_its_deadline(jails):
    clock = FakeClock()
    thief = await jails.start(THIEF, clock=clock, calls=4)
    stop = "import signal, threading; print('deaf', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    calls = [asyncio.ensure_future(ask(thief, "attack", stop))]
    await eventually(lambda: "deaf" in thief.log)
    calls += [asyncio.ensure_future(ask(thief, "echo", "x" * 3_000_000)) for _ in range(3)]
    await clock.advance(31)
    for call in calls:
        with pytest.raises(PluginError):
            await call
    assert await ask(thief, "echo", 1) == 1


BEGINNINGS = {
    "no table": "{'ready': []}",
    "a table and more": "{'ready': {}, 'failed': {}}",
    "a module without a name": "{'ready': {'a b': [{'name': 'f', 'signature': '', 'doc': ''}]}}",
    "a function without a name": "{'ready': {'small': [{'name': 'a.b', 'signature': '', 'doc': ''}]}}",
    "a module without functions": "{'ready': {'small': []}}",
    "too many functions": "{'ready': {'small': [{'name': 'f', 'signature': '', 'doc': ''}] * 201}}",
    "too many modules": "{'ready': {f'm{n}': [{'name': 'f', 'signature': '', 'doc': ''}] for n in range(65)}}",
    "an answer": "{'id': 1, 'ok': True, 'value': 1}",
}


@pytest.mark.parametrize("said", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_a_beginning_that_is_none_puts_the_plugin_off(jails, said):
    with pytest.raises(PluginJailBroken):
        await jails.start(f"{THIEF}\nhost().sendall(frame({said}))\ntime.sleep(3600)")
    assert len(jails.failed) == 1


async def test_what_it_says_of_its_functions_is_cut_and_holds_nothing_a_terminal_would_obey(jails):
    told = (
        "{'ready': {'small': [{'name': 'f', 'signature': '(' + 'x' * 9000, 'doc': '\\x1b[2J a\\n\\nb ' + 'y' * 9000}]}}"
    )
    jail = await jails.start(f"{THIEF}\nhost().sendall(frame({told}))\ntime.sleep(3600)")
    [spec] = jail.modules["small"]
    assert len(spec.signature) == 400
    assert len(spec.doc) == 600
    assert spec.doc.startswith("?[2J a b y")


async def test_the_text_of_an_error_is_cut_and_cleaned_as_well(jails):
    source = "def create_host_functions(config):\n    def f(): raise ValueError('\\x1b]0;x\\x07' + 'z' * 100_000)\n"
    jail = await jails.start(f"{source}    return {{'small': {{'f': f}}}}")
    with pytest.raises(PluginFailed) as caught:
        await ask(jail, "f")
    assert caught.value.text.startswith("?]0;x?zzz")
    assert len(caught.value.text) <= JailLimits().frame_bytes // 1000


SOURCE = """
import os, socket
SCHEMA = {}
def create_host_functions(config):
    def whoami():
        return [os.getuid(), os.environ.get("HTTPS_PROXY"), config["n"]]
    def leave():
        os._exit(4)
    def ask(place):
        with socket.create_connection(("127.0.0.1", 3179), 20) as way:
            way.sendall(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n".encode())
            return way.recv(1000).decode()
    return {"small": {"whoami": whoami, "leave": leave, "ask": ask}}
"""


async def check(backend: SandboxBackend) -> None:
    """One plugin, from its start to its second box."""
    parts = JailParts(start_box=backend.start, limits=JailLimits(start_seconds=60))
    plan = JailPlan(net=(NetRule("name", "inside.test", 443),), config={"n": 7})
    jail = await Jail.start(NAME, small_content(SOURCE), small_manifest(), plan, parts)
    try:
        uid, proxy, number = await ask(jail, "whoami")
        assert uid != 0
        assert (proxy, number) == ("http://127.0.0.1:3179", 7)
        assert "403" in await ask(jail, "ask", "outside.test:443")
        with pytest.raises(PluginJailBroken):
            await ask(jail, "leave")
        assert (await ask(jail, "whoami"))[0] == uid
    finally:
        await jail.close()


async def check_refusal(backend: SandboxBackend, place: Path) -> None:
    """What shows files of the host as they are is refused, and not done by halves."""
    plan = JailPlan(shown=(ShownPath(place, "/plugin/read/0"),))
    with pytest.raises(SandboxUnsupported, match="bubblewrap"):
        await Jail.start(NAME, small_content(SOURCE), small_manifest(), plan, JailParts(start_box=backend.start))


@pytest.mark.docker
@pytest.mark.timeout(600)
async def test_a_jail_is_a_container_where_that_is_wanted(docker_backend, tmp_path):
    await check(docker_backend)
    await check_refusal(docker_backend, tmp_path)


async def test_a_jail_is_a_gvisor_box_where_that_is_wanted(tmp_path):
    if shutil.which("runsc") is None:
        pytest.skip("needs gVisor: install runsc")
    backend = RunscBackend()
    try:
        probe = await backend.probe()
        if not probe.ok:
            pytest.skip(probe.reason)
        await check(backend)
        await check_refusal(backend, tmp_path)
    finally:
        await backend.close()
