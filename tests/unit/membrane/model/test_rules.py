"""What of a brain's service a box may use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kagura_kernel.membrane.credentials.injection.head import BadRequest
from kagura_kernel.membrane.model.rules import check_body, check_head, kept_headers

ASK: dict[str, Any] = {"model": "m-1", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}


def asked(**more: Any) -> bytes:
    return json.dumps({**ASK, **more}).encode()


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"POST", b"/v1/messages"),
        (b"POST", b"/v1/messages?beta=true"),
        (b"POST", b"/v1/messages/count_tokens?beta=true"),
        (b"GET", b"/v1/models"),
        (b"HEAD", b"/"),
    ],
)
def test_what_a_brain_thinks_with_passes(method: bytes, target: bytes) -> None:
    check_head(method, target)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        (b"GET", b"/v1/messages"),
        (b"DELETE", b"/v1/messages"),
        (b"POST", b"/v1/messages/"),
        (b"POST", b"//v1/messages"),
        (b"POST", b"/v1/Messages"),
        (b"POST", b"/v1/messages%2fbatches"),
        (b"POST", b"/v1/messages/batches"),
        (b"POST", b"/v1/messages?beta=true&x=1"),
        (b"POST", b"/v1/files"),
        (b"POST", b"/v1/complete"),
        (b"GET", b"/v1/files"),
        (b"GET", b"/v1/organizations/me"),
        (b"GET", b"/"),
        (b"POST", b""),
    ],
)
def test_every_other_path_method_and_query_is_refused(method: bytes, target: bytes) -> None:
    with pytest.raises(BadRequest, match="no part of what a sealed brain uses"):
        check_head(method, target)


def test_a_plain_request_tells_its_model() -> None:
    tools = [{"name": "Bash", "input_schema": {}}, {"type": "custom", "name": "x"}, {"type": "bash_20250124"}]
    assert check_body(asked(tools=tools, system=[{"type": "text", "text": "be good"}])) == "m-1"


@pytest.mark.parametrize(
    "more",
    [
        {"mcp_servers": [{"type": "url", "url": "https://a.example"}]},
        {"container": {"skills": []}},
        {"container": "container_1"},
        {"speed": "fast"},
        {"fetch_this": "https://a.example"},
        {"service_tier": "auto"},
        {"inference_geo": "us"},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
        {"tools": [{"type": "something_new_20300101"}]},
        {"tools": [{"type": ["custom"]}]},
        {"tools": ["web_search"]},
        {"tools": {"type": "web_search_20250305"}},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
        {"messages": [{"content": [{"type": "tool_result", "content": [{"source": {"file_id": "f"}}]}]}]},
        {"system": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]},
        {"tools": [{"type": "memory_cloud_20300101", "name": "memory"}]},
        {"tools": [{"type": "bash_", "name": "bash"}]},
        {"tools": [{"type": "computer_20990101", "name": "computer"}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "bucket", "name": "b"}}]}]},
        {"messages": [{"content": [{"type": "image", "source": {"data": "…"}}]}]},
        {"messages": [{"content": [{"type": "image", "source": {"type": ["base64"]}}]}]},
        {"messages": [{"content": [{"type": "image", "source": [{"type": "base64"}]}]}]},
    ],
)
def test_what_the_service_would_reach_out_for_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        check_body(asked(**more))


def test_what_lies_in_the_request_itself_passes() -> None:
    text = {"type": "text", "media_type": "text/plain", "data": "hello"}
    whole = {"type": "content", "content": [{"type": "text", "text": "hello"}]}
    image = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    found = {"type": "search_result", "source": "https://a.example", "title": "t", "content": []}
    content = [{"type": "document", "source": text}, {"type": "document", "source": whole}, found]
    told = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": image}]}
    assert check_body(asked(messages=[{"role": "user", "content": [*content, told]}])) == "m-1"


def test_what_a_model_says_to_its_tools_may_be_anything() -> None:
    use = {"type": "tool_use", "name": "x", "input": {"type": "url", "file_id": "mine", "url": "https://a.example"}}
    schema = {"type": "object", "properties": {"type": {"const": "url"}}}
    tools = [{"name": "x", "input_schema": schema}]
    assert check_body(asked(messages=[{"role": "assistant", "content": [use]}], tools=tools)) == "m-1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"no json",
        b'{"messages": []}',
        b'{"model": 1}',
        b'{"model": "a", "model": "b"}',
        b'{"model":"a","messages":[{"content":[],"content":[{"type":"image"}]}]}',
        b'{"model": "a"} {"model": "b"}',
        b'\xff\xfe{"model": "a"}',
        b'{"a":' * 100_000,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        check_body(body)


def test_headers_that_are_not_known_stay_in_the_box() -> None:
    given = [
        (b"content-type", b"application/json"),
        (b"anthropic-version", b"2023-06-01"),
        (b"x-stainless-os", b"Linux"),
        (b"x-api-key", b"of somebody else"),
        (b"authorization", b"Bearer of somebody else"),
        (b"x-anything", b"1"),
    ]
    assert [name for name, _ in kept_headers(given)] == [b"content-type", b"anthropic-version", b"x-stainless-os"]
