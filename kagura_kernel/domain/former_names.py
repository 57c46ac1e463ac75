"""Names of kagura-agent, and the names that count here, for whoever comes from there. Nothing of it takes effect."""

from __future__ import annotations

from collections.abc import Mapping

FORMER = "KAGURA_AGENT_"
"""How each of its variables begins."""

_VARIABLES = {
    "KAGURA_AGENT_BRAIN": "KAGURA_BRAIN, where `sdk` is `claude` and `kagura-brain` is `kagura_brain`",
    "KAGURA_AGENT_BRAIN_BACKEND": "KAGURA_BRAIN_PROGRAM",
    "KAGURA_AGENT_BRAIN_MODEL": "KAGURA_MODEL",
    "KAGURA_AGENT_BRAIN_LOCAL_PROVIDER": "KAGURA_BRAIN=pydantic_ai and KAGURA_ENDPOINT, such as `ollama`",
    "KAGURA_AGENT_BRAIN_ENDPOINT": "KAGURA_BRAIN=pydantic_ai and KAGURA_ENDPOINT",
    "KAGURA_AGENT_PERMISSION_MODE": "KAGURA_WRITE (`ask`, `through`, `none`), and `--mode plan` of a cell",
    "KAGURA_AGENT_MEMORY_DB": "KAGURA_MEMORY",
}

MODES = {
    "bypassPermissions": "commands in the box need no permission; on the host they are asked about, unless the setting "
    "`permission_mode` is `full_control`",
    "dontAsk": "a run that nobody watches is refused whatever would have to be asked about",
    "auto": "what is asked about is the same in every run; use default",
}
"""Permission modes that this package does not have, and what there is instead; each a clause."""


def former_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence for each variable of kagura-agent that is set; no value is repeated."""
    return tuple(
        f"{name} counts for nothing here: set {_VARIABLES.get(name, 'what the page of settings names')}."
        for name in sorted(environ)
        if name.startswith(FORMER)
    )
