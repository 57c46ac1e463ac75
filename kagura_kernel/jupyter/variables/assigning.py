"""What a run brought back, unpacked into the person's namespace."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kagura_kernel.domain.errors import VariableError, VariableMissing, VariableRefused
from kagura_kernel.domain.variables import PackedVariable
from kagura_kernel.jupyter.variables.places import path_from_box
from kagura_kernel.runs.box_runner import plain
from kagura_kernel.runs.box_runner.crossing import CannotCross

if TYPE_CHECKING:
    from kagura_kernel.domain.outcome import RunOutcome

MAX_CELLS = 50_000_000
"""Fields of a CSV file."""


class WithOutputs(Protocol):
    """Options that name what is to come back."""

    @property
    def outputs(self) -> Sequence[str]:
        """Names."""
        ...


def bring_back(shell: Any, outcome: RunOutcome, options: WithOutputs, *, project: Path | None = None) -> None:
    """Assign what came; what did not is told when everything else is there.

    Args:
        shell: IPython.
        outcome: The run's.
        options: The cell's.
        project: The project root; None is the working directory.

    Raises:
        VariableMissing: something did not come.
        VariableRefused: something came that cannot be made into a value.
    """
    root = (project or Path.cwd()).resolve()
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
            from kagura_kernel.runs.box_runner import frames

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
