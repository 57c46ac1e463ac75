"""Runs a Python program as `python3 -u FILE` would, with variables, a `display`, and its last expression shown.

    run.py FILE CALL FIRST INPUTS OUTPUTS ROOM
    run.py --stay

FILE is the program, CALL names the folder for what it shows, FIRST is the first place where modules are looked for (`.`
is the working directory), INPUTS and OUTPUTS are names with commas between them, ROOM is how many bytes one output may
have. With `--stay` it is handed one such program after another, see `resident.py`. A program may await at its top
level, and may be written as for IPython where the box has that. Everything but built-in modules is imported late: most
programs need none of it.
"""

# ruff: noqa: PTH120 - pathlib takes milliseconds to import

from __future__ import annotations

import _ast
import builtins
import os
import sys

TYPE_CHECKING = False  # the name is all a type checker needs; importing typing takes milliseconds
if TYPE_CHECKING:
    from types import ModuleType, TracebackType
    from typing import Any

LIB = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(LIB)
PACKAGE = "kagura_box_runner"
ONLY_AST, MAY_AWAIT = 0x400, 0x2000
WAITS = 0x80  # a flag of code that has to be awaited
ON_IMPORT = {"matplotlib.pyplot": "show_on_demand", "IPython.core.display_functions": "display_for_ipython"}


def part(name: str) -> ModuleType:
    """A module of the box runner, whatever the program has done to the places where modules are looked for."""
    sys.path.insert(0, LIB)
    try:
        return getattr(__import__(f"{PACKAGE}.{name}"), name)  # type: ignore[no-any-return]
    finally:
        sys.path.remove(LIB)


class Screen:
    """Where a program shows things; what does the work is loaded with the first of them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._work: Any = None

    def begin(self, folder: str) -> None:
        """Show in another folder from now on."""
        self.folder = folder
        if self._work is not None:
            self._work.begin(folder)

    @property
    def work(self) -> Any:
        """What shows."""
        if self._work is None:
            self._work = part("display").Showing(self.folder)
        return self._work

    def display(self, *objects: Any, **options: Any) -> Any:
        """Show objects in their richest form, as in a notebook."""
        return self.work.display(*objects, **options)

    def hook(self, value: Any) -> None:
        """Show the value of the program's last expression; None is silent."""
        if value is None:
            return
        if type(value).__module__ == "builtins":
            print(repr(value))  # noqa: T201 - what a program prints
        else:
            self.work.display(value)

    def finish(self) -> None:
        """Show the figures that are still open, as a notebook does after a cell."""
        if "matplotlib.pyplot" in sys.modules:
            self.work.show_figures()


class Late:
    """Changes a module when the program imports it, and knows nothing about it before."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._busy: set[str] = set()

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """The module's own specification, with a loader that calls us afterwards; None for all other modules."""
        if name not in ON_IMPORT or name in self._busy:
            return None
        import importlib.util

        self._busy.add(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            getattr(self._screen.work, ON_IMPORT[name])(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


def program_of(source: bytes, path: str) -> list[Any]:
    """The program's code, and that of its last expression where its value is to be shown.

    Raises:
        SyntaxError: as Python would.
    """
    flags = MAY_AWAIT if b"await" in source or b"async" in source else 0
    try:
        tree = compile(source, path, "exec", ONLY_AST | flags, dont_inherit=True)
    except SyntaxError as error:
        source = part("magics").plain(source, error)
        tree = compile(source, path, "exec", ONLY_AST | flags, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, _ast.Expr) or is_quiet(source, last):
        return [compile(source, path, "exec", flags, dont_inherit=True)]
    tree.body.pop()
    before = compile(tree, path, "exec", flags, dont_inherit=True)
    if b"__future__" in source:
        import __future__

        flags |= future_flags(__future__, before.co_flags)
    alone: Any = _ast.Interactive([last])
    return [before, compile(alone, path, "single", flags, dont_inherit=True)]


def future_flags(module: ModuleType, flags: int) -> int:
    """Those of a program's flags that its last expression has to be compiled with as well."""
    found = 0
    for name in module.all_feature_names:
        found |= flags & getattr(module, name).compiler_flag
    return found


def is_quiet(source: bytes, last: Any) -> bool:
    """Whether a semicolon ends the last expression."""
    lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    number = last.end_lineno - 1
    return number < len(lines) and bytes(lines[number])[last.end_col_offset :].lstrip().startswith(b";")


def own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the lines of these files, and of the loop that they run a program in."""
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(LIB):
            kept.append(traceback)
        traceback = traceback.tb_next
    while kept and "/asyncio/" in kept[0].tb_frame.f_code.co_filename:
        del kept[0]
    found: TracebackType | None = None
    for one in reversed(kept):
        found = type(one)(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found


def without_us(error: BaseException) -> None:
    """Take our lines out of an error and of all that led to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = own_frames(one.__traceback__)
        waiting += [one.__cause__, one.__context__]


def complain(text: str) -> None:
    """A line for the person, on the error stream."""
    print(text, file=sys.stderr)  # noqa: T201 - likewise


def fresh_main(path: str) -> ModuleType:
    """The program's own `__main__`, in which nothing of ours can be seen; functions of it can be pickled."""
    old = sys.modules["__main__"]
    main = type(sys)("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __annotations__={})
    if hasattr(old, "__cached__"):  # Not from Python 3.15 on
        main.__dict__.update(__cached__=None)
    loader: Any = type(old.__loader__)
    main.__loader__ = loader("__main__", path)
    sys.modules["__main__"] = main
    return main


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return text.split(",") if text else []


def execute(source: bytes, path: str, namespace: dict[str, Any], inputs: list[str]) -> None:
    """Run the program to its end; what it raises is raised. Inputs that it uses are bound, and need not be again."""
    codes = program_of(source, path)
    wanted = [name for name in inputs if name.encode() in source]
    if wanted:
        part("variables").bind(namespace, wanted, ROOT)
        inputs[:] = [name for name in inputs if name not in wanted]
    if any(code.co_flags & WAITS for code in codes):
        part("resident").run_in_loop(codes, namespace, WAITS)
        return
    for code in codes:
        exec(code, namespace)  # noqa: S102 - the program of the cell, in its box


def finish(screen: Screen, namespace: dict[str, Any], outputs: list[str], room: int) -> None:
    """Show what is left to be shown and keep what was asked for; mistakes here are told and change nothing."""
    try:
        screen.finish()
        if outputs:
            for problem in part("variables").keep(namespace, outputs, ROOT, room):
                complain(problem)
    except Exception as error:  # noqa: BLE001 - the program is over, and its exit code is its own
        complain(f"What the program left could not be shown or kept: {type(error).__name__}: {error}")


def told(error: BaseException) -> int:
    """Tell an error as the interpreter does; the exit code."""
    if type(error).__name__ == "CannotCross" and type(error).__module__.startswith(PACKAGE):
        complain(str(error))
        return 1
    without_us(error)
    sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, EOFError) and str(error).startswith("EOF when reading a line"):
        complain("Nobody can type into a box: write what the program asks for into it, or bring it in with `-i NAME`.")
    elif isinstance(error, NameError) and "'get_ipython'" in str(error):
        complain("A box runs plain Python: neither IPython's shell nor the notebook's kernel is there.")
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def read(path: str) -> bytes:
    """A program."""
    with open(path, "rb") as file:  # noqa: PTH123 - starts without pathlib
        return file.read()


def prepare(path: str, first: str, folder: str) -> tuple[Screen, dict[str, Any]]:
    """Be the interpreter of a program: its screen, and its namespace."""
    sys.argv[:] = [path]
    if sys.path and sys.path[0] == LIB:
        sys.path[0] = "" if first == "." else first
    screen = Screen(folder)
    namespace = fresh_main(path).__dict__
    builtins.display = screen.display  # type: ignore[attr-defined]
    sys.displayhook = screen.hook
    sys.meta_path.insert(0, Late(screen))
    return screen, namespace


def main() -> int:
    """Run what the arguments say; the exit code."""
    if sys.argv[1:] == ["--stay"]:
        return part("resident").serve(sys.modules["__main__"])  # type: ignore[no-any-return]
    path, call, first, inputs, outputs, room = sys.argv[1:]
    source = read(path)
    screen, namespace = prepare(path, first, f"{ROOT}/shown/{call}")
    code, kept = 0, names(outputs)
    try:
        execute(source, path, namespace, names(inputs))
    except SystemExit as end:
        finish(screen, namespace, [] if end.code else kept, int(room))
        raise
    except BaseException as error:  # noqa: BLE001 - told as the interpreter tells it
        code, kept = told(error), []
    finish(screen, namespace, kept, int(room))
    return code


if __name__ == "__main__":
    _us = sys.modules["__main__"]  # functions need it for as long as they run
    sys.exit(main())
