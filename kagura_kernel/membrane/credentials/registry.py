"""The providers of one person, from TOML: checked as a whole, every problem told at once, no value ever repeated.

::

    [providers.github]
    kind = "github_app"
    app_id = "1234"
    installation_id = 5678
    private_key_file = "~/.config/kagura/github.pem"

    [providers.github.scopes.read]
    permissions = { contents = "read" }

    [providers.github.inject]
    way = "env"
    variables = { GH_TOKEN = "{token}" }

Without `inject` a provider's credentials are used in the box as is best for its kind.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ValidationError

from kagura_kernel.domain.errors import ConfigurationError, ExtensionBroken, NotInstalled
from kagura_kernel.domain.extensions import CREDENTIALS, Extension, installed, load_instance
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.membrane.credentials.injection.settings import (
    PRESETS,
    Injection,
    aws_keys,
    gcp_token,
    read_injections,
    told,
)
from kagura_kernel.membrane.credentials.lease import is_provider_name, is_scope_name
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.providers import aws_sts, cloudflare, gcp, github_app, memory_cloud, static
from kagura_kernel.membrane.credentials.secret import SOURCES, SecretReader, SecretReference, read_reference

_MISSING = "it needs one more package:"


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of provider."""

    settings: type[BaseModel]  # Its settings beside its secrets
    secrets: tuple[str, ...]  # Names of its secrets
    # Makes the provider of these
    make: Callable[[str, Any, dict[str, SecretReference], SecretReader], CredentialProvider]
    # How its credentials are used in a box, unless the configuration says otherwise
    injections: Callable[[Any], tuple[Injection, ...]]
    parts: tuple[str, ...] = ("token",)  # What its credentials are made of
    modules: tuple[str, ...] = ()  # Modules of vendors that it imports when it first mints,
    extra: str = ""  # and the extra of this package that brings them

    def missing(self) -> list[str]:
        """What has to be installed first, as a problem; empty when all is there."""
        if all(find_spec(module) for module in self.modules):
            return []
        return [f"{_MISSING} pip install 'kagura-kernel[{self.extra}]'"]


KINDS: Mapping[str, Kind] = {
    # Nothing is known of the secret, so the configuration has to say how it is used.
    "static": Kind(static.StaticSettings, ("secret",), static.StaticProvider, lambda _settings: ()),
    "aws_sts": Kind(
        aws_sts.AwsSettings,
        ("access_key_id", "secret_access_key"),
        aws_sts.AwsStsProvider,
        lambda settings: aws_keys(settings.region),
        parts=aws_sts.PARTS,
        modules=("boto3",),
        extra="aws",
    ),
    "gcp": Kind(
        gcp.GcpSettings,
        ("key",),
        gcp.GcpProvider,
        lambda _settings: gcp_token(),
        modules=("google", "google.auth"),
        extra="gcp",
    ),
    "github_app": Kind(
        github_app.GitHubSettings,
        ("private_key",),
        github_app.GitHubAppProvider,
        lambda settings: PRESETS["github"](settings.api_url),
        modules=("jwt", "cryptography"),
        extra="github",
    ),
    "cloudflare": Kind(
        cloudflare.CloudflareSettings,
        ("token",),
        cloudflare.CloudflareProvider,
        lambda settings: PRESETS["cloudflare"](settings.api_url),
    ),
    "memory_cloud": Kind(
        memory_cloud.MemoryCloudSettings,
        ("api_key",),
        memory_cloud.MemoryCloudProvider,
        lambda settings: PRESETS["memory_cloud"](settings.api_url),
    ),
}


@dataclass(frozen=True, slots=True)
class Registry:
    """What a person has configured."""

    providers: Mapping[str, CredentialProvider] = field(default_factory=dict)  # Where credentials come from, by name
    # How the credentials of each are used in a box; empty where nothing says so
    injections: Mapping[str, tuple[Injection, ...]] = field(default_factory=dict)
    source: str = "credentials.toml"  # The file that says so, or would, for messages


def parse_registry(toml: str, reader: SecretReader, source: str = "credentials.toml") -> Registry:
    """The providers of a TOML text. No secret is read and nobody is asked.

    Raises:
        ConfigurationError: with every problem of every provider; names of settings are told, values never.
        NotInstalled: likewise, where extras are all that is missing.
    """
    try:
        document = tomllib.loads(toml)
    except (ValueError, RecursionError) as error:
        # Not chained, and only the place: the parser's error may carry the text.
        place = str(error).rpartition("(")[2].rstrip(")")
        raise ConfigurationError(source, [f"it is not TOML ({place})"]) from None
    problems = [
        f"{name!r}: there is no such section; providers stand below [providers]"
        for name in document
        if name != "providers"
    ]
    tables = document.get("providers", {})
    providers: dict[str, CredentialProvider] = {}
    injections: dict[str, tuple[Injection, ...]] = {}
    if not isinstance(tables, dict):
        problems.append("providers: it must be a table")
        tables = {}
    for name, table in tables.items():
        found, wrong = _provider(name, table, reader)
        problems.extend(wrong)
        if found is not None:
            providers[name], injections[name] = found
    if problems:
        raise (NotInstalled if all(_MISSING in one for one in problems) else ConfigurationError)(source, problems)
    return Registry(providers, injections, source)


def _provider(
    name: str, table: Any, reader: SecretReader
) -> tuple[tuple[CredentialProvider, tuple[Injection, ...]] | None, list[str]]:
    where = f"providers.{name}"
    if not is_provider_name(name):
        return None, [f"{where}: a name is made of small letters, digits, - and _"]
    if not isinstance(table, dict):
        return None, [f"{where}: it must be a table"]
    kind, why = _kind(table.get("kind"))
    if kind is None:
        return None, [f"{where}.kind: {why}"]
    problems = [f"{where}.kind: {problem}" for problem in kind.missing()]
    secrets: dict[str, SecretReference] = {}
    for secret in kind.secrets:
        reference, wrong = read_reference(table, secret, f"{where}.{secret}")
        problems.extend(wrong)
        if reference is not None:
            secrets[secret] = reference
    given, wrong = read_injections(table.get("inject"), f"{where}.inject", kind.parts)
    problems.extend(wrong)
    endings = ("", *(f"_{source}" for source in SOURCES))
    taken = {"kind", "inject", *(secret + ending for secret in kind.secrets for ending in endings)}
    rest = {key: value for key, value in table.items() if key not in taken}
    try:
        settings = kind.settings.model_validate(rest)
    except ValidationError as error:
        # Not chained: a chained validation error could print what was given.
        problems.extend(told(error, where))
        settings = None
    problems.extend(_wrong_scopes(where, rest.get("scopes")))
    if problems or settings is None:
        return None, problems
    injections = given if given is not None else kind.injections(settings)
    return (kind.make(name, settings, secrets, reader), injections), []


def _kind(name: Any) -> tuple[Kind | None, str]:
    """The sort of provider with this name, or what is wrong with it."""
    if isinstance(name, str) and name in KINDS:
        return KINDS[name], ""
    others = installed(CREDENTIALS, tuple(KINDS))
    if not isinstance(name, str) or name not in others:
        return None, f"it must be one of {', '.join([*KINDS, *others])}"
    try:
        return load_kind(others[name]), ""
    except ExtensionBroken as error:
        return None, error.message


def load_kind(extension: Extension) -> Kind:
    """A sort of provider of another package.

    Raises:
        ExtensionBroken: it is none.
    """
    return load_instance(extension, Kind)


def _wrong_scopes(where: str, scopes: Any) -> list[str]:
    if not isinstance(scopes, dict):
        return []
    wrong = "a scope's name is made of letters, digits and . _ : / @ + -"
    return [f"{where}.scopes: {wrong}" for name in scopes if not is_scope_name(name)]
