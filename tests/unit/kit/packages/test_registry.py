from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.kit.definitions.document import MAX_BYTES
from kagura_kernel.kit.packages.registry import load_registry, parse_registry
from kagura_kernel.membrane.egress.policy import parse_grants


def problems(text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as raised:
        parse_registry(text if isinstance(text, bytes) else text.encode(), "mine")
    return raised.value.problems


def test_what_is_shipped_can_be_read_and_covers_every_installer():
    shipped = load_registry()
    assert {tool.package.installer for tool in shipped.tools.values()} == {"pip", "npm", "go", "cargo", "github"}
    assert str(shipped.tools["mcp-server-time"].package) == "pip:mcp-server-time"
    assert "python3" in shipped.present
    assert shipped.runners["npx"] == "npm"
    assert not shipped.present & set(shipped.tools)


def test_a_persons_own_file_replaces_single_commands_and_adds_others(tmp_path):
    own = tmp_path / "tools.yaml"
    own.write_text(
        """
tools:
  gopls: github:example/gopls-builds@v1
  our-server: {package: pip:our-server, hosts: ["packages.example.org", "files.example.org:8443"]}
  bash: npm:bash-in-js
runners: {our-runner: pip}
present: [our-shell]
"""
    )
    found = load_registry(own)
    assert str(found.tools["gopls"].package) == "github:example/gopls-builds@v1"
    assert found.tools["our-server"].hosts == ("packages.example.org", "files.example.org:8443")
    parse_grants(found.tools["our-server"].hosts)
    assert found.runners["our-runner"] == "pip"
    assert found.runners["npx"] == "npm"
    assert "our-shell" in found.present
    # Whoever says where it comes from does not take the box's.
    assert "bash" not in found.present
    assert "mcp-server-time" in found.tools


def test_it_may_be_written_in_toml(tmp_path):
    own = tmp_path / "tools.toml"
    own.write_text('present = ["ours"]\n[tools]\nthing = "pip:thing@1.0"\n')
    assert str(load_registry(own).tools["thing"].package) == "pip:thing@1.0"


def test_patterns_of_file_names_belong_to_releases():
    text = "tools: {x: {package: 'github:o/r', assets: {x86_64: 'x-*-amd64.zip'}}}"
    assert parse_registry(text.encode(), "mine").tools["x"].assets == {"x86_64": "x-*-amd64.zip"}
    assert "github alone" in problems(text.replace("github:o/r", "pip:r"))[0]


def test_everything_that_is_wrong_is_told_at_once_and_no_value_is_repeated():
    told = problems(
        """
tols: {}
tools:
  a: pip
  b: "pip:--index-url=https://hunter2.example"
  c: {package: "npm:x", wiht: [y]}
  d: 7
  "../e": pip:e
  f: {package: "pip:f", hosts: ["me:hunter2@example.org", "a b"]}
  g: {package: "github:o/r", assets: [x]}
runners: {h: brew}
present: ["rm -rf"]
"""
    )
    text = "\n".join(told)
    assert "hunter2" not in text
    places = ("tools", "tools.a.package", "tools.b.package", "tools.c", "tools.d", "tools.f.hosts", "tools.g.assets")
    for place in (*places, "runners.h", "present"):
        assert any(line.startswith(f"{place}: ") for line in told), (place, told)
    assert "it says 'tols', which is none of tools, runners, present, did you mean 'tools'?" in told
    assert any("did you mean 'with'?" in line for line in told)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"tools: [",
        b"- a\n- b",
        b"",
        b"tools: !!python/object/apply:os.system ['true']",
        b"tools: {a: 'pip:a'}\ntools: {a: 'pip:b'}",
        b"[" * 5000,
        b"x" * (MAX_BYTES + 1),
    ],
    ids=["no text", "unfinished", "a list", "empty", "a tag", "a key twice", "deep", "large"],
)
def test_what_is_no_registry_is_refused_in_words(text):
    assert problems(text)


def test_a_file_that_is_not_there_is_told_with_its_name(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read: No such file") as raised:
        load_registry(tmp_path / "none.yaml")
    assert "none.yaml" in raised.value.source
