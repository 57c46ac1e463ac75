"""The variables that a cell gives into its box, packed before anything starts."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import UsageError, VariableMissing, VariableRefused
from kagura_kernel.domain.variables import MAX_VARIABLES, VARIABLE_NAME, PackedVariable, is_free_in_a_shell
from kagura_kernel.jupyter.variables.places import path_in_box
from kagura_kernel.runs.box_runner.crossing import CannotCross, readable_size
from kagura_kernel.runs.box_runner.packing import pack

_OF_IPYTHON = frozenset({"In", "Out", "exit", "get_ipython", "quit"})
_HISTORY = re.compile(r"_+|_i+|_[io]h|_dh|_i?[0-9]+")

if TYPE_CHECKING:
    from kagura_kernel.domain.grammar import InputRequest
    from kagura_kernel.runs.request import RunRequest


def inputs_of(
    shell: Any, options: RunRequest, *, room: int | None = None, project: Path | None = None
) -> tuple[PackedVariable, ...]:
    """The variables that the options name, evaluated in the person's namespace and packed.

    Args:
        shell: IPython.
        options: The cell's.
        room: Bytes that all of them together may have; None asks the settings.
        project: The project root; None is the working directory.

    Raises:
        UsageError: a name cannot be used in the box.
        VariableMissing: there is no such variable.
        VariableRefused: an expression fails, or a value is too large or does not travel.
    """
    _check_names([one.name for one in options.expressions], options)
    _check_names(options.outputs, options)
    _check_outputs(options.outputs)
    if not options.expressions:
        return ()
    room = _room() if room is None else room
    root = (project or Path.cwd()).resolve()
    found: list[PackedVariable] = []
    left = room
    for request in options.expressions:
        packed = _packed(request.name, _value(shell, request), left, room, root)
        left -= len(packed.data)
        found.append(packed)
    return tuple(found)


def _room() -> int:
    from kagura_kernel.assembly import get_cockpit

    return get_cockpit().room


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


def _check_outputs(names: Sequence[str]) -> None:
    for name in names:
        if name in _OF_IPYTHON or _HISTORY.fullmatch(name):
            raise UsageError(f"{name!r} is IPython's own here, and cells need it. Bring it back under another name.")


def _value(shell: Any, request: InputRequest) -> Any:
    expression = request.expression or request.name
    try:
        code = compile(expression, f"<-i {request.name}>", "eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"`-i {request.name}={expression}` is not a Python expression.") from error
    try:
        return eval(code, _globals(shell), shell.user_ns)  # noqa: S307 - the person's own cell, as any other
    except NameError as error:
        raise VariableMissing(request.name, _no_such(error.name or expression, _own_names(shell))) from error
    # An expression may raise whatever it likes.
    except Exception as error:
        raise VariableRefused(
            request.name, f"`-i {request.name}={expression}` failed with {type(error).__name__}: {error}"
        ) from error


def _globals(shell: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(shell, "user_global_ns", shell.user_ns)
    return found


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
