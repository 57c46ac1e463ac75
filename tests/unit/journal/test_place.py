from pathlib import Path

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.journal.place import data_home, is_url, shown


def test_kagura_home_says_where(private_home):
    assert data_home({"KAGURA_HOME": "/srv/kagura"}) == Path("/srv/kagura")
    assert data_home({"KAGURA_HOME": "~/books"}) == private_home / "books"
    assert data_home({"KAGURA_HOME": "here"}) == Path.cwd() / "here"


def test_without_it_the_system_says_where(private_home):
    for environ in ({}, {"KAGURA_HOME": ""}):
        found = data_home(environ)
        assert found.name == "kagura-kernel"
        assert found.is_relative_to(private_home.parent)
        assert not found.exists()


def test_a_place_is_shown_without_its_password(tmp_path):
    assert shown("postgresql://ada:hunter2@db:5433/books?password=hunter2&sslmode=require") == (
        "postgresql+psycopg://ada@db:5433/books"
    )
    assert shown(tmp_path) == str(tmp_path / "journal.db")


@pytest.mark.parametrize("url", ["mysql://db/x", "sqlite:///x.db", "postgresql://db:port/x"])
def test_a_url_that_no_journal_can_be_behind_is_refused(url):
    assert is_url(url)
    with pytest.raises(ConfigurationError, match="postgresql://user@host/database"):
        shown(url)


def test_a_missing_driver_is_named_with_its_cure(monkeypatch):
    monkeypatch.setattr("kagura_kernel.journal.postgres.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kagura-kernel\[postgres\]'"):
        shown("postgresql://db/x")
