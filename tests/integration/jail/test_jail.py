"""A plugin in its jail: what it is given, what it gives, and how its calls end."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from kagura_kernel.domain.errors import (
    JournalUnwritable,
    PluginBusy,
    PluginCallRefused,
    PluginError,
    PluginFailed,
    PluginJailBroken,
    PluginQuarantined,
    PluginRefused,
    PluginTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.postgres.service import PostgresService
from kagura_kernel.plugins.calls import FunctionSpec
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.sandbox.backend import Box, GuestStream, Listener
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.patience import eventually
from tests.support.jails import MODULE, one_module

from .conftest import Jails, ask

USUAL = """
import os
import threading
import time

from . import own
from .parts.deep import DEEP

SCHEMA = {}
gate = threading.Event()


class Refusal(Exception):
    pass


def create_host_functions(config):
    def echo(value, *, times=1):
        '''Say it again.

        And again.
        '''
        return [value] * times

    def sources():
        return [own.OWN, DEEP]

    def configured():
        return config

    async def later():
        return "later"

    def refuse():
        raise Refusal("not this one")

    def missing():
        open("/nowhere")

    def wrong():
        return 1 / 0

    def shapeless():
        return {1, 2}

    def large(count):
        return "x" * count

    def wait():
        print("waiting", flush=True)
        gate.wait()
        return "waited"

    def open_gate():
        gate.set()

    def sleep():
        print("asleep", flush=True)
        time.sleep(3600)

    def leave(code):
        os._exit(code)

    def pid():
        return os.getpid()

    return {"small": {name: thing for name, thing in locals().items() if name != "config"}}
"""
OWN = {"own": "OWN = 'own'\n", "parts__deep": "from ..own import OWN\nDEEP = OWN * 2\n"}


@pytest.fixture
def usual(jails: Jails):
    async def start(**more):
        return await jails.start(USUAL, JailPlan(config={"base": "/plugin/read/0", "n": 3}), files=OWN, **more)

    return start


@pytest_asyncio.fixture(loop_scope="module")
async def jail(usual):
    return await usual()


# ------------------------------------------------------------------ functions


async def test_a_plugin_says_what_it_gives_and_is_called(jail):
    assert jail.modules[MODULE][0] == FunctionSpec("echo", "(value, *, times=1)", "Say it again.")
    assert await ask(jail, "echo", {"a": [1, None, "ü"]}, times=2) == [{"a": [1, None, "ü"]}] * 2
    assert await ask(jail, "later") == "later"
    assert jail.broken == ""


async def test_its_files_are_one_package_of_the_bytes_that_were_sent(usual):
    assert await ask(await usual(), "sources") == ["own", "ownown"]


async def test_it_gets_the_configuration_of_the_plan(usual):
    assert await ask(await usual(), "configured") == {"base": "/plugin/read/0", "n": 3}


async def test_what_it_prints_is_kept_in_its_log(jail):
    task = asyncio.ensure_future(ask(jail, "wait"))
    await eventually(lambda: "waiting" in jail.log)
    await ask(jail, "open_gate")
    assert await task == "waited"


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        ("refuse", "Refusal", "not this one"),
        ("missing", "FileNotFoundError", "/nowhere"),
        ("wrong", "ZeroDivisionError", "division by zero"),
        ("shapeless", "", "set is not JSON"),
    ],
)
async def test_an_error_comes_back_with_its_kind_and_its_text(usual, function, kind, text):
    with pytest.raises(PluginFailed, match=text) as caught:
        await ask(await usual(), function)
    assert caught.value.kind == kind


async def test_the_traceback_of_a_defect_is_in_the_log_with_the_plugins_own_lines(jail):
    with pytest.raises(PluginFailed):
        await ask(jail, "wrong")
    assert "small-plugin/plugin.py" in jail.log
    assert "return 1 / 0" in jail.log


@pytest.mark.parametrize(
    ("module", "function", "arguments", "text"),
    [
        ("other", "echo", [1], "no module 'other'"),
        (MODULE, "nothing", [], "no function 'nothing'"),
        (MODULE, "echo", [], "missing a required argument"),
        (MODULE, "echo", [1, 2], "too many positional"),
        (MODULE, "echo", [float("nan")], "a number that JSON has not"),
        (MODULE, "echo", [b"bytes"], "bytes is not JSON"),
        (MODULE, "echo", ["x" * 5_000_000], "4,194,304 are allowed"),
    ],
)
async def test_a_call_that_cannot_be_made_is_refused_and_harms_nothing(jail, module, function, arguments, text):
    for _ in range(6):
        with pytest.raises(PluginCallRefused, match=text):
            await jail.call(module, function, arguments, {})
    assert await ask(jail, "echo", 1) == [1]


async def test_an_answer_that_is_too_large_is_an_error_and_a_large_one_passes(jail):
    with pytest.raises(PluginFailed, match="cannot be sent"):
        await ask(jail, "large", 5_000_000)
    assert len(await ask(jail, "large", 4_000_000)) == 4_000_000


# ------------------------------------------------------------------ beginning


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("SCHEMA = {}", "has no function create_host_functions"),
        (
            one_module({"f()": "1"}).replace("{'small': ", "{'undeclared': "),
            "'undeclared', which its manifest does not",
        ),
        ("def create_host_functions(config): return {}", "declares the module 'small' and does not give it"),
        ("def create_host_functions(config): return 7", "has to return"),
        ("def create_host_functions(config): return {'small': {}}", "dictionary of 1 to"),
        ("def create_host_functions(config): return {'small': {'a b': print}}", "no function with a name"),
        ("def create_host_functions(config): return {'small': {'class': print}}", "no function with a name"),
        ("def create_host_functions(config): return {'small': {'f': 1}}", "no function with a name"),
    ],
)
async def test_a_plugin_that_gives_what_it_may_not_is_refused(jails, source, text):
    with pytest.raises(PluginRefused, match=text):
        await jails.start(source)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("def create_host_functions(config):\n    raise ValueError('no base')", "ValueError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def create_host_functions(config) return", "SyntaxError"),
        ("import nothing_of_the_kind", "ModuleNotFoundError"),
        ("from . import missing", "ImportError"),
        ("from .. import plugin", "ImportError"),
    ],
)
async def test_a_plugin_that_fails_at_its_start_says_how(jails, source, kind):
    with pytest.raises(PluginFailed) as caught:
        await jails.start(source)
    assert caught.value.kind == kind
    assert caught.value.message.startswith(f"The plugin 'small-plugin' cannot be loaded: {kind}: ")
    assert jails.failed == []


async def test_a_plugin_that_fails_at_its_start_says_where(jails):
    source = "from .parts import deep\ndef create_host_functions(config):\n    return deep.table()\n"
    with pytest.raises(PluginFailed) as caught:
        await jails.start(source, files={"parts__deep": "\n\ndef table():\n    return {}['gone']\n"})
    assert caught.value.text == "'gone' (parts/deep.py, line 4)"


async def test_a_plugin_that_ends_at_its_start_has_a_broken_jail(jails):
    with pytest.raises(PluginJailBroken, match="exit code 7"):
        await jails.start("import os\nos._exit(7)")


async def test_a_plugin_that_never_begins_is_given_up(jails):
    clock = FakeClock()
    starting = asyncio.ensure_future(jails.start("import time\ntime.sleep(3600)", clock=clock))
    await eventually(lambda: clock.sleepers)
    await clock.advance(21)
    with pytest.raises(PluginTimeout, match="create_host_functions"):
        await starting


async def test_a_start_that_is_called_off_leaves_no_box(jails):
    started = []

    async def start_box(spec):
        started.append(await jails.backend.start(spec))
        return started[-1]

    starting = asyncio.ensure_future(jails.start("import time\ntime.sleep(3600)", start_box=start_box))
    await eventually(lambda: started)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await started[0].wait_closed() == ""


async def test_a_jail_that_is_closed_while_its_next_box_comes_leaves_none(usual, jails):
    started, asked, gate = [], [], asyncio.Event()

    async def start_box(spec):
        asked.append(spec)
        if started:
            await gate.wait()
        started.append(await jails.backend.start(spec))
        return started[-1]

    jail = await usual(start_box=start_box)
    with pytest.raises(PluginJailBroken):
        await ask(jail, "leave", 1)
    call = asyncio.ensure_future(ask(jail, "pid"))
    await eventually(lambda: len(asked) == 2)
    closing = asyncio.ensure_future(jail.close())
    gate.set()
    await closing
    with pytest.raises((PluginJailBroken, PluginCallRefused)):
        await call
    assert [await box.wait_closed() for box in started] == ["", ""]


async def test_a_box_without_python_says_so(jails):
    async def start_box(spec):
        return await jails.backend.start(replace(spec, env={"PATH": "/nowhere"}))

    with pytest.raises(PluginJailBroken, match="no python3"):
        await jails.start(USUAL, files=OWN, start_box=start_box)


async def test_a_box_that_cannot_be_had_is_told_as_it_is(jails):
    async def start_box(_spec):
        raise SandboxUnavailable("there is none today")

    with pytest.raises(SandboxUnavailable, match="none today"):
        await jails.start(USUAL, start_box=start_box)


# ----------------------------------------------------------------- many calls


async def test_as_many_calls_run_at_once_as_are_allowed_and_others_wait_or_are_refused(usual):
    jail = await usual(calls=2, waiting=1)
    running = [asyncio.ensure_future(ask(jail, "wait")) for _ in range(2)]
    await eventually(lambda: jail.log.count("waiting") == 2)
    waiting = asyncio.ensure_future(ask(jail, "open_gate"))
    await asyncio.sleep(0)
    with pytest.raises(PluginBusy, match="1 calls wait"):
        await ask(jail, "echo", 1)
    assert not waiting.done()
    await jail.close()
    for task in (*running, waiting):
        with pytest.raises((PluginJailBroken, PluginCallRefused)):
            await task


async def test_answers_find_their_calls_in_any_order(usual):
    jail = await usual(waiting=200)
    answers = await asyncio.gather(*(ask(jail, "echo", number) for number in range(200)))
    assert answers == [[number] for number in range(200)]


# ---------------------------------------------------------------- ends and new


async def test_a_call_that_takes_too_long_costs_the_box_and_the_next_call_has_another(usual):
    clock = FakeClock()
    jail = await usual(clock=clock)
    first = await ask(jail, "pid")
    slow, beside = (asyncio.ensure_future(ask(jail, name)) for name in ("sleep", "wait"))
    await eventually(lambda: "asleep" in jail.log and "waiting" in jail.log)
    await clock.advance(31)
    with pytest.raises(PluginTimeout, match=r"small.sleep .* within 30 s"):
        await slow
    with pytest.raises((PluginJailBroken, PluginTimeout)):
        await beside
    assert jail.broken == ""
    assert await ask(jail, "echo", first) == [first]


async def test_a_call_that_is_given_up_keeps_its_place_until_its_deadline(usual):
    clock = FakeClock()
    jail = await usual(calls=1, clock=clock)
    first = await ask(jail, "pid")
    given_up = asyncio.ensure_future(ask(jail, "sleep"))
    await eventually(lambda: "asleep" in jail.log)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    after = asyncio.ensure_future(ask(jail, "echo", first))
    await clock.advance(31)
    assert await after == [first]
    # It had to wait for a new box.
    assert "small.sleep did not answer within 30 s" in jail.log


async def test_a_process_that_ends_is_told_and_the_next_call_has_a_new_one(jail):
    with pytest.raises(PluginJailBroken, match="exit code 5"):
        await ask(jail, "leave", 5)
    assert await ask(jail, "echo", 1) == [1]
    assert "exit code 5" in jail.log


async def test_three_ends_in_a_row_put_the_plugin_off(jail, jails):
    for code in (1, 2, 3):
        with pytest.raises(PluginJailBroken):
            await ask(jail, "leave", code)
    assert jails.failed == [("small-plugin", jail.broken)]
    assert "3 times in a row, at last because its process ended with exit code 3" in jail.broken
    with pytest.raises(PluginQuarantined, match="exit code 3"):
        await ask(jail, "echo", 1)


async def test_boxes_that_cannot_be_had_are_no_fault_of_the_plugins(usual, jails):
    there = True

    async def start_box(spec):
        if not there:
            raise SandboxUnavailable("there is none today")
        return await jails.backend.start(spec)

    jail = await usual(start_box=start_box)
    with pytest.raises(PluginJailBroken):
        await ask(jail, "leave", 1)
    there = False
    for _ in range(4):
        with pytest.raises(SandboxUnavailable, match="none today"):
            await ask(jail, "echo", 1)
    there = True
    assert await ask(jail, "echo", 1) == [1]
    assert jails.failed == []


async def test_five_defects_in_a_row_put_the_plugin_off_and_refusals_never_do(jail, jails):
    for function, error in [("refuse", PluginFailed), ("missing", PluginFailed)] * 5:
        with pytest.raises(error):
            await ask(jail, function)
    assert jails.failed == []
    for _ in range(5):
        with pytest.raises(PluginFailed):
            await ask(jail, "wrong")
    assert jails.failed == [("small-plugin", jail.broken)]
    assert jail.broken.endswith("ZeroDivisionError")


async def test_a_closed_jail_takes_no_calls_and_may_be_closed_again(jail, jails):
    await jail.close()
    await jail.close()
    with pytest.raises(PluginCallRefused, match="is off"):
        await ask(jail, "echo", 1)
    assert jails.failed == []


SOURCE = """
import socket
SCHEMA = {}
def create_host_functions(config):
    def speak(port, text):
        with socket.create_connection(("127.0.0.1", port), 20) as way:
            way.sendall(text.encode())
            return way.recv(1000).decode()
    return {"small": {"speak": speak}}
"""
CONNECT = "CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n"


def database(jail_port: int = 5432) -> PostgresService:
    return PostgresService("db.test", 5432, "reader", Secret("hidden"), "shop", jail_port=jail_port)


async def echo(box: Box, service: PostgresService) -> int:
    """Stands for what signs in: says which database it is."""

    async def serve(stream: GuestStream) -> None:
        await stream.accept()
        await stream.read(100)
        await stream.write(service.database.encode())
        await stream.write_eof()

    return await box.listen(Listener(service.jail_port, "raw", "database"), serve)


async def test_a_database_lies_on_the_port_that_its_url_names(jails):
    jail = await jails.start(SOURCE, JailPlan(services=(database(5432), database(5433))), open_service=echo)
    assert await ask(jail, "speak", 5432, "hello") == "shop"
    assert await ask(jail, "speak", 5433, "hello") == "shop"


async def test_a_database_on_another_port_is_no_database(jails):
    async def elsewhere(box: Box, service: PostgresService) -> int:
        return await echo(box, service) + 1

    with pytest.raises(SandboxUnavailable, match="another port"):
        await jails.start(SOURCE, JailPlan(services=(database(),)), open_service=elsewhere)


async def test_where_nobody_can_sign_in_there_is_no_jail(jails):
    with pytest.raises(SandboxUnsupported, match=r"signing in to db\.test"):
        await jails.start(SOURCE, JailPlan(services=(database(),)))


async def test_a_crossing_that_cannot_be_written_down_ends_the_jail(jails):
    def refuse(_fact: object) -> None:
        raise JournalUnwritable("the disk is full")

    plan = JailPlan(net=(NetRule("exact", "127.0.0.1", 9),))
    jail = await jails.start(SOURCE, plan, record_egress=refuse)
    with pytest.raises(PluginError):
        await ask(jail, "speak", 3179, CONNECT)
    assert "a crossing could not be recorded" in jail.log


async def test_what_a_jail_asked_for_is_written_down_with_its_plugins_name(jails):
    jail = await jails.start(SOURCE, JailPlan(net=(NetRule("name", "inside.test", 443),)))
    answers = await asyncio.gather(*(ask(jail, "speak", 3179, CONNECT) for _ in range(3)))
    assert all("403" in answer for answer in answers)
    [first, *_] = jails.crossed
    assert (first.plugin, first.host, first.allowed) == ("small-plugin", "127.0.0.1", False)
    assert "--net" not in first.reason
