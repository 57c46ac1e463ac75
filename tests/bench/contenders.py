"""Who else carries connections: a plain relay, mitmproxy and squid, each as it is meant to be run."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench.harness import Missing

PROGRAMS = Path(__file__).parent / "programs"
MITMPROXY = Path(__file__).resolve().parents[2] / "out" / "mitmproxy"
MITMDUMP = MITMPROXY / "bin" / "mitmdump"
INSTALL_SECONDS = 300
START_SECONDS = 30.0
STOP_SECONDS = 10.0

SQUID = """
http_port 127.0.0.1:{port}
acl granted dst 127.0.0.1/32
acl granted_port port {target}
http_access allow granted granted_port
http_access deny all
cache deny all
access_log stdio:{folder}/access.log
cache_log {folder}/cache.log
cache_store_log none
pid_filename none
netdb_filename none
coredump_dir {folder}
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname localhost
"""
"""Addresses are judged after the look-up, as the membrane does it; what is allowed is logged, as there."""


@asynccontextmanager
async def serving(program: str, *words: str) -> AsyncIterator[int]:
    """One of our own programs that prints its port; it ends with its standard input."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(PROGRAMS / program), *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield int(await asyncio.wait_for(process.stdout.readline(), START_SECONDS))
    finally:
        process.stdin.close()
        await _ended(process)


@asynccontextmanager
async def mitmproxy(target: int) -> AsyncIterator[int]:
    """The program mitmproxy, told to look into nothing; its own environment, for it downgrades what Jupyter needs.

    Raises:
        Missing: it cannot be had.
    """
    del target
    program = await asyncio.to_thread(mitmproxy_program)
    with tempfile.TemporaryDirectory(prefix="kagura-mitmproxy-") as folder:
        port = _free_port()
        words = [str(program), "-q", "--listen-host", "127.0.0.1", "-p", str(port), "--ignore-hosts", ".*"]
        async with _running([*words, "--set", f"confdir={folder}"], port, "mitmproxy"):
            yield port


def mitmproxy_program() -> Path:
    """The program, installed when it is not there yet.

    Raises:
        Missing: it cannot be installed.
    """
    if MITMDUMP.exists():
        return MITMDUMP
    MITMPROXY.parent.mkdir(exist_ok=True)
    try:
        _install(MITMPROXY)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(MITMPROXY, ignore_errors=True)
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise Missing(f"mitmproxy cannot be installed: {said[-1][:150] if said else type(error).__name__}") from error
    return MITMDUMP


def _install(folder: Path) -> None:
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "mitmproxy"]
    for words in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)


@asynccontextmanager
async def squid(target: int) -> AsyncIterator[int]:
    """The squid proxy with a list of addresses, as a user without rights.

    Raises:
        Missing: it is not installed.
    """
    program = shutil.which("squid", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")
    if program is None:
        raise Missing("squid is not installed (Debian: `apt install squid`)")
    with tempfile.TemporaryDirectory(prefix="kagura-squid-") as folder:
        port = _free_port()
        file = Path(folder) / "squid.conf"
        file.write_text(SQUID.format(port=port, target=target, folder=folder), "utf-8")
        user: str | None = None
        if os.geteuid() == 0:
            user = "nobody"
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        async with _running([program, "-N", "-f", str(file)], port, "squid", user):
            yield port


@asynccontextmanager
async def _running(words: Sequence[str], port: int, name: str, user: str | None = None) -> AsyncIterator[None]:
    """A program that listens on this port, from then to its end."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        user=user,
        group=pwd.getpwnam(user).pw_gid if user else None,
        extra_groups=[] if user else None,
    )
    try:
        await _listens(port, process, name)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await _ended(process)


async def _listens(port: int, process: asyncio.subprocess.Process, name: str) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                return
    except TimeoutError as error:
        raise Missing(f"{name} does not answer within {START_SECONDS:g} s") from error
    raise Missing(f"{name} does not start (exit code {process.returncode})")


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
