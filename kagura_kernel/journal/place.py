"""Where the journal lies when nobody says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.domain.errors import UsageError

FILE_NAME = "journal.db"
"""The journal's file in its directory."""


def data_home(environ: Mapping[str, str]) -> Path:
    """The directory for this person's journal: `KAGURA_HOME`, else the system's place for user data.

    It is not created here. A leading `~` in `KAGURA_HOME` is the home directory; an empty value counts as unset.
    """
    named = environ.get("KAGURA_HOME", "")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("kagura-kernel", appauthor=False))


def is_url(place: str | Path) -> bool:
    """Whether a place is a server rather than a directory."""
    return isinstance(place, str) and "://" in place


def shown(place: str | Path) -> str:
    """A place as people may see it: the journal's file, or the URL without its password.

    Raises:
        ConfigurationError: it is no URL that a journal can be behind.
    """
    if isinstance(place, str) and is_url(place):
        from kagura_kernel.journal.postgres import parse_url, without_password

        return without_password(parse_url(place))
    return str(Path(place).absolute() / FILE_NAME)


def no_journal(where: str) -> UsageError:
    """The error for a place where a journal was expected and none is."""
    return UsageError(f"There is no journal {where} yet. The first run makes one.")
