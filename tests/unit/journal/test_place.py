import os
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import ConfigurationError, UsageError
from kagura_kernel.journal.place import data_home, is_url, read_settings, shared_file, shown


def test_kagura_home_says_where(private_home):
    assert data_home({"KAGURA_HOME": "/srv/kagura"}) == Path("/srv/kagura")
    assert data_home({"KAGURA_HOME": "~/books"}) == private_home / "books"
    assert data_home({"KAGURA_HOME": "here"}) == Path.cwd() / "here"


def test_a_home_directory_of_nobody_is_told_with_what_names_it(private_home):
    assert shown("~/books") == str(private_home / "books" / "journal.db")
    for variable, ask in (("KAGURA_HOME", data_home), ("KAGURA_CONFIG", read_settings)):
        with pytest.raises(ConfigurationError, match=f"{variable}: '~zz-nobody/x' names a user that is not known here"):
            ask({variable: "~zz-nobody/x"})
    with pytest.raises(UsageError, match="'~zz-nobody/x' names a user"):
        shown("~zz-nobody/x")


def test_without_it_the_system_says_where(private_home):
    for environ in ({}, {"KAGURA_HOME": ""}):
        found = data_home(environ)
        assert found.name == "kagura-kernel"
        assert found.is_relative_to(private_home.parent)
        assert not found.exists()


@pytest.mark.parametrize("ask", [data_home, read_settings])
def test_a_user_without_a_home_directory_is_told_what_to_set(ask, monkeypatch):
    # As a user id that has no name, where no variable says more.
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in [name for name in os.environ if name == "HOME" or name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match="nobody knows the home directory of this user; set HOME"):
        ask({})


def test_a_place_is_shown_without_its_password(tmp_path):
    assert shown("postgresql://ada:hunter2@db:5433/books?password=hunter2&sslmode=require") == (
        "postgresql://ada@db:5433/books"
    )
    assert shown(tmp_path) == str(tmp_path / "journal.db")


@pytest.mark.parametrize("secret", ["hun@ter2", "hun@ter2/x", "hun@ter#2"])
def test_a_password_that_ends_too_early_is_not_shown_as_the_place(secret):
    with pytest.raises(ConfigurationError, match="%40") as caught:
        shown(f"postgresql://ada:{secret}@db/books")
    assert "ter" not in caught.value.message


@pytest.mark.parametrize("url", ["mysql://db/x", "sqlite:///x.db", "postgresql://db:port/x"])
def test_a_url_that_no_journal_can_be_behind_is_refused(url):
    assert is_url(url)
    with pytest.raises(ConfigurationError, match="postgresql://user@host/database"):
        shown(url)


def test_a_missing_driver_is_named_with_its_cure(monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.postgres.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kagura-kernel\[postgres\]'"):
        shown("postgresql://db/x")


def test_shared_settings_lie_at_one_place_that_no_variable_leads_past(tmp_path, monkeypatch):
    usual, other = tmp_path / "etc" / "shared.toml", tmp_path / "other.toml"
    monkeypatch.setattr("kagura_kernel.journal.place.SHARED_FILE", usual)
    other.write_text("pool_size = 7\n")
    assert (shared_file({}), read_settings({}).pool_size) == (None, 1)
    named = {"KAGURA_SHARED_CONFIG": str(other)}
    assert (shared_file(named), read_settings(named).pool_size) == (other, 7)
    usual.parent.mkdir()
    usual.write_text('pool_size = 2\nlocked = ["pool_size"]\n')
    assert (shared_file(named), read_settings(named).pool_size) == (usual, 2)
    with pytest.raises(ConfigurationError, match="KAGURA_POOL_SIZE: it cannot be changed here"):
        read_settings({"KAGURA_POOL_SIZE": "3"})


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    pipe = tmp_path / "config.toml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="it is a pipe, which can be read once only; name a file"):
        read_settings({"KAGURA_CONFIG": str(pipe)})


def test_shared_settings_that_cannot_be_read_let_nobody_go_on(tmp_path, monkeypatch):
    usual = tmp_path / "shared.toml"
    monkeypatch.setattr("kagura_kernel.journal.place.SHARED_FILE", usual)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings({"KAGURA_SHARED_CONFIG": str(tmp_path / "nothing.toml")})
    # A loop is there and cannot be looked at, as a folder that is closed to this user.
    usual.symlink_to(usual)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings({})


def test_own_settings_that_cannot_be_looked_at_are_told(tmp_path):
    own = tmp_path / "config.toml"
    own.symlink_to(own)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_settings({"KAGURA_CONFIG": str(own)})


def test_a_file_that_begins_with_a_mark_of_its_encoding_is_read(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("pool_size = 7\n", "utf-8-sig")
    assert read_settings({"KAGURA_CONFIG": str(file)}).pool_size == 7
