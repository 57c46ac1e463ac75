"""Variables of a cell: out of the person's namespace into a box, and back. Never pickle, in either direction."""

from __future__ import annotations

import io
import keyword
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import UsageError, VariableError, VariableMissing, VariableRefused
from kagura_kernel.domain.variables import MAX_VARIABLES, VARIABLE_NAME, PackedVariable, is_free_in_a_shell
from kagura_kernel.runs.box_runner import frames, plain
from kagura_kernel.runs.box_runner.pack import pack
from kagura_kernel.runs.box_runner.wire import CannotCross, readable_size
from kagura_kernel.sandbox.backend import WORKSPACE


def path_in_box(path: PurePath, root: Path) -> str:
    """A path of the project as the box has it.

    Raises:
        CannotCross: there is nothing there, or it lies outside of the project.
    """
    there = Path(path).resolve()
    if not there.exists():
        raise CannotCross(f"there is no file {path}")
    if not there.is_relative_to(root):
        raise CannotCross(
            f"{path} lies outside of the project, and a box sees the project alone. Copy the file into the project, or "
            "pass what it holds: `-i NAME=Path(…).read_bytes()`"
        )
    return str(PurePosixPath(WORKSPACE, *there.relative_to(root).parts))


def path_from_box(path: str, root: Path) -> Path:
    """A path of a box's workspace as the project has it; a relative one stays relative to the project.

    Raises:
        CannotCross: it leads out of the workspace.
    """
    place = PurePosixPath(path)
    if "\0" in path or ".." in place.parts:
        raise CannotCross("it is a path that leads out of the workspace")
    if not place.is_absolute():
        return Path(*place.parts)
    if not place.is_relative_to(WORKSPACE):
        raise CannotCross(f"it is a path outside of {WORKSPACE}, which is gone with the box: write the file there")
    return root.joinpath(*place.relative_to(WORKSPACE).parts)


_OF_IPYTHON = frozenset({"In", "Out", "exit", "get_ipython", "quit"})
_HISTORY = re.compile(r"_+|_i+|_[io]h|_dh|_i?[0-9]+")

if TYPE_CHECKING:
    from kagura_kernel.domain.grammar import InputRequest
    from kagura_kernel.domain.outcome import RunOutcome
    from kagura_kernel.runs.request import RunRequest


def inputs_of(shell: Any, options: RunRequest, room: int) -> tuple[PackedVariable, ...]:
    """The variables that the options name, evaluated in the person's namespace and packed: `room` bytes together.

    Raises:
        UsageError: a name cannot be used in the box.
        VariableMissing: there is no such variable.
        VariableRefused: an expression fails, or a value is too large or does not travel.
    """
    _check_names([one.name for one in options.expressions], options)
    _check_names(options.outputs, options)
    if reserved := [name for name in options.outputs if name in _OF_IPYTHON or _HISTORY.fullmatch(name)]:
        raise UsageError(f"{reserved[0]!r} is IPython's own here, and cells need it. Bring it back under another name.")
    if not options.expressions:
        return ()
    root = Path.cwd().resolve()
    found: list[PackedVariable] = []
    left = room
    for request in options.expressions:
        packed = _packed(request.name, _asked_for(shell, request), left, room, root)
        left -= len(packed.data)
        found.append(packed)
    return tuple(found)


def _check_names(names: Sequence[str], options: RunRequest) -> None:
    in_shell = options.language == "bash"
    if len(names) > MAX_VARIABLES:
        raise UsageError(f"A cell may name {MAX_VARIABLES} variables in each direction, not {len(names)}.")
    for name in names:
        if keyword.iskeyword(name) or name.startswith("__"):
            raise UsageError(
                f"{name!r} means something to Python itself. Use another name, such as {name.strip('_')}_1."
            )
        if not VARIABLE_NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot name a variable in the box: use letters, digits and underscores.")
        if in_shell and not is_free_in_a_shell(name):
            raise UsageError(
                f"${name} means something to the shell itself. Use another name: `-i data={name}` or `-o result`."
            )


def _asked_for(shell: Any, request: InputRequest) -> Any:
    expression = request.expression or request.name
    try:
        code = compile(expression, f"<-i {request.name}>", "eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"`-i {request.name}={expression}` is not a Python expression.") from error
    try:
        return eval(code, getattr(shell, "user_global_ns", shell.user_ns), shell.user_ns)  # noqa: S307 - the person's own cell, as any other
    except NameError as error:
        raise VariableMissing(request.name, _no_such(error.name or expression, _own_names(shell))) from error
    # An expression may raise whatever it likes.
    except Exception as error:
        raise VariableRefused(
            request.name, f"`-i {request.name}={expression}` failed with {type(error).__name__}: {error}"
        ) from error


def _own_names(shell: Any) -> list[str]:
    """Names that the person has given; IPython puts a few of its own beside them."""
    hidden = getattr(shell, "user_ns_hidden", {})
    return [name for name in shell.user_ns if not name.startswith("_") and name not in hidden]


def _no_such(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]!r}?" if near else " Assign it in a cell before this one."
    return f"There is no variable {name!r} in this notebook.{hint}"


def _packed(name: str, value: Any, left: int, room: int, root: Path) -> PackedVariable:
    def path(one: PurePath) -> str:
        return path_in_box(one, root)

    try:
        packed = pack(value, left, path)
    except CannotCross as why:
        whole = ""
        if left < room:
            whole = f" (a cell's variables may have {readable_size(room)} in all, of which this much is left)"
        limit = " The limit is the setting `variables_mib`." if "may cross" in str(why) else ""
        raise VariableRefused(name, f"{name} cannot cross into the box: {why}{whole}.{limit}") from why
    return PackedVariable(name, packed.form, packed.data, dict(packed.details), packed.summary)  # type: ignore[arg-type]


MAX_CELLS = 50_000_000
"""Fields of a CSV file."""


def bring_back(shell: Any, outcome: RunOutcome, options: RunRequest) -> None:
    """Assign what came; what did not is told when everything else is there.

    Raises:
        VariableMissing: something did not come.
        VariableRefused: something came that cannot be made into a value.
    """
    root = Path.cwd().resolve()
    came = {packed.name: packed for packed in outcome.outputs}
    reasons = dict(outcome.missing)
    problems: list[VariableError] = []
    for name in options.outputs:
        if name not in came:
            why = reasons.get(name, f"the run is {outcome.status}")
            problems.append(VariableMissing(name, f"{name} did not come back from the box: {why}."))
            continue
        try:
            shell.user_ns[name] = value_of(came[name], root)
        except VariableRefused as error:
            problems.append(error)
    if problems:
        first = problems[0]
        if len(problems) > 1:
            raise type(first)(first.name, " ".join(problem.message for problem in problems)) from first
        raise first


def value_of(packed: PackedVariable, root: Path) -> Any:
    """The value of a packed variable, which was checked when it came out of its box.

    Raises:
        VariableRefused: it is not one after all.
    """
    try:
        return _value(packed, root)
    except CannotCross as why:
        raise VariableRefused(packed.name, f"{packed.name} cannot be brought back: {why}.") from why
    # Whatever a library finds wrong in bytes of a box is a refusal, never a crash of the cell.
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, OSError) as error:
        raise VariableRefused(
            packed.name, f"{packed.name} cannot be brought back: what came is no {packed.form}."
        ) from error


def _value(packed: PackedVariable, root: Path) -> Any:
    data = packed.data
    match packed.form:
        case "frame" | "series":
            return frames.unpack(packed.form, frames.read_stream(data), packed.details)
        case "array":
            import numpy as np

            return np.load(io.BytesIO(data), allow_pickle=False)
        case "json":
            return plain.decode(data, lambda text: path_from_box(text, root))
        case "image":
            from IPython import display

            make: Any = display.Image
            return make(data=data, format="png")
        case "text":
            return data.decode("utf-8", "surrogatepass")
        case _:
            return _table(data) if packed.details.get("kind") == "csv" else data


def _table(data: bytes) -> Any:
    """A DataFrame of a CSV file with a head line."""
    import pandas as pd

    lines, commas = data.count(b"\n") + 1, data.count(b",")
    # A short line is filled up to the width of the head.
    width = data.split(b"\n", 1)[0].count(b",") + 1
    if max(lines * width, commas) > MAX_CELLS:
        raise CannotCross(f"it is a CSV file of more than {MAX_CELLS:,} fields; write Parquet instead")
    return pd.read_csv(io.BytesIO(data))
