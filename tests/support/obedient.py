"""A brain that does what its prompt says, line by line, for tests of kernels in which a plain cell is a prompt.

========== ==========================================
`bash: X`  runs X in the box
`host: X`  asks to run X on the host
`hang`     is silent until it is stopped
other text is repeated: `You said: …`
========== ==========================================
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from kagura_kernel.assembly import services
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainEvent, BrainProvider, Turn
from kagura_kernel.testing.brain import Ask, FakeBrain, Hang, Step

_STARTUP = "from tests.support.obedient import take_over\n\ntake_over()\n"


class ObedientBrain:
    """Follows the prompt."""

    name = "obedient"

    def resolve_auth(self) -> AuthContext:
        """It needs no sign-in."""
        return AuthContext(ready=True, method="none needed", reason="it needs no sign-in")

    def capabilities(self) -> BrainCapabilities:
        """It streams, and reports no cost."""
        return FakeBrain(usd_per_round=None).capabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Do each line."""
        script = [_step(line) for line in turn.task.split("\n") if line.strip()]
        async for event in FakeBrain(script, name=self.name, usd_per_round=None).run(turn):
            yield event


def take_over() -> None:
    """Have this process's cockpit think with it, and with nothing else."""
    # What a module is made of: a test's kernel has no other way to be given a brain.
    vars(services).update(make_brains=_only_this)


def start_with_it(environ: Mapping[str, str]) -> None:
    """Have every kernel with this environment think with it."""
    folder = Path(environ["IPYTHONDIR"]) / "profile_default" / "startup"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "brain.py").write_text(_STARTUP, "utf-8")


def _only_this(*_: object) -> dict[str, BrainProvider]:
    brain = ObedientBrain()
    return {brain.name: brain}


def _step(line: str) -> Step:
    word, _, rest = line.partition(":")
    match word.strip():
        case "bash":
            return Ask("bash", {"command": rest.strip()})
        case "host":
            return Ask("bash", {"command": rest.strip(), "host": True, "reason": "the prompt says so"})
        case "hang":
            return Hang()
        case _:
            return f"You said: {line}"
