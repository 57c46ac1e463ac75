"""The first line of a `%%kagura` or `%%sandbox` cell as a value.

Pure: a line goes in, options or one clear `UsageError` with a short usage come out. What can stand there is the
cockpit's list of cells; what the options mean is decided further down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from kagura_kernel.cockpit.cells import KAGURA, SANDBOX
from kagura_kernel.cockpit.lines.parsing import parse_cell_line
from kagura_kernel.domain.policy import WriteMode


@dataclass(frozen=True, slots=True)
class InputRequest:
    """One variable that a cell gives into its box.

    Attributes:
        name: Its name in the box.
        expression: Python whose value it gets; the name itself for a variable as it stands.
    """

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class CellOptions:
    """What both kinds of cells take.

    Attributes:
        box: Back-end asked for; None leaves it to the settings, as everywhere below.
        image: Image for back-ends that have images.
        session: Name of the session; None is the notebook's own.
        new_session: Whether to start a fresh one.
        timeout: Seconds for one command; 0 lifts the limit.
        idle: Seconds a command may be silent; 0 lifts the limit.
        write: How changes reach the project.
        background: Whether the cell returns at once.
        net: Words that open hosts, in the order in which they were given.
        grants: Credentials it may hold, each as `provider:scope`.
        writable_root: Whether it may change its whole system.
        inputs: Variables that are copied into the box, in the order in which they were given.
        outputs: Names of variables that are brought back from it.
        fmt: Whether `{name}` and `{expression}` are filled in, in this line and in the lines below.
    """

    box: str | None = None
    image: str | None = None
    session: str | None = None
    new_session: bool = False
    timeout: float | None = None
    idle: float | None = None
    write: WriteMode | None = None
    background: bool = False
    net: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    writable_root: bool = False
    inputs: tuple[InputRequest, ...] = ()
    outputs: tuple[str, ...] = ()
    fmt: bool = False


@dataclass(frozen=True, slots=True)
class KaguraOptions(CellOptions):
    """What `%%kagura` takes beside that.

    Attributes:
        brain: Brain asked for.
        seal: Whether it thinks in the box itself.
        model: Model asked for.
        budget_usd: The most it may cost, USD.
        max_turns: How often the brain may go round.
        record: Cassette to write.
        replay: Cassette to play.
        remember: Whether a replay leaves what every other run leaves in the memory.
        agent: Reference of the agent.
        mcp_config: File of further MCP servers.
        strict_mcp: Whether the agent's own MCP servers are left out.
        plan: Whether its plan is shown, and waits for a word.
        verify: A command that says whether the work is good.
        resume: The run that it goes on from.
        workers: Where what it hands on runs.
    """

    brain: str | None = None
    seal: bool = False
    model: str | None = None
    budget_usd: float | None = None
    max_turns: int | None = None
    record: Path | None = None
    replay: Path | None = None
    remember: bool = False
    agent: str | None = None
    mcp_config: Path | None = None
    strict_mcp: bool = False
    plan: bool = False
    verify: str | None = None
    resume: str | None = None
    workers: str | None = None


@dataclass(frozen=True, slots=True)
class SandboxOptions(CellOptions):
    """What `%%sandbox` takes beside that: the language of the cell."""

    language: Literal["python", "bash"] = "python"


def parse_kagura(line: str) -> KaguraOptions:
    """Options of a `%%kagura` line.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    return KaguraOptions(**_typed(parse_cell_line(KAGURA, line)))


def kagura_options(values: Mapping[str, Any]) -> KaguraOptions:
    """The same from values that were read elsewhere, as in a terminal; what is not among them has its default."""
    names = {field.name for field in fields(KaguraOptions)}
    return KaguraOptions(**_typed({name: value for name, value in values.items() if name in names}))


def parse_sandbox(line: str) -> SandboxOptions:
    """Options of a `%%sandbox` line; the language may stand anywhere in it, and is python when it is not named.

    Raises:
        UsageError: unknown or badly formed options; the text ends with the usage.
    """
    return SandboxOptions(**_typed(parse_cell_line(SANDBOX, line)))


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    write = values["write"]
    return {
        **values,
        "write": None if write is None else WriteMode(write),
        "inputs": tuple(InputRequest(name, expression) for name, expression in values.get("inputs", ())),
    }
