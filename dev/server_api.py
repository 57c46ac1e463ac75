"""Writes what follows from the server's routes: `openapi.yaml`, and the sidebar's `api/schema.ts`.

`python dev/server_api.py` after a change of `kagura_kernel/jupyter/server`; a test says when it was forgotten.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from kagura_kernel.jupyter.server import models
from kagura_kernel.jupyter.server.handler import Route, answering
from kagura_kernel.jupyter.server.parameters import Text, Words
from kagura_kernel.jupyter.server.routes import NAMES, OPENAPI, ROUTES

SCHEMA = Path(__file__).resolve().parent.parent / "labextension" / "src" / "api" / "schema.ts"


def _refusal(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Refusal"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_RESPONSES = {
    "NotModified": {"description": "It would say the same as the answer with that ETag."},
    "NotUnderstood": _refusal(
        "A word of the query or the body cannot be understood; the message says which (`ERR_USAGE`, "
        "`ERR_MEMORY_INVALID`)."
    ),
    "Refused": _refusal("Nobody is logged in (`ERR_UNAUTHENTICATED`), or who is may not do this (`ERR_FORBIDDEN`)."),
    "NotThere": _refusal(
        "There is nothing of that name (`ERR_RUN_UNKNOWN`, `ERR_APPROVAL_UNKNOWN`, "
        "`ERR_UNKNOWN_NAME`, `ERR_MEMORY_UNKNOWN`)."
    ),
    "NoMemory": _refusal(
        "The memory cannot be reached (`ERR_MEMORY_UNAVAILABLE`), with what to do about it, or there is "
        "no journal to write down what was done: see `NoJournal`. Ask again later: nothing has to be restarted."
    ),
    "NoJournal": _refusal(
        "There is no journal yet to act on (`ERR_JOURNAL_MISSING`), or it is locked "
        "(`ERR_JOURNAL_UNWRITABLE`), broken (`ERR_JOURNAL_UNREADABLE`), of a newer version (`ERR_JOURNAL_TOO_NEW`), or "
        "the settings are wrong (`ERR_CONFIGURATION`). Ask again later: nothing has to be restarted."
    ),
}
_HEAD: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "kagura-kernel",
        "version": "1",
        "summary": "Runs, approvals, leases, costs, plugins and memories of kagura-kernel, for the sidebar and for "
        "scripts.",
        "description": "Served by the Jupyter server below its base URL. Every route wants whoever the Jupyter server "
        "calls authenticated, and asks the server's authorizer for the resource that `x-resource` names: `read` for "
        "GET and HEAD, `write` for POST and DELETE. Those with a cookie need the `X-XSRFToken` header; with a token "
        "they do not.\n\nTimes are UTC, as `2026-01-01T12:00:00.000000Z`. Money is in USD, and unknown is null, never "
        "0. A GET has an `ETag`: with `If-None-Match` an answer that would say the same is a 304. A refusal is "
        '`{"code", "message"}`. Made by `dev/server_api.py`.',
    },
    "servers": [
        {
            "url": "{base_url}kagura/api/v1",
            "variables": {
                "base_url": {
                    "default": "/",
                    "description": "The base URL of the Jupyter server, with its slash at the end.",
                }
            },
        }
    ],
    "security": [{"token": []}, {"cookie": []}],
}
_SECURITY = {
    "token": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`token …`, as for every route of the Jupyter server.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "_xsrf",
        "description": "The Jupyter server's own login cookie, with its XSRF token.",
    },
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The `ETag` of an answer that the asker has.",
    "schema": {"type": "string"},
}
_THIS_FILE = {
    "get": {
        "operationId": "openapi",
        "summary": "This file.",
        "x-resource": "kagura_status",
        "parameters": [{"$ref": "#/components/parameters/IfNoneMatch"}],
        "responses": {
            "200": {"description": "This file.", "content": {"application/yaml": {"schema": {"type": "string"}}}},
            "304": {"$ref": "#/components/responses/NotModified"},
            "403": {"$ref": "#/components/responses/Refused"},
        },
    }
}


class _Described:
    """The OpenAPI document while it is put together."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        """All of it."""
        paths: dict[str, Any] = {}
        self.schema_of(models.Refusal)
        for route in ROUTES:
            paths.setdefault(route.path, {})[route.method.lower()] = self.operation(route)
        for path, operations in paths.items():
            if names := re.findall(r"{(\w+)}", path):
                operations["parameters"] = [
                    {"name": name, "in": "path", "required": True, "schema": _name_schema(name)} for name in names
                ]
        components = {
            "securitySchemes": _SECURITY,
            "parameters": {"IfNoneMatch": _IF_NONE_MATCH},
            "responses": _RESPONSES,
            "schemas": dict(sorted(self.schemas.items())),
        }
        return {**_HEAD, "paths": paths | {"/openapi.yaml": _THIS_FILE}, "components": components}

    def operation(self, route: Route) -> dict[str, Any]:
        """One method of one address."""
        function, words = answering(route)
        summary, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
        said = rest.partition("Raises:")[0].strip()
        found: dict[str, Any] = {
            "operationId": _camel(route.function.partition(":")[2]),
            "summary": re.sub(r"; raises as .*", ".", summary.replace("\n", " ")),
            **({"description": " ".join(said.split())} if said else {}),
            "x-resource": route.resource,
        }
        given = [_parameter(name, word) for name, word in words.known.items()] if route.method != "POST" else []
        if not route.acts:
            given.append({"$ref": "#/components/parameters/IfNoneMatch"})
        if given:
            found["parameters"] = given
        if route.method == "POST" and words.known:
            found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _body(function)}}}
        found["responses"] = dict(self.responses(route, words.answer, asked=bool(words.known) or route.acts))
        return found

    def responses(self, route: Route, answer: Any, *, asked: bool) -> Iterator[tuple[str, Any]]:
        """What may come back, by status."""

        def told(description: str, model: Any) -> dict[str, Any]:
            return {"description": description, "content": {"application/json": {"schema": self.schema_of(model)}}}

        yield str(route.status), told(inspect.getdoc(answer) or "", answer)
        if not route.acts:
            yield "304", {"$ref": "#/components/responses/NotModified"}
        if asked:
            yield "400", {"$ref": "#/components/responses/NotUnderstood"}
        yield "403", {"$ref": "#/components/responses/Refused"}
        if "{" in route.path:
            yield "404", {"$ref": "#/components/responses/NotThere"}
        if route.conflict:
            yield "409", told(route.conflict, models.TooLate if answer is models.Decision else models.Refusal)
        if answer is models.Decision:
            yield "410", told("The deadline is over, which is a denial.", models.Refusal)
        yield "503", {"$ref": f"#/components/responses/{'NoMemory' if route.remembers else 'NoJournal'}"}

    def schema_of(self, model: Any) -> dict[str, str]:
        """A reference to a model, which is described once."""
        schema = TypeAdapter(model).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        for name, part in schema.pop("$defs", {}).items():
            self.schemas[name] = _plain(part)
        if "$ref" not in schema:
            self.schemas[model.__name__] = _plain(schema)
        return {"$ref": f"#/components/schemas/{model.__name__}"}


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _name_schema(name: str) -> dict[str, str]:
    return {"type": "string"} | ({"pattern": f"^{NAMES[name]}$"} if name in NAMES else {})


def _parameter(name: str, word: Any) -> dict[str, Any]:
    said = {"description": word.says} if word.says else {}
    return {"name": name, "in": "query", **said, "schema": word.schema()}


def _body(function: Any) -> dict[str, Any]:
    """The object that a function is sent."""
    words = Words.of(function)
    arguments = inspect.signature(function).parameters
    properties: dict[str, Any] = {}
    for name, word in words.known.items():
        properties[name] = word.schema() | ({"description": word.says} if word.says else {})
        if arguments[name].default in ("", ()) and isinstance(word, Text) and not word.pattern:
            properties[name]["default"] = ""
    needed = [name for name in properties if name in words.needed]
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": properties}


def _plain(schema: Any) -> Any:
    """A schema of pydantic's as one writes it by hand: without titles, and a simple type that may be null as one."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if found.get("additionalProperties") is True:
        del found["additionalProperties"]
    elif found.get("type") == "object" and "properties" in found and found.get("description", "") not in _OPEN:
        found["additionalProperties"] = False
    if "enum" in found or "const" in found:
        found.pop("type", None)
    match found.get("anyOf"):
        case [{"type": str() as kind, **bounds}, {"type": "null"}] if kind != "array" and "pattern" not in bounds:
            del found["anyOf"]
            found |= {"type": [kind, "null"], **bounds}
        case [{"enum": [*words]}, {"type": "null"}]:
            del found["anyOf"]
            found["enum"] = [*words, None]
    return found


_OPEN = {inspect.getdoc(models.Event)}
"""What has further fields."""


def document() -> str:
    """The OpenAPI file."""
    return yaml.safe_dump(_Described().whole(), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


# What the sidebar reads; the rest it only sends for.
_READ = (
    models.Status,
    models.Runs,
    models.RunCard,
    models.Approvals,
    models.Decision,
    models.Leases,
    models.Costs,
    models.Plugins,
    models.PluginAudit,
    models.Memories,
    models.MemoryInFull,
    models.MemoryGrown,
    models.Lessons,
    models.MemoryCounts,
    models.Settings,
)


class _Sidebar:
    """Types and readers in TypeScript, each after those that it is made of."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._written: dict[str, str] = {}

    def whole(self) -> str:
        """The file."""
        for model in _READ:
            self._write(model.__name__)
        body = "\n\n".join(self._written.values())
        return f"{_SIDEBAR_HEAD}\n\n{body}\n"

    def _write(self, name: str) -> None:
        if name in self._written:
            return
        schema = self._schemas[name]
        bases = (one.__name__ for one in getattr(models, name).__orig_bases__)
        base = next((one for one in bases if one in self._schemas), "")
        if base:
            self._write(base)
        known = self._schemas[base]["properties"] if base else {}
        fields = {field: self._field(part) for field, part in schema["properties"].items() if field not in known}
        lines = []
        for field, (kind, _) in fields.items():
            if said := schema["properties"][field].get("description"):
                lines.append(textwrap.indent(_comment(said), "  "))
            lines.append(f"  readonly {field}: {kind};")
        readers = ",\n".join(f"  {field}: {reader}" for field, (_, reader) in fields.items())
        extends, own = (f" extends I{base}", f"Omit<I{name}, keyof I{base}>") if base else ("", f"I{name}")
        reader = f"object<{own}>({{\n{readers}\n}})"
        if base:
            reader = f"both(\n  read{base},\n{textwrap.indent(reader, '  ')}\n)"
        self._written[name] = "\n".join(
            [
                _comment(schema["description"]),
                f"export interface I{name}{extends} {{",
                *lines,
                "}\n",
                f"export const read{name} = {reader};",
            ]
        )

    def _field(self, part: Mapping[str, Any]) -> tuple[str, str]:
        """The type of a field, and what reads it."""
        if "anyOf" in part:
            (inner,) = [one for one in part["anyOf"] if one.get("type") != "null"]
            kind, reader = self._field(inner)
            return f"{kind} | null", self._with_key("orNull", inner, reader) if "$ref" in inner else f"{reader}OrNull"
        if name := part.get("$ref", "").rpartition("/")[2]:
            self._write(name)
            return f"I{name}", f"read{name}"
        return self._one_of(part) if "enum" in part or "const" in part else self._of_type(part)

    def _of_type(self, part: Mapping[str, Any]) -> tuple[str, str]:
        match part["type"]:
            case "array":
                kind, reader = self._field(part["items"])
                return f"readonly {kind}[]", self._with_key("listOf", part["items"], reader)
            case "object" if "additionalProperties" in part:
                kind, reader = self._field(part["additionalProperties"])
                return f"Readonly<Record<string, {kind}>>", f"mapOf({reader})"
            case [kind, "null"]:
                return f"{_SIMPLE[kind][0]} | null", f"{_SIMPLE[kind][1]}OrNull"
            case kind:
                name, reader = _SIMPLE[kind]
                return name, f"otherwise({part['x-otherwise']!r})".lower() if "x-otherwise" in part else reader

    def _one_of(self, part: Mapping[str, Any]) -> tuple[str, str]:
        words = part.get("enum", [part.get("const")])
        if "x-otherwise" in part:
            told = " | ".join(repr(word) for word in words)
            return told, f"oneOf([{', '.join(map(repr, words))}], {part['x-otherwise']!r})"
        # A word that a newer server has is shown as it is.
        return ("string | null", "textOrNull") if None in words else ("string", "text")

    def _with_key(self, combinator: str, part: Mapping[str, Any], reader: str) -> str:
        properties = self._schemas[part["$ref"].rpartition("/")[2]]["properties"] if "$ref" in part else {}
        key = next((f", {name!r}" for name, field in properties.items() if field.get("x-key")), "")
        return f"{combinator}({reader}{key})"


_SIMPLE = {
    "string": ("string", "text"),
    "integer": ("number", "number"),
    "number": ("number", "number"),
    "boolean": ("boolean", "flag"),
    "object": ("Readonly<Record<string, unknown>>", "fields"),
    "null": ("null", "nothing"),
}
"""Types of JSON as those of TypeScript, each with what reads it."""

_SIDEBAR_HEAD = """/**
 * What the server answers: types, and readers of its JSON, made by `dev/server_api.py`.
 */
import {
  both,
  fields,
  flag,
  flagOrNull,
  listOf,
  mapOf,
  nothing,
  number,
  numberOrNull,
  object,
  oneOf,
  orNull,
  otherwise,
  text,
  textOrNull
} from './decode.js';"""


def _comment(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), 116)
    return f"/** {lines[0]} */" if len(lines) == 1 else "\n".join(["/**", *(f" * {line}" for line in lines), " */"])


def sidebar() -> str:
    """The sidebar's types and readers."""
    described = _Described()
    described.whole()
    return _Sidebar(described.schemas).whole()


def main() -> None:
    """Write both."""
    OPENAPI.write_text(document(), "utf-8")
    SCHEMA.write_text(sidebar(), "utf-8")


if __name__ == "__main__":
    main()
