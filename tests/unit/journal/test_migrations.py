from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from kagura_kernel.domain.errors import JournalTooNew, JournalUnwritable
from kagura_kernel.journal import schema
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun

RUN = SampleRun()


def version_of(directory: Path) -> int:
    with sqlite3.connect(directory / "journal.db") as file:
        (number,) = file.execute("SELECT max(version) FROM journal_version").fetchone()
    file.close()
    return number


@pytest.fixture
def with_rows(tmp_path: Path) -> Path:
    journal = Journal.open(tmp_path)
    journal.append(RUN.started())
    journal.append(RUN.noted())
    journal.close()
    return tmp_path


def test_the_steps_lead_to_exactly_the_tables_that_the_schema_shows(with_rows):
    engine = create_engine(f"sqlite:///{with_rows / 'journal.db'}")
    found = inspect(engine)
    assert set(found.get_table_names()) - {"sqlite_sequence"} == set(schema.metadata.tables)
    for name, table in schema.metadata.tables.items():
        columns = {
            column["name"]: (column["nullable"] and not column["primary_key"]) for column in found.get_columns(name)
        }
        assert columns == {column.name: bool(column.nullable) for column in table.columns}, name
        assert {index["name"] for index in found.get_indexes(name)} == {index.name for index in table.indexes}, name
    engine.dispose()


def test_an_older_journal_is_brought_up_and_keeps_its_rows(with_rows, monkeypatch):
    step = ("CREATE TABLE journal_later (id {autokey})",)
    monkeypatch.setattr(schema, "_STEPS", (*schema._STEPS, step))
    later = schema.KNOWN_VERSION + 1
    monkeypatch.setattr(schema, "KNOWN_VERSION", later)
    for _ in range(2):
        journal = Journal.open(with_rows)
        assert journal.verify().rows == 2
        journal.close()
    assert version_of(with_rows) == later


def test_a_step_that_fails_leaves_the_journal_as_it_was(with_rows, monkeypatch):
    steps = (("CREATE TABLE journal_later (id {autokey})",), ("CREATE TABLE journal_later (id {autokey})",))
    with monkeypatch.context() as patched:
        patched.setattr(schema, "_STEPS", (*schema._STEPS, *steps))
        patched.setattr(schema, "KNOWN_VERSION", schema.KNOWN_VERSION + 2)
        with pytest.raises(JournalUnwritable, match="already exists"):
            Journal.open(with_rows)
    assert version_of(with_rows) == schema.KNOWN_VERSION
    journal = Journal.open(with_rows)
    assert journal.append(RUN.noted()) == 3
    journal.close()


def test_a_newer_journal_is_refused_and_left_alone(with_rows):
    with sqlite3.connect(with_rows / "journal.db") as file:
        file.execute("INSERT INTO journal_version VALUES (7, 'later')")
    file.close()
    with pytest.raises(JournalTooNew) as caught:
        Journal.open(with_rows)
    assert (caught.value.found, caught.value.known) == (7, schema.KNOWN_VERSION)
    assert "Upgrade kagura-kernel" in str(caught.value)
    assert version_of(with_rows) == 7
