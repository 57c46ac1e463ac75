"""A home with skills and prompt files, an agent that asks for them, and a redactor that knows a few words alone."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.domain.kit import marker
from kagura_kernel.kit.definitions.definition import AgentDefinition, to_yaml
from kagura_kernel.kit.definitions.references import AgentPlaces, ResolvedAgent, resolve_agent
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.kit.redaction.spans import Finding, Redacted, RedactedFile
from kagura_kernel.kit.staging.plan import KitPlan, plan_kit
from kagura_kernel.kit.staging.planned import KitPlaces, kit_places

SECRET = "swordfish-4711"
KIND = "password"

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MEDIA = b"\x89PNG"
_ARCHIVE = b"PK\x03\x04"


class KnownWords(Redactor):
    """Takes one word for a secret: what stages kits is tested with it without waiting for rules."""

    def __init__(self, word: str = SECRET) -> None:
        super().__init__(None)
        self._word = word
        self.asked = 0  # How many files it was asked about

    def redact(self, text: str) -> Redacted:
        """The text with a marker for each such word."""
        redacted = text.replace(self._word, marker(KIND))
        found = re.finditer(re.escape(marker(KIND)), redacted) if redacted != text else ()
        findings = tuple(
            Finding(KIND, redacted.count("\n", 0, one.start()) + 1, one.start(), one.end()) for one in found
        )
        return Redacted(redacted, findings)

    def redact_file(self, data: bytes, name: str) -> RedactedFile:  # noqa: ARG002 - as the redactor's own
        """A file likewise: texts in three encodings, pictures as they are, archives not at all."""
        self.asked += 1
        if data.startswith(_MEDIA):
            return RedactedFile(data)
        if data.startswith(_ARCHIVE):
            return RedactedFile(None, reason="it is an archive")
        encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "utf-8")
        try:
            redacted = self.redact(data.decode(encoding))
        except UnicodeDecodeError:
            encoding = "latin-1"
            redacted = self.redact(data.decode(encoding))
        whole = redacted.text.encode(encoding) if redacted.findings else data
        return RedactedFile(whole, redacted.findings, encoding)


class HomeRig:
    """A person's home with a project in it, below a directory that may have it already."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home" / "agent"  # The home directory
        self.project = self.home / "code" / "project"  # The project, `~/code/project`
        self.root = base / "data" / "kits"  # Where kits are staged
        self.agents = base / "data" / "agents"  # The person's own agents
        self.redactor = KnownWords()  # Knows `SECRET`
        for folder in (self.project, self.agents):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def where(self) -> KitPlaces:
        return kit_places(self.project, home=self.home, config=self.home / ".config" / "kagura-kernel")

    def skill(self, name: str, files: Mapping[str, str | bytes] | None = None, place: str = ".agents/skills") -> Path:
        """A skill in a place of the home directory, with a SKILL.md unless the files have one; its directory."""
        root = self.home / place / name
        whole = {"SKILL.md": f"---\nname: {name}\ndescription: What {name} is for.\n---\n\nDo it.\n"} | dict(
            files or {}
        )
        for path, content in whole.items():
            self.write(root / path, content)
        return root

    def write(self, path: Path, content: str | bytes) -> Path:
        """A file with its directories."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def agent(self, **fields: Any) -> ResolvedAgent:
        """An agent of the person's own that says this; without fields it wants every skill and the usual prompts."""
        definition = AgentDefinition.model_validate(
            {"name": "tester", "skills": True, "add_prompt_files": ["AGENTS.md", "CLAUDE.md"]} | fields
        )
        self.write(self.agents / f"{definition.name}.yaml", to_yaml(definition))
        return resolve_agent(
            definition.name,
            AgentPlaces(self.project, self.agents, self.root.parent / "cache", {"HOME": str(self.home)}),
        )

    def plan(self, **fields: Any) -> KitPlan:
        """The plan for such an agent."""
        return plan_kit(self.agent(**fields), self.where)
