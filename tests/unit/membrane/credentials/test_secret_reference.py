from __future__ import annotations

import os
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SecretUnavailable
from kagura_kernel.membrane.credentials import secret_reference
from kagura_kernel.membrane.credentials.secret_reference import SecretReader, SecretReference, read_reference

VALUE = "s3cr3t-value"


def of(source: str, place: str) -> SecretReference:
    return SecretReference("providers.x.token", source, place)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(VALUE + "\n")
    path.chmod(0o600)
    return path


def test_a_variable_is_read_when_it_is_needed() -> None:
    environ: dict[str, str] = {}
    reader = SecretReader(environ)
    with pytest.raises(SecretUnavailable, match="no such environment variable"):
        reader.read(of("env", "TOKEN"))
    environ["TOKEN"] = VALUE
    assert reader.read(of("env", "TOKEN")).reveal() == VALUE


@pytest.mark.parametrize("text", ["", "\n", "  \r\n"])
def test_an_empty_secret_is_none(text: str) -> None:
    with pytest.raises(SecretUnavailable):
        SecretReader({"TOKEN": text}).read(of("env", "TOKEN"))


def test_a_file_loses_only_its_line_end(file: Path) -> None:
    assert SecretReader({}).read(of("file", str(file))).reveal() == VALUE
    file.write_text(" two\nlines \r\n")
    assert SecretReader({}).read(of("file", str(file))).reveal() == " two\nlines "


def test_a_file_below_the_home_directory(private_home: Path) -> None:
    (private_home / "token").write_text(VALUE)
    (private_home / "token").chmod(0o400)
    assert SecretReader({}).read(of("file", "~/token")).reveal() == VALUE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777, 0o601])
def test_a_file_that_others_may_touch_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretUnavailable, match="chmod 600"):
        SecretReader({}).read(of("file", str(file)))


def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_reference.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SecretUnavailable, match="somebody else"):
        SecretReader({}).read(of("file", str(file)))


def test_what_is_no_plain_text_file_is_refused(file: Path, tmp_path: Path) -> None:
    link, pipe, large, binary = (tmp_path / name for name in ("link", "pipe", "large", "binary"))
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    large.write_text("x" * (secret_reference.LARGEST + 1))
    binary.write_bytes(b"\xff\xfe")
    for path in (large, binary):
        path.chmod(0o600)
    for path in (link, pipe, large, binary, tmp_path, tmp_path / "missing"):
        with pytest.raises(SecretUnavailable) as caught:
            SecretReader({}).read(of("file", str(path)))
        assert str(path) not in str(caught.value)


def test_the_keychain_is_asked_for_service_and_user_name() -> None:
    asked: list[tuple[str, str]] = []

    def keyring(service: str, username: str) -> str | None:
        asked.append((service, username))
        return VALUE if username == "me" else None

    reader = SecretReader({}, keyring)
    assert reader.read(of("keyring", "my/service/me")).reveal() == VALUE
    assert asked == [("my/service", "me")]
    with pytest.raises(SecretUnavailable, match="no such entry"):
        reader.read(of("keyring", "service/you"))


def test_neither_the_secret_nor_its_place_is_shown() -> None:
    reference = of("env", "ghp_pasted_here_by_mistake")
    with pytest.raises(SecretUnavailable) as caught:
        SecretReader({}).read(reference)
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
