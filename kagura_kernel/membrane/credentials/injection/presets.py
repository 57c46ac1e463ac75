"""Services whose programs are known: which header they take, and by which variables their programs find them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kagura_kernel.membrane.credentials.injection.settings import (
    PLACEHOLDER,
    EnvInjection,
    HeaderInjection,
    Injection,
)

Preset = Callable[[str], tuple[Injection, ...]]
"""From a base URL, empty for the service's own."""

_GITHUB = "https://api.github.com"


def anthropic(url: str = "") -> tuple[Injection, ...]:
    """The Messages API."""
    variables = {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": PLACEHOLDER}
    return (HeaderInjection(upstream=url or "https://api.anthropic.com", header="x-api-key", variables=variables),)


def openai(url: str = "") -> tuple[Injection, ...]:
    """The OpenAI API, or one that is like it."""
    variables = {"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": PLACEHOLDER}
    return (HeaderInjection(upstream=url or "https://api.openai.com/v1", variables=variables),)


def github(url: str = "") -> tuple[Injection, ...]:
    """GitHub's API, and its repositories over HTTPS for git."""
    api = url or _GITHUB
    web = _github_web(api)
    host = urlsplit(web).netloc
    variables = {
        "GITHUB_API_URL": "{url}",
        "GITHUB_GRAPHQL_URL": "{url}/graphql",
        "GITHUB_TOKEN": PLACEHOLDER,
    }
    return (
        HeaderInjection(upstream=api, variables=variables),
        HeaderInjection(
            upstream=web,
            basic_user="x-access-token",
            git=(f"{web}/", f"git@{host}:", f"ssh://git@{host}/"),
        ),
    )


def cloudflare(url: str = "") -> tuple[Injection, ...]:
    """Cloudflare's API; its own tools and its client libraries read different variables."""
    variables = {
        "CLOUDFLARE_API_BASE_URL": "{url}",
        "CLOUDFLARE_BASE_URL": "{url}",
        "CLOUDFLARE_API_TOKEN": PLACEHOLDER,
    }
    return (HeaderInjection(upstream=url or "https://api.cloudflare.com/client/v4", variables=variables),)


def memory_cloud(url: str = "") -> tuple[Injection, ...]:
    """Kagura Memory Cloud."""
    variables = {"KAGURA_MCP_URL": "{url}/mcp", "KAGURA_API_KEY": PLACEHOLDER}
    return (HeaderInjection(upstream=url or "https://memory.kagura-ai.com", variables=variables),)


def aws(region: str) -> tuple[Injection, ...]:
    """AWS signs each request with the key itself, so a program has to have it."""
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    regions = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    return (EnvInjection(way="env", variables={key: f"{{{key}}}" for key in keys} | regions),)


def gcp() -> tuple[Injection, ...]:
    """Google Cloud has a host for each of its services, so its programs have the token."""
    names = ("CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN")
    return (EnvInjection(way="env", variables=dict.fromkeys(names, "{token}")),)


PRESETS: Mapping[str, Preset] = {
    "anthropic": anthropic,
    "openai": openai,
    "github": github,
    "cloudflare": cloudflare,
    "memory_cloud": memory_cloud,
}
"""What `inject.preset` takes."""


def _github_web(api: str) -> str:
    if api == _GITHUB:
        return "https://github.com"
    # A server of one's own has both on one host.
    parts = urlsplit(api)
    return f"{parts.scheme}://{parts.netloc}"
