"""What a person chooses a brain by, and how the choice is written down.

A key goes into the keychain, and nowhere else: the settings name its entry. From the moment it is given every run hides
it by its value.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from kagura_kernel.assembly.brains import make_brains
from kagura_kernel.assembly.settings import load_settings
from kagura_kernel.assembly.settings_file import KEYCHAIN, write_settings
from kagura_kernel.brain import claude_auth
from kagura_kernel.brain.openai_compatible import KNOWN, NAME, name_of, problem_with_url
from kagura_kernel.brain.provider import AUTO, CLAUDE, AuthContext
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.settings_text import Value
from kagura_kernel.membrane.credentials.secret import Secret, keep_in_keychain, keep_standing

LIBRARY = "kagura-kernel[openai]"
"""What has to be installed for services with an OpenAI-compatible API."""

CLAUDE_LIBRARY = claude_auth.LIBRARY
"""What has to be installed for Claude."""

CLAUDE_ENTRY = "anthropic"
"""The user name in the keychain of a key for Claude."""

_LONGEST_KEY = 4096


def missing_library() -> str:
    """What to type to have it; empty where it is installed."""
    is_there = find_spec("pydantic_ai") is not None and find_spec("openai") is not None
    return "" if is_there else f"pip install '{LIBRARY}'"


def missing_claude(environ: Mapping[str, str]) -> str:
    """What to type to have the Claude program, and what talks to it; empty where both are there."""
    return f"pip install '{CLAUDE_LIBRARY}'" if claude_auth.what_is_missing(None, environ) else ""


def sign_in_command(environ: Mapping[str, str]) -> str:
    """What to type in a terminal to sign in with the Claude program; empty where it is not installed."""
    if shutil.which("claude", path=environ.get("PATH", "")):
        return "claude"
    program = claude_auth.find_program(environ)
    return "" if program is None else str(program)


def claude_state(environ: Mapping[str, str]) -> AuthContext:
    """How the Claude brain would sign in now, by the settings as they are in the file."""
    return make_brains(environ, load_settings(environ), data_home(environ))[CLAUDE].resolve_auth()


def use_claude(environ: Mapping[str, str], key: str = "") -> None:
    """Think with Claude: with a key, which goes into the keychain, or by a sign-in.

    Raises:
        ConfigurationError: the key is none, or the settings cannot be written.
        KeychainUnusable: the key cannot be kept; nothing was changed.
    """
    values: dict[str, Value] = {}
    if key:
        values["claude_key_keyring"] = _keep(CLAUDE_ENTRY, key)
    settings = load_settings(environ)
    if settings.brain not in (AUTO, CLAUDE):
        # The model was set for the brain that was meant before.
        values |= {"brain": CLAUDE, "model": None}
    if values:
        write_settings(environ, values)


def use_service(environ: Mapping[str, str], name: str, model: str, *, url: str = "", key: str = "") -> None:
    """Think with a model of a service; a URL is that of one that the settings do not know yet.

    An empty model is left to whoever starts a run.

    Raises:
        ConfigurationError: the URL, the model or the key will not do, or the settings cannot be written.
        KeychainUnusable: the key cannot be kept; nothing was changed.
    """
    if url and (why := problem_with_url(url, keyed=bool(key))):
        raise ConfigurationError("the URL", [why])
    if not model.isprintable():
        raise ConfigurationError("the model", ["its name is one line of text"])
    own = {"url": url} if url else {}
    if key:
        own["key_keyring"] = _keep(name, key)
    if own:
        write_settings(environ, own, table=f"endpoints.{name}")
    write_settings(environ, {"brain": NAME, "endpoint": name, **({"model": model} if model else {})})


def service_name(url: str) -> str:
    """What a service is called whose URL somebody gives: as it is known, else by its host."""
    known = next((name for name, one in KNOWN.items() if one.url == url), "")
    return known or re.sub(r"[^A-Za-z0-9]+", "-", name_of(url)).strip("-").lower()


def overriding(environ: Mapping[str, str]) -> Sequence[str]:
    """Variables that say something else than what is written here, whatever that is."""
    return [name for name in ("KAGURA_BRAIN", "KAGURA_ENDPOINT", "KAGURA_MODEL") if environ.get(name)]


def _keep(name: str, key: str) -> str:
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("the key", ["it is one word of letters, digits and signs; paste it alone"])
    keep_standing(Secret(key))
    keep_in_keychain(KEYCHAIN, name, key)
    return f"{KEYCHAIN}/{name}"
