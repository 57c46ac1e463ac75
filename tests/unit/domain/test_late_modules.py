"""What costs much to import is read when it is first used, and then is what it would have been anyway."""

import importlib.util
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from kagura_kernel.domain import late_modules
from kagura_kernel.domain.late_modules import later

NAME = "slow_grammar"
PACKAGE = """\
with open({book!r}, "a") as file:
    file.write("read\\n")
from .rules import is_word, RULES
OWN = 1
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A line for each time that the package was read."""
    return tmp_path / "book"


@pytest.fixture
def late(tmp_path: Path, book: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ModuleType]]:
    """Imports a package that is read late."""
    package = tmp_path / NAME
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE.format(book=str(book)))
    (package / "rules.py").write_text("RULES = ('a', 'b')\ndef is_word(text):\n    return text in RULES\n")
    monkeypatch.setattr(late_modules, "LATE", {NAME: ("is_word",)})

    def make() -> ModuleType:
        spec = PathFinder.find_spec(NAME, [str(tmp_path)])
        assert spec is not None
        spec = later(spec)
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        assert spec.loader is not None
        spec.loader.exec_module(module)
        return module

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def times_read(book: Path) -> int:
    return len(book.read_text().splitlines()) if book.exists() else 0


def test_a_function_that_was_taken_at_once_reads_it_when_it_is_called(late, book):
    taken = late().is_word
    assert (taken.__module__, taken.__name__, times_read(book)) == (NAME, "is_word", 0)
    assert (taken("a"), taken("c"), times_read(book)) == (True, False, 1)


def test_anything_else_of_it_reads_it_and_then_it_is_a_module_like_others(late, book):
    module = late()
    assert (module.OWN, times_read(book)) == (1, 1)
    assert type(module) is ModuleType
    assert isinstance(module.__spec__.loader, SourceFileLoader)
    assert module.is_word is sys.modules[f"{NAME}.rules"].is_word


def test_what_tools_ask_every_module_for_does_not_read_it(late, book):
    module = late()
    assert not hasattr(module, "__wrapped__")
    assert str(module.__file__).endswith("__init__.py")
    assert times_read(book) == 0


def test_a_star_takes_all_of_it(late, book):
    late()
    names: dict[str, object] = {}
    exec(f"from {NAME} import *", names)
    assert {"is_word", "RULES", "OWN"} <= set(names)
    assert times_read(book) == 1


def test_a_part_of_it_can_be_imported_before(late):
    late()
    from slow_grammar import rules  # type: ignore[import-not-found]

    assert rules.RULES == ("a", "b")


def test_what_it_has_not_is_named(late):
    module = late()
    with pytest.raises(AttributeError, match="module 'slow_grammar' has no attribute 'other'"):
        _ = module.other


def test_one_that_cannot_be_read_says_so_each_time_and_is_read_once_it_can(late, tmp_path):
    taken = late().is_word
    rules = tmp_path / NAME / "rules.py"
    good = rules.read_text()
    rules.unlink()
    for _ in range(2):
        with pytest.raises(ImportError):
            taken("a")
    rules.write_text(good)
    importlib.invalidate_caches()
    assert taken("a")


def test_it_is_read_once_by_many_threads(late, book):
    taken = late().is_word
    begin = threading.Barrier(8)

    def ask(_: int) -> bool:
        begin.wait()
        return bool(taken("b"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert times_read(book) == 1


def test_other_modules_are_left_as_they_are():
    spec = PathFinder.find_spec("json")
    assert isinstance(spec, ModuleSpec)
    assert isinstance(later(spec).loader, SourceFileLoader)


def said_by(code: str) -> list[str]:
    """What a fresh process prints."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, cwd="/"
    )
    return ended.stdout.split()


def test_the_sdk_of_claude_comes_without_the_grammar_and_addresses_are_checked_all_the_same():
    said = said_by(
        """
        import sys, kagura_kernel.brain.claude_talk
        print("jsonschema" in sys.modules, "lark" in sys.modules)
        from jsonschema import FormatChecker
        print(*(FormatChecker().conforms(text, "iri") for text in ("https://orchidées.example/a", "a b")))
        """
    )
    assert said == ["True", "False", "True", "False"]


def test_whoever_imports_it_without_us_has_it_at_once():
    assert said_by("import sys, kagura_kernel, jsonschema; print('lark' in sys.modules)") == ["True"]
