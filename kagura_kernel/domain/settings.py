"""What a user may set: the one place of each setting's name, default, unit, bounds and meaning.

Settings come from the user's own configuration file and from `KAGURA_…` variables, never from a project: a project
that was cloned from somewhere must not be able to widen what is allowed in it. Below them lie the shared settings, by
which the administrator of a machine says what holds for everybody, and what nobody else may change. What other modules
fall back to is `DEFAULTS`. `docs/settings.md` is made from this file by `dev/settings_page.py`. The file is read and
checked as a whole, so that every wrong field is told at once. What is not right as it stands goes through pydantic,
which tells it; it is imported then.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.former_names import FORMER, MODES
from kagura_kernel.domain.late_dataclass import dataclass, field, fields
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.value_faults import value_fault

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails


class PermissionMode(StrEnum):
    """How much the person in charge has handed over."""

    DEFAULT = "default"
    FULL_CONTROL = "full_control"


class SandboxPolicyType(StrEnum):
    """The data boundary of a run, from the tightest to none."""

    READ_ONLY = "read_only"
    WORKSPACE_WRITE = "workspace_write"
    EXTERNAL = "external_sandbox"
    DANGER_FULL = "danger_full_access"


class WriteMode(StrEnum):
    """How a run's changes reach the project."""

    ASK = "ask"
    THROUGH = "through"
    NONE = "none"


WRITES = (WriteMode.NONE, WriteMode.ASK, WriteMode.THROUGH)
"""From the least to the most."""


def _setting(default: Any, meaning: str, *, unit: str = "", shown: str = "", label: str = "", **bounds: float) -> Any:
    """One setting.

    Args:
        default: Its value where nobody sets it; called where it is a type.
        meaning: For people, as Markdown; links lead from `docs/`.
        unit: Of a number.
        shown: Its default for people, where that says more than the value.
        label: What a form calls it, where its name in words does not say enough.
        bounds: `gt`, `ge`, `le`, as pydantic has them.
    """
    about = {"meaning": meaning, "unit": unit, "shown": shown, "label": label, "bounds": bounds}
    if isinstance(default, type):
        return field(default_factory=default, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """One service with an OpenAI-compatible API: `[endpoints.NAME]`."""

    url: str = _setting("", "its base URL, with the `/v1` that most have; empty for a service known by its name")
    model: str = _setting("", "the model of a cell that names none")
    context_tokens: int | None = _setting(
        None, "how much its models take, where the price list does not know it", unit="tokens", ge=1024
    )
    input_usd: float | None = _setting(
        None,
        "what a million tokens read cost, where the price list does not know it; 0 where nobody is paid",
        unit="USD",
        ge=0,
    )
    output_usd: float | None = _setting(None, "likewise, of those written", unit="USD", ge=0)
    images: bool = _setting(False, "whether its models take images")
    key_env: str = _setting("", "the variable that holds its key")
    key_file: str = _setting("", "the file that holds it, which nobody else may read")
    key_keyring: str = _setting("", "the keychain's entry that holds it, `service/username`")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one user on one machine; values that did not come from `parse_settings` are not checked."""

    brain: str = _setting("auto", "the [brain](brains.md) that thinks, or `auto` for the first that is configured")
    model: str = _setting("", "its model; empty is the brain's own choice")
    claude_key_keyring: str = _setting(
        "",
        "the keychain's entry that holds the key of the brain `claude`, `service/username`; one in a variable comes "
        "before it",
        label="keychain entry of the key for Claude",
    )
    endpoint: str = _setting(
        "",
        "where the brain `pydantic_ai` thinks: a service's name, a name in `endpoints`, or a base URL",
        label="service of the brain pydantic_ai",
    )
    endpoints: dict[str, EndpointSettings] = _setting(
        dict, "services with an OpenAI-compatible API by name; see [below](#endpoints)", label="services with models"
    )
    brain_program: Literal["", "claude", "codex", "ollama"] = _setting(
        "", "the program that the brain `kagura_brain` starts", label="program of the brain kagura_brain"
    )
    agent: str = _setting(
        "", "the [agent](agents.md) of a cell that names none, a reference; empty is `default`", label="usual agent"
    )
    box: str = _setting("auto", "the back-end of boxes, or `auto`", label="kind of box")
    boxes: tuple[str, ...] = _setting(
        (),
        "the back-ends that `auto` tries, the first one first, and no others; empty for the "
        "[usual ones](boxes.md#the-back-ends)",
        label="order in which kinds of box are tried",
    )
    ssh_host: str = _setting(
        "",
        "the machine that `--box ssh` makes [boxes](boxes.md#boxes-on-another-machine) on, as `ssh` takes it",
        label="machine for boxes",
    )
    ssh_python: str = _setting(
        "python3", "the Python on that machine, 3.10 or newer", label="Python on the machine for boxes"
    )
    ssh_config: str = _setting(
        "",
        "a configuration file for `ssh`; empty is your own",
        label="configuration file of ssh",
    )
    kubernetes_namespace: str = _setting(
        "",
        "the namespace that `--box kubernetes` makes [boxes](boxes.md#boxes-in-a-cluster) in; empty is that of your "
        "`kubectl`, or of the pod that this runs in",
        label="namespace for boxes",
    )
    kubernetes_context: str = _setting(
        "", "the context of `kubectl` for them; empty is its current one", label="context of the cluster for boxes"
    )
    kubernetes_runtime_class: str = _setting(
        "",
        "the cluster’s `runtimeClassName` for them; one of gVisor or Kata makes their walls as strong",
        label="runtime class of boxes",
    )
    kubernetes_warm_pool: str = _setting(
        "",
        "a warm pool of the cluster’s (`SandboxWarmPool`) that they are claimed from; empty makes a pod for each",
        label="warm pool of the cluster",
    )
    keep: bool = _setting(
        False,
        "leave the [box](boxes.md#a-box-that-stays) of a session in place between its cells, as `--keep` does",
        label="keep the box between cells",
    )
    keep_minutes: float = _setting(
        15.0,
        "how long such a box waits for the next cell, until it is ended",
        unit="minutes",
        gt=0,
        le=1440,
        label="how long a kept box waits",
    )
    image: str = _setting(
        "", "the image, for back-ends that have images; empty is their default", label="image of a box"
    )
    write: WriteMode = _setting(WriteMode.ASK, "how changes reach the project", label="how changes reach the project")
    budget_usd: float | None = _setting(None, "limit of each run", unit="USD", gt=0, label="budget of a run")
    command_timeout: float = _setting(
        90.0,
        "how long one command may take, without what a question to a person takes; 0 lifts the limit",
        unit="seconds",
        ge=0,
        label="time limit of a command",
    )
    prepare: bool = _setting(
        True,
        "import what the first cell needs while nobody runs one, once the extension is loaded, and start what starts "
        "boxes",
        label="prepare the first cell",
    )
    idle_timeout: float = _setting(
        45.0,
        "how long one command may print nothing; 0 lifts the limit",
        unit="seconds",
        ge=0,
        label="limit of silence of a command",
    )
    approval_deadline: float = _setting(
        300.0, "until no answer to a question is a denial", unit="seconds", gt=0, le=86400
    )
    permission_mode: PermissionMode = _setting(
        PermissionMode.DEFAULT,
        "`full_control` lets commands run on the host without asking, except those of `read_only` runs and of a chat's",
    )
    policy: SandboxPolicyType = _setting(
        SandboxPolicyType.WORKSPACE_WRITE,
        "what a run may do: `read_only` and `workspace_write` have a box; `external_sandbox` and `danger_full_access` "
        "have none, and can be chosen nowhere but here; see [boxes](boxes.md#policies)",
        label="what a run may do",
    )
    fallback_to_host: bool = _setting(
        False,
        "where no box can be had, let an agent run each of its commands on the host, after asking for each; without it "
        "such a run is refused",
        label="fall back to this machine",
    )
    safe_commands: tuple[str, ...] = _setting(
        (),
        "programs that only look, whatever their arguments, beside those on the safe list: what `strict_routing` "
        "leaves in the box, and `preapproved_host_commands` may name",
    )
    strict_routing: bool = _setting(
        False,
        "let a box run what is on the safe list alone; any other command of an agent leaves it for this machine, after "
        "asking for each",
    )
    preapproved_host_commands: tuple[str, ...] = _setting(
        (),
        "programs that may look at the project on the host without asking, as long as they are on the "
        "safe list and free of shell characters: `kagura-kernel route --escalated --preapproved NAME -- "
        "COMMAND` explains",
    )
    pool_size: int = _setting(1, "warm boxes kept ready; 0 switches the pool off", ge=0, le=16, label="warm boxes")
    shared: bool = _setting(
        False,
        "others share this machine: weak walls are a start-up error",
        shown="`false`; `true` under JupyterHub",
        label="others share this machine",
    )
    journal_url: str = _setting(
        "",
        "a PostgreSQL URL instead of a file in the data directory, with `kagura-kernel[postgres]`",
        label="journal in a database, URL",
    )
    memory_mib: int = _setting(4096, "memory of one box", unit="MiB", ge=64, label="memory of a box")
    processes: int = _setting(512, "processes of one box", ge=16, label="processes of a box")
    workspace_mib: int = _setting(
        2048, "how much a run may add to its workspace", unit="MiB", ge=1, label="what a run may add to its workspace"
    )
    variables_mib: int = _setting(
        256,
        "how much the [variables](variables.md) of one cell may have, in each direction",
        unit="MiB",
        ge=1,
        le=4096,
        label="variables of a cell",
    )
    net: tuple[str, ...] = _setting(
        ("ask",),
        "hosts and sets of hosts that every run may reach, as the words after `--net`; `ask` makes any "
        "other host a question to a person; see [egress](egress.md)",
        label="hosts that every run may reach",
    )
    mirrors: dict[str, tuple[str, ...]] = _setting(
        dict,
        "other hosts for a named set, or a set of your own: below `[mirrors]`, `python-packages = "
        '["pypi.example.com"]`',
        label="mirrors and sets of hosts",
    )
    env: dict[str, str] = _setting(
        dict,
        "variables that every command in a box sees, such as `PIP_INDEX_URL`; never secrets",
        label="variables of commands in a box",
    )
    preapproved_grants: tuple[str, ...] = _setting(
        (),
        "[credentials](credentials.md), as `provider:scope`, whose usual budget needs no asking once a cell names them",
        label="credentials that need no asking",
    )
    lease_seconds: float = _setting(
        900.0, "how long one credential is meant to live", unit="seconds", ge=1, le=86400, label="life of a credential"
    )
    lease_budget_seconds: float = _setting(
        3600.0,
        "how long a person lets a run hold a credential in all",
        unit="seconds",
        ge=1,
        le=7 * 86400,
        label="how long a run may hold a credential",
    )
    lease_renewals: int = _setting(
        6, "how often it may be renewed on the way", ge=0, le=10_000, label="renewals of a credential"
    )
    plugin_max_risk: Risk = _setting(
        Risk.MEDIUM,
        "the highest risk at which a [plugin](plugins.md) may be enabled or approved, whatever anybody decides",
        label="highest risk of a plugin",
    )
    plugin_box: str = _setting("auto", "the back-end of the jails of plugins, or `auto`", label="box of plugins")
    plugin_reload: Literal["audit", "scan", "off"] = _setting(
        "audit",
        "what happens by itself when files of an enabled plugin [change](plugins.md#when-its-files-change): it is off, "
        "audited as it was when it was enabled, and asked about; the same with the scan alone, which costs nothing; or "
        "nothing until the next run, when it is off",
        label="when a plugin’s files change",
    )
    plugin_call_seconds: float = _setting(
        30.0,
        "how long one call of a plugin's function may take",
        unit="seconds",
        gt=0,
        le=3600,
        label="time of a plugin’s call",
    )
    plugin_calls: int = _setting(
        4, "how many calls one plugin carries out at once", ge=1, le=64, label="calls of a plugin at once"
    )
    plugin_memory_mib: int = _setting(256, "memory of one jail", unit="MiB", ge=64, label="memory of a plugin")
    kit_folder: str = _setting(
        "", "where [kits](kit.md) are staged; empty is a folder of the data directory", label="folder of kits"
    )
    skills_home: str = _setting(
        "",
        "the folder whose skills and prompt files count as a person's own, in place of the home directory",
        label="folder of your own skills",
    )
    tool_registry: str = _setting(
        "",
        "a file that says from where commands are [installed](toolset-installs.md), beside what is known",
        label="file of installable commands",
    )
    tool_hosts_strict: bool = _setting(
        False,
        "refuse a run when the hosts that its toolsets are installed from cannot all be found out, "
        "instead of opening every host that installs",
        label="refuse where hosts of installs are unknown",
    )
    memory: str = _setting(
        "",
        "where [memories](memory.md) are kept: empty for a file in the data directory; a path; a "
        "`postgresql://` URL; `cloud` or an `https://` address of Kagura Memory Cloud",
        label="where memories are kept",
    )
    memory_meaning: bool = _setting(
        True,
        "whether memories are found by meaning too, where the optional model is installed",
        label="find memories by meaning",
    )
    recall: int = _setting(
        5,
        "how many memories a run starts with at most, beside pinned ones; 0 for none",
        ge=0,
        le=50,
        label="memories that a run begins with",
    )
    context: Literal["none", "names", "cells", "all"] = _setting(
        "cells",
        "what a run is shown of the [notebook](notebook.md) that asks for it: nothing, the names of its variables and "
        "the last error, the cells above besides, or those below too",
        label="what a run sees of the notebook",
    )
    context_tokens: int = _setting(
        4000, "how much that may be", unit="tokens", ge=200, le=100_000, label="how much of the notebook"
    )
    plan_above_usd: float | None = _setting(
        None,
        "show the [plan](planning.md) of every run that is expected to cost more, and ask",
        unit="USD",
        gt=0,
        label="show the plan of runs that cost more than",
    )
    plan_above_seconds: float | None = _setting(
        None,
        "likewise, of those that are expected to take longer",
        unit="seconds",
        gt=0,
        label="show the plan of runs longer than",
    )
    workers: str = _setting(
        "",
        "where parts of work are [handed to](delegation.md): empty for this process; a `tcp://` address "
        "of a Dask scheduler",
        label="where work is handed to",
    )
    delegate_depth: int = _setting(
        2, "how deep runs may hand work on; 0 for not at all", ge=0, le=8, label="how deep work is handed on"
    )
    delegate_children: int = _setting(
        16, "how many children one run may have in all", ge=1, le=1000, label="children of a run"
    )
    delegate_at_once: int = _setting(4, "how many of them at once", ge=1, le=64, label="children at once")
    trust_successes: int = _setting(
        5,
        "verified successes before a power is [proposed](graduation.md)",
        ge=1,
        le=1000,
        label="successes before a power is proposed",
    )
    trust_tasks: int = _setting(
        3, "from how many different tasks they come", ge=1, le=1000, label="different tasks of these"
    )
    trust_days: float = _setting(
        7.0,
        "over how long they are spread, and how long it takes after a failure",
        unit="days",
        ge=1,
        le=3650,
        label="time over which they are spread",
    )
    telemetry: bool = _setting(
        False,
        "whether [traces and metrics](observability.md) of runs go to the OpenTelemetry collector of the "
        "`OTEL_…` variables",
    )
    telemetry_content: bool = _setting(
        False, "whether they tell tasks, answers and tool calls too, without secrets", label="content in telemetry"
    )
    own_tools: tuple[str, ...] = _setting(
        (),
        "tools of [installed packages](extending.md) that agents are offered, by the names of their entry points",
        label="tools of installed packages",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "warning", "from which level on the log takes a line"
    )
    log_place: str = _setting(
        "", "where the log is: empty for standard error, `off` for nowhere, or a file", label="where the log is"
    )
    transports: dict[str, dict[str, Any]] = _setting(
        dict,
        "[chats](transports.md) that `serve` opens, by name, and what each is told: who may speak, where "
        "its tokens are kept",
        label="chats",
    )
    classify_chats: bool = _setting(
        True,
        "whether a brain is asked what a chat's text means where [prose alone](transports.md#what-only-prose-decides) "
        "can say it; without that the likeliest is taken",
        label="ask a brain what a message means",
    )
    classify_model: str = _setting(
        "", "the model that is asked so; empty is that of the chat's brain", label="model that is asked so"
    )
    quota_boxes: int = _setting(
        0,
        "how many boxes one person has at once, in all processes together; 0 for any number; see "
        "[quotas](hub.md#quotas)",
        ge=0,
        label="boxes of a person at once",
    )
    quota_cpus: float = _setting(0.0, "how many cores they have together; 0 for any", ge=0, label="their cores")
    quota_memory_mib: int = _setting(
        0, "how much memory they have together; 0 for any", unit="MiB", ge=0, label="their memory"
    )
    quota_usd_per_day: float = _setting(
        0.0,
        "what the runs of one person may cost in a day of UTC, in all processes together; 0 for no limit",
        unit="USD",
        ge=0,
        label="budget of a person for a day",
    )
    locked: tuple[str, ...] = _setting(
        (),
        "settings that nobody may change whom the [shared settings](#shared-settings) are for, `net` with `mirrors` "
        "and `endpoint` with `endpoints`; counts there alone",
        label="settings that only the shared settings say",
    )


_UNITS = frozenset({"usd", "seconds", "minutes", "mib", "tokens", "days"})
_SPELT = {"url": "URL"}


def label_of(name: str) -> str:
    """What a form calls a setting: `Approval deadline (seconds)`."""
    about = Settings.__dataclass_fields__[name].metadata
    words = name.split("_")
    if about["unit"] and words[-1] in _UNITS:
        words = words[:-1]
    told = about["label"] or " ".join(_SPELT.get(word, word) for word in words)
    return f"{told[0].upper()}{told[1:]}" + (f" ({about['unit']})" if about["unit"] else "")


DEFAULTS = Settings()
"""What holds where nobody has set anything."""

Problem = tuple[str, str]
"""A field, `env.TZ` for one of a table, and what is wrong with it, one sentence without its end."""

PREFIX = "KAGURA_"

_TYPES = get_type_hints(Settings)
# What a variable cannot hold stands in the file alone.
TABLES = frozenset(name for name, kind in _TYPES.items() if get_origin(kind) is dict)
# Of these the ones whose values are texts, or lists of them.
FLAT_TABLES = frozenset(name for name in TABLES if get_args(_TYPES[name])[1] in (str, tuple[str, ...]))
_LISTS = frozenset(name for name, kind in _TYPES.items() if get_origin(kind) is tuple)
_LIFTED = frozenset(name for name, kind in _TYPES.items() if type(None) in get_args(kind))

_VARIABLES = {one.name: PREFIX + one.name.upper() for one in fields(Settings)}
# Variables of ours that are no settings.
_NOT_SETTINGS = frozenset({"KAGURA_HOME", "KAGURA_CONFIG", "KAGURA_API_KEY", "KAGURA_CONTEXT_ID"})
_NEARLY = 0.88
"""How like a setting's variable another one is that was probably meant as it."""

_WITH = {"net": ("mirrors",), "endpoint": ("endpoints",)}
"""What nobody may change either where a setting is locked, because it says what the words of that one mean."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """What the administrator of a machine says for everybody on it."""

    source: str = ""  # Its file; empty where there is none
    values: Mapping[str, Any] = field(default_factory=dict)  # What stands there, checked
    settings: Settings = DEFAULTS  # The same

    @property
    def locked(self) -> tuple[str, ...]:
        """Names of settings that nobody else may change."""
        locked = self.settings.locked
        return (*locked, *(name for one in locked for name in _WITH.get(one, ()) if name not in locked))

    def why(self) -> str:
        """Why one of these cannot be changed, for people."""
        return f"The administrator of this machine says so for everybody, in {self.source}."


NOTHING_SHARED = SharedSettings()

Check = Callable[[Settings], "Sequence[Problem]"]
"""Finds what cannot be seen in the settings alone; asked about the fields that are right as far as can be seen."""


def parse_shared(toml: str, source: str, check: Check = lambda _: ()) -> SharedSettings:
    """Shared settings from a TOML text.

    Raises:
        ConfigurationError: with every problem.
    """
    values = _read(toml, source)
    settings, problems = validated(values)
    problems += check(settings)
    unknown = [name for name in settings.locked if name not in _TYPES or name == "locked"]
    problems += [("locked", f"there is no setting {name[:40]!r} that could be locked") for name in unknown]
    if problems:
        raise ConfigurationError(source, tuple(dict.fromkeys(f"{name or 'it'}: {why}" for name, why in problems)))
    return SharedSettings(source, values, settings)


def parse_settings(
    toml: str,
    environ: Mapping[str, str],
    source: str = "the configuration",
    check: Check = lambda _: (),
    shared: SharedSettings = NOTHING_SHARED,
) -> Settings:
    """Settings from a TOML text, overridden by `KAGURA_…` variables, over those that are shared.

    Args:
        toml: The text; may be empty.
        environ: Variables.
        source: Where the text comes from, for errors.
        check: Finds what cannot be seen here.
        shared: What holds where neither says anything, and what they cannot change.

    Raises:
        ConfigurationError: with every problem; values are never repeated, since one might be a secret.
    """
    values, given, problems = given_settings(_read(toml, source), environ, shared)
    settings, wrong = validated(values)
    problems += [*wrong, *check(settings)]
    if not problems:
        return settings
    # What a variable says is wrong in the variable, whatever the file says.
    set_by = {name: variable for name, variable in given.items() if name not in TABLES}
    told = [(set_by.get(field.partition(".")[0], field or "it"), why) for field, why in problems]
    from_file = any(place not in given.values() for place, _ in told)
    lines = dict.fromkeys(f"{place}: {why}" for place, why in told)
    raise ConfigurationError(source if from_file else "the environment", tuple(lines))


def _read(toml: str, source: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(toml)
    except (ValueError, RecursionError) as error:
        # Besides its own the parser raises what a number of thousands of digits, or a value too deep in itself, makes.
        advice = "; a text stands in quotes" if str(error).startswith("Invalid value") else ""
        raise ConfigurationError(source, [f"it is not TOML: {error}{advice}"]) from error


def given_settings(
    values: Mapping[str, Any], environ: Mapping[str, str], shared: SharedSettings = NOTHING_SHARED
) -> tuple[dict[str, Any], dict[str, str], list[Problem]]:
    """What a file's values become with the variables and over what is shared.

    Beside them: the variable of each setting that one gives, and what is wrong.
    """
    values = dict(values)
    given = {name: variable for name, variable in _VARIABLES.items() if variable in environ}
    problems: list[Problem] = []
    if (
        "brain" in given
        and "model" not in given
        and values.get("brain", environ["KAGURA_BRAIN"]) != environ["KAGURA_BRAIN"]
    ):
        # The file's model was set for the file's brain.
        values.pop("model", None)
    for name, variable in given.items():
        if name in TABLES:
            problems.append((variable, f"no variable can hold this table: write [{name}] into the file"))
        elif variable not in _NOT_SETTINGS:
            values[name] = _from_variable(environ[variable], name)
    if "locked" in values:
        problems.append(("locked", "it counts in the shared settings alone: take it out here"))
        del values["locked"]
    problems += [
        (name, f"it cannot be changed here, so take it out. {shared.why().removesuffix('.')}")
        for name in shared.locked
        if name in values and _differs(name, values[name], shared)
    ]
    return _over(shared, values), given, problems


def mistyped_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence for each variable that is nearly the one of a setting, and is that of none."""
    others = {name for name in environ if name.startswith(PREFIX) and not name.startswith(FORMER)}
    unknown = sorted(others.difference(_VARIABLES.values(), _NOT_SETTINGS))
    near = [(name, get_close_matches(name, _VARIABLES.values(), 1, _NEARLY)) for name in unknown]
    return tuple(f"{name} counts for nothing: there is {meant[0]}." for name, meant in near if meant)


def _differs(name: str, value: Any, shared: SharedSettings) -> bool:
    said, wrong = validated({name: value})
    return bool(wrong) or getattr(said, name) != getattr(shared.settings, name)


def _over(shared: SharedSettings, values: Mapping[str, Any]) -> dict[str, Any]:
    """A person's values over those that are shared: tables row by row, and nothing over what is locked."""
    own = {name: value for name, value in values.items() if name not in shared.locked}
    below = dict(shared.values)
    if (
        "model" not in own
        and "model" not in shared.locked
        and own.get("brain", below.get("brain")) != below.get("brain")
    ):
        # The shared model was set for the shared brain.
        below.pop("model", None)
    for name in TABLES & own.keys() & below.keys():
        if isinstance(own[name], dict):
            own[name] = {**below[name], **own[name]}
    return {**below, **own}


def validated(values: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """The settings without what is wrong in them, and what that is; no value is repeated."""
    if (plain := _plain(values)) is not None:
        return plain, []
    from pydantic import ValidationError

    try:
        return _checked(values), []
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
    wrong = {str(problem["loc"][0]) for problem in found if problem["loc"]}
    problems = [(".".join(map(str, problem["loc"])), _why(problem, values)) for problem in found]
    return _checked({name: value for name, value in values.items() if name not in wrong}), problems


def _plain(values: Mapping[str, Any]) -> Settings | None:
    """The settings, where each value is right as it stands; None where pydantic has to look."""
    if not all(name in _TYPES and _is_right(name, value) for name, value in values.items()):
        return None
    taken: dict[str, Any] = {name: tuple(value) if name in _LISTS else value for name, value in values.items()}
    return Settings(**taken)


def _is_right(name: str, value: Any) -> bool:
    kind = _TYPES[name]
    if name in _LISTS:
        texts = type(value) in (list, tuple) and all(map(_is_plain_text, value))
        return texts and (name != "safe_commands" or all(map(_PROGRAM.fullmatch, value)))
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is str:
        return _is_plain_text(value) and (name != "journal_url" or _is_fixed(value))
    bounds = Settings.__dataclass_fields__[name].metadata["bounds"]
    # An exact type: `True` is an `int` to Python.
    return type(value) is kind and all(getattr(operator, word)(value, bound) for word, bound in bounds.items())


def _is_fixed(where: str) -> bool:
    """Whether a journal is the same one in each working directory: a URL that has lost its beginning would not be."""
    return not where or "://" in where or where.startswith(("/", "~"))


_PROGRAM = re.compile(r"[\w.+@,:\-]+")
"""The name of a program: no command bears one with a blank, a slash or a sign for the shell in it."""


def _is_plain_text(value: Any) -> bool:
    # Other text may hold what no Unicode is: a variable's odd bytes.
    return type(value) is str and value.isascii()


def _why(problem: ErrorDetails, values: Mapping[str, Any]) -> str:
    kind, place = problem["type"], problem["loc"]
    if kind == "extra_forbidden":
        known = _TYPES if len(place) == 1 else EndpointSettings.__dataclass_fields__
        near = get_close_matches(str(place[-1]), list(known), n=1)
        return f"{value_fault(problem)}{f', did you mean {near[0]!r}?' if near else ''}"
    message = value_fault(problem)
    instead = MODES.get(str(values["permission_mode"])) if place == ("permission_mode",) else None
    return f"{message}: {instead}" if instead else message


def _checked(values: Mapping[str, Any]) -> Settings:
    found = dict(settings_model().model_validate(values))
    endpoints = {name: EndpointSettings(**dict(one)) for name, one in found["endpoints"].items()}
    return Settings(**{**found, "endpoints": endpoints})


@cache
def settings_model() -> type[BaseModel]:
    """What checks settings, made of the declarations above."""
    from pydantic import ConfigDict, Field, create_model, field_validator, model_validator

    def made(of: type[Any], validators: dict[str, Any], **replaced: Any) -> Any:
        kinds = get_type_hints(of) | replaced
        slots: dict[str, Any] = {
            one.name: (kinds[one.name], Field(**_default(one), **one.metadata["bounds"])) for one in fields(of)
        }
        return create_model(of.__name__, __config__=ConfigDict(extra="forbid"), __validators__=validators, **slots)

    endpoint = made(
        EndpointSettings,
        {
            "no_key_itself": model_validator(mode="before")(_no_key_itself),
            "both_prices": model_validator(mode="after")(_both_prices),
        },
    )
    own = {
        "a_fixed_journal": field_validator("journal_url")(_fixed),
        "programs_alone": field_validator("safe_commands")(_programs),
    }
    model: type[BaseModel] = made(Settings, own, endpoints=dict.__class_getitem__((str, endpoint)))
    return model


def _default(one: Any) -> dict[str, Any]:
    made = isinstance(one.default_factory, type)
    return {"default_factory": one.default_factory} if made else {"default": one.default}


def _fixed(where: str) -> str:
    if not _is_fixed(where):
        raise ValueError("it is to be postgresql://user@host/database, or a directory that begins with / or ~")
    return where


def _programs(names: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [number for number, name in enumerate(names, 1) if not _PROGRAM.fullmatch(name)]
    if wrong:
        raise ValueError(f"each is the name of a program alone, without a path or arguments: number {wrong[0]} is not")
    return names


def _no_key_itself(given: Any) -> Any:
    if isinstance(given, dict) and {"key", "api_key"} & given.keys():
        raise ValueError("a key is never written here; say where it is kept: key_env, key_file or key_keyring")
    return given


def _both_prices(endpoint: Any) -> Any:
    if (endpoint.input_usd is None) != (endpoint.output_usd is None):
        raise ValueError("input_usd and output_usd are given together")
    return endpoint


def _from_variable(text: str, name: str) -> Any:
    if name in _LISTS:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return None if name in _LIFTED and not text else text
