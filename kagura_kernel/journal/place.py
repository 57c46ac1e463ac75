"""Where the journal lies: as the settings say, or at its usual place; and where settings lie, shared ones and own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from kagura_kernel.domain.settings import Check, Settings, SharedSettings

FILE_NAME = "journal.db"
"""The journal's file in its directory."""

SHARED_FILE = Path("/etc/kagura-kernel/shared.toml")
"""What the administrator says for everybody. No variable leads past it, and the system lets nobody else write there."""

_HOMELESS = "nobody knows the home directory of this user; set HOME to a folder of its own"


def expanded(path: str | PathLike[str]) -> Path:
    """A person's path, with the home directory in place of a leading `~` or `~user`.

    Raises:
        UsageError: no such user is known here.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{fspath(path)!r} names a user that is not known here.") from None


def data_home(environ: Mapping[str, str]) -> Path:
    """The directory for this person's journal: `KAGURA_HOME`, else the system's place for user data.

    It is not created here. A leading `~` in `KAGURA_HOME` is the home directory; an empty value counts as unset.

    Raises:
        ConfigurationError: it is nowhere, as nobody knows this person's home directory.
    """
    named = environ.get("KAGURA_HOME", "")
    if named:
        return _meant("KAGURA_HOME", named).absolute()
    import platformdirs

    return _usual(platformdirs.user_data_dir)


def settings_file(environ: Mapping[str, str]) -> Path:
    """This person's settings: `KAGURA_CONFIG`, else the system's place for configuration; it need not be there.

    Raises:
        ConfigurationError: as `data_home`.
    """
    if named := environ.get("KAGURA_CONFIG"):
        return _meant("KAGURA_CONFIG", named)
    import platformdirs

    return _usual(platformdirs.user_config_dir) / "config.toml"


def _usual(place: Callable[..., str]) -> Path:
    try:
        return Path(place("kagura-kernel", appauthor=False))
    except RuntimeError:
        # A user id without a name, as in many containers, in an environment without HOME.
        raise ConfigurationError("the environment", [_HOMELESS]) from None


def shared_file(environ: Mapping[str, str]) -> Path | None:
    """Where the shared settings are; None where there are none.

    `KAGURA_SHARED_CONFIG` names a file for a machine that has none at the usual place. It counts for nothing where
    there is one, so that nobody can be rid of it by a variable.
    """
    if _may_be_there(SHARED_FILE):
        return SHARED_FILE
    named = environ.get("KAGURA_SHARED_CONFIG")
    return _meant("KAGURA_SHARED_CONFIG", named) if named else None


def _may_be_there(path: Path) -> bool:
    """Whether a file is there, or cannot be seen: then whoever reads it says why it cannot be."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _meant(variable: str, named: str) -> Path:
    try:
        return expanded(named)
    except UsageError as error:
        raise ConfigurationError("the environment", [f"{variable}: {error.message.removesuffix('.')}"]) from None


def read_shared(environ: Mapping[str, str], check: Check = lambda _: ()) -> SharedSettings:
    """What the administrator says for everybody.

    Raises:
        ConfigurationError: it cannot be read, or is wrong; with every problem.
    """
    from kagura_kernel.domain.settings import NOTHING_SHARED, parse_shared

    path = shared_file(environ)
    return NOTHING_SHARED if path is None else parse_shared(text_of(path), str(path), check)


def text_of(path: Path) -> str:
    """What is in a file of settings.

    Raises:
        ConfigurationError: it is no text, or cannot be read.
    """
    try:
        if path.is_fifo():
            raise ConfigurationError(str(path), ["it is a pipe, which can be read once only; name a file"])
        # Editors on Windows begin such a file with a mark, which TOML does not know.
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        # Not chained: it would carry the bytes.
        raise ConfigurationError(str(path), ["it is not a text in UTF-8; save it as such"]) from None
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be read: {(error.strerror or str(error)).lower()}"]) from error


def read_settings(environ: Mapping[str, str], check: Check = lambda _: ()) -> Settings:
    """The settings in a person's file, overridden by `KAGURA_…` variables, over the shared ones.

    Args:
        environ: Variables.
        check: As in `parse_settings`: finds what takes more than the settings to be seen.

    Raises:
        ConfigurationError: with every problem.
    """
    from kagura_kernel.domain.settings import parse_settings

    path = settings_file(environ)
    text = text_of(path) if _may_be_there(path) else ""
    shared = read_shared(environ, check)
    return parse_settings(text, environ, str(path) if text else "the environment", check, shared)


def place_in_use(environ: Mapping[str, str]) -> str | Path:
    """The journal that kernels with this environment keep: a database URL, or a directory.

    Raises:
        ConfigurationError: the settings are wrong.
    """
    return read_settings(environ).journal_url or data_home(environ)


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
    return str(expanded(place).absolute() / FILE_NAME)


def no_journal(where: str) -> UsageError:
    """The error for a place where a journal was expected and none is."""
    return UsageError(f"There is no journal {where} yet. The first run makes one.")
