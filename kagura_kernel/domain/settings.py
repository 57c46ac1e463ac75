"""What a user may set, checked as a whole: every wrong field is told at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.policy import PermissionMode, WriteMode


class EndpointSettings(BaseModel):
    """One service with an OpenAI-compatible API: `[endpoints.NAME]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = ""  # Its base URL, with the `/v1` that most have; empty for a service that is known by its name
    model: str = ""  # The model for a cell that names none; empty for none
    # How much its models take; None where the price list knows, or nobody does
    context_tokens: int | None = Field(default=None, ge=1024)
    # What a million tokens read cost, where the price list does not know it; 0 where nobody is paid
    input_usd: float | None = Field(default=None, ge=0)
    output_usd: float | None = Field(default=None, ge=0)  # Likewise, of those written
    key_env: str = ""  # The variable that holds its key
    key_file: str = ""  # The file that holds it, which nobody else may read
    key_keyring: str = ""  # The keychain's entry that holds it, `service/username`

    @model_validator(mode="before")
    @classmethod
    def _no_key_itself(cls, given: Any) -> Any:
        if isinstance(given, dict) and {"key", "api_key"} & given.keys():
            raise ValueError("a key is never written here; say where it is kept: key_env, key_file or key_keyring")
        return given

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.input_usd is None) != (self.output_usd is None):
            raise ValueError("input_usd and output_usd are given together")
        return self


class Settings(BaseModel):
    """Settings of one user on one machine.

    They come from the user's own configuration file and from `KAGURA_…` variables, never from a project: a project
    that was cloned from somewhere must not be able to widen what is allowed in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    brain: str = "auto"  # `auto`, or a brain's name
    model: str = ""  # Model for the brain; empty is its own choice
    # Where the `pydantic_ai` brain thinks: a service's name, a name in `endpoints`, or a base URL; empty for nowhere
    endpoint: str = ""
    # Services with an OpenAI-compatible API by name, and what is to be known of them
    endpoints: dict[str, EndpointSettings] = Field(default_factory=dict)
    # Which program the `kagura_brain` brain starts: `claude`, `codex` or `ollama`; empty for none
    brain_program: Literal["", "claude", "codex", "ollama"] = ""
    agent: str = ""  # The agent of a cell that names none, a reference; empty is `default`
    box: str = "auto"  # `auto`, or a back-end's name
    image: str = ""  # Image for back-ends that have images; empty is their default
    write: WriteMode = WriteMode.ASK  # How changes reach the project
    budget_usd: float | None = Field(default=None, gt=0)  # Limit for each run; None is none
    command_timeout: float = Field(default=90.0, ge=0)  # Seconds one command may take; 0 lifts the limit
    idle_timeout: float = Field(default=45.0, ge=0)  # Seconds one command may be silent; 0 lifts the limit
    approval_deadline: float = Field(default=300.0, gt=0, le=86400)  # Seconds until no answer becomes a denial
    permission_mode: PermissionMode = PermissionMode.DEFAULT  # `full_control` lets host commands run without asking
    strict_routing: bool = False  # Ask for everything that is not on the safe list, in the box too
    # Host commands that need no asking when they are safe and free of shell characters
    preapproved_host_commands: tuple[str, ...] = ()
    pool_size: int = Field(default=1, ge=0, le=16)  # Warm boxes kept ready; 0 switches the pool off
    shared: bool = False  # Whether others share this machine; then weak walls are a start-up error
    journal_url: str = ""  # Database URL; empty is a file in the data directory
    memory_mib: int = Field(default=4096, ge=64)  # Memory of one box
    processes: int = Field(default=512, ge=16)  # Processes of one box
    workspace_mib: int = Field(default=2048, ge=1)  # How much a run may add to its workspace
    # How much the variables of one cell may have, in each direction
    variables_mib: int = Field(default=256, ge=1, le=4096)
    # Hosts and sets of hosts that every run may reach; `ask` makes any other host a question to a person
    net: tuple[str, ...] = ("ask",)
    # Hosts that stand for a named set of hosts, as `python-packages = ["pypi.example.org"]`
    mirrors: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    # Variables that every command in a box sees (an index to install from, a time zone); never secrets
    env: dict[str, str] = Field(default_factory=dict)
    # Credentials, each as `provider:scope`, whose usual budget needs no asking once a cell names them
    preapproved_grants: tuple[str, ...] = ()
    lease_seconds: float = Field(default=900.0, ge=1, le=86400)  # How long one credential is meant to live
    # How long a person lets a run hold a credential in all
    lease_budget_seconds: float = Field(default=3600.0, ge=1, le=7 * 86400)
    lease_renewals: int = Field(default=6, ge=0, le=10_000)  # How often it may be renewed on the way
    # The highest risk at which a plugin may be enabled or approved, whatever anybody decides
    plugin_max_risk: Risk = Risk.MEDIUM
    plugin_box: str = "auto"  # `auto`, or the back-end of the jails of plugins
    plugin_call_seconds: float = Field(default=30.0, gt=0, le=3600)  # How long one call of a plugin's function may take
    plugin_calls: int = Field(default=4, ge=1, le=64)  # How many calls one plugin carries out at once
    plugin_memory_mib: int = Field(default=256, ge=64)  # Memory of one jail
    tool_registry: str = ""  # A file that says from where commands are installed, beside what is known; empty for none
    # Refuse a run when the hosts that its toolsets are installed from cannot all be found out, instead of opening every
    # host that installs
    tool_hosts_strict: bool = False
    # Where memories are kept: empty for a file in the data directory; a path; a `postgresql://` URL; `cloud` or an
    # `https://` address of Kagura Memory Cloud
    memory: str = ""
    memory_meaning: bool = True  # Whether memories are found by meaning too, where the optional model is installed
    # How many memories a run starts with at most, beside pinned ones; 0 for none
    recall: int = Field(default=5, ge=0, le=50)
    # Show the plan of every run that is expected to cost more, and ask; None for none
    plan_above_usd: float | None = Field(default=None, gt=0)
    plan_above_seconds: float | None = Field(default=None, gt=0)  # Likewise, of those that are expected to take longer
    # Where parts of work are handed to: empty for this process; a `tcp://` address of a Dask scheduler
    workers: str = ""
    delegate_depth: int = Field(default=2, ge=0, le=8)  # How deep runs may hand work on; 0 for not at all
    delegate_children: int = Field(default=16, ge=1, le=1000)  # How many children one run may have in all
    delegate_at_once: int = Field(default=4, ge=1, le=64)  # How many of them at once
    trust_successes: int = Field(default=5, ge=1, le=1000)  # Verified successes before a power is proposed
    trust_tasks: int = Field(default=3, ge=1, le=1000)  # From how many different tasks they come
    # Over how many days they are spread, and how long it takes after a failure
    trust_days: float = Field(default=7.0, ge=1, le=3650)
    # Whether traces and metrics of runs go to the OpenTelemetry collector of the `OTEL_…` variables
    telemetry: bool = False
    telemetry_content: bool = False  # Whether they tell tasks, answers and tool calls too, without secrets
    # Tools of installed packages that agents are offered, by the names of their entry points
    own_tools: tuple[str, ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "warning"  # From which level on the log takes a line
    log_place: str = ""  # Where the log is: empty for standard error, `off` for nowhere, or a file
    # Chats that `serve` opens, by name, and what each is told: who may speak, where its tokens are kept
    transports: dict[str, dict[str, Any]] = Field(default_factory=dict)


Problem = tuple[str, str]
"""A field, `env.TZ` for one of a table, and what is wrong with it, one sentence without its end."""

PREFIX = "KAGURA_"

_LISTS = frozenset({"preapproved_host_commands", "preapproved_grants", "net", "own_tools"})

# What a variable cannot hold stands in the file alone.
_TABLES = frozenset({"endpoints", "env", "mirrors", "transports"})

# Variables of ours that are no settings.
_NOT_SETTINGS = frozenset({"KAGURA_HOME", "KAGURA_CONFIG", "KAGURA_API_KEY"})


def parse_settings(
    toml: str,
    environ: Mapping[str, str],
    source: str = "the configuration",
    check: Callable[[Settings], Sequence[Problem]] = lambda _: (),
) -> Settings:
    """Settings from a TOML text, overridden by `KAGURA_…` variables.

    Args:
        toml: The text; may be empty.
        environ: Variables.
        source: Where the text comes from, for errors.
        check: Finds what cannot be seen here; asked about the fields that are right as far as can be seen.

    Raises:
        ConfigurationError: with every problem; values are never repeated, since one might be a secret.
    """
    try:
        values: dict[str, Any] = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(source, [f"it is not TOML: {error}"]) from error
    variables = {name: PREFIX + name.upper() for name in Settings.model_fields}
    given = {name: variable for name, variable in variables.items() if variable in environ}
    problems: list[Problem] = []
    if (
        "brain" in given
        and "model" not in given
        and values.get("brain", environ["KAGURA_BRAIN"]) != environ["KAGURA_BRAIN"]
    ):
        # The file's model was set for the file's brain.
        values.pop("model", None)
    for name, variable in given.items():
        if name in _TABLES:
            problems.append((variable, f"no variable can hold this table: write [{name}] into the file"))
        elif variable not in _NOT_SETTINGS:
            values[name] = _from_variable(environ[variable], name)
    settings, wrong = _validated(values)
    problems += [*wrong, *check(settings)]
    if not problems:
        return settings
    # What a variable says is wrong in the variable, whatever the file says.
    set_by = {name: variable for name, variable in given.items() if name not in _TABLES}
    told = [(set_by.get(field.partition(".")[0], field or "it"), why) for field, why in problems]
    from_file = any(place not in given.values() for place, _ in told)
    lines = dict.fromkeys(f"{place}: {why}" for place, why in told)
    raise ConfigurationError(source if from_file else "the environment", tuple(lines))


def _validated(values: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """The settings without what is wrong in them, and what that is; no value is repeated."""
    try:
        return Settings.model_validate(values), []
    except ValidationError as error:
        found = error.errors(include_input=False, include_context=False, include_url=False)
    wrong = {str(problem["loc"][0]) for problem in found if problem["loc"]}
    problems = [(".".join(map(str, problem["loc"])), problem["msg"]) for problem in found]
    return Settings.model_validate({name: value for name, value in values.items() if name not in wrong}), problems


def _from_variable(text: str, name: str) -> Any:
    if name in _LISTS:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if name in {"budget_usd", "plan_above_usd", "plan_above_seconds"} and not text:
        return None
    return text
