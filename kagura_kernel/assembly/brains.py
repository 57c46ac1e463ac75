"""Settings become brains: which there are, where they think, where their keys are kept, what their tokens cost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.brain.openai_compatible import (
    KEY_VARIABLE,
    KNOWN,
    Endpoint,
    Figures,
    Key,
    joined_model,
    name_of,
    problem_with_url,
    split_model,
    usual_endpoint,
)
from kagura_kernel.brain.provider import AUTO, choose, usual_model
from kagura_kernel.cockpit.brains import BrainReport, Thinking, report_brains
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, SecretUnavailable
from kagura_kernel.domain.settings import EndpointSettings, Problem, Settings
from kagura_kernel.journal.place import expanded
from kagura_kernel.membrane.credentials.secret import (
    Secret,
    SecretReader,
    SecretReference,
    keep_standing,
    read_reference,
)
from kagura_kernel.runs.prices import context_window, price

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.brain.pydantic_ai import PydanticAIBrain
    from kagura_kernel.journal.store import Journal


BRAINS = ("claude", "pydantic_ai", "kagura_brain", "sealed")
"""What `--brain` takes beside `auto` and `replay`, the preferred first."""

_CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""Variables in which the Claude program finds its key."""

BRAIN_SETTINGS = ("brain", "brain_program", "claude_key_keyring", "endpoint", "endpoints", "model")
"""What of the settings says who thinks."""

_MILLION = 1_000_000


def make_brains(environ: Mapping[str, str], settings: Settings, home: Path) -> dict[str, BrainProvider]:
    """Every brain there is, by name, the preferred first; nothing is started, read or imported for it."""
    from kagura_kernel.brain.claude import ClaudeBrain
    from kagura_kernel.brain.kagura_brain import KaguraBrain
    from kagura_kernel.brain.sealed import SealedBrain

    for variable in _CLAUDE_KEYS:
        _keep(environ.get(variable, ""))
    key = _claude_key(environ, settings)
    claude = ClaudeBrain(environ, home / "claude", key=key)
    compatible = compatible_brain(environ, settings)
    sealed = SealedBrain(environ, home / "claude-programs", key=key)
    program = KaguraBrain(environ, settings.brain_program)
    return {brain.name: brain for brain in (claude, compatible, program, sealed)}


def compatible_brain(environ: Mapping[str, str], settings: Settings) -> PydanticAIBrain:
    """The brain for every model behind an OpenAI-compatible API."""
    from kagura_kernel.brain.pydantic_ai import PydanticAIBrain

    endpoints = make_endpoints(environ, settings)
    prices = Prices(settings)
    return PydanticAIBrain(endpoints, usual_endpoint(settings), figures=Figures(prices.price, prices.window))


def make_endpoints(environ: Mapping[str, str], settings: Settings) -> dict[str, Endpoint]:
    """Every endpoint that can be named: those of the settings, then those that are known."""
    given = dict(settings.endpoints)
    if "://" in settings.endpoint:
        given.setdefault(name_of(settings.endpoint), EndpointSettings(url=settings.endpoint))
    names = dict.fromkeys([*given, *KNOWN])
    return {name: _endpoint(name, given.get(name, EndpointSettings()), environ) for name in names}


def check_endpoints(settings: Settings) -> list[Problem]:
    """What is wrong with them, each as the field and what it is; no value is repeated."""
    _, wrong = _claude_reference(settings)
    problems = [("claude_key_keyring", why.partition(": ")[2]) for why in wrong]
    return [*problems, *_wrong_usual(settings), *_wrong_endpoints(settings.endpoints)]


class Prices:
    """What tokens cost by the person's own words, else by the public price list; and how much models take.

    A model is named as in the ledger, `ollama:qwen3:32b`. What answers on this machine is not looked up in the list,
    which may know a model of that name elsewhere.
    """

    def __init__(self, settings: Settings) -> None:
        self._endpoints = settings.endpoints
        self._names = list(dict.fromkeys([*settings.endpoints, usual_endpoint(settings), *KNOWN]))

    def price(self, usage: Usage, model: str, at: datetime) -> tuple[float | None, str]:
        """What these tokens cost at that time, in USD, and who says so; None when nobody does."""
        name, bare = split_model(model, self._names)
        if not name:
            return price(usage, model, at)
        said = self._endpoints.get(name)
        if said is not None and said.input_usd is not None and said.output_usd is not None:
            usd = (usage.input_tokens * said.input_usd + usage.output_tokens * said.output_usd) / _MILLION
            return usd, f"settings, endpoints.{name}"
        listed = self._listed(name)
        return price(usage, bare, at, provider=listed) if listed else (None, "")

    def window(self, model: str) -> int | None:
        """How many tokens a model takes; None when nobody has said so."""
        name, bare = split_model(model, self._names)
        listed = self._listed(name)
        return context_window(bare, listed) if listed else None

    def _listed(self, name: str) -> str:
        """What the price list calls the service; empty for one that is somewhere else than the known one."""
        if name not in KNOWN:
            return ""
        said = self._endpoints.get(name, EndpointSettings())
        return KNOWN[name].prices if said.url in ("", KNOWN[name].url) else ""


def _endpoint(name: str, given: EndpointSettings, environ: Mapping[str, str]) -> Endpoint:
    known = KNOWN.get(name)
    url = given.url or (known.url if known else "")
    return Endpoint(
        name,
        url.rstrip("/"),
        model=given.model,
        key=_key(name, given, environ),
        window=given.context_tokens,
        images=given.images,
        start=known.start if known is not None and url == known.url else "",
    )


def _key(name: str, given: EndpointSettings, environ: Mapping[str, str]) -> Key | None:
    reference, _ = _reference(name, given)
    if reference is not None:
        return _kept(reference, f"{reference.setting}_{reference.source}", environ)
    known = KNOWN.get(name)
    if known is not None:
        # The key of a known service never goes to another one that was given its name.
        moved = given.url not in ("", known.url)
        variable = "" if moved else known.variable
        return _kept(SecretReference(variable, "env", variable), variable, environ) if variable else None
    if environ.get(KEY_VARIABLE):
        return _kept(SecretReference(KEY_VARIABLE, "env", KEY_VARIABLE), KEY_VARIABLE, environ)
    return None


def _claude_key(environ: Mapping[str, str], settings: Settings) -> Key | None:
    reference, _ = _claude_reference(settings)
    return None if reference is None else _kept(reference, "claude_key_keyring", environ)


def _claude_reference(settings: Settings) -> tuple[SecretReference | None, list[str]]:
    table = {"claude_key_keyring": settings.claude_key_keyring} if settings.claude_key_keyring else {}
    return read_reference(table, "claude_key", "claude_key", required=False)


def _reference(name: str, given: EndpointSettings) -> tuple[SecretReference | None, list[str]]:
    table = {form: place for form in ("key_env", "key_file", "key_keyring") if (place := getattr(given, form))}
    return read_reference(table, "key", f"endpoints.{name}.key", required=False)


def _kept(reference: SecretReference, place: str, environ: Mapping[str, str]) -> Key:
    if reference.source == "env":
        _keep(environ.get(reference.place, ""))

    async def read() -> str:
        # A blank behind it came along when it was pasted; the libraries would say of it that nothing answers.
        key = (await SecretReader(environ).read(reference)).reveal().strip()
        if not (key.isascii() and key.isprintable()):
            raise SecretUnavailable(place, "it has a line end or a sign in it that no key has; paste it anew")
        return keep_standing(Secret(key)).reveal()

    return Key(place, read, partial(_is_there, reference, environ))


def _keep(key: str) -> None:
    """Have every run hide a key that lies open in the environment, also one that no brain has used yet."""
    keep_standing(Secret(key.strip()))


def _is_there(reference: SecretReference, environ: Mapping[str, str]) -> bool:
    match reference.source:
        case "env":
            return bool(environ.get(reference.place))
        case "file":
            return os.access(expanded(reference.place), os.R_OK)
        case _:
            return True


def _wrong_usual(settings: Settings) -> Iterator[Problem]:
    usual = settings.endpoint
    if "://" in usual:
        if why := problem_with_url(usual, keyed=False):
            yield "endpoint", why
    elif usual and usual not in settings.endpoints and usual not in KNOWN:
        yield "endpoint", f"it must be one of {', '.join([*settings.endpoints, *KNOWN])}, or a base URL"


def _wrong_endpoints(endpoints: Mapping[str, EndpointSettings]) -> Iterator[Problem]:
    for name, given in endpoints.items():
        field = f"endpoints.{name}"
        if not name.isascii() or not name.replace("-", "a").replace("_", "a").isalnum():
            yield "endpoints", "a name is made of letters, digits, dashes and underscores"
            continue
        reference, wrong = _reference(name, given)
        yield from ((field, why.partition(": ")[2]) for why in wrong)
        known = KNOWN.get(name)
        if not given.url and known is None:
            yield f"{field}.url", "a service that is not known by its name needs one"
        elif given.url and (why := problem_with_url(given.url, keyed=reference is not None or bool(wrong))):
            yield f"{field}.url", why


def brain_reports(
    environ: Mapping[str, str], settings: Settings, home: Path, journal: Journal | None, *, model: str = ""
) -> list[BrainReport]:
    """Every brain with what it would think with and what a turn would cost; no service is asked.

    Turns are counted in the journal, where there is one; an empty `model` is what each would take.
    """
    compatible = compatible_brain(environ, settings)
    endpoints = make_endpoints(environ, settings)
    brains = make_brains(environ, settings, home)

    def thinking(name: str) -> Thinking:
        meant = model or usual_model(settings, name, lambda: choose(AUTO, brains)[0].name)
        if name != compatible.name:
            return Thinking("" if split_model(meant, list(endpoints))[0] else meant)
        try:
            endpoint, found = compatible.thinks_with(meant)
        except BrainNotConfigured:
            return Thinking("")
        return Thinking(joined_model(endpoint.name, found), compatible.window(endpoint, found))

    return report_brains(brains, thinking, Prices(settings).price, journal, datetime.now(UTC))
