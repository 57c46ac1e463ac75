"""Who an agent is: a small YAML or TOML document, read strictly, with everything that is wrong told at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from kagura_kernel.domain.errors import AgentInvalid, ConfigurationError, UsageError
from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.domain.policy import SandboxPolicyType, WriteMode
from kagura_kernel.kit.definitions.document import (
    NotReadable,
    one_line,
    place_of,
    problems_of,
    read_document,
    shown_key,
    unseen,
)
from kagura_kernel.kit.definitions.toolsets import (
    MAX_TOOLSETS,
    LspToolset,
    McpToolset,
    Toolset,
    agent_name,
    as_tuple,
    given_texts,
    lsp_conflicts,
    mcp_conflicts,
    plain_line,
)
from kagura_kernel.membrane.credentials.lease import parse_grant
from kagura_kernel.membrane.egress.hosts import ASK, HOST_SETS, HTTPS, NONE, bracketed, parse_target
from kagura_kernel.membrane.egress.policy import parse_grants

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor


_ADVICE = (
    "what stands in a definition is shown and enters the box: name a credential in place of a secret, as in "
    "`grants: {credentials: [github:read]}`, and the run leases it for its box"
)


def secret_problems(found: Mapping[str, Any], redactor: Redactor) -> list[str]:
    """The secrets that a definition hands to toolsets, each by its place alone, and what to do; empty without any.

    Args:
        found: A definition, as it was read; what is of another kind than it should be is passed over.
        redactor: Is waited for where there is anything to look through, and otherwise not asked.

    Raises:
        RedactionUnavailable: secrets cannot be looked for.
    """
    problems = [f"{place}: it holds a secret ({kinds})" for place, kinds in _found(found, redactor, "")]
    return [*problems, _ADVICE] if problems else []


def _found(found: Mapping[str, Any], redactor: Redactor, where: str) -> Iterator[tuple[str, str]]:
    toolsets, agents = found.get("toolsets"), found.get("agents")
    for at, toolset in enumerate(toolsets if isinstance(toolsets, list) else ()):
        for place, said in _handed(toolset) if isinstance(toolset, Mapping) else ():
            if kinds := redactor.redact(said).kinds:
                yield f"{where}toolsets[{at}].{place}", ", ".join(kinds)
    for key, sub in agents.items() if isinstance(agents, Mapping) else ():
        if isinstance(sub, Mapping):
            yield from _found(sub, redactor, f"{where}agents.{shown_key(str(key))}.")


def _handed(toolset: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each text that a toolset is called, started or asked with: its place, and itself as it is written there."""
    arguments = []
    if isinstance(toolset.get("name"), str):
        yield "name", toolset["name"]
    for place, name, text in given_texts(toolset):
        if place.startswith("env."):
            yield place, f"{name}={text}"
        elif place.startswith("headers."):
            yield place, f"{name}: {text}"
        elif place.startswith("args["):
            arguments.append(text)
        else:
            yield place, text
    if arguments:
        yield "args", " ".join((str(toolset.get("command", "")), *arguments))


_CONFLICTS = {"mcp": mcp_conflicts, "lsp": lsp_conflicts}


def problems_together(found: Mapping[str, Any], within: Sequence[int | str] = ()) -> Iterator[str]:
    """Each as one line with its place; what is of another kind than it should be is passed over.

    Args:
        found: A definition, as it was read.
        within: Where it stands in its document.
    """
    toolsets = found.get("toolsets")
    given = list(enumerate(toolsets))[:MAX_TOOLSETS] if isinstance(toolsets, list) else []
    names: list[str] = []
    for at, one in given:
        if isinstance(one, Mapping):
            yield from _of_toolset(one, (*within, "toolsets", at))
            name = one.get("name")
            names += [name] if isinstance(name, str) and AGENT_NAME.fullmatch(name) else []
    if why := names_twice(names):
        yield _line(within, why)
    agents = found.get("agents")
    for key, one in agents.items() if isinstance(agents, Mapping) else ():
        if isinstance(one, Mapping):
            yield from problems_together(one, (*within, "agents", str(key)))


def names_twice(names: Sequence[str]) -> str:
    """What is wrong with the names of a definition's toolsets; empty when each stands once."""
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"toolsets must have names of their own, and these stand more than once: {', '.join(twice)}" if twice else ""


def _of_toolset(given: Mapping[str, Any], within: Sequence[int | str]) -> Iterator[str]:
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _CONFLICTS:
        # It is looked at as what it seems to be, so that a wrong word hides nothing else that is wrong.
        kind = "lsp" if "languages" in given else "mcp"
        yield from _of_fields({**given, "type": kind}, LspToolset if kind == "lsp" else McpToolset, within)
    yield from (_line(within, why) for why in _CONFLICTS[kind](given))


def _of_fields(
    given: Mapping[str, Any], model: type[McpToolset | LspToolset], within: Sequence[int | str]
) -> Iterator[str]:
    try:
        model.model_validate(given)
    except ValidationError as error:
        yield from problems_of(error, [model], within)


def _line(within: Sequence[int | str], why: str) -> str:
    return f"{place_of(within)}: {why}" if within else why


MAX_DESCRIPTION = 1000
MAX_PROMPT = 64 * 1024
"""Characters of a system prompt."""
MAX_FILES = 32
MAX_SKILLS = 256
MAX_AGENTS = 16
MAX_WORDS = 64
MAX_REFERENCE = 2048
MAX_NAME_CHARACTERS = 255
"""Of a prompt file, with its folders."""

_SKILL_WORDS = ("workspace", "local", "none")
_SKILL = re.compile(r"[a-z0-9*?][a-z0-9_*?-]{0,63}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}", re.ASCII)

Skills = Literal["workspace", "local", "none"] | tuple[str, ...]
"""Which skills an agent has; see `AgentDefinition.skills`."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


def _net_word(word: str) -> str:
    """A word after `--net`; a host as it is really asked for, so that none looks like another one."""
    try:
        parse_grants([] if word == NONE else [word])
    except ConfigurationError as error:
        raise ValueError("must be a host, HOST:PORT, a set of hosts, `ask` or `none`") from error
    if word in (ASK, NONE) or word in HOST_SETS:
        return word
    target = parse_target(word, HTTPS)
    return bracketed(target.host) if target.port == HTTPS else str(target)


def _credential(word: str) -> str:
    try:
        parse_grant(word)
    except UsageError as error:
        raise ValueError(error.message[:1].lower() + error.message[1:].rstrip(".")) from error
    return word


def _inner_path(name: str) -> str:
    parts = name.split("/")
    plain = bool(name) and len(name) <= MAX_NAME_CHARACTERS and not unseen(name) and "\\" not in name
    if not plain or {"", ".", ".."}.intersection(parts):
        raise ValueError("must be a file's name, or a relative path with forward slashes and without `..`")
    return name


class AskedGrants(_Part):
    """What an agent asks for beyond its box."""

    # Hosts and sets of hosts, as after `--net`
    net: Annotated[tuple[Annotated[str, AfterValidator(_net_word)], ...], BeforeValidator(as_tuple)] = Field(
        default=(), max_length=MAX_WORDS
    )
    # Each `PROVIDER:SCOPE`, as after `--grant`
    credentials: Annotated[tuple[Annotated[str, AfterValidator(_credential)], ...], BeforeValidator(as_tuple)] = Field(
        default=(), max_length=MAX_WORDS
    )


class AskedBudget(_Part):
    """What an agent may spend when nobody says otherwise."""

    # In USD; None leaves it to the settings
    usd: float | None = Field(default=None, gt=0, lt=10**6, allow_inf_nan=False)
    turns: int | None = Field(default=None, ge=1, le=10**6)  # Rounds; None is no limit


def _as_skills(value: Any) -> Any:
    """True is every local skill and False none; a list holds names and patterns."""
    if isinstance(value, bool):
        return "local" if value else "none"
    if isinstance(value, str) and value in _SKILL_WORDS:
        return value
    if not isinstance(value, list | tuple) or len(value) > MAX_SKILLS:
        raise ValueError(f"must be true, false, or a list of at most {MAX_SKILLS} names of skills")
    if not all(isinstance(one, str) and _SKILL.fullmatch(one) for one in value):
        raise ValueError("a skill's name must be made of a-z, 0-9, _ and dashes, and may hold * and ?")
    return tuple(dict.fromkeys(value)) or "none"


def _as_mode(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in set(WriteMode)):
        return None if value is None else WriteMode(value)
    raise ValueError(f"must be one of {', '.join(WriteMode)}")


def _as_policy(value: Any) -> Any:
    boxes = (SandboxPolicyType.READ_ONLY, SandboxPolicyType.WORKSPACE_WRITE)
    if value is None or (isinstance(value, str) and value in boxes):
        return None if value is None else SandboxPolicyType(value)
    raise ValueError(f"must be one of {', '.join(boxes)}")


def _form(value: Any) -> str:
    return "reference" if isinstance(value, str) else "inline"


class AgentDefinition(_Part):
    """Who an agent is and what it asks for. Nothing in it is granted by being written here."""

    name: str  # Kebab-case
    description: str = ""  # One line for people, and for an agent that may call this one
    brain: str = ""  # A brain's name; empty leaves it to the settings
    model: str = ""  # For that brain; empty likewise
    system_prompt: str = ""  # What the brain is told about its work, after what kagura itself tells it
    # Names of files that are looked for on the walk up from the working directory, then in the home directory, and are
    # read to the brain
    add_prompt_files: Annotated[tuple[Annotated[str, AfterValidator(_inner_path)], ...], BeforeValidator(as_tuple)] = (
        Field(default=(), max_length=MAX_FILES)
    )
    # `workspace` (the usual): those of the project. `local`, in a document `true`: these and every skill of the person.
    # `none`, in a document `false`: none at all. A tuple: of all of them those with these names, which may hold `*` and
    # `?`.
    skills: Annotated[Skills, BeforeValidator(_as_skills)] = "workspace"
    # Sub-agents by the names under which this one knows them: references, relative to this document, or definitions
    agents: dict[
        str,
        Annotated[Annotated[str, Tag("reference")] | Annotated[AgentDefinition, Tag("inline")], Discriminator(_form)],
    ] = Field(default_factory=dict, max_length=MAX_AGENTS)
    # MCP and language servers
    toolsets: Annotated[tuple[Toolset, ...], BeforeValidator(as_tuple)] = Field(default=(), max_length=MAX_TOOLSETS)
    grants: AskedGrants = AskedGrants()  # Hosts and credentials
    budget: AskedBudget = AskedBudget()  # What it may spend
    # How its changes reach the project; None leaves it to the settings
    write: Annotated[WriteMode | None, BeforeValidator(_as_mode)] = None
    # What it may do in its box; `read_only` counts, the other leaves it to the settings
    policy: Annotated[SandboxPolicyType | None, BeforeValidator(_as_policy)] = None

    @field_validator("name")
    @classmethod
    def _kebab(cls, name: str) -> str:
        return agent_name(name)

    @field_validator("description")
    @classmethod
    def _one_line(cls, text: str) -> str:
        return plain_line(text.strip(), MAX_DESCRIPTION)

    @field_validator("brain", "model")
    @classmethod
    def _word(cls, word: str) -> str:
        if word and not _WORD.fullmatch(word):
            raise ValueError("must be one word of letters, digits and . _ : / @ + -")
        return word

    @field_validator("system_prompt")
    @classmethod
    def _prompt(cls, text: str) -> str:
        if len(text) > MAX_PROMPT:
            raise ValueError(
                f"must have at most {MAX_PROMPT:,} characters; put what is longer into a skill or a prompt file"
            )
        if sign := unseen(text, lines=True):
            raise ValueError(f"must not hold {sign}, which nobody would see")
        return text

    @field_validator("add_prompt_files")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))

    @field_validator("agents")
    @classmethod
    def _subs(cls, agents: dict[str, str | AgentDefinition]) -> dict[str, str | AgentDefinition]:
        for key, agent in agents.items():
            try:
                agent_name(key)
            except ValueError as error:
                raise ValueError(f"the key of a sub-agent is its name and {error}") from error
            if isinstance(agent, str) and (not agent or len(agent) > MAX_REFERENCE or one_line(agent)):
                raise ValueError("a sub-agent must be a reference of one line, or a definition")
        return agents

    @model_validator(mode="after")
    def _unlike(self) -> Self:
        if why := names_twice([one.name for one in self.toolsets]):
            raise ValueError(why)
        return self

    def net_hosts(self) -> tuple[str, ...]:
        """The words that open what it asks to reach: its grants, and `HOST:PORT` of each remote toolset; each once."""
        remote = (str(one.target) for one in self.toolsets if isinstance(one, McpToolset) and one.remote)
        return tuple(dict.fromkeys((*self.grants.net, *remote)))


@lru_cache(maxsize=16)
def parse_definition(data: bytes, source: str, redactor: Redactor | None = None) -> AgentDefinition:
    """The definition in a document: YAML or TOML, told by the source's suffix, else by how the document begins.

    The last few are remembered, since every run begins with one.

    Args:
        data: The document; UTF-8, at most 256 KiB.
        source: What it is called in errors; its suffix tells the form.
        redactor: Looks for secrets in what it hands to toolsets; None looks for none.

    Raises:
        AgentInvalid: with everything that is wrong, each with its place (`toolsets[1].command`); no value is repeated.
        RedactionUnavailable: it hands something to a toolset, and secrets cannot be looked for.
    """
    try:
        found, problems = read_document(data, source)
    except NotReadable as error:
        raise AgentInvalid(source, [str(error)]) from error
    named = _named(found)
    secrets = [] if redactor is None else secret_problems(named, redactor)
    try:
        definition = AgentDefinition.model_validate(named)
    except ValidationError as error:
        models = (AgentDefinition, AskedGrants, AskedBudget, McpToolset, LspToolset)
        problems += problems_of(error, models)
        problems += [one for one in dict.fromkeys(problems_together(named)) if one not in problems]
        raise AgentInvalid(source, [*problems, *secrets]) from None
    if problems or secrets:
        raise AgentInvalid(source, [*problems, *secrets])
    return definition


def to_yaml(definition: AgentDefinition) -> str:
    """The definition as a normalised document without what is at its default, readable by `parse_definition`.

    Sub-agents that are references become `./<name>.yaml`, so that no place of the host stands in it; a resolved agent
    has its own `to_yaml`, which holds its sub-agents whole.
    """
    return as_yaml(said(definition))


def as_yaml(values: dict[str, Any]) -> str:
    """What definitions say as one YAML document: texts of several lines as blocks, no aliases."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """The library's, with our form of texts."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library asks about each value
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120))


def said(definition: AgentDefinition) -> dict[str, Any]:
    """What a definition says beyond the defaults, as plain values in a fixed order; references without their place."""
    values = definition.model_dump(mode="json", exclude_defaults=True)
    # What tells the two sorts apart has no default, and neither has the name.
    values |= {"toolsets": [one.model_dump(mode="json", exclude_defaults=True) for one in definition.toolsets]}
    values |= {"agents": {key: _sub(key, one) for key, one in definition.agents.items()}}
    if isinstance(definition.skills, str):
        values["skills"] = {"local": True, "none": False}.get(definition.skills)
    return {key: values[key] for key in AgentDefinition.model_fields if values.get(key) not in (None, [], {})}


def digest(definition: AgentDefinition) -> str:
    """SHA-256 over what the definition says, as hex; equal for YAML and TOML that say the same."""
    return digest_of(said(definition))


def digest_of(values: dict[str, Any]) -> str:
    """SHA-256 over plain values, as hex, whatever the order of their keys."""
    canonical = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def _sub(key: str, agent: str | AgentDefinition) -> str | dict[str, Any]:
    return f"./{key}.yaml" if isinstance(agent, str) else said(agent)


def _named(found: dict[str, Any]) -> dict[str, Any]:
    """The same, sub-agents without a name called by their key, and keys without a value left out."""
    plain = {key: _valued(value) if key != "agents" else value for key, value in found.items() if value is not None}
    if isinstance(agents := plain.get("agents"), dict):
        plain["agents"] = {
            key: {"name": key, **_named(one)} if isinstance(one, dict) else one for key, one in agents.items()
        }
    return plain


def _valued(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _valued(inner) for key, inner in value.items() if inner is not None}
    return [_valued(inner) for inner in value] if isinstance(value, list) else value
