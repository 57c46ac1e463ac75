"""The doctor's row about brains: which would think, and why none can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.cli.doctor_rows import BRAIN, FAIL, OK, WARN, Finding, State
from kagura_kernel.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import AuthContext
    from kagura_kernel.domain.settings import Settings

SETUP = "`kagura-kernel setup brain`"


def brains(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The brain that a run without `--brain` would have; asks no service.

    A machine that nobody has given a brain is warned of, for boxes and replays work without one. A brain that somebody
    has chosen or signed in to, and that cannot think, is a failure.
    """
    from kagura_kernel.assembly.brains import make_brains
    from kagura_kernel.journal.place import data_home

    try:
        states = {
            name: brain.resolve_auth() for name, brain in make_brains(environ, settings, data_home(environ)).items()
        }
    except ConfigurationError as error:
        yield Finding("brain", FAIL, error.message, SETUP, BRAIN)
        return
    ready = [name for name, auth in states.items() if auth.ready]
    broken = [name for name, auth in states.items() if not auth.ready and auth.method]
    if settings.brain in states:
        yield _named(settings.brain, states[settings.brain])
    elif ready:
        more = f"; also {', '.join(ready[1:])}" if ready[1:] else ""
        yield Finding("brain", OK, f"{ready[0]}: {states[ready[0]].reason}{more}", part=BRAIN)
    elif not broken:
        said = f"none: {'; '.join(f'{name}: {auth.reason}' for name, auth in states.items())}"
        yield Finding("brain", WARN, said, SETUP, BRAIN)
    for name in broken:
        if name != settings.brain:
            # While another one thinks, nobody has to mend it today.
            state: State = WARN if ready else FAIL
            yield Finding(f"brain {name}" if ready else "brain", state, f"{name}: {states[name].reason}", SETUP, BRAIN)


def _named(name: str, auth: AuthContext) -> Finding:
    said = f"{name}, as the settings say: {auth.reason}"
    return Finding("brain", OK if auth.ready else FAIL, said, "" if auth.ready else SETUP, BRAIN)
