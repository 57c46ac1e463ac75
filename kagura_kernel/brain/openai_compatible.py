"""Services with an OpenAI-compatible API: which are known by name, and what one of them is to a brain.

Pure, and free of any vendor's library: settings, prices and errors go by these words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.settings import Settings

NAME = "pydantic_ai"
"""The name of the brain that speaks to them."""

DEFAULT_WINDOW = 32_768
"""Tokens that a conversation may have where nobody says how many its model takes."""

_LONGEST_SAID = 300  # characters of what a service says about itself


class KnownService(NamedTuple):
    """A service that is called by its name alone."""

    url: str  # Its base URL
    variable: str = ""  # Where its key is looked for when nothing else is said; empty for one that needs none
    prices: str = ""  # What the price list calls it; empty where nobody is paid
    start: str = ""  # What makes it answer, for one on this machine; a clause


KNOWN: Mapping[str, KnownService] = {
    "openai": KnownService("https://api.openai.com/v1", "OPENAI_API_KEY", "openai"),
    "ollama": KnownService("http://127.0.0.1:11434/v1", start="start it with `ollama serve`"),
    "lmstudio": KnownService(
        "http://127.0.0.1:1234/v1", start="start its server in LM Studio, or with `lms server start`"
    ),
    "vllm": KnownService("http://127.0.0.1:8000/v1", start="start it with `vllm serve MODEL`"),
    "llamacpp": KnownService("http://127.0.0.1:8080/v1", start="start it with `llama-server -m FILE --jinja`"),
    "deepseek": KnownService("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek"),
    "groq": KnownService("https://api.groq.com/openai/v1", "GROQ_API_KEY", "groq"),
    "mistral": KnownService("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral"),
    "ollama-cloud": KnownService("https://ollama.com/v1", "OLLAMA_API_KEY"),
    "openrouter": KnownService("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter"),
    "together": KnownService("https://api.together.xyz/v1", "TOGETHER_API_KEY", "together"),
}
"""What can be named without being described, the usual ones first."""

KEY_VARIABLE = "KAGURA_BRAIN_API_KEY"
"""Where the key of a service is looked for that is given by its URL alone."""


@dataclass(frozen=True, slots=True)
class Key:
    """Where the key of a service is kept; never the key."""

    place: str  # Its name for messages: `OPENAI_API_KEY`, `endpoints.work.key_keyring`
    # Reads it, at the moment when it is used; raises `SecretUnavailable`
    read: Callable[[], Awaitable[str]] = field(repr=False)
    # Whether it seems to be there; quick, and without asking a keychain
    there: Callable[[], bool] = field(repr=False, default=lambda: True)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One service that answers."""

    name: str  # What stands before the colon in `--model NAME:MODEL`, and in the ledger
    url: str  # Its base URL
    model: str = ""  # The model for who names none; empty where there is none
    key: Key | None = None  # Where its key is; None for one that needs none
    window: int | None = None  # Tokens that its models take; None where nobody has said so
    start: str = ""  # What makes it answer; may be empty
    images: bool = False  # Whether its models take images

    @property
    def where(self) -> str:
        """Its name, and where it is reached when that does not stand in its name."""
        return self.name if self.name in self.url else f"{self.name} ({self.url})"

    @property
    def nameless(self) -> bool:
        """Whether it is given by its URL alone, and so has no table in the settings yet."""
        return self.name == name_of(self.url)

    @property
    def table(self) -> str:
        """Where the settings say more of it, as the end of a sentence."""
        if self.nameless:
            return "a table [endpoints.NAME] with its `url`, and NAME as `endpoint`"
        return f"[endpoints.{self.name}]"


Price = Callable[[Usage, str, datetime], tuple[float | None, str]]
"""What tokens of a model, named as the ledger names it, cost in USD, and who says so; None when nobody does."""


def _unknown(usage: Usage, model: str, at: datetime) -> tuple[float | None, str]:
    del usage, model, at
    return None, ""


def _unsaid(model: str) -> int | None:
    del model
    return None


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of models."""

    price: Price = _unknown  # What they cost
    window: Callable[[str], int | None] = _unsaid  # How many tokens they take; None when that is not known


def split_model(model: str, endpoints: Sequence[str]) -> tuple[str, str]:
    """The endpoint that a model's name begins with, empty for none, and the model as the service knows it.

    A colon alone says nothing: models are called `qwen3:32b`.
    """
    before, colon, after = model.partition(":")
    return (before, after) if colon and before in endpoints else ("", model)


def joined_model(endpoint: str, model: str) -> str:
    """A model as the ledger names it: `ollama:qwen3:32b`."""
    return f"{endpoint}:{model}"


def name_of(url: str) -> str:
    """What an endpoint is called that is given by its URL alone: its host and port; empty where that is no URL."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2]
    except ValueError:
        return ""


def usual_endpoint(settings: Settings) -> str:
    """The name of the endpoint for models that name none; empty where none is configured."""
    if settings.endpoint:
        return name_of(settings.endpoint) if "://" in settings.endpoint else settings.endpoint
    return split_model(settings.model, [*settings.endpoints, *KNOWN])[0]


def service_of(brain: str, model: str, settings: Settings) -> str:
    """Who is told what a run reads: the endpoint of a model where its brain speaks to several, else the brain."""
    if brain != NAME:
        return brain
    return split_model(model, [*settings.endpoints, *KNOWN])[0] or usual_endpoint(settings) or brain


def stays_here(service: str, settings: Settings) -> bool:
    """Whether what `service_of` names answers on this machine, so that nobody else is told anything."""
    given, known = settings.endpoints.get(service), KNOWN.get(service)
    url = (given.url if given is not None else "") or (known.url if known is not None else "")
    return is_loopback(urlsplit(url).hostname or "")


def problem_with_url(url: str, *, keyed: bool) -> str:
    """What is wrong with a base URL, as a clause; empty when nothing is. The URL is not repeated.

    Args:
        url: The URL.
        keyed: Whether a key is sent there.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it must begin with https:// or http:// and name a host"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return "it must be without a user name, a password, a query and a fragment; a key is kept elsewhere"
    if keyed and parts.scheme == "http" and not is_loopback(host):
        return "a key is sent over https:// only, unless the service is on this machine"
    return ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, whatever a resolver says."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def without(secrets: Sequence[str], text: str) -> str:
    """The text, short and on one line, with `…` in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, "…") if secret else text
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SAID else f"{line[:_LONGEST_SAID]}…"
