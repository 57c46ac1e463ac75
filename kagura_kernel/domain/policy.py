"""What a box may do and where a command may run: plain values, decided elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum, StrEnum

from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.settings import DEFAULTS, PermissionMode, SandboxPolicyType, WriteMode

__all__ = [
    "PROGRAM_DIR",
    "BoxLimits",
    "CommandDecision",
    "CommandLimits",
    "ExecutionRoute",
    "IsolationClass",
    "PermissionMode",
    "SandboxPermission",
    "SandboxPolicy",
    "SandboxPolicyType",
    "WriteMode",
]

PROGRAM_DIR = "/kagura/claude"
"""Where a box has the program of a brain that thinks there."""


class SandboxPermission(StrEnum):
    """What one command asks for."""

    AUTO = "auto"
    REQUIRE_ESCALATED = "require_escalated"


class ExecutionRoute(StrEnum):
    """Where a command runs."""

    SANDBOX = "sandbox"
    HOST = "host"


HOST = "host"
"""What calls itself a back-end where there is no box; no `--box` and no other package takes this name."""


class IsolationClass(IntEnum):
    """How strong a box's walls are; a larger number is stronger."""

    NONE = 0
    NAMESPACE = 1
    CONTAINER = 2
    GVISOR = 3
    MICROVM = 4

    @property
    def label(self) -> str:
        """The word shown to people: `namespace`, `container`, `gvisor`, `microvm`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """The boundary of one box, the same for every back-end."""

    type: SandboxPolicyType = SandboxPolicyType.WORKSPACE_WRITE  # The boundary's kind
    network_access: bool = False  # Whether granted hosts may be reached at all
    writable_roots: tuple[str, ...] = ("/workspace",)  # Paths in the box that may be written, beside its scratch space
    # Paths below a writable root that stay as they are, relative to it
    read_only_subpaths: tuple[str, ...] = (".git", ".kagura")
    # Paths below a writable root that a box changes for itself alone
    own_subpaths: tuple[str, ...] = ()

    @property
    def untold(self) -> tuple[str, ...]:
        """Paths of which no change is ever told."""
        return (*self.own_subpaths, *self.read_only_subpaths)

    @property
    def writable(self) -> bool:
        """Whether the workspace may be written inside the box."""
        return self.type is not SandboxPolicyType.READ_ONLY

    @property
    def walled(self) -> bool:
        """Whether there is a box at all; without one, what a run does acts on the machine as its user."""
        return self.type in (SandboxPolicyType.READ_ONLY, SandboxPolicyType.WORKSPACE_WRITE)


@dataclass(frozen=True, slots=True)
class CommandDecision:
    """Where one command runs, and why."""

    route: ExecutionRoute  # Sandbox or host
    needs_approval: bool = False  # Whether a person has to agree first
    reasons: tuple[str, ...] = ()  # Every rule that spoke, in order, for `kagura-kernel route`


@dataclass(frozen=True, slots=True)
class BoxLimits:
    """How much of the machine one box may use."""

    # All processes together where the system can count them so, otherwise each
    memory_bytes: int = DEFAULTS.memory_mib * 2**20
    processes: int = DEFAULTS.processes  # Processes and threads at once
    cpus: float = 2.0  # Cores, as a fraction
    workspace_bytes: int = DEFAULTS.workspace_mib * 2**20  # How much a run may add to the workspace
    scratch_bytes: int = 2**30  # Size of /tmp and of the home directory together
    open_files: int = 4096  # File descriptors per process
    file_bytes: int = 2 * 2**30  # The largest single file


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """How long one command may take, in seconds; None lifts a limit. Set-up time is never counted."""

    total: float | None = DEFAULTS.command_timeout
    idle: float | None = DEFAULTS.idle_timeout
    # What tells the seconds in a box; those for which its programs wait for a person's answer may be left out
    clock: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)
