"""Real programs find their leases by the variables, and work through them."""

import asyncio
import base64
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.membrane.credentials.injection import settings
from kagura_kernel.membrane.credentials.injection.injector import merge_variables
from kagura_kernel.membrane.credentials.injection.settings import EnvInjection, FileInjection, HeaderInjection
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.injection_rig import InjectionRig
from tests.support.upstream import Asked, RawUpstream, plain

PAIR = base64.b64encode(b"x-access-token:secret-of-handle-1").decode()


async def run(*argv: str, env: dict[str, str], cwd: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_TERMINAL_PROMPT": "0", "LANG": "C.UTF-8"} | env,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate(stdin)
    return process.returncode or 0, out.decode(), err.decode()


async def test_curl_sends_and_receives_through_a_lease(tmp_path):
    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        return await plain(asked.body[::-1])(asked, writer)

    async with (
        RawUpstream(echo) as upstream,
        InjectionRig(tmp_path, *settings.PRESETS["openai"](upstream.url + "/v1")) as rig,
    ):
        await rig.open()
        large = b"0123456789" * 300_000
        code, out, err = await run(
            "bash",
            "-c",
            'curl -sS --data-binary @- -H "Authorization: Bearer $OPENAI_API_KEY" "$OPENAI_BASE_URL/things"',
            env=rig.injector.variables(),
            cwd=tmp_path,
            stdin=large,
        )
        assert (code, err) == (0, "")
        assert out.encode() == large[::-1]
        assert upstream.asked[0].target == "/v1/things"
        assert upstream.asked[0].header("authorization") == "Bearer secret-of-handle-1"


async def test_curl_shows_the_words_of_a_refusal(tmp_path):
    async with RawUpstream() as upstream, InjectionRig(tmp_path, *settings.PRESETS["openai"](upstream.url)) as rig:
        lease = await rig.open()
        variables = rig.injector.variables()
        await rig.broker.release(lease.id)
        code, out, _ = await run("bash", "-c", 'curl -sS "$OPENAI_BASE_URL/"', env=variables, cwd=tmp_path)
        assert code == 0
        assert out.startswith("ERR_LEASE_ENDED: The lease")


# ------------------------------------------------------------------------ git


class GitServer:
    """Repositories over HTTP by git's own `http-backend`, for whoever knows the password."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.refused = 0

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if asked.header("authorization") != f"Basic {PAIR}":
            self.refused += 1
            return await plain(b"who are you?", status=401, www_authenticate='Basic realm="git"')(asked, writer)
        path, _, query = asked.target.partition("?")
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "robot",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": asked.method,
            "CONTENT_TYPE": asked.header("content-type"),
            "CONTENT_LENGTH": str(len(asked.body)),
            "HTTP_CONTENT_ENCODING": asked.header("content-encoding"),
            "GIT_PROTOCOL": asked.header("git-protocol"),
        }
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        out, _ = await process.communicate(asked.body)
        head, _, body = out.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(fields.pop("Status", "200").split()[0])
        return await plain(body, status=status, **{name.lower(): value for name, value in fields.items()})(
            asked, writer
        )


@pytest.fixture
async def git_server(tmp_path: Path) -> AsyncIterator[tuple[RawUpstream, GitServer, Path]]:
    root = tmp_path / "served"
    seed = tmp_path / "seed"
    seed.mkdir()
    for command in (
        "git init -q -b main . && git config user.email a@b && git config user.name a",
        "seq 20000 > numbers && git add . && git commit -q -m first",
        f"git clone -q --bare . {root}/owner/repo.git && git -C {root}/owner/repo.git config http.receivepack true",
    ):
        code, _, err = await run("bash", "-c", command, env={}, cwd=seed)
        assert code == 0, err
    server = GitServer(root)
    async with RawUpstream(server) as upstream:
        yield upstream, server, tmp_path


@pytest.mark.parametrize("remote", ["https://github.com/owner/repo.git", "git@github.com:owner/repo.git"])
async def test_git_clones_and_pushes_as_if_it_had_the_token(git_server, remote):
    upstream, server, folder = git_server
    _, web = settings.PRESETS["github"]("")
    assert isinstance(web, HeaderInjection)
    here = HeaderInjection.model_validate(web.model_dump() | {"upstream": upstream.url})
    async with InjectionRig(folder, here) as rig:
        await rig.open()
        # A proxy and settings of git that something else has set are kept, and neither gets in the way.
        others = {
            "https_proxy": "http://127.0.0.1:1",
            "http_proxy": "http://127.0.0.1:1",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.email",
            "GIT_CONFIG_VALUE_0": "agent@example.test",
            "GIT_CONFIG_KEY_1": "user.name",
            "GIT_CONFIG_VALUE_1": "agent",
        }
        env = merge_variables(others, rig.injector.variables())
        script = (
            f"git clone -q {remote} work && cd work && wc -l < numbers && git remote get-url origin"
            " && seq 30000 > numbers && git commit -q -a -m second && git push -q origin main"
        )
        code, out, err = await run("bash", "-c", script, env=env, cwd=folder)
        assert (code, err) == (0, "")
        assert out.splitlines() == ["20000", f"{rig.urls[0]}/owner/repo.git"]
        code, out, _ = await run("git", "log", "--format=%s %ae", cwd=server.root / "owner/repo.git", env={})
        assert out.splitlines()[0] == "second agent@example.test"
        assert server.refused == 0
        assert "secret-of-handle" not in repr(env)
        held = [path for path in (folder / "work").rglob("*") if path.is_file() and b"secret-of" in path.read_bytes()]
        assert held == []


async def test_git_shows_why_a_lease_gives_nothing(git_server):
    upstream, server, folder = git_server
    injection = HeaderInjection(upstream=upstream.url, basic_user="x-access-token", git=("https://github.com/",))
    async with InjectionRig(folder, injection) as rig:
        lease = await rig.open()
        variables = rig.injector.variables()
        await rig.broker.release(lease.id)
        command = "git clone -q https://github.com/owner/repo.git work"
        code, _, err = await run("bash", "-c", command, env=variables, cwd=folder)
        assert code != 0
        assert "ERR_LEASE_ENDED" in err
        assert server.refused == 0


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
