"""A brain, or what stands in for one, cannot think."""

from __future__ import annotations

from kagura_kernel.domain.errors.base import KaguraError


class BrainError(KaguraError):
    """The brain could not think."""

    code = "ERR_BRAIN"


class BrainNotConfigured(BrainError):
    """No brain can be had; the text names the ways to get one."""

    code = "ERR_BRAIN_NOT_CONFIGURED"


class BrainRefused(BrainError):
    """The brain's service said no: a wrong key, an unknown model, a limit."""

    code = "ERR_BRAIN_REFUSED"

    def __init__(self, brain: str, why: str, status: int | None = None) -> None:
        super().__init__(f"The {brain} brain was refused: {why}")
        self.brain = brain
        self.why = why
        self.status = status


class BrainForgot(BrainRefused):
    """The brain does not remember the conversation that it was to go on with."""

    code = "ERR_BRAIN_FORGOT"

    def __init__(self, brain: str) -> None:
        super().__init__(brain, "it does not remember the session to resume. Start afresh with `--new`.")


class BrainLost(BrainError):
    """The brain's program ended or fell silent in the middle of a turn."""

    code = "ERR_BRAIN_LOST"

    def __init__(self, brain: str, why: str) -> None:
        super().__init__(f"The {brain} brain was lost: {why}. The run was stopped; run the cell again.")
        self.brain = brain
        self.why = why


class CassetteMissing(BrainError):
    """There is no recorded run at this path."""

    code = "ERR_CASSETTE_MISSING"

    def __init__(self, path: str) -> None:
        super().__init__(f"There is no cassette {path}. Record one with `%%kagura --record {path}`.")
        self.path = path


class CassetteBroken(BrainError):
    """A cassette cannot be read, or does not fit this run.

    `foreign` says that the file is something else, which nobody should be told to record over.
    """

    code = "ERR_CASSETTE_BROKEN"

    def __init__(self, path: str, line: int, why: str, *, foreign: bool = False) -> None:
        advice = (
            "It is no cassette; nothing was changed."
            if foreign
            else f"Record it again with `%%kagura --record {path}`."
        )
        super().__init__(f"Cassette {path}, line {line}: {why}. {advice}")
        self.path = path
        self.line = line
        self.why = why
        self.foreign = foreign
