import pytest

from kagura_kernel.domain.errors import AgentInvalid
from kagura_kernel.kit.definitions.references import AgentPlaces, resolve_agent
from tests.support.redactors import shared_redactor

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


def agent(tmp_path, text):
    (tmp_path / "agent.yaml").write_text(text)
    places = AgentPlaces(tmp_path, tmp_path / "own", tmp_path / "cache")
    return resolve_agent("agent.yaml", places, redactor=shared_redactor())


def test_a_definition_that_hands_a_secret_to_a_toolset_is_refused_by_the_place_alone(tmp_path):
    text = f"""
name: a
toolsets:
  - {{type: mcp, name: one, command: x, env: {{GITHUB_TOKEN: {TOKEN}, LANG: C.UTF-8}}, args: [--token, {TOKEN}]}}
  - {{type: mcp, name: two, url: "https://example.org/mcp", headers: {{Authorization: Bearer {TOKEN}}}}}
agents:
  sub: {{toolsets: [{{type: lsp, name: l, command: x, languages: {{python: ["*.py"]}}, env: {{KEY: {TOKEN}}}}}]}}
"""
    with pytest.raises(AgentInvalid) as raised:
        agent(tmp_path, text)
    *places, advice = raised.value.problems
    assert [place.partition(": it holds a secret (")[0] for place in places] == [
        "toolsets[0].env.GITHUB_TOKEN",
        "toolsets[0].args",
        "toolsets[1].headers.Authorization",
        "agents.sub.toolsets[0].env.KEY",
    ]
    assert "name a credential in place of a secret" in advice
    assert TOKEN not in raised.value.message


def test_the_name_of_a_toolset_and_sub_agents_at_any_depth_are_looked_at(tmp_path):
    text = f"""
name: a
toolsets: [{{type: mcp, name: {TOKEN}, command: x}}]
agents:
  sub: {{agents: {{deep: {{toolsets: [{{type: mcp, name: one, command: x, env: {{KEY: {TOKEN}}}}}]}}}}}}
"""
    with pytest.raises(AgentInvalid) as raised:
        agent(tmp_path, text)
    told = "\n".join(raised.value.problems)
    assert "toolsets[0].name: it holds a secret" in told
    assert "agents.sub.agents.deep.toolsets[0].env.KEY: it holds a secret" in told
    assert TOKEN not in raised.value.message


def test_a_definition_without_secrets_passes(tmp_path):
    text = "name: a\ntoolsets: [{type: mcp, name: one, command: x, env: {TZ: Europe/Berlin, LOG_LEVEL: debug}}]\n"
    assert agent(tmp_path, text).definition.toolsets[0].env["LOG_LEVEL"] == "debug"


def test_secrets_are_told_beside_everything_else_that_is_wrong(tmp_path):
    text = f"""
name: A B
toolsets:
  - {{type: mpc, name: one, command: x, env: {{API_KEY: {TOKEN}}}, timeout: 0}}
  - odd
"""
    with pytest.raises(AgentInvalid) as raised:
        agent(tmp_path, text)
    told = "\n".join(raised.value.problems)
    for part in (
        "name: must be made of",
        "toolsets[0].timeout",
        "toolsets[1]: must be",
        "toolsets[0].env.API_KEY: it h",
    ):
        assert part in told
    assert TOKEN not in told
