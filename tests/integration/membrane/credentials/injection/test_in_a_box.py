"""The whole way in a real box: a program inside, the guest, the pipe, the membrane, the upstream."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection, FileInjection, HeaderInjection
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.injection_rig import InjectionRig
from tests.support.upstream import Asked, RawUpstream, plain

SECRET = "secret-of-handle-1"
# Everything that a command may read but for the system's own; the brackets keep the search from finding itself.
SEARCH = r"""
{
  grep -al 'secret-of[-]handle' /proc/[0-9]*/environ /proc/[0-9]*/cmdline
  find /home /tmp /workspace /dev/shm /run /etc /var -type f -print0 | xargs -0 grep -al 'secret-of[-]handle'
} 2>/dev/null | sort -u
echo searched
"""


@pytest.fixture
async def box() -> AsyncIterator[Box]:
    backend = BubblewrapBackend()
    yield await backend.start(BoxSpec())
    await backend.close()


async def searched(box: Box) -> list[str]:
    result = await box.run(shell_command(SEARCH))
    *found, last = result.stdout.text.splitlines()
    assert last == "searched", result.stderr.text
    return found


async def test_a_header_reaches_the_upstream_and_the_secret_is_nowhere_inside(box, tmp_path):
    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        body = repr(asked.headers).encode() + b" " + base64.b64encode(asked.header("authorization").encode())
        return await plain(body)(asked, writer)

    async with RawUpstream(echo) as upstream:
        way = HeaderInjection(upstream=upstream.url, variables={"API_URL": "{url}"})
        async with InjectionRig(tmp_path, way, box=box) as rig:
            await rig.open()
            line = 'for i in 1 2 3; do curl -sS "$API_URL/$i" | tee "$HOME/answer"; done'
            result = await box.run(shell_command(line, env=rig.injector.variables()))
            assert (result.exit_code, result.stderr.text) == (0, "")
            assert [asked.header("authorization") for asked in upstream.asked] == [f"Bearer {SECRET}"] * 3
            assert f"Bearer {'*' * len(SECRET)}" in result.stdout.text
            assert SECRET not in result.stdout.text
            assert await searched(box) == []
            assert [record.path for record in rig.records] == ["/1", "/2", "/3"]
            assert rig.failures == []


async def test_a_large_transfer_passes_the_guest_whole(box, tmp_path):
    large = bytes(range(256)) * 32 * 1024
    async with RawUpstream(plain(large)) as upstream:
        way = HeaderInjection(upstream=upstream.url, variables={"API_URL": "{url}"})
        async with InjectionRig(tmp_path, way, box=box) as rig:
            await rig.open()
            line = 'head -c 5000000 /dev/zero | curl -sS --data-binary @- "$API_URL/" | sha256sum'
            result = await box.run(shell_command(line, env=rig.injector.variables()))
            assert result.stdout.text.split()[0] == hashlib.sha256(large).hexdigest()
            assert upstream.asked[0].body == bytes(5_000_000)


async def test_a_file_is_in_memory_for_its_lease_and_gone_after_it(box, tmp_path):
    way = FileInjection(way="file", variables={"TOKEN_FILE": "{path}"})
    async with InjectionRig(tmp_path, way, box=box) as rig:
        lease = await rig.open()
        env = rig.injector.variables()
        line = (
            'stat -c "%a %U" "$TOKEN_FILE" "$(dirname "$TOKEN_FILE")"; stat -f -c %T "$TOKEN_FILE"; cat "$TOKEN_FILE"'
        )
        result = await box.run(shell_command(line, env=env))
        assert result.stdout.text == f"600 agent\n700 agent\ntmpfs\n{SECRET}"
        # The search finds what is there, so that it says something where it finds nothing.
        assert await searched(box) == [env["TOKEN_FILE"]]
        await rig.injector.closed(lease)
        assert await searched(box) == []
        with pytest.raises(BoxFileError, match="ENOENT"):
            await box.files.stat(env["TOKEN_FILE"])
        assert await box.changes() == []


async def test_variables_of_one_command_are_gone_with_it(box, tmp_path):
    way = EnvInjection(way="env", variables={"TOKEN": "{token}"})
    async with InjectionRig(tmp_path, way, box=box) as rig:
        await rig.open()
        result = await box.run(shell_command('printf %s "$TOKEN"', env=rig.injector.secret_env(["fake:read"])))
        assert result.stdout.text == SECRET
        assert await searched(box) == []
