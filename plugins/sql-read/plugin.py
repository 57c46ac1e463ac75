"""Reads from one SQLite or PostgreSQL database, with limits on rows and time."""

from collections.abc import Callable, Mapping
from typing import Any

from kagura_plugin import ConfigRefused
from kagura_plugin.arguments import Config
from kagura_plugin.database import Database, checked_limit, checked_parameters, checked_sql, checked_table
from kagura_plugin.postgres import PostgresDatabase
from kagura_plugin.sqlite import SqliteDatabase

SCHEMA = {
    "url": {
        "type": "string",
        "description": "The database: sqlite:///path/to/file.db, or postgresql://user:password@host/database",
        "promptKey": True,
        "maxLength": 2048,
    },
    "max_rows": {
        "type": "number",
        "description": "Rows that one answer may have",
        "default": 1000,
        "minimum": 1,
        "maximum": 1000,
    },
    "timeout_seconds": {
        "type": "number",
        "description": "What one statement may take",
        "default": 10,
        "minimum": 1,
        "maximum": 20,
    },
}


def create_host_functions(config: Mapping[str, Any] | None = None) -> dict[str, dict[str, Callable[..., Any]]]:
    """The module `sql_read` for one database."""
    given = Config(config)
    most = given.whole("max_rows", 1000, least=1, most=1000)
    database = opened(given.text("url"), given.whole("timeout_seconds", 10, least=1, most=20))

    def query(sql: str, parameters: list[Any] | None = None, limit: int | None = None) -> dict[str, Any]:
        """Rows of one reading statement: {columns, rows, count, complete}; values go into parameters."""
        return database.query(checked_sql(sql), checked_parameters(parameters), checked_limit(limit, most))

    def tables() -> dict[str, Any]:
        """The tables and views: {tables: [{schema, name, kind}], complete}."""
        return database.tables()

    def columns(table: str) -> dict[str, Any]:
        """The columns of a table: {columns: [{name, type, nullable, primary_key}]}."""
        return database.columns(checked_table(table))

    return {"sql_read": {"query": query, "tables": tables, "columns": columns}}


def opened(url: str, seconds: int) -> Database:
    """The database behind a URL.

    Raises:
        ConfigRefused: it is neither SQLite's nor PostgreSQL's.
        DatabaseUnavailable: there is no such file.
    """
    scheme, colon, rest = url.partition(":")
    if colon and scheme.lower() in {"sqlite", "file"}:
        # In a jail every path is absolute, however many slashes a person has written.
        return SqliteDatabase("/" + rest.partition("?")[0].lstrip("/"), seconds=seconds)
    if colon and scheme.lower() in {"postgresql", "postgres"}:
        return PostgresDatabase(url, seconds=seconds)
    raise ConfigRefused("url must begin with sqlite:/// or postgresql://.")
