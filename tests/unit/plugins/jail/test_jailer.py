"""The jailer's parts that can be had without a jail: its modules out of bytes, its table, its words for errors."""

import json
import linecache
import sys

import pytest

from kagura_kernel.plugins.jailer import DEFECT, FAILED, Drivers, NotHostFunctions, SentModules, explain, look_at

FILES = {
    "__init__.py": b"TOP = 1\n",
    "one.py": b"from . import TOP\nfrom .sub.two import TWO\nONE = TOP + TWO\n",
    "sub/two.py": b"TWO = 2\nBROKEN = 1 / 0 if TWO == 3 else None\n",
    "deep/er/three.py": b"",
}


@pytest.fixture
def sent():
    finder = SentModules("sent_for_a_test", FILES, "a-plugin")
    sys.meta_path.insert(0, finder)
    yield finder
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.startswith("sent_for_a_test")]:
        del sys.modules[name]


@pytest.mark.usefixtures("sent")
def test_files_of_a_package_import_each_other():
    module = __import__("sent_for_a_test.one", fromlist=["ONE"])
    assert module.ONE == 3
    assert module.__spec__.origin == "a-plugin/one.py"


@pytest.mark.parametrize("name", ["sent_for_a_test.none", "sent_for_a_test.sub.none", "sent_for_a_test_too"])
def test_what_was_not_sent_is_not_there(sent, name):
    assert sent.find_spec(name) is None
    with pytest.raises(ModuleNotFoundError):
        __import__(name)


@pytest.mark.parametrize("name", ["sub", "deep", "deep.er"])
def test_a_directory_is_a_package(sent, name):
    assert sent.find_spec(f"sent_for_a_test.{name}").submodule_search_locations is not None


@pytest.mark.usefixtures("sent")
def test_lines_of_sent_files_are_known_to_tracebacks():
    __import__("sent_for_a_test.sub.two")
    assert linecache.getline("a-plugin/sub/two.py", 1) == "TWO = 2\n"


def test_drivers_are_found_only_by_their_names():
    assert Drivers().find_spec("psycopg") is None  # it is not among the finders
    assert Drivers().find_spec("pandas") is None


def test_functions_are_told_with_signature_and_first_paragraph():
    def read(path: str, *, limit: int = 10) -> str:
        """Read a   file.

        At length.
        """
        return path * limit

    told = look_at({"m": {"read": read, "print": print}})["m"]
    assert told["read"].told("read") == {
        "name": "read",
        "signature": "(path: str, *, limit: int = 10) -> str",
        "doc": "Read a file.",
    }
    assert told["print"].told("print")["signature"]


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {1: {}},
        {"m": None},
        {"m": {}},
        {"m": {"f": 1}},
        {"m": {1: print}},
        {"m": {"a-b": print}},
        {"m": {"ü": print}},
        {"class": {"f": print}},
        {"m": dict.fromkeys((f"f{n}" for n in range(201)), print)},
        {f"m{n}": {"f": print} for n in range(65)},
    ],
)
def test_what_is_no_table_of_functions_is_refused(given):
    with pytest.raises(NotHostFunctions):
        look_at(given)


class _Mute(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("name"),
        IndexError("list index out of range"),
        json.JSONDecodeError("Expecting value", "x", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ZeroDivisionError("by zero"),
        AttributeError("x"),
        SystemExit(1),
        KeyboardInterrupt(),
        _Mute(),
    ],
)
def test_an_error_that_neither_the_plugin_nor_the_sdk_has_a_class_for_is_a_defect(error, capsys):
    told = explain(error, "plugin_small")
    assert (told["code"], told["kind"]) == (DEFECT, type(error).__name__)
    assert capsys.readouterr().err


def test_what_the_system_says_is_an_answer(capsys):
    told = explain(FileNotFoundError(2, "No such file", "/plugin/read/0/x"), "plugin_small")
    assert (told["code"], told["kind"]) == (FAILED, "FileNotFoundError")
    assert not capsys.readouterr().err


def test_an_error_of_the_plugins_own_making_is_an_answer():
    own = type("Own", (Exception,), {"__module__": "plugin_small.errors"})
    ours = type("Fault", (Exception,), {"__module__": "kagura_plugin.faults"})
    other = type("Other", (Exception,), {"__module__": "plugin_smaller"})
    codes = [explain(kind("x"), "plugin_small")["code"] for kind in (own, ours, other)]
    assert codes == [FAILED, FAILED, DEFECT]


def test_what_would_end_the_process_is_no_answer_whoever_defined_it():
    own = type("Own", (BaseException,), {"__module__": "plugin_small.errors"})
    assert explain(own("x"), "plugin_small")["code"] == DEFECT
