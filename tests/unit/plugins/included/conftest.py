"""A base directory with something outside of it that must never be read, and what the included plugins make of it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.included_plugins import functions_of

SECRET = "the secret outside"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The base directory; `outside` lies beside it, and in it `secret.txt`."""
    made = tmp_path / "base"
    made.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    return made


@pytest.fixture
def secret() -> str:
    """What `outside/secret.txt` says."""
    return SECRET


@pytest.fixture
def fs_read(base: Path) -> Callable[..., SimpleNamespace]:
    """The module `fs_read` of the base, with more configuration as keywords."""
    return lambda **config: SimpleNamespace(**functions_of("fs-read", {"base_dir": str(base), **config}))


@pytest.fixture
def fs_write(base: Path) -> Callable[..., SimpleNamespace]:
    """The module `fs_write` of the base, with more configuration as keywords."""
    return lambda **config: SimpleNamespace(**functions_of("fs-write", {"base_dir": str(base), **config}))
