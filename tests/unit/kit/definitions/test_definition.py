import json

import pytest

from kagura_kernel.domain.errors import AgentInvalid
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.kit.definitions.definition import AgentDefinition, digest, parse_definition, to_yaml
from kagura_kernel.kit.definitions.references import built_in_names
from kagura_kernel.kit.definitions.toolsets import LspToolset, McpToolset, Pin, parse_pin

YAML = b"""
name: data-analyst
description: Looks at tables
brain: claude
system_prompt: |
  Look first.

  Then count.
add_prompt_files: [AGENTS.md, docs/STYLE.md]
skills: [tables, "csv-*"]
agents:
  reviewer: ./reviewer.yaml
  checker:
    description: Counts again
    write: none
toolsets:
  - {type: mcp, name: time, command: mcp-server-time, args: [--local-timezone, UTC], env: {TZ: UTC},
     version: "pip:mcp-server-time@2026.10.19", tools: ["get_*"], ask: [convert_time], deny: ["*_secret"], timeout: 5}
  - {type: mcp, name: docs, url: "https://mcp.example.org:8443/mcp", headers: {X-Team: data}}
  - {type: lsp, name: python, command: jedi-language-server, version: off, languages: {python: ["*.py"]}}
grants: {net: [python-packages], credentials: ["github:repo"]}
budget: {usd: 0.5, turns: 20}
write: through
"""

TOML = b"""
name = "data-analyst"
description = "Looks at tables"
brain = "claude"
system_prompt = "Look first.\\n\\nThen count.\\n"
add_prompt_files = ["AGENTS.md", "docs/STYLE.md"]
skills = ["tables", "csv-*"]
write = "through"
[agents]
reviewer = "./reviewer.yaml"
[agents.checker]
description = "Counts again"
write = "none"
[[toolsets]]
type = "mcp"
name = "time"
command = "mcp-server-time"
args = ["--local-timezone", "UTC"]
env = {TZ = "UTC"}
version = "pip:mcp-server-time@2026.10.19"
tools = ["get_*"]
ask = ["convert_time"]
deny = ["*_secret"]
timeout = 5.0
[[toolsets]]
type = "mcp"
name = "docs"
url = "https://mcp.example.org:8443/mcp"
headers = {X-Team = "data"}
[[toolsets]]
type = "lsp"
name = "python"
command = "jedi-language-server"
version = "off"
languages = {python = ["*.py"]}
[grants]
net = ["python-packages"]
credentials = ["github:repo"]
[budget]
usd = 0.5
turns = 20
"""


def problems(data: bytes | str, source: str = "it.yaml") -> tuple[str, ...]:
    with pytest.raises(AgentInvalid) as raised:
        parse_definition(data.encode() if isinstance(data, str) else data, source)
    return raised.value.problems


def test_a_whole_definition_says_the_same_in_yaml_in_toml_and_when_it_is_written_again():
    definition = parse_definition(YAML, "it.yaml")
    assert definition.skills == ("tables", "csv-*")
    assert definition.write is WriteMode.THROUGH
    assert isinstance(definition.agents["checker"], AgentDefinition)
    assert definition.agents["checker"].name == "checker"
    time, docs, python = definition.toolsets
    assert isinstance(time, McpToolset)
    assert time.pin == Pin("pip", "mcp-server-time", "2026.10.19")
    assert (time.asks, time.timeout, time.remote) == (("convert_time",), 5.0, False)
    assert isinstance(docs, McpToolset)
    assert (docs.asks, docs.remote, str(docs.target)) == (("*",), True, "mcp.example.org:8443")
    assert isinstance(python, LspToolset)
    assert python.pin.off
    assert definition.net_hosts() == ("python-packages", "mcp.example.org:8443")
    assert parse_definition(TOML, "it.toml") == definition
    assert parse_definition(TOML, "without a suffix") == definition
    assert parse_definition(YAML, "without a suffix") == definition
    assert parse_definition(b"\xef\xbb\xbf" + YAML, "it.yaml") == definition
    again = to_yaml(definition)
    assert parse_definition(again.encode(), "again.yaml").toolsets == definition.toolsets
    assert to_yaml(parse_definition(again.encode(), "again.yaml")) == again
    assert "system_prompt: |\n  Look first.\n" in again
    assert (
        digest(definition) == digest(parse_definition(TOML, "it.toml")) == digest(parse_definition(again.encode(), ""))
    )
    assert digest(definition) != digest(parse_definition(YAML.replace(b"0.5", b"0.6"), "it.yaml"))


def test_no_place_of_the_host_stands_in_what_is_written_again():
    definition = parse_definition(
        b"name: a\nagents: {other: /home/somebody/secret/place.yaml}\n", "/home/somebody/a.yaml"
    )
    assert "somebody" not in to_yaml(definition)
    assert "./other.yaml" in to_yaml(definition)


@pytest.mark.parametrize(
    ("said", "skills"),
    [
        ("", "workspace"),
        ("skills: true", "local"),
        ("skills: false", "none"),
        ("skills: []", "none"),
        ("skills:", "workspace"),
    ],
)
def test_skills_are_those_of_the_project_all_none_or_the_named(said, skills):
    definition = parse_definition(f"name: a\n{said}\n".encode(), "it.yaml")
    assert definition.skills == skills
    assert parse_definition(to_yaml(definition).encode(), "again.yaml").skills == skills


def test_every_agent_that_comes_along_can_be_read():
    assert built_in_names() == ("default", "reviewer", "skilled")


def test_everything_that_is_wrong_is_told_at_once_with_its_place_and_without_its_value():
    secret = "hunter2-hunter2"
    told = problems(f"""
name: Data Analyst
descripton: x
skills: {secret}
write: {secret}
system_prompt: 5
add_prompt_files: [../{secret}, ok.md]
agents:
  Bad_Key: {{name: a}}
  sub: {{toolsets: [{{type: mcp, name: x, comand: {secret}}}]}}
toolsets:
  - {{type: {secret}, name: x}}
  - {{name: x}}
  - {{type: mcp, name: two, command: x, url: "https://example.org"}}
  - {{type: mcp, name: web, url: "http://{secret}.example.org"}}
  - {{type: mcp, name: y, command: x, args: [1], env: {{"A-B": x}}, version: "pip:--index-url@{secret}", timeout: 0}}
  - {{type: lsp, name: z, command: x}}
  - {secret}
grants: {{net: [a b], credentials: [{secret}]}}
budget: {{usd: -1, turns: 1.5}}
""")
    text = "\n".join(told)
    assert secret not in text
    for place in (
        "name: must be made of a-z",
        "descripton: there is no such key, did you mean 'description'?",
        "skills: must be true, false, or a list",
        "write: must be one of ask, through, none",
        "system_prompt: must be a text",
        "add_prompt_files[0]: must be a file's name",
        "agents.sub.toolsets[0].comand: there is no such key, did you mean 'command'?",
        "toolsets[0]: its `type` must be mcp or lsp",
        "toolsets[1]: its `type` is missing: it must be mcp or lsp",
        "toolsets[2]: must have either a `command`",
        "toolsets[3].url: must be an https:// URL",
        "toolsets[4].args[0]: must be a text",
        "toolsets[4].env: a variable's name",
        "toolsets[4].version: what stands behind `pip:` must be the name of a package of pip",
        "toolsets[4].timeout: must be more than 0",
        "toolsets[5].languages: it is missing",
        "toolsets[6]: must be a mapping",
        "grants.net[0]: must be a host",
        "grants.credentials[0]: a grant is written PROVIDER:SCOPE",
        "budget.usd: must be more than 0",
        "budget.turns: must be a whole number",
    ):
        assert place in text, place
    assert "0.0" not in text


def test_what_is_wrong_with_fields_together_is_told_beside_what_is_wrong_with_one():
    told = problems("name: A\ntoolsets: [{type: mcp}, {type: mcp, name: t, command: x}, {type: mcp, name: t, url: x}]")
    for why in ("name: must be made of", "toolsets[0].name: it is missing", "toolsets[0]: must have either", "once: t"):
        assert len([one for one in told if why in one]) == 1, why


def test_hosts_are_told_as_they_are_really_asked_for():
    words = ["PyPI.org", "\u0440ypi.org", "example.org:443", "[2001:DB8::1]:8443", "python-packages", "ask"]
    definition = parse_definition(json.dumps({"name": "a", "grants": {"net": words}}).encode(), "it.json")
    assert definition.net_hosts() == (
        "pypi.org",
        "xn--ypi-zed.org",
        "example.org",
        "[2001:db8::1]:8443",
        "python-packages",
        "ask",
    )


def test_a_command_holds_nothing_that_nobody_sees():
    [told] = problems(json.dumps({"name": "a", "toolsets": [{"type": "mcp", "name": "t", "command": "x\u200by"}]}))
    assert told == "toolsets[0].command: must not hold U+200B, which nobody would see"


def test_each_word_of_a_list_that_is_wrong_is_told_by_its_number():
    told = problems("""
name: a
grants: {net: ["*", example.org, "not a host", 3, none, python-packages, "10.0.0.0/8"], credentials: [a:b, x, "*:y"]}
add_prompt_files: [AGENTS.md, ../up.md, /etc/passwd, 'a\\b']
""")
    assert sorted(one.partition(":")[0] for one in told) == sorted(
        [
            *(f"grants.net[{at}]" for at in (0, 2, 3, 6)),
            *(f"grants.credentials[{at}]" for at in (1, 2)),
            *(f"add_prompt_files[{at}]" for at in (1, 2, 3)),
        ]
    )


def test_a_wrong_type_hides_nothing_else_that_is_wrong_with_a_toolset():
    told = problems("""
name: a
toolsets:
  - {type: mpc, name: No Name, comand: x, timeout: 0}
  - {type: [mcp], name: b, command: x, url: "https://example.org/", args: [y], env: {A: b}}
  - {name: c, languages: {Python: []}}
agents:
  sub:
    toolsets:
      - {type: grpc, name: t, command: x, headers: {Host: x}}
      - {type: lsp, name: t, languages: {python: ["*.py"]}}
""")
    assert sorted(told) == sorted(
        [
            "toolsets[0]: its `type` must be mcp or lsp",
            (
                "toolsets[0].name: must be made of a-z, 0-9 and single dashes, begin with a letter, and have at most "
                "64 characters"
            ),
            "toolsets[0].timeout: must be more than 0",
            "toolsets[0].comand: there is no such key, did you mean 'command'?",
            "toolsets[0]: must have either a `command`, which is started in the box, or a `url`",
            "toolsets[1]: its `type` must be mcp or lsp",
            "toolsets[1]: must have either a `command`, which is started in the box, or a `url`",
            "toolsets[1]: `args` and `env` must be left out, for there is a `url` and nothing to start",
            "toolsets[2]: its `type` is missing: it must be mcp or lsp",
            "toolsets[2].languages: a language must be written as language servers do: python, typescript, c++",
            "toolsets[2]: must have a `command`, which is started in the box",
            "agents.sub: toolsets must have names of their own, and these stand more than once: t",
            "agents.sub.toolsets[0]: its `type` must be mcp or lsp",
            (
                "agents.sub.toolsets[0].headers: headers that carry the messages themselves (Host, Content-Type, "
                "Mcp-Session-Id, …) must be left out"
            ),
            "agents.sub.toolsets[0]: `headers` must be left out, for there is no `url`",
            "agents.sub.toolsets[1]: must have a `command`, which is started in the box",
        ]
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("- a\n- b", "it is no mapping"),
        ("name: a\nname: b", "line 2, column 1: this key stands twice in one mapping"),
        ("name: &a [*a]", "an alias stands within what it repeats"),
        ("name: !!python/object/apply:os.system [true]", "it is not YAML that can be used"),
        (
            "name: &a a\ndescription: &a b",
            "it is not YAML that can be used: an anchor stands in it twice (line 2, column",
        ),
        ("name: *gone", "it is not YAML that can be used: found undefined alias '…'"),
        ("name: a\n\tb: c", "(line 2, column 1)"),
        ("name: a\n---\nname: b", "it is not YAML that can be used"),
        ("name: a\x00b", "control character"),
        ("name: 2026-13-45", "a date or a number that does not exist"),
        ("name: !!timestamp noon", "a tag that does not fit its value"),
        ("name: !!bool perhaps", "a tag that does not fit its value"),
        ("name: !!int _", "a tag that does not fit its value"),
        (f"name: 1{':00' * 400}:0.5", "a number that does not exist"),
        ("name: a\ndescription: one\u202etwo", "description: must not hold U+202E"),
        ("name: a\nsystem_prompt: hid\U000e0041den", "system_prompt: must not hold U+E0041"),
        (
            "name: a\ntoolsets: [{type: mcp, name: t, command: x}, {type: mcp, name: t, command: y}]",
            "more than once: t",
        ),
        ("1: 2\nname: a", "a key must be a text"),
    ],
)
def test_what_could_be_read_in_two_ways_or_not_at_all_is_refused(text, why):
    assert why in "\n".join(problems(text))


def test_hostile_documents_end_soon_with_a_reason():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "values" in problems(bomb)[0]
    assert "deep" in problems("name: " + "[" * 20_000)[0]
    assert "deep" in problems("{a: " * 40 + "}" * 40)[0]
    assert "deep" in problems("a = " + "[" * 5000 + "]" * 5000, "it.toml")[0]
    for key in ("a." * 100_000 + "a", '""."a" . ' * 20_000 + "a", "[" + "a." * 100_000 + "a]"):
        assert "deep" in problems(f"{key} = 1", "it.toml")[0]
    assert "a number that does not exist" in problems(f"name = {'9' * 5000}", "it.toml")[0]
    assert "larger than 256 KiB" in problems(b"#" * 300_000)[0]
    assert "not UTF-8" in problems("name: a".encode("utf-16"))[0]
    assert "not TOML" in problems("name = = 1", "it.toml")[0]
    many = problems("name: a\n" + "".join(f"k{n}: 1\n" for n in range(200)))
    assert len(many) == 51
    assert many[-1] == "and 150 more"


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("", Pin()),
        ("off", Pin(off=True)),
        ("false", Pin(off=True)),
        ("1.2.3", Pin(version="1.2.3")),
        ("pip:black[jupyter]@24.1", Pin("pip", "black[jupyter]", "24.1")),
        ("npm:@scope/server@1.0.0-beta.1", Pin("npm", "@scope/server", "1.0.0-beta.1")),
        ("npm:@scope/server", Pin("npm", "@scope/server")),
        ("go:golang.org/x/tools/gopls@v0.16.0", Pin("go", "golang.org/x/tools/gopls", "v0.16.0")),
        ("cargo:ripgrep@14.1.0", Pin("cargo", "ripgrep", "14.1.0")),
        ("github:owner/repo@release/1.0", Pin("github", "owner/repo", "release/1.0")),
    ],
)
def test_a_version_names_a_package_of_an_installer(text, pin):
    assert parse_pin(text) == pin


@pytest.mark.parametrize(
    "text",
    ["apt:curl", "pip:--upgrade", "pip:a b", "npm:../x", "pip:x@", "go:x", "github:a/b/c", "1.0; rm", "pip:x@$(y)"],
)
def test_a_version_that_an_installer_could_take_for_something_else_is_refused(text):
    with pytest.raises(ValueError, match=r"installer|package|version"):
        parse_pin(text)
