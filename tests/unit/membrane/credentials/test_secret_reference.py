import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SecretUnavailable
from kagura_kernel.membrane.credentials import secret as secret_reference
from kagura_kernel.membrane.credentials.secret import Secret, SecretReader, SecretReference, read_reference
from kagura_kernel.testing.patience import eventually

VALUE = "s3cr3t-value"


def of(source: str, place: str) -> SecretReference:
    return SecretReference("providers.x.token", source, place)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(VALUE + "\n")
    path.chmod(0o600)
    return path


async def test_a_variable_is_read_when_it_is_needed() -> None:
    environ: dict[str, str] = {}
    reader = SecretReader(environ)
    with pytest.raises(SecretUnavailable, match="no such environment variable"):
        await reader.read(of("env", "TOKEN"))
    environ["TOKEN"] = VALUE
    assert (await reader.read(of("env", "TOKEN"))).reveal() == VALUE


async def test_a_variable_whose_bytes_are_no_text_is_no_secret() -> None:
    with pytest.raises(SecretUnavailable, match="the variable is not text"):
        await SecretReader({"TOKEN": f"{VALUE}\udcff"}).read(of("env", "TOKEN"))


@pytest.mark.parametrize("text", ["", "\n", "  \r\n"])
async def test_an_empty_secret_is_none(text: str) -> None:
    with pytest.raises(SecretUnavailable):
        await SecretReader({"TOKEN": text}).read(of("env", "TOKEN"))


@pytest.mark.parametrize(("text", "secret"), [(VALUE + "\n", VALUE), (" two\nlines \r\n", " two\nlines ")])
def test_a_file_loses_only_its_line_end(file: Path, text: str, secret: str) -> None:
    file.write_text(text)
    assert asyncio.run(SecretReader({}).read(of("file", str(file)))).reveal() == secret


async def test_a_file_below_the_home_directory(private_home: Path) -> None:
    (private_home / "token").write_text(VALUE)
    (private_home / "token").chmod(0o400)
    assert (await SecretReader({}).read(of("file", "~/token"))).reveal() == VALUE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777, 0o601])
def test_a_file_that_others_may_touch_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretUnavailable, match="chmod 600"):
        asyncio.run(SecretReader({}).read(of("file", str(file))))


async def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_reference.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SecretUnavailable, match="somebody else"):
        await SecretReader({}).read(of("file", str(file)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that are root's")
def test_what_systemd_hands_to_a_service_may_be_roots(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reading(environ: dict[str, str]) -> Secret:
        return asyncio.run(SecretReader(environ).read(of("file", str(file))))

    monkeypatch.setattr(secret_reference.os, "geteuid", lambda: 65534)
    file.chmod(0o440)
    handed = {"CREDENTIALS_DIRECTORY": str(file.parent)}
    assert reading(handed).reveal() == VALUE
    for elsewhere in ({}, {"CREDENTIALS_DIRECTORY": ""}, {"CREDENTIALS_DIRECTORY": str(file.parent.parent)}):
        with pytest.raises(SecretUnavailable, match="somebody else"):
            reading(elsewhere)
    file.chmod(0o444)
    with pytest.raises(SecretUnavailable, match="others may read"):
        reading(handed)
    os.chown(file, 65533, 65533)
    with pytest.raises(SecretUnavailable, match="somebody else"):
        reading(handed)


async def test_what_is_no_plain_text_file_is_refused(file: Path, tmp_path: Path) -> None:
    link, pipe, large, binary = (tmp_path / name for name in ("link", "pipe", "large", "binary"))
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    large.write_text("x" * (secret_reference.LARGEST + 1))
    binary.write_bytes(b"\xff\xfe")
    for path in (large, binary):
        path.chmod(0o600)
    for path in (link, pipe, large, binary, tmp_path, tmp_path / "missing"):
        with pytest.raises(SecretUnavailable) as caught:
            await SecretReader({}).read(of("file", str(path)))
        assert str(path) not in str(caught.value)
        assert ("it is a link" in str(caught.value)) == (path == link)


async def test_the_keychain_is_asked_for_service_and_user_name() -> None:
    asked: list[tuple[str, str]] = []

    def keyring(service: str, username: str) -> str | None:
        asked.append((service, username))
        return VALUE if username == "me" else None

    reader = SecretReader({}, keyring)
    assert (await reader.read(of("keyring", "my/service/me"))).reveal() == VALUE
    assert asked == [("my/service", "me")]
    with pytest.raises(SecretUnavailable, match="no such entry"):
        await reader.read(of("keyring", "service/you"))


class SlowKeychain:
    """Waits for a person before it answers."""

    def __init__(self) -> None:
        self.asked = 0
        self.unlocked = threading.Event()

    def __call__(self, service: str, username: str) -> str | None:
        del service, username
        self.asked += 1
        return VALUE if self.unlocked.wait(60) else None


async def test_the_loop_goes_on_while_a_keychain_is_locked() -> None:
    chain = SlowKeychain()
    reading = asyncio.create_task(SecretReader({}, chain).read(of("keyring", "service/me")))
    await eventually(lambda: chain.asked)
    chain.unlocked.set()
    assert (await reading).reveal() == VALUE


async def test_a_keychain_that_stays_locked_is_given_up_and_asked_once_until_it_answers() -> None:
    chain = SlowKeychain()
    reader = SecretReader({}, chain, seconds=0.05)
    reference = of("keyring", "service/me")
    for _ in range(3):
        with pytest.raises(SecretUnavailable, match=r"token_keyring .*did not answer within 0\.05 s; if it is locked"):
            await reader.read(reference)
    assert chain.asked == 1
    chain.unlocked.set()
    await eventually(lambda: not any(thread.name == "kagura-secret" for thread in threading.enumerate()))
    assert (await reader.read(reference)).reveal() == VALUE
    assert chain.asked == 2


async def test_whoever_is_cancelled_waits_for_no_keychain() -> None:
    chain = SlowKeychain()
    reading = asyncio.create_task(SecretReader({}, chain).read(of("keyring", "service/me")))
    await eventually(lambda: chain.asked)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not chain.unlocked.is_set()
    chain.unlocked.set()


def test_a_keychain_that_stays_locked_keeps_no_process_from_ending() -> None:
    code = (
        "import asyncio, threading\n"
        "from kagura_kernel.domain.errors import SecretUnavailable\n"
        "from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference\n"
        "reader = SecretReader({}, lambda *_: threading.Event().wait(), seconds=0.05)\n"
        "try: asyncio.run(reader.read(SecretReference('x.token', 'keyring', 'service/me')))\n"
        "except SecretUnavailable as error: print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "did not answer" in ended.stdout


async def test_a_file_that_breaks_while_it_is_read_says_why(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(secret_reference.os, "read", broken)
    with pytest.raises(SecretUnavailable, match="input/output error"):
        await SecretReader({}).read(of("file", str(file)))


async def test_neither_the_secret_nor_its_place_is_shown() -> None:
    reference = of("env", "ghp_pasted_here_by_mistake")
    with pytest.raises(SecretUnavailable) as caught:
        await SecretReader({}).read(reference)
    assert "ghp_" not in str(caught.value) + repr(reference)
    assert "providers.x.token_env" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "source", "place"),
    [
        ({"token_env": "MY_TOKEN"}, "env", "MY_TOKEN"),
        ({"token_file": "/etc/token"}, "file", "/etc/token"),
        ({"token_file": "~/token"}, "file", "~/token"),
        ({"token_keyring": "service/user"}, "keyring", "service/user"),
    ],
)
def test_exactly_one_form_is_a_reference(table: dict[str, object], source: str, place: str) -> None:
    assert read_reference(table, "token", "x.token") == (SecretReference("x.token", source, place), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "one of token_env, token_file, token_keyring is needed"),
        ({"token": VALUE}, "never written here"),
        ({"token": VALUE, "token_env": "A"}, "never written here"),
        ({"token_env": "A", "token_file": "/b"}, "token_env and token_file are given; exactly one"),
        ({"token_env": 7}, "must be a text"),
        ({"token_env": ""}, "must be a text"),
        ({"token_env": f"{VALUE}!"}, "name of an environment variable, not its value"),
        ({"token_env": "7UP"}, "name of an environment variable"),
        ({"token_file": f"relative/{VALUE}"}, "path from the root"),
        ({"token_keyring": VALUE}, "service/username"),
        ({"token_keyring": f"/{VALUE}"}, "service/username"),
    ],
)
def test_anything_else_is_a_problem_that_repeats_nothing(table: dict[str, object], told: str) -> None:
    reference, (problem,) = read_reference(table, "token", "x.token")
    assert reference is None
    assert told in problem
    assert VALUE not in problem


def test_a_reference_may_be_left_out_where_none_is_needed() -> None:
    assert read_reference({}, "token", "x.token", required=False) == (None, [])


@pytest.mark.skipif(sys.platform == "darwin", reason="its own libraries are looked for there")
def test_the_keychain_is_looked_for_without_starting_a_program():
    code = (
        "import sys\n"
        "sys.addaudithook(lambda event, _: event == 'subprocess.Popen' and print('started'))\n"
        "from kagura_kernel.membrane.credentials.secret import KeychainUnusable, keychain_name\n"
        "try: keychain_name()\n"
        "except KeychainUnusable: pass\n"
        "print('keyring' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
