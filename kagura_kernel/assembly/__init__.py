"""Settings become parts, and parts one cockpit: the only room that names concrete back-ends and brains.

A command that only reads settings loads none of the parts: a name is looked up when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kagura_kernel.assembly.extensions import brain_names as brain_names
    from kagura_kernel.assembly.process import close_cockpit as close_cockpit, use_cockpit as use_cockpit
    from kagura_kernel.assembly.services import (
        get_cockpit as get_cockpit,
        make_cockpit as make_cockpit,
        make_sweep as make_sweep,
    )
    from kagura_kernel.assembly.settings import (
        check_settings_text as check_settings_text,
        kept_registry as kept_registry,
        load_providers as load_providers,
        load_registry as load_registry,
        load_settings as load_settings,
    )

_HOMES = {
    "brain_names": "extensions",
    "check_settings_text": "settings",
    "close_cockpit": "process",
    "get_cockpit": "services",
    "kept_registry": "settings",
    "load_providers": "settings",
    "load_registry": "settings",
    "load_settings": "settings",
    "make_cockpit": "services",
    "make_sweep": "services",
    "use_cockpit": "process",
}


def __getattr__(name: str) -> Any:
    """A public name, from the module that it is written in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
