"""How one provider's credentials are used in a box: the `inject` settings of `credentials.toml`. Pure.

::

    [providers.npm.inject]
    way = "header"
    upstream = "https://packages.example.com"
    variables = { NPM_CONFIG_REGISTRY = "{url}/" }

In templates `{token}` stands for the secret, or for the part of it with that name (`{AWS_ACCESS_KEY_ID}`); `{url}` is
the loopback base URL without a slash at its end, `{path}` the file. Everything else is taken as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from kagura_kernel.domain.value_faults import value_fault
from kagura_kernel.membrane.credentials.provider_http import Strict, check_url

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PLACEHOLDER = "added-by-the-membrane"
"""What stands where a program insists on a key that it does not need."""

SLOT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A place in a template where something is filled in."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade"})


def _variable_names(variables: dict[str, str]) -> dict[str, str]:
    if not all(map(_VARIABLE.fullmatch, variables)):
        raise ValueError("a variable's name is made of letters, digits and _")
    if any("\0" in value for value in variables.values()):
        raise ValueError("a variable holds no zero byte")
    return variables


Variables = Annotated[dict[str, str], AfterValidator(_variable_names)]


class HeaderInjection(Strict):
    """The secret never enters the box: the membrane adds a header to what is sent to one upstream."""

    way: Literal["header"] = "header"
    upstream: str  # Base URL that the box's loopback URL stands for
    header: str = "authorization"  # The header's name,
    template: str = ""  # and its value
    # With it, HTTP Basic: this name, and the secret as the password; `template` is the password then
    basic_user: str = ""
    variables: Variables = Field(default_factory=dict)  # By which programs find it; `{url}` is the base URL in the box
    git: tuple[str, ...] = ()  # Beginnings of remotes that git looks for there instead
    addresses: tuple[str, ...] = ()  # Addresses outside the public network that the upstream may have

    @field_validator("upstream")
    @classmethod
    def _base_url(cls, url: str) -> str:
        check_url(url)
        if "?" in url or "#" in url or not url.isascii() or any(sign <= " " for sign in url):
            raise ValueError("it must be a plain base URL without a query")
        return url.rstrip("/")

    @field_validator("header")
    @classmethod
    def _name(cls, name: str) -> str:
        if not _HEADER.fullmatch(name) or name.lower() in _FRAMING or name.lower().startswith("proxy-"):
            raise ValueError("it is no header that can carry a credential")
        return name.lower()

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            try:
                ip_address(address)
            except ValueError:
                raise ValueError("each must be an address") from None
        return addresses

    @model_validator(mode="after")
    def _holds_the_secret(self) -> HeaderInjection:
        if self.template and not SLOT.search(self.template):
            raise ValueError("template: it must hold {token}")
        if ":" in self.basic_user:
            raise ValueError("basic_user: it must not hold a colon")
        return self

    @property
    def value(self) -> str:
        """The template of the header, or of the password."""
        if self.template:
            return self.template
        return "Bearer {token}" if self.header == "authorization" and not self.basic_user else "{token}"


class FileInjection(Strict):
    """The secret is a file in the box's memory, for programs that want the value."""

    way: Literal["file"]
    # `raw`, `aws` (a credentials file), `gcp` (JSON with the access token and its end), `netrc`, or `template`
    format: Literal["raw", "aws", "gcp", "netrc", "template"] = "raw"
    # The file's name; empty is made of provider and scope
    name: str = Field(default="", pattern=rf"^({_FILE.pattern})?$")
    template: str = ""  # For `template`: the text of the file
    host: str = Field(default="", pattern=r"^[A-Za-z0-9.-]*$")  # For `netrc`: for which host,
    login: str = Field(default="", pattern=r"^[^\s\"']*$")  # and as whom
    variables: Variables = Field(default_factory=dict)  # By which programs find it; `{path}` is the file in the box

    @model_validator(mode="after")
    def _complete(self) -> FileInjection:
        if (self.format == "template") != bool(self.template):
            raise ValueError("format: a template is needed for the format template, and only for it")
        if (self.format == "netrc") != bool(self.host and self.login):
            raise ValueError("format: host and login are needed for netrc, and only for it")
        return self


class EnvInjection(Strict):
    """The secret is in the variables of one process, of a command that asks for it."""

    way: Literal["env"]
    variables: Variables = Field(min_length=1)  # Name to template


Injection = HeaderInjection | FileInjection | EnvInjection


def slots(injection: Injection) -> set[str]:
    """Names of the parts of a credential that an injection needs."""
    match injection:
        case HeaderInjection():
            return _slots([injection.value])
        case FileInjection(format="aws"):
            return {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
        case FileInjection(format="template"):
            return _slots([injection.template])
        case FileInjection():
            return {"token"}
        case EnvInjection():
            return _slots(injection.variables.values())


def own_slots(injection: Injection) -> set[str]:
    """What is filled into the variables that anybody may see."""
    if isinstance(injection, EnvInjection):
        return set()
    allowed = "url" if isinstance(injection, HeaderInjection) else "path"
    return _slots(injection.variables.values()) - {allowed}


def fill(template: str, values: dict[str, str]) -> str:
    """The template with its places filled, once; what is filled in is not looked at again.

    Raises:
        KeyError: there is no value for a place.
    """
    return SLOT.sub(lambda found: values[found.group(1)], template)


def _slots(templates: Iterable[str]) -> set[str]:
    return {name for template in templates for name in SLOT.findall(template)}


Preset = Callable[[str], tuple[Injection, ...]]
"""From a base URL, empty for the service's own."""

_GITHUB = "https://api.github.com"


def _service(usual: str, variables: dict[str, str], header: str = "authorization") -> Preset:
    """A service with one API, whose programs are told its URL and given a placeholder for the key."""
    return lambda url: (HeaderInjection(upstream=url or usual, header=header, variables=variables),)


def _github(url: str) -> tuple[Injection, ...]:
    """GitHub's API, and its repositories over HTTPS for git; a server of one's own has both on one host."""
    api = url or _GITHUB
    parts = urlsplit(api)
    web = "https://github.com" if api == _GITHUB else f"{parts.scheme}://{parts.netloc}"
    host = urlsplit(web).netloc
    variables = {"GITHUB_API_URL": "{url}", "GITHUB_GRAPHQL_URL": "{url}/graphql", "GITHUB_TOKEN": PLACEHOLDER}
    remotes = (f"{web}/", f"git@{host}:", f"ssh://git@{host}/")
    return (
        HeaderInjection(upstream=api, variables=variables),
        HeaderInjection(upstream=web, basic_user="x-access-token", git=remotes),
    )


def aws_keys(region: str) -> tuple[Injection, ...]:
    """AWS signs each request with the key itself, so a program has to have it."""
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    regions = {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    return (EnvInjection(way="env", variables={key: f"{{{key}}}" for key in keys} | regions),)


def gcp_token() -> tuple[Injection, ...]:
    """Google Cloud has a host for each of its services, so its programs have the token."""
    names = ("CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN")
    return (EnvInjection(way="env", variables=dict.fromkeys(names, "{token}")),)


PRESETS: Mapping[str, Preset] = {
    "anthropic": _service(
        "https://api.anthropic.com", {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": PLACEHOLDER}, "x-api-key"
    ),
    # Or one that is like it.
    "openai": _service("https://api.openai.com/v1", {"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": PLACEHOLDER}),
    "github": _github,
    # Its own tools and its client libraries read different variables.
    "cloudflare": _service(
        "https://api.cloudflare.com/client/v4",
        {
            "CLOUDFLARE_API_BASE_URL": "{url}",
            "CLOUDFLARE_BASE_URL": "{url}",
            "CLOUDFLARE_API_TOKEN": PLACEHOLDER,
        },
    ),
    "memory_cloud": _service(
        "https://memory.kagura-ai.com", {"KAGURA_MCP_URL": "{url}/mcp", "KAGURA_API_KEY": PLACEHOLDER}
    ),
}
"""What `inject.preset` takes."""


WAYS = ("header", "file", "env")
_INJECTION: TypeAdapter[Injection] = TypeAdapter(Annotated[Injection, Field(discriminator="way")])


def read_injections(value: Any, where: str, parts: tuple[str, ...]) -> tuple[tuple[Injection, ...] | None, list[str]]:
    """What `inject` says, and what is wrong with it; None when it is not there.

    `where` is where it stands, for messages; `parts` is what the provider's credentials are made of.
    """
    if value is None:
        return None, []
    several = isinstance(value, list)
    tables = value if several else [value]
    found: list[Injection] = []
    problems: list[str] = []
    for number, table in enumerate(tables):
        at = f"{where}.{number}" if several else where
        ways, wrong = _one(table, at)
        problems += wrong
        for way in ways:
            problems += _wrong_slots(way, at, parts)
        found += ways
    return tuple(found), problems


def told(error: ValidationError, where: str) -> list[str]:
    """The problems that pydantic found, each a line: names of settings, never a value."""
    details = error.errors(include_input=False, include_url=False)
    return [_problem(where, detail["loc"], detail) for detail in details]


def _one(table: Any, where: str) -> tuple[tuple[Injection, ...], list[str]]:
    if not isinstance(table, dict):
        return (), [f"{where}: it must be a table"]
    if "preset" in table:
        return _preset(table, where)
    way = table.get("way", "header")
    if way not in WAYS:
        return (), [f"{where}.way: it must be one of {', '.join(WAYS)}"]
    try:
        return (_INJECTION.validate_python({"way": way} | table),), []
    except ValidationError as error:
        # Not chained: a chained validation error could print what was given. The first part of each place is the way.
        details = error.errors(include_input=False, include_url=False)
        return (), [_problem(where, detail["loc"][1:], detail) for detail in details]


def _preset(table: Mapping[str, Any], where: str) -> tuple[tuple[Injection, ...], list[str]]:
    problems = [f"{where}.{name}: there is no such setting beside a preset" for name in table if name not in _BESIDE]
    preset = PRESETS.get(table["preset"]) if isinstance(table["preset"], str) else None
    if preset is None:
        problems.append(f"{where}.preset: it must be one of {', '.join(PRESETS)}")
    upstream = table.get("upstream", "")
    if not isinstance(upstream, str):
        problems.append(f"{where}.upstream: it must be a text")
    if problems or preset is None:
        return (), problems
    try:
        return preset(upstream), []
    except ValidationError as error:
        return (), told(error, where)


_BESIDE = frozenset({"preset", "upstream"})


def _wrong_slots(way: Injection, where: str, parts: tuple[str, ...]) -> list[str]:
    unknown = sorted((slots(way) - set(parts)) | own_slots(way))
    if not unknown:
        return []
    return [f"{where}: a template names something that there is not; the credential has {', '.join(parts)}"]


def _problem(where: str, place: tuple[int | str, ...], detail: ErrorDetails) -> str:
    return f"{'.'.join([where, *map(str, place)])}: {value_fault(detail)}"
