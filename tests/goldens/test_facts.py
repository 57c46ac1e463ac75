"""Names and forms that others rely on: settings, error codes, events, names, manifests, cards."""

import importlib
import inspect
import json
import re
import typing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import kagura_kernel
from kagura_kernel.domain import errors
from kagura_kernel.domain.events import AnyEvent
from kagura_kernel.domain.settings import settings_model
from kagura_kernel.plugins.manifest import Manifest
from kagura_kernel.views.record import run_bundle
from kagura_kernel.views.run import RunView
from tests.goldens.keeping import hold
from tests.goldens.plainly import bundle, data, markup
from tests.support import gallery

pytestmark = pytest.mark.xdist_group("goldens")

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
TOLD = {"run", "run with a kit", "run that has learned"}
"""Cards of the gallery that are kept with all that their runs leave in a notebook."""


def outline(model: type[BaseModel]) -> list[str]:
    """The fields of a model as JSON has them: name, type, bounds, default; no words."""
    schema = model.model_json_schema(by_alias=True)
    lines: list[str] = []

    def walk(head: str, part: dict[str, Any], depth: int = 0) -> None:
        if "$ref" in part:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            part = schema["$defs"][part["$ref"].rpartition("/")[2]] | rest
        wanted = ("type", "enum", "const", "default", "format", "minimum", "maximum", "exclusiveMinimum", "maxLength")
        facts = {key: part[key] for key in wanted if key in part}
        if facts and head:
            lines.append(f"{head}: {json.dumps(facts, sort_keys=True)}")
        if depth > 6:
            return
        for one in (*part.get("anyOf", ()), *part.get("oneOf", ())):
            walk(f"{head} |", one, depth + 1)
        for name, inner in sorted(part.get("properties", {}).items()):
            needed = "" if name not in part.get("required", ()) else " (required)"
            walk(f"{head}.{name}{needed}".removeprefix("."), inner, depth + 1)
        if isinstance(items := part.get("items"), dict):
            walk(f"{head}[]", items, depth + 1)
        if isinstance(more := part.get("additionalProperties"), dict):
            walk(f"{head}{{}}", more, depth + 1)

    walk("", schema)
    return lines


def documented() -> list[str]:
    """Names below the package that documents for other people's programs import or name, and that are there."""
    text = "\n".join(
        (DOCUMENTS / name).read_text("utf-8") for name in ("extending.md", "plugin-sdk.md", "operations.md")
    )
    names = set(re.findall(r"\bkagura_kernel(?:\.\w+)+", text))
    for module, imported in re.findall(r"^from (kagura_kernel[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    return sorted(name for name in names if there(name))


def there(name: str) -> bool:
    """Whether a module or something in one is called so."""
    try:
        importlib.import_module(name)
    except ImportError:
        module, _, last = name.rpartition(".")
        return bool(module) and there(module) and hasattr(importlib.import_module(module), last)
    return True


def test_settings_events_errors_and_names_are_what_they_were():
    events = {model.model_fields["kind"].default: model for model in typing.get_args(typing.get_args(AnyEvent)[0])}
    coded = [one for _, one in inspect.getmembers(errors, inspect.isclass) if "code" in vars(one)]
    shared = sorted(set.intersection(*({*outline(model)} for model in events.values())))
    kinds = ["== every event", *shared]
    for kind, model in sorted(events.items()):
        own = [line for line in outline(model) if line not in shared and not line.startswith("kind: ")]
        kinds += [f"== {kind}", *own]
    made = {
        "settings.txt": "\n".join(outline(settings_model())),
        "events.txt": "\n".join(kinds),
        "manifest.txt": "\n".join(outline(Manifest)),
        "errors.txt": "\n".join(sorted(one.code for one in coded)),
        "names.txt": "\n".join([*(f"kagura_kernel.{name}" for name in sorted(kagura_kernel.__all__)), *documented()]),
        "signatures.txt": "\n".join(
            f"{name}{inspect.signature(getattr(kagura_kernel, name))}"
            for name in sorted(kagura_kernel.__all__)
            if callable(getattr(kagura_kernel, name))
        ),
    }
    hold("facts", made)


def test_the_cards_of_the_gallery_are_what_they_were(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    made = {
        f"{name.replace(' ', '-')}.html": markup(text) for name, text in gallery.cards().items() if name not in TOLD
    }
    for name, view in {
        "story": RunView().apply_all(gallery.story()),
        "kitted": gallery.kitted_run(),
        "learned": gallery.learned_run(),
        "learned-live": gallery.learned_run(live=True),
    }.items():
        made |= {f"told-{name}.{end}": text for end, text in bundle(*run_bundle(view)).items()}
    parts = [f"<!-- {key} -->\n{text}" for key, text in sorted(gallery.live_story_parts().items())]
    made["live-story.html"] = markup("\n".join(parts))
    made["changes-told.yaml"] = data({path: asdict(row) for path, row in gallery.changes().items()})
    hold("gallery", made)
