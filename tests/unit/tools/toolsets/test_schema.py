"""Schemas of servers, made harmless."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from kagura_kernel.tools.toolsets.foreign_tools import MAX_NODES, MAX_TEXT, SchemaRefused, clean_schema

MOST = 32 * 1024
KEYS = [
    *("type", "properties", "items", "required", "enum", "anyOf", "allOf", "$ref", "$defs", "minimum", "minLength"),
    *("additionalProperties", "pattern", "description", "default", "const", "prefixItems", "format", "not"),
]
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "#", "#/$defs/a", "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "a", "b"]), inner, max_size=4),
    max_leaves=20,
)


def test_what_a_brain_needs_stays_and_what_can_take_for_ever_goes():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "(a+)+$", "minLength": 1, "description": "Whose.", "format": "x"},
            "at": {"$ref": "#/$defs/place", "description": "Where."},
            "kind": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}], "default": "a"},
            "many": {"type": "array", "items": {"type": ["integer", "null"]}, "uniqueItems": True},
        },
        "required": ["name", "none"],
        "oneOf": [{"required": ["name"]}],
        "additionalProperties": False,
        "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "A place."}},
    }
    assert clean_schema(schema, most=MOST) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "description": "Whose."},
            "at": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "Where."},
            "kind": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}], "default": "a"},
            "many": {"type": "array", "items": {"type": ["integer", "null"]}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert clean_schema({}, most=MOST) == {"type": "object", "properties": {}, "required": []}


def test_texts_in_a_schema_hold_nothing_that_nobody_would_see():
    hidden = "Adds.\U000e0041\U000e0042\x1b[2J\u202e"
    schema = {
        "properties": {"a": {"type": "string", "title": hidden, "description": "x" * 9000}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "string", "description": hidden}},
        "description": hidden,
    }
    found = clean_schema(schema, most=32_768)
    assert found["description"] == found["properties"]["a"]["title"] == "Adds.???[2J?"
    assert found["properties"]["b"]["description"] == "Adds.???[2J?"
    assert len(found["properties"]["a"]["description"]) == MAX_TEXT


def test_a_tree_of_its_own_kind_ends():
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    found = clean_schema({"properties": {"tree": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}, most=MOST)
    assert found["properties"]["tree"]["properties"]["children"] == {"type": "array", "items": {}}
    whole = clean_schema({"type": "object", "properties": {"a": {"$ref": "#"}}}, most=MOST)
    assert whole["properties"]["a"] == {"type": "object", "properties": {"a": {}}}


def doubling(levels: int) -> dict[str, Any]:
    """A few lines that are two to the power of `levels` when they are written out."""
    below = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**below, f"d{levels}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "no object"),
        ({"type": "array"}, "no object"),
        ({"properties": {"a": {"$ref": "https://example.org/x.json"}}}, "outside of it"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "outside of it"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "does not hold"),
        ({"properties": {"a b": {}}}, "a name that cannot be offered"),
        ({"properties": {"a": {"description": "x" * MOST}}}, "longer than"),
        (doubling(40), "too large when its references are written out"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_a_reason(schema, why):
    with pytest.raises(SchemaRefused, match=why):
        clean_schema(schema, most=MOST)


def schemas_in(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema and all within it."""
    within = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    within += [one for key in ("anyOf", "oneOf", "allOf", "prefixItems") for one in schema.get(key, [])]
    return [schema, *(inner for one in within if isinstance(one, dict) for inner in schemas_in(one))]


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), VALUES)
def test_whatever_is_offered_is_a_schema_without_references_and_can_be_checked_against(schema, arguments):
    try:
        found = clean_schema(schema, most=MOST)
    except SchemaRefused:
        return
    jsonschema.Draft202012Validator.check_schema(found)
    every = schemas_in(found)
    assert not any({"$ref", "$defs", "pattern", "not", "format"} & one.keys() for one in every)
    assert len(every) <= MAX_NODES
    list(jsonschema.Draft202012Validator(found).iter_errors(arguments))


def test_a_row_of_references_ends_the_schema_and_nothing_else() -> None:
    row = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(900)} | {"d900": {"type": "string"}}
    with pytest.raises(SchemaRefused, match="without end"):
        clean_schema({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": row}, most=MOST)
