import asyncio
import base64
import hashlib
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import OutputChunk, shell_command
from kagura_kernel.domain.errors import SandboxCommandTimeout
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.credentials.scrub import ScrubbedBox, Scrubber
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.box import FakeBackend
from tests.support.backends import IdleBackend, IdleBox

TOKEN = "ghs_Zx9Qk7T2wLm4Vb8R"
ENCODED = base64.b64encode(TOKEN.encode()).decode()


@pytest.fixture
def secrets() -> list[Secret]:
    return [Secret(TOKEN)]


@pytest.fixture
async def box(secrets):
    backend = FakeBackend()
    yield ScrubbedBox(await backend.start(BoxSpec()), Scrubber(lambda: secrets))
    await backend.close()


async def test_no_stream_shows_a_secret_to_whoever_listens_or_reads(box):
    heard: list[OutputChunk] = []
    line = f"printf '{TOKEN[:9]}'; sleep 0.2; printf '{TOKEN[9:]} end'; echo 'err {ENCODED}' >&2"
    result = await box.run(shell_command(line), heard.append)
    assert result.stdout.text == f"{HIDDEN} end"
    assert result.stderr.text.startswith("err (hidden)")
    assert result.stdout.total == len(result.stdout.data)
    for stream, kept in (("stdout", result.stdout), ("stderr", result.stderr)):
        assert b"".join(chunk.data for chunk in heard if chunk.stream == stream) == kept.data


async def test_the_file_with_the_full_text_holds_none_either(box, tmp_path: Path):
    command = shell_command(f"for n in {{1..40000}}; do echo line $n {TOKEN}; done", spill_dir=tmp_path)
    result = await box.run(command)
    assert result.stdout.spill is not None
    written = result.stdout.spill.read_text()
    assert written == "".join(f"line {number} {HIDDEN}\n" for number in range(1, 40_001))
    assert result.stdout.total == len(written)


async def test_what_was_held_back_is_heard_before_a_time_limit_is_told(box):
    heard: list[bytes] = []
    for seconds in (0.5, 5.0, 30.0):
        with pytest.raises(SandboxCommandTimeout):
            await box.run(
                shell_command("printf 'last ghs_'; sleep 600", limits=CommandLimits(seconds, None)),
                lambda chunk: heard.append(chunk.data),
            )
        if heard:
            break
    assert b"".join(heard) == b"last ghs_"


async def test_a_secret_that_is_renewed_meanwhile_counts_from_then_on(box, secrets):
    command = shell_command("until [ -e go ]; do sleep 0.02; done; echo renewed-secret-2")
    running = asyncio.create_task(box.run(command))
    secrets.append(Secret("renewed-secret-2"))
    await box.files.write("go", b"")
    assert (await running).stdout.text == f"{HIDDEN}\n"


async def test_a_filter_of_the_command_itself_comes_first(box):
    class Joined:
        """Takes blanks out, which makes a secret whole."""

        def feed(self, data: bytes) -> bytes:
            return data.replace(b" ", b"")

        async def ready(self) -> None:
            pass

        def finish(self) -> bytes:
            return b"!"

    command = shell_command(f"echo '{TOKEN[:4]} {TOKEN[4:]}'")
    result = await box.run(type(command)(command.argv, output_filter=Joined))
    assert result.stdout.text == f"{HIDDEN}\n!"


async def test_what_comes_after_it_sees_nothing_leased_and_has_the_last_word(box):
    seen: list[bytes] = []

    class Last:
        """Writes down what it sees, and ends with a word of its own."""

        def feed(self, data: bytes) -> bytes:
            seen.append(data)
            return data.upper()

        async def ready(self) -> None:
            pass

        def finish(self) -> bytes:
            return b"end"

    outer = ScrubbedBox(box, Scrubber(lambda: [Secret(TOKEN)]), Last)
    result = await outer.run(shell_command(f"printf {TOKEN[:6]}; printf '{TOKEN[6:]} and on'"))
    assert result.stdout.text == f"{HIDDEN.upper()} AND ONend"
    assert TOKEN.encode() not in b"".join(seen)


async def test_files_are_data_and_stay_as_they_are(box):
    await box.files.write("config", TOKEN.encode())
    assert await box.files.read("config") == TOKEN.encode()


async def test_binary_output_without_a_secret_is_unchanged(box):
    result = await box.run(shell_command("head -c 200000 /dev/urandom | tee out; sha256sum out | cut -c1-64 >&2"))
    assert hashlib.sha256(result.stdout.data).hexdigest() == result.stderr.text.strip()


async def test_why_a_box_died_is_scrubbed_too():
    class Dead(IdleBox):
        async def wait_closed(self) -> str:
            return f"it ended with exit code 1 (no access with {TOKEN})"

    box = ScrubbedBox(Dead(IdleBackend(), BoxSpec()), Scrubber(lambda: [Secret(TOKEN)]))
    assert await box.wait_closed() == f"it ended with exit code 1 (no access with {HIDDEN})"
